"""workload capture on a real server: a known mix is found again, and runs as a load."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from replexplorer.adapters.load import LoadGroup
from replexplorer.core.load.captured import CapturedWorkload
from replexplorer.core.load.script import read_script
from replexplorer.ports import LoadSettings, LoadTarget
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached, connected
from tests.integration.sorted_ranges import each_examines_its_range

pytestmark = pytest.mark.docker

MIX = r"""
\database capture_test

\rows 2000
CREATE TABLE item (id INT NOT NULL AUTO_INCREMENT, stock INT NOT NULL, name VARCHAR(40) NOT NULL,
PRIMARY KEY (id), KEY (name)) ENGINE=InnoDB;

\rows 500
CREATE TABLE sale (id INT NOT NULL AUTO_INCREMENT, item_id INT NOT NULL, PRIMARY KEY (id)) ENGINE=InnoDB;

\weight 6
SELECT name FROM item WHERE id = :rand(1,2000);

\weight 3
UPDATE item SET stock = stock - 1 WHERE id = :rand(1,2000);
INSERT INTO sale (item_id) VALUES (:rand(1,2000));

\weight 1
\prepared
SELECT id FROM item WHERE id BETWEEN :rand(1,1000) AND 1000 LIMIT 3;
"""


async def _captured(target: LoadTarget, file: Path) -> CapturedWorkload:
    """What the verb prints, run as a user's shell does."""
    url = f"mysql://{target.user}@{target.host}:{target.port}"
    options = f"--ssl-mode=REQUIRED --for 4s --database capture_test -o {file} --json"
    words = ("workload", "capture", url, *options.split())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "replexplorer", *words),
        env=os.environ | {"MYSQL_PWD": target.password},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return TypeAdapter(CapturedWorkload).validate_python(json.loads(out))


async def test_a_known_mix_is_found_and_runs_again(live_stack: LiveStack, tmp_path: Path) -> None:
    file = tmp_path / "captured.sql"
    group = LoadGroup()
    async with attached(live_stack) as session:
        target = await session.driving.target()
        await group.start(target, LoadSettings(4, "mix.sql", script=MIX), interval_s=0.5)
        try:
            # The server counts a table's rows by itself only 10 s after they came.
            await live_stack.value("db1", "ANALYZE TABLE capture_test.item, capture_test.sale")
            found = await _captured(target, file)
        finally:
            await group.stop()
        shapes = {tuple(_plain(each) for each in kind.statements): kind for kind in found.transactions}
        wanted = {
            ("SELECT NAME FROM item WHERE id = ?",): 0.6,
            (
                "UPDATE item SET stock = stock - ? WHERE id = ?",
                "INSERT INTO sale ( item_id ) VALUES (?)",
            ): 0.3,
            ("SELECT id FROM item WHERE id BETWEEN ? AND ? LIMIT ?",): 0.1,
        }
        assert set(shapes) == set(wanted)
        assert {name: shapes[name].share for name in wanted} == pytest.approx(wanted, abs=0.05)
        assert {kind.boundaries for kind in found.transactions} == {"seen"}
        assert {each.table for each in found.tables} == {"item", "sale"}
        script = read_script(file.read_text(), "captured.sql")
        assert Counter(each.prepared for each in script.workload.statements)[True] == 1
        # The imitation runs on tables of its own, and leaves those that it was captured of alone.
        other = LoadGroup()
        settings = LoadSettings(2, "captured.sql", script=file.read_text())
        await other.start(target, settings, interval_s=0.5)
        async for interval in other.intervals():
            if interval.commits:
                assert interval.errors == 0
                break
        await other.stop()
    async with live_stack.session("db1") as cursor:
        for rows in (
            "SELECT COUNT(*) FROM capture_test_imitation.item",
            # Ranges are planned by the rows that the server takes to be there.
            "SELECT n_rows FROM mysql.innodb_table_stats"
            " WHERE database_name = 'capture_test_imitation' AND table_name = 'item'",
        ):
            await cursor.execute(rows)
            assert (await cursor.fetchone())[0] == pytest.approx(2000, rel=0.2)


def _plain(digest: str) -> str:
    return re.sub(r"\(\s*(\?|\.\.\.)\s*\)", "(?)", digest.replace("`", ""))


async def test_a_table_that_no_workload_made_is_left_alone(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session, live_stack.session("db1") as cursor:
        await cursor.execute("CREATE TABLE IF NOT EXISTS sandbox.precious (secret INT)")
        await cursor.execute("INSERT INTO sandbox.precious VALUES (4711)")
        script = "\\rows 5\nCREATE TABLE precious (id INT PRIMARY KEY);\n\nSELECT * FROM precious"
        group = LoadGroup()
        target = await session.driving.target()
        with pytest.raises(Exception, match=r"sandbox\.precious is there, and no workload made it"):
            await group.start(target, LoadSettings(1, "mine.sql", script=script), interval_s=0.5)
        assert await live_stack.value("db1", "SELECT secret FROM sandbox.precious") == 4711
        await cursor.execute("DROP TABLE sandbox.precious")


async def test_rows_that_are_sorted_count_once(live_stack: LiveStack) -> None:
    async with connected(live_stack, "test") as session:
        await each_examines_its_range(live_stack, session)
