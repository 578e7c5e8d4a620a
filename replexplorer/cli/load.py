"""The verb load: one in the foreground, measured and reported."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from dataclasses import replace
from math import ceil

from replexplorer.cli.arguments import check_without_stack
from replexplorer.cli.entry import Call
from replexplorer.cli.wiring import attached
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.event import Event
from replexplorer.core.experiment.drill_result import Course
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, Backing, parse_value
from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.core.load.pacing import OPEN, POISSON
from replexplorer.core.text import utc
from replexplorer.engine.experiment.stack_api import Findings
from replexplorer.formats.files import workload_file
from replexplorer.ports import LoadSettings
from replexplorer.reports.conditions import again, conditions_of
from replexplorer.reports.load import IntervalLines, load_report, render


async def load(call: Call) -> int:
    """Run the load; flags that were left out take the knobs, and no knob is changed."""
    args, console = call.args, call.console
    typed = {}
    for assignment in map(check_without_stack, args.assignments):
        knob = assignment.names[0].knob
        if knob.backing is not Backing.LOAD:
            remedy = f"`replexplorer set {knob.key}=...` first"
            raise UsageError(f"{knob.key} is not a knob of the load", remedy)
        typed[knob.key] = assignment.value
    for key in (keys.CLIENTS, keys.RATE, keys.WORKLOAD):
        if getattr(args, key) is None:
            setattr(args, key, typed.pop(key, None))
    for key in (keys.CLIENTS, keys.RATE):
        value = getattr(args, key)
        if value is not None:
            parse_value(BY_KEY[key], f"{value:f}")  # without an exponent
    if args.arrivals is not None and args.rate is None:
        raise UsageError("--arrivals is for the open loop", "give --rate R with it")
    script = None
    if args.workload is not None and BY_KEY[keys.WORKLOAD].is_file(args.workload):
        script = workload_file(args.workload)[1]
    elif args.workload is not None:
        parse_value(BY_KEY[keys.WORKLOAD], args.workload)
    interval_s = args.duration / ceil(args.duration)
    ended: BaseException | None = None
    options = {} if args.table_size is None else {"table_size": args.table_size}
    async with attached(
        call, "load", beside=args.share_load, tick_s=interval_s, recorded=True, **options
    ) as session:
        load, settings = session.load, settings_of(args, session.driving.settings(typed), script)
        console.progress("preparing the table")
        lines, course, measured = IntervalLines(args.warmup, interval_s), Course(), Measurement()
        found, ledger, clock = Findings(measured), None, session.outside.clock

        def show(interval: Interval) -> None:
            if (line := lines.line(interval)) is not None:
                console.narrate(line)
            elif interval.state == "preparing":
                console.progress("preparing the table")

        def hear(event: Event) -> None:
            if event.text not in (load.fault, load.lost):  # that is raised, and told as the verb's error
                console.hear(event)

        async with session.observed(hear, course.add):
            load.on_progress.append(lambda _, done=None: console.progress("preparing the table", done))
            await session.drive(settings)
            path = load.target.path if load.target is not None else "published"
            conditions = conditions_of(session, [settings.workload] if settings.script is not None else ())
            try:
                found = await session.rig.load.measure(
                    duration_s=args.duration,
                    from_s=clock.monotonic() + args.warmup if args.warmup else 0.0,
                    on_interval=show,
                    into=measured,
                )
            except (asyncio.CancelledError, ReplexplorerError) as error:
                if not measured.intervals:
                    raise
                ended = error  # what was measured until then is reported first
        if not isinstance(ended, asyncio.CancelledError) and load.settings and load.settings.ledger:
            try:
                ledger = await session.rig.count_losses(session.fleet.source_name)
            except ReplexplorerError as error:
                console.warn(f"the rows could not be compared with the client log: {error}")
    report = load_report(
        measured,
        settings,
        path="direct" if path == "direct" else "published",
        anatomy=found.anatomy,
        warmup_s=args.warmup,
        ledger=ledger,
        cost=found.cost,
        machine_percent=found.machine_percent,
        lag=found.lag,
    )
    first_s, last_s, began_s = (
        measured.intervals[0].start_s,
        measured.intervals[-1].end_s,
        session.event_log.began_s,
    )
    report.started, report.conditions = utc(clock.wall() - (clock.monotonic() - first_s)), conditions
    report.course = course.between(first_s - began_s, last_s - began_s)
    report.again = again(
        conditions,
        command_of(args, settings),
        varied=[key for key, knob in BY_KEY.items() if knob.backing is Backing.LOAD],
    )
    report.interrupted = None if ended is None else (str(ended) or "interrupted")
    console.deliver(report, lambda: render(report))
    if ended is not None:
        raise ended
    return 0


def settings_of(args: Namespace, wanted: LoadSettings, script: str | None) -> LoadSettings:
    """The knobs' load with the flags' values; raises UsageError."""
    clients = args.clients if args.clients is not None else wanted.clients
    if clients < 1:
        raise UsageError("a load in the foreground needs a client", "give clients=N with N from 1 on")
    settings = replace(wanted, clients=clients)
    if args.processes is not None:
        settings = replace(settings, processes=args.processes)
        if args.processes > clients:
            raise UsageError(
                f"--processes {args.processes} for {clients} client{'s' * (clients > 1)}, and each needs one",
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
        words += ["--processes", str(args.processes)]
    words += ["--table-size", str(settings.table_size), "--duration", f"{args.duration:g}"]
    if args.warmup:
        words += ["--warmup", f"{args.warmup:g}"]
    words += args.assignments
    return words
