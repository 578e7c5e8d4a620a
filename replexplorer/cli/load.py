"""The verb `load`: a load in the foreground, a line a second, a report at the end."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from replexplorer.cli.load_report import IntervalLines, load_report, render
from replexplorer.cli.running import run_async
from replexplorer.cli.wiring import attached
from replexplorer.config.small_file import read_text
from replexplorer.core.errors import UsageError
from replexplorer.core.interval import Interval
from replexplorer.core.knobs import BY_KEY, parse_value
from replexplorer.core.pacing import OPEN, POISSON
from replexplorer.core.script import LARGEST_BYTES, read_script
from replexplorer.engine.measure import measure
from replexplorer.engine.stretch import Gathering
from replexplorer.ports import LoadSettings

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.tick import Event

_SUFFIX = ".sql"


def run(call: Call) -> int:
    """Run the load; flags that were left out take the knobs, and no knob is changed."""
    args = call.args
    for key in ("clients", "rate"):
        value = getattr(args, key)
        if value is not None:
            parse_value(BY_KEY[key], f"{value:f}")  # without an exponent
    if args.arrivals is not None and args.rate is None:
        raise UsageError("--arrivals is for the open loop", "give --rate R with it")
    script = None
    if args.workload is not None and is_file(args.workload):
        script = read_file(Path(args.workload))
    elif args.workload is not None:
        parse_value(BY_KEY["workload"], args.workload)
    return run_async(_load(call, script))


def is_file(workload: str) -> bool:
    """Whether a user's file is meant: a path, or something that ends with `.sql`."""
    return "/" in workload or workload.endswith(_SUFFIX)


def read_file(path: Path) -> str:
    """The text of a user's workload, checked; raises UsageError naming file and line."""
    text = read_text(path, "workload", LARGEST_BYTES)
    read_script(text, str(path))
    return text


def settings_of(args: Namespace, wanted: LoadSettings, script: str | None) -> LoadSettings:
    """The knobs' load with the flags' values; raises UsageError."""
    clients = args.clients if args.clients is not None else wanted.clients
    if clients < 1:
        raise UsageError("a load in the foreground needs a client", "give --clients N, or set clients=N")
    settings = replace(wanted, clients=clients, by_statement=args.statements)
    if args.rate is not None:
        settings = replace(settings, mode=OPEN, rate_tps=args.rate, spacing=args.arrivals or POISSON)
    if script is not None:
        return replace(settings, workload=args.workload, script=script)
    return replace(settings, workload=str(parse_value(BY_KEY["workload"], args.workload or wanted.workload)))


async def _load(call: Call, script: str | None) -> int:
    args, console = call.args, call.console
    interval_s = args.duration / ceil(args.duration)
    lines = IntervalLines(args.warmup, interval_s)
    gathering = Gathering()

    def show(interval: Interval) -> None:
        if (line := lines.line(interval)) is not None:
            console.narrate(line)
            newest, since_s = session.controls.lookback.newest, session.chronicle.unchanged_since_s
            gathering.add(interval, newest, since_s)
        elif interval.state == "preparing":
            console.progress("preparing the table")

    def hear(event: Event) -> None:
        if event.text != session.load.fault:  # that is raised, and told as the verb's error
            console.hear(event)

    async with attached(
        call, "load", beside=args.beside, table_size=args.table_size, tick_s=interval_s, recorded=True
    ) as session:
        settings = settings_of(args, session.load_settings(), script)
        console.progress("preparing the table")
        session.load.on_progress = lambda _, done: console.progress("preparing the table", done)
        async with session.observed(hear):
            await session.drive(settings)
            target = await session.driving.target()
            measured = await measure(
                session.load,
                session.outside.clock,
                duration_s=args.duration,
                warmup_s=args.warmup,
                on_interval=show,
            )
    path: Literal["direct", "published"] = "direct" if target.path == "direct" else "published"
    report = load_report(measured, settings, path=path, anatomy=gathering.anatomy())
    if console.json:
        console.document(report)
    else:
        console.print(render(report))
    return 0
