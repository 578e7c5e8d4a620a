"""A user's workload: a file of SQL, checked before anything runs."""

from __future__ import annotations

from pathlib import Path

from replexplorer.core.load.script import LARGEST_BYTES, read_script
from replexplorer.formats.files import read_text
from replexplorer.formats.paths import expanded


def read_workload(path: Path) -> str:
    """The text, checked; raises UsageError naming file and line."""
    text = read_text(path, "workload", LARGEST_BYTES)
    read_script(text, str(path))
    return text


def workload_file(written: str) -> tuple[str, str]:
    """The file's path, the same from any directory, and its text, checked; raises UsageError."""
    path = expanded(written).absolute()
    return str(path), read_workload(path)
