"""The directory of a `--report`: made before the work begins, filled when it is done."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from replexplorer.core.printable import LAYOUT, printable
from replexplorer.formats.paths import expanded
from replexplorer.formats.whole_file import unwritable, whole_binary_file, whole_file

_SESSION: Final = "session.rxs"
_JSON: Final = ".json"
"""Ends the name of a file for programs, which has its own escapes."""


def report_directory(name: str | None) -> Path | None:
    """The directory that was asked for, and that can be written to; raises UsageError."""
    if name is None:
        return None
    directory = expanded(name)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise unwritable(directory, error) from None
    return directory


def write_files(
    directory: Path,
    contents: Mapping[str, str],
    session: str | None = None,
    parts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write texts by name, and a copy of the recorded session, or of each of its `parts` by name, readable by
    its owner alone as the session is; answers what was written in words. Raises UsageError."""
    names = list(contents)
    for name, text in contents.items():
        with whole_file(directory / name) as stream:
            stream.write(text if name.endswith(_JSON) else printable(text, LAYOUT))
    sessions = {} if session is None else {_SESSION: session}
    sessions |= {f"session-{part}.rxs": recorded for part, recorded in parts.items()}
    for name, recorded in sessions.items():
        with whole_binary_file(directory / name, mode=0o600) as copy, open(recorded, "rb") as stream:
            shutil.copyfileobj(stream, copy)
        names.append(name)
    return f"wrote {directory}/{', '.join(names[:-1])} and {names[-1]}"
