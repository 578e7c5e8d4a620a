"""Files that are written whole or not at all.

Law: what is not whole yet lies beside its place under a name that nobody can guess, made new (never
opened: no link is followed, no file of others is taken) and readable by its owner alone.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from replexplorer.core.errors import MissingPiece, UsageError


def unwritable(path: Path, error: OSError) -> UsageError:
    """What to raise for a file or directory that cannot be written."""
    return UsageError(f"cannot write {path}", (error.strerror or str(error)).lower())


@contextmanager
def whole_file(file: Path, *, parents: bool = False, mode: int | None = None) -> Iterator[TextIO]:
    """A stream for the file's text: the file is made or replaced when the block ends well, and stays as it
    was when it does not. It gets `mode`, else keeps its own. A pipe or a device is written to as it stands.

    `parents`: it is the program's own: directories that are missing are made, for its owner alone as a new
    file is. Raises UsageError naming the file when it cannot be
    written.
    """
    with whole_binary_file(file, parents=parents, mode=mode) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()


@contextmanager
def whole_binary_file(file: Path, *, parents: bool = False, mode: int | None = None) -> Iterator[BinaryIO]:
    """As `whole_file`, for bytes."""
    try:
        if parents:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mode = mode if mode is not None or file.exists() else 0o600
        if file.exists() and not file.is_file():
            with file.open("wb") as stream:
                yield stream
            return
        target = file.resolve()
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                os.fchmod(descriptor, _mode_of(target, mode))
            part.replace(target)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(file, error) from None


def keep_record(file: Path, content: Mapping[str, object]) -> None:
    """Write one of the program's own records as JSON, mode 0600 in directories of mode 0700; raises
    MissingPiece when it cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with whole_file(file, mode=0o600) as stream:
            stream.write(json.dumps(content, indent=1) + "\n")
    except (OSError, UsageError) as error:
        raise MissingPiece(f"cannot write {file}", str(error)) from None


def _mode_of(target: Path, wanted: int | None) -> int:
    """The wanted mode; else that of the file that is replaced, or what the umask leaves."""
    if wanted is not None:
        return wanted
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0o077)
    os.umask(umask)
    return 0o666 & ~umask
