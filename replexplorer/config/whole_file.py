"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from replexplorer.core.errors import UsageError


@contextmanager
def whole_file(file: Path, *, parents: bool = False) -> Iterator[TextIO]:
    """A stream for the file's text: the file is made or replaced when the block ends well, and stays as it
    was when it does not. A pipe or a device is written to as it stands.

    `parents`: directories that are missing are made. Raises UsageError naming the file when it cannot be
    written.
    """
    try:
        target = file.resolve()
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            with target.open("w", encoding="utf-8", newline="") as stream:
                yield stream
            return
        part = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with part.open("w", encoding="utf-8", newline="") as stream:
                yield stream
            part.replace(target)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {file}", (error.strerror or str(error)).lower()) from None
