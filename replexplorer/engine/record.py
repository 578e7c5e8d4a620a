"""What is kept of a session: its events, marks and epochs; its ticks, a batch at a time to a recorder."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Final

from replexplorer.core.epochs.epochs import Epochs
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.event import Event, Severity
from replexplorer.core.knobs.names import KnobName, Restart
from replexplorer.core.server.counters import Sample
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Look, Protection, States, is_outage, turn_words
from replexplorer.core.tick import Tick
from replexplorer.ports import Clock, Recorder


class EventLog:
    """Events and epochs of one session; times go out as seconds since the session began."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.began_s = clock.monotonic()
        """Monotonic clock when the session began."""
        self.epochs = Epochs(self.began_s)
        """The rows of the ledger."""
        self._states = States()
        self._looked_s = -inf
        """When the primary was looked at last."""
        self._restarts_s: dict[str, float] = {}
        self._untold: list[Event] = []
        self._last_mark = 0
        self.unchanged_since_s = self.began_s
        """Monotonic clock of the last change's effect or mark; while a change is under way infinity."""

    @property
    def at_s(self) -> float:
        """Seconds since the session began."""
        return self._clock.monotonic() - self.began_s

    def tell(
        self, severity: Severity, text: str, *, mark: int | None = None, at_s: float | None = None
    ) -> None:
        """Put a fact into the log."""
        at = self.at_s if at_s is None else at_s
        self._untold.append(Event(at, self._clock.wall() - (self.at_s - at), severity, text, mark))

    def begin_change(self, title: str, names: Iterable[KnobName] = ()) -> int:
        """A change begins, of these knobs: the epoch before ends here; answers the change's number."""
        self._last_mark += 1
        self.unchanged_since_s = inf
        of_appliers = {name.knob.restart for name in names} == {Restart.APPLIER}
        self.epochs.begin(self._last_mark, self._clock.monotonic(), title, of_appliers=of_appliers)
        return self._last_mark

    def change_effective(
        self, number: int, title: str, text: str, *, measured_from_s: float | None = None
    ) -> None:
        """The change has taken effect: draw its mark and begin to measure its epoch, one latency later or
        from the moment that is given."""
        self.unchanged_since_s = self._clock.monotonic()
        self.epochs.effective(number, self.unchanged_since_s, title, from_s=measured_from_s)
        self.tell(Severity.MARK, text, mark=number)

    def mark(self, title: str, text: str = "") -> None:
        """A change whose effect is seen at once; the log says `text`, or its title."""
        self.change_effective(self.begin_change(title), title, text or title)

    def end_epoch(self, at_s: float | None = None) -> None:
        """The newest epoch ends, now or at this moment; what comes before the next change belongs to none."""
        self.epochs.end(self._clock.monotonic() if at_s is None else at_s)

    def begin_restoring(self) -> None:
        """What was turned is restored: no epoch, and no state on the way is an outage."""
        self.end_epoch()
        self.unchanged_since_s = inf

    def restored(self) -> None:
        """All is restored."""
        self.unchanged_since_s = self._clock.monotonic()

    def change_failed(self, number: int, text: str) -> None:
        """The change was rolled back: the figures from here on count as before it."""
        self.unchanged_since_s = self._clock.monotonic()
        self.epochs.effective(number, self.unchanged_since_s, "rolled back")
        self.tell(Severity.BAD, text, mark=number)

    def follow(self, protection: Protection, counters: Sample, *, enabled: bool) -> Protection:
        """Take what was last seen of the primary; answers the state with when it began and what went
        unprotected so far. What turned is reported."""
        if counters.at_s > self._looked_s:
            self._looked_s = counters.at_s
            changing = counters.at_s <= self.unchanged_since_s  # it was looked at before all was in force
            seen = self._states.see(Look(counters.at_s, protection, counters, enabled), changing=changing)
            for stretch in seen.stretches:
                self.epochs.suffer(stretch)
            if seen.turn is not None:
                self.epochs.turned(seen.turn)
                if told := turn_words(seen.turn, protection):
                    self.tell(*told, at_s=seen.turn.at_s - self.began_s)
        is_this = self._states.settled and self._states.state is protection.state
        return replace(
            protection,
            since_s=self._states.since_s - self.began_s if is_this else None,
            # A request that is newer than the last look makes no outage of what that look saw.
            settled=self._states.settled and (self._states.in_outage or not is_outage(protection)),
            unprotected=self._states.unprotected,
        )

    def server_restarted(self, node: str) -> None:
        """A server restarted: its epoch says so, and its node."""
        self._restarts_s[node] = self.at_s
        self.epochs.restarted(self._clock.monotonic(), node)

    def with_restart(self, node: NodeView) -> NodeView:
        """The node with when it was last seen to have restarted."""
        at_s = self._restarts_s.get(node.name)
        return node if at_s is None else replace(node, restarted_s=at_s)

    def take_events(self) -> tuple[Event, ...]:
        """The events since the last take, oldest first."""
        taken = tuple(self._untold)
        self._untold.clear()
        return taken


