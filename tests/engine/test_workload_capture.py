"""A capture asks, and changes nothing: what it makes of a server's answers, and of what a server lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from replexplorer.core.dialect.schema import DigestKey
from replexplorer.core.errors import MissingPiece, ReplexplorerError, ServerRefused, UsageError
from replexplorer.engine.workload_capture.watch import capture
from replexplorer.engine.workload_capture.workload_file import write_workload

SELECT = "SELECT `name` FROM `item` WHERE `id` = ?"
WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|SET|ALTER|DROP|TRUNCATE|CALL|FLUSH|GRANT)\b(?! TABLE)")
Rows = list[dict[str, Any]]


class Server:
    """Answers by what a statement is about; a session executes `SELECT` between any two looks."""

    node = "db.example:3306"

    def __init__(
        self,
        *,
        digests: bool = True,
        is_on: bool = True,
        denied: bool = False,
        text: str = SELECT,
        executions: bool = False,
    ) -> None:
        self._text = text
        self._executes = executions
        self.asked: list[str] = []
        self._digests = digests
        self._is_on = is_on
        self._denied = denied
        self._times = 100

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Mapping[str, Any]]:
        self.asked.append(statement)
        for mark, answer in self._answers().items():
            if mark in statement:
                return answer
        raise ServerRefused(1064, f"{self.node}: 1064 no such question")

    def _answers(self) -> dict[str, Rows]:
        if "_by_digest" in self.asked[-1]:
            if self._denied:
                raise ServerRefused(1142, f"{self.node}: 1142 SELECT command denied")
            self._times += 50
        counts = {"ps": 5_000_000_000, "examined": 1, "sent": 1, "affected": 0}
        digest = {"db": "shop", "digest": "abc", "text": self._text, "times": self._times, **counts}
        seen = {"session": 7, "event": "statement/sql/select", "db": "shop", "digest": "abc", "nesting": None,
                "parent": None}  # fmt: skip
        consumers = ("global_instrumentation", "thread_instrumentation", "events_statements_history",
                     *(("statements_digest",) if self._digests else ()))  # fmt: skip
        column = {"column_default": None, "extra": "", "collation_name": None, "is_nullable": "NO",
                  "column_comment": "", "table_schema": "shop", "table_name": "item"}  # fmt: skip
        return {
            "SHOW GLOBAL VARIABLES": [
                {"Variable_name": "version", "Value": "8.4.6"},
                {"Variable_name": "performance_schema", "Value": "ON"},
            ],
            "variables_metadata": [],
            "@@GLOBAL.performance_schema AS": [{"is_on": int(self._is_on)}],
            "setup_consumers": [{"name": name, "enabled": "YES"} for name in consumers],
            "information_schema.schemata": [{"name": "shop"}],
            "_by_digest": [digest],
            "events_statements_summary_global": [{"times": self._times if self._executes else 0}],
            "prepared_statements_instances": [],
            "performance_schema.threads WHERE": [{"id": 7}],
            "events_statements_history": [{**seen, "number": number} for number in range(5)],
            "information_schema.tables": [
                {"table_schema": "shop", "table_name": "item", "engine": "InnoDB", "table_rows": 40,
                 "bytes": 99}
            ],
            "information_schema.columns": [
                {**column, "column_name": "id", "column_type": "int"},
                {**column, "column_name": "name", "column_type": "varchar(20)"},
            ],
            "information_schema.statistics": [
                {"table_schema": "shop", "table_name": "item", "index_name": "PRIMARY", "column_name": "id",
                 "sub_part": None, "collation": "A", "non_unique": 0, "index_type": "BTREE"}
            ],
            "key_column_usage": [],
            "SHOW CREATE TABLE": [{"Table": "item", "Create Table": "CREATE TABLE `item` (\n  `id` int\n)"}],
        }  # fmt: skip

    async def close(self) -> None:
        """Nothing to close."""


async def test_what_came_between_two_looks_becomes_a_file() -> None:
    server = Server()
    captured = await capture(server, address=server.node, seconds=0.05)
    assert {key: count.times for key, count in captured.digests.items()} == {DigestKey("shop", SELECT): 50}
    assert captured.seconds >= 0.05
    assert captured.reading_s >= 0
    found = write_workload(captured)
    assert [(each.statements, each.boundaries) for each in found.transactions] == [((SELECT,), "seen")]
    assert found.workload
    assert "SELECT `name` FROM `item` WHERE `id` = :rand(1,40);" in found.workload
    assert "\\database shop_imitation" in found.workload


async def test_an_execution_among_the_digests_is_of_a_prepared_statement() -> None:
    server = Server(text=f"EXECUTE {SELECT}", executions=True)
    captured = await capture(server, address=server.node, seconds=0.05)
    [(key, count)] = captured.digests.items()
    assert (key, count.times, count.prepared) == (DigestKey("shop", SELECT), 50, 50)
    found = write_workload(captured)
    assert "\\prepared\nSELECT `name` FROM `item` WHERE `id` = :rand(1,40);" in (found.workload or "")
    assert not found.left_out


async def test_nothing_is_changed() -> None:
    server = Server()
    await capture(server, address=server.node, seconds=0.05)
    assert [text for text in server.asked if WRITES.search(text) or not re.match(r"SELECT|SHOW", text)] == []


@pytest.mark.parametrize(
    ("server", "databases", "error", "told"),
    [
        (Server(is_on=False), (), MissingPiece, "its performance schema is off: start it with"),
        (
            Server(digests=False),
            (),
            MissingPiece,
            "keeps no digests of statements: UPDATE performance_schema",
        ),
        (Server(), ("crm",), UsageError, "no database 'crm' on db.example:3306: it has shop"),
        (Server(denied=True), (), ServerRefused, "it takes GRANT SELECT ON performance_schema"),
    ],
)
async def test_what_a_server_lacks_is_said(
    server: Server, databases: Sequence[str], error: type[ReplexplorerError], told: str
) -> None:
    with pytest.raises(error) as caught:
        await capture(server, address=server.node, seconds=0.05, databases=databases)
    assert told in str(caught.value)
