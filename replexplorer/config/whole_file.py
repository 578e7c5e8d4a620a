"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from replexplorer.core.errors import UsageError


def unwritable(path: Path, error: OSError) -> UsageError:
    """What to raise for a file or directory that cannot be written."""
    return UsageError(f"cannot write {path}", (error.strerror or str(error)).lower())


@contextmanager
def whole_file(file: Path, *, parents: bool = False) -> Iterator[TextIO]:
    """A stream for the file's text: the file is made or replaced when the block ends well, and stays as it
    was when it does not. It keeps its mode. A pipe or a device is written to as it stands.

    `parents`: directories that are missing are made. Raises UsageError naming the file when it cannot be
    written.
    """
    try:
        if parents:
            file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            with file.open("w", encoding="utf-8", newline="") as stream:
                yield stream
            return
        target = file.resolve()
        part = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with part.open("w", encoding="utf-8", newline="") as stream:
                if target.exists():
                    shutil.copymode(target, part)
                yield stream
            part.replace(target)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(file, error) from None
