"""missing-key: a table without a primary key stalls the replica that applies row events (docs/labs.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tables.check import AddKeyColumn
from replexplorer.core.tables.table import TableName
from replexplorer.engine.asking import ask
from replexplorer.engine.experiment.labs.evidence import at_least, printed
from replexplorer.engine.experiment.labs.lab import Act, Lab, Length, Phase, Phases, Played, Relation
from replexplorer.ports import Sql

_NAME: Final = TableName("replexplorer", "visits")
_TABLE: Final = str(_NAME)
_ROWS, _QUICK_ROWS = 20_000, 10_000
_NOTE_BYTES: Final = 2_000
"""With it an event of the binlog, which is about 8 KB, carries four rows."""
_GONE: Final = 5
"""Every fifth row is deleted."""
_BATCH: Final = 1_000
_LONGER: Final = 3.0
_WITHIN_S: Final = 900.0
"""A statement, and a replica that searches the whole table for each row."""
_COLUMNS: Final = (
    "visitor INT NOT NULL, page INT NOT NULL, seen DATETIME(6) NOT NULL,"
    f" note VARCHAR({_NOTE_BYTES}) NOT NULL"
)
_NONE, _INDEX, _ADDED, _KEY, _GENERATED = (
    "no key",
    "no key, one index",
    "a key added, invisible",
    "primary key",
    "primary key generated",
)
_MADE: Final = {
    _INDEX: f"{_COLUMNS}, KEY by_page (page)",
    _KEY: f"id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, {_COLUMNS}",
}
"""How the table is made, where it is not without any key."""
_SOURCE, _REPLICA, _LONG, _LEFT = (
    "on the source, s",
    "then on the replica, s",
    "as long as on the source",
    "rows left on both",
)


async def _play(act: Act) -> Played:
    """Fill the table, delete a fifth of it by one statement, and wait for what comes after on the replica."""
    rig = act.rig
    source, replica = rig.seen.source, rig.seen.replicas[0]
    rows = _QUICK_ROWS if act.quick else _ROWS
    at_source, at_replica = rig.sql(source), rig.sql(replica)
    try:
        act.tell("filling the table", None)
        await _fill(act, at_source, rows)
        await _until_applied(act, at_source, at_replica)
        act.tell("deleting", None)
        began_s = rig.clock.monotonic()
        await at_source.query(f"DELETE FROM {_TABLE} WHERE visitor % {_GONE} = 0", deadline_s=_WITHIN_S)
        done_s = rig.clock.monotonic()
        act.tell("the replica applies it", None)
        await _until_applied(act, at_source, at_replica)
        applied_s = rig.clock.monotonic() - done_s
        left = [await _left(sql) for sql in (at_source, at_replica)]
        figures: dict[str, float | str] = {
            _SOURCE: done_s - began_s,
            _REPLICA: applied_s,
            _LONG: applied_s / (done_s - began_s),
            _LEFT: left[0] if left[0] == left[1] else f"{left[0]:,.0f} and {left[1]:,.0f}",
        }
        return Played(figures, duration_s=applied_s, rows=rows // _GONE)
    finally:
        await at_source.query(f"DROP TABLE IF EXISTS {_TABLE}", deadline_s=_WITHIN_S)
        await asyncio.gather(at_source.close(), at_replica.close())


async def _fill(act: Act, sql: Sql, rows: int) -> None:
    """The table of this phase with all its rows."""
    phase = act.phase.name
    await sql.query(f"DROP TABLE IF EXISTS {_TABLE}", deadline_s=_WITHIN_S)
    made = _MADE.get(phase, _COLUMNS)
    await sql.query(f"CREATE TABLE {_TABLE} ({made}) ENGINE=InnoDB", deadline_s=_WITHIN_S)
    for first in range(0, rows, _BATCH):
        values = ",".join(
            f"({number}, {number % 50}, NOW(6), REPEAT('v', {_NOTE_BYTES}))"
            for number in range(first, min(rows, first + _BATCH))
        )
        await sql.query(
            f"INSERT INTO {_TABLE} (visitor, page, seen, note) VALUES {values}", deadline_s=_WITHIN_S
        )
    if phase == _ADDED:
        mended = act.rig.dialect(act.rig.seen.source).mend(_NAME, AddKeyColumn("id"))
        await sql.query(mended, deadline_s=_WITHIN_S)


async def _until_applied(act: Act, at_source: Sql, at_replica: Sql) -> None:
    """Until the replica has executed all that the source has; raises StackUnavailable when it does not."""
    rig = act.rig
    executed = await ask(at_source, rig.dialect(rig.seen.source).executed())
    reached = rig.dialect(rig.seen.replicas[0]).reached(executed, _WITHIN_S)
    if not await ask(at_replica, reached, deadline_s=_WITHIN_S + 5):
        raise StackUnavailable(
            f"{rig.seen.replicas[0]} did not apply it within {_WITHIN_S:g} s", "`replexplorer status`"
        )


async def _left(sql: Sql) -> float:
    """Rows of the table."""
    [counted] = await sql.query(f"SELECT COUNT(*) AS held FROM {_TABLE}", deadline_s=_WITHIN_S)
    return float(counted["held"])


def _judge(phases: Phases) -> Sequence[Relation]:
    applied_s = {name: float(each.figures[_REPLICA]) for name, each in phases.items()}
    same = [name for name, each in phases.items() if isinstance(each.figures[_LEFT], str)]
    keyed = [name for name in (_KEY, _ADDED, _GENERATED) if name in phases]
    long = {name: float(each.figures[_LONG]) for name, each in phases.items()}
    return (
        *(
            at_least(
                f"without a key the replica takes at least {_LONGER:g} x as long as with: {name}",
                applied_s[_NONE],
                _LONGER * applied_s[name],
                "s",
            )
            for name in keyed
        ),
        Relation(
            "source and replica have the same rows after it",
            not same,
            ", ".join(f"{name}: {phases[name].figures[_LEFT]}" for name in same) or "in every phase",
        ),
        printed(
            "the replica against the source, for one statement",
            ", ".join(f"{name} {times:.1f} x" for name, times in long.items()),
        ),
    )


def _phases(*, generates: bool) -> Iterator[Phase]:
    """With `generates`, that of a server that makes keys itself."""
    first = (
        "semi_sync=off", "rtt=0", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "binlog_format=row",
        "sync_binlog@replica=0", "innodb_flush_log_at_trx_commit@replica=0", "clients=0",
    )  # fmt: skip
    off = ("sql_generate_invisible_primary_key=off",) if generates else ()
    shows = {
        _NONE: "for each row of the event the replica looks at all rows of the table",
        _INDEX: "any index narrows what it looks at, as far as it tells rows apart",
        _ADDED: "the statement of check-schema: nothing that reads or writes the table notices the column",
        _KEY: "each row is found at once",
    }
    if generates:
        shows[_GENERATED] = "the server adds the key itself as the table is made"
    for name, said in shows.items():
        generated = ("sql_generate_invisible_primary_key=on",) if name == _GENERATED else off
        yield Phase(
            name,
            (*first, *generated),
            full=Length(30 if name == _NONE else 6),
            quick=Length(10 if name == _NONE else 4),
            state=ProtectionState.OFF,
            shows=said,
            replicas=1,
            play=_play,
        )


_LAB = Lab(
    name="missing-key",
    title="A table without a primary key",
    teaches="A DELETE that is quick on the source stalls a replica that has no key to find the rows by.",
    phases=tuple(_phases(generates=True)),
    judge=_judge,
)
MISSING_KEY = replace(_LAB, variants=(replace(_LAB, phases=tuple(_phases(generates=False))),))
