"""Verbs of the stack as a whole: up, down, status, dsn, check-schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from replexplorer.cli.documents import Dsn, SchemaChecked
from replexplorer.cli.output import delivered
from replexplorer.cli.render import render_status
from replexplorer.cli.running import can_ask, run_async, says_yes
from replexplorer.cli.wiring import (
    attached,
    composed,
    driver_of,
    hosts_of,
    load_configuration_of,
    provider_of,
    stack_names,
)
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.knobs.names import Desired, format_value
from replexplorer.core.machine import ServerLimits
from replexplorer.core.text import folded
from replexplorer.core.topology import Roster
from replexplorer.engine.outcome import Status
from replexplorer.formats import paths
from replexplorer.formats.files import closest
from replexplorer.ports import UpOptions

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


def limits_of(cpus: float | None, memory_mib: int | None) -> ServerLimits:
    """What each server may take, as --cpus and --memory are typed."""
    return ServerLimits(cpus, None if memory_mib is None else memory_mib << 20)


def up(call: Call) -> int:
    """Bring the stack up or repair it, and wait until it answers."""
    return run_async(_up(call))


async def _up(call: Call) -> int:
    replicas = call.args.replicas if call.args.nodes is None else call.args.nodes - 1
    options = UpOptions(
        replicas=replicas,
        image=call.args.image,
        flavor=call.args.flavor,
        system=call.args.system,
        limits=limits_of(call.args.cpus, call.args.memory),
        hosts=hosts_of(call.args.on),
    )
    async with composed(call, "up", up=options) as session:
        asks = session.options.reapply == "ask"
        created = await session.up(
            lambda step: call.console.progress(step.text, step.done),
            (lambda lost: _consents(call, lost)) if asks else None,
        )
        for line in session.repaired:
            call.console.narrate(line)
        status = await session.status(patient=True)
        call.console.narrate(f"stack '{status.stack}' {'is up' if created else 'was there and is up'}")
        without_effect = session.unmet()
    for line in without_effect:
        call.console.warn(line)
    print_status(call, status)
    return StackUnavailable.exit_code if without_effect else 0


async def _consents(call: Call, lost: Desired) -> bool:
    """Ask whether what restarts took is to be restored; where nobody can answer, say what is left."""
    told = ", ".join(f"{name} {format_value(name.knob, value)}" for name, value in lost.items())
    if can_ask(call.console) and await says_yes(
        call.console, f"restarts took what was requested: {told}. Re-apply it?"
    ):
        return True
    assignments = " ".join(
        f"{name}={format_value(name.knob, value).replace(' ', '')}" for name, value in lost.items()
    )
    call.console.warn(f"left as it came (reapply = ask): `replexplorer set {assignments}` gives it back")
    return False


def down(call: Call) -> int:
    """Remove everything of the stack, or of all stacks; asks first where a load runs."""
    return run_async(_down(call))


async def _down(call: Call) -> int:
    values = load_configuration_of(call).values
    names = await stack_names() if call.args.all else [values.stack]
    for name in () if call.args.yes else names:  # before the first goes
        driver = await driver_of(values, name)
        if driver is not None and driver.load != {}:
            await _ask(call, f"{driver} drives a load on stack '{name}'")
    left: StackUnavailable | None = None
    for name in names:
        call.console.progress(f"removing stack '{name}'")
        try:
            removed = await provider_of(values, name).down(call.console.progress)
        except StackUnavailable as error:  # a host of this one is away: the others are removed first
            if left is not None:
                call.console.warn(str(left))
            left = error
            continue
        call.console.narrate(
            f"stack '{name}': removed {removed} containers, networks and volumes"
            if removed
            else f"stack '{name}': nothing to remove"
        )
    if not names:
        call.console.narrate("no replexplorer stack is here")
    if left is not None:
        raise left
    return 0


async def _ask(call: Call, held: str) -> None:
    """Ask before a load's stack is removed; raises StackUnavailable where nobody can answer, or says no."""
    if not can_ask(call.console):
        raise StackUnavailable(held, "end it first, or `replexplorer down --yes`")
    if not await says_yes(call.console, f"{held}. Remove the stack all the same?"):
        raise StackUnavailable(f"{held}: nothing was removed", "end it first")


def status(call: Call) -> int:
    """The stack as it is now; exit code 4 when a node is down."""
    return run_async(_status(call))


