"""A look over some time at what a server's clients do, for a workload like theirs. It only reads.

Law: looks take a small share of the time, however many statements, sessions and tables there are: each look
is paid for by a pause as many times as long.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from replexplorer.core.dialect import schema as questions
from replexplorer.core.dialect.flavours import Dialect
from replexplorer.core.dialect.schema import DigestCount, DigestKey, SeenStatement
from replexplorer.core.errors import MissingPiece, ServerRefused, UsageError
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.tables import TableName, TableShape
from replexplorer.engine.observe.samples import probe
from replexplorer.engine.observe.tables import OWN_DATABASE, shapes_of
from replexplorer.engine.workload_capture.digest import NotImitated, tables_of
from replexplorer.ports import Sql, ask

_LOOKS_A_BURST: Final = 12
"""At a session's history in a row, so that transactions longer than it are put together."""
_PAUSE: Final = 25
"""Times as long as the looks before it."""
_LEAST_PAUSE_S: Final = 0.5
_LONG_S: Final = 60.0
_MOST_SEEN: Final = 200_000
"""Statements of histories that are kept."""
_DENIED: Final = frozenset({1044, 1142, 1143, 1227})


@frozen
class Captured:
    """What was read of a server; no value of any row."""

    server: str
    """Flavour and version, for people."""
    address: str
    seconds: float
    digests: Mapping[DigestKey, DigestCount]
    """What came within the seconds."""
    tables: Mapping[TableName, TableShape]
    ddl: Mapping[TableName, str]
    """As SHOW CREATE TABLE has it."""
    runs: Sequence[Sequence[SeenStatement]] | None = None
    """Sessions' statements in order; None where the server keeps no history of them."""
    names: Mapping[str, DigestKey] = field(default_factory=dict)
    """Digests by what the runs call them."""
    executions: int = 0
    """Of prepared statements."""
    reading_s: float = 0.0
    """How long the server was asked for its counts, at the beginning and at the end of the seconds."""
    databases: tuple[str, ...] = ()
    """Only these; empty: all but the server's own and the program's."""


class Histories:
    """Puts the looks at all sessions' last statements together."""

    def __init__(self) -> None:
        self._runs: dict[int, list[list[SeenStatement]]] = defaultdict(list)
        """Of each session: stretches within which no statement is missing."""
        self._newest: dict[int, int] = {}
        """Number of each session's newest statement, as yet in no stretch."""

    def add(self, look: Iterable[SeenStatement]) -> None:
        """Take one look; it joins what is known of a session where both have a statement in common.

        A session that went on while its history was read may have lost statements in the middle of it, and
        such a look is left out. A history is a ring, read from one end of the server's memory to the other,
        so one that is complete has a single place where a newer statement comes before an older one. The
        newest is left to a later look: a server reads its histories without locks, and a row that is being
        written has its own number and what it replaces.
        """
        by_session: dict[int, list[SeenStatement]] = defaultdict(list)
        for each in look:
            by_session[each.session].append(each)
        for session, found in by_session.items():
            numbers = [each.number for each in found]
            if sum(this > after for this, after in pairwise([*numbers, numbers[0]])) > 1:
                continue
            found.sort(key=lambda each: each.number)
            newest_before = self._newest.get(session, 0)
            self._newest[session] = found.pop().number
            if not found:
                continue
            runs = self._runs[session]
            if runs and newest_before >= found[0].number:
                last = runs[-1][-1].number
                runs[-1].extend(each for each in found if each.number > last)
            else:
                runs.append(found)

    @property
    def runs(self) -> list[list[SeenStatement]]:
        """All stretches."""
        return [run for runs in self._runs.values() for run in runs]

    @property
    def statements(self) -> int:
        """How many were seen."""
        return sum(map(len, self.runs))


class PreparedTally:
    """Adds up what prepared statements did over several looks: they vanish with their sessions."""

    def __init__(self) -> None:
        self._last: Mapping[str, tuple[DigestKey, DigestCount]] | None = None
        self.counts: dict[DigestKey, DigestCount] = {}
        """Until the last look."""

    def add(self, look: Mapping[str, tuple[DigestKey, DigestCount]]) -> None:
        """Take a look at every prepared statement, by what tells one from another."""
        for name, (key, count) in look.items() if self._last is not None else ():
            last = (self._last or {}).get(name)
            grown = count.since(last[1] if last is not None and last[0] == key else None)
            if grown.times:
                grown = grown._replace(prepared=grown.times)
                self.counts[key] = self.counts.get(key, DigestCount()).plus(grown)
        self._last = look


