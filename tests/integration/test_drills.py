"""A drill on real servers whose app is killed in the middle."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from replexplorer.formats import paths
from tests.integration.conftest import LiveStack
from tests.integration.sessions import as_asked, attached, connected
from tests.waiting import until

pytestmark = pytest.mark.docker


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


async def test_a_drill_whose_app_is_killed_owes_what_it_took_until_the_next_up(
    live_stack: LiveStack, tmp_path: Path
) -> None:
    async with attached(live_stack) as session:
        before = as_asked(session)
        await killed_in_the_middle(live_stack, tmp_path)
        async with connected(live_stack, "up") as later:
            assert later.state.requested.owed is not None
            await later.up(lambda *_: None)
            assert later.state.requested.owed is None
            assert later.state.requested.faults == ()
            assert as_asked(later) == before
        await live_stack.ready()
        assert await rows_are_equal(live_stack)
