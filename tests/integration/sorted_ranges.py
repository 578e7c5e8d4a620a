"""Statements over a hundred rows that a server sorts, groups and makes distinct: what it counts of them."""

from __future__ import annotations

from typing import Final

from replexplorer.core.dialect.schema import counted_digests
from replexplorer.engine.session import Session
from replexplorer.ports import ask
from tests.integration.conftest import LiveStack
from tests.waiting import until

DATABASE: Final = "ranged"
ROWS: Final = 100
MADE: Final = (
    f"CREATE DATABASE {DATABASE}",
    f"CREATE TABLE {DATABASE}.item (id INT NOT NULL PRIMARY KEY, name CHAR(20), state INT)",
    f"INSERT INTO {DATABASE}.item WITH RECURSIVE one AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM one"
    " WHERE id < 500) SELECT id, HEX(7919 * id), id % 10 FROM one",
)
_RANGE: Final = f"FROM {DATABASE}.item WHERE id BETWEEN 101 AND 200"
STATEMENTS: Final = (
    f"SELECT name {_RANGE}",
    f"SELECT name {_RANGE} ORDER BY id",
    f"SELECT name {_RANGE} ORDER BY name",
    f"SELECT name {_RANGE} ORDER BY name LIMIT 5",
    f"SELECT DISTINCT name {_RANGE}",
    f"SELECT DISTINCT name {_RANGE} ORDER BY name",
    f"SELECT DISTINCT state {_RANGE} ORDER BY state",
    f"SELECT state, COUNT(*) {_RANGE} GROUP BY state",
    f"SELECT state, COUNT(*) AS times {_RANGE} GROUP BY state ORDER BY times",
    f"SELECT SUM(state) {_RANGE}",
)


async def each_examines_its_range(live: LiveStack, session: Session) -> None:
    """However often a row is looked at again, a range has the rows that it has."""
    source, node = session.fleet.source, session.roster.source
    try:
        async with live.session(node) as cursor:
            for statement in (*MADE, *STATEMENTS):
                await cursor.execute(statement)

        async def examined() -> dict[str, int]:
            counted = await ask(source.control, counted_digests(source.dialect.capabilities.flavor))
            ours = [key for key in counted.counts if "BETWEEN" in key.text and DATABASE in key.text]
            return {key.text: counted.counts[key].examined for key in ours}

        # A server counts a statement after it has answered it.
        found = await until(examined, "all are counted", holds=lambda all_: len(all_) == len(STATEMENTS))
        assert set(found.values()) == {ROWS}, found
    finally:
        async with live.session(node) as cursor:
            await cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
