"""Verbs of the stack as a whole: up, down, status, sql, check."""

from __future__ import annotations

import math
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from replexplorer.cli.render import render_status
from replexplorer.cli.wiring import attached, composed, driver_of, provider_of, stack_names
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.knobs.names import Desired, format_value
from replexplorer.core.machine import ServerLimits
from replexplorer.core.records import frozen, printed, replace
from replexplorer.core.server.node_view import wholeness
from replexplorer.core.server.waits import pages
from replexplorer.core.text import closest, folded, number
from replexplorer.core.topology import Roster
from replexplorer.engine.outcome import Status
from replexplorer.formats import paths
from replexplorer.ports import UpOptions

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.engine.session import Session


async def up(call: Call) -> int:
    """Bring the stack up or repair it, and wait until it answers."""
    from replexplorer.adapters.docker import hosts

    args, console = call.args, call.console
    theirs = None
    if args.like is not None:
        from replexplorer.cli.like import make_like, theirs_of

        theirs = await theirs_of(call)
    elif args.replica:
        raise UsageError("--replica goes with --like", "`--replicas N` says how many this stack has")
    elif args.for_s is not None:
        raise UsageError("--for goes with --like", "leave it out")
    wanted = UpOptions(
        replicas=args.replicas if args.nodes is None else args.nodes - 1,
        image=args.image,
        flavor=args.flavor,
        system=args.system,
        limits=ServerLimits(args.cpus, None if args.memory is None else args.memory << 20),
        hosts=hosts.asked(args.on),
    )
    if theirs is not None:
        flavor = None if args.image else theirs.flavor
        wanted = replace(wanted, replicas=theirs.replicas, system=theirs.system, flavor=flavor)

    async def consents(lost: Desired) -> bool:
        """Ask whether what restarts took is to be restored; where nobody can answer, say what is left."""
        values = [(str(name), format_value(name.knob, value)) for name, value in lost.items()]
        told = ", ".join(f"{name} {value}" for name, value in values)
        if console.can_ask and await console.says_yes(f"a restart lost settings: {told}. Re-apply them?"):
            return True
        typed = " ".join(f"{name}={value.replace(' ', '')}" for name, value in values)
        console.warn(f"not re-applied (reapply = ask): `replexplorer set {typed}` restores them")
        return False

    async with composed(call, "up", up=wanted) as session:
        asks = session.options.reapply == "ask"
        created = await session.up(console.progress, consents if asks else None)
        for line in session.restorer.repaired:
            console.narrate(line)
        if theirs is not None:
            return await make_like(call, session, theirs)
        found = await session.status()
        console.narrate(f"stack '{found.stack}' {'is up' if created else 'was there and is up'}")
        without_effect = session.unmet()
    for line in without_effect:
        console.warn(line)
    print_status(call, found)
    return StackUnavailable.exit_code if without_effect else 0


@frozen
class Removed:
    """A stack that is gone."""

    stack: str
    removed: int
    """Containers, networks and volumes; 0 where there were none."""


async def down(call: Call) -> int:
    """Remove everything of the stack, or of all; asks first where a load runs, if somebody can answer."""
    console, values = call.console, call.values
    names = await stack_names() if call.args.all else [values.stack]
    for name in () if call.args.yes else names:  # before the first goes
        driver = await driver_of(values, name)
        if driver is None or driver.load == {}:
            continue
        held = f"{driver} drives a load on stack '{name}'"
        if not console.can_ask:
            console.warn(f"{held}, which ends with it")
        elif not await console.says_yes(f"{held}. Remove the stack anyway?"):
            raise StackUnavailable(f"{held}: nothing was removed", "end it first")
    gone: list[Removed] = []
    left: StackUnavailable | None = None
    for name in names:
        console.progress(f"removing stack '{name}'")
        try:
            removed = await provider_of(values, name).down(console.progress)
        except StackUnavailable as error:  # a host of this one is away: the others are removed first
            if left is not None:
                console.warn(str(left))
            left = error
            continue
        gone.append(Removed(name, removed))
        what = f"removed {removed} containers, networks and volumes" if removed else "nothing to remove"
        console.narrate(f"stack '{name}': {what}")
    if not names:
        console.narrate("no replexplorer stack is here")
    if left is not None:
        raise left
    if console.json:
        console.document(gone)
    return 0


