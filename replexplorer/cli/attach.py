"""Servers that one has: attach watches them, or changes them for as long as it runs; revert undoes what one
left that was killed; capture writes a workload like theirs.

Law: a password comes from an option file, the environment or the terminal; never from an argument.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import math
import os
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from replexplorer.cli.arguments import check_without_stack
from replexplorer.cli.entry import Call, in_terminal, run_async
from replexplorer.cli.output import Output
from replexplorer.cli.render import render_set
from replexplorer.cli.stack import check_asked, print_asked, print_waits
from replexplorer.cli.wiring import outside_of_attached
from replexplorer.core.change.journalled import Fate, TakenBack
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.records import printed, replace
from replexplorer.core.text import table
from replexplorer.engine.outcome import SetResult
from replexplorer.engine.session import Session, SessionOptions, Spectator
from replexplorer.engine.tasks import to_the_end
from replexplorer.formats import paths
from replexplorer.formats.server_url import (
    PORT,
    ServerUrl,
    parse_server_url,
    read_option_files,
    standard_files,
)

if TYPE_CHECKING:
    from replexplorer.adapters.attached.changes import ChangeJournal
    from replexplorer.adapters.attached.provider import AttachedProvider, Login
    from replexplorer.core.load.captured import CapturedWorkload

_UNDONE_WITHIN_S: Final = 20.0
"""How long restoring the settings may take after the terminal is gone; what is left by then stays in the
journal."""
_LOGIN_FLAGS: Final = ("ssl_mode", "defaults_file", "ssl_ca")
"""What the journal keeps of how one logged in; never a password."""
PASSWORD: Final = "MYSQL_PWD"  # noqa: S105 - the variable's name, which MySQL's own clients read


# -- logging in


class Known(NamedTuple):
    """A server with how one logs in there."""

    source: ServerUrl
    login: Login


def known_login(
    args: Namespace,
    console: Output,
    environment: Mapping[str, str] = os.environ,
    source: ServerUrl | None = None,
) -> Known:
    """Where to, or to this `source`, and as whom; asks for the password where nothing says it and somebody
    can answer. Raises UsageError."""
    from replexplorer.adapters.attached.provider import Login
    from replexplorer.adapters.mysql import SSL_MODES

    named = args.defaults_file
    options = read_option_files(standard_files(environment) if named is None else [paths.expanded(named)])
    if source is None and args.url is not None:
        source = parse_server_url(args.url)
    elif source is None:
        source = _of_options(options)
    mode = args.ssl_mode or options.get("ssl-mode", "").upper() or None
    if mode is not None and mode not in SSL_MODES:
        raise UsageError(f"ssl-mode={mode} in the option file", f"is one of {', '.join(SSL_MODES)}")
    ca = args.ssl_ca or options.get("ssl-ca") or None
    user = source.user or options.get("user") or getpass.getuser()
    password = options.get("password") or environment.get(PASSWORD)
    password = password or _asked(f"{user} at {source.place}", console)
    return Known(
        source, Login(user, password, mode, None if ca is None else str(paths.expanded(ca).absolute()))
    )


def _of_options(options: Mapping[str, str]) -> ServerUrl:
    """The server that an option file names."""
    if "host" not in options:
        raise UsageError("no server is named", "name it as mysql://USER@HOST:PORT, or in an option file")
    try:
        return ServerUrl(options["host"], int(options.get("port", PORT)))
    except ValueError:
        raise UsageError(f"port={options['port']} in the option file is not a port", "correct it") from None


def _asked(whom: str, console: Output) -> str:
    """The password that is typed; empty where nobody can answer."""
    if sys.stdin is None or not sys.stdin.isatty() or not console.err.isatty():
        return ""
    try:
        return getpass.getpass(f"Password of {whom}: ", console.err)
    except EOFError:
        raise StackUnavailable("no password was typed", "try again") from None


# -- attach


def attach(call: Call) -> int:
    """Open the dashboard on a terminal; else print the state, or change it for a while."""
    from replexplorer.adapters.attached.provider import AttachedProvider

    args, shows = call.args, is_wanted(call)
    check_asked(call)
    if args.set and not args.allow_changes:
        raise UsageError(
            "--set changes the servers' settings", "add --allow-changes; they are undone at the end"
        )
    if args.allow_changes and not args.set and not shows:
        raise UsageError(
            "--allow-changes changes nothing by itself",
            "add --set KEY=VALUE ..., or run it on a terminal, where the dashboard changes settings",
        )
    if args.set and _prints_state(args):
        raise UsageError("--set prints what it set, not the state", "leave --set out, or the others")
    if args.for_s is not None and not (args.set or shows):
        raise UsageError("--for says how long changes or the dashboard last", "add --set, or leave it out")
    for text in args.set:
        check_without_stack(text)
    replicas = [parse_server_url(text) for text in args.replica]
    call.values  # noqa: B018 - what is wrong with them is said before a password is asked for
    known = known_login(args, call.console)
    servers = AttachedProvider(known.source, replicas, known.login, writes=args.allow_changes)
    if shows:
        return _dashboard(call, servers)
    return run_async(_change(call, servers) if args.set else watch(call, servers))


def is_wanted(call: Call) -> bool:
    """Whether `attach` opens the dashboard: on a terminal, unless something is to be printed or changed."""
    args = call.args
    prints = args.json or args.set or _prints_state(args)
    return not prints and in_terminal()


def _prints_state(args: Namespace) -> bool:
    """Whether some part of the state is asked for."""
    return bool(args.waits or args.check or args.format or args.lag < math.inf)


def _dashboard(call: Call, servers: AttachedProvider) -> int:
    """Run the dashboard until it is quit, or its time is over; what was changed is undone then."""
    from replexplorer.cli.dashboard import settings_of, shown

    call.console.progress(f"connecting to {servers.name}")
    asyncio.run(servers.nodes())
    settings = settings_of(call)
    settings = replace(
        settings,
        stack=servers.name,
        visits=True,
        ends_after_s=call.args.for_s,
        notices=(*settings.notices, *servers.warnings),
        close_deadline_s=_UNDONE_WITHIN_S,
    )
    if not call.args.allow_changes:
        return shown(call, Spectator(outside_of_attached(servers, None)), settings, "the dashboard")
    journal = asyncio.run(_begin_journal(call, servers))
    undone: list[TakenBack] = []

    async def restore() -> None:
        if not undone:
            undone.extend(await _undo(servers, journal))

    try:
        options = SessionOptions(holder="attach", reapply="off", at_close=restore)
        code = shown(call, Session(outside_of_attached(servers, journal), options), settings, "the dashboard")
    finally:
        asyncio.run(restore())
        journal.close()
        narrate_undone(call.console, servers.name, undone)
    return _code(undone) or code


@contextlib.asynccontextmanager
async def attached_session(
    call: Call, servers: AttachedProvider, journal: ChangeJournal | None = None
) -> AsyncIterator[Session]:
    """A session on these servers that has looked at them once."""
    call.console.progress(f"connecting to {servers.name}")
    await servers.nodes()
    for line in servers.warnings:
        call.console.warn(line)
    session = Session(outside_of_attached(servers, journal), SessionOptions(holder="attach", reapply="off"))
    session.narrate = call.console.narrate
    try:
        await session.attach()
        yield session
    finally:
        await asyncio.shield(session.disconnect())


async def watch(call: Call, servers: AttachedProvider) -> int:
    """Print the state once as it is asked for, or what sessions wait for; the exit code is `status`'s."""
    async with attached_session(call, servers) as session:
        if call.args.waits:
            return await print_waits(call, session)
        document = await session.status()
    return print_asked(call, replace(document, is_ours=False))


