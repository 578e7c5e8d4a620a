"""The faults' screen: what would happen and by which commands, injecting, what is in force, clearing."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.fault import KINDS, Fault, FaultKind
from replexplorer.core.topology import Role, Roster
from replexplorer.core.wire import Experiment
from replexplorer.engine.outcome import ExperimentUnderWay, Injected
from replexplorer.ui.screens.faults import FaultsScreen, injections, role_changes
from replexplorer.ui.widgets.lines import Chart
from tests.fakes.facade import WALL_S, FakeFacade, altered, make_tick
from tests.ui.driving import EVERY_SIZE, Bench, bench, page


def in_force(number: int, kind: str, node: str, value: str | None = None, since_s: float = -10.0) -> Fault:
    return Fault(number, kind, value, node, WALL_S + since_s, None, "fault (pid 12)", {})


def screen(app: Bench) -> FaultsScreen:
    found = app.app.screen
    assert isinstance(found, FaultsScreen)
    return found


async def opened(app: Bench, row: str = "kill@db1") -> None:
    """The screen with the cursor on this row, in this form."""
    await app.press("F")
    await app.until(lambda: isinstance(app.app.screen, FaultsScreen))
    rows = [each for _, part in screen(app).parts for each in part]
    forms = next(each for each in rows if row in each)
    await app.press(*["down"] * rows.index(forms), *["right"] * forms.index(row))
    await app.until(lambda: any(f"▸ {row}" in line for line in app.shown), row)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.key)
async def test_each_kind_tells_at_80_columns_what_happens_what_runs_and_what_undoes_it(
    kind: FaultKind, snapshot: SnapshotAssertion
) -> None:
    async with bench(size=(80, 24)) as app:
        roster = Roster(("db1", "db2"), "db1")
        first = next(forms[0] for forms in injections(roster) if re.split("[=@]", forms[0])[0] == kind.key)
        await opened(app, first)
        assert page(app.whole) == snapshot


def test_each_fault_stands_there_with_its_values_and_nodes_as_it_is_typed() -> None:
    kinds = [*injections(Roster(("db1", "db2", "db3"), "db2"))]
    assert kinds[0] == ("kill@db2", "kill@db1", "kill@db3")
    rows = [row for forms in kinds for row in forms]
    assert [row for row in rows if row.startswith("partition=ack")] == [
        "partition=ack", "partition=ack@db1", "partition=ack@db3",
    ]  # fmt: skip
    assert "disk_stall=200@db2" in rows
    assert "flap=2/2@db2" in rows, "of a flap: all links of the source"
    assert not [one for one in injections(Roster(("db1",), "db1")) if one[0].startswith("applier_stop")]


async def test_the_arrows_turn_a_row_s_value_and_node_and_enter_injects_it_or_says_why_not() -> None:
    facade = FakeFacade()
    facade.failures["inject"] = ExperimentUnderWay(Experiment("lab", "tour", "cli", 1, "here"), "wait")
    facade.injected = (Injected(in_force(1, "power_cut", "db3", "torn"), ("binlog.000003 512 bytes",)),)
    async with bench(make_tick(1.0, replicas=2), size=(80, 24), facade=facade) as app:
        await opened(app, "power_cut=strict@db1")
        assert "←→ value, node" in app.sheet[0]
        assert sum(row[2:].startswith("power_cut") for row in app.sheet) == 1
        await app.press("right")
        await app.until(lambda: "▸ power_cut=strict@db2 ◂▸" in app.screen_text)
        await app.press("left", "left")
        await app.until(lambda: "▸ power_cut=torn@db3 ◂▸" in app.screen_text, "the last one")
        await app.press("down", "up")
        await app.until(lambda: "▸ power_cut=torn@db3 ◂▸" in app.screen_text, "it stays so")
        await app.press("enter")
        await app.told(
            "the lab tour (cli, pid 1 on here) turns the knobs: wait for its end (in a shell, `--force`"
        )
        await app.press("enter")
        await app.told("db3 lost of binlog.000003 512 bytes")
        assert facade.called("inject") == [("power_cut=torn", ("db3",))] * 2


async def test_what_is_in_force_is_listed_with_its_age_and_cleared_by_one_key() -> None:
    tick = replace(
        make_tick(1.0), faults=(in_force(1, "kill", "db2"), in_force(2, "disk_stall", "db1", "200", -65.0))
    )
    async with bench(size=(80, 24)) as app:
        await opened(app, "pause@db1")
        await app.play(tick)
        await app.until(lambda: "IN FORCE" in app.screen_text)
        assert screen(app).chosen[0] == "pause@db1", "the cursor stays where it is"
        await app.press("home")
        rows = [row.split()[:3] for row in app.shown if "by fault (pid 12)" in row]
        assert rows == [["▸", "disk_stall=200@db1", "00:01:06"], ["kill@db2", "00:00:11", "by"]]
        await app.press("down", "enter")
        await app.until(lambda: app.facade.called("clear") == ["kill@db2"])
        await app.press("X")
        await app.until(lambda: app.facade.called("clear") == ["kill@db2", None])


@EVERY_SIZE
async def test_the_charts_and_the_state_go_on_above_a_fault_that_is_carried_out(
    size: tuple[int, int],
) -> None:
    facade = FakeFacade()
    facade.hold["inject"] = asyncio.Event()
    async with bench(size=size, facade=facade) as app:
        await opened(app)
        chart = app.dashboard.query_one("#tps-chart", Chart)
        assert chart.region.bottom <= app.app.screen.query_one("#sheet").region.y
        await app.press("enter")
        await app.until(lambda: "injecting kill on db1…" in app.sheet[0])
        before = chart.shown
        await app.play(replace(make_tick(2.0, tps=0.0), faults=(in_force(1, "kill", "db1"),)))
        assert chart.shown != before
        await app.until(lambda: "kill@db1" in app.shown[0] and "IN FORCE" in app.screen_text)
        await app.press("escape")
        await app.until(lambda: app.app.screen is app.dashboard)
        await app.press("m")
        await app.until(lambda: facade.called("mark") == ["mark"])
        await app.press("f")
        await app.told("repair again when this is done: injecting kill on db1")
        assert facade.called("repair") == []
        facade.hold["inject"].set()
        await app.until(lambda: not app.dashboard.under_way)
        await app.press("f")
        await app.until(lambda: len(facade.called("repair")) == 1)


async def test_roles_are_changed_by_a_second_enter_alone() -> None:
    async with bench(make_tick(1.0, replicas=2), size=(80, 24)) as app:
        await opened(app, "switchover db3")
        await app.press("enter")
        assert "Enter again does it" in app.screen_text
        await app.press("m")
        assert "Enter again does it" not in app.screen_text
        await app.press("enter")
        assert app.facade.called("switchover") == []
        await app.press("enter")
        await app.until(lambda: app.facade.called("switchover") == ["db3"])
        await app.told("db3 is the source, db1 was: ")


async def test_rejoin_offers_who_is_away_and_says_what_it_would_lose() -> None:
    whole = make_tick(1.0, replicas=2)
    tick = altered(whole, db3={"role": Role.DETACHED, "errant_gtids": "uuid-9:1-7"})
    async with bench(tick, size=(80, 24)) as app:
        await opened(app, "rejoin db3")
        assert "db3 would lose what the source lacks: uuid-9:1-7" in app.screen_text
        assert all(len(row) <= 80 for row in app.shown)
        await app.press("enter", "enter")
        await app.until(lambda: app.facade.called("rejoin") == ["db3"])
        assert not [forms for forms in role_changes(whole) if forms[0].startswith("rejoin")]
