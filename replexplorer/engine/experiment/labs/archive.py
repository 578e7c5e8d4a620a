"""archive: half of a big table goes, by copying what stays or by deleting the rest (docs/labs.md, after Aaron
Brown)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from replexplorer.core.load.interval import Interval
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.experiment.labs.evidence import compared, protected
from replexplorer.engine.experiment.labs.lab import (
    Figures,
    Lab,
    Length,
    Phase,
    Phases,
    Played,
    Publication,
    Published,
    Relation,
)
from replexplorer.engine.experiment.labs.stage import CLIENTS, Stage
from replexplorer.ports import Sql

_ROWS: Final = 200_000
_QUICK_ROWS: Final = 100_000
_BATCH: Final = 1_000
_DATABASE: Final = "replexplorer"
_TABLE: Final = f"{_DATABASE}.title"
_KEPT: Final = "title >= 'g'"
"""Titles up to 'g' go: half of them."""
_DEADLINE_S: Final = 900.0
_LOOK_S: Final = 0.2
_COLUMNS: Final = (
    "id INT NOT NULL AUTO_INCREMENT, title TEXT NOT NULL, kind_id INT NOT NULL, production_year INT, "
    "imdb_id INT, phonetic_code VARCHAR(5), season_nr INT, PRIMARY KEY (id), KEY title_key (title(100)), "
    "KEY kind_key (kind_id), KEY year_key (production_year), KEY imdb_key (imdb_id), "
    "KEY phonetic_key (phonetic_code)"
)
_COPY, _DELETE = "INSERT + RENAME", "DELETE + OPTIMIZE"
_WHY: Final = (
    "; in memory DELETE only marks rows, and since 5.7 OPTIMIZE sorts each index before it writes it, "
    "where INSERT enters every row in six"
)
"""What may make the later way the quicker one (manual: 17.6.2.3 Sorted Index Builds, 17.12 Online DDL)."""


def _statements(how: str) -> Sequence[tuple[str, tuple[str, ...]]]:
    """The steps of a way with their names."""
    if how == _COPY:
        return (
            (
                "copy",
                (
                    f"CREATE TABLE {_DATABASE}.title_new LIKE {_TABLE}",
                    f"INSERT INTO {_DATABASE}.title_new SELECT * FROM {_TABLE} WHERE {_KEPT}",
                ),
            ),
            (
                "rename",
                (f"RENAME TABLE {_TABLE} TO {_DATABASE}.title_old, {_DATABASE}.title_new TO {_TABLE}",),
            ),
            ("drop", (f"DROP TABLE {_DATABASE}.title_old",)),
        )
    return (
        ("delete", (f"DELETE FROM {_TABLE} WHERE NOT ({_KEPT})",)),
        ("optimize", (f"OPTIMIZE TABLE {_TABLE}",)),
    )


async def _play(stage: Stage, phase: Phase, rows: int | None = None) -> Played:
    """Fill the table, then take half of it away beside the load; times, sizes, lag and what the load felt."""
    sql = stage.session.fleet.on_the_primary()
    try:
        await _drop(sql)
        await _fill(stage, sql, rows or (_QUICK_ROWS if stage.quick else _ROWS))
        before_mb, binlog_before = await _size_mb(sql), await _binlog_bytes(sql)
        figures: dict[str, float | str] = {}
        clock = stage.session.outside.clock
        async with _foreground(stage) as foreground:
            began_s = clock.monotonic()
            for step, statements in _statements(phase.name.partition(": ")[2]):
                stage.tell(step)
                step_s = clock.monotonic()
                for statement in statements:
                    await sql.query(statement, deadline_s=_DEADLINE_S)
                figures[f"{step}, s"] = clock.monotonic() - step_s
                figures[f"file after {step}, MB"] = await _size_mb(sql)
            figures["in all, s"] = clock.monotonic() - began_s
        figures["file before, MB"] = before_mb
        figures["binlog, MB"] = (await _binlog_bytes(sql) - binlog_before) / 1e6
        figures.update(foreground.figures())
        return Played(figures)
    finally:
        await _drop(sql)
        await sql.close()


async def _drop(sql: Sql) -> None:
    for name in ("title", "title_new", "title_old"):
        await sql.query(f"DROP TABLE IF EXISTS {_DATABASE}.{name}", deadline_s=_DEADLINE_S)


async def _fill(stage: Stage, sql: Sql, rows: int) -> None:
    """A table of that shape, from a seed: half of the titles are up to 'g'."""
    await sql.query(f"CREATE TABLE {_TABLE} ({_COLUMNS}) ENGINE=InnoDB", deadline_s=_DEADLINE_S)
    random = Random(1)
    for first in range(0, rows, _BATCH):
        stage.tell("filling the table", first / rows)
        values = ",".join(_row(random) for _ in range(min(_BATCH, rows - first)))
        await sql.query(
            f"INSERT INTO {_TABLE} (title, kind_id, production_year, imdb_id, phonetic_code, season_nr) "
            f"VALUES {values}",
            deadline_s=_DEADLINE_S,
        )


def _row(random: Random) -> str:
    first = random.choice("abcdef") if random.random() < 0.5 else random.choice("ghijklmnopqrstuvwxyz")
    words = " ".join(
        "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(4)
    )
    code = random.choice("ABCDEFGH") + str(random.randint(100, 9999))
    return (
        f"('{first}{words}',{random.randint(1, 7)},{random.randint(1890, 2012)},{random.randrange(10**7)},"
        f"'{code}',{random.randint(1, 20)})"
    )


async def _size_mb(sql: Sql) -> float:
    """Of the table's file."""
    rows = await sql.query(
        "SELECT file_size AS bytes FROM information_schema.innodb_tablespaces "
        f"WHERE name = '{_DATABASE}/title'",
        deadline_s=_DEADLINE_S,
    )
    return int(rows[0]["bytes"]) / 1e6 if rows else 0.0


