"""What all apps of a stack share, as files on the volume that its agents share: the requested values, who
drives the load, whose turn it is to change knobs, which experiment runs.

Law: who has a place holds a lock (flock) on its file, through the agent that it asked. The lock ends with
the agent's process or with the app's bridge; then the app has GRACE_S to come back through any agent by its
token, and nobody comes in between. The document is written compare-and-set and in one step.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from replexplorer.core.wire import Document

GRACE_S = 5.0
LOOK_EVERY_S = 0.05
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class Holder:
    """Who has a place."""

    token: str
    """Of the app."""
    wish: dict[str, Any]
    """Who it is, and what for."""
    held: bool = True
    """An agent holds its lock; else the app has some time to come back."""


class Places:
    """The lease, the turn and the experiment, as far as this agent has to do with them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._here: dict[str, tuple[object, int, Holder]] = {}
        """What apps hold through this agent: the bridge, the locked file, who it is."""

    def holder(self, slot: str) -> Holder | None:
        """Who has it; None where nobody has."""
        if slot in self._here:
            return self._here[slot][2]
        with self._looking(slot) as (_, _, found):
            return found

    def take(self, slot: str, bridge: object, token: str, wish: dict[str, Any]) -> Holder | None:
        """Have it, or renew it; answers who has it now. None: somebody else looks at it just now."""
        _, file, before = self._here.get(slot, (None, -1, None))
        if before is not None and before.token != token:
            return before
        holder = Holder(token, wish)
        if before is not None:
            _write(file, holder)
        else:
            with self._looking(slot) as (looked, is_free, found):
                if not is_free or (found is not None and found.token != token):
                    return found
                file = os.dup(looked)  # it has the lock as well
                try:
                    _write(file, holder)
                except BaseException:
                    os.close(file)
                    raise
        self._here[slot] = bridge, file, holder
        return holder

    def has(self, slot: str, token: str) -> bool:
        """Whether this app has it through this agent."""
        return slot in self._here and self._here[slot][2].token == token

    def leave(self, slot: str, token: str) -> None:
        """Give it back; nothing where it is another's."""
        if self.has(slot, token):
            _, file, _ = self._here.pop(slot)
            os.truncate(file, 0)
            os.close(file)
            return
        with self._looking(slot) as (file, is_free, found):
            if is_free and found is not None and found.token == token:
                os.truncate(file, 0)

    def lose(self, bridge: object) -> None:
        """The bridge ended: its app has GRACE_S from now on to come back."""
        for slot, (whose, file, holder) in [*self._here.items()]:
            if whose is bridge:
                del self._here[slot]
                with contextlib.suppress(OSError):
                    _write(file, holder, lost_s=time.time())
                os.close(file)

    @contextlib.contextmanager
    def _looking(self, slot: str) -> Iterator[tuple[int, bool, Holder | None]]:
        """A place's file, whether it is ours to change meanwhile, and who has the place."""
        self._directory.mkdir(exist_ok=True)
        file = os.open(self._directory / slot, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            is_free = _locks(file)
            yield file, is_free, _found(file, is_free)
        finally:
            os.close(file)


def _locks(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _found(file: int, is_free: bool) -> Holder | None:
    """Who a file says; one whose agent died without a word has its time from when that is seen first."""
    try:
        written = json.loads(os.pread(file, _MOST_BYTES, 0))
        holder, lost_s = Holder(written["token"], written["wish"], held=not is_free), written["lost_s"]
        if is_free and lost_s is None:
            _write(file, holder, lost_s=time.time())
        elif is_free and abs(time.time() - lost_s) > GRACE_S:
            os.truncate(file, 0)
            return None
    except (ValueError, KeyError, TypeError):
        return None
    return holder


def _write(file: int, holder: Holder, lost_s: float | None = None) -> None:
    """In one write that leaves nothing of what stood there, so that nobody reads half of it."""
    text = json.dumps({"token": holder.token, "wish": holder.wish, "lost_s": lost_s}).encode()
    os.pwrite(file, text.ljust(os.fstat(file).st_size), 0)


class DocumentFile:
    """The requested values: one JSON file, versioned, that outlives the sidecar."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._path.with_name(f".{self._path.name}.lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> Document:
        """The document; version 0 when nothing was ever written. Raises ValueError for what is none."""
        with self._locked():
            return self._read()

    def _read(self) -> Document:
        try:
            return Document(**json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return Document(0, {})

    def write(self, expect_version: int, content: dict[str, Any]) -> Document | None:
        """Write the next version if the present one is as expected; None when it is not."""
        with self._locked():
            if self._read().version != expect_version:
                return None
            written = Document(expect_version + 1, content)
            write_durably(self._path, json.dumps(asdict(written)).encode())
        return written


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