async def status(call: Call) -> int:
    """The stack as it is now; exit code 4 when a node is down, and where what is checked is not known."""
    check_asked(call)
    if call.args.waits:
        async with attached(call, "status") as session:
            return await print_waits(call, session)
    async with composed(call, "status") as session:
        found = await session.status()
    return print_asked(call, found)


def check_asked(call: Call) -> None:
    """Refuse flags that exclude each other; raises UsageError."""
    args = call.args
    if args.format and args.json:
        raise UsageError(f"--json and --format {args.format} are two formats", "leave one of them out")
    if args.waits and args.lag < math.inf:
        raise UsageError("--waits shows no lag", "leave --lag or --waits out")


def print_asked(call: Call, found: Status) -> int:
    """Print what is asked of it: whether it is whole, its metrics, or all for people, and what is down, of a
    stack of ours with the verb that repairs it; answers the exit code."""
    args, console = call.args, call.console

    def metrics() -> str:
        """As Prometheus reads them."""
        from replexplorer.formats.documents import plain
        from replexplorer.formats.prometheus import exposition

        return exposition(plain(found))

    if args.check or args.lag < math.inf:
        whole = wholeness(found.nodes, found.protection, args.lag)
        console.deliver(found, metrics if args.format else lambda: whole.words)
        return 1 if whole.failed else StackUnavailable.exit_code if whole.unknown else 0
    print_status(call, found, metrics if args.format else None)
    down_nodes = [node.name for node in found.nodes if not node.reachable]
    for host in found.hosts:
        if host.fault is not None:
            console.narrate(f"the host {host.name} ({', '.join(host.nodes)}) is away: {host.fault}")
    if found.state == "starting":
        console.narrate("the servers are starting: `replexplorer up` waits for them")
    elif down_nodes:
        remedy = ": `replexplorer up` brings them back" if found.is_ours else ""
        console.narrate(f"down: {', '.join(down_nodes)}{remedy}")
    return StackUnavailable.exit_code if down_nodes else 0


def print_status(call: Call, found: Status, text: Callable[[], str] | None = None) -> None:
    """Print it, as JSON or for people."""
    call.console.deliver(found, text or (lambda: render_status(found, call.console.columns)))


async def print_waits(call: Call, session: Session) -> int:
    """Print what the source's sessions wait for, as it is at the second of two looks: the rates of statements
    are what came between them."""
    async with aclosing(session.waits()) as looks:
        await anext(looks)
        found = await anext(looks)

    def text() -> str:
        """As the dashboard has it; lines are as long as they are where no terminal cuts them."""
        lines = [found.title]
        for heading, rows in pages(found):
            lines += ["", heading, *rows]
        return "\n".join(line[: call.console.columns] for line in lines)

    return call.console.deliver(found, text)


def node_named(wanted: str, roster: Roster) -> str:
    """The node of this name or alias; raises UsageError."""
    node = roster.find(wanted)
    if node is None:
        near = closest(wanted, [*roster.names, *roster.aliases])
        raise UsageError(
            f"no node {wanted!r} in this stack", near or f"its nodes are {', '.join(roster.names)}"
        )
    return node


@printed
class Dsn:
    """`sql --url --json`."""

    node: str
    dsn: str
    path: Literal["direct", "published"]
    account: Literal["sandbox", "admin"] = "sandbox"
    """Whose: the load's account, or with --admin the app's own."""
    defaults_file: str | None = None
    """The option file, where one was asked for."""


def sql(call: Call) -> int:
    """Become a client of a node, or say where it is."""
    from replexplorer.cli.entry import run_async

    args = call.args
    if args.url or args.option_file or args.json:
        return run_async(dsn(call))
    client = next(filter(None, map(shutil.which, ("mysql", "mycli", "mariadb"))), None)
    if client is None:
        hint = "install one (a package such as mysql-client), or give your own what `sql --url` prints"
        raise MissingPiece("no mysql, mycli or mariadb is on the PATH", hint)
    args.option_file = True
    file = run_async(_address(call)).defaults_file
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the client would too
    return os.execv(client, [client, f"--defaults-file={file}", "sandbox"])  # noqa: S606 - found on the PATH


