"""The app's end of the load process (`ports.LoadProcess`).

Law: the child is started from our own interpreter in a session of its own, so that a terminal's
signals reach the app only; it is always waited for. Its password goes through its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final, Protocol

from replexplorer.core.errors import (
    MissingPiece,
    ReplexplorerError,
    ServerRefused,
    ServerUnreachable,
    UsageError,
)
from replexplorer.core.load.interval import Interval, keep_for_reader
from replexplorer.core.load.processes import LoadShare
from replexplorer.ports import LoadSettings, LoadTarget, Report

_COMMAND: Final = (sys.executable, "-P", "-m", "replexplorer.load_process")
LINE_BYTES: Final = 1 << 22
"""The longest line of a process."""
_STOP_S: Final = 1.5
"""Commits under way, the last interval and the interpreter's own end."""
_KILL_S: Final = 1.0
_KEPT_COMPLAINT_BYTES: Final = 4096


def _of(part: LoadShare | None, ahead_s: float) -> dict[str, object]:
    """A part as a command carries it, its times by the process's clock; without one the process has the
    whole load."""
    if part is None:
        return {}
    origin_s, phase = part.origin_s, part.phase
    if origin_s is not None:
        origin_s += ahead_s
    if phase is not None and part.rate_tps is not None:
        phase = (phase + ahead_s * part.rate_tps) % 1.0
    return {"part": asdict(replace(part, origin_s=origin_s, phase=phase))}


class Sink(Protocol):
    """Where a process's stdin is written to."""

    def write(self, data: bytes) -> None:
        """Add bytes."""

    async def drain(self) -> None:
        """Wait until it takes more; raises OSError when the process is gone."""

    def close(self) -> None:
        """The process reads the end of it."""


class Running(Protocol):
    """A process that was started with three pipes, here or elsewhere: as `asyncio.subprocess.Process`."""

    @property
    def pid(self) -> int:
        """Its number on this machine; 0 elsewhere."""

    @property
    def stdin(self) -> Sink | None:
        """What it reads."""

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """What it writes."""

    @property
    def stderr(self) -> asyncio.StreamReader | None:
        """What it complains."""

    @property
    def returncode(self) -> int | None:
        """None while it runs."""

    async def wait(self) -> int:
        """Its exit code, when it has ended."""

    def kill(self) -> None:
        """End it at once."""


Launch = Callable[[], Awaitable[Running]]
"""Starts the bare process."""


def _as_they_are(settings: LoadSettings) -> LoadSettings:
    return settings


class LoadEnded(ReplexplorerError):
    """The load's process ended though nobody asked it to."""

    code = "load"


