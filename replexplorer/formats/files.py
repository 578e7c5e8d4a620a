"""Files of any origin, read whole within a bound; and files that are written whole or not at all.

Laws: whatever lies there - a pipe, a device, gigabytes - costs a bounded time and memory and ends in one
error that names the file. What is not whole yet lies in its place's directory under a name that cannot be
guessed, made new (never opened: no link is followed, no file of others is taken), for its owner alone.
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


def opened(file: Path) -> BinaryIO:
    """A regular file, to read. Raises OSError, which names what is none."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    _refuse_what_is_no_file(os.stat(file).st_mode)  # a device may do something when it is opened
    stream = os.fdopen(os.open(file, flags), "rb")
    try:
        _refuse_what_is_no_file(os.fstat(stream.fileno()).st_mode)
    except OSError:
        stream.close()
        raise
    return stream


def read_bytes(file: Path, most_bytes: int) -> bytes:
    """All of a regular file. Raises OSError, which names what is no regular file or is too large."""
    with opened(file) as stream:
        too_large = os.fstat(stream.fileno()).st_size > most_bytes
        content = b"" if too_large else stream.read(most_bytes + 1)
    if too_large or len(content) > most_bytes:  # it may have grown meanwhile
        raise OSError(0, f"is larger than {size_text(most_bytes)}")
    return content


def size_text(size: int) -> str:
    """`64 KB`, `1 MB`."""
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def read_text(file: Path, what: str, most_bytes: int) -> str:
    """A text in UTF-8; raises UsageError in one line, `what` being the kind of file in words."""
    try:
        return read_bytes(file, most_bytes).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"no such {what}: {file}", "name a file that exists") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read {what} {file}", f"{reason[:1].lower()}{reason[1:]}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}", "is not UTF-8 text") from None


def _refuse_what_is_no_file(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(0, "Is a directory" if stat.S_ISDIR(mode) else "is a pipe or a device, not a file")


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
