"""The app's end of the load (`ports.LoadProcess`): one process or several, here or on another
host.

Laws: a process is started from our own interpreter in a session of its own, so that a terminal's signals
reach the app only; it is always waited for, and its password goes through its stdin. Clients never move
between processes; what comes goes where there are fewest. The first process leads: it prepares the tables.
All clients log in first and begin at one moment, and all processes cut time at the same moments from then
on, so that their histograms and counts add up exactly. They end together: when one dies the others are
stopped, since what is left would be another load than the one asked for. What they report goes into one
queue that loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import cache
from typing import Any, Final, Protocol

from replexplorer.core.errors import (
    MissingPiece,
    ReplexplorerError,
    ServerRefused,
    ServerUnreachable,
    UsageError,
)
from replexplorer.core.load.interval import Cuts, Interval
from replexplorer.core.load.pacing import OPEN, LoadShare, processes_for, share_out, shares_of
from replexplorer.core.load.workload import statements_in
from replexplorer.core.records import dataclass, frozen
from replexplorer.ports import Bridge, LoadSettings, LoadTarget, Reporter

COMMAND: Final = (sys.executable, "-P", "-m", "replexplorer.load_process")
_LINE_BYTES: Final = 1 << 22
"""The longest line of a process."""
_STOP_S: Final = 1.5
"""Commits under way, the last interval and the interpreter's own end."""
_KILL_S: Final = 1.0
_KEPT_COMPLAINT_BYTES: Final = 4096
_BEGIN_IN_S: Final = 0.25
"""From when all are ready to when they begin: longer than the command takes to the farthest of them."""


class LoadEnded(ReplexplorerError):
    """The load's process ended unasked."""

    code = "load"


class Process(Bridge, Protocol):
    """A load process: commands go to its stdin, its reports are the lines of its stdout. `close` kills it."""

    pid: int
    """Its number on this machine; 0 elsewhere."""
    complaint: str
    """What it said last on stderr, or how it ended; empty where that is not known."""

    def end_input(self) -> None:
        """Let it read the end of its stdin, which ends it; harmless when repeated."""


class LocalProcess:
    """`Process` on this machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.complaint = ""

    @classmethod
    async def start(cls, command: Sequence[str] = COMMAND) -> LocalProcess:
        """Start it with three pipes."""
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, limit=_LINE_BYTES
            )
        )

    def send(self, line: str) -> None:
        """See `ports.Bridge`; that the process is gone, who reads its lines finds out."""
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - a pipe was asked for
        with contextlib.suppress(OSError):
            stdin.write(line.encode() + b"\n")

    async def lines(self) -> AsyncIterator[str]:
        """See `ports.Bridge`."""
        stdout, stderr = self._process.stdout, self._process.stderr
        assert stdout is not None and stderr is not None  # noqa: S101, PT018 - pipes were asked for
        complaining = asyncio.create_task(_last_words(stderr))
        try:
            while line := await stdout.readline():
                yield line.decode()
            words, code = await complaining, await self._process.wait()
            self.complaint = words or (f"signal {-code}" if code < 0 else f"exit code {code}")
        finally:
            complaining.cancel()

    def end_input(self) -> None:
        """See `Process`."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def close(self) -> None:
        """Kill it and wait for it; harmless when repeated."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


async def _last_words(stream: asyncio.StreamReader) -> str:
    """The last line that a process wrote, however much it wrote."""
    kept = b""
    while chunk := await stream.read(_KEPT_COMPLAINT_BYTES):
        kept = (kept + chunk)[-_KEPT_COMPLAINT_BYTES:]
    return (kept.decode("utf-8", "replace").strip().splitlines() or [""])[-1]


def _cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@frozen
class LoadPlace:
    """Where load processes run."""

    launch: Callable[[], Awaitable[Process]] = LocalProcess.start
    """Starts a bare process."""
    cores: int = field(default_factory=_cores)
    """Of the machine."""
    host: str = ""
    """Its name; empty: this machine."""
    ahead_s: float = 0.0
    """How far its monotonic clock is ahead of ours."""
    log_of: Callable[[str], tuple[str, int]] | None = None
    """Where a process writes the client log of a run: the directory there, the number of the file. None: in
    the run's directory, whichever number is free."""


