"""`python -m tests.bench.calibration [FILE]`: ship a calibration, by default this machine's last sweep's.

Its runs are fitted again, so that what ships is what this fit makes of them; docs/model.md follows.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from replexplorer.cli.calibrating import errors_markdown
from replexplorer.core.model.fit import Origin, fit
from replexplorer.formats import paths
from replexplorer.formats.calibration import (
    read_calibration,
    save_calibration,
    shipped_calibration,
    shipped_file,
)

PAGE = Path(__file__).parents[2] / "docs" / "model.md"
BEGINS = "<!-- prediction: drawn from the shipped calibration -->\n"
ENDS = "<!-- end of prediction -->"


def main(file: Path) -> None:
    """Fit, save, and redraw the table."""
    read = read_calibration(file)
    old = read.calibration
    fitted = fit(read.runs, Origin(old.day, old.machine, old.server))
    save_calibration(replace(fitted, is_shipped=False), read.runs, shipped_file())
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    table = errors_markdown(shipped_calibration())
    PAGE.write_text(f"{before}{BEGINS}{table}\n{ENDS}{after}", encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else paths.calibration_file())
