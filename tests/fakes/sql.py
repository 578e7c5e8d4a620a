"""`ports.Sql` over the model server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import NoAnswerInTime, ServerRefused
from tests.fakes.server import FakeServer, Session

LOGIN_S = 0.003


@dataclass(frozen=True)
class Place:
    """Where the last login went."""

    host: str
    port: int
    path: str = "direct"


class FakeSql:
    """One connection, as the real adapter is one: lost, cancelled or late means closed."""

    def __init__(self, server: FakeServer, host: str) -> None:
        self.node = server.node
        self.server = server
        self.address: Place | None = None
        self._host = host
        self._lock = asyncio.Lock()
        self.session: Session | None = None

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """Run a statement; see `ports.Sql`."""
        try:
            async with asyncio.timeout(deadline_s), self._lock:
                return await self._run(statement)
        except TimeoutError:
            raise NoAnswerInTime(f"{self.node} did not answer within {deadline_s:g} s") from None

    async def _run(self, statement: str) -> Sequence[Row]:
        if self.session is None or self.session.lost:
            await asyncio.sleep(LOGIN_S + self.server.slow_s)
            self.session = self.server.log_in()
            self.address = Place(self._host, 3306)
        session = self.session
        try:
            return await self.server.send(session, statement)
        except ServerRefused:
            raise
        except BaseException:
            self._drop(session)
            raise

    def _drop(self, session: Session) -> None:
        session.lost = True
        self.server.sessions.discard(session)
        if self.session is session:
            self.session = None

    async def close(self) -> None:
        """Close; a later call opens again."""
        if self.session is not None:
            self._drop(self.session)
        await asyncio.sleep(0)
