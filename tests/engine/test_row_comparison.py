"""Rows are compared while clients write: what differs, what is late, what never settles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import ServerUnreachable
from replexplorer.core.rows import RowRun, RowsChecked
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.rows import RANGE_ROWS, RowComparison
from tests.fakes.clock import VirtualClock
from tests.fakes.servers import mysql_9

OF_T = {"TABLE_SCHEMA": "shop", "TABLE_NAME": "t"}


@dataclass
class Server:
    """A server with one table of numbered rows."""

    node: str
    values: dict[int, str]
    has_table: bool = True
    late: int = 0
    oldest_commit_s: float | None = None
    on_wait: Callable[[], object] = lambda: None
    on_look: Callable[[], object] = lambda: None
    sent: list[str] = field(default_factory=list)

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        self.sent.append(statement)
        if "information_schema" in statement:
            return self.describe(statement)
        if "WAIT_FOR_EXECUTED_GTID_SET" in statement:
            self.on_wait()
            return [{"late": self.late}]
        if "gtid_executed" in statement:
            return [{"executed": "a:1-9"}]
        if "oldest_wait_s" in statement:
            return [{"oldest_wait_s": None, "waiting": 0, "oldest_commit_s": self.oldest_commit_s}]
        assert "FORCE INDEX" in statement
        self.on_look()
        bounds = [*map(int, args)]
        first = bounds.pop(0) if "`id` > %s" in statement else -1
        last = bounds.pop(0) if "`id` <= %s" in statement else 1 << 40
        keys = sorted(key for key in self.values if first < key <= last)
        most = int(statement.rpartition(" LIMIT ")[2]) if " LIMIT " in statement else None
        return [{"id": key, "#": self.values[key]} for key in keys[:most]]

    def describe(self, statement: str) -> Sequence[Row]:
        if "schemata" in statement:
            return [{"name": "shop"}, {"name": "replexplorer"}]
        if not self.has_table or "key_column_usage" in statement:
            return []
        if "information_schema.columns" in statement:
            return [{**OF_T, "COLUMN_NAME": "id", "COLUMN_TYPE": "int", "IS_NULLABLE": "NO", "EXTRA": ""}]
        if "information_schema.statistics" in statement:
            return [{**OF_T, "INDEX_NAME": "PRIMARY", "NON_UNIQUE": 0, "COLUMN_NAME": "id"}]
        return [{**OF_T, "TABLE_ROWS": 1, "bytes": 1}]


async def compared(source: Server, *others: Server) -> RowsChecked:
    async def executed() -> str:
        return "a:1-9"

    members = [
        cast(Member, SimpleNamespace(name=each.node, control=each, dialect=mysql_9(), executed=executed))
        for each in (source, *others)
    ]
    named = {each.name: each for each in members}
    fleet = SimpleNamespace(
        source=members[0],
        replicas=members[1:],
        member=named.__getitem__,
        outside=SimpleNamespace(clock=VirtualClock()),
    )
    return await RowComparison(cast(Fleet, fleet), lambda *_: None).run(())


def two(values: dict[int, str] | None = None) -> tuple[Server, Server]:
    rows = dict.fromkeys(range(1, 6), "a") if values is None else values
    return Server("db1", dict(rows)), Server("db2", dict(rows))


def runs(found: RowsChecked) -> list[RowRun]:
    return found.nodes["db2"]["shop.t"].runs


async def test_rows_that_are_alike_are_looked_at_once() -> None:
    source, replica = two(dict.fromkeys(range(2 * RANGE_ROWS + 1), "a"))
    found = await compared(source, replica)
    assert (found.verdict, found.rows) == ("alike", 2 * RANGE_ROWS + 1)
    assert sum("FORCE INDEX" in statement for statement in replica.sent) == 3


async def test_each_row_that_differs_is_named() -> None:
    source, replica = two()
    replica.values |= {2: "b", 3: "c", 7: "a"}
    del replica.values[5]
    found = await compared(source, replica)
    assert found.verdict == "differs"
    assert runs(found) == [
        RowRun("changed", "2", "3", 2),
        RowRun("missing", "5", "5", 1),
        RowRun("extra", "7", "7", 1),
    ]


async def test_what_a_replica_has_yet_to_apply_is_no_difference() -> None:
    source, replica = two()
    source.values[1] = "later"
    source.values[6] = "new"
    changed = dict(source.values)
    waited: list[int] = []

    def apply() -> None:
        waited.append(1)
        if len(waited) > 1:  # after the wait for what there was at the beginning
            replica.values = changed

    replica.on_wait = apply
    assert (await compared(source, replica)).verdict == "alike"


async def test_a_row_whose_commit_still_waits_on_the_source_is_no_extra_row() -> None:
    source, replica = two()
    replica.values[6] = "not acknowledged"
    source.oldest_commit_s = 100.0
    found = await compared(source, replica)
    assert (found.verdict, runs(found)) == ("unknown", [RowRun("unsettled", "6", "6", 1)])


async def test_rows_of_a_replica_that_is_behind_are_not_known() -> None:
    source, replica = two()
    source.values[1] = "later"
    replica.late = 1
    found = await compared(source, replica)
    assert (found.verdict, runs(found)) == ("unknown", [RowRun("unsettled", "1", "1", 1)])
    assert "db2 has not executed" in found.unknown["db2"]


@pytest.mark.parametrize(("gone", "kind"), [("db2", "missing"), ("db1", "extra")])
async def test_a_table_that_one_node_lacks_differs(gone: str, kind: str) -> None:
    source, replica = two()
    (replica if gone == "db2" else source).has_table = False
    found = await compared(source, replica)
    assert (found.verdict, found.nodes["db2"]["shop.t"].rows) == ("differs", {kind: None})


async def test_a_node_that_does_not_answer_is_not_known_and_the_others_are() -> None:
    source, replica = two()

    def lost() -> None:
        raise ServerUnreachable("db3 did not accept a login")

    found = await compared(source, replica, Server("db3", {}, on_wait=lost))
    assert (found.verdict, [*found.nodes]) == ("unknown", ["db2"])
    assert found.unknown == {"db3": "db3 did not accept a login"}
