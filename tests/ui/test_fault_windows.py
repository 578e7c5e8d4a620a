"""Injected faults on the dashboard: the chip in the header, the shaded window on both charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.ui.charts.chart_model import FaultWindow, WindowKind
from replexplorer.ui.picture import Picture
from tests.fakes.facade import WALL_S, change_event, down, make_tick
from tests.ui.driving import bench

SIZES = [(80, 24), (120, 36), (160, 45)]
LAX: dict[KnobName, Value] = {KnobName("sync_binlog", SOURCE): 0}


def injected(kind: str, node: str = "db1", value: str | None = None, since_s: float = 5.0) -> Fault:
    """A fault of the fake's clock."""
    return Fault(1, kind, value, node, WALL_S + since_s, None, "fault (pid 12)", {})


def under(tick: Tick, *faults: Fault) -> Tick:
    return replace(tick, faults=faults)


def windows(ticks: Sequence[Tick]) -> list[FaultWindow]:
    picture = Picture()
    for tick in ticks:
        picture.fold(tick)
    tps, latency = picture.chart("tps"), picture.chart("latency")
    assert [(one.start_s, one.end_s) for one in tps.page.windows] == [
        (one.start_s, one.end_s) for one in latency.page.windows
    ]
    return list(tps.page.windows)


def shown(start_s: float, end_s: float | None, fault: Fault) -> FaultWindow:
    length = "" if end_s is None else f" {end_s - start_s:.1f} s"
    short = fault.kind if end_s is None else str(fault)
    return FaultWindow(start_s, end_s, f"{fault}{length}", WindowKind.FAULT, short)


def test_a_fault_is_a_window_until_it_is_cleared_and_its_mark_stands_where_that_begins() -> None:
    """The mark comes when all is done; what is drawn by then stays where it is."""
    fault = injected("kill", "db2")
    marked = change_event(5.4, 1, "fault kill@db2")
    ticks = [
        make_tick(4.5),
        under(make_tick(5.2), fault),
        under(replace(down(make_tick(5.7), "db2"), events=(marked,)), fault),
    ]
    assert windows(ticks[:2]) == [shown(5.0, None, fault)]
    assert windows(ticks) == [shown(5.0, None, fault)]
    assert windows([*ticks, make_tick(9.0)]) == [shown(5.0, 9.0, fault)]
    picture = Picture()
    over = change_event(9.0, 2, "fault over: kill@db2")
    for tick in (*ticks, replace(make_tick(9.5), events=(over,))):
        picture.fold(tick)
    assert [(mark.number, mark.at_s) for mark in picture.marks] == [(1, 5.0), (2, 9.0)]


def test_one_that_was_injected_before_the_dashboard_began_is_shaded_from_the_start() -> None:
    fault = injected("pause", "db2", since_s=-300.0)
    assert windows([under(down(make_tick(5.0), "db2"), fault)]) == [shown(-300.0, None, fault)]


def test_an_isolated_node_has_one_window_until_events_flow_again() -> None:
    fault = injected("isolate")
    cut: dict[KnobName, Value] = {KnobName("partition", "db2"): "both"}
    ticks = [under(make_tick(5.5, values=cut), fault), make_tick(9.0, healing=True)]
    assert windows(ticks) == [shown(5.0, None, fault)]
    assert windows([*ticks, make_tick(10.0)]) == [shown(5.0, 10.0, fault)]


def test_a_power_cut_is_one_window_though_the_server_runs_before_its_links_are_healed() -> None:
    fault = injected("power_cut", value="strict")
    cut: dict[KnobName, Value] = {KnobName("partition", "db2"): "both"}
    ticks = [
        under(down(make_tick(5.5, values=cut), "db1"), fault),
        under(make_tick(14.0, values=cut), fault),
        under(make_tick(14.5, healing=True), fault),
    ]
    assert windows(ticks) == [shown(5.0, None, fault)]
    assert windows([*ticks, make_tick(15.0)]) == [shown(5.0, 15.0, fault)]


def test_a_partition_that_was_injected_is_the_links_own_window() -> None:
    fault = injected("partition", "db2", "ack")
    cut: dict[KnobName, Value] = {KnobName("partition", "db2"): "ack"}
    found = windows([under(make_tick(5.5, values=cut), fault)])
    assert [(one.word, one.kind) for one in found] == [("partition ack", WindowKind.PARTITION)]


def test_the_next_of_the_same_kind_is_a_window_of_its_own() -> None:
    """Numbers begin again once no fault is in force."""
    first, second = injected("applier_stop", "db2"), injected("applier_stop", "db2", since_s=8.0)
    found = windows([under(make_tick(5.5), first), make_tick(7.0), under(make_tick(8.5), second)])
    assert found == [shown(5.0, 7.0, first), shown(8.0, None, second)]


def test_a_held_picture_keeps_its_fault() -> None:
    picture = Picture()
    picture.fold(under(make_tick(5.0), injected("kill", "db2")))
    picture.freeze()
    picture.fold(make_tick(9.0))
    assert [one.end_s for one in picture.chart("tps").page.windows] == [None]


@pytest.mark.parametrize("size", SIZES)
async def test_a_fault_in_force_is_a_chip_whoever_injected_it(size: tuple[int, int]) -> None:
    tick = under(down(make_tick(6.0, values=LAX), "db2"), injected("kill", "db2"))
    async with bench(tick, size=size) as app:
        assert " kill@db2 " in app.text("#header")
        assert "NOT DURABLE" in app.text("#header")
        assert "✖ db2" not in app.text("#header"), "the chip says why it is down"
        await app.play(make_tick(7.0, values=LAX))
        assert "kill@db2" not in app.text("#header")


async def test_a_fault_of_all_replicas_is_one_chip() -> None:
    faults = (injected("applier_stop", "db2"), injected("applier_stop", "db3"))
    async with bench(under(make_tick(6.0, replicas=2), *faults), size=(160, 45)) as app:
        assert " applier_stop@db2,db3 " in app.text("#header")


@pytest.mark.parametrize("size", SIZES)
async def test_every_chip_at_once_leaves_the_state_and_the_throughput(size: tuple[int, int]) -> None:
    cut: dict[KnobName, Value] = {**LAX, KnobName("partition", "db2"): "both"}
    tick = under(make_tick(6.0, values=cut), injected("isolate"), injected("disk_stall", value="200"))
    async with bench(tick, size=size) as app:
        for _ in range(2):
            header = app.text("#header")
            assert "…" not in header
            assert all(part in header for part in ("PROTECTED", "both", "isolate@db1", "TPS   528"))
            await app.press("space")
        assert len(header) <= size[0]
