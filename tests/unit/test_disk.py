"""The agent's disk room: what it reads from the fsync shim's page, what it refuses, and its probe."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from replexplorer.core import wire
from tests.sidecar import load
from tests.typed import fields, table_of
from tests.waiting import patience

disk, fsyncpage, tool = load("disk"), load("fsyncpage"), load("tool")
HEAD = (fsyncpage.MAGIC, fsyncpage.VERSION, fsyncpage.PAGE_BYTES)
"""How a page begins."""


class Page:
    """A page with or without a server that holds it; times in ms."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / disk.PAGE_NAME
        self.listens = False
        self._lock: int | None = None

    def make(self, *head: int) -> None:
        words = [*(head or HEAD)]
        self.path.write_bytes(struct.pack("=512Q", *words, *[0] * (512 - len(words))))

    def hold(self) -> None:
        self._lock = os.open(self.path, os.O_RDWR)
        fcntl.fcntl(self._lock, fcntl.F_OFD_SETLK, fsyncpage.LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))

    def let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def sync(self, kind: str, count: int = 1, took_ms: float = 0.0, delayed_ms: float = 0.0) -> None:
        with fsyncpage.opened(self.path) as page:
            for figure, each in (
                (fsyncpage.FSYNCS, 1),
                (fsyncpage.FSYNC_NS, took_ms * 1e6),
                (fsyncpage.DELAYED_NS, delayed_ms * 1e6),
            ):
                page.words[fsyncpage.word(kind, figure)] += round(count * each)

    def write(self, at: int, value: int) -> None:
        with fsyncpage.opened(self.path) as page:
            page.words[at] = value

    def asked_us(self, figure: int) -> dict[str, int]:
        """A delay or jitter by kind of file."""
        words = struct.unpack("=512Q", self.path.read_bytes())
        return {kind: words[fsyncpage.word(kind, figure)] for kind in fsyncpage.KINDS}

    def delays_us(self) -> set[int]:
        return set(self.asked_us(fsyncpage.DELAY_US).values())


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A page that is not made yet."""
    made = Page(tmp_path)
    yield made
    made.let_go()


@pytest.fixture
def held(page: Page) -> Page:
    """A page with a server."""
    page.make()
    page.hold()
    return page


def disk_of(page: Page) -> Any:
    return disk.Disk(page.path.parent, lambda: page.listens)


def test_counts_by_kind_index_and_directory_with_the_others(held: Page, snapshot: object) -> None:
    for count, kind in enumerate(fsyncpage.KINDS, start=1):
        held.sync(kind, count)
    assert disk_of(held).state() == snapshot


async def test_without_an_attached_server_there_is_a_reason(page: Page) -> None:
    for made, listens in product((False, True), (False, True)):
        if made:
            page.make()
        page.listens = listens
        reason = "the server runs without the fsync shim" if listens else "the server is down"
        room = disk_of(page)
        state = room.state()
        assert (state.attached, state.reason, state.delay_ms) == (False, reason, 0 if made else None)
        assert set(state.fsyncs.values()) == {0}
        for attempt in (room.change(wire.SetDisk(delay_ms=5)), room.probe()):
            with pytest.raises(tool.Refused, match=f"^{reason}$"):
                await attempt
        assert [file.name for file in page.path.parent.iterdir()] == [disk.PAGE_NAME] * made
        assert not made or page.delays_us() == {0}


@pytest.mark.parametrize(
    "head", [(HEAD[0] + 1, *HEAD[1:]), (HEAD[0], HEAD[1] + 1, HEAD[2]), (*HEAD[:2], 8192), (0, 0, 0)]
)
async def test_a_page_of_another_layout_is_not_touched(page: Page, head: tuple[int, ...]) -> None:
    page.make(*head)
    page.hold()
    before = page.path.read_bytes()
    room = disk_of(page)
    assert room.state().reason == "the fsync shim's page has another layout"
    assert set(room.state().fsyncs.values()) == {0}
    with pytest.raises(tool.Refused, match="another layout"):
        await room.change(wire.SetDisk(delay_ms=5))
    assert page.path.read_bytes() == before


async def test_a_page_that_is_too_short_or_no_file(page: Page) -> None:
    page.path.write_bytes(b"RXFSYNC\0")
    assert "another layout" in disk_of(page).state().reason
    page.path.unlink()
    page.path.symlink_to("/dev/zero")
    assert "cannot be opened: Too many levels" in disk_of(page).state().reason


async def test_delay_and_jitter_are_written_for_every_kind(held: Page) -> None:
    for delay_ms, delay_us in ((0, 0), (0.1, 100), (2.5, 2500), (5000, 5_000_000)):
        state = await disk_of(held).change(wire.SetDisk(delay_ms=delay_ms, jitter_ms=1.5))
        assert held.delays_us() == {delay_us}
        assert set(held.asked_us(fsyncpage.JITTER_US).values()) == {1500}
        assert [state.delay_ms, state.jitter_ms, disk_of(held).state().delay_ms] == [delay_ms, 1.5, delay_ms]


async def test_a_delay_out_of_range_is_refused(held: Page) -> None:
    for delay_ms in (-0.1, 5000.1, float("nan"), float("inf")):
        for asked in (wire.SetDisk(delay_ms=delay_ms), wire.SetDisk(stall_ms=delay_ms)):
            with pytest.raises(tool.Refused, match=r"within 0\.\.5000 ms"):
                await disk_of(held).change(asked)
    assert held.delays_us() == {0}


async def test_a_fault_adds_to_the_delay_and_leaves_it_as_it_is(held: Page, snapshot: object) -> None:
    room = disk_of(held)
    seen = []
    for asked in ("delay_ms=3", "stall_ms=200", "delay_ms=5", "stall_ms=0"):
        state = await room.change(wire.SetDisk(**fields(asked)))
        seen.append((state.delay_ms, state.stall_ms, held.delays_us()))
    assert seen == snapshot


async def test_a_fault_is_taken_back_from_a_server_that_is_down(page: Page) -> None:
    """Else a stalled source that was replaced could not be mended before it is back."""
    page.make()
    page.write(fsyncpage.STALL_US, 200_000)
    page.write(fsyncpage.FULL, 1)
    room = disk_of(page)
    with pytest.raises(tool.Refused):
        await room.change(wire.SetDisk(stall_ms=10))
    assert (await room.change(wire.SetDisk(stall_ms=0))).stall_ms == 0
    assert (await room.change(wire.SetDisk(full=False))).full is False


def test_measured_is_the_mean_of_redo_and_binlog_delay_included(held: Page) -> None:
    room = disk_of(held)
    held.sync("redo", 100, took_ms=50)
    assert room.state().measured_ms is None
    held.sync("redo", 3, took_ms=1, delayed_ms=10)
    held.sync("binlog", 1, took_ms=5, delayed_ms=10)
    held.sync("data", 50, took_ms=99)
    assert room.state().measured_ms == pytest.approx(12)
    assert room.state().measured_ms == pytest.approx(12)


def close_interval(room: Any, page: Page) -> None:
    """As it does by itself now and then."""
    with fsyncpage.opened(page.path) as opened:
        room._window.close_interval(opened.figures())


async def test_measured_starts_again_with_a_change_of_the_delay(held: Page) -> None:
    room = disk_of(held)
    room.state()
    held.sync("redo", 5, took_ms=1)
    assert room.state().measured_ms == pytest.approx(1)
    assert (await room.change(wire.SetDisk(delay_ms=20))).measured_ms is None
    held.sync("redo", 2, took_ms=1, delayed_ms=20)
    assert room.state().measured_ms == pytest.approx(21)
    close_interval(room, held)
    assert room.state().measured_ms == pytest.approx(21)
    held.write(fsyncpage.word("other", fsyncpage.DELAY_US), 0)
    assert room.state().measured_ms is None
    held.make()
    assert room.state().measured_ms is None


def test_the_window_is_of_the_last_intervals_with_fsyncs(held: Page) -> None:
    room = disk_of(held)
    room.state()
    for took_ms in (100, 10, *[2] * (disk.WINDOW_SAMPLES - 1)):
        held.sync("redo", 10, took_ms=took_ms)
        for _ in range(21):
            close_interval(room, held)
    assert disk.WINDOW_SAMPLES == 8
    assert room.state().measured_ms == pytest.approx((10 + 7 * 2) / 8)


async def test_redo_and_binlog_can_have_delays_of_their_own(held: Page, snapshot: object) -> None:
    room = disk_of(held)
    told = []
    for asked in ("delay_ms=5", "redo_delay_ms=0 binlog_delay_ms=20", "delay_ms=7", "redo_delay_ms='auto'"):
        state = await room.change(wire.SetDisk(**fields(asked)))
        delays = held.asked_us(fsyncpage.DELAY_US)
        told.append((state.delay_ms, state.redo_delay_ms, state.binlog_delay_ms, delays))
    assert told == snapshot
    held.sync("redo", 2, took_ms=1)
    held.sync("binlog", 1, took_ms=1, delayed_ms=20)
    assert room.state().measured_by_kind_ms == {"redo": pytest.approx(1), "binlog": pytest.approx(21)}


async def test_samples_are_taken_by_themselves_and_end_with_it(
    held: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "SAMPLE_S", 0.001)
    room = disk_of(held)
    room.start()
    held.sync("binlog", 2, took_ms=3)
    until = time.monotonic() + 10 * patience()
    while len(room._window._marks) < 2:
        assert time.monotonic() < until
        held.sync("binlog", 2, took_ms=3)
        await asyncio.sleep(0.005)
    held.path.unlink()
    while room._window._marks:
        assert time.monotonic() < until
        await asyncio.sleep(0.005)
    await room.close()
    assert room._sampler.cancelled()


async def test_the_probe_is_synchronous_bounded_and_shared(
    held: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, runs = threading.Event(), threading.Event(), 0
    real = os.write

    def slow(fd: int, content: bytes) -> int:
        nonlocal runs
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DSYNC
        assert len(content) == 512
        runs += 1
        began.set()
        assert go_on.wait(20)
        return real(fd, content)

    monkeypatch.setattr(disk.os, "write", slow)
    monkeypatch.setattr(disk, "PROBE_LIMIT_S", 0.0001)
    room = disk_of(held)
    first = asyncio.create_task(room.probe())
    assert await asyncio.to_thread(began.wait, 20)
    second, third = asyncio.create_task(room.probe()), asyncio.create_task(room.probe())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go_on.set()
    answers = [await second, await third]
    assert runs == 1
    assert [answer.n for answer in answers] == [1, 1]
    assert (await room.probe()).n == 1
    assert runs == 2


async def test_a_probe_leaves_nothing_and_one_that_fails_is_refused_in_words(
    held: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = disk_of(held)
    with monkeypatch.context() as patch:
        patch.setattr(disk.os, "write", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(tool.Refused, match="No space left"):
            await room.probe()
    assert not (held.path.parent / disk.PROBE_NAME).exists()
    assert room.state().probe is None
    answer = await room.probe()
    assert 1 <= answer.n <= 1000
    assert 0 < answer.p50_ms <= answer.p95_ms <= answer.p99_ms
    assert [file.name for file in held.path.parent.iterdir()] == [disk.PAGE_NAME]
    assert room.state().probe.n == answer.n


async def test_what_a_killed_agent_left_goes_at_the_start_and_a_probe_under_way_at_the_end(
    held: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = held.path.parent / disk.PROBE_NAME
    left.write_bytes(b"x")
    room = disk_of(held)
    room.start()
    assert not left.exists()
    monkeypatch.setattr(disk, "PROBE_WRITES", 10**9)
    monkeypatch.setattr(disk, "PROBE_LIMIT_S", 60.0)
    probing = asyncio.create_task(room.probe())
    until = time.monotonic() + 10 * patience()
    while not left.exists():
        assert time.monotonic() < until
        await asyncio.sleep(0.001)
    await room.close()
    assert not left.exists()
    await asyncio.wait([probing], timeout=10)
    assert probing.done()


SOCKETS = """\
00000000:0CEA 0A yes
0100007F:0CEA 0A yes
0100007F:0CEA 01 no
00000000:0CEB 0A no
"""


def test_who_listens_is_read_from_the_namespace(tmp_path: Path) -> None:
    table, rest = tmp_path / "tcp", "00:00000000 00000000   999        0 18"
    for address, state, listens in table_of(SOCKETS, None):
        table.write_text(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
            f"\n   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 {rest}"
            f"\n   1: {address} 00000000:0000 {state} 00000000:00000000 {rest}\n"
        )
        assert disk.server_listens(table) is (listens == "yes"), address
    assert disk.server_listens(tmp_path / "none") is False
