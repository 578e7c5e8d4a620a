"""Verbs of the stack as a whole: up, down, status, dsn."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from replexplorer.cli.arguments import add_json
from replexplorer.cli.question import can_ask, says_yes
from replexplorer.cli.render import render_status
from replexplorer.cli.running import run_async
from replexplorer.cli.typed import positive, whole_number
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
from replexplorer.core.limits import LEAST_MEMORY_MIB, MOST_CPUS, ServerLimits
from replexplorer.core.system import FLAVORS, SYSTEMS
from replexplorer.core.topology import MOST_REPLICAS, SOURCE, Roster
from replexplorer.engine.session import Session
from replexplorer.formats import paths
from replexplorer.formats.configuration import closest
from replexplorer.formats.json.dsn import Dsn
from replexplorer.formats.json.status import Status
from replexplorer.ports import UpOptions
from replexplorer.reports.documents import status_document

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


_OF_NEW_STACK: Final = ("system", "replicas", "nodes", "image", "flavor", "cpus", "memory", "on")
_CLOCKS_APART_MS: Final = 10.0
"""From here on the difference between two hosts' clocks is said: it is in each lag between them."""


def limits_of(cpus: float | None, memory_mib: int | None) -> ServerLimits:
    """What each server may take, as --cpus and --memory are typed."""
    return ServerLimits(cpus, None if memory_mib is None else memory_mib << 20)


def up_arguments(parser: ArgumentParser) -> None:
    """How many replicas, and of which image."""
    parser.add_argument(
        "--system",
        choices=tuple(SYSTEMS),
        help="how a new stack's nodes keep the same rows; default: async, with or without semi-sync",
    )
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--replicas",
        type=whole_number(1, MOST_REPLICAS),
        metavar="N",
        help="how many replicas; without it a live stack keeps its own and a new one has 1",
    )
    number.add_argument(
        "--nodes",
        type=whole_number(2, MOST_REPLICAS + 1),
        metavar="N",
        help="how many nodes in all; without it a live stack keeps its own, and a new group has 3",
    )
    server = parser.add_mutually_exclusive_group()
    server.add_argument(
        "--image",
        metavar="REF",
        help="any image that has a MySQL, Percona or MariaDB server, instead of our own",
    )
    server.add_argument(
        "--flavor",
        choices=FLAVORS,
        help="which server a new stack runs; default: mysql, for galera mariadb",
    )
    parser.add_argument(
        "--cpus",
        type=positive(MOST_CPUS),
        metavar="N",
        help="the most cores of each server of a new stack, as 0.5; default: no limit",
    )
    parser.add_argument(
        "--memory",
        type=whole_number(LEAST_MEMORY_MIB),
        metavar="MIB",
        help="the most memory of each server of a new stack, in MiB; default: no limit",
    )
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="NODE=HOST",
        help="the Docker host that a node is on, once for each node: unix:///PATH, tcp://HOST:PORT or the"
        " name of a Docker context; the hosts are in one swarm",
    )
    parser.add_argument(
        "--keep-on",
        metavar="HOST",
        help="do nothing but give up the host that keeps what is requested and is away: this one of the stack"
        " keeps it from now on, and a failover counts the servers there as ended",
    )
    add_json(parser)


def down_arguments(parser: ArgumentParser) -> None:
    """Which stacks, and whether to ask."""
    parser.add_argument("--all", action="store_true", help="every replexplorer stack on this Docker host")
    parser.add_argument("--yes", action="store_true", help="do not ask, even while a load runs")


def dsn_arguments(parser: ArgumentParser) -> None:
    """Whose address, for whom and in which form."""
    parser.add_argument(
        "node", nargs="?", default=SOURCE, metavar="NODE", help="name or role; default: the primary"
    )
    parser.add_argument("--published", action="store_true", help="use the port published on this machine")
    parser.add_argument(
        "--admin", action="store_true", help="the app's own account, which has all privileges on every node"
    )
    parser.add_argument(
        "--defaults-file",
        action="store_true",
        help="write the address to an option file that only you can read and print its path, for "
        'mysql --defaults-file="$(replexplorer dsn --defaults-file)" and sysbench --config-file="$(...)". '
        "Every user of the machine can see a command's arguments, so a password must not be among them; "
        "to a client that only takes a mysql:// address pass it in the environment: "
        'MYSQL_DSN="$(replexplorer dsn)" mycli',
    )
    add_json(parser)


def up(call: Call) -> int:
    """Bring the stack up or repair it, and wait until it answers."""
    return run_async(_up(call))


async def _up(call: Call) -> int:
    if call.args.keep_on is not None:
        await _keep_on(call, call.args.keep_on)
        await _status(call)  # the nodes of the other host are down, which is no news
        return 0
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
        status = await status_of(session, patient=True)
        call.console.narrate(f"stack '{status.stack}' {'is up' if created else 'was there and is up'}")
        without_effect = session.unmet()
    for line in without_effect:
        call.console.warn(line)
    print_status(call, status)
    return StackUnavailable.exit_code if without_effect else 0


async def _keep_on(call: Call, host: str) -> None:
    values = load_configuration_of(call).values
    if others := [name for name in _OF_NEW_STACK if getattr(call.args, name)]:
        raise UsageError(f"--{others[0]} is not for --keep-on", "one after the other")
    stack = provider_of(values, slow=call.console.progress)
    try:
        await stack.keep_on(host)
    finally:
        await stack.close()
    call.console.narrate(
        f"what is requested of stack '{stack.name}' is kept by {host} from now on; servers of the"
        " host that was given up count as ended: see that it is off"
    )


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
            removed = await provider_of(values, name, slow=call.console.progress).down(call.console.progress)
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
        document = await status_of(session)
    print_status(call, document)
    down_nodes = [node.name for node in document.nodes if not node.reachable]
    for host in document.hosts:
        if host.fault is not None:
            call.console.narrate(f"the host {host.name} ({', '.join(host.nodes)}) is away: {host.fault}")
        if host.clock_apart_ms is not None and host.clock_apart_ms > _CLOCKS_APART_MS:
            ahead = "ahead of" if (host.clock_ms or 0) > 0 else "behind"
            call.console.warn(
                f"the clock of {host.name} ({', '.join(host.nodes)}) is at least"
                f" {host.clock_apart_ms:,.0f} ms {ahead} this machine's:"
                " lags between hosts are off by it; chrony or ntpd sets clocks"
            )
    if document.state == "starting":
        call.console.narrate("the servers are starting: `replexplorer up` waits for them")
    elif down_nodes:
        call.console.narrate(f"down: {', '.join(down_nodes)}: `replexplorer up` brings them back")
    return StackUnavailable.exit_code if down_nodes else 0


async def status_of(session: Session, *, patient: bool = False) -> Status:
    """The `status` document, looked at now."""
    seen = await session.status(patient=patient)
    return status_document(
        stack=seen.stack,
        system=seen.system,
        state=seen.state,
        nodes=seen.nodes,
        protection=seen.protection,
        links=seen.links,
        disks=seen.disks,
        knobs=seen.knobs,
        driver=str(seen.driver) if seen.driver else None,
        load=seen.load,
        footprint_bytes=seen.footprint_bytes,
        faults=seen.faults,
        exposure=seen.exposure,
        hosts=seen.hosts,
        oldest_commit_s=seen.oldest_commit_s,
    )


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
