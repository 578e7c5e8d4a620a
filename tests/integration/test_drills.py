"""Drills on real servers: one to its end, and one whose app is killed in the middle."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.cli.experiment import DRILLS
from replexplorer.core.experiment.drill import Drill, DrillStep, Span
from replexplorer.core.server.exposure import Loss
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.session import Session
from replexplorer.formats import paths
from replexplorer.ports import UpOptions
from tests.integration.conftest import LiveStack, bring_up
from tests.integration.sessions import connected
from tests.waiting import until

pytestmark = pytest.mark.docker


def shortened(drill: Drill) -> Drill:
    """What waits for nothing but time waits for a second: the same drill."""

    def short(step: DrillStep) -> DrillStep:
        return replace(step, lasts=Span(1, 1)) if step.doing == "wait" else step

    return replace(drill, steps=tuple(map(short, drill.steps)))


def as_asked(session: Session) -> dict[str, object]:
    return {str(name): session.state.requested_value(name) for name in session.state.names()}


async def rows_are_equal(live: LiveStack) -> bool:
    count = "SELECT COUNT(*) FROM replexplorer.ledger"
    return bool(await live.value("db1", count) == await live.value("db2", count))


async def killed_in_the_middle(live: LiveStack, directory: Path) -> None:
    """A lossy `drill run` in a process of its own, ended by SIGKILL while the source has no power: there it
    stays until then, however slow the machine is to see it."""
    shipped = (paths.shipped_experiments("drill") / "power-cut.toml").read_text()
    mine = directory / "mine.toml"
    mine.write_text(shipped.replace("[[step]]\nclear =", "[[step]]\nwait = 900\n[[step]]\nclear ="))
    settings = ("--quick", "--set", "innodb_flush_log_at_trx_commit=0")
    words = ("-m", "replexplorer", "--stack", live.stack.name, "drill", "run", str(mine), *settings)
    drill = await asyncio.create_subprocess_exec(sys.executable, *words)

    async def in_force() -> bool:
        async with connected(live, "status") as session:
            status = await session.status()
            down = [node.name for node in status.nodes if not node.reachable]
            return ([fault.kind for fault in status.faults], down) == (["power_cut"], ["db1"])

    try:
        await until(in_force, within_s=90)
    finally:
        drill.kill()
        await drill.wait()


async def test_drills_return_what_they_took_also_when_they_are_killed(
    own_stack: DockerProvider, tmp_path: Path
) -> None:
    live = await bring_up(own_stack, UpOptions())
    async with connected(live, "drill kill-primary") as session:
        before = as_asked(session)
        async with session.observed():
            cut = DRILLS.named("power-cut").with_settings(["innodb_flush_log_at_trx_commit=2"])
            result = await DrillRun(shortened(cut), True).run(session.rig)
        assert result.aborted is None
        assert result.unrestored == ()
        assert result.ledger is not None
        assert result.ledger.acknowledged > 0
        assert result.reading is not None
        assert isinstance(result.reading.exposure.power_cut, Loss)
        assert result.recovery_ms is not None
        assert "down" in [each.state for each in result.timeline]
        assert as_asked(session) == before
        assert session.state.requested.faults == ()
        await until(lambda: rows_are_equal(live), within_s=60)

    await killed_in_the_middle(live, tmp_path)
    async with connected(live, "up") as session:
        assert session.state.requested.owed is not None
        await session.up(lambda *_: None)
        assert session.state.requested.owed is None
        assert session.state.requested.faults == ()
        assert as_asked(session) == before
    await live.ready()
    assert await rows_are_equal(live)
