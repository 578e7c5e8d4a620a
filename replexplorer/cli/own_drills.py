"""Drills by name: those that ship, and the user's own TOML files."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import Drill
from replexplorer.formats import paths
from replexplorer.formats.drill_files import read_drill
from replexplorer.formats.paths import expanded

_SUFFIX: Final = ".toml"


@cache
def shipped_drills() -> dict[str, Drill]:
    """Those that ship, by name."""
    return {file.stem: read_drill(file) for file in sorted(paths.shipped_drills().glob(f"*{_SUFFIX}"))}


def drill_named(name: str) -> Drill:
    """A drill that ships, one of the user's drills directory, or a TOML file; raises UsageError."""
    file = own_drill_file(name)
    if file is not None:
        return read_drill(file)
    shipped = shipped_drills()
    if name not in shipped:
        known = [*shipped, *(each.stem for each in paths.toml_files(paths.drills_directory()))]
        near = get_close_matches(name, known, n=3, cutoff=0.4)
        raise UsageError(
            f"unknown drill '{name}'",
            f"did you mean {' or '.join(near)}?" if near else f"there is {', '.join(known)}",
        )
    return shipped[name]


def own_drill_file(name: str) -> Path | None:
    """The file of a drill of one's own; None for one that ships, or that is nowhere."""
    if "/" in name or name.endswith(_SUFFIX):
        return expanded(name)
    if (paths.shipped_drills() / f"{name}{_SUFFIX}").is_file():
        return None
    return {file.stem: file for file in paths.toml_files(paths.drills_directory())}.get(name)


def own_drills() -> tuple[list[tuple[Drill, Path]], list[tuple[Path, UsageError]]]:
    """The user's drills with their files, and those that cannot be used with what is wrong."""
    found, failed = [], []
    for file in paths.toml_files(paths.drills_directory()):
        try:
            if file.stem in shipped_drills():
                raise UsageError(f"{file}: the drill {file.stem} ships", "give the file another name")
            found.append((read_drill(file), file))
        except UsageError as error:
            failed.append((file, error))
    return found, failed
