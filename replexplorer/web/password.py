"""The file with the password of a server: one line that only its owner can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.formats.small_file import read_text

_MOST_BYTES: Final = 1024


def read_password(file: Path) -> str:
    """The password in a file; raises UsageError in one line, which never has any of it."""
    text = read_text(file, "password file", _MOST_BYTES).rstrip("\r\n")
    found = os.stat(file)
    if stat.S_IMODE(found.st_mode) & 0o077:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise UsageError(f"password file {file}: others may open it (mode {mode})", f"chmod 600 {file}")
    if found.st_uid not in (os.geteuid(), 0):
        raise UsageError(f"password file {file} is another user's", "name one of your own")
    if not text.strip():
        raise UsageError(f"password file {file} is empty", "write the password into its first line")
    if "\n" in text or "\r" in text:
        raise UsageError(f"password file {file} has several lines", "the password is one line")
    return text