# -- changing


@printed
class AttachChanges:
    """`attach --allow-changes --json`: what was set, and what became of it at the end."""

    source: str
    set: SetResult | None
    """Null: no setting was to be changed."""
    undone: list[TakenBack]


async def ask_for_the_name(call: Call, source: str) -> None:
    """Let the name of a source be typed that may be in use; raises StackUnavailable where it is not."""
    if source in call.values.attach_allowed:
        return
    why = f"{source} is not among `attach_allowed` in the configuration"
    if not call.console.can_ask:
        raise StackUnavailable(
            f"{why}: its name has to be typed",
            f'attach_allowed = ["{source}"] in the configuration, if no one depends on it',
        )
    call.console.narrate(f"{why}. Its settings are about to be changed, and every client feels it.")
    if await call.console.typed(f"Type {source} to go on:") != source:
        raise StackUnavailable("that is not its name: nothing was changed", "try again")


async def _begin_journal(call: Call, servers: AttachedProvider) -> ChangeJournal:
    """The journal of these servers, begun once they may be changed. Raises StackUnavailable where they may
    not, or a killed one left something."""
    from replexplorer.adapters.attached.changes import VERSION, ChangeJournal, file_of

    await ask_for_the_name(call, servers.name)
    urls = {node.name: servers.url(node.name) for node in await servers.nodes()}
    journal = ChangeJournal.open(file_of(paths.attached_directory(), servers.name))
    try:
        if journal.outstanding:
            raise StackUnavailable(
                f"changes of an `attach` that was killed are still in force at {servers.name}",
                "`replexplorer attach revert` undoes them",
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
                "ssl_mode": call.args.ssl_mode,
                **{
                    name: str(paths.expanded(typed).absolute())
                    for name in ("defaults_file", "ssl_ca")
                    if (typed := getattr(call.args, name)) is not None
                },
            }
        )
    except BaseException:
        journal.close()
        raise
    return journal