class _Child:
    """One process and the commands that it has not answered yet; all times are by its own clock."""

    def __init__(
        self, number: int, process: Process, place: LoadPlace, part: LoadShare, report: Reporter | None
    ) -> None:
        self.number = number
        self.process = process
        self.part = part
        self.reader: asyncio.Task[None] | None = None
        """Reads it until it ends."""
        self.is_stopping = False
        self._host = place.host
        self._log_of = cache(place.log_of) if place.log_of is not None else None
        self._report = report
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._end: ReplexplorerError | None = None

    async def read(self, take: Callable[[Interval], None]) -> ReplexplorerError:
        """Take what it reports until it ends; answers why it did."""
        reason = None
        try:
            async for line in self.process.lines():
                event = json.loads(line)
                match event["event"]:
                    case "interval":
                        take(Interval.from_wire(event["interval"]))
                    case "progress" if self._report is not None:
                        self._report(event["text"], event["done"])
                    case "ended":
                        reason = LoadEnded(f"the load ended: {event['message']}", event["hint"])
                    case "done" | "failed":
                        self._take_answer(event)
            why = self.process.complaint or f"the connection to host {self._host} was lost"
            self._end = reason or LoadEnded(
                f"the load's process ended by itself ({why})", "start the load again"
            )
        except (ValueError, KeyError, TypeError) as error:
            self._end = LoadEnded(f"the load's process sent an invalid report ({error})")
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._end)
        return self._end

    def _take_answer(self, event: Mapping[str, Any]) -> None:
        answer = self._answers.get(event["id"])
        if answer is None or answer.done():
            return
        if event["event"] == "done":
            answer.set_result(None)
        else:
            answer.set_exception(_error(event))

    async def do(self, verb: str, **content: object) -> None:
        """Send a command and wait for its answer; raises what it answers, or what ended the process."""
        if self._end is not None:
            raise self._end
        number = next(self._ids)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self.process.send(json.dumps({"id": number, "do": verb, **content}))
            await answer
        finally:
            del self._answers[number]

    async def start(self, target: LoadTarget, settings: LoadSettings, interval_s: float) -> None:
        """Let it take its part; returns when its clients are ready to `go`."""
        content = self._content(settings, self.part)
        await self.do("start", target=asdict(target), interval_s=interval_s, **content)

    async def change(self, settings: LoadSettings, part: LoadShare) -> None:
        """Let it go on with another part, or by other settings."""
        await self.do("change", **self._content(settings, part))
        self.part = part

    def _content(self, settings: LoadSettings, part: LoadShare) -> dict[str, object]:
        """Settings, with its own client log, and a part as a command carries them."""
        if settings.ledger is not None and self._log_of is not None:
            directory, number = self._log_of(settings.ledger)
            settings = replace(settings, ledger=directory, ledger_file=number)
        return {"settings": asdict(settings), "part": asdict(part)}

    async def stop(self) -> None:
        """End it; what it counted last is taken. Leaves neither process nor task behind. Harmless twice."""
        self.is_stopping = True
        self.process.end_input()
        try:
            await self._ends(_STOP_S)
        finally:
            await asyncio.shield(self._bury())

    async def _ends(self, within_s: float) -> bool:
        if self.reader is None:
            return True
        return bool((await asyncio.wait({self.reader}, timeout=within_s))[0])

    async def _bury(self) -> None:
        await self.process.close()
        if self.reader is not None and not await self._ends(_KILL_S):
            self.reader.cancel()
            await asyncio.gather(self.reader, return_exceptions=True)


def _error(event: Mapping[str, Any]) -> ReplexplorerError:
    """A process's error as ours."""
    message, hint = event["message"], event["hint"]
    if event["code"] == "refused":
        return ServerRefused(event["number"], message, hint)
    kinds = {"unreachable": ServerUnreachable, "usage": UsageError, "missing": MissingPiece}
    return kinds.get(event["code"], ReplexplorerError)(message, hint)


