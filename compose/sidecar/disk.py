"""The disk of this node's server: the page that mysqld's fsync shim maps, and a probe of the bare disk.

Law: the agent makes nothing on the datadir's volume before a server has attached: Docker fills a new
volume from the server's image only as long as it is empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import fsyncpage
from fsyncpage import COMMIT_KINDS, Delays, Figures
from tool import Refused

from replexplorer.core.wire import DiskProbe, DiskState, SetDisk

DATA_PATH, TCP_TABLE = Path("/var/lib/replexplorer/data"), Path("/proc/net/tcp")
PAGE_NAME, PROBE_NAME = "disk.page", "disk.probe"
SHOWN_KINDS = ("redo", "binlog", "relay", "data")
MOST_DELAY_MS = 5000.0
JOURNAL_BYTES = 64 << 20
"""Minutes of a busy server that never fsyncs: only the bytes that a write replaces are kept."""
JOURNAL_KINDS = ("redo", "binlog", "relay", "index")
"""InnoDB writes a page of data only when its redo log is on the disk, so the logs are what a cut loses."""
SAMPLE_S = 0.5
WINDOW_SAMPLES = 8
"""Samples with fsyncs in them that count for `measured_ms`: the last 4 s of a server that writes."""
SETTLE_S = 0.015
"""After a change, until those that wait have read it: three slices of the shim's sleep."""
PROBE_WRITES, PROBE_BYTES, PROBE_LIMIT_S = 1000, 512, 5.0

NO_SHIM = "the server runs without the fsync shim"
DOWN = "the server is down"
Paid = dict[str, tuple[int, int]]
"""By kind of file: fsyncs, and the ns that the server paid for them."""
_MYSQL_PORT, _LISTENS = ":0CEA", "0A"


class Window:
    """What commits paid for their fsyncs since the delays last changed, in the last seconds with fsyncs."""

    def __init__(self) -> None:
        self._marks: deque[Figures] = deque(maxlen=WINDOW_SAMPLES + 1)
        """The figures after each interval that had fsyncs, the oldest first."""

    def restart(self, figures: Figures | None) -> None:
        """Forget everything before these."""
        self._marks.clear()
        if figures is not None:
            self._marks.append(figures)

    def close_interval(self, figures: Figures) -> None:
        """An interval ends here; one without fsyncs leaves the window as it is."""
        if any(fsyncs for fsyncs, _ in self._since(-1, figures).values()):
            self._marks.append(figures)

    def measured(self, figures: Figures) -> Paid:
        """How many fsyncs, and the ns that they took, by kind."""
        return self._since(0, figures)

    def _since(self, at: int, figures: Figures) -> Paid:
        newest = self._marks[-1] if self._marks else None
        if newest is None or newest.delays != figures.delays or _counted(newest) > _counted(figures):
            self.restart(figures)
        mark = self._marks[at]
        return {
            kind: (figures.fsyncs[kind] - mark.fsyncs[kind], figures.paid_ns[kind] - mark.paid_ns[kind])
            for kind in COMMIT_KINDS
        }


def _counted(figures: Figures) -> int:
    return sum(figures.fsyncs[kind] for kind in COMMIT_KINDS)


def _mean_ms(paid: Iterable[tuple[int, int]]) -> float | None:
    """The mean of all fsyncs; None where there are none."""
    fsyncs, ns = (sum(part) for part in zip(*paid, strict=True))
    return ns / fsyncs / 1e6 if fsyncs else None


def server_listens(table: Path = TCP_TABLE) -> bool:
    """Something listens on MySQL's port in this network namespace, which is the server's too."""
    with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
        for line in lines:
            address, state = line.split()[1], line.split()[3]
            if address.endswith(_MYSQL_PORT) and state == _LISTENS:
                return True
    return False