async def dsn(call: Call) -> int:
    """The address of a server."""
    document = await _address(call)
    return call.console.deliver(document, lambda: document.defaults_file or document.dsn)


async def _address(call: Call) -> Dsn:
    """Where a server is, by the path that the load takes too."""
    from replexplorer.adapters import secrets

    args = call.args
    async with attached(call, "dsn") as session:
        node = node_named(args.node, session.roster)
        view = next(view for view in session.state.node_views() if view.name == node)
        credentials = session.fleet.credentials
    if not view.reachable or credentials is None:
        raise StackUnavailable(f"{node} is down", "`replexplorer up` brings it back")
    elsewhere = view.path == "tunnel"
    host, port = view.host, view.port
    if args.published or elsewhere:
        host, port = view.published_host, view.published_port
    if host is None or port is None:
        raise StackUnavailable(f"{node} has no such address", "`replexplorer status` shows what it has")
    account, secret = credentials.dsn_user, credentials.dsn_password
    if args.admin:
        account, secret = credentials.control_user, credentials.control_password
    address = f"mysql://{quote(account, safe='')}:{quote(secret, safe='')}@{host}:{port}/sandbox"
    direct = view.path == "direct" and not args.published
    file = None
    if args.option_file:
        file = paths.option_file(session.name, account, node, direct=direct)
        secrets.keep(file, secrets.option_file(account, secret, host, port))
    if elsewhere:
        call.console.narrate(
            f"{node} is on {view.machine}: its port is published on that host's loopback only"
        )
    return Dsn(
        node=node,
        dsn=address,
        path="direct" if direct else "published",
        account="admin" if args.admin else "sandbox",
        defaults_file=None if file is None else str(file),
    )


async def check_schema(call: Call) -> int:
    """Exit code 1 where a problem is found; notes change nothing."""
    if call.args.rows:
        return await check_rows(call)
    from replexplorer.core.dialect.schema import SchemaChecked

    async with attached(call, "check-schema") as session:
        node = node_named(call.args.node, session.roster)
        findings = await session.check_schema(node, call.args.databases)
    problems = sum(each.severity == "problem" for each in findings)
    found = SchemaChecked(
        node=node, problems=problems, notes=len(findings) - problems, findings=list(findings)
    )

    def text() -> str:
        """A line or two a finding with its statement below it, and the count."""
        lines = []
        for each in findings:
            what = f"{each.severity}: {each.database}.{each.table}: {each.why}"
            lines += [folded(what, call.console.columns), f"  {each.statement};"]
        counted = ((found.problems, "problem"), (found.notes, "note"))
        told = ", ".join(f"{number:,} {word}{'' if number == 1 else 's'}" for number, word in counted)
        return "\n".join([*lines, f"{node}: {told}"])

    call.console.deliver(found, text)
    return 1 if problems else 0


async def check_rows(call: Call) -> int:
    """Exit code 1 where rows differ between nodes, 4 where that is not known of all."""
    async with attached(call, "check-rows") as session:
        found = await session.check_rows(call.args.databases, call.console.progress)

    def text() -> str:
        """Each table of a node that is not alike with its rows, what is not known, and the verdict."""
        lines = []
        for node, tables in found.nodes.items():
            for table, each in tables.items():
                counts = ", ".join(f"{kind} {number(rows, 0)}" for kind, rows in each.rows.items())
                lines += [f"{node}: {table}: {counts}"] if each.rows else []
                lines += [
                    f"  {run.kind} {run.first}" + (f" to {run.last}: {run.rows:,}" if run.rows > 1 else "")
                    for run in each.runs
                    if run.rows
                ]
        lines += found.unknown.values()
        if not found.nodes and not found.unknown:
            return "nothing to compare: there are only the server's own tables and the program's"
        lines.append(f"{found.rows:,} rows of {found.source} with {', '.join(found.nodes)}: {found.verdict}")
        return "\n".join(lines)

    call.console.deliver(found, text)
    return {"alike": 0, "differs": 1, "unknown": StackUnavailable.exit_code}[found.verdict]