@dataclass(slots=True)
class _Load:
    """What is running."""

    place: LoadPlace
    target: LoadTarget
    settings: LoadSettings
    interval_s: float
    cuts: Cuts
    children: list[_Child] = field(default_factory=list)
    has_lost_one: bool = False

    def parts(self, settings: LoadSettings) -> list[LoadShare]:
        """What each process is to have of these settings, those that are there and those that are missing."""
        if settings.processes:  # a process without a client would do nothing
            wanted = max(1, min(settings.processes, settings.clients))
        else:
            per_s = settings.rate_tps * statements_in(settings.workload) if settings.mode == OPEN else 0.0
            wanted = processes_for(settings.clients, per_s, self.place.cores)
        before = [each.part.clients for each in self.children]
        return shares_of(share_out(settings.clients, before, wanted))

    def now_s(self) -> float:
        """The moment by the processes' clock."""
        return time.monotonic() + self.place.ahead_s

    async def begin(self, children: Sequence[_Child], at_s: float) -> None:
        """Let processes that are ready begin at this moment; returns when each has committed."""
        begins = (each.do("go", at_s=at_s, origin_s=self.cuts.origin_s) for each in children)
        await asyncio.gather(*begins)


class LoadGroup:
    """The load in as many processes as it needs; it can be started again after a stop."""

    def __init__(
        self,
        report: Reporter | None = None,
        place: LoadPlace | Callable[[LoadTarget], Awaitable[LoadPlace]] | None = None,
    ) -> None:
        """`place` is where it runs, or finds that for a target; None: on this machine."""
        self._report = report
        self._place = place or LoadPlace()
        self._spare: Process | None = None
        self._load: _Load | None = None
        self._intervals: asyncio.Queue[Interval | None] = asyncio.Queue()
        """None behind the last one."""
        self._end: ReplexplorerError | None = None

    @property
    def pids(self) -> list[int]:
        """The processes' ids."""
        return [each.process.pid for each in self._load.children] if self._load is not None else []

    async def spawn(self) -> None:
        """See `ports.LoadProcess`; nothing where the target says on which host it will run."""
        if isinstance(self._place, LoadPlace) and self._spare is None and self._load is None:
            self._spare = await self._place.launch()

    async def _placed(self, target: LoadTarget) -> tuple[LoadPlace, LoadTarget]:
        """Where a load of this target runs, and how it reaches it from there."""
        if isinstance(self._place, LoadPlace):
            return self._place, target
        return await self._place(target), replace(target, path="direct")

    async def start(self, target: LoadTarget, settings: LoadSettings, *, interval_s: float) -> None:
        """See `ports.LoadProcess`; `intervals` may be read meanwhile. On failure nothing is left."""
        if self._load is not None:
            raise UsageError("the load is already running")
        self._end = None
        while not self._intervals.empty():
            self._intervals.get_nowait()
        await self._start(*await self._placed(target), settings, interval_s)

    async def _start(
        self, place: LoadPlace, target: LoadTarget, settings: LoadSettings, interval_s: float
    ) -> None:
        load = self._load = _Load(place, target, settings, interval_s, Cuts(interval_s))
        try:
            lead, *others = await self._spawn(load, load.parts(settings))
            await lead.start(target, settings, interval_s)  # the tables are ready before anybody needs them
            await asyncio.gather(*(each.start(target, settings, interval_s) for each in others))
            at_s = load.now_s() + (_BEGIN_IN_S if others else 0.0)
            load.cuts.begin(at_s, len(load.children))
            await load.begin(load.children, at_s)
        except BaseException:
            await asyncio.shield(self.stop())
            raise

    async def _spawn(self, load: _Load, parts: Sequence[LoadShare]) -> list[_Child]:
        """Start the bare processes of the parts that are not there yet, and read them."""
        before = len(load.children)
        for number, part in enumerate(parts[before:], before + 1):
            process, self._spare = self._spare or await load.place.launch(), None
            child = _Child(number, process, load.place, part, self._report if part.leads else None)
            load.children.append(child)
            child.reader = asyncio.create_task(self._read(load, child), name="load process")
        return load.children[before:]

    async def change(self, settings: LoadSettings) -> None:
        """See `ports.LoadProcess`."""
        load = self._running()
        parts, before = load.parts(settings), len(load.children)
        lead, *others = load.children
        if _tables(settings) != _tables(load.settings):
            await asyncio.gather(*(child.do("hold") for child in others))
        try:
            await lead.change(settings, parts[0])  # the tables are ready before anybody needs them
        except ReplexplorerError:
            await asyncio.gather(*(child.change(load.settings, child.part) for child in others))
            raise
        load.settings = settings
        await asyncio.gather(*map(_Child.change, others, itertools.repeat(settings), parts[1:]))
        try:
            added = await self._spawn(load, parts)
            await asyncio.gather(*(each.start(load.target, settings, load.interval_s) for each in added))
            await load.begin(added, load.now_s())
        except BaseException:
            added = load.children[before:]
            del load.children[before:]
            await asyncio.shield(asyncio.gather(*(child.stop() for child in added)))
            raise

    def _running(self) -> _Load:
        """What runs; raises what ended it, or UsageError."""
        if self._load is None or self._end is not None:
            raise self._end or UsageError("no load runs")
        return self._load

    async def move(self, target: LoadTarget) -> None:
        """See `ports.LoadProcess`; to another host by new processes there."""
        load = self._running()
        place, target = await self._placed(target)
        if place.host == load.place.host:
            load.target = target
            await asyncio.gather(*(child.do("move", target=asdict(target)) for child in load.children))
            return
        try:
            await self._stop_all(load)
        except BaseException:
            await asyncio.shield(self.stop())
            raise
        await self._start(place, target, load.settings, load.interval_s)

    async def drain(self) -> None:
        """See `ports.LoadProcess`."""
        await asyncio.gather(*(child.do("drain") for child in self._running().children))

    async def intervals(self) -> AsyncIterator[Interval]:
        """See `ports.LoadProcess`; raises LoadEnded when a process, or its host, goes away by itself."""
        while (interval := await self._intervals.get()) is not None:
            yield interval
        if self._end is not None:
            raise self._end

    async def _read(self, load: _Load, child: _Child) -> None:
        """Take one process's intervals until it ends; one that dies ends all."""

        def take(interval: Interval) -> None:
            for whole in load.cuts.add(child.number - 1, interval):
                self._keep(load, whole)

        end = await child.read(take)
        if child.is_stopping or load.has_lost_one:
            return
        load.has_lost_one = True
        # What the others counted until then stays.
        others = [each.stop() for each in load.children if each is not child]
        await asyncio.gather(*others, return_exceptions=True)
        self._keep(load, load.cuts.rest())
        if len(load.children) > 1:
            end = LoadEnded(
                f"process {child.number} of {len(load.children)}, with {child.part.clients} of the load's"
                f" {load.settings.clients} clients, is gone, so the others were stopped ({end.message})",
                end.hint,
            )
        self._end = end
        self._intervals.put_nowait(None)

    def _keep(self, load: _Load, interval: Interval | None) -> None:
        """Keep an interval, by our clock, until somebody takes it."""
        if interval is not None:
            start_s, end_s = interval.start_s - load.place.ahead_s, interval.end_s - load.place.ahead_s
            self._intervals.put_nowait(replace(interval, start_s=start_s, end_s=end_s))

    async def _stop_all(self, load: _Load) -> None:
        try:
            await asyncio.gather(*(child.stop() for child in load.children))
        finally:
            self._keep(load, load.cuts.rest())

    async def stop(self) -> None:
        """See `ports.LoadProcess`; the last interval can be read afterwards. Harmless twice."""
        load, self._load = self._load, None
        spare, self._spare = self._spare, None
        if spare is not None:
            await spare.close()
        if load is None:
            return
        try:
            await self._stop_all(load)
        finally:
            self._end = None
            self._intervals.put_nowait(None)


def _tables(settings: LoadSettings) -> tuple[int, int, str | None]:
    """What a change of makes tables be recreated."""
    return settings.table_size, settings.payload_bytes, settings.script
