"""The faults' screen: what would happen and by which commands, injecting, what is in force, clearing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.fault import KINDS, Fault, kind_of
from replexplorer.core.topology import Role
from replexplorer.core.wire import Experiment
from replexplorer.engine.outcome import ExperimentUnderWay, Injected
from replexplorer.ui.screens.dashboard import CommandFailed, DashboardScreen
from replexplorer.ui.screens.faults import FaultsScreen
from tests.fakes.facade import WALL_S, FakeFacade, make_tick
from tests.ui.driving import Bench, bench

PLACES = {kind.key: place for place, kind in enumerate(KINDS)}


def in_force(number: int, kind: str, node: str, value: str | None = None, since_s: float = -10.0) -> Fault:
    return Fault(number, kind, value, node, WALL_S + since_s, None, "fault (pid 12)", {})


def screen(app: Bench) -> FaultsScreen:
    found = app.app.screen
    assert isinstance(found, FaultsScreen)
    return found


def shown(app: Bench) -> str:
    return app.screen_text


async def opened(app: Bench, kind: str = "kill") -> None:
    """The screen with the cursor on this kind."""
    await app.press("F")
    await app.until(lambda: isinstance(app.app.screen, FaultsScreen))
    faults = len(app.dashboard.picture.tick.faults) if app.dashboard.picture.tick else 0
    await app.press(*["down"] * (PLACES[kind] + faults))
    await app.until(lambda: any(f"▸ {kind}" in row for row in app.shown), kind)


async def done(app: Bench) -> None:
    await app.press("enter")
    await app.until(lambda: isinstance(app.app.screen, DashboardScreen))


@pytest.mark.parametrize("kind", [kind.key for kind in KINDS])
async def test_each_kind_tells_at_80_columns_what_happens_what_runs_and_what_undoes_it(kind: str) -> None:
    async with bench(size=(80, 24)) as app:
        await opened(app, kind)
        rows = app.shown
        assert all(len(row) <= 80 for row in rows)
        assert not any("…" in row for row in rows if row.startswith("    "))
        for head in ("does", "runs", "clearing"):
            assert any(row.startswith(f"    {head}") for row in rows), head
        node = "db2 replica" if kind_of(kind).on_replicas else "db1 primary"
        assert f"◂ {node} ▸" in shown(app)


async def test_enter_injects_what_is_chosen_and_shows_the_dashboard() -> None:
    async with bench(make_tick(1.0, replicas=2), size=(80, 24)) as app:
        await opened(app, "partition")
        assert "every replica" in shown(app)
        await app.press("plus", "right", "right")
        assert "partition=ack to mysqld of db3" in shown(app)
        await done(app)
        await app.until(lambda: app.facade.called("inject") == [("partition=ack", ("db3",))])


@pytest.mark.parametrize(
    ("kind", "first", "keys", "then", "asked"),
    [
        ("flap", "◂ 2/2 s ▸", ("plus", "right"), "◂ 5/5 s ▸", ("flap=5/5", ("db1",))),
        ("disk_stall", "◂ 200 ms ▸", ("plus", "plus", "minus"), "◂ 500 ms ▸", ("disk_stall=500", ("db1",))),
    ],
)
async def test_a_value_is_walked_through(
    kind: str, first: str, keys: tuple[str, ...], then: str, asked: tuple[str, tuple[str, ...]]
) -> None:
    async with bench(size=(80, 24)) as app:
        await opened(app, kind)
        assert first in shown(app)
        await app.press(*keys)
        assert then in shown(app)
        assert "db1 primary" in shown(app), "of a flap: all links of the source"
        await done(app)
        await app.until(lambda: app.facade.called("inject") == [asked])


async def test_what_is_in_force_is_listed_with_its_age_and_cleared_by_one_key() -> None:
    tick = replace(
        make_tick(1.0), faults=(in_force(1, "kill", "db2"), in_force(2, "disk_stall", "db1", "200", -65.0))
    )
    async with bench(tick, size=(80, 24)) as app:
        await app.press("F")
        await app.until(lambda: "IN FORCE" in shown(app))
        rows = [row for row in app.shown if "by fault (pid 12)" in row]
        assert [row.split()[:3] for row in rows] == [
            ["▸", "disk_stall=200@db1", "00:01:06"],
            ["kill@db2", "00:00:11", "by"],
        ]
        await app.press("down")
        await done(app)
        await app.until(lambda: app.facade.called("clear") == ["kill@db2"])
        await app.press("F")
        await app.until(lambda: isinstance(app.app.screen, FaultsScreen))
        await app.press("X")
        await app.until(lambda: app.facade.called("clear") == ["kill@db2", None])


async def test_the_cursor_stays_on_its_fault_when_another_one_comes() -> None:
    async with bench(size=(80, 24)) as app:
        await opened(app, "pause")
        await app.play(replace(make_tick(2.0), faults=(in_force(1, "kill", "db2"),)))
        await app.until(lambda: "IN FORCE" in shown(app))
        assert screen(app).chosen == KINDS[PLACES["pause"]]


async def test_the_dashboard_is_alive_while_a_fault_is_carried_out_and_can_clear_it() -> None:
    facade = FakeFacade()
    facade.hold["inject"] = asyncio.Event()
    async with bench(size=(80, 24), facade=facade) as app:
        await opened(app)
        await done(app)
        await app.until(lambda: bool(facade.called("inject")))
        await app.play(replace(make_tick(2.0), faults=(in_force(1, "kill", "db1"),)))
        assert "kill@db1" in app.text("#header")
        await app.press("m")
        await app.until(lambda: facade.called("mark") == ["mark"])
        await app.press("F")
        await app.until(lambda: "injecting kill on db1…" in shown(app))
        await app.press("enter")
        await app.until(lambda: facade.called("clear") == ["kill@db1"])
        await app.press("escape", "f")
        waits = "repair again when this is done: injecting kill on db1"
        await app.until(lambda: any(waits in toast.message for toast in app.app._notifications))
        assert facade.called("repair") == []
        facade.hold["inject"].set()
        await app.until(lambda: not app.dashboard.under_way)
        await app.press("f")
        await app.until(lambda: len(facade.called("repair")) == 1)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ExperimentUnderWay(Experiment("lab", "tour", "tui", 1, "here"), is_own=True),
            "the lab tour (tui, pid 1 on here) turns the knobs: abort it first (A)",
        ),
        (
            ExperimentUnderWay(Experiment("lab", "tour", "cli", 1, "here")),
            "the lab tour (cli, pid 1 on here) turns the knobs: wait for its end (in a shell, `--anyway`",
        ),
        (StackUnavailable("db1 has no server", "`replexplorer up` makes it again"), "db1 has no server"),
    ],
)
async def test_a_refusal_is_the_consoles_own_line(error: Exception, told: str) -> None:
    facade = FakeFacade()
    facade.failures["inject"] = error  # type: ignore[assignment]
    async with bench(size=(80, 24), facade=facade) as app:
        await opened(app)
        await done(app)
        await app.until(lambda: any(isinstance(message, CommandFailed) for message in app.messages))
        failed = next(message for message in app.messages if isinstance(message, CommandFailed))
        assert f"{failed.text}: {failed.hint}".startswith(told)


async def test_what_a_power_cut_took_is_told() -> None:
    lost = Injected(in_force(1, "power_cut", "db1", "strict"), ("binlog.000003 512 bytes",))
    facade = FakeFacade()
    facade.injected = (lost,)
    async with bench(size=(80, 24), facade=facade) as app:
        await opened(app, "power_cut")
        await done(app)
        await app.until(lambda: bool(app.app._notifications))
        [toast] = list(app.app._notifications)
        assert toast.message == "db1 lost of binlog.000003 512 bytes"


async def test_a_stack_without_a_replica_says_so() -> None:
    alone = make_tick(1.0)
    alone = replace(alone, nodes=alone.nodes[:1], links=())
    async with bench(alone, size=(80, 24)) as app:
        await opened(app, "applier_stop")
        assert "is done to a replica, and there is none" in " ".join(shown(app).split())


async def asked(app: Bench, verb: str) -> None:
    """The screen with the cursor on a change of roles."""
    await app.press("F")
    await app.until(lambda: isinstance(app.app.screen, FaultsScreen))
    await app.press("end")
    await app.press(*["up"] * (2 - ["failover", "switchover", "rejoin"].index(verb)))
    await app.until(lambda: any(f"▸ {verb}" in row for row in app.shown), verb)


async def test_roles_are_changed_by_a_second_enter_alone() -> None:
    async with bench(make_tick(1.0, replicas=2), size=(80, 24)) as app:
        await asked(app, "switchover")
        assert "◂ the nearest replica ▸" in shown(app)
        await app.press("right", "right")
        assert "◂ db3 replica ▸" in shown(app)
        await app.press("enter")
        assert "Enter again does it" in shown(app)
        await app.press("m")
        assert "Enter again does it" not in shown(app)
        await app.press("enter")
        assert app.facade.called("switchover") == []
        await done(app)
        await app.until(lambda: app.facade.called("switchover") == ["db3"])
        await app.until(lambda: bool(app.app._notifications))
        [toast] = list(app.app._notifications)
        assert toast.message == "switchover: db3 takes the writes of db1 after 312 ms, nothing is lost"


async def test_rejoin_offers_who_is_away_and_says_what_it_would_lose() -> None:
    whole = make_tick(1.0, replicas=2)
    away = replace(whole.nodes[2], role=Role.DETACHED, errant_gtids="uuid-9:1-7")
    tick = replace(whole, nodes=(*whole.nodes[:2], away))
    async with bench(tick, size=(80, 24)) as app:
        await asked(app, "rejoin")
        assert "◂ db3 detached ▸" in shown(app)
        assert "db3 would lose what the source lacks: uuid-9:1-7" in shown(app)
        assert all(len(row) <= 80 for row in app.shown)
        await app.press("enter")
        await done(app)
        await app.until(lambda: app.facade.called("rejoin") == ["db3"])
        await app.play(whole)
        await asked(app, "rejoin")
        assert "no node is away" in shown(app)
        await app.press("enter", "enter")
        assert app.facade.called("rejoin") == ["db3"]
