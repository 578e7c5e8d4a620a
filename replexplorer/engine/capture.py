"""A look over some time at what a server's clients do, for a workload like theirs. It only reads.

Law: looks take a small share of the time, however many statements, sessions and tables there are: each look
is paid for by a pause as many times as long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from replexplorer.core.dialect import statement_questions as questions
from replexplorer.core.dialect.dialect import Dialect
from replexplorer.core.errors import MissingPiece, ServerRefused, UsageError
from replexplorer.core.imitation.digest import NotImitated, kind_of, tables_of
from replexplorer.core.imitation.imitation import Captured
from replexplorer.core.imitation.look import DigestCount, DigestKey, PreparedTally, StatementLook, growth
from replexplorer.core.imitation.transactions import Histories
from replexplorer.core.tables.table import TableName
from replexplorer.engine.asking import ask, probe
from replexplorer.engine.observe.tables import OWN_DATABASE, described
from replexplorer.ports import Sql

_LOOKS_A_BURST: Final = 12
"""At a session's history in a row, so that transactions longer than it are put together."""
_BURST_S: Final = 0.5
_PREPARED_S: Final = 1.0
"""Pauses at least so long, between bursts and between looks at prepared statements."""
_PAUSE: Final = 25
"""Times as long as the look before it."""
_LONG_S: Final = 60.0
_MOST_SEEN: Final = 200_000
"""Statements of histories that are kept."""
_DENIED: Final = frozenset({1044, 1142, 1143, 1227})

Tell = Callable[[float, int], None]
"""Told now and then: seconds, and statements seen in histories."""


async def capture(
    sql: Sql, *, address: str, seconds: float, databases: Sequence[str] = (), tell: Tell | None = None
) -> Captured:
    """Watch a server for this long.

    Raises UsageError for a database that is not there, MissingPiece where the server keeps no digests,
    ServerRefused and ServerUnreachable.
    """
    dialect = await probe(sql)
    try:
        return await _Watch(sql, dialect, tell or (lambda _, __: None)).run(address, seconds, databases)
    except ServerRefused as refused:
        if refused.number in _DENIED:
            raise ServerRefused(
                refused.number, refused.message, f"it takes {questions.NEEDED_GRANTS}"
            ) from None
        raise


class _Watch:
    """One capture."""

    def __init__(self, sql: Sql, dialect: Dialect, tell: Tell) -> None:
        self._sql = sql
        self._dialect = dialect
        self._tell = tell
        self._histories = Histories()
        self._prepared = PreparedTally()
        self._names: dict[str, DigestKey] = {}

    async def run(self, address: str, seconds: float, databases: Sequence[str]) -> Captured:
        sql = self._sql
        if not await ask(sql, questions.is_on()):
            raise MissingPiece(
                f"{sql.node} keeps no digests: its performance schema is off",
                "start it with performance_schema=ON",
            )
        kept = await ask(sql, questions.instrumented())
        if not kept.digests:
            raise MissingPiece(f"{sql.node} keeps no digests of statements", questions.TURN_DIGESTS_ON)
        there = await ask(sql, self._dialect.databases())
        if unknown := [name for name in databases if name not in there]:
            known = ", ".join(there) or "none"
            raise UsageError(f"no database {unknown[0]!r} on {sql.node}", f"it has {known}")
        wanted = tuple(databases) or tuple(name for name in there if name != OWN_DATABASE)
        before = await self._look()
        await self._look_at_prepared()
        await self._watch(before.at_s, seconds, has_history=kept.history)
        await self._look_at_prepared()
        after = await self._look()
        digests = _together(growth(before.digests, after.digests), self._prepared.counts)
        shapes = {each.name: each for each in await described(sql, self._dialect, wanted)} if wanted else {}
        return Captured(
            server=self._dialect.capabilities.title,
            address=address,
            seconds=after.at_s - before.at_s,
            digests=digests,
            tables=shapes,
            ddl=await self._definitions(digests, set(shapes)),
            runs=self._histories.runs if kept.history else None,
            names=self._names,
            executions=max(0, after.executions - before.executions),
            transactions=(
                None
                if after.transactions is None or before.transactions is None
                else max(0, after.transactions - before.transactions)
            ),
            databases=tuple(databases),
        )

    async def _look(self) -> StatementLook:
        digests = questions.counted_digests(self._dialect.capabilities.flavor)
        counted = await ask(self._sql, digests, deadline_s=_LONG_S)
        at_s = time.monotonic()
        self._names.update(counted.names)
        return StatementLook(
            at_s,
            counted.counts,
            await ask(self._sql, questions.executions()),
            await ask(self._sql, questions.transactions()),
        )

    async def _look_at_prepared(self) -> None:
        found = await ask(self._sql, questions.prepared_statements(), deadline_s=_LONG_S)
        self._names.update(found.names)
        self._prepared.add(found.counts)

    async def _watch(self, began_s: float, seconds: float, *, has_history: bool) -> None:
        """Look at histories and prepared statements until the time is over."""
        ends_s = began_s + seconds
        prepared_s = history_s = began_s
        while (now_s := time.monotonic()) < ends_s:
            if now_s >= prepared_s:
                await self._look_at_prepared()
                took_s = time.monotonic() - now_s
                prepared_s = time.monotonic() + max(_PREPARED_S, _PAUSE * took_s)
            if has_history and time.monotonic() >= history_s:
                from_s = time.monotonic()
                await self._burst()
                took_s = time.monotonic() - from_s
                history_s = time.monotonic() + max(_BURST_S, _PAUSE * took_s)
            self._tell(time.monotonic() - began_s, self._histories.statements)
            has_history = has_history and self._histories.statements < _MOST_SEEN
            next_s = min(prepared_s, history_s if has_history else ends_s, ends_s)
            await asyncio.sleep(max(0.01, next_s - time.monotonic()))

    async def _burst(self) -> None:
        """Several looks in a row at what some sessions did last."""
        sessions = await ask(self._sql, questions.busy_sessions())
        if not sessions:
            return
        for _ in range(_LOOKS_A_BURST):
            self._histories.add(await ask(self._sql, questions.histories(sessions)))

    async def _definitions(
        self, digests: Mapping[DigestKey, DigestCount], there: set[TableName]
    ) -> dict[TableName, str]:
        """What makes each table that a statement was on."""
        used: set[TableName] = set()
        for key in digests:
            if key.text and kind_of(key.text):
                try:
                    used.update(tables_of(key.text, key.database or None))
                except NotImitated:
                    continue
        found = {}
        for name in sorted(used & there):
            text = await ask(self._sql, questions.table_definition(name))
            if text is not None:
                found[name] = text
        return found


def _together(
    digests: Mapping[DigestKey, DigestCount], prepared: Mapping[DigestKey, DigestCount]
) -> dict[DigestKey, DigestCount]:
    """What was sent as text and what was prepared; some servers have both among their digests."""
    found = dict(digests)
    if any(count.prepared for count in digests.values()):
        return found
    for key, count in prepared.items():
        found[key] = found.get(key, DigestCount()) + count
    return found
