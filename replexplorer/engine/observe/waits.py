"""A look once a second at who waits for what on the source, on a connection of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, TypeVar

from replexplorer.core.dialect.flavours import ALIVE
from replexplorer.core.dialect.question import Question
from replexplorer.core.dialect.waits import MOST_SESSIONS
from replexplorer.core.errors import ServerRefused
from replexplorer.core.knobs import keys
from replexplorer.core.server.waits import (
    Digest,
    LockWait,
    ServerWaits,
    StatementTotals,
    Wait,
    grouped,
    lock_waits,
    not_recorded,
    statement_rates,
)
from replexplorer.engine.fleet import Fleet
from replexplorer.ports import Sql, ask

T = TypeVar("T")
_EVERY_S: Final = 1.0
_LOGIN_WITHIN_S: Final = 10.0
"""Across an ocean a login takes eight round trips."""


async def waits_of(fleet: Fleet) -> AsyncGenerator[ServerWaits, None]:
    """Ends when another node becomes the source. Between what it yields nothing is asked; raises
    ServerUnreachable."""
    member, clock = fleet.source, fleet.outside.clock
    dialect, sql = member.dialect, fleet.connection(member.name)
    totals: dict[Digest, StatementTotals] = {}
    counted_s: float | None = None
    try:
        await ask(sql, ALIVE, deadline_s=_LOGIN_WITHIN_S)
        while fleet.source_name == member.name:
            unseen: list[str] = []
            consumers = await _asked(sql, dialect.consumers, unseen)
            unseen += (*dialect.untold, *(() if consumers is None else not_recorded(consumers)))
            sessions = await _asked(sql, dialect.sessions, unseen) or ()
            if len(sessions) >= MOST_SESSIONS:
                unseen.append(f"sessions beyond the first {MOST_SESSIONS:,}")
            waits = {each.wait for each in sessions}
            locks: tuple[LockWait, ...] = ()
            if Wait.ROW_LOCK in waits:
                locks += await _asked(sql, dialect.row_locks, unseen) or ()
            if Wait.METADATA_LOCK in waits and dialect.metadata_locks is not None:
                locks += await _asked(sql, dialect.metadata_locks, unseen) or ()
            after_sync = (
                Wait.ACK in waits and await ask(sql, dialect.setting(keys.WAIT_POINT)) == "after_sync"
            )
            counts = "statements_digest" in (consumers or ())
            now = await _asked(sql, dialect.statement_totals, unseen) if counts else None
            at_s = clock.monotonic()
            over_s = None if now is None or counted_s is None else at_s - counted_s
            yield ServerWaits(
                node=member.name,
                sessions=len(sessions) or None,
                groups=grouped(sessions, after_sync=after_sync),
                locks=lock_waits(locks, sessions),
                statements=None if over_s is None else statement_rates(totals, now or {}, over_s),
                over_s=over_s,
                unseen=tuple(unseen),
            )
            totals |= now or {}
            counted_s = None if now is None else at_s
            await clock.sleep(_EVERY_S)
    finally:
        await sql.close()


async def _asked(sql: Sql, question: Question[T], unseen: list[str]) -> T | None:
    """The answer; of what the server refuses it is noted why."""
    try:
        return await ask(sql, question)
    except ServerRefused as refused:
        unseen.append(refused.message)
        return None
