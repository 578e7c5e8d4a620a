"""Which recorded session a name means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from replexplorer.core.errors import UsageError
from replexplorer.formats import paths
from replexplorer.formats.paths import expanded

if TYPE_CHECKING:
    from replexplorer.adapters.recording import SessionReader

_TOUR: Final = "tour"
_LAST: Final = "last"
RECORDING: Final = "a session file, the name of one in the sessions directory, `last` or `tour`"
"""What `file_of` reads, for the help."""


def opened(name: str) -> SessionReader:
    """The session of this name; raises UsageError."""
    from replexplorer.adapters.recording import SessionReader

    return SessionReader(file_of(name))


def file_of(name: str) -> Path:
    """A path, a file of the sessions directory, `last` (the newest there) or `tour` (the one that ships);
    raises UsageError naming the newest ones."""
    from replexplorer.adapters.recording import SUFFIX

    given = expanded(name)
    if given.exists():
        return given
    directory = paths.sessions_directory()
    recorded = sorted(directory.glob(f"*{SUFFIX}"), reverse=True)
    if name == _LAST and recorded:
        return recorded[0]
    if name == _TOUR:
        return paths.shipped_tour()
    for candidate in (directory / name, directory / f"{name}{SUFFIX}"):
        if candidate.is_file():
            return candidate
    newest = ", ".join(file.stem for file in recorded[:3])
    raise UsageError(
        f"no recording {name}", f"the newest are {newest}; {_LAST}, {_TOUR}" if newest else f"try {_TOUR}"
    )
