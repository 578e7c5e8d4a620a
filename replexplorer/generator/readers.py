"""Sessions that look which rows of the `ledger` load can be read, one a node.

A row that another session has read and that no row of the survivor is was a phantom read. Each look asks
for the highest number of each client, which is one dive into the primary key a client, and for what is new
of those that moved on; a session rests four times as long as it looks. Law: a row is written down
only if a look counted it: where the new numbers of a client have a gap each is fetched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from replexplorer.adapters.mysql import Address, ControlConnection
from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.load.workload import LEDGER_TABLE
from replexplorer.core.loss.client_log import CLIENTS_A_RUN
from replexplorer.core.loss.spans import spans_of
from replexplorer.generator.client_log import ClientLog
from replexplorer.ports import LoadTarget

LOOK_EVERY_S: Final = 0.02
_REST: Final = 4
"""Times the length of a look that a session rests after it."""
_RETRY_S: Final = 0.5
_DEADLINE_S: Final = 2.0
_RANGES: Final = 200
"""Clients that are asked of in one statement."""


class Reader:
    """One node's session."""

    def __init__(self, node: str, connection: ControlConnection, log: ClientLog) -> None:
        self._node = node
        self._connection = connection
        self._log = log
        self._highest: dict[int, int] = {}

    async def live(self) -> None:
        """Look until cancelled; a node that does not answer is tried again."""
        try:
            while True:
                began_s = time.monotonic()
                try:
                    rows = await self._look()
                except ReplexplorerError:
                    await asyncio.sleep(_RETRY_S)
                    continue
                if rows:
                    self._log.see(self._node, rows)
                await asyncio.sleep(max(LOOK_EVERY_S, _REST * (time.monotonic() - began_s)))
        finally:
            await self._connection.close()

    async def _look(self) -> list[tuple[int, int, int]]:
        """Rows that were not there at the last look: client, first and last of each run."""
        first = self._log.base
        moved = [
            (int(row["client"]), self._highest.get(int(row["client"]), 0), int(row["high"]))
            for row in await self._asked(
                f"SELECT client, MAX(seq) AS high FROM {LEDGER_TABLE} WHERE client > %s AND client < %s"
                " GROUP BY client",
                (first, first + CLIENTS_A_RUN),
            )
            if int(row["high"]) > self._highest.get(int(row["client"]), 0)
        ]
        seen = [(client, high, high) for client, last, high in moved if high == last + 1]
        several = [each for each in moved if each[2] > each[1] + 1]
        for at in range(0, len(several), _RANGES):
            seen += await self._new_rows(several[at : at + _RANGES])
        self._highest.update((client, high) for client, _, high in moved)
        return seen

    async def _new_rows(self, moved: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """What lies between the last look and the highest number, of clients that made several rows."""
        ranges = " OR ".join("(client = %s AND seq > %s AND seq <= %s)" for _ in moved)
        values = tuple(value for each in moved for value in each)
        found = await self._asked(
            f"SELECT client, MIN(seq) AS low, MAX(seq) AS high, COUNT(*) AS n FROM {LEDGER_TABLE}"
            f" WHERE {ranges} GROUP BY client",
            values,
        )
        whole, broken = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
        for row in found:
            client, low, high = int(row["client"]), int(row["low"]), int(row["high"])
            (whole if int(row["n"]) == high - low + 1 else broken).append((client, low, high))
        for client, low, high in broken:
            rows = await self._asked(
                f"SELECT seq FROM {LEDGER_TABLE} WHERE client = %s AND seq >= %s AND seq <= %s",
                (client, low, high),
            )
            runs = spans_of((int(row["seq"]), int(row["seq"])) for row in rows)
            whole += [(client, start, end) for start, end in runs]
        return whole

    async def _asked(self, statement: str, values: tuple[object, ...]) -> Sequence[Row]:
        return await self._connection.query(statement, values, deadline_s=_DEADLINE_S)


def readers_of(target: LoadTarget, log: ClientLog) -> list[Reader]:
    """A session for each node that the target names."""

    def connection(node: str, address: Address) -> ControlConnection:
        async def locate() -> Address:
            return address

        return ControlConnection(node, locate, target.user, target.password)

    return [
        Reader(node, connection(node, Address(host, port, target.path)), log)
        for node, (host, port) in target.readers.items()
    ]
