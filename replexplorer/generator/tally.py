"""What happened since the last interval: counted where it happens, folded once an interval.

Lines to the app that never wait for it.

Law: a pipe that nobody reads costs no commit. Intervals that cannot be sent are merged into one,
exactly, so the memory is bounded and nothing is lost when the app reads again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from replexplorer.core.load.interval import Interval, ProcessWork
from replexplorer.core.load.pacing import LoadShare, Pace, Schedule
from replexplorer.core.records import frozen
from replexplorer.core.stats.histogram import Histogram
from replexplorer.generator.connection import acknowledged_gtids

DEADLOCK: Final = 1213
LOCK_TIMEOUT: Final = 1205
CONFLICT: Final = 3101
"""ER_TRANSACTION_ROLLBACK_DURING_COMMIT: certification refused it, another member changed the row first."""
CHANGED: Final = 1020
"""ER_CHECKREAD: MariaDB from 11.6 on ends a transaction that writes a row which changed since it first read
(innodb_snapshot_isolation)."""


@frozen
class Gauges:
    """What an interval says of its end."""

    part: LoadShare
    clients: int
    connected: int
    under_way: int
    workload: str
    state: str
    pace: Pace
    """As asked for, also while no client is there for it."""


class Tally:
    """Counts of the interval under way; `fold` ends it and begins the next."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        """One entry a transaction: an append is all that one pays for being measured."""
        self.responses_s: list[float] = []
        self.lateness_s: list[float] = []
        self.log_syncs_s: list[float] = []
        """How long each sync of the client log took."""
        self.log_waits_s: list[float] = []
        """How long each transaction waited until it was noted."""
        self.queries = [0, 0, 0]
        """Statements answered: reads, writes, others."""
        self.acknowledged: list[bytes] = []
        """OK packets that may carry a GTID."""
        self.refused: Counter[int] = Counter()
        """Transactions refused for good, by MySQL's number."""
        self.retried: Counter[int] = Counter()
        """Transactions retried, by MySQL's number."""
        self.lost = 0
        """Transactions whose connection was lost before their commit was sent."""
        self.unknown = 0
        self.reconnects = 0
        self.rows_reset = 0
        self.backlog_max = 0
        self.fault: str | None = None
        self.start_s = time.monotonic()
        """When the interval under way began."""
        self._cpu_s = time.process_time()
        self._arrived = self._dropped = 0

    def begin(self, at_s: float) -> None:
        """Let the interval under way begin when the clients did: what the logins and the program's
        own start took is not time in which commits could come."""
        self.start_s = max(self.start_s, at_s)
        self._cpu_s = time.process_time()
        self.lateness_s.clear()

    def fold(self, gauges: Gauges, schedule: Schedule) -> Interval:
        """The interval that ends now, with the gauges as given."""
        end_s, cpu_s = time.monotonic(), time.process_time()
        seconds = end_s - self.start_s
        service, backlog = _taken(self.latencies_s), len(schedule.waiting)
        part = gauges.part
        work = ProcessWork(part.number, part.clients, service.count, cpu_s - self._cpu_s, seconds)
        interval = Interval(
            start_s=self.start_s,
            end_s=end_s,
            service=service,
            errors=self.refused.total() + self.lost,
            unknown=self.unknown,
            reconnects=self.reconnects,
            clients=gauges.clients,
            connected=gauges.connected,
            workload=gauges.workload,
            rows_reset=self.rows_reset,
            state=gauges.state,
            fault=self.fault,
            mode=gauges.pace.mode,
            rate_asked_tps=gauges.pace.rate_tps,
            response=_taken(self.responses_s),
            lateness=_taken(self.lateness_s),
            log_sync=_taken(self.log_syncs_s),
            log_wait=_taken(self.log_waits_s),
            arrivals=schedule.arrived - self._arrived,
            dropped=schedule.dropped - self._dropped,
            backlog=backlog,
            backlog_max=max(self.backlog_max, backlog),
            under_way=gauges.under_way,
            reads=self.queries[0],
            writes=self.queries[1],
            others=self.queries[2],
            deadlocks=self.retried[DEADLOCK],
            lock_timeouts=self.retried[LOCK_TIMEOUT],
            conflicts=self.retried[CONFLICT] + self.retried[CHANGED],
            errors_by_number={str(number): times for number, times in self.refused.items()},
            work=(work,),
            acknowledged_gtids=acknowledged_gtids(self.acknowledged),
        )
        self.acknowledged.clear()  # in place: connections hold its append
        self._arrived, self._dropped = schedule.arrived, schedule.dropped
        self.lost = self.unknown = self.reconnects = self.rows_reset = self.backlog_max = 0
        self.queries[:] = (0, 0, 0)
        self.refused.clear()
        self.retried.clear()
        # Nobody retries in every interval: what keeps all clients away stays named.
        self.fault = self.fault if gauges.state == "waiting" else None
        self.start_s, self._cpu_s = end_s, cpu_s
        return interval


def _taken(seconds: list[float]) -> Histogram:
    """A list's durations as a histogram. The list is emptied in place: clients hold its append."""
    durations: Iterable[float] = seconds[:]
    seconds.clear()
    return Histogram.of(int(duration * 1e6) for duration in durations)


_TELL_LAST_S: Final = 0.1
_KEPT_LINES: Final = 256
"""Other lines than intervals; beyond it the oldest progress goes."""


class Outbox:
    """Writes JSON lines to a pipe as it takes them."""

    def __init__(self, descriptor: int, on_closed: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._unsent = b""
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._interval: Interval | None = None
        self._is_watching = False
        self._emptied = asyncio.Event()
        self._emptied.set()
        os.set_blocking(descriptor, False)

    def tell(self, event: str, **content: object) -> None:
        """Send an event."""
        self._lines.append(_line({"event": event, **content}))
        self._flush()

    def tell_interval(self, interval: Interval) -> None:
        """Send an interval, merged with those that wait."""
        self._interval = interval if self._interval is None else self._interval.followed_by(interval)
        self._flush()

    def _next(self) -> bytes:
        """The next line to send; empty when there is none."""
        if self._lines:
            return self._lines.popleft()
        if self._interval is not None:
            interval, self._interval = self._interval, None
            return _line({"event": "interval", "interval": interval.to_wire()})
        return b""

    def _flush(self) -> None:
        """Write until the pipe is full or nothing is left."""
        try:
            while True:
                self._unsent = self._unsent or self._next()
                if not self._unsent:
                    self._watch(False)
                    return
                self._unsent = self._unsent[os.write(self._descriptor, self._unsent) :]
        except BlockingIOError:
            self._watch(True)
        except OSError:  # the app is gone
            self._watch(False)
            self._on_closed()

    def _watch(self, is_full: bool) -> None:
        """Be called when the pipe takes more."""
        if is_full != self._is_watching:
            self._is_watching = is_full
            if is_full:
                self._emptied.clear()
                self._loop.add_writer(self._descriptor, self._flush)
            else:
                self._emptied.set()
                self._loop.remove_writer(self._descriptor)

    async def drain(self) -> None:
        """Wait until everything is sent, at most for a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TELL_LAST_S):
                await self._emptied.wait()


def _line(content: Mapping[str, object]) -> bytes:
    """A JSON document in one line."""
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"