async def _binlog_bytes(sql: Sql) -> int:
    """Of all binlogs that are there."""
    rows = await sql.query("SHOW BINARY LOGS", deadline_s=_DEADLINE_S)
    return sum(int(row["File_size"]) for row in rows)


class _Foreground:
    """What the load and the replicas felt meanwhile."""

    def __init__(self) -> None:
        self.total: Interval | None = None
        self.lag_s = 0.0

    def add(self, intervals: Sequence[Interval]) -> None:
        for interval in intervals:
            self.total = interval if self.total is None else self.total.followed_by(interval)

    def figures(self) -> Figures:
        service = self.total.service if self.total else Histogram()
        p99_ms, max_ms = service.percentile_ms(99), service.max_ms
        return {
            "foreground, TPS": self.total.tps if self.total else 0.0,
            "foreground p99, ms": "-" if p99_ms is None else p99_ms,
            "foreground max, ms": "-" if max_ms is None else max_ms,
            "largest replica lag, s": self.lag_s,
        }


@asynccontextmanager
async def _foreground(stage: Stage) -> AsyncIterator[_Foreground]:
    """Let the load run and watch it and the replicas until the block ends and the replicas have caught up."""
    session = stage.session
    felt = _Foreground()
    await session.load.change({"clients": session.sight.requested_value(CLIENTS)})
    with session.load.listening() as inbox:

        async def look() -> None:
            while True:
                felt.add(inbox.take())
                felt.lag_s = max(felt.lag_s, *(await _lag_s(stage)))
                await session.outside.clock.sleep(_LOOK_S)

        looking = asyncio.create_task(look())
        try:
            yield felt
            felt.add(inbox.take())
            await _caught_up(stage)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


async def _lag_s(stage: Stage) -> list[float]:
    """Age of what each replica applies now, by its original commit; 0 while it has nothing to do."""
    statement = (
        "SELECT COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, applying_transaction_original_commit_timestamp, "
        "NOW(6))), 0) AS lag_us FROM performance_schema.replication_applier_status_by_worker "
        "WHERE applying_transaction <> ''"
    )
    found = [0.0]
    for replica in stage.session.fleet.replicas:
        rows = await replica.control.query(statement)
        found.append(max(0.0, float(rows[0]["lag_us"]) / 1e6))
    return found


async def _caught_up(stage: Stage) -> None:
    """Wait until the replicas have what the source had when this was called."""
    rows = await stage.session.fleet.primary.control.query("SELECT @@GLOBAL.gtid_executed AS gtids")
    gtids = str(rows[0]["gtids"]).replace("\n", "")
    for replica in stage.session.fleet.replicas:
        await replica.control.query(
            f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', {_DEADLINE_S:g}) AS late", deadline_s=_DEADLINE_S
        )


def _judge(phases: Phases) -> Sequence[Relation]:
    relations = [protected(tuple(phases.values()))]
    for how in ("async", "semi-sync"):
        copied, deleted = phases[f"{how}: {_COPY}"].figures, phases[f"{how}: {_DELETE}"].figures
        copy_s, delete_s = float(copied["in all, s"]), float(deleted["in all, s"])
        shorter = copy_s < delete_s
        relations.append(
            Relation(
                f"{how}: {_COPY} takes less time than {_DELETE}",
                shorter,
                compared(f"{copy_s:.2f}", "<", f"{delete_s:.2f}", "s", holds=shorter)
                + ("" if shorter else _WHY),
            )
        )
        before_mb = float(deleted["file before, MB"])
        after_mb, optimized_mb = (float(deleted[f"file after {step}, MB"]) for step in ("delete", "optimize"))
        relations.append(
            Relation(
                f"{how}: the file shrinks only after OPTIMIZE",
                after_mb >= before_mb > optimized_mb,
                f"{before_mb:.0f} MB, after DELETE {after_mb:.0f}, after OPTIMIZE {optimized_mb:.0f}",
            )
        )
    return relations


def _phases(rows: int | None = None) -> Iterator[Phase]:
    first = Phase(
        "",
        (
            "wait_point=after_sync", "sync_binlog=1", "innodb_flush_log_at_trx_commit=1",
            "workload=update_index", "load_mode=closed", "clients=4", "rtt=2ms", "semi_sync_timeout=600s",
        ),
        full=Length(45),
        quick=Length(16),
        state=ProtectionState.OFF,
        shows="",
        play=partial(_play, rows=rows),
    )  # fmt: skip
    for semi in (False, True):
        for how, seconds in ((_COPY, 65.52), (_DELETE, 169.99)):
            yield replace(
                first,
                name=f"{'semi-sync' if semi else 'async'}: {how}",
                settings=(*first.settings, f"semi_sync={'on' if semi else 'off'}"),
                state=ProtectionState.PROTECTED if semi else ProtectionState.OFF,
                shows="copy what stays, then swap the tables" if how == _COPY else "delete, then rebuild",
                published=None if semi else Published(seconds, "s"),
            )


def archive_of(rows: int) -> Lab:
    """The lab with another number of rows."""
    return replace(ARCHIVE, phases=tuple(_phases(rows)))


ARCHIVE = Lab(
    name="archive",
    title="Deleting half of a big table under load",
    teaches="Copying what stays is faster than deleting what goes, and only a rebuild gives the space back.",
    source=Publication(
        "INSERT, Don't DELETE",
        "Aaron Brown",
        "https://blog.9minutesnooze.com",
        "a title table of 2,172,320 rows (572 MB), half of it to go: 65 s against 170 s",
    ),
    phases=tuple(_phases()),
    judge=_judge,
)
