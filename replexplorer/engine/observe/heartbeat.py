"""The heartbeat: one small commit of our own a second at most, so that a replica's age has no gaps.

Law: only while our load runs, so that an idle stack stays idle; one at a time, on a connection of its
own, for under semi-sync it waits like any commit. Labs, verbs and benches write none.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused
from replexplorer.engine.asking import execute
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.ports import Sql

EVERY_S: Final = 1.0
_NO_SUCH_TABLE: Final = 1146
_WAITS_S: Final = 86_400.0
"""As long as semi-sync lets it wait: who gives up leaves a transaction in the server that still waits."""
_KEPT: Final = 64


class Heartbeat:
    """Our heartbeats to one stack's primary."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._sql: Sql | None = None
        self._member: Member | None = None
        self.beats_s: deque[float] = deque(maxlen=_KEPT)
        """When the last ones were acknowledged, on the monotonic clock."""

    async def beat(self) -> None:
        """Write one and wait for its acknowledgement; raises ReplexplorerError."""
        sql, dialect = await self._connection(), self._fleet.source.dialect
        try:
            await execute(sql, (dialect.beat(),), deadline_s=_WAITS_S)
        except ServerRefused as refused:
            if refused.number != _NO_SUCH_TABLE:
                raise
            await execute(sql, (dialect.heartbeat_table(),), deadline_s=_WAITS_S)
            return
        self.beats_s.append(self._fleet.outside.clock.monotonic())

    async def _connection(self) -> Sql:
        """The connection to the primary as it is now."""
        member, credentials = self._fleet.source, self._fleet.credentials
        if self._sql is None or member is not self._member:
            await self.close()
            if credentials is None:
                raise ReplexplorerError("no stack is attached")
            self._sql, self._member = self._fleet.outside.sql(member.address, credentials), member
        return self._sql

    async def close(self) -> None:
        """Close the connection."""
        sql, self._sql = self._sql, None
        if sql is not None:
            with contextlib.suppress(ReplexplorerError):
                await sql.close()