async def _change(call: Call, servers: AttachedProvider) -> int:
    """Set what is asked, all or nothing, keep it so until it is time or somebody ends it, and undo it."""
    console, for_s = call.console, call.args.for_s
    journal = await _begin_journal(call, servers)
    report, undone = None, list[TakenBack]()
    try:
        async with attached_session(call, servers, journal) as session:
            began_s = time.monotonic()
            assignments = tuple(session.console.parse(text) for text in call.args.set)
            result = await session.console.set(assignments)
            report = result.of_verb(session.roster.source, (time.monotonic() - began_s) * 1000)
            for warning in report.all_warnings:
                console.warn(warning)
            if not console.json:
                console.print(render_set(report))
            if report.changed:
                until = f"after {for_s:g} s, or at Ctrl-C" if for_s else "at Ctrl-C"
                console.narrate(f"in force: {len(report.changed)}; undone {until}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(for_s):
                    await asyncio.Event().wait()
    finally:
        try:
            undone += await to_the_end(_undo(servers, journal))
        finally:
            journal.close()
        with contextlib.suppress(OSError):  # the terminal may be gone, and what was to be done is done
            narrate_undone(console, servers.name, undone)
            if console.json and report is not None:
                console.document(AttachChanges(source=servers.name, set=report, undone=undone))
    return _code(undone)


async def _undo(servers: AttachedProvider, journal: ChangeJournal) -> Sequence[TakenBack]:
    """Undo all, on connections of their own: those of a session may be in the middle of something. Returns
    what became of each; what could not be undone stays in the journal."""
    from replexplorer.adapters.attached.changes import undo

    nodes = {node.name: node for node in await servers.nodes()}
    return await undo(journal, lambda name: servers.connection(nodes[name]))


def narrate_undone(console: Output, source: str, undone: Sequence[TakenBack]) -> None:
    """What became of the changes, in words."""
    counts = Counter(each.fate for each in undone)
    if not undone:
        console.narrate(f"{source}: nothing was changed")
    elif restored := counts[Fate.RESTORED] + counts[Fate.AS_BEFORE]:
        console.narrate(f"{source}: {restored} setting{'' if restored == 1 else 's'} as before")
    for each in undone:
        name = f"{each.variable} of {each.node}"
        if each.fate is Fate.LEFT:
            console.warn(f"{name} is left at {each.found}, which someone else has set; it was {each.before}")
        elif each.fate is Fate.UNREACHED:
            console.warn(
                f"{name} is still to be set back to {each.before} ({each.why}): `replexplorer attach revert`"
            )


def _code(undone: Sequence[TakenBack]) -> int:
    """The exit code: of what is still to be undone, else 0."""
    return StackUnavailable.exit_code if any(each.fate is Fate.UNREACHED for each in undone) else 0


# -- revert


@printed
class Reverted:
    """What was undone at one source and its replicas."""

    source: str
    variables: list[TakenBack]


@printed
class RevertReport:
    """`revert --json`."""

    reverted: list[Reverted]


async def revert(call: Call) -> int:
    """Undo what journals name, one after the other; exit code 4 where something is still to do.

    Raises StackUnavailable naming an `attach` that still runs, where there is nothing to undo beside it.
    """
    from replexplorer.adapters.attached.changes import ChangeJournal, file_of, journals

    console, directory = call.console, paths.attached_directory()
    files = journals(directory)
    if call.args.url is not None:
        files = [file for file in files if file == file_of(directory, parse_server_url(call.args.url).place)]
    held: StackUnavailable | None = None
    reverted: list[Reverted] = []
    for file in files:
        try:
            journal = ChangeJournal.open(file)
        except StackUnavailable as error:
            held = error
            continue
        with contextlib.closing(journal):
            if journal.outstanding:
                reverted.append(await _revert(call, journal))
            else:
                journal.remove()
    if held is not None and not reverted:
        raise held
    if not reverted:
        console.narrate("no change of `attach` is left to undo")
    if console.json:
        console.document(RevertReport(reverted=reverted))
    if held is not None:
        console.fail(held)
        return held.exit_code
    return max((_code(each.variables) for each in reverted), default=0)


async def _revert(call: Call, journal: ChangeJournal) -> Reverted:
    """Undo what one journal names, logging in as it says or as is typed, and say what became of it. Raises
    UsageError for a broken one."""
    from replexplorer.adapters.attached.changes import undo
    from replexplorer.adapters.attached.provider import connection_to

    head, typed = journal.head, vars(call.args)
    try:
        source, nodes = str(head["source"]), head["nodes"]
        servers = {
            str(each["name"]): ServerUrl(each["host"], int(each["port"]), each["user"]) for each in nodes
        }
        first = next(iter(servers.values()))
    except (KeyError, TypeError, ValueError, StopIteration):
        raise UsageError(
            f"the journal of changes {journal.file} is broken", "look at it, then remove it"
        ) from None
    kept = {name: head.get(name) for name in _LOGIN_FLAGS if typed[name] is None}
    login = known_login(Namespace(**typed | kept), call.console, source=first).login
    call.console.progress(f"undoing what is left at {source}")
    undone = await to_the_end(undo(journal, lambda node: connection_to(servers[node], node, login)))
    narrate_undone(call.console, source, undone)
    if not call.console.json:
        rows = [(each.node, each.variable, each.asked, each.fate.value) for each in undone]
        call.console.print(table(rows, ("SERVER", "VARIABLE", "WAS SET TO", "NOW")))
    return Reverted(source=source, variables=[*undone])


# -- capture


async def captured(
    call: Call, known: Known, seconds: float, *, databases: Sequence[str] = (), most_rows: int = 100_000
) -> CapturedWorkload:
    """Watch a server's statement digests for so long and make a workload like them; raises UsageError where
    nothing came that can be imitated, and what `watch.capture` does."""
    from replexplorer.adapters.attached.provider import connection_to
    from replexplorer.engine.workload_capture.watch import capture as watched
    from replexplorer.engine.workload_capture.workload_file import write_workload
    from replexplorer.reports.load import captured_text

    place, console = known.source.place, call.console
    sql = connection_to(known.source, place, known.login)
    try:
        seen = await watched(
            sql,
            address=place,
            seconds=seconds,
            databases=databases,
            on_progress=lambda at_s, seen: console.progress(
                f"watching {place}", min(1.0, at_s / seconds), f", {seen} statements in order"
            ),
        )
    finally:
        await sql.close()
    found = write_workload(seen, most_rows=most_rows)
    if not found.transactions:
        if found.left_out:
            console.narrate(captured_text(found, console.columns))
        raise UsageError(
            f"{place} had no statement within {seen.seconds:.0f} s that can be imitated", found.remedy
        )
    return found


async def capture(call: Call) -> int:
    """Watch a server's statement digests and write a workload file like them."""
    from replexplorer.formats.files import whole_file
    from replexplorer.reports.load import captured_text

    args, console = call.args, call.console
    known = known_login(args, console)
    found = await captured(call, known, args.duration, databases=args.database, most_rows=args.rows)
    text = found.workload or ""
    if args.output is not None:
        with whole_file(paths.expanded(args.output)) as stream:
            stream.write(text)
        found = replace(found, file=args.output, workload=None)
    if console.json:
        console.document(found)
    elif args.output is None:
        console.print(text.rstrip("\n"))
        console.narrate(captured_text(found, console.columns))
    else:
        console.print(captured_text(found, console.columns))
        console.narrate(f"wrote {args.output}: replexplorer load --workload {args.output}")
    return 0
