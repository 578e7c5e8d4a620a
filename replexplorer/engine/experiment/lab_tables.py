"""Scripts of phases that work on a table: `archive`, `missing-key`, and `bulk-load` with a dump.

The table of `archive` is IMDB's titles as the article shows them, filled from a seed. Its two foreign keys
are left out: CREATE TABLE ... LIKE copies none, and a DELETE of episodes' parents would be refused by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from math import inf
from random import Random
from typing import Final

from replexplorer.core.dialect.schema import added_key
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.lab import Lab, PhaseResult
from replexplorer.core.load.interval import Measurement
from replexplorer.core.records import dataclass, field, replace
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.experiment.phase import Act
from replexplorer.engine.experiment.stack_api import StackApi
from replexplorer.engine.tasks import end_all
from replexplorer.ports import Reporter, Sql, ask, execute


@dataclass(slots=True)
class ForegroundFigures:
    """The load's figures, and how far the replicas fell behind."""

    load: Measurement = field(default_factory=Measurement)
    lag_s: float = 0.0
    """The largest of any replica."""

    def figures(self) -> Mapping[str, float | str]:
        """As a phase reports them, each name with its unit."""
        service = self.load.total.service
        p99_ms, max_ms = service.percentile_ms(99), service.max_ms
        return {
            "foreground, TPS": self.load.tps,
            "foreground p99, ms": "-" if p99_ms is None else p99_ms,
            "foreground max, ms": "-" if max_ms is None else max_ms,
            "largest replica lag, s": self.lag_s,
        }


@asynccontextmanager
async def foreground(stack: StackApi) -> AsyncIterator[ForegroundFigures]:
    """Let the load run and watch it and the replicas until the block ends and the replicas have caught up.

    Raises StackUnavailable at the block's end when the load ended meanwhile.
    """
    felt = ForegroundFigures()
    await stack.load.follow()
    watching = [
        asyncio.create_task(stack.load.measure(duration_s=inf, into=felt.load), name="foreground"),
        asyncio.create_task(_watch_lag(stack, felt), name="replica lag"),
    ]
    try:
        yield felt
        await stack.caught_up()
        for task in watching:
            if task.done():
                task.result()
    finally:
        await end_all(*watching)


async def _watch_lag(stack: StackApi, felt: ForegroundFigures) -> None:
    while True:
        seen = await stack.look()
        felt.lag_s = max(felt.lag_s, *(node.lag_s or 0.0 for node in seen.nodes))
        await stack.clock.sleep(_LOOK_S)


_LOOK_S: Final = 0.2
WITHIN_S: Final = 900.0
"""A statement on a table of this size, and a replica that searches the whole table for each row."""
_BATCH: Final = 1_000
_MB: Final = 1e6
_DATABASE: Final = "replexplorer"
_TITLE: Final = f"{_DATABASE}.title"
_ALL_ROWS: Final = 2_172_320
"""Of the article's table."""
_GONE: Final = 1_085_426
"""Those of them whose title is up to 'g'."""
_ROWS, _QUICK_ROWS = 200_000, 100_000
_TITLE_COLUMNS: Final = (
    "id INT NOT NULL AUTO_INCREMENT, title TEXT NOT NULL, imdb_index VARCHAR(12), kind_id INT NOT NULL, "
    "production_year INT, imdb_id INT, phonetic_code VARCHAR(5), episode_of_id INT, season_nr INT, "
    "episode_nr INT, series_years VARCHAR(49), md5sum VARCHAR(32), PRIMARY KEY (id), "
    "KEY idx_title (title(10)), KEY idx_pcode (phonetic_code), KEY idx_epof (episode_of_id), "
    "KEY idx_md5 (md5sum), KEY title_kind_id_exists (kind_id)"
)
_FILLED: Final = (
    "title, kind_id, production_year, imdb_id, phonetic_code, episode_of_id, season_nr, episode_nr, md5sum"
)
_KEPT: Final = "title > 'g'"
"""Titles up to 'g' go: half of them."""
_WAYS: Final[dict[str, dict[str, Sequence[str]]]] = {
    "INSERT + RENAME": {
        "copy": (
            f"CREATE TABLE {_DATABASE}.title_new LIKE {_TITLE}",
            f"INSERT INTO {_DATABASE}.title_new SELECT * FROM {_TITLE} WHERE {_KEPT}",
        ),
        "rename": (f"RENAME TABLE {_TITLE} TO {_DATABASE}.title_old, {_DATABASE}.title_new TO {_TITLE}",),
        "drop": (f"DROP TABLE {_DATABASE}.title_old",),
    },
    "DELETE + OPTIMIZE": {
        "delete": (f"DELETE FROM {_TITLE} WHERE NOT ({_KEPT})",),
        "optimize": (f"OPTIMIZE TABLE {_TITLE}",),
    },
}
"""The statements of each step, by the end of the phase's name."""


