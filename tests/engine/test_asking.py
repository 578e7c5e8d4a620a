"""Questions sent over a connection: what a server refuses, and which dialect it turns out to speak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from replexplorer.core.dialect.flavours import IDENTITY
from replexplorer.core.dialect.mariadb import MariaDb
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import Question, Row
from replexplorer.core.errors import ServerRefused, ServerUnreachable
from replexplorer.engine.observe.samples import probe
from replexplorer.ports import ask, ask_if_known
from tests.fakes.servers import MARIADB, MYSQL_9, RANGES_9, mysql_9, rows

REFUSED = ServerRefused(1146, "no such table")
LOST = ServerUnreachable("the connection was lost")


class Scripted:
    """A connection that answers each statement as it was told to, and keeps what it was sent."""

    node = "scripted"

    def __init__(self, answers: Mapping[str, Sequence[Row] | Exception]) -> None:
        self.answers = answers
        self.sent: list[tuple[str, tuple[Any, ...]]] = []

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        self.sent.append((statement, tuple(args)))
        answer = self.answers.get(statement, ())
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """Nothing is open."""


def number(statement: str, *arguments: object, instead: Question[int] | None = None) -> Question[int]:
    return Question(statement, lambda found: int(found[0]["n"]), arguments, instead)


async def test_what_is_refused_is_asked_the_other_way() -> None:
    sql = Scripted({"new": REFUSED, "old": [{"n": 4}]})
    assert await ask(sql, number("new", 1, instead=number("old", 2))) == 4
    assert sql.sent == [("new", (1,)), ("old", (2,))]


async def test_the_last_refusal_counts() -> None:
    sql = Scripted({"new": REFUSED, "old": REFUSED})
    with pytest.raises(ServerRefused):
        await ask(sql, number("new", instead=number("old")))
    assert await ask_if_known(sql, number("new")) is None


async def test_a_lost_connection_is_no_refusal() -> None:
    sql = Scripted({"new": LOST, "old": [{"n": 4}]})
    for way in (ask, ask_if_known):
        with pytest.raises(ServerUnreachable):
            await way(sql, number("new", instead=number("old")))
    assert [statement for statement, _ in sql.sent] == ["new", "new"]


@pytest.mark.parametrize("ranges", [RANGES_9, REFUSED], ids=["with ranges", "refused"])
async def test_a_probed_server_speaks_its_dialect(ranges: Sequence[Row] | Exception) -> None:
    sql = Scripted({IDENTITY.statement: rows(MYSQL_9), MySql.ranges.statement: ranges})
    dialect = await probe(sql)
    known = not isinstance(ranges, Exception)
    assert dialect == (mysql_9() if known else MySql.of(MYSQL_9, {}))
    assert ("sync_binlog" in dialect.capabilities.ranges) is known


async def test_mariadb_speaks_its_own_dialect() -> None:
    assert await probe(Scripted({IDENTITY.statement: rows(MARIADB)})) == MariaDb.of(MARIADB, {})
