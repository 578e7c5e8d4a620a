"""The verb `load`: a load in the foreground, a line a second, a report at the end."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from replexplorer.cli.load_report import IntervalLines, load_report, render
from replexplorer.cli.running import run_async
from replexplorer.cli.wiring import attached
from replexplorer.core.errors import UsageError
from replexplorer.core.interval import Interval
from replexplorer.core.knobs import BY_KEY, parse_value
from replexplorer.engine.measure import measure
from replexplorer.ports import LoadSettings

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


def run(call: Call) -> int:
    """Run the load; flags that were left out take the knobs, and no knob is changed."""
    for key in ("clients", "workload"):
        value = getattr(call.args, key)
        if value is not None:
            parse_value(BY_KEY[key], str(value))
    return run_async(_load(call))


async def _load(call: Call) -> int:
    args, console = call.args, call.console
    interval_s = args.duration / ceil(args.duration)
    lines = IntervalLines(args.warmup)

    def show(interval: Interval) -> None:
        if (line := lines.line(interval)) is not None:
            console.narrate(line)
        elif interval.state == "preparing":
            console.progress("preparing the table")

    async with attached(
        call, "load", beside=args.beside, table_size=args.table_size, tick_s=interval_s
    ) as session:
        wanted = session.load_settings()
        clients = args.clients if args.clients is not None else wanted.clients
        if clients < 1:
            raise UsageError("a load in the foreground needs a client", "give --clients N, or set clients=N")
        workload = str(parse_value(BY_KEY["workload"], args.workload or wanted.workload))
        console.progress("preparing the table")
        await session.drive(LoadSettings(clients, workload, wanted.table_size))
        target = await session.driving.target()
        measured = await measure(
            session.load,
            session.outside.clock,
            duration_s=args.duration,
            warmup_s=args.warmup,
            on_interval=show,
        )
    report = load_report(
        measured,
        workload=workload,
        clients=clients,
        path="direct" if target.path == "direct" else "published",
    )
    if console.json:
        console.document(report)
    else:
        console.print(render(report))
    return 0