async def do(sql: Sql, *statements: str) -> None:
    """Run statements one after the other."""
    await execute(sql, statements, deadline_s=WITHIN_S)


async def _counted(sql: Sql, table: str) -> int:
    """Rows of a table."""
    [counted] = await sql.query(f"SELECT COUNT(*) AS held FROM {table}", deadline_s=WITHIN_S)
    return int(counted["held"])


async def archive(act: Act, rows: int | None = None) -> PhaseResult:
    """Fill the table, then remove half of it under load; times, sizes, lag and what the load felt."""
    clock, source = act.stack.clock, act.stack.seen.source
    sql, dialect = act.stack.sql(source), act.stack.dialect(source)
    drop = [f"DROP TABLE IF EXISTS {_DATABASE}.{name}" for name in ("title", "title_new", "title_old")]

    async def size_mb() -> float:
        return await ask(sql, dialect.table_bytes(_DATABASE, "title"), deadline_s=WITHIN_S) / _MB

    async def binlog_mb() -> float:
        return sum(size for _, size in await ask(sql, dialect.binlogs, deadline_s=WITHIN_S)) / _MB

    try:
        await do(sql, *drop)
        await _fill_titles(sql, rows or (_QUICK_ROWS if act.quick else _ROWS), act.tell)
        held, before_mb, binlog_before_mb = await _counted(sql, _TITLE), await size_mb(), await binlog_mb()
        figures: dict[str, float | str] = {}
        async with foreground(act.stack) as felt:
            began_s = clock.monotonic()
            for step, statements in _WAYS[act.phase.name.partition(": ")[2]].items():
                act.tell(step)
                step_s = clock.monotonic()
                await do(sql, *statements)
                figures[f"{step}, s"] = clock.monotonic() - step_s
                figures[f"file after {step}, MB"] = await size_mb()
            took_s = clock.monotonic() - began_s
        figures |= {
            "rows before": held,
            "rows after": await _counted(sql, _TITLE),
            "in all, s": took_s,
            "file before, MB": before_mb,
            "a row in the file, bytes": before_mb * _MB / held,
            "binlog, MB": await binlog_mb() - binlog_before_mb,
        }
        return PhaseResult(act.phase, figures={**figures, **felt.figures()}, duration_s=took_s, rows=held)
    finally:
        await do(sql, *drop)
        await sql.close()


async def _fill_titles(sql: Sql, rows: int, tell: Reporter) -> None:
    """Create the table with this many rows, always the same; as large a share of the titles as the article's
    is up to 'g'."""
    await do(sql, f"CREATE TABLE {_TITLE} ({_TITLE_COLUMNS}) ENGINE=InnoDB DEFAULT CHARSET=latin1")
    random = Random(1)
    for first in range(0, rows, _BATCH):
        tell("filling the table", first / rows)
        values = ",".join(_title(random) for _ in range(min(_BATCH, rows - first)))
        await do(sql, f"INSERT INTO {_TITLE} ({_FILLED}) VALUES {values}")


def _title(random: Random) -> str:
    goes = random.random() < _GONE / _ALL_ROWS
    first = random.choice("abcdef") if goes else random.choice("ghijklmnopqrstuvwxyz")
    words = " ".join(
        "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(4)
    )
    code = random.choice("ABCDEFGH") + str(random.randint(100, 9999))
    return (
        f"('{first}{words}',{random.randint(1, 7)},{random.randint(1890, 2012)},{random.randrange(10**7)},"
        f"'{code}',{random.randint(1, _ALL_ROWS)},{random.randint(1, 20)},{random.randint(1, 30)},"
        f"'{random.getrandbits(128):032x}')"
    )


def archive_of(lab: Lab, rows: int) -> Lab:
    """The lab `archive` with another number of rows."""
    play = partial(archive, rows=rows)
    return replace(lab, phases=tuple(replace(phase, play=play) for phase in lab.phases))


_VISITS: Final = f"{_DATABASE}.visits"
_NOTE_BYTES: Final = 2_000
"""With it an event of the binlog, which is about 8 KB, carries four rows."""
_EVERY: Final = 5
"""Every fifth row is deleted."""
_VISIT_COLUMNS: Final = (
    "visitor INT NOT NULL, page INT NOT NULL, seen DATETIME(6) NOT NULL,"
    f" note VARCHAR({_NOTE_BYTES}) NOT NULL"
)
_VISIT_KEYS: Final = {
    "no key, one index": f"{_VISIT_COLUMNS}, KEY by_page (page)",
    "primary key": f"id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, {_VISIT_COLUMNS}",
}
"""How the table is made in a phase, where it is not without any key."""


