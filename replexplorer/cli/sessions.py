"""Which recorded session a name means."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replexplorer.core.errors import UsageError
from replexplorer.formats import paths
from replexplorer.formats.configuration import ENV_PREFIX
from replexplorer.formats.paths import expanded

if TYPE_CHECKING:
    from replexplorer.adapters.recording import SessionReader
    from replexplorer.cli.entry import Call

_TOUR: Final = "tour"
_LAST: Final = "last"
RECORDING: Final = "a session file, the name of one in the sessions directory, `last` or `tour`"
"""What `file_of` reads, for the help."""


def opened(name: str, stack: str | None = None) -> SessionReader:
    """The session of this name; raises UsageError."""
    from replexplorer.adapters.recording import SessionReader

    return SessionReader(file_of(name, stack))


def opened_for(call: Call) -> SessionReader:
    """The session that a verb's FILE names: `last` is of the stack that is named, if one is, and is said."""
    reader = opened(call.args.file, call.args.stack or os.environ.get(f"{ENV_PREFIX}STACK"))
    if call.args.file == _LAST:
        call.console.narrate(f"{reader.file}, of stack {reader.about.get('stack', '?')}")
    return reader


def file_of(name: str, stack: str | None = None) -> Path:
    """A path, a file of the sessions directory, `last` (the newest there, of a stack where one is named) or
    `tour` (the one that ships); raises UsageError naming the newest ones."""
    from replexplorer.adapters.recording import SUFFIX

    given = expanded(name)
    if given.exists():
        return given
    directory = paths.sessions_directory()
    recorded = sorted(directory.glob(f"*{SUFFIX}"), reverse=True)
    if name == _LAST and stack is not None:
        recorded = [file for file in recorded if _is_of(file, stack)]
    if name == _LAST and recorded:
        return recorded[0]
    if name == _TOUR:
        return paths.shipped_tour()
    for candidate in (directory / name, directory / f"{name}{SUFFIX}"):
        if candidate.is_file():
            return candidate
    newest = ", ".join(file.stem for file in recorded[:3])
    of = "" if name != _LAST or stack is None else f" of stack {stack}"
    raise UsageError(
        f"no recording {name}{of}", f"the newest are {newest}; {_LAST}, {_TOUR}" if newest else f"try {_TOUR}"
    )


def _is_of(file: Path, stack: str) -> bool:
    """Whether a file is a readable recording of this stack."""
    try:
        with closing(opened(str(file))) as reader:
            return reader.about.get("stack") == stack
    except UsageError:
        return False
