"""The verb attach: servers that somebody else made, watched, or changed for as long as it runs."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from replexplorer.cli.arguments import add_json
from replexplorer.cli.guest import ask_for_the_name, begin_journal, lacking, undo_all
from replexplorer.cli.guest_load import LoadSeen, check_load, load_arguments, load_line, loaded, render_load
from replexplorer.cli.knobs import check_without_stack
from replexplorer.cli.render import losses_shortly, render_set
from replexplorer.cli.revert import narrate_undone, undone_json
from replexplorer.cli.running import run_async
from replexplorer.cli.server_login import Known, known_login, login_arguments
from replexplorer.cli.stack import print_status, status_of
from replexplorer.cli.typed import seconds
from replexplorer.cli.wiring import HostClock, load_configuration_of, outside_of_attached
from replexplorer.core.change.journalled import Fate, TakenBack
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.server.counters import rates
from replexplorer.core.server.state_words import word_of
from replexplorer.engine.console import Turn
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.outcome import RolledBack
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.formats.json.attach import AttachChanges, AttachGrants, GrantNeed
from replexplorer.formats.json.set import SetReport
from replexplorer.formats.json.status import Status
from replexplorer.formats.server_url import parse_server_url
from replexplorer.reports.documents import set_report

if TYPE_CHECKING:
    from replexplorer.adapters.attached.journal import ChangeJournal
    from replexplorer.adapters.attached.provider import AttachedProvider
    from replexplorer.cli.entry import Call

_LOOK_EVERY_S: Final = 1.0


def run_arguments(parser: ArgumentParser) -> None:
    """Which servers, how one logs in, and what may be done."""
    parser.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="the source, as mysql://USER@HOST:PORT; without it MYSQL_DSN or an option file says which",
    )
    parser.add_argument(
        "--replica",
        action="append",
        default=[],
        metavar="URL",
        help="a replica; without any, they are found by what the source says of them",
    )
    login_arguments(parser)
    parser.add_argument(
        "--watch", action="store_true", help="a line a second: protection, TPS, lag, what would be lost"
    )
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="let the dashboard or --set change settings, until this ends",
    )
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="change these, keep them so until Ctrl-C (or --for), then undo all of it",
    )
    load_arguments(parser)
    parser.add_argument(
        "--for",
        dest="for_s",
        type=seconds(positive=True),
        metavar="DURATION",
        help="end, and undo, after 10min, 30s, ...",
    )
    parser.add_argument(
        "--grants",
        action="store_true",
        help="the grants that are needed for what, and what the account lacks",
    )
    add_json(parser)


def run(call: Call) -> int:
    """Open the dashboard on a terminal; else print, watch, or change for a while."""
    from replexplorer.cli.visit import dashboard, is_wanted

    args = call.args
    if args.set and not args.allow_changes:
        raise UsageError(
            "--set changes the servers' settings", "add --allow-changes; they are undone at the end"
        )
    check_load(args)
    shows = is_wanted(call)
    works = bool(args.set) or args.load is not None
    if args.allow_changes and not works and not shows:
        raise UsageError(
            "--allow-changes changes nothing by itself",
            "add --set KEY=VALUE ... or --load RATE, or run it on a terminal, where the dashboard turns"
            " settings",
        )
    if args.for_s is not None and not (works or args.watch or shows):
        raise UsageError("--for says how long --set, --load or --watch lasts", "add one of them")
    if args.json and args.watch:
        raise UsageError("--watch prints lines, --json one document", "leave one of them out")
    for text in args.set:
        check_without_stack(text)
    replicas = [parse_server_url(text) for text in args.replica]
    values = load_configuration_of(call).values
    known = known_login(args, call.console)
    from replexplorer.adapters.attached.provider import AttachedProvider

    servers = AttachedProvider(known.source, replicas, known.login, HostClock(), writes=args.allow_changes)
    if shows:
        return dashboard(call, servers, known)
    if args.grants:
        return run_async(_grants(call, servers))
    if works:
        return run_async(_change(call, servers, known, values.attach_allowed))
    return run_async(watch(call, servers))


# -- watching


@asynccontextmanager
async def _session(
    call: Call, servers: AttachedProvider, journal: ChangeJournal | None = None
) -> AsyncIterator[Session]:
    """A session on these servers that has looked at them once."""
    call.console.progress(f"connecting to {servers.name}")
    await servers.nodes()
    for line in (*await lacking(servers), *servers.warnings):
        call.console.warn(line)
    holder = "attach"
    session = Session(outside_of_attached(servers, journal), SessionOptions(holder=holder, reapply="off"))
    session.narrate = call.console.narrate
    try:
        await session.attach()
        yield session
    finally:
        await asyncio.shield(session.disconnect())


async def watch(call: Call, servers: AttachedProvider) -> int:
    """Print the state once, or a line a second; exit code 4 when a server is down."""
    async with _session(call, servers) as session:
        if call.args.watch:
            await _lines(call, session, call.args.for_s)
            return 0
        document = await status_of(session, patient=True)
    for knob in document.knobs.values():
        knob.requested = None  # nobody asked anything of these servers
    print_status(call, document, mends=False)
    silent = [node.name for node in document.nodes if not node.reachable]
    if silent:
        call.console.narrate(f"down: {', '.join(silent)}")
    return StackUnavailable.exit_code if silent else 0


async def _lines(call: Call, session: Session, for_s: float | None, seen: LoadSeen | None = None) -> None:
    """A line a second, to the end of the time where there is one."""
    began_s = time.monotonic()
    while for_s is None or time.monotonic() - began_s < for_s:
        looked_s = time.monotonic()
        document = await status_of(session, patient=True)
        line = _line(looked_s - began_s, document, _tps(session))
        call.console.print(line if seen is None else f"{line}  {load_line(seen.load.view())}")
        await asyncio.sleep(max(0.0, looked_s + _LOOK_EVERY_S - time.monotonic()))


def _tps(session: Session) -> float | None:
    """Commits a second between the last two looks at the source."""
    before, after = session.sight.source_sample_before, session.sight.source_sample
    if before is None or after is None:
        return None
    found = rates(before.counters, after.counters)
    return None if found is None else found.tps


def _line(at_s: float, status: Status, tps: float | None) -> str:
    """`[ 12s ] PROTECTED 1/1  tps 340.0  lag db2 0 s  would lose: dies 0, cut 3, lost 0`."""
    protection = status.protection
    acking = "" if protection.replicas_acking is None else f" {protection.replicas_acking}"
    required = "" if not acking else f"/{protection.replicas_required}"
    parts = [f"[ {at_s:.0f}s ] {word_of(protection.state)}{acking}{required}"]
    parts.append(f"tps {'?' if tps is None else f'{tps:.1f}'}")
    for node in status.nodes:
        if not node.is_source:
            lag = "down" if not node.reachable else "?" if node.lag_s is None else f"{node.lag_s:g} s"
            parts.append(f"lag {node.name} {lag}")
    dies, cut, lost = losses_shortly(status.exposure)
    parts.append(f"would lose: dies {dies}, cut {cut}, lost {lost}")
    return "  ".join(parts)


# -- changing


async def _change(call: Call, servers: AttachedProvider, known: Known, allowed: tuple[str, ...]) -> int:
    await ask_for_the_name(call, servers, allowed)
    journal = await begin_journal(servers, known)
    undone: Sequence[TakenBack] = ()
    report: SetReport | None = None
    seen: LoadSeen | None = None
    try:
        async with _session(call, servers, journal) as session:
            report = await _turn(call, session) if call.args.set else None
            async with AsyncExitStack() as stack:
                if call.args.load is not None:
                    seen = await stack.enter_async_context(loaded(call, session, servers, journal))
                await _hold(call, session, 0 if report is None else len(report.changed), seen)
    except RolledBack as error:
        call.console.fail(error, changed=[], warnings=[], rolled_back=error.complete)
        return error.exit_code
    finally:
        undone = await to_the_end(_undo(servers, journal))
        with contextlib.suppress(OSError):  # the terminal may be gone, and what was to be done is done
            narrate_undone(call.console, servers.name, undone)
            load = None if seen is None else seen.report()
            if call.console.json and (report is not None or load is not None):
                rows = [undone_json(each) for each in undone]
                call.console.document(AttachChanges(source=servers.name, set=report, load=load, undone=rows))
            elif load is not None:
                call.console.print(render_load(load))
    fails = any(each.fate is Fate.UNREACHED for each in undone) or (seen is not None and seen.load.fault)
    return StackUnavailable.exit_code if fails else 0


async def _turn(call: Call, session: Session) -> SetReport:
    """Set what is asked, all or nothing, and say what it was."""
    began_s = time.monotonic()
    assignments = tuple(session.console.parse(text) for text in call.args.set)
    result = await session.console.do(Turn(assignments))
    report = set_report(result, session.roster.source, (time.monotonic() - began_s) * 1000)
    for warning in report.warnings:
        call.console.warn(warning)
    if not call.console.json:
        call.console.print(render_set(report, [str(name) for name in result.unchanged]))
    return report


async def _hold(call: Call, session: Session, changes: int, seen: LoadSeen | None) -> None:
    """Keep things as they are until it is time, or somebody ends it."""
    for_s = call.args.for_s
    until = "at Ctrl-C" if for_s is None else f"after {for_s:g} s, or at Ctrl-C"
    if changes:
        settings = "1 setting is" if changes == 1 else f"{changes} settings are"
        undoes = "Ctrl-C undoes them" if for_s is None else f"they are undone {until}"
        call.console.narrate(f"{settings} in force: {undoes}")
    if seen is not None:
        call.console.narrate(f"the load runs: it is stopped, and its schema dropped, {until}")
    if call.args.watch:
        await _lines(call, session, for_s, seen)
    else:
        await _tell_silence(call, session, math.inf if for_s is None else time.monotonic() + for_s)


async def _tell_silence(call: Call, session: Session, ends_s: float) -> None:
    """Say of each server that it does not answer any more, and that it does again, until this time."""
    silent: set[str] = set()
    while (left_s := ends_s - time.monotonic()) > 0:
        await asyncio.sleep(min(_LOOK_EVERY_S, left_s))
        await session.sight.refresh()
        now = {view.name for view in session.sight.node_views() if not view.reachable}
        for name in sorted(now - silent):
            call.console.warn(f"{name} is down: no login succeeds")
        for name in sorted(silent - now):
            call.console.narrate(f"{name} answers again")
        silent = now


async def _undo(servers: AttachedProvider, journal: ChangeJournal) -> Sequence[TakenBack]:
    try:
        return await undo_all(servers, journal)
    finally:
        journal.close()


# -- grants


async def _grants(call: Call, servers: AttachedProvider) -> int:
    from replexplorer.core.dialect.grants import needed

    found = await servers.account()
    needs = needed(found.server, found.account, found.grants)
    if call.console.json:
        rows: list[dict[str, Any]] = [
            {
                "purpose": each.need.purpose,
                "privileges": list(each.need.privileges),
                "statement": each.statement,
                "lacking": list(each.lacking),
            }
            for each in needs
        ]
        call.console.document(
            AttachGrants(
                source=servers.name,
                account=found.account,
                server=found.server.title,
                needs=[GrantNeed(**row) for row in rows],
            )
        )
        return 0
    for purpose in dict.fromkeys(each.need.purpose for each in needs):
        call.console.print(f"-- {purpose}")
        for each in needs:
            if each.need.purpose == purpose:
                lacks = f"  -- lacks {', '.join(each.lacking)}" if each.lacking else ""
                call.console.print(each.statement + lacks)
    lacking = any(each.lacking for each in needs)
    call.console.narrate(
        f"{found.account} at {servers.name} ({found.server.title}) "
        + ("lacks some of it" if lacking else "has all of it")
    )
    return 0
