"""A load on servers that somebody else made: what may be asked for, how it is made, what is said of it."""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from replexplorer.cli.typed import positive, whole_number
from replexplorer.core.dialect.own_schema import SCHEMA
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.load.load_view import LoadView
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.load.workload import LEDGER, WORKLOADS
from replexplorer.core.server.counters import Sample, rates
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.visit import VisitingLoad
from replexplorer.formats.json.attach import AttachLoad
from replexplorer.ports import LoadSettings, LoadTarget

if TYPE_CHECKING:
    from replexplorer.adapters.attached.journal import ChangeJournal
    from replexplorer.adapters.attached.provider import AttachedProvider
    from replexplorer.cli.entry import Call
    from replexplorer.engine.session import Session

_MOST_TPS: Final = 5000.0
_MOST_CLIENTS: Final = 64
_MOST_ROWS: Final = 1_000_000
_CLIENTS: Final = 8
_ROWS: Final = 10_000
_WORKLOAD: Final = "update_index"
_OFFERED: Final = tuple(name for name in WORKLOADS if name != LEDGER)
_DETAILS: Final = ("workload", "clients", "table_size")
_LOOK_WITHIN_S: Final = 2.0
_GROWS_TO: Final = 100_000
"""Rows at which a table that grows is emptied."""


def load_arguments(parser: ArgumentParser) -> None:
    """What is typed after `attach`."""
    parser.add_argument(
        "--load",
        type=positive(_MOST_TPS),
        metavar="RATE",
        help=f"run a load of this many transactions a second and no more, in a schema of its own ({SCHEMA}), "
        "until this ends; then the schema is dropped",
    )
    parser.add_argument(
        "--workload", metavar="W", help=f"with --load, one of {', '.join(_OFFERED)}; default: {_WORKLOAD}"
    )
    parser.add_argument(
        "--clients",
        type=whole_number(1, _MOST_CLIENTS),
        metavar="N",
        help=f"connections of --load (default {_CLIENTS})",
    )
    parser.add_argument(
        "--table-size",
        type=whole_number(1, _MOST_ROWS),
        metavar="N",
        help=f"rows of the table of --load (default {_ROWS})",
    )


def check_load(args: Namespace) -> None:
    """Raise UsageError for what makes no sense, before anything is asked."""
    if args.load is None:
        if idle := [name for name in _DETAILS if getattr(args, name) is not None]:
            raise UsageError(f"--{idle[0].replace('_', '-')} is of a load", "add --load RATE")
        return
    if not args.allow_changes:
        raise UsageError(
            f"--load writes rows into a schema of its own ({SCHEMA}), at the source and all its replicas",
            "add --allow-changes; the schema is dropped at the end",
        )
    if args.workload is not None and args.workload not in _OFFERED:
        raise UsageError(
            f"--workload {args.workload} does not run on servers that `up` did not make",
            f"one of {', '.join(_OFFERED)}, which stay in the one schema",
        )


def settings_of(args: Namespace) -> LoadSettings:
    """The load that was asked for: an open loop that does not catch up after a stall."""
    return LoadSettings(
        clients=args.clients or _CLIENTS,
        workload=args.workload or _WORKLOAD,
        table_size=args.table_size or _ROWS,
        rows_bound=_GROWS_TO,
        mode=OPEN,
        rate_tps=args.load,
        catches_up=False,
    )


async def visiting_load(call: Call, servers: AttachedProvider, journal: ChangeJournal) -> VisitingLoad:
    """The load, where nothing is made or begun yet."""
    from replexplorer.adapters.attached.own_schema import make_schema
    from replexplorer.adapters.load_process import LoadChild

    source = (await servers.nodes())[0]
    url, login = servers.url(source.name), servers.login
    target = LoadTarget(
        url.host,
        url.port,
        url.user or login.user,
        login.password,
        "direct",
        database=SCHEMA,
        ssl_mode=login.mode_at(url.host),
        ssl_ca=login.ssl_ca,
    )

    async def make() -> None:
        sql = servers.connection(source)
        try:
            await make_schema(journal, sql)
        finally:
            await sql.close()

    return VisitingLoad(LoadChild, target, settings_of(call.args), make)


