"""The verb `load`: a load in the foreground, a line a second, a report at the end."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from replexplorer.cli.arguments import add_json
from replexplorer.cli.output import Output, delivered
from replexplorer.cli.running import run_async
from replexplorer.cli.typed import positive, seconds, whole_number
from replexplorer.cli.wiring import attached
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.experiment.course import Course
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, parse_value
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import OPEN, POISSON
from replexplorer.core.load.places import places_text, read_places
from replexplorer.engine.foreground import Foreground
from replexplorer.formats.json.measured import Conditions
from replexplorer.formats.workload_file import read_workload
from replexplorer.ports import LoadSettings
from replexplorer.reports.conditions import again, conditions_of
from replexplorer.reports.load import Circumstances, IntervalLines, load_report, render

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.event import Event
    from replexplorer.core.loss.ledger import LossLedger
    from replexplorer.core.tick import Tick


_MOST_ROWS: Final = 100_000_000
"""As of the configuration's table_size."""


def _most(key: str) -> float:
    """The most that a knob takes."""
    return BY_KEY[key].maximum or float("inf")


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    parser.add_argument(
        "--clients",
        type=whole_number(1, int(_most(keys.CLIENTS))),
        metavar="N",
        help="connections; default: the value of the knob",
    )
    parser.add_argument(
        "--rate",
        type=positive(_most(keys.RATE)),
        metavar="R",
        help="open loop: this many transactions arrive per second (TPS), however fast the server answers",
    )
    parser.add_argument(
        "--arrivals",
        choices=("poisson", "even"),
        metavar="HOW",
        help="poisson (default) or even gaps; with --rate",
    )
    parser.add_argument(
        "--workload",
        metavar="W",
        help="sysbench's update_index, update_non_index, insert, write_only, read_write or point_select; "
        "employees, foo, ledger; or a file of SQL, one transaction per block; default: the value of the knob",
    )
    parser.add_argument(
        "--statements", action="store_true", help="latency of each class of statements as well"
    )
    parser.add_argument(
        "--duration", type=seconds(positive=True), default=10.0, metavar="S", help="seconds (default 10)"
    )
    parser.add_argument(
        "--warmup",
        type=seconds(positive=False),
        default=0.0,
        metavar="S",
        help="seconds before, not counted (default 0)",
    )
    parser.add_argument(
        "--table-size", type=whole_number(1, _MOST_ROWS), metavar="N", help="rows of the table"
    )
    parser.add_argument(
        "--processes",
        metavar="N|HOST=N,...",
        help="processes of the load's generator, or of a stack on several hosts how many on each; "
        "default: as many as the load is worth, beside the source",
    )
    parser.add_argument("--beside", action="store_true", help="run beside another driver of the stack's load")
    add_json(parser)


def run(call: Call) -> int:
    """Run the load; flags that were left out take the knobs, and no knob is changed."""
    args = call.args
    for key in (keys.CLIENTS, keys.RATE):
        value = getattr(args, key)
        if value is not None:
            parse_value(BY_KEY[key], f"{value:f}")  # without an exponent
    if args.processes is not None:
        read_places(args.processes)
    if args.arrivals is not None and args.rate is None:
        raise UsageError("--arrivals is for the open loop", "give --rate R with it")
    script = None
    if args.workload is not None and BY_KEY[keys.WORKLOAD].is_file(args.workload):
        script = read_workload(Path(args.workload))
    elif args.workload is not None:
        parse_value(BY_KEY[keys.WORKLOAD], args.workload)
    return run_async(_load(call, script))


def settings_of(args: Namespace, wanted: LoadSettings, script: str | None) -> LoadSettings:
    """The knobs' load with the flags' values; raises UsageError."""
    clients = args.clients if args.clients is not None else wanted.clients
    if clients < 1:
        raise UsageError("a load in the foreground needs a client", "give --clients N, or set clients=N")
    settings = replace(wanted, clients=clients, by_statement=args.statements)
    if args.processes is not None:
        settings = replace(settings, processes=read_places(args.processes))
        if len(settings.processes) > clients:
            raise UsageError(
                f"--processes {args.processes}: {len(settings.processes)} processes for {clients} client"
                f"{'s' * (clients > 1)}, and each needs one",
                "more --clients, or fewer processes",
            )
    if args.rate is not None:
        settings = replace(settings, mode=OPEN, rate_tps=args.rate, spacing=args.arrivals or POISSON)
    if args.workload is None:
        return settings
    workload = args.workload if script is not None else str(parse_value(BY_KEY[keys.WORKLOAD], args.workload))
    return replace(settings, workload=workload, script=script)


