"""archive: half of a big table goes, by copying what stays or by deleting the rest (docs/labs.md, after Aaron
Brown)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.asking import ask
from replexplorer.engine.experiment.foreground import foreground
from replexplorer.engine.experiment.labs.evidence import compared, protected
from replexplorer.engine.experiment.labs.lab import (
    Act,
    Lab,
    Length,
    Phase,
    Phases,
    Played,
    Publication,
    Published,
    Relation,
)
from replexplorer.engine.experiment.labs.title_table import (
    ALL_ROWS,
    DATABASE,
    DEADLINE_S,
    GONE,
    TABLE,
    fill,
)
from replexplorer.ports import Sql

_ROWS: Final = 200_000
_QUICK_ROWS: Final = 100_000
_KEPT: Final = "title > 'g'"
"""Titles up to 'g' go: half of them."""
_MB: Final = 1e6
_COPY, _DELETE = "INSERT + RENAME", "DELETE + OPTIMIZE"
_PUBLISHED: Final = {
    _COPY: {"copy": 65.18, "rename": 0.08, "drop": 0.26},
    _DELETE: {"delete": 86.27, "optimize": 83.72},
}
"""Seconds that each step took then."""
_FILE_BEFORE_MB, _FILE_AFTER_MB = 572, 304
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
                    f"CREATE TABLE {DATABASE}.title_new LIKE {TABLE}",
                    f"INSERT INTO {DATABASE}.title_new SELECT * FROM {TABLE} WHERE {_KEPT}",
                ),
            ),
            (
                "rename",
                (f"RENAME TABLE {TABLE} TO {DATABASE}.title_old, {DATABASE}.title_new TO {TABLE}",),
            ),
            ("drop", (f"DROP TABLE {DATABASE}.title_old",)),
        )
    return (
        ("delete", (f"DELETE FROM {TABLE} WHERE NOT ({_KEPT})",)),
        ("optimize", (f"OPTIMIZE TABLE {TABLE}",)),
    )


async def _play(act: Act, rows: int | None = None) -> Played:
    """Fill the table, then take half of it away beside the load; times, sizes, lag and what the load felt."""
    clock, sql = act.rig.clock, act.rig.sql(act.rig.seen.source)
    try:
        await _drop(sql)
        await fill(sql, rows or (_QUICK_ROWS if act.quick else _ROWS), act.tell)
        held = await _rows(sql)
        before_mb, binlog_before_mb = await _size_mb(act, sql), await _binlog_mb(act, sql)
        figures: dict[str, float | str] = {}
        async with foreground(act.rig) as felt:
            began_s = clock.monotonic()
            for step, statements in _statements(act.phase.name.partition(": ")[2]):
                act.tell(step, None)
                step_s = clock.monotonic()
                for statement in statements:
                    await sql.query(statement, deadline_s=DEADLINE_S)
                figures[f"{step}, s"] = clock.monotonic() - step_s
                figures[f"file after {step}, MB"] = await _size_mb(act, sql)
            took_s = clock.monotonic() - began_s
        figures["rows before"], figures["rows after"] = held, await _rows(sql)
        figures["in all, s"] = took_s
        figures["file before, MB"] = before_mb
        figures["a row in the file, bytes"] = before_mb * _MB / held
        figures["binlog, MB"] = await _binlog_mb(act, sql) - binlog_before_mb
        figures.update(felt.figures())
        return Played(figures, duration_s=took_s, rows=held)
    finally:
        await _drop(sql)
        await sql.close()


async def _drop(sql: Sql) -> None:
    for name in ("title", "title_new", "title_old"):
        await sql.query(f"DROP TABLE IF EXISTS {DATABASE}.{name}", deadline_s=DEADLINE_S)


async def _rows(sql: Sql) -> int:
    """Of the table."""
    [counted] = await sql.query(f"SELECT COUNT(*) AS held FROM {TABLE}", deadline_s=DEADLINE_S)
    return int(counted["held"])


async def _size_mb(act: Act, sql: Sql) -> float:
    """Of the table's file."""
    source = act.rig.dialect(act.rig.seen.source)
    database, table = TABLE.split(".")
    return await ask(sql, source.table_bytes(database, table), deadline_s=DEADLINE_S) / _MB


async def _binlog_mb(act: Act, sql: Sql) -> float:
    """Of all binlogs that are there."""
    source = act.rig.dialect(act.rig.seen.source)
    return sum(size for _, size in await ask(sql, source.binlogs(), deadline_s=DEADLINE_S)) / _MB


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
                ratio=copy_s / delete_s,
                most=1.0,
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
        for how, steps in _PUBLISHED.items():
            figures = {
                **{f"{step}, s": Published(seconds, "s", ALL_ROWS) for step, seconds in steps.items()},
                "file before, MB": Published(_FILE_BEFORE_MB, "MB", ALL_ROWS),
                "a row in the file, bytes": Published(round(_FILE_BEFORE_MB * _MB / ALL_ROWS), "bytes"),
                "rows before": Published(ALL_ROWS, "rows"),
                "rows after": Published(ALL_ROWS - GONE, "rows"),
            }
            if how == _DELETE:
                figures["file after optimize, MB"] = Published(_FILE_AFTER_MB, "MB", ALL_ROWS)
            yield replace(
                first,
                name=f"{'semi-sync' if semi else 'async'}: {how}",
                settings=(*first.settings, f"semi_sync={'on' if semi else 'off'}"),
                state=ProtectionState.PROTECTED if semi else ProtectionState.OFF,
                shows="copy what stays, then swap the tables" if how == _COPY else "delete, then rebuild",
                published=None if semi else Published(round(sum(steps.values()), 2), "s", ALL_ROWS),
                published_figures={} if semi else figures,
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
        "https://blog.9minutesnooze.com/insert-delete",
        "a title table of 2,172,320 rows (572 MB), half of it to go: 65 s against 170 s",
    ),
    phases=tuple(_phases()),
    judge=_judge,
)
