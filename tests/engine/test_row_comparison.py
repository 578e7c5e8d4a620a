"""Rows are compared while clients write: what differs, what is late, what never settles."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import ServerUnreachable
from replexplorer.core.rows import RowsChecked
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.rows import RANGE_ROWS, RowComparison
from tests.fakes.clock import VirtualClock
from tests.fakes.servers import mysql_9
from tests.typed import fields, table_of

TABLE = fields(
    "TABLE_SCHEMA='shop' TABLE_NAME='t' TABLE_ROWS=1 bytes=1"
    " COLUMN_NAME='id' COLUMN_TYPE='int' IS_NULLABLE='NO' EXTRA='' INDEX_NAME='PRIMARY' NON_UNIQUE=0"
)
"""Its row, that of its column and that of its key in the information schema."""


class Server:
    """A server with one table of numbered rows: `1a 2b`; without any it lacks the table."""

    late = 0
    oldest_commit_s: float | None = None

    def __init__(self, node: str, rows: str) -> None:
        self.node = node
        self.on_wait: Callable[[], object] = bool
        self.values = {int(word[:-1]): word[-1] for word in rows.split()}
        self.looks = 0

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        if "schemata" in statement:
            return [{"name": "shop"}]
        if "key_column_usage" in statement or ("information_schema" in statement and not self.values):
            return []
        if "information_schema" in statement:
            return [TABLE]
        if "WAIT_FOR_EXECUTED_GTID_SET" in statement:
            self.on_wait()
            return [{"late": self.late}]
        if "oldest_wait_s" in statement:
            return [{"oldest_wait_s": None, "waiting": 0, "oldest_commit_s": self.oldest_commit_s}]
        assert "FORCE INDEX" in statement
        self.looks += 1
        bounds = [*map(int, args)]
        first = bounds.pop(0) if "`id` > %s" in statement else -1
        last = bounds.pop(0) if "`id` <= %s" in statement else 1 << 40
        keys = sorted(key for key in self.values if first < key <= last)
        most = int(statement.rpartition(" LIMIT ")[2]) if " LIMIT " in statement else None
        return [{"id": key, "#": self.values[key]} for key in keys[:most]]


async def compared(source: Server, *others: Server) -> RowsChecked:
    """As RowComparison finds it on a fleet of these."""
    named = {
        each.node: SimpleNamespace(
            name=each.node, control=each, dialect=mysql_9(), executed=AsyncMock(return_value="a:1-9")
        )
        for each in (source, *others)
    }
    first, *replicas = cast(list[Member], [*named.values()])
    outside = SimpleNamespace(clock=VirtualClock())
    fleet = SimpleNamespace(source=first, replicas=replicas, member=named.__getitem__, outside=outside)
    return await RowComparison(cast(Fleet, fleet), lambda *_: None).run(())


def words(found: RowsChecked) -> str:
    """The verdict, and the rows of db2 that are not alike."""
    runs = found.nodes["db2"]["shop.t"].runs
    return " ".join([found.verdict, *(f"{run.kind}:{run.first}-{run.last}:{run.rows}" for run in runs)])


async def test_rows_that_are_alike_are_looked_at_once() -> None:
    rows = " ".join(f"{number}a" for number in range(2 * RANGE_ROWS + 1))
    source, replica = Server("db1", rows), Server("db2", rows)
    found = await compared(source, replica)
    assert (words(found), found.rows, replica.looks) == ("alike", 2 * RANGE_ROWS + 1, 3)


UNLIKE = """\
1a 2a 3a 4a 5a | 1a 2b 3c 4a 7a | None  | 0 | differs changed:2-3:2 missing:5-5:1 extra:7-7:1
1a 2a          | 1a 2a 6u       | 100.0 | 0 | unknown unsettled:6-6:1
1b 2a          | 1a 2a          | None  | 1 | unknown unsettled:1-1:1
1a             |                | None  | 0 | differs missing:None-None:None
               | 1a             | None  | 0 | differs extra:None-None:None
"""
"""Rows of both, how long a commit waits on the source, and whether the replica is behind."""


async def test_each_row_that_differs_is_named_and_what_is_not_settled_is_said_to_be_unknown() -> None:
    for ours, theirs, waits_s, late, expected in table_of(UNLIKE):
        source, replica = Server("db1", ours), Server("db2", theirs)
        source.oldest_commit_s, replica.late = literal_eval(waits_s), int(late)
        found = await compared(source, replica)
        assert words(found) == expected
        assert ("db2 has not executed" in str(found.unknown)) is bool(replica.late)


async def test_what_a_replica_has_yet_to_apply_is_no_difference() -> None:
    source, replica = Server("db1", "1b 2a 6a"), Server("db2", "1a 2a")
    waited: list[int] = []

    def apply() -> None:
        waited.append(1)
        if len(waited) > 1:  # after the wait for what there was at the beginning
            replica.values = source.values

    replica.on_wait = apply
    assert words(await compared(source, replica)) == "alike"


async def test_a_node_that_does_not_answer_is_not_known_and_the_others_are() -> None:
    lost = Server("db3", "1a")
    lost.on_wait = Mock(side_effect=ServerUnreachable("db3 did not accept a login"))
    found = await compared(Server("db1", "1a"), Server("db2", "1a"), lost)
    assert (words(found), [*found.nodes]) == ("unknown", ["db2"])
    assert found.unknown == {"db3": "db3 did not accept a login"}
