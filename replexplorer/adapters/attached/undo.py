"""Undoing what a journal names, on the servers themselves: at the end of `attach`, or after a kill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from replexplorer.adapters.attached.journal import ChangeJournal
from replexplorer.adapters.attached.own_schema import drop_schema
from replexplorer.core.change.journalled import Fate, Outstanding, TakenBack, after_set, fate_of
from replexplorer.core.dialect.attaching import set_back, value_of
from replexplorer.core.errors import ReplexplorerError, ServerRefused
from replexplorer.ports import Sql

_WITHIN_S: Final = 12.0


async def undo(journal: ChangeJournal, connect: Callable[[str], Sql]) -> Sequence[TakenBack]:
    """Set back what is as it was set, the newest change first; then drop the schema that a load was given,
    for which a server may wait because of what was set. What somebody else has set since stays.

    The journal is gone when this returns, unless a server did not answer or refused: then it stays.
    `connect` opens a connection to a node by its name. Raises UsageError where the journal cannot be read.
    """
    connections: dict[str, Sql] = {}
    done: list[TakenBack] = []
    silent: dict[str, str] = {}
    try:
        for change in sorted(journal.outstanding, key=lambda change: change.is_schema):
            if change.node in silent:
                done.append(TakenBack(change, Fate.UNREACHED, why=silent[change.node]))
                continue
            try:
                if change.node not in connections:
                    connections[change.node] = connect(change.node)
                done.append(await _undo(journal, connections[change.node], change))
            except ValueError as error:  # a journal that somebody wrote in
                done.append(TakenBack(change, Fate.UNREACHED, why=str(error)))
            except ReplexplorerError as error:
                if not isinstance(error, ServerRefused):  # that is of the one variable
                    silent[change.node] = error.message
                done.append(TakenBack(change, Fate.UNREACHED, why=error.message))
    finally:
        for sql in connections.values():
            await sql.close()
    if all(each.fate is not Fate.UNREACHED for each in done):
        journal.remove()
    return done


async def _undo(journal: ChangeJournal, sql: Sql, change: Outstanding) -> TakenBack:
    if change.is_schema:
        return await drop_schema(journal, sql, change)
    found = await _value(sql, change.variable)
    fate = fate_of(change, found)
    if fate is Fate.RESTORED:
        await sql.query(set_back(change.variable, change.before), deadline_s=_WITHIN_S)
    if fate is not Fate.LEFT:
        journal.append(after_set(change.node, change.variable, change.before))
    return TakenBack(change, fate, found)


async def _value(sql: Sql, variable: str) -> str:
    question = value_of(variable)
    return question.read(await sql.query(question.statement, deadline_s=_WITHIN_S))
