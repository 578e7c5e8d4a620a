"""Sessions that look for rows: what they write down is what was there, each row once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import ServerUnreachable
from replexplorer.core.loss.client_log import CLIENTS_A_RUN
from replexplorer.generator.client_log import Reader
from tests.amount import examples
from tests.fakes.clock import virtual

BASE = 1_795_000_000 * CLIENTS_A_RUN
FOREIGN = BASE - 5
"""A client of an earlier run."""


class Table:
    """A server with the ledger's rows, which answers the reader's three statements."""

    def __init__(self) -> None:
        self.rows: set[tuple[int, int]] = {(FOREIGN, 1)}
        self.is_away = False
        self.asked = 0

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        self.asked += 1
        await asyncio.sleep(0.001)
        if self.is_away:
            raise ServerUnreachable("db1 does not answer")
        if "MAX(seq) AS high FROM" in statement and "MIN" not in statement:
            return [
                {"client": client, "high": max(seq for owner, seq in self.rows if owner == client)}
                for client in sorted({client for client, _ in self.rows if args[0] < client < args[1]})
            ]
        if "MIN(seq)" in statement:
            assert len(re.findall("client = %s", statement)) * 3 == len(args)
            return self._counted(args)
        client, low, high = args
        return [{"seq": seq} for owner, seq in sorted(self.rows) if owner == client and low <= seq <= high]

    def _counted(self, args: Sequence[Any]) -> Sequence[Row]:
        found = []
        for client, above, high in zip(args[::3], args[1::3], args[2::3], strict=True):
            seqs = [seq for owner, seq in self.rows if owner == client and above < seq <= high]
            found.append({"client": client, "low": min(seqs), "high": max(seqs), "n": len(seqs)})
        return found

    async def close(self) -> None:
        pass


class Log:
    """What was written down."""

    base = BASE

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def see(self, node: str, rows: Sequence[tuple[int, int, int]]) -> None:
        assert node == "db1"
        self.seen += [(client, seq) for client, first, last in rows for seq in range(first, last + 1)]


def reading(table: Table, log: Log) -> Reader:
    return Reader("db1", table, log)  # type: ignore[arg-type]


rounds = st.lists(st.sets(st.tuples(st.integers(1, 3), st.integers(1, 12))), max_size=6)


@given(rounds)
@settings(max_examples=examples(0.6))
def test_each_row_that_appears_above_the_others_is_written_down_once(
    added: list[set[tuple[int, int]]],
) -> None:
    """A client's rows ascend: what appears below its highest is a commit that had been given up."""

    @virtual
    async def run() -> None:
        table, log = Table(), Log()
        reader = asyncio.create_task(reading(table, log).live())
        expected: set[tuple[int, int]] = set()
        for rows in added:
            highest = {
                client: max((s for c, s in expected if c == client), default=0) for client in (1, 2, 3)
            }
            expected |= {(client, seq) for client, seq in rows if seq > highest[client]}
            table.rows |= {(BASE + client, seq) for client, seq in rows}
            await asyncio.sleep(1)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        assert sorted((client - BASE, seq) for client, seq in log.seen) == sorted(expected)

    run()


async def test_a_node_that_was_away_is_read_again() -> None:
    table, log = Table(), Log()
    reader = asyncio.create_task(reading(table, log).live())
    table.is_away = True
    await asyncio.sleep(5)
    assert table.asked < 15, "not in a busy loop"
    table.is_away = False
    table.rows.add((BASE + 1, 1))
    await asyncio.sleep(1)
    assert log.seen == [(BASE + 1, 1)]
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
