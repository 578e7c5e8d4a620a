"""A user's file of SQL as the value of the workload knob."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep import Sweep, read_grid
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.formats.files import workload_file
from tests.fakes.clock import until
from tests.fakes.world import World
from tests.turning import sweep, turn


async def test_a_file_of_sql_is_a_workload_for_every_verb_that_takes_the_knob(
    world: World, tmp_path: Path
) -> None:
    """Only `load --workload` took one."""
    mine = tmp_path / "mine.sql"
    mine.write_text("UPDATE sandbox.t SET n = n + 1;\n")
    outside = replace(world.outside(), workload_file=workload_file)
    session = Session(outside, SessionOptions("tui"))
    try:
        await session.start(lambda *_: None)
        await until(lambda: session.load.is_running)
        with pytest.raises(UsageError, match=r"no such workload: .*gone\.sql"):
            session.console.parse(f"workload={tmp_path}/gone.sql")
        await turn(session, f"workload={mine}")
        settings = session.load.settings
        assert settings is not None
        assert (settings.workload, settings.script) == (str(mine), mine.read_text())
        assert world.requested["workload"] == str(mine)
        assert session.driving.settings().script == mine.read_text()
        grid = read_grid([f"workload=insert,{mine}"], session.console.parse, lambda _: ())
        swept = await sweep(session, Sweep(grid, 2.0), lambda _: None)
        assert [run.why for run in swept.runs] == [None, None]
        assert {run.setting is None for run in swept.runs} == {True, False}, (
            "the model knows no such workload"
        )
        await session.console.undo()
        assert session.load.settings is not None
        assert session.load.settings.script is None
    finally:
        await session.close()