_WRITE_EVERY_S: Final = 1.0
"""A killed app loses what came since."""
_END_WITHIN_S: Final = 2.0
_MOST_WAITING: Final = 600
"""Ticks that wait for a recorder that hangs; then it is given up."""
_REMEMBERED: Final = 600
"""Ticks of a session that is not recorded: five minutes."""


class Recording:
    """The recording of one session; a recorder that fails ends it, and the session goes on."""

    def __init__(self, make: Callable[[], Recorder] | None, warn: Callable[[str], None]) -> None:
        """`make` answers the recorder of a session that is recorded; None: this one is not."""
        self._make = make
        self._warn = warn
        self._recorder: Recorder | None = None
        self._writing: asyncio.Task[None] | None = None
        self._waiting: list[Tick] = []
        self._remembered: deque[Tick] = deque(maxlen=_REMEMBERED)
        """The last ones that were not recorded."""
        self._ended = asyncio.Event()
        self._kept = True
        self.file: str | None = None
        """Where it is, or was, written; None when nothing is recorded."""

    async def begin(self, about: Mapping[str, str]) -> None:
        """Make the file; a failure is reported and the session goes on unrecorded."""
        if self._make is None or self._recorder is not None:
            return
        recorder = self._make()
        try:
            await recorder.open(about)
        except ReplexplorerError as error:
            self._warn(f"not recorded: {error}")
            return
        self._recorder, self.file = recorder, recorder.file
        self._writing = asyncio.create_task(self._write_on(), name="recording")

    def take(self, tick: Tick) -> None:
        """Record a tick soon; where nothing is recorded, remember it."""
        if self._recorder is None:
            self._remembered.append(tick)
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._give_up("its disk does not answer")
            return
        self._waiting.append(tick)

    def past(self) -> Iterator[Tick]:
        """All ticks so far, in order; of a session that is not recorded the last ones."""
        return iter(tuple(self._remembered)) if self._recorder is None else self._recorder.past()

    async def end(self, *, kept: bool = True) -> None:
        """Write what waits, and close the file, or leave none unless it is to be `kept`; harmless twice. A
        disk that hangs is not waited for long."""
        self._kept = kept
        self._ended.set()
        if self._writing is None:
            return
        _, late = await asyncio.wait({self._writing}, timeout=_END_WITHIN_S)
        for task in late:
            task.cancel()
        self._recorder = None

    async def _write_on(self) -> None:
        recorder = self._recorder
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WRITE_EVERY_S):
                    await self._ended.wait()
            await self._write()
        if recorder is not None:
            await (recorder.close() if self._kept else recorder.discard())

    async def _write(self) -> None:
        if self._recorder is None or not self._waiting:
            return
        ticks, self._waiting = self._waiting, []
        try:
            await self._recorder.write(ticks)
        except ReplexplorerError as error:
            self._give_up(str(error))

    def _give_up(self, why: str) -> None:
        self._recorder = None
        self._waiting.clear()
        self._warn(f"recording stopped: {why}")
