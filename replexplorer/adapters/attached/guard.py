"""Connections to servers that somebody else made: only reads go out, unless a journal notes it first.

Law: this is the last thing before the wire, so whoever sends a statement cannot pass by it. A variable's
value is read and on the disk before the statement that sets it is sent, in one turn with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from replexplorer.adapters.attached.journal import ChangeJournal
from replexplorer.core.change.journalled import after_set, before_set
from replexplorer.core.dialect.attaching import is_read, set_back, setting_of, value_of
from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import MissingPiece, ReplexplorerError
from replexplorer.ports import Sql

_WORDS_SHOWN: Final = 3


class GuardedSql:
    """`ports.Sql` to one such server."""

    def __init__(self, sql: Sql, journal: ChangeJournal | None) -> None:
        self.node = sql.node
        self._sql = sql
        self._journal = journal
        self._one = asyncio.Lock()
        """One change at a time: its value before is that of the change before."""

    def __getattr__(self, name: str) -> Any:
        """What else the connection says of itself, as where it logged in."""
        return getattr(self._sql, name)

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """See `ports.Sql`; raises MissingPiece for what is not sent, UsageError where it cannot be noted."""
        if is_read(statement):
            return await self._sql.query(statement, args, deadline_s=deadline_s)
        setting = setting_of(statement)
        if setting is None or args:
            shown = " ".join(statement.split()[:_WORDS_SHOWN])
            raise MissingPiece(
                f"{shown} is not sent to {self.node}", "attach reads, and sets variables; nothing else"
            )
        journal = self._journal
        if journal is None:
            raise MissingPiece(f"{setting.variable} of {self.node} is only read", "--allow-changes allows it")
        async with self._one:
            before = await self._value(setting.variable, deadline_s)
            try:
                set_back(setting.variable, before)
            except ValueError as error:
                raise MissingPiece(str(error), f"{setting.variable} of {self.node} is left alone") from None
            await journal.note(before_set(self.node, setting.variable, before, setting.value))
            try:
                return await self._sql.query(statement, deadline_s=deadline_s)
            finally:
                await self._note(journal, setting.variable, deadline_s)

    async def _value(self, variable: str, deadline_s: float) -> str:
        question = value_of(variable)
        return question.read(await self._sql.query(question.statement, deadline_s=deadline_s))

    async def _note(self, journal: ChangeJournal, variable: str, deadline_s: float) -> None:
        """Note what the server has now; where nobody sees it the change counts as made."""
        try:
            now = await self._value(variable, deadline_s)
        except ReplexplorerError:
            return
        await journal.note(after_set(self.node, variable, now))

    async def close(self) -> None:
        """See `ports.Sql`."""
        await self._sql.close()
