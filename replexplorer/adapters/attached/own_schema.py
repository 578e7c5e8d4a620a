"""Making and dropping the schema that a load is given on a server that somebody else made.

Law: its mark is on the disk before it is made, so that whoever finds the journal drops it and nothing else.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from typing import Final, TypeVar

from replexplorer.adapters.attached.journal import ChangeJournal
from replexplorer.core.change.journalled import (
    ABSENT,
    PRESENT,
    Fate,
    Outstanding,
    TakenBack,
    after_dropping,
    before_making,
)
from replexplorer.core.dialect.attaching import FOLLOWED, value_of
from replexplorer.core.dialect.own_schema import DROP, LOCKED, LOOK, NO_LONG_WAIT, SCHEMA, SchemaFound, make
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import ServerRefused, StackUnavailable, UsageError
from replexplorer.ports import Sql

T = TypeVar("T")
_WITHIN_S: Final = 12.0
"""A statement may wait for a replica's acknowledgement."""


async def make_schema(journal: ChangeJournal, sql: Sql) -> None:
    """Make the schema on a source. Raises StackUnavailable where one of its name is there, whoever made it,
    UsageError where a row of one's own would be out of place, ServerRefused for what the account may not."""
    await _check_source(sql)
    found = await _look(sql)
    if found.is_there and found.mark is not None:
        raise StackUnavailable(
            f"schema {SCHEMA} of {sql.node} is that of another load ({found.mark.partition(' ')[2]})",
            "end that `attach --load`, or undo it with `replexplorer revert` where it ran",
        )
    if found.is_there:
        raise StackUnavailable(
            f"schema {SCHEMA} is on {sql.node} already, and this program did not make it",
            "rename or drop it, if nobody needs it",
        )
    told = f"{uuid.uuid4().hex} pid {os.getpid()} {socket.gethostname()}"
    mark = re.sub(r"[^\w .:@-]", "_", told, flags=re.ASCII)[:200]
    await journal.note(before_making(sql.node, SCHEMA, mark))
    create, table = make(mark)
    try:
        await sql.query(create, deadline_s=_WITHIN_S)
    except ServerRefused:
        await journal.note(after_dropping(sql.node, SCHEMA))
        raise
    await sql.query(table, deadline_s=_WITHIN_S)


async def _check_source(sql: Sql) -> None:
    """Refuse a server whose rows come from another one, or that takes none."""
    try:
        followed = await _ask(sql, FOLLOWED)
    except ServerRefused:
        if FOLLOWED.instead is None:
            raise
        followed = await _ask(sql, FOLLOWED.instead)
    if followed is not None:
        raise UsageError(
            f"{sql.node} is itself a replica of {followed.host}: rows written here would be missing there",
            "attach to that source",
        )
    if (await _ask(sql, value_of("read_only"))).upper() not in ("0", "OFF"):
        raise UsageError(f"{sql.node} is read-only (read_only)", "attach to the server that takes writes")


async def drop_schema(journal: ChangeJournal, sql: Sql, made: Outstanding) -> TakenBack:
    """Drop the schema that was made, unless what stands at its name is another one.

    Raises ServerRefused where a commit of the load is not over after a second; ServerUnreachable where the
    dropping itself is not answered, which the server does nevertheless once it may.
    """
    found = await _look(sql)
    if not found.is_there:
        fate, now = Fate.AS_BEFORE, ABSENT
    elif found.was_made_as(made.mark or ""):
        await _drop(sql)
        fate, now = Fate.RESTORED, PRESENT
    else:
        fate, now = Fate.LEFT, PRESENT
    journal.append(after_dropping(made.node, SCHEMA))
    return TakenBack(made, fate, now)


async def _drop(sql: Sql) -> None:
    try:
        await sql.query(NO_LONG_WAIT, deadline_s=_WITHIN_S)
        await sql.query(DROP, deadline_s=_WITHIN_S)
    except ServerRefused as refused:
        if refused.number != LOCKED:
            raise
        raise ServerRefused(
            LOCKED, "a commit of the load is not over there: it may wait for a replica's acknowledgement"
        ) from None


async def _look(sql: Sql) -> SchemaFound:
    return await _ask(sql, LOOK)


async def _ask(sql: Sql, question: Question[T]) -> T:
    return question.read(await sql.query(question.statement, question.arguments, deadline_s=_WITHIN_S))
