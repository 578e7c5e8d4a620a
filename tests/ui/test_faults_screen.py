"""The faults' screen: what would happen and by which commands, injecting, what is in force, clearing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from replexplorer.core.fault import KINDS
from replexplorer.core.topology import Roster
from replexplorer.core.wire import Experiment
from replexplorer.engine.outcome import ExperimentUnderWay, Injected
from replexplorer.ui.screens.faults import FaultsScreen, injections, role_changes
from replexplorer.ui.widgets.lines import Chart
from tests.ticks import fault_of, make_tick
from tests.ui.driving import EVERY_SIZE, Bench, bench, page


def screen(app: Bench) -> FaultsScreen:
    found = app.app.screen
    assert isinstance(found, FaultsScreen)
    return found


@asynccontextmanager
async def opened(row: str, *ticks: str, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Bench]:
    """The screen with the cursor on this row, in this form."""
    async with bench(*ticks, size=size) as app:
        await app.opened("F")
        rows = [each for _, part in screen(app).parts for each in part]
        forms = next(each for each in rows if row in each)
        await app.press("down " * rows.index(forms) + "right " * forms.index(row))
        await app.shows(f"▸ {row}")
        yield app


async def test_each_kind_tells_at_80_columns_what_happens_what_runs_and_what_undoes_it(
    snapshot: SnapshotAssertion,
) -> None:
    pages = list[str]()
    async with opened("kill@db1") as app:
        for _ in KINDS:
            pages += app.whole
            await app.press("down")
    assert page(pages) == snapshot


def test_each_fault_stands_there_with_its_values_and_nodes_as_it_is_typed(
    snapshot: SnapshotAssertion,
) -> None:
    """Of a flap all links of the source; no applier where there is no replica."""
    rosters = Roster(("db1", "db2", "db3"), "db2"), Roster(("db1",), "db1")
    assert page(" ".join(forms) for roster in rosters for forms in injections(roster)) == snapshot


async def test_the_arrows_turn_a_row_s_value_and_node_and_enter_injects_it_or_says_why_not() -> None:
    async with opened("power_cut=strict@db1", "replicas=2") as app:
        app.facade.failures["inject"] = ExperimentUnderWay(
            Experiment("lab", "tour", "cli", 1, "here"), "wait"
        )
        app.facade.injected = (Injected(fault_of("power_cut=torn@db3"), ("binlog.000003 512 bytes",)),)
        assert "←→ value, node" in app.sheet[0]
        assert sum(row[2:].startswith("power_cut") for row in app.sheet) == 1
        for keys, row in (("right", "strict@db2"), ("left left", "torn@db3"), ("down up", "torn@db3")):
            await app.press(keys)
            await app.shows(f"▸ power_cut={row} ◂▸")
        await app.press("enter")
        await app.told(
            "the lab tour (cli, pid 1 on here) turns the knobs: wait for its end (in a shell, `--force`"
        )
        await app.press("enter")
        await app.told("db3 lost of binlog.000003 512 bytes")
        await app.asked("inject", *[("power_cut=torn", ("db3",))] * 2)


async def test_what_is_in_force_is_listed_with_its_age_and_cleared_by_one_key() -> None:
    faults = fault_of("kill@db2", 1, -10.0), fault_of("disk_stall=200@db1", 2, -65.0)
    async with opened("pause@db1") as app:
        await app.play(replace(make_tick(1.0), faults=faults))
        await app.shows("IN FORCE")
        assert screen(app).chosen[0] == "pause@db1", "the cursor stays where it is"
        await app.press("home")
        rows = [row.split()[:3] for row in app.shown if "by fault (pid 12)" in row]
        assert rows == [["▸", "disk_stall=200@db1", "00:01:06"], ["kill@db2", "00:00:11", "by"]]
        await app.press("down enter")
        await app.asked("clear", "kill@db2")
        await app.press("X")
        await app.asked("clear", "kill@db2", None)


@EVERY_SIZE
async def test_the_charts_and_the_state_go_on_above_a_fault_that_is_carried_out(
    size: tuple[int, int],
) -> None:
    async with opened("kill@db1", size=size) as app:
        gate = app.facade.hold["inject"] = asyncio.Event()
        chart = app.dashboard.query_one("#tps-chart", Chart)
        assert chart.region.bottom <= app.app.screen.query_one("#sheet").region.y
        await app.press("enter")
        await app.shows("injecting kill on db1…")
        before = chart.shown
        await app.play("2 tps=0.0 fault=kill@db1 since=-10")
        assert chart.shown != before
        await app.until(lambda: "kill@db1" in app.shown[0] and "IN FORCE" in app.screen_text)
        await app.closed()
        await app.press("m")
        await app.asked("mark", "mark")
        await app.press("f")
        await app.told("repair again when this is done: injecting kill on db1")
        await app.asked("repair")
        gate.set()
        await app.until(lambda: not app.dashboard.under_way)
        await app.press("f")
        await app.asked("repair", None)


async def test_roles_are_changed_by_a_second_enter_alone() -> None:
    async with opened("switchover db3", "replicas=2") as app:
        await app.press("enter")
        await app.shows("Enter again does it")
        await app.press("m")
        assert "Enter again does it" not in app.screen_text
        await app.press("enter")
        await app.asked("switchover")
        await app.press("enter")
        await app.asked("switchover", "db3")
        await app.told("db3 is the source, db1 was: ")


async def test_rejoin_offers_who_is_away_and_says_what_it_would_lose() -> None:
    async with opened("rejoin db3", "replicas=2 db3.role=detached db3.errant_gtids=uuid-9:1-7") as app:
        await app.shows("db3 would lose what the source lacks: uuid-9:1-7")
        assert all(len(row) <= 80 for row in app.shown)
        await app.press("enter enter")
        await app.asked("rejoin", "db3")
        assert not [forms for forms in role_changes(make_tick(replicas=2)) if forms[0].startswith("rejoin")]