def command_of(args: Namespace, settings: LoadSettings) -> list[str]:
    """The command that runs the same load, whatever the knobs are."""
    words = ["replexplorer", "load", "--clients", str(settings.clients), "--workload", settings.workload]
    if settings.mode == OPEN:
        words += ["--rate", f"{settings.rate_tps:g}", "--arrivals", settings.spacing]
    if args.processes is not None:
        words += ["--processes", places_text(settings.processes)]
    words += ["--table-size", str(settings.table_size), "--duration", f"{args.duration:g}"]
    if args.warmup:
        words += ["--warmup", f"{args.warmup:g}"]
    return [*words, *(["--statements"] if args.statements else ())]


@dataclass(slots=True)
class _Witness:
    """What is seen of a load while it runs, for its report."""

    load: Foreground
    console: Output
    lines: IntervalLines
    course: Course = field(default_factory=Course)

    def show(self, interval: Interval) -> None:
        """An interval has come."""
        if (line := self.lines.line(interval)) is not None:
            self.console.narrate(line)
        elif interval.state == "preparing":
            self.console.progress("preparing the table")

    def hear(self, event: Event) -> None:
        """Something has happened."""
        if not self.load.is_its_end(event.text):  # that is raised, and told as the verb's error
            self.console.hear(event)

    def see(self, tick: Tick) -> None:
        """A look at everything."""
        self.course.add(tick)

    def circumstances(
        self, conditions: Conditions, command: Sequence[str], ended: str | None
    ) -> Circumstances:
        """All of it, for the report."""
        from_s, to_s = self.load.span_s
        return Circumstances(
            conditions=conditions,
            passage=self.course.between(from_s, to_s),
            from_s=from_s,
            started_wall_s=self.load.started_wall_s,
            covered_s=self.load.covered_s,
            again=again(conditions, command, varied=self.load.knobs()),
            interrupted=ended,
        )


async def _reckoned(load: Foreground, console: Output) -> LossLedger | None:
    """What became of each row, where the clients noted them; says why that cannot be known."""
    try:
        return await load.reckon()
    except ReplexplorerError as error:
        console.warn(f"the rows could not be compared with the client log: {error}")
        return None


async def _load(call: Call, script: str | None) -> int:
    args, console = call.args, call.console
    interval_s = args.duration / ceil(args.duration)
    ended: BaseException | None = None
    async with attached(
        call, "load", beside=args.beside, table_size=args.table_size, tick_s=interval_s, recorded=True
    ) as session:
        load = session.foreground()
        settings = settings_of(args, load.requested(), script)
        console.progress("preparing the table")
        seen = _Witness(load, console, IntervalLines(args.warmup, interval_s))
        async with session.observed(seen.hear, seen.see):
            await load.drive(settings, lambda done: console.progress("preparing the table", done))
            conditions = conditions_of(session, [settings.workload] if settings.script is not None else ())
            try:
                await load.measure(duration_s=args.duration, warmup_s=args.warmup, on_interval=seen.show)
            except (asyncio.CancelledError, ReplexplorerError) as error:
                if not load.measured.intervals:
                    raise
                ended = error  # what was measured until then is reported first
        ledger = None if isinstance(ended, asyncio.CancelledError) else await _reckoned(load, console)
        why = None if ended is None else (str(ended) or "interrupted")
        circumstances = seen.circumstances(conditions, command_of(args, settings), why)
    path: Literal["direct", "published"] = "direct" if load.path == "direct" else "published"
    report = load_report(
        load.measured,
        settings,
        path=path,
        anatomy=load.anatomy(),
        circumstances=circumstances,
        warmup_s=args.warmup,
        ledger=ledger,
        cost=load.cost,
        machine_percent=load.machine_percent,
    )
    code = delivered(console, report, partial(render, report))
    if ended is not None:
        raise ended
    return code