async def missing_key(act: Act) -> PhaseResult:
    """Fill the table, delete a fifth of it by one statement, and wait for what comes after on the replica."""
    stack, rows = act.stack, 10_000 if act.quick else 20_000
    name = stack.seen.replicas[0]
    source, replica = stack.sql(stack.seen.source), stack.sql(name)

    async def until_applied() -> None:
        if not await stack.caught_up(WITHIN_S, [name]):
            raise StackUnavailable(
                f"{name} did not apply it within {WITHIN_S:g} s", "see `replexplorer status`"
            )

    try:
        act.tell("filling the table")
        await _fill_visits(source, act.phase.name, rows)
        await until_applied()
        act.tell("deleting")
        began_s = stack.clock.monotonic()
        await do(source, f"DELETE FROM {_VISITS} WHERE visitor % {_EVERY} = 0")
        done_s = stack.clock.monotonic()
        act.tell("the replica applies it")
        await until_applied()
        applied_s = stack.clock.monotonic() - done_s
        figures = {
            "on the source, s": done_s - began_s,
            "then on the replica, s": applied_s,
            "as long as on the source": applied_s / (done_s - began_s),
            "rows left on the source": await _counted(source, _VISITS),
            "rows left on the replica": await _counted(replica, _VISITS),
        }
        return PhaseResult(act.phase, figures=figures, duration_s=applied_s, rows=rows // _EVERY)
    finally:
        await do(source, f"DROP TABLE IF EXISTS {_VISITS}")
        await asyncio.gather(source.close(), replica.close())


async def _fill_visits(sql: Sql, phase: str, rows: int) -> None:
    """The table of this phase with all its rows."""
    columns = _VISIT_KEYS.get(phase, _VISIT_COLUMNS)
    await do(sql, f"DROP TABLE IF EXISTS {_VISITS}", f"CREATE TABLE {_VISITS} ({columns}) ENGINE=InnoDB")
    for first in range(0, rows, _BATCH):
        values = ",".join(
            f"({number}, {number % 50}, NOW(6), REPEAT('v', {_NOTE_BYTES}))"
            for number in range(first, min(rows, first + _BATCH))
        )
        await do(sql, f"INSERT INTO {_VISITS} (visitor, page, seen, note) VALUES {values}")
    if phase == "a key added, invisible":
        await do(sql, added_key(*_VISITS.split(".")))


_DUMP: Final = f"{_DATABASE}.employees_dump"
_DUMP_COLUMNS: Final = (
    "emp_no INT NOT NULL, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL, "
    "last_name VARCHAR(16) NOT NULL, gender ENUM('M','F') NOT NULL, hire_date DATE NOT NULL, "
    "PRIMARY KEY (emp_no)"
)
_TELL_EVERY: Final = 100


def bulk_load_of(lab: Lab, rows: Callable[[], Iterator[str]]) -> Lab:
    """The lab `bulk-load` with the rows of a dump, `(10001,'1953-09-02',...)` each, inserted by one session
    of its own; each phase begins at the dump's first row, and in full mode those of all rows load the whole
    dump."""
    play = partial(_insert, rows=rows)
    first, *others = (replace(phase, play=play) for phase in lab.phases)
    # The load rests: the dump is the only one that inserts.
    first = replace(first, settings=(*first.settings, "clients=0"))
    return replace(lab, phases=(first, *others))


async def _insert(act: Act, rows: Callable[[], Iterator[str]]) -> PhaseResult:
    """Single-row INSERTs, one commit each, through one session."""
    commits = act.phase.length(quick=act.quick).commits or 1
    whole = act.phase.name.startswith("all rows") and not act.quick
    clock, service, sql = act.stack.clock, Histogram(), act.stack.sql(act.stack.seen.source)
    drop = f"DROP TABLE IF EXISTS {_DUMP}"
    try:
        await do(sql, drop, f"CREATE TABLE {_DUMP} ({_DUMP_COLUMNS}) ENGINE=InnoDB")
        began_s = before_s = clock.monotonic()
        for number, row in enumerate(islice(rows(), None if whole else commits)):
            await do(sql, f"INSERT INTO {_DUMP} VALUES {row}")
            now_s = clock.monotonic()
            service.record(round((now_s - before_s) * 1e6))
            before_s = now_s
            if number % _TELL_EVERY == 0:
                pace = f"{number:,} rows, {number / max(now_s - began_s, 1e-3):,.0f} a second"
                act.tell(pace, min(1.0, number / commits))
    finally:
        await do(sql, drop)
        await sql.close()
    return PhaseResult(act.phase, service=service, duration_s=before_s - began_s)
