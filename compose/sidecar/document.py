"""The requested document: one JSON file, versioned, written compare-and-set and atomically, by any agent
of the stack."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from claims import locked


class DocumentFile:
    """The file on the stack's tools volume; it outlives the sidecar."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = path.with_name(f".{path.name}.lock")

    def read(self) -> tuple[int, dict[str, Any]]:
        """Version and content; (0, {}) when nothing was ever written. A file that is no document is
        set aside as `.broken`: it must not keep the stack from being used."""
        with locked(self._lock):
            return self._read()

    def _read(self) -> tuple[int, dict[str, Any]]:
        try:
            document = json.loads(self._path.read_bytes())
            version, content = document["version"], document["content"]
            if not isinstance(version, int) or not isinstance(content, dict):
                raise TypeError("no document")
        except FileNotFoundError:
            return 0, {}
        except (ValueError, KeyError, TypeError):
            self._path.replace(self._path.with_suffix(".broken"))
            return 0, {}
        return version, content

    def write(self, expect_version: int, content: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """Write the next version if the present one is as expected; None when it is not."""
        with locked(self._lock):
            if self._read()[0] != expect_version:
                return None
            version = expect_version + 1
            write_durably(self._path, json.dumps({"version": version, "content": content}).encode())
        return version, content


def write_durably(path: Path, text: bytes) -> None:
    """Replace a file in one step; it is on disk when this returns."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