async def capture(
    sql: Sql,
    *,
    address: str,
    seconds: float,
    databases: Sequence[str] = (),
    on_progress: Callable[[float, int], None] = lambda _seconds, _statements: None,
) -> Captured:
    """Watch a server for this long; `on_progress` gets seconds, and statements seen in histories.

    Raises UsageError for a database that is not there, MissingPiece where the server keeps no digests,
    ServerRefused and ServerUnreachable.
    """
    dialect = await probe(sql)
    try:
        return await _Watch(sql, dialect, on_progress).run(address, seconds, databases)
    except ServerRefused as refused:
        if refused.number in _DENIED:
            raise ServerRefused(
                refused.number, refused.message, f"it takes {questions.NEEDED_GRANTS}"
            ) from None
        raise


@dataclass(eq=False)
class _Watch:
    """One capture."""

    _sql: Sql
    _dialect: Dialect
    _on_progress: Callable[[float, int], None]
    _histories: Histories = field(default_factory=Histories)
    _prepared: PreparedTally = field(default_factory=PreparedTally)
    _names: dict[str, DigestKey] = field(default_factory=dict)

    async def run(self, address: str, seconds: float, databases: Sequence[str]) -> Captured:
        sql = self._sql
        if not await ask(sql, questions.IS_ON):
            raise MissingPiece(
                f"{sql.node} keeps no digests: its performance schema is off",
                "start it with performance_schema=ON",
            )
        kept = await ask(sql, questions.kept())
        if not kept.digests:
            raise MissingPiece(f"{sql.node} keeps no digests of statements", questions.TURN_DIGESTS_ON)
        there = await ask(sql, self._dialect.databases)
        if unknown := [name for name in databases if name not in there]:
            known = ", ".join(there) or "none"
            raise UsageError(f"no database {unknown[0]!r} on {sql.node}", f"it has {known}")
        wanted = tuple(databases) or tuple(name for name in there if name != OWN_DATABASE)
        asked_s = time.monotonic()
        before, executed = await self._look(), await ask(sql, questions.EXECUTIONS)
        await self._look_at_prepared()
        began_s = time.monotonic()
        await self._watch(began_s, seconds, has_history=kept.history)
        over_s = time.monotonic()
        await self._look_at_prepared()
        after, ends_s = await self._look(), time.monotonic()
        executed = max(0, await ask(sql, questions.EXECUTIONS) - executed)
        digests = _together(_growth(before, after), self._prepared.counts)
        shapes = {each.name: each for each in await shapes_of(sql, wanted)} if wanted else {}
        return Captured(
            server=self._dialect.capabilities.title,
            address=address,
            seconds=ends_s - began_s,
            digests=digests,
            tables=shapes,
            ddl=await self._definitions(digests, set(shapes)),
            runs=self._histories.runs if kept.history else None,
            names=self._names,
            executions=executed,
            reading_s=began_s - asked_s + ends_s - over_s,
            databases=tuple(databases),
        )

    async def _look(self) -> Mapping[DigestKey, DigestCount]:
        asked = questions.counted_digests(self._dialect.capabilities.flavor)
        counted = await ask(self._sql, asked, deadline_s=_LONG_S)
        self._names.update(counted.names)
        return counted.counts

    async def _look_at_prepared(self) -> None:
        found = await ask(self._sql, questions.prepared_statements(), deadline_s=_LONG_S)
        self._names.update(found.names)
        self._prepared.add(found.counts)

    async def _watch(self, began_s: float, seconds: float, *, has_history: bool) -> None:
        """Look at histories and prepared statements until the time is over."""
        ends_s = began_s + seconds
        while (from_s := time.monotonic()) < ends_s:
            await self._look_at_prepared()
            if has_history and self._histories.statements < _MOST_SEEN:
                await self._burst()
            now_s = time.monotonic()
            self._on_progress(now_s - began_s, self._histories.statements)
            await asyncio.sleep(min(max(_LEAST_PAUSE_S, _PAUSE * (now_s - from_s)), max(0.0, ends_s - now_s)))

    async def _burst(self) -> None:
        """Several looks in a row at what some sessions did last."""
        sessions = await ask(self._sql, questions.BUSY_SESSIONS)
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
            try:
                used.update(tables_of(key))
            except NotImitated:
                continue
        found = {}
        for name in sorted(used & there):
            text = await ask(self._sql, questions.table_definition(name))
            if text is not None:
                found[name] = text
        return found


def _growth(
    before: Mapping[DigestKey, DigestCount], after: Mapping[DigestKey, DigestCount]
) -> dict[DigestKey, DigestCount]:
    """What came between two looks; only what did come."""
    found = {key: count.since(before.get(key)) for key, count in after.items()}
    return {key: count for key, count in found.items() if count.times}


def _together(
    digests: Mapping[DigestKey, DigestCount], prepared: Mapping[DigestKey, DigestCount]
) -> dict[DigestKey, DigestCount]:
    """What was sent as text and what was prepared; some servers have both among their digests."""
    found = dict(digests)
    if any(count.prepared for count in digests.values()):
        return found
    for key, count in prepared.items():
        found[key] = found.get(key, DigestCount()).plus(count)
    return found
