"""The verbs attach and revert: servers that somebody else made, watched, or changed for as long as attach
runs; revert undoes what one left that was killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from replexplorer.cli.dashboard import settings_of, shown
from replexplorer.cli.documents import AttachChanges, Reverted, RevertReport
from replexplorer.cli.knobs import check_without_stack
from replexplorer.cli.render import losses_shortly, render_set
from replexplorer.cli.running import can_ask, run_async, typed
from replexplorer.cli.server_login import Known, known_login
from replexplorer.cli.stack import print_status
from replexplorer.cli.wiring import load_configuration_of, outside_of_attached
from replexplorer.core.change.journalled import Fate, TakenBack
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.server.counters import rates
from replexplorer.core.server.protection import word_of
from replexplorer.core.text import table
from replexplorer.engine.outcome import RolledBack, SetResult, Status
from replexplorer.engine.session import Session, SessionOptions, Spectator
from replexplorer.engine.tasks import to_the_end
from replexplorer.formats import paths
from replexplorer.formats.server_url import ServerUrl, parse_server_url

if TYPE_CHECKING:
    from replexplorer.adapters.attached.changes import ChangeJournal
    from replexplorer.adapters.attached.provider import AttachedProvider
    from replexplorer.cli.entry import Call
    from replexplorer.cli.output import Output
    from replexplorer.ports import Sql

_LOOK_EVERY_S: Final = 1.0
_UNDONE_WITHIN_S: Final = 20.0
"""How long restoring the settings may take after the terminal is gone; what is left by then stays in the
journal."""
_LOGIN_FLAGS: Final = ("ssl_mode", "defaults_file", "ssl_ca")
"""What the journal keeps of how one logged in; never a password."""


def attach(call: Call) -> int:
    """Open the dashboard on a terminal; else print, watch, or change for a while."""
    args = call.args
    if args.set and not args.allow_changes:
        raise UsageError(
            "--set changes the servers' settings", "add --allow-changes; they are undone at the end"
        )
    shows = is_wanted(call)
    if args.allow_changes and not args.set and not shows:
        raise UsageError(
            "--allow-changes changes nothing by itself",
            "add --set KEY=VALUE ..., or run it on a terminal, where the dashboard changes settings",
        )
    if args.for_s is not None and not (args.set or args.watch or shows):
        raise UsageError("--for says how long --set or --watch lasts", "add one of them")
    if args.json and args.watch:
        raise UsageError("--watch prints lines, --json one document", "leave one of them out")
    for text in args.set:
        check_without_stack(text)
    replicas = [parse_server_url(text) for text in args.replica]
    values = load_configuration_of(call).values
    known = known_login(args, call.console)
    from replexplorer.adapters.attached.provider import AttachedProvider

    servers = AttachedProvider(known.source, replicas, known.login, writes=args.allow_changes)
    if shows:
        return _dashboard(call, servers)
    if args.set:
        return run_async(_change(call, servers, values.attach_allowed))
    return run_async(watch(call, servers))


def is_wanted(call: Call) -> bool:
    """Whether `attach` opens the dashboard: on a terminal, unless lines or a document are asked for."""
    args = call.args
    return not (args.watch or args.json or args.set) and sys.stdout.isatty() and sys.stdin.isatty()


async def _found(call: Call, servers: AttachedProvider) -> tuple[str, ...]:
    """Find the servers; returns what is to be said of them."""
    call.console.progress(f"connecting to {servers.name}")
    await servers.nodes()
    return tuple(servers.warnings)


def _dashboard(call: Call, servers: AttachedProvider) -> int:
    """Run the dashboard until it is quit, or its time is over; what was changed is undone then."""
    loaded = load_configuration_of(call)
    notices = asyncio.run(_found(call, servers))
    settings = settings_of(loaded)
    settings = replace(
        settings,
        stack=servers.name,
        visits=True,
        ends_after_s=call.args.for_s,
        notices=(*settings.notices, *notices),
        close_deadline_s=_UNDONE_WITHIN_S,
    )
    if not call.args.allow_changes:
        return shown(call, Spectator(outside_of_attached(servers, None)), settings, "the dashboard")
    asyncio.run(ask_for_the_name(call, servers.name, loaded.values.attach_allowed))
    changes = _Changes(servers, asyncio.run(_begin_journal(call, servers)))
    session = Session(
        outside_of_attached(servers, changes.journal),
        SessionOptions(holder="attach", reapply="off", at_close=changes.undo),
    )
    try:
        code = shown(call, session, settings, "the dashboard")
    finally:
        undone = asyncio.run(changes.undo())
        changes.journal.close()
        narrate_undone(call.console, servers.name, undone)
    return _code(undone) or code


# -- watching


@asynccontextmanager
async def _session(
    call: Call, servers: AttachedProvider, journal: ChangeJournal | None = None
) -> AsyncIterator[Session]:
    """A session on these servers that has looked at them once."""
    for line in await _found(call, servers):
        call.console.warn(line)
    session = Session(outside_of_attached(servers, journal), SessionOptions(holder="attach", reapply="off"))
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
        document = await session.status(patient=True)
    print_status(call, replace(document, is_ours=False), mends=False)
    silent = [node.name for node in document.nodes if not node.reachable]
    if silent:
        call.console.narrate(f"down: {', '.join(silent)}")
    return StackUnavailable.exit_code if silent else 0


async def _lines(call: Call, session: Session, for_s: float | None) -> None:
    """A line a second, to the end of the time where there is one."""
    began_s = time.monotonic()
    while for_s is None or time.monotonic() - began_s < for_s:
        looked_s = time.monotonic()
        document = await session.status(patient=True)
        before, after = session.sight.source_sample_before, session.sight.source_sample
        counted = None if before is None or after is None else rates(before.counters, after.counters)
        tps = None if counted is None else counted.tps
        call.console.print(_line(looked_s - began_s, document, tps))
        await asyncio.sleep(max(0.0, looked_s + _LOOK_EVERY_S - time.monotonic()))


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


class _Changes:
    """What was changed on these servers, until it was undone, once."""

    def __init__(self, servers: AttachedProvider, journal: ChangeJournal) -> None:
        self.journal = journal
        self._servers = servers
        self._undone: Sequence[TakenBack] | None = None

    async def undo(self) -> Sequence[TakenBack]:
        """Undo all, on connections of their own: those of a session may be in the middle of something.
        Returns what became of each; what could not be undone stays in the journal."""
        from replexplorer.adapters.attached.changes import undo

        if self._undone is None:
            nodes = {node.name: node for node in await self._servers.nodes()}
            self._undone = await undo(self.journal, lambda name: self._servers.connection(nodes[name]))
        return self._undone


async def ask_for_the_name(call: Call, source: str, allowed: tuple[str, ...]) -> None:
    """Let the name of a source be typed that may be in use; raises StackUnavailable where it is not."""
    if source in allowed:
        return
    why = f"{source} is not among `attach_allowed` in the configuration"
    if not can_ask(call.console):
        raise StackUnavailable(
            f"{why}: its name has to be typed",
            f'attach_allowed = ["{source}"] in the configuration, where nobody depends on it',
        )
    call.console.narrate(f"{why}. Its settings are about to be changed, and every client feels it.")
    if await typed(call.console, f"Type {source} to go on:") != source:
        raise StackUnavailable("that is not its name: nothing was changed", "try again")


async def _begin_journal(call: Call, servers: AttachedProvider) -> ChangeJournal:
    """The journal of these servers, begun. Raises StackUnavailable where a killed one left something."""
    from replexplorer.adapters.attached.changes import VERSION, ChangeJournal, file_of

    urls = {node.name: servers.url(node.name) for node in await servers.nodes()}
    journal = ChangeJournal.open(file_of(paths.attached_directory(), servers.name))
    try:
        if journal.outstanding:
            raise StackUnavailable(
                f"changes of an `attach` that was killed are still in force at {servers.name}",
                "`replexplorer revert` undoes them",
            )
        journal.begin(
            {
                "kind": "attach",
                "version": VERSION,
                "pid": os.getpid(),
                "began_wall_s": round(time.time(), 3),
                "source": servers.name,
                "nodes": [
                    {"name": name, "host": url.host, "port": url.port, "user": url.user}
                    for name, url in urls.items()
                ],
                **_login_flags(call),
            }
        )
    except BaseException:
        journal.close()
        raise
    return journal


def _login_flags(call: Call) -> dict[str, Any]:
    """How one logs in, by flags that name files from any directory."""
    found = {name: getattr(call.args, name) for name in _LOGIN_FLAGS}
    for name in _LOGIN_FLAGS[1:]:
        if found[name] is not None and (file := paths.expanded(found[name])).exists():
            found[name] = str(file.absolute())
    return found


async def _change(call: Call, servers: AttachedProvider, allowed: tuple[str, ...]) -> int:
    await ask_for_the_name(call, servers.name, allowed)
    changes = _Changes(servers, await _begin_journal(call, servers))
    undone: Sequence[TakenBack] = ()
    report: SetResult | None = None
    try:
        async with _session(call, servers, changes.journal) as session:
            report = await _turn(call, session)
            await _hold(call, session, len(report.changed))
    except RolledBack as error:
        call.console.fail(error, changed=[], warnings=[], rolled_back=error.complete)
        return error.exit_code
    finally:
        try:
            undone = await to_the_end(changes.undo())
        finally:
            changes.journal.close()
        with contextlib.suppress(OSError):  # the terminal may be gone, and what was to be done is done
            narrate_undone(call.console, servers.name, undone)
            if call.console.json and report is not None:
                call.console.document(AttachChanges(source=servers.name, set=report, undone=[*undone]))
    return _code(undone)


async def _turn(call: Call, session: Session) -> SetResult:
    """Set what is asked, all or nothing, and say what it was."""
    began_s = time.monotonic()
    assignments = tuple(session.console.parse(text) for text in call.args.set)
    result = await session.console.set(assignments)
    report = result.of_verb(session.roster.source, (time.monotonic() - began_s) * 1000)
    for warning in report.all_warnings:
        call.console.warn(warning)
    if not call.console.json:
        call.console.print(render_set(report))
    return report


async def _hold(call: Call, session: Session, changes: int) -> None:
    """Keep things as they are until it is time, or somebody ends it."""
    for_s = call.args.for_s
    if changes:
        settings = "1 setting is" if changes == 1 else f"{changes} settings are"
        undoes = f"they are undone after {for_s:g} s, or at Ctrl-C" if for_s else "Ctrl-C undoes them"
        call.console.narrate(f"{settings} in force: {undoes}")
    if call.args.watch:
        await _lines(call, session, for_s)
    else:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await asyncio.Event().wait()


def narrate_undone(console: Output, source: str, undone: Sequence[TakenBack]) -> None:
    """What became of the changes, in words."""
    restored = sum(each.fate in (Fate.RESTORED, Fate.AS_BEFORE) for each in undone)
    if not undone:
        console.narrate(f"{source}: nothing was changed")
    if restored:
        count = "1 setting is" if restored == 1 else f"{restored} settings are"
        console.narrate(f"{source}: {count} as before")
    for each in undone:
        name = f"{each.variable} of {each.node}"
        if each.fate is Fate.LEFT:
            console.warn(
                f"{name} is {each.found} now, which somebody else has set: it is left; it was {each.before}"
            )
        elif each.fate is Fate.UNREACHED:
            console.warn(
                f"{name} is still to be set back to {each.before} ({each.why}): `replexplorer revert`"
            )


def _code(undone: Sequence[TakenBack]) -> int:
    """The exit code: of what is still to be undone, else 0."""
    return StackUnavailable.exit_code if any(each.fate is Fate.UNREACHED for each in undone) else 0


# -- revert


def revert(call: Call) -> int:
    """Undo what journals name; exit code 4 where something is still to do.

    Raises StackUnavailable naming an `attach` that still runs and whose changes alone were meant; those of
    others are undone beside it.
    """
    from replexplorer.adapters.attached.changes import ChangeJournal, file_of, journals

    directory = paths.attached_directory()
    files = journals(directory)
    if call.args.url is not None:
        file = file_of(directory, parse_server_url(call.args.url).place)
        files = [file] if file.exists() else []
    with ExitStack() as stack:
        found: list[tuple[ChangeJournal, Known]] = []
        held: list[StackUnavailable] = []
        for file in files:
            try:
                journal = ChangeJournal.open(file)
            except StackUnavailable as error:
                held.append(error)
                continue
            stack.callback(journal.close)
            if journal.outstanding:
                found.append((journal, _login(call, journal)))  # a password is asked for before all else
            else:
                journal.remove()
        if held and not found:
            raise held[0]
        done = run_async(_revert(call, found))
        for refusal in held:
            call.console.fail(refusal)
        return StackUnavailable.exit_code if held else done


async def _revert(call: Call, found: Sequence[tuple[ChangeJournal, Known]]) -> int:
    from replexplorer.adapters.attached.changes import undo
    from replexplorer.adapters.attached.provider import connection_to

    if not found:
        call.console.narrate("no change of `attach` is left to undo")
    reverted: list[Reverted] = []
    for journal, known in found:
        urls = _servers(journal)

        def connect(node: str, urls: dict[str, ServerUrl] = urls, known: Known = known) -> Sql:
            if node not in urls:
                raise UsageError(f"no journal of changes says where {node} is", "look at it")
            return connection_to(urls[node], node, known.login)

        source = str(journal.head["source"])
        call.console.progress(f"undoing what is left at {source}")
        undone = await to_the_end(undo(journal, connect))
        narrate_undone(call.console, source, undone)
        if not call.console.json:
            rows = [(each.node, each.variable, each.asked, each.fate.value) for each in undone]
            call.console.print(table(rows, ("SERVER", "VARIABLE", "WAS SET TO", "NOW")))
        reverted.append(Reverted(source=source, variables=[*undone]))
    if call.console.json:
        call.console.document(RevertReport(reverted=reverted))
    return max((_code(each.variables) for each in reverted), default=0)


def _servers(journal: ChangeJournal) -> dict[str, ServerUrl]:
    """The servers of a journal by name, the source first; raises UsageError for a broken one."""
    try:
        found = {
            str(node["name"]): ServerUrl(str(node["host"]), int(node["port"]), node["user"])
            for node in journal.head["nodes"]
        }
    except (KeyError, TypeError, ValueError):
        found = {}
    if not found or "source" not in journal.head:
        raise UsageError(f"the journal of changes {journal.file} is broken", "look at it, then remove it")
    return found


def _login(call: Call, journal: ChangeJournal) -> Known:
    """As the journal says one logged in; what is typed now goes before."""
    for name in _LOGIN_FLAGS:
        if getattr(call.args, name) is None:
            setattr(call.args, name, journal.head.get(name))
    return known_login(call.args, call.console, source=next(iter(_servers(journal).values())))
