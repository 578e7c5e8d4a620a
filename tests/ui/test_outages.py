"""An outage on the dashboard: the countdown, who acknowledges, and windows on both charts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from tests.fakes.facade import make_tick
from tests.ui.driving import Bench, bench

SYNC = KnobName("sync_binlog", SOURCE)
FLUSH = KnobName("innodb_flush_log_at_trx_commit", SOURCE)
SIZES = [(80, 24), (120, 36), (160, 45)]


def with_protection(tick: Tick, **changes: object) -> Tick:
    return replace(tick, protection=replace(tick.protection, **changes))  # type: ignore[arg-type]


def inks(app: Bench, text: str) -> set[str]:
    """The words that this text of the header is drawn with."""
    return {words for part, words in app.painted("#header")[0] if text in part}


def blocked(**changes: object) -> Tick:
    held = {"oldest_wait_s": 6.4, "waiting": 32, "replicas_acking": 1, **changes}
    return with_protection(make_tick(1.0, state=ProtectionState.BLOCKED), **held)


@pytest.mark.parametrize("size", SIZES)
async def test_blocked_counts_towards_the_timeout_at_every_size(size: tuple[int, int]) -> None:
    async with bench(blocked(), size=size) as app:
        header = app.text("#header")
        assert "BLOCKED" in header
        assert "6 of 10 s" in header
        assert ("32 commits wait" in header) or size[0] < 120


async def test_how_many_wait_is_left_out_where_nobody_knows() -> None:
    async with bench(blocked(waiting=None), size=(160, 45)) as app:
        assert "6 of 10 s" in app.text("#header")
        assert "wait" not in app.text("#header")
    async with bench(blocked(waiting=1), size=(160, 45)) as app:
        assert "1 commit waits" in app.text("#header")


async def test_nothing_counts_down_when_nothing_is_blocked() -> None:
    async with bench(make_tick(1.0), size=(160, 45)) as app:
        assert " of 10 s" not in app.text("#header")


@pytest.mark.parametrize(
    ("state", "word", "ink"),
    [
        (ProtectionState.PROTECTED, "1/1 ack", "good b"),
        (ProtectionState.BLOCKED, "1/1 registered", "warn b"),
        (ProtectionState.DEGRADED, "1/1 registered", "warn b"),
    ],
)
async def test_acknowledging_is_green_only_while_somebody_does(
    state: ProtectionState, word: str, ink: str
) -> None:
    tick = with_protection(make_tick(1.0, state=state), replicas_acking=1)
    async with bench(tick, size=(200, 45)) as app:
        assert word in app.text("#header")
        assert inks(app, word) == {ink}


async def test_nobody_acknowledges_through_links_that_are_cut() -> None:
    """Protected is so until the next commit waits; the chip says it at once."""
    tick = with_protection(make_tick(1.0), replicas_acking=1, no_ack_can_come=True)
    async with bench(tick, size=(200, 45)) as app:
        assert inks(app, "1/1 registered") == {"warn b"}


async def test_a_stale_registration_is_no_second_replica() -> None:
    """For some seconds after a heal the source counts the old dump thread beside the new one."""
    tick = with_protection(make_tick(1.0), replicas_acking=1, replicas_counted=2)
    async with bench(tick, size=(200, 45)) as app:
        assert "1/1 ack +1 stale" in app.text("#header")
        assert inks(app, "stale") == {"warn b"}
    old = with_protection(make_tick(1.0), replicas_acking=2)
    async with bench(old, size=(200, 45)) as app:
        assert "1/1 ack +1 stale" in app.text("#header"), "a file from before the source's own count"
    two = with_protection(make_tick(1.0, replicas=2), replicas_acking=2, replicas_counted=2)
    async with bench(two, size=(200, 45)) as app:
        assert "2/1 ack" in app.text("#header")
        assert "stale" not in app.text("#header")


async def test_a_restarted_replica_is_named_on_the_chart() -> None:
    tick = make_tick(8.0)
    nodes: tuple[NodeView, ...] = (tick.nodes[0], replace(tick.nodes[1], restarted_s=7.4))
    async with bench(make_tick(1.0), make_tick(4.0), replace(tick, nodes=nodes)) as app:
        assert [one.word for one in app.dashboard.picture.chart("tps").page.windows] == ["db2 restarted"]


@pytest.mark.parametrize("size", SIZES)
async def test_lost_acknowledgements_say_that_a_waiting_commit_has_arrived(size: tuple[int, int]) -> None:
    """The lesson of a partition of that way: the commit blocks, and is on the replica."""
    cut: dict[KnobName, Value] = {KnobName("partition", "db2"): "ack"}
    sentence = "▲ db2: acknowledgements lost: a waiting commit is here already"
    async with bench(make_tick(1.0, state=ProtectionState.BLOCKED, values=cut), size=size) as app:
        await app.until(lambda: sentence in app.text("#replica-strip"))
        await app.play(make_tick(1.5, state=ProtectionState.OFF, values=cut))
        assert not app.dashboard.has_class("-trouble"), "without semi-sync nothing waits"


@pytest.mark.parametrize("values", [{}, {SYNC: 0}, {SYNC: 0, FLUSH: 2}])
async def test_the_strip_names_the_window_of_its_figures_whatever_is_risked(
    values: dict[KnobName, Value],
) -> None:
    async with bench(*(make_tick(at / 2, values=values) for at in range(1, 6)), size=(80, 24)) as app:
        strip = app.text("#value-strip")
        assert "in 0.5 s" in strip
        assert "×8" in strip
        assert all(name.knob.label in strip for name in values)
