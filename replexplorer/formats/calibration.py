"""The file of a calibration: the fitted parameters with the runs that they were fitted to.

One ships with the program; a sweep writes this machine's own next to the other state. Law: a file that
cannot be used is said in one line, and the shipped one is used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from replexplorer.core.errors import UsageError
from replexplorer.core.json_keys import json_keys
from replexplorer.core.model.fitted import Calibration, CalibrationRun
from replexplorer.core.records import frozen, replace
from replexplorer.formats.files import first_error, read_text, whole_file

VERSION: Final = 3
"""Of the file's shape and of what its parameters mean."""
MOST_BYTES: Final = 1 << 22
"""Of the file: some ten thousand runs."""


class _CalibrationFile(BaseModel):
    """The file's shape."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    version: Literal[3]
    calibration: Calibration
    runs: tuple[CalibrationRun, ...]


@json_keys(
    hide="calibration runs problem",
    show="origin day=calibration.day machine=calibration.machine server=calibration.server"
    " runs=calibration.runs cells=calibration.validation.cells"
    " median_error=calibration.validation.median_error p90_error=calibration.validation.p90_error"
    " noise=calibration.validation.noise",
)
@frozen
class Calibrated:
    """A calibration with its runs and where it was read."""

    calibration: Calibration
    runs: tuple[CalibrationRun, ...]
    file: Path
    problem: str | None = None
    """Why the machine's own one is not used, in one line; None when it is, or there is none."""

    @property
    def origin(self) -> Literal["shipped", "own"]:
        """Whose runs it was fitted to."""
        return "shipped" if self.calibration.is_shipped else "own"


def load_calibration(file: Path) -> Calibrated:
    """This machine's own calibration, or the shipped one where there is none or it cannot be used."""
    if not file.exists():
        return shipped_calibration()
    try:
        return read_calibration(file)
    except UsageError as error:
        return replace(shipped_calibration(), problem=f"{error}; the shipped calibration is used")


def read_calibration(file: Path) -> Calibrated:
    """Read one file; raises UsageError."""
    try:
        read = _CalibrationFile.model_validate_json(read_text(file, "calibration", MOST_BYTES))
    except ValidationError as error:
        where, what = first_error(error)
        reason = f"{'.'.join(map(str, where))} {what}".strip()
        raise UsageError(f"{file} is not a calibration of version {VERSION}", reason) from None
    return Calibrated(read.calibration, read.runs, file)


SHIPPED_FILE: Final = Path(__file__).with_name("shipped_calibration.json")
"""The calibration that ships: next to this module, in a wheel as in a checkout."""


def shipped_calibration() -> Calibrated:
    """The one that ships."""
    read = read_calibration(SHIPPED_FILE)
    return replace(read, calibration=replace(read.calibration, is_shipped=True))


def save_calibration(calibration: Calibration, runs: Sequence[CalibrationRun], file: Path) -> None:
    """Write whole or not at all; raises UsageError when that cannot be."""
    content = _CalibrationFile(version=VERSION, calibration=calibration, runs=tuple(runs))
    with whole_file(file, parents=True) as stream:
        stream.write(content.model_dump_json(indent=1, exclude_defaults=True) + "\n")


def this_machine() -> str:
    """`2 cores, 8 GB, Linux 6.1 x86_64`, as a calibration names where it was measured."""
    cores = os.cpu_count() or 1
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    system = os.uname()
    kernel = ".".join(system.release.split("-")[0].split(".")[:2])
    return f"{cores} cores, {memory_gb:.0f} GB, {system.sysname} {kernel} {system.machine}"
