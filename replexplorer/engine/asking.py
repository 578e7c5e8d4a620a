"""Sending a dialect's questions and statements over one connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from replexplorer.core.dialect.flavours import IDENTITY, Dialect, flavour_of
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import ServerRefused
from replexplorer.core.loss.client_log import Rows
from replexplorer.ports import Sql

T = TypeVar("T")
DEADLINE_S = 5.0
_ROWS_WITHIN_S: Final = 120.0
_NO_SUCH: Final = frozenset({1049, 1146})
"""Unknown database, unknown table."""


async def ask(sql: Sql, question: Question[T], *, deadline_s: float = DEADLINE_S) -> T:
    """The answer; what the server refuses is asked the other way that the question has, if any.

    Raises ServerRefused when no way is left, ServerUnreachable as `ports.Sql` does.
    """
    while True:
        try:
            rows = await sql.query(question.statement, question.arguments, deadline_s=deadline_s)
        except ServerRefused:
            if question.instead is None:
                raise
            question = question.instead
        else:
            return question.answer(rows, sql.node)


async def ask_if_known(sql: Sql, question: Question[T], *, deadline_s: float = DEADLINE_S) -> T | None:
    """The answer; None where the server refuses the question because it lacks what is asked."""
    try:
        return await ask(sql, question, deadline_s=deadline_s)
    except ServerRefused:
        return None


async def ledger_rows(sql: Sql, dialect: Dialect, run: int) -> Rows:
    """The rows of a run of the `ledger` load that a server has, by client; none where it has no table of
    them. Raises as `ask`."""
    try:
        return await ask(sql, dialect.ledger_rows(run), deadline_s=_ROWS_WITHIN_S)
    except ServerRefused as refused:
        if refused.number not in _NO_SUCH:
            raise
        return {}


async def execute(sql: Sql, statements: Iterable[str], *, deadline_s: float = DEADLINE_S) -> None:
    """Run statements in order, each within the deadline; raises at the first that fails."""
    for statement in statements:
        await sql.query(statement, deadline_s=deadline_s)


async def probe(sql: Sql) -> Dialect:
    """Ask a server what it is; raises ServerUnreachable."""
    variables = await ask(sql, IDENTITY)
    flavour = flavour_of(variables)
    return flavour.of(variables, await ask_if_known(sql, flavour.ranges()) or {})
