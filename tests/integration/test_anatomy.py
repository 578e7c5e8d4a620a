"""One commit's anatomy and the servers' truth against real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.tick import Tick
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.known import known
from tests.turning import turn
from tests.waiting import until_tick

pytestmark = pytest.mark.docker

MODES = {
    "none": ("semi_sync=off", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0"),
    "local": ("semi_sync=off", "sync_binlog=1", "innodb_flush_log_at_trx_commit=1"),
    "network": ("semi_sync=on", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0"),
    "both": ("semi_sync=on", "sync_binlog=1", "innodb_flush_log_at_trx_commit=1"),
}
DELAYS = {"bare": ("rtt=0", "fsync_delay=0"), "delayed": ("rtt=2ms", "fsync_delay=2ms")}
DELAY_MS = 2.0
SETTINGS = (
    *((mode, "delayed", "after_sync") for mode in MODES),
    ("none", "bare", "after_sync"),
    ("both", "bare", "after_commit"),
)
TOLERANCE = 0.10
STRETCHES = 6
ENOUGH = 200
"""Commits: below that what is under way at the ends of a stretch weighs too much."""
FULL_S = 2.5


@asynccontextmanager
async def running(live: LiveStack, *knobs: str) -> AsyncIterator[Session]:
    """A session that drives a load and watches, as the dashboard does."""
    async with attached(live) as session:
        await turn(session, *knobs)
        await session.start(lambda *_: None)
        try:
            yield session
        finally:
            await session.close()


def is_full(tick: Tick) -> bool:
    """A whole stretch of enough commits since the last change was taken apart."""
    anatomy = tick.anatomy
    return anatomy is not None and anatomy.duration_s >= FULL_S and anatomy.commits >= ENOUGH


async def taken_apart(session: Session) -> Anatomy:
    """The next whole stretch."""
    return known((await until_tick(session, is_full, "a stretch of enough commits")).anatomy)


def unexplained(anatomy: Anatomy) -> float:
    """By how much the named parts miss the clients' mean, as a share of it."""
    return (anatomy.parts[Part.OTHER] + anatomy.excess_ms) / anatomy.mean_ms


def told(anatomy: Anatomy) -> str:
    """For a failure's evidence."""
    parts = ", ".join(f"{part} {ms:.3f}" for part, ms in anatomy.parts.items())
    return f"n={anatomy.commits} mean={anatomy.mean_ms:.3f} ms: {parts}, excess {anatomy.excess_ms:.3f}"


async def test_the_parts_agree_with_the_clients_mean_in_the_four_durability_modes(
    live_stack: LiveStack,
) -> None:
    async with running(live_stack, "clients=1", "workload=update_index") as session:
        for mode, delays, point in SETTINGS:
            name = f"{mode}, {delays}, {point}"
            await turn(session, *MODES[mode], *DELAYS[delays], f"wait_point={point}")
            for _ in range(STRETCHES):
                # A machine that did something else meanwhile gets one more stretch; all are told. Of some
                # hundred commits a few statements more or less look like another client's, and then the wire
                # is not told.
                anatomy = await taken_apart(session)
                print(f"{name}: {unexplained(anatomy):.1%} of {told(anatomy)}")
                if unexplained(anatomy) <= TOLERANCE and Part.WIRE in anatomy.parts:
                    break
                await session.console.mark("once more")
            assert unexplained(anatomy) <= TOLERANCE, f"{name}: {told(anatomy)}"
            _check_shape(name, anatomy, mode, delays, point)


def _check_shape(name: str, anatomy: Anatomy, mode: str, delays: str, point: str) -> None:
    """What waits for nothing has no part; what is delayed is seen to be; in the commit's own order."""
    parts = anatomy.parts
    expected, queues = set[Part](), set[Part]()
    if mode in ("local", "both"):
        expected |= {Part.REDO, Part.BINLOG}
        queues |= {Part.FSYNC_QUEUE}
    if mode in ("network", "both"):
        expected |= {Part.ACK}
        queues |= {Part.ACK_QUEUE}
        first = next(part for part in parts if part in (Part.ACK, Part.ENGINE))
        assert first is (Part.ACK if point == "after_sync" else Part.ENGINE), name
    measured = {Part.WIRE, Part.EXECUTE, Part.ENGINE, Part.OTHER}
    assert parts.keys() - {Part.QUEUE} == expected | measured | queues, name
    assert list(parts)[-1] is Part.OTHER, name
    if delays == "delayed":
        for part in expected:
            assert parts[part] >= _least_ms(part), f"{name}: {part} {told(anatomy)}"


def _least_ms(part: Part) -> float:
    """What a delayed part takes at least. The events are under way before the wait for their acknowledgement
    begins, and a link may be 0.3 ms off what was asked; what is under way at the ends of a stretch is cut."""
    return (0.75 if part is Part.ACK else 0.9) * DELAY_MS


async def test_eight_clients_wait_for_their_groups(live_stack: LiveStack) -> None:
    async with running(live_stack, "clients=8", *MODES["both"], *DELAYS["delayed"]) as session:
        for point in ("after_sync", "after_commit"):
            await turn(session, f"wait_point={point}")
            tick = await until_tick(session, is_full, "a stretch of enough commits")
            anatomy, truth = known(tick.anatomy), known(tick.truth)
            print(f"{point}: {unexplained(anatomy):.1%} of {told(anatomy)}")
            for part in (Part.REDO, Part.BINLOG, Part.ACK):
                assert anatomy.named[part] >= _least_ms(part), f"{point}: {part} {told(anatomy)}"
            assert known(truth.group_size) > 1
            assert known(truth.redo_fsyncs) < 1
            assert (truth.queue_size is not None) == (point == "after_sync")