class LoadChild:
    """The load in its own process; it can be started again after a stop."""

    def __init__(
        self,
        report: Report | None = None,
        command: tuple[str, ...] = _COMMAND,
        *,
        launch: Launch | None = None,
        ahead_s: float = 0.0,
        told: Callable[[LoadSettings], LoadSettings] = _as_they_are,
    ) -> None:
        """`launch` starts the process elsewhere, where the monotonic clock is so far ahead of this machine's,
        and `told` makes of settings what they are there; None: `command`, on this machine. All times are by
        this machine's clock."""
        self._report = report
        self._told = told
        self._ahead_s = ahead_s
        self._launch = launch or partial(_start_here, command)
        self._process: Running | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[float]] = {}
        self._intervals: deque[Interval] = deque()
        self._news = asyncio.Event()
        self._is_started = False
        self._is_stopping = False
        self._end: ReplexplorerError | None = None
        self._reason: ReplexplorerError | None = None
        """Why the child said that it ends."""
        self.origin_s = 0.0
        """Its intervals end at whole intervals after this time."""

    @property
    def pid(self) -> int | None:
        """The process's id; None when none runs."""
        return None if self._process is None else self._process.pid

    async def start(
        self, target: LoadTarget, settings: LoadSettings, *, interval_s: float, part: LoadShare | None = None
    ) -> None:
        """See `ports.LoadProcess`; `intervals` may be read meanwhile. On failure nothing is left."""
        if self._is_started:
            raise UsageError("the load runs already")
        self._is_started = True
        try:
            await self.spawn()
            content = {
                "settings": asdict(self._told(settings)),
                "interval_s": interval_s,
                **_of(part, self._ahead_s),
            }
            self.origin_s = await self._ask("start", target=asdict(target), **content) - self._ahead_s
        except BaseException:
            await asyncio.shield(self.stop())
            raise

    async def spawn(self) -> None:
        """See `ports.LoadProcess`."""
        if self._process is not None:
            return
        self._is_stopping, self._end, self._reason = False, None, None
        self._intervals.clear()
        self._process = await self._launch()
        self._reader = asyncio.create_task(self._read(self._process), name="load process")

    async def change(self, settings: LoadSettings, part: LoadShare | None = None) -> None:
        """See `ports.LoadProcess`."""
        await self._ask("change", settings=asdict(self._told(settings)), **_of(part, self._ahead_s))

    async def go(self, at_s: float) -> None:
        """Let a part that `waits` begin at this moment; returns as `start` does without it."""
        await self._ask("go", at_s=at_s + self._ahead_s)

    async def move(self, target: LoadTarget) -> None:
        """See `ports.LoadProcess`."""
        await self._ask("move", target=asdict(target))

    async def hold(self) -> None:
        """Let nobody begin anything until the next change."""
        await self._ask("hold")

    async def drain(self) -> None:
        """See `ports.LoadProcess`."""
        await self._ask("drain")

    async def _ask(self, do: str, **content: object) -> float:
        """Send a command and wait for its answer, which says where its intervals are counted from;
        raises what the child answers."""
        process = self._process
        if process is None or process.stdin is None or self._end is not None:
            raise self._end or UsageError("no load runs")
        number = next(self._ids)
        answer: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            line = json.dumps({"id": number, "do": do, **content}).encode() + b"\n"
            with contextlib.suppress(OSError):  # then the reader finds the end, too
                process.stdin.write(line)
                await process.stdin.drain()
            return await answer
        finally:
            del self._answers[number]

    async def intervals(self) -> AsyncIterator[Interval]:
        """See `ports.LoadProcess`; raises LoadEnded when the process dies by itself."""
        while True:
            while self._intervals:
                yield self._intervals.popleft()
            if self._end is not None:
                if self._is_stopping:
                    return
                raise self._end
            self._news.clear()
            await self._news.wait()

    async def _read(self, process: Running) -> None:
        """Take lines until the child ends."""
        stdout, stderr = process.stdout, process.stderr
        if stdout is None or stderr is None:
            raise ValueError("the load's process was started without pipes")
        complaint = asyncio.create_task(_last_words(stderr))
        try:
            while line := await stdout.readline():
                self._take(json.loads(line))
            words = await complaint
            code = await process.wait()
            why = words or (f"signal {-code}" if code < 0 else f"exit code {code}")
            ended = LoadEnded(f"the load's process ended by itself ({why})", "start the load again")
            self._finish(self._reason or ended)
        except (ValueError, KeyError, TypeError) as error:
            self._finish(LoadEnded(f"the load's process sent what is no report ({error})"))
        finally:
            complaint.cancel()

    def _take(self, event: Mapping[str, Any]) -> None:
        """Take one line of the child."""
        match event["event"]:
            case "interval":
                interval = self._by_our_clock(Interval.from_wire(event["interval"]))
                keep_for_reader(self._intervals, interval)
                self._news.set()
            case "progress" if self._report is not None:
                self._report(event["text"], event["done"])
            case "ended":
                self._reason = LoadEnded(f"the load ended: {event['message']}", event["hint"])
            case "done" | "failed":
                answer = self._answers.get(event["id"])
                if answer is None or answer.done():
                    return
                if event["event"] == "done":
                    answer.set_result(event.get("origin_s", 0.0))
                else:
                    answer.set_exception(_error(event))

    def _by_our_clock(self, interval: Interval) -> Interval:
        if not self._ahead_s:
            return interval
        ahead_s = self._ahead_s
        return replace(interval, start_s=interval.start_s - ahead_s, end_s=interval.end_s - ahead_s)

    def _finish(self, end: ReplexplorerError) -> None:
        """Everybody who waits learns that the child is gone."""
        self._end = end
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(end)
        self._news.set()

    async def stop(self) -> None:
        """See `ports.LoadProcess`; the last interval can be read afterwards. Harmless twice."""
        self._is_started = False
        process, reader = self._process, self._reader
        if process is None or reader is None:
            return
        self._is_stopping = True
        try:
            if process.stdin is not None:
                process.stdin.close()
            await _ends(reader, _STOP_S)
        finally:
            await asyncio.shield(self._bury(process, reader))

    async def _bury(self, process: Running, reader: asyncio.Task[None]) -> None:
        """Leave neither process nor task behind, whatever state they are in."""
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if not await _ends(reader, _KILL_S):
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        if self._process is process:
            self._process = self._reader = None


async def _start_here(command: tuple[str, ...]) -> Running:
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=LINE_BYTES,
    )


async def _ends(task: asyncio.Task[None], within_s: float) -> bool:
    """Whether a task ends in time."""
    done, _ = await asyncio.wait({task}, timeout=within_s)
    return bool(done)


async def _last_words(stream: asyncio.StreamReader) -> str:
    """The last line that a process wrote, however much it wrote."""
    kept = b""
    while chunk := await stream.read(_KEPT_COMPLAINT_BYTES):
        kept = (kept + chunk)[-_KEPT_COMPLAINT_BYTES:]
    lines = kept.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


def _error(event: Mapping[str, Any]) -> ReplexplorerError:
    """The child's error as ours."""
    message, hint = event["message"], event["hint"]
    match event["code"]:
        case "refused":
            return ServerRefused(event["number"], message, hint)
        case "unreachable":
            return ServerUnreachable(message, hint)
        case "usage":
            return UsageError(message, hint)
        case "missing":
            return MissingPiece(message, hint)
    return ReplexplorerError(message, hint)