def write_synchronously(path: Path, stop: threading.Event) -> list[float]:
    """What each synchronous write to a fresh file took, in ms; the file is gone when this ends.

    A slow disk gets as many as fit into the limit, and one at least. Raises OSError.
    """
    took_ms: list[float] = []
    content = bytes(PROBE_BYTES)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DSYNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        at_ns = time.monotonic_ns()
        until_ns = at_ns + int(PROBE_LIMIT_S * 1e9)
        while len(took_ms) < PROBE_WRITES and at_ns < until_ns and not stop.is_set():
            os.write(fd, content)
            before_ns, at_ns = at_ns, time.monotonic_ns()
            took_ms.append((at_ns - before_ns) / 1e6)
    finally:
        os.close(fd)
        path.unlink(missing_ok=True)
    return took_ms


def _shown(fsyncs: dict[str, int]) -> dict[str, int]:
    """By the kinds that users tell apart; the others together."""
    shown = {kind: fsyncs.get(kind, 0) for kind in SHOWN_KINDS}
    return {**shown, "other": sum(fsyncs.values()) - sum(shown.values())}


def _changed(now: Delays, asked: SetDisk) -> Delays:
    """The delays with what is asked; what is None stays."""

    def us(asked_ms: float | None, now_us: int) -> int:
        return now_us if asked_ms is None else round(asked_ms * 1000)

    own_us = dict(now.own_us)
    for kind, own_ms in zip(COMMIT_KINDS, (asked.redo_delay_ms, asked.binlog_delay_ms), strict=True):
        if own_ms == "auto":
            own_us.pop(kind, None)
        elif own_ms is not None:
            own_us[kind] = us(own_ms, 0)
    return Delays(
        us(asked.delay_ms, now.all_us),
        own_us,
        us(asked.jitter_ms, now.jitter_us),
        us(asked.stall_ms, now.stall_us),
    )


def _percentile(ordered: list[float], percent: int) -> float:
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