async def _status(call: Call) -> int:
    async with composed(call, "status") as session:
        document = await session.status()
    print_status(call, document)
    down_nodes = [node.name for node in document.nodes if not node.reachable]
    for host in document.hosts:
        if host.fault is not None:
            call.console.narrate(f"the host {host.name} ({', '.join(host.nodes)}) is away: {host.fault}")
    if document.state == "starting":
        call.console.narrate("the servers are starting: `replexplorer up` waits for them")
    elif down_nodes:
        call.console.narrate(f"down: {', '.join(down_nodes)}: `replexplorer up` brings them back")
    return StackUnavailable.exit_code if down_nodes else 0


def print_status(call: Call, document: Status, *, mends: bool = True) -> None:
    """Print it, as JSON or for people; with `mends` what is wrong is said with the verb that mends it."""
    if call.console.json:
        call.console.document(document)
    else:
        call.console.print(render_status(document, call.console.columns, mends=mends))


def node_named(wanted: str, roster: Roster) -> str:
    """The node of this name or alias; raises UsageError."""
    node = roster.find(wanted)
    if node is None:
        near = closest(wanted, [*roster.names, *roster.aliases])
        raise UsageError(
            f"no node {wanted!r} in this stack", near or f"its nodes are {', '.join(roster.names)}"
        )
    return node


def dsn(call: Call) -> int:
    """The address of a server, by the path that the load takes too."""
    return run_async(_dsn(call))


async def _dsn(call: Call) -> int:
    from replexplorer.adapters import secrets

    wanted = call.args.node
    async with attached(call, "dsn") as session:
        views = {view.name: view for view in session.nodes}
        roster = session.roster
        node = node_named(wanted, roster)
        view = views[node]
        credentials = session.credentials
    if not view.reachable or credentials is None:
        raise StackUnavailable(f"{node} is down", "`replexplorer up` brings it back")
    published = (view.published_host, view.published_port)
    elsewhere = view.path == "tunnel"
    host, port = published if call.args.published or elsewhere else (view.host, view.port)
    if host is None or port is None:
        raise StackUnavailable(f"{node} has no such address", "`replexplorer status` shows what it has")
    admin: bool = call.args.admin
    account = credentials.control_user if admin else credentials.dsn_user
    secret = credentials.control_password if admin else credentials.dsn_password
    address = f"mysql://{quote(account, safe='')}:{quote(secret, safe='')}@{host}:{port}/sandbox"
    direct = view.path == "direct" and not call.args.published
    file = None
    if call.args.defaults_file:
        file = paths.option_file(session.name, account, node, direct=direct)
        secrets.keep(file, secrets.option_file(account, secret, host, port))
    if elsewhere:
        call.console.narrate(
            f"{node} is on {view.machine}: its port is published on that host's loopback only"
        )
    if call.console.json:
        document = Dsn(
            node=node,
            dsn=address,
            path="direct" if direct else "published",
            account="admin" if admin else "sandbox",
            defaults_file=None if file is None else str(file),
        )
        call.console.document(document)
    else:
        call.console.print(address if file is None else str(file))
    return 0


_HAS_PROBLEMS: Final = 1


def check_schema(call: Call) -> int:
    """Exit code 1 where a problem is found; notes change nothing."""
    return run_async(_check_schema(call))


async def _check_schema(call: Call) -> int:
    async with attached(call, "check-schema") as session:
        node = node_named(call.args.node, session.roster)
        findings = await session.check_schema(node, call.args.databases)
    problems = sum(each.severity == "problem" for each in findings)
    document = SchemaChecked(
        node=node, problems=problems, notes=len(findings) - problems, findings=list(findings)
    )
    delivered(call.console, document, lambda: _findings_text(document, call.console.columns))
    return _HAS_PROBLEMS if problems else 0


def _findings_text(found: SchemaChecked, columns: int | None) -> str:
    """A line or two a finding with its statement below it, and the count."""
    lines = []
    for each in found.findings:
        lines.append(folded(f"{each.severity}: {each.database}.{each.table}: {each.why}", columns))
        lines.append(f"  {each.statement};")
    problems, notes = (
        f"{number:,} {word}{'' if number == 1 else 's'}"
        for number, word in ((found.problems, "problem"), (found.notes, "note"))
    )
    return "\n".join([*lines, f"{found.node}: {problems}, {notes}"])
