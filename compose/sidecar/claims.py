"""Who holds the stack's lease, turn and experiment: queues of claims, as files that all its agents share.

Law: a claim lives while the agent that wrote it holds a lock (flock) on its file. The lock ends with the
agent's process, or with the bridge that asked; then the claim lives for GRACE_S more, in which its app
comes back through any agent by its token, and nobody comes in between. Every look and every change
happens under one lock of the directory, so two agents never both see a place as free.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

LEASE, TURN, EXPERIMENT = "lease", "turn", "experiment"
SLOTS = (LEASE, TURN, EXPERIMENT)
GRACE_S = 5.0
TOUCH_EVERY_S = 1.0
LOOK_EVERY_S = 0.05

T = TypeVar("T")


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock of this file, among all threads and processes of this machine that ask for it."""
    with open(file, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Claim:
    """One place in a queue."""

    number: int
    """Smaller came earlier; the first has what the queue is for."""
    token: str
    """Of the app."""
    wish: dict[str, Any]
    """Who it is, and what for."""
    held: bool
    """An agent holds its lock; else the app has GRACE_S to come back."""


class Claims:
    """One agent's part in the queues of its stack. What `run` is given is done one after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[tuple[str, str], tuple[object, int]] = {}
        """Slot and token to the bridge and the locked file that keep the claim alive."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="claims")

    async def run(self, work: Callable[[], T]) -> T:
        """Do it beside the loop, after all that was given before."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def queue(self, slot: str) -> list[Claim]:
        """The living claims in their order."""
        with self._lock():
            return self._read(slot)

    def take(
        self, slot: str, bridge: object, token: str, wish: dict[str, Any], *, wait: bool = False
    ) -> Claim:
        """Claim it, or renew the claim that this app has already, wherever it was made. Answers the first in
        the queue. Unless told to wait, a claim that would not be the first is not made."""
        with self._lock():
            queue = self._read(slot)
            mine = next((claim for claim in queue if claim.token == token), None)
            if mine is None and queue and not wait:
                return queue[0]
            number = mine.number if mine else queue[-1].number + 1 if queue else 1
            self._write(slot, bridge, Claim(number, token, wish, held=True))
            return self._read(slot)[0]

    def leave(self, slot: str, token: str) -> None:
        """Give the place back, wherever it was taken."""
        with self._lock():
            for claim in self._read(slot):
                if claim.token == token:
                    self._file(slot, claim.number).unlink()
            self._close(slot, token)

    def lose(self, bridge: object) -> None:
        """The bridge ended: its app has GRACE_S from now on to come back."""
        for (slot, token), (keeper, file) in [*self._files.items()]:
            if keeper is bridge:
                os.utime(file)
                self._close(slot, token)

    async def stay_alive(self) -> None:
        """Keep the times of the files new, from which the grace counts should this agent be killed."""
        while True:
            await asyncio.sleep(TOUCH_EVERY_S)
            await self.run(self._touch)

    def _touch(self) -> None:
        for _, file in self._files.values():
            os.utime(file)

    def _lock(self) -> contextlib.AbstractContextManager[None]:
        self._directory.mkdir(exist_ok=True)
        return locked(self._directory / ".lock")

    def _file(self, slot: str, number: int) -> Path:
        return self._directory / f"{slot}.{number:012}"

    def _read(self, slot: str) -> list[Claim]:
        claims = (self._look(file) for file in sorted(self._directory.glob(f"{slot}.*")))
        return [claim for claim in claims if claim is not None]

    def _look(self, file: Path) -> Claim | None:
        """What the file says; one that is dead is removed."""
        with open(file, "rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
                held = False
            except BlockingIOError:
                held = True
            age_s = time.time() - os.fstat(stream.fileno()).st_mtime
            if held or abs(age_s) <= GRACE_S:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    written = json.load(stream)
                    number = int(file.suffix[1:])
                    return Claim(number, written["token"], written["wish"], held)
        file.unlink()
        return None

    def _write(self, slot: str, bridge: object, claim: Claim) -> None:
        """Put a file in place that is locked from its first moment; the one before it counts no more."""
        draft = self._directory / ".draft"
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(file, "w", closefd=False) as stream:
                json.dump({"token": claim.token, "wish": claim.wish}, stream)
            os.replace(draft, self._file(slot, claim.number))
        except BaseException:
            os.close(file)
            raise
        self._close(slot, claim.token)
        self._files[slot, claim.token] = bridge, file

    def _close(self, slot: str, token: str) -> None:
        kept = self._files.pop((slot, token), None)
        if kept is not None:
            os.close(kept[1])
