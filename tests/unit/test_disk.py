"""The agent's disk room: what it reads from the fsync shim's page, what it refuses, and its probe."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from replexplorer.core import wire
from tests.sidecar import load
from tests.typed import fields
from tests.waiting import until

disk, fsyncpage, tool = load("disk"), load("fsyncpage"), load("tool")
HEAD = (fsyncpage.MAGIC, fsyncpage.VERSION, fsyncpage.PAGE_BYTES)
"""How a page begins."""


class Page:
    """A page with or without a server that holds it; times in ms."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / disk.PAGE_NAME
        self.listens = False

    def make(self, *head: int) -> None:
        self.path.write_bytes(struct.pack("=3Q", *(head or HEAD)).ljust(fsyncpage.PAGE_BYTES, b"\0"))

    @contextmanager
    def held(self) -> Iterator[Page]:
        """By a server."""
        with self.path.open("r+b") as file:
            asked = fsyncpage.LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, asked)
            yield self

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
        with fsyncpage.opened(self.path) as page:
            return {kind: page.words[fsyncpage.word(kind, figure)] for kind in fsyncpage.KINDS}


@pytest.fixture
def page(tmp_path: Path) -> Page:
    """A page that is not made yet."""
    return Page(tmp_path)


@pytest.fixture
def held(page: Page) -> Iterator[Page]:
    """A page with a server."""
    page.make()
    with page.held():
        yield page


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
        for attempt in (room.change(wire.SetDisk(delay_ms=5)), room.probe()):
            with pytest.raises(tool.Refused, match=f"^{reason}$"):
                await attempt
        assert [file.name for file in page.path.parent.iterdir()] == [disk.PAGE_NAME] * made
        assert not made or {*page.asked_us(fsyncpage.DELAY_US).values()} == {0}


async def test_a_page_of_another_layout_is_not_touched(page: Page) -> None:
    room, (magic, version, size) = disk_of(page), HEAD
    for head in ((magic + 1, version, size), (magic, version + 1, size), (magic, version, 8192)):
        page.make(*head)
        before = page.path.read_bytes()
        assert room.state().reason == "the fsync shim's page has another layout"
        with pytest.raises(tool.Refused, match="another layout"):
            await room.change(wire.SetDisk(delay_ms=5))
        assert page.path.read_bytes() == before
    page.path.write_bytes(b"RXFSYNC\0")
    assert "another layout" in room.state().reason
    page.path.unlink()
    page.path.symlink_to("/dev/zero")
    assert "cannot be opened: Too many levels" in room.state().reason


ASKED = """\
delay_ms=0.1 jitter_ms=1.5
stall_ms=200
delay_ms=5000
stall_ms=0
redo_delay_ms=0 binlog_delay_ms=20
delay_ms=7
redo_delay_ms='auto'"""


async def test_delays_jitter_and_a_fault_s_stall_are_written_and_read_back(
    held: Page, snapshot: object
) -> None:
    """For every kind of file; a fault adds to the delay, and redo and binlog may have their own."""
    told = {}
    for asked in ASKED.splitlines():
        await disk_of(held).change(wire.SetDisk(**fields(asked)))
        state = disk_of(held).state()
        read = state.delay_ms, state.jitter_ms, state.stall_ms, state.redo_delay_ms, state.binlog_delay_ms
        told[asked] = read, held.asked_us(fsyncpage.DELAY_US), held.asked_us(fsyncpage.JITTER_US)
    assert told == snapshot


async def test_a_delay_out_of_range_is_refused(held: Page) -> None:
    for asked in ("delay_ms=-0.1", "delay_ms=5000.1", "delay_ms=1e999", "stall_ms=-1", "redo_delay_ms=-1"):
        with pytest.raises(tool.Refused, match=r"within 0\.\.5000 ms"):
            await disk_of(held).change(wire.SetDisk(**fields(asked)))
    assert {*held.asked_us(fsyncpage.DELAY_US).values()} == {0}


async def test_a_fault_is_cleared_on_a_server_that_is_down(page: Page) -> None:
    """Else the fault of a source that was replaced could not be cleared before it is back."""
    page.make()
    page.write(fsyncpage.STALL_US, 200_000)
    page.write(fsyncpage.FULL, 1)
    room = disk_of(page)
    assert (await room.change(wire.SetDisk(stall_ms=0))).stall_ms == 0
    assert (await room.change(wire.SetDisk(full=False))).full is False


async def test_measured_is_the_mean_of_redo_and_binlog_since_the_delay_changed(held: Page) -> None:
    room = disk_of(held)
    held.sync("redo", 100, took_ms=50)
    assert room.state().measured_ms is None
    held.sync("redo", 3, took_ms=1, delayed_ms=10)
    held.sync("binlog", 1, took_ms=5, delayed_ms=10)
    held.sync("data", 50, took_ms=99)
    assert room.state().measured_ms == pytest.approx(12)
    assert room.state().measured_by_kind_ms == pytest.approx({"redo": 11, "binlog": 15})
    assert (await room.change(wire.SetDisk(delay_ms=20))).measured_ms is None
    held.sync("redo", 2, took_ms=1, delayed_ms=20)
    assert room.state().measured_ms == pytest.approx(21)
    held.write(fsyncpage.word("other", fsyncpage.DELAY_US), 0)
    assert room.state().measured_ms is None, "somebody else changed it"


async def test_measured_is_of_the_last_intervals_with_fsyncs(
    held: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "SAMPLE_S", 0.001)
    room = disk_of(held)
    room.start()

    async def measured_ms() -> Any:
        held.sync("redo", took_ms=2)
        return room.state().measured_ms

    await asyncio.sleep(0)
    held.sync("redo", took_ms=100)
    assert room.state().measured_ms == pytest.approx(100)
    await until(measured_ms, holds=lambda ms: ms == pytest.approx(2))
    await asyncio.sleep(0.1)
    assert room.state().measured_ms == pytest.approx(2)
    await room.close()


async def test_the_probe_is_synchronous_bounded_and_shared_and_leaves_nothing(
    held: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sizes = os.write, list[int]()

    def slow(fd: int, content: bytes) -> int:
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DSYNC
        sizes.append(len(content))
        time.sleep(0.01)
        return real(fd, content)

    monkeypatch.setattr(disk, "PROBE_LIMIT_S", 0.0001)
    room = disk_of(held)
    with monkeypatch.context() as patch:
        patch.setattr(disk.os, "write", slow)
        first, second = (asyncio.create_task(room.probe()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).n == 1
        assert sizes == [512]
        patch.setattr(disk.os, "write", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(tool.Refused, match="No space left"):
            await room.probe()
    assert [file.name for file in held.path.parent.iterdir()] == [disk.PAGE_NAME]
    monkeypatch.setattr(disk, "PROBE_LIMIT_S", 5.0)
    answer = await room.probe()
    assert 1 < answer.n <= 1000
    assert 0 < answer.p50_ms <= answer.p95_ms <= answer.p99_ms
    assert room.state().probe == answer


async def test_what_a_killed_agent_left_goes_at_the_start_and_a_probe_under_way_at_the_end(
    held: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = held.path.parent / disk.PROBE_NAME
    left.touch()
    room = disk_of(held)
    room.start()
    assert not left.exists()
    monkeypatch.setattr(disk, "PROBE_WRITES", 10**9)
    monkeypatch.setattr(disk, "PROBE_LIMIT_S", 60.0)
    probing = asyncio.create_task(room.probe())
    await until(partial(asyncio.to_thread, left.exists))
    await room.close()
    assert not left.exists()
    await asyncio.wait([probing], timeout=10)
    assert probing.done()
