"""Sending a dialect's questions and statements over one connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from replexplorer.core.dialect.flavours import IDENTITY, Dialect, flavour_of
from replexplorer.core.errors import ServerRefused
from replexplorer.core.loss.client_log import Rows
from replexplorer.ports import DEADLINE_S, Sql, ask, ask_if_known

__all__ = ("DEADLINE_S", "ask", "ask_if_known", "execute", "ledger_rows", "probe")

_ROWS_WITHIN_S: Final = 120.0
_NO_SUCH: Final = frozenset({1049, 1146})
"""Unknown database, unknown table."""


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
    return flavour.of(variables, await ask_if_known(sql, flavour.ranges) or {})
