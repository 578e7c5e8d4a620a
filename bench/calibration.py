"""`python -m bench.calibration [FILE...]`: ship a calibration, by default this machine's last sweep's.

FILE is a calibration, or the journal of a sweep (`$XDG_STATE_HOME/replexplorer/sweeps`); of several the runs
are taken together. They are fitted again, so that what ships is what this fit makes of them;
docs/measurements/calibration.md and README.md follow.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from bench.prediction_tables import validation_markdown
from replexplorer.cli.sweep import calibration_run
from replexplorer.core.experiment.sweep_result import SweptRun
from replexplorer.core.model.fit import Origin, fit
from replexplorer.core.model.fitted import CalibrationRun
from replexplorer.formats import paths
from replexplorer.formats.calibration import (
    SHIPPED_FILE,
    read_calibration,
    save_calibration,
    shipped_calibration,
    this_machine,
)

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "measurements" / "calibration.md"
README = ROOT / "README.md"
SAID = re.compile(r"median error \d+ % over \d+ cells, cross-validated")
BEGINS = "<!-- prediction: drawn from the shipped calibration -->\n"
ENDS = "<!-- end of prediction -->"


def main(files: Sequence[Path]) -> None:
    """Fit, save, and redraw the tables."""
    runs: list[CalibrationRun] = []
    for file in files:
        found, origin = read_sweep(file) if file.suffix == ".jsonl" else read_fitted(file)
        runs += found
    fitted = fit(runs, origin)
    save_calibration(fitted.calibration, fitted.runs, SHIPPED_FILE)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    tables = validation_markdown(shipped_calibration())
    PAGE.write_text(f"{before}{BEGINS}{tables}\n{ENDS}{after}", encoding="utf-8")
    said = SAID.sub(str(fitted.calibration.validation), README.read_text(encoding="utf-8"))
    README.write_text(said, encoding="utf-8")
    print(tables)


def read_fitted(file: Path) -> tuple[list[CalibrationRun], Origin]:
    """A calibration's runs, and where they came from."""
    read = read_calibration(file)
    return list(read.runs), Origin(read.calibration.day, read.calibration.machine, read.calibration.server)


def read_sweep(file: Path) -> tuple[list[CalibrationRun], Origin]:
    """A sweep's runs that count; it ran on this machine."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    swept = [TypeAdapter(SweptRun).validate_python(line["run"]) for line in lines if "run" in line]
    day = datetime.fromtimestamp(swept[-1].started_wall_s, UTC).date().isoformat()
    runs = [run for each in swept if (run := calibration_run(each)) is not None]
    return runs, Origin(day, this_machine(), lines[0]["server"])


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]] or [paths.calibration_file()])