class Disk:
    """The fsyncs of this node's server, their delay, and a probe of its disk."""

    def __init__(self, data_path: Path = DATA_PATH, listens: Callable[[], bool] = server_listens) -> None:
        self._page_path, self._probe_path = data_path / PAGE_NAME, data_path / PROBE_NAME
        self._listens = listens
        self._window = Window()
        self._sampler: asyncio.Task[None] | None = None
        self._prober: asyncio.Task[list[float]] | None = None
        self._stop = threading.Event()
        self._probed: DiskProbe | None = None

    def start(self) -> None:
        """Take samples from now on, server or not; what a killed agent's probe left goes."""
        with contextlib.suppress(OSError):
            self._probe_path.unlink(missing_ok=True)
        self._sampler = asyncio.create_task(self._sample())

    async def close(self) -> None:
        """Take no more samples; a probe under way is cut short and its file removed."""
        self._stop.set()
        if self._sampler is not None:
            self._sampler.cancel()
            await asyncio.wait([self._sampler])
        if self._prober is not None:
            await asyncio.wait([self._prober])

    def state(self) -> DiskState:
        """What is in force, counted and measured."""
        figures, reason = self._look()
        if figures is None:
            return DiskState(
                attached=reason is None,
                reason=reason,
                delay_ms=None,
                fsyncs=_shown({}),
                measured_ms=None,
                probe=self._probed,
            )
        paid = self._window.measured(figures)
        by_kind = {kind: _mean_ms([each]) for kind, each in paid.items()}
        return DiskState(
            attached=reason is None,
            reason=reason,
            delay_ms=figures.delays.all_us / 1000,
            stall_ms=figures.delays.stall_us / 1000,
            undo_journal=self._keeps(figures.journal),
            full=figures.full,
            fsyncs=_shown(figures.fsyncs),
            measured_ms=_mean_ms(paid.values()),
            probe=self._probed,
            redo_delay_ms=figures.delays.own_ms("redo"),
            binlog_delay_ms=figures.delays.own_ms("binlog"),
            jitter_ms=figures.delays.jitter_us / 1000,
            measured_by_kind_ms={kind: ms for kind, ms in by_kind.items() if ms is not None},
        )

    async def look(self, *, probe: bool = False) -> DiskState:
        """The state; `probe` writes to the disk first. Raises Refused."""
        if probe:
            await self.probe()
        return self.state()

    async def change(self, asked: SetDisk) -> DiskState:
        """Do to the server's files what is asked, from the next call on; the state then.

        Those that wait are let go where a delay falls. A fault is taken back from a server that is down too:
        the page outlives it. Raises Refused with the reason, and then nothing is changed.
        """
        figures_ms = (asked.delay_ms, asked.jitter_ms, asked.stall_ms)
        for delay_ms in (*figures_ms, asked.redo_delay_ms, asked.binlog_delay_ms):
            if isinstance(delay_ms, float | int) and not 0 <= delay_ms <= MOST_DELAY_MS:
                raise Refused(f"the fsync delay must be within 0..{MOST_DELAY_MS:g} ms")
        try:
            with fsyncpage.opened(self._page_path) as page:
                if not page.held() and asked not in (SetDisk(stall_ms=0), SetDisk(full=False)):
                    raise Refused(self._without_shim())
                if asked.undo_journal and not page.figures().journal:
                    self._make_room()
                if asked.undo_journal is not None:
                    page.keep_journal(asked.undo_journal, JOURNAL_BYTES, JOURNAL_KINDS)
                page.delay(_changed(page.delays(), asked))
                if asked.full is not None:
                    page.fill_disk(fsyncpage.KINDS if asked.full else ())
        except FileNotFoundError:
            raise Refused(self._without_shim()) from None
        except fsyncpage.Unreadable as unreadable:
            raise Refused(str(unreadable)) from None
        await asyncio.sleep(SETTLE_S)
        self._window.restart(self._look()[0])
        return self.state()

    async def probe(self) -> DiskProbe:
        """Write 1,000 times 512 bytes synchronously, as `dd oflag=dsync`.

        Callers at the same time share one run. Raises Refused with the reason: no server is attached, or
        the volume does not take the file.
        """
        if self._prober is None:
            reason = self._look()[1]
            if reason is not None:
                raise Refused(reason)
            self._prober = asyncio.create_task(
                asyncio.to_thread(write_synchronously, self._probe_path, self._stop)
            )
            self._prober.add_done_callback(self._probe_ended)
        try:
            await asyncio.shield(self._prober)
        except OSError as error:
            raise Refused(f"the disk cannot be probed: {error.strerror}") from None
        if self._probed is None:
            raise Refused("the agent ends")
        return self._probed

    def _probe_ended(self, prober: asyncio.Task[list[float]]) -> None:
        self._prober = None
        if not prober.cancelled() and prober.exception() is None and prober.result():
            ordered = sorted(prober.result())
            p50_ms, p95_ms, p99_ms = (_percentile(ordered, percent) for percent in (50, 95, 99))
            self._probed = DiskProbe(p50_ms, p95_ms, p99_ms, len(ordered))

    def _keeps(self, number: int) -> bool:
        """The shim has begun the journal that is asked for; it does at the server's next write."""
        return number != 0 and fsyncpage.journal_of(self._page_path) == number

    def _make_room(self) -> None:
        """Raises Refused where the disk has too little room for a journal."""
        room = os.statvfs(self._page_path.parent)
        if room.f_bavail * room.f_frsize < 2 * JOURNAL_BYTES:
            raise Refused(f"the disk has no room for an undo journal of {JOURNAL_BYTES >> 20} MB")

    def _look(self) -> tuple[Figures | None, str | None]:
        """The page's figures where there are any, and why no delay can be set, if so."""
        try:
            with fsyncpage.opened(self._page_path) as page:
                return page.figures(), None if page.held() else self._without_shim()
        except FileNotFoundError:
            return None, self._without_shim()
        except fsyncpage.Unreadable as unreadable:
            return None, str(unreadable)

    def _without_shim(self) -> str:
        return NO_SHIM if self._listens() else DOWN

    async def _sample(self) -> None:
        while True:
            figures, _ = self._look()
            if figures is None:
                self._window.restart(None)
            else:
                self._window.close_interval(figures)
            await asyncio.sleep(SAMPLE_S)