@dataclass(slots=True)
class LoadSeen:
    """A load that runs, and what is to be said of it at the end."""

    load: VisitingLoad
    replicas: list[str]
    server_tps: float | None = None
    """Commits a second of all clients, by the source's counters, while it ran."""

    def report(self) -> AttachLoad:
        """What it came to."""
        settings, total = self.load.settings, self.load.total
        response = None if total is None else total.response
        return AttachLoad(
            database=SCHEMA,
            replicates_to=self.replicas,
            workload=settings.workload,
            clients=settings.clients,
            table_size=settings.table_size,
            rate_asked_tps=settings.rate_tps,
            seconds=0.0 if total is None else round(total.duration_s, 3),
            commits=0 if total is None else total.commits,
            tps=None if total is None else round(total.tps, 1),
            server_tps=None if self.server_tps is None else round(self.server_tps, 1),
            response_p50_ms=None if response is None else response.percentile_ms(50),
            response_p95_ms=None if response is None else response.percentile_ms(95),
            response_p99_ms=None if response is None else response.percentile_ms(99),
            response_max_ms=None if response is None else response.max_ms,
            errors=0 if total is None else total.errors,
            unknown=0 if total is None else total.unknown,
            dropped=0 if total is None else total.dropped,
            ended=self.load.fault,
        )


@asynccontextmanager
async def loaded(
    call: Call, session: Session, servers: AttachedProvider, journal: ChangeJournal
) -> AsyncIterator[LoadSeen]:
    """Let the load run meanwhile; it has stopped when this ends, however it ends."""
    load = await visiting_load(call, servers, journal)
    load.on_end = call.console.warn
    names = [node.name for node in await servers.nodes()]
    seen = LoadSeen(load, names[1:])
    to = f", and what it writes goes to {', '.join(names[1:])} too" if names[1:] else ""
    call.console.narrate(f"making schema {SCHEMA} on {names[0]}{to}")
    before: Sample | None = None
    try:
        await load.start(lambda text, done: call.console.progress(text, done))
        call.console.narrate(
            f"load: {load.settings.workload}, at most {load.settings.rate_tps:g} transactions a second"
            f" from {load.settings.clients} clients"
        )
        await session.sight.refresh()
        before = _counters(session)
        yield seen
    finally:
        began_s = time.monotonic()
        await to_the_end(load.stop())
        with suppress(OSError):  # the terminal may be gone
            call.console.narrate(f"the load has stopped, after {time.monotonic() - began_s:.1f} s")
        if before is not None:
            seen.server_tps = await to_the_end(_counted_since(before, session))


def _counters(session: Session) -> Sample | None:
    """The source's counters as last looked at."""
    sample = session.sight.source_sample
    return None if sample is None else sample.counters


async def _counted_since(before: Sample, session: Session) -> float | None:
    """Commits a second of all clients at the source; None where it does not answer soon."""
    with suppress(ReplexplorerError, TimeoutError):
        async with asyncio.timeout(_LOOK_WITHIN_S):
            await session.sight.refresh()
        after = _counters(session)
        found = None if after is None else rates(before, after)
        return None if found is None else found.tps
    return None


def load_line(view: LoadView) -> str:
    """`load 49.8/50 TPS p50 2.1 p99 8.3 ms errors 0`, of its last second."""
    asked = f"{view.rate_asked_tps:g}" if view.rate_asked_tps is not None else "?"
    if view.tps is None or view.state != "running":
        return f"load {view.state}, {asked} TPS asked"
    p50, p99 = view.latency_ms("p50"), view.latency_ms("p99")
    told = "" if p50 is None or p99 is None else f" p50 {p50:.1f} p99 {p99:.1f} ms"
    return f"load {view.tps:.1f}/{asked} TPS{told} errors {view.errors + view.unknown}"


def render_load(report: AttachLoad) -> str:
    """What it came to, in two lines."""
    if report.tps is None:
        return f"load: nothing was measured{'' if report.ended is None else f' ({report.ended})'}"
    times = (report.response_p50_ms, report.response_p95_ms, report.response_p99_ms)
    spelled = "  ".join(
        f"{name} {'?' if value is None else f'{value:.1f}'}"
        for name, value in zip(("p50", "p95", "p99"), times, strict=True)
    )
    server = "?" if report.server_tps is None else f"{report.server_tps:.1f}"
    return (
        f"load    {report.tps:.1f} TPS of {report.rate_asked_tps:g} asked, {report.seconds:.0f} s;"
        f"  response {spelled} ms;  errors {report.errors}, unknown {report.unknown},"
        f" dropped {report.dropped}\n"
        f"server  {server} TPS of all its clients, by its own counters"
        + ("" if report.ended is None else f"\n{report.ended}")
    )
