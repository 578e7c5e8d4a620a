"""Composition: the adapters behind a session on a stack, or on servers that somebody else made."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from replexplorer.core.errors import MissingPiece, ReplexplorerError, UsageError
from replexplorer.core.system import DEFAULT
from replexplorer.core.topology import node_names
from replexplorer.formats import paths
from replexplorer.formats.configuration import Configuration
from replexplorer.formats.files import workload_file

if TYPE_CHECKING:
    from replexplorer.adapters.agent import BridgedAgent
    from replexplorer.adapters.attached.changes import ChangeJournal
    from replexplorer.adapters.attached.provider import AttachedProvider
    from replexplorer.adapters.docker.provider import DockerProvider
    from replexplorer.adapters.mysql import ControlConnection
    from replexplorer.cli.entry import Call
    from replexplorer.core.model.fitted import Calibration
    from replexplorer.core.wire import Document, Lease
    from replexplorer.engine.fleet import Outside
    from replexplorer.engine.session import Session
    from replexplorer.ports import Credentials, NodeAddress, Recorder, UpOptions


_OF_NEW_STACKS: Final = ("replicas", "image", "flavor", "system")
_TUNNEL_TIMEOUT_S: Final = 5.0
"""How long a login by an exec may take: it starts a program in a sidecar first."""
_DRIVER_WITHIN_S: Final = 5.0
"""How long `down` asks who drives the load."""


class HostClock:
    """The host's own time (`ports.Clock`)."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return after this many seconds."""
        await asyncio.sleep(seconds)


# -- a stack


def provider_of(
    values: Configuration, name: str | None = None, hosts: Mapping[str, str] | None = None
) -> DockerProvider:
    """The stack that the configuration names, or the one of this `name`; Docker is not touched yet. `hosts`
    are those of a new stack's nodes."""
    from replexplorer.adapters.docker import hosts as on_hosts
    from replexplorer.adapters.docker.provider import DockerProvider

    stack = name or values.stack
    placed = on_hosts.read(stack)
    if placed is None and hosts:
        placed = on_hosts.Placement(hosts)
    return DockerProvider(stack, placed, subnet=values.subnet)


async def runs(values: Configuration, name: str | None = None) -> bool:
    """One question to Docker: whether anything of this stack is there; raises MissingPiece when it does not
    answer."""
    stack = provider_of(values, name)
    try:
        return bool(await stack.nodes())
    finally:
        await stack.close()


async def stack_names() -> list[str]:
    """Every stack that this program made on this Docker host, and those of this user on named hosts."""
    from replexplorer.adapters.docker import hosts, provider

    elsewhere = hosts.stacks()
    try:
        here = await provider.stack_names()
    except MissingPiece:
        if not elsewhere:
            raise
        here = []
    return sorted({*here, *elsewhere})


@asynccontextmanager
async def agents_of(
    values: Configuration, name: str | None = None
) -> AsyncIterator[list[tuple[NodeAddress, BridgedAgent]]]:
    """The nodes of a stack with their agents, all closed at the end."""
    from replexplorer.adapters.agent import BridgedAgent

    stack = provider_of(values, name)
    agents: list[tuple[NodeAddress, BridgedAgent]] = []
    try:
        agents += [(node, BridgedAgent(node.name, stack.open_bridge)) for node in await stack.nodes()]
        yield agents
    finally:
        await asyncio.gather(*(agent.close() for _, agent in agents))
        await stack.close()


async def driver_of(values: Configuration, name: str) -> Lease | None:
    """Who drives a load on a stack; None when nobody does, or there is nobody left to ask."""
    from replexplorer.engine.shared_state import SharedState

    try:
        async with asyncio.timeout(_DRIVER_WITHIN_S), agents_of(values, name) as agents:
            keepers = [agent for node, agent in agents if node.keeps]
            return await SharedState(lambda: keepers, HostClock()).lease()
    except (ReplexplorerError, TimeoutError):
        return None


async def to_make(values: Configuration, asked: UpOptions, name: str | None = None) -> UpOptions:
    """What `up` is to make of a stack, with the hosts of its nodes. What is asked for goes before what is
    configured, which is for a new stack, its image and flavor only for one of the configured system. Raises
    UsageError where hosts are named for a stack on this machine."""
    from replexplorer.adapters.docker import hosts as on_hosts

    stack = name or values.stack
    placed = on_hosts.read(stack)
    hosts = asked.hosts or values.hosts if placed is None else {**placed.hosts, **asked.hosts}
    of_new = (getattr(values, key) != Configuration.model_fields[key].default for key in _OF_NEW_STACKS)
    if not hosts and not any(of_new):
        return asked
    try:
        is_here = placed is None and await runs(values, stack)
    except MissingPiece:  # no Docker on this machine: nothing of it is here
        is_here = False
    if is_here and asked.hosts:
        raise UsageError(
            f"stack {stack} is on this machine",
            f"`replexplorer down --stack {stack}` first, or another --stack",
        )
    if is_here:
        return asked
    if hosts:
        replicas = asked.replicas
        if placed is None and not asked.hosts and replicas is not None:
            hosts = {node: host for node, host in hosts.items() if node in node_names(replicas)}
        if replicas is None and (placed is None or asked.hosts):
            replicas = max(len(hosts) - 1, 1)
        if placed is None and replicas is not None:
            hosts = on_hosts.checked(hosts, node_names(replicas))
        asked = replace(asked, hosts=hosts, replicas=replicas)
    if placed is not None or asked.system not in (None, values.system or DEFAULT):
        return asked
    system = asked.system or values.system
    replicas = values.replicas if system in (None, DEFAULT) else None
    names_server = asked.image is not None or asked.flavor is not None
    return replace(
        asked,
        replicas=replicas if asked.replicas is None else asked.replicas,
        image=asked.image if names_server else values.image,
        flavor=asked.flavor if names_server or values.image is not None else values.flavor,
        system=system,
    )


# -- what a session is made of


def outside_of(stack: DockerProvider, record: Callable[[], Recorder] | None = None) -> Outside:
    """The adapters around one stack; with `record` its session is recorded."""
    from replexplorer.adapters.agent import BridgedAgent
    from replexplorer.adapters.journal import FileJournal
    from replexplorer.adapters.load import LoadGroup
    from replexplorer.engine.fleet import Outside

    app = uuid.uuid4().hex
    return Outside(
        provider=stack,
        sql=partial(_connection, stack),
        agent=lambda node: BridgedAgent(node, stack.open_bridge, token=app),
        load=partial(LoadGroup, place=stack.load_place),
        clock=HostClock(),
        recorder=record,
        journals=lambda kind, identity: FileJournal(kind, paths.journal(kind, stack.name, identity)),
        workload_file=workload_file,
        client_logs=stack.client_logs,
        snapshots=stack if stack.load_place is None else None,
    )


def _connection(stack: DockerProvider, node: NodeAddress, credentials: Credentials) -> ControlConnection:
    from replexplorer.adapters.mysql import ControlConnection, connect_address, tunnel_address

    user, password = credentials.control_user, credentials.control_password
    if node.machine is None:
        return ControlConnection(node.name, lambda: connect_address(node), user, password)
    return ControlConnection(
        node.name,
        lambda: tunnel_address(node),
        user,
        password,
        dial=lambda: stack.dial(node.name),
        connect_timeout_s=_TUNNEL_TIMEOUT_S,
    )


def outside_of_attached(servers: AttachedProvider, journal: ChangeJournal | None) -> Outside:
    """The adapters around servers that somebody else made; with a `journal` they may be changed."""
    from replexplorer.adapters.attached.changes import GuardedSql
    from replexplorer.adapters.attached.provider import NoSidecar
    from replexplorer.engine.fleet import Outside

    kept: dict[str, Document] = {}

    def no_load(_: object) -> NoReturn:
        raise MissingPiece(
            f"no load runs on the servers of '{servers.name}'", "`replexplorer up` makes a stack"
        )

    return Outside(
        provider=servers,
        sql=lambda node, _: GuardedSql(servers.connection(node), journal),
        agent=lambda node: NoSidecar(node, kept),
        load=no_load,
        clock=HostClock(),
    )


def calibration_of(call: Call) -> Calibration:
    """What the model was fitted to: this machine's last sweep, else what ships; says what is wrong."""
    from replexplorer.formats.calibration import load_calibration

    calibrated = load_calibration(paths.calibration_file())
    if calibrated.problem is not None:
        call.console.warn(calibrated.problem)
    return calibrated.calibration


def session_on(
    call: Call, stack: DockerProvider, holder: str, *, recorded: bool, calibrated: bool, **options: Any
) -> Session:
    """A session that is not attached yet, with these more `SessionOptions`. With `recorded` it makes a
    session file, unless that is configured away; with `calibrated` it predicts."""
    from replexplorer.engine.session import Session, SessionOptions

    values = call.values

    def record() -> Recorder:
        from replexplorer.adapters.recording import SessionWriter, new_file

        file = new_file(paths.sessions_directory(), time.time(), holder, kept=values.sessions_kept)
        return SessionWriter(file)

    if calibrated:
        options["calibration"] = calibration_of(call)
    configured = {
        "reapply": values.reapply,
        "table_size": values.workload.table_size,
        "processes": values.workload.processes,
    }
    outside = outside_of(stack, record if recorded and values.record else None)
    return Session(outside, SessionOptions(holder=holder, **{**configured, **options}))


@asynccontextmanager
async def composed(
    call: Call,
    holder: str,
    *,
    name: str | None = None,
    up: UpOptions | None = None,
    recorded: bool = False,
    calibrated: bool = False,
    **options: Any,
) -> AsyncIterator[Session]:
    """A session that is not attached yet, on the configured stack or on the one of this `name`; everything of
    it is closed at the end. `up` is what it is to make; for the others see `session_on`."""
    from replexplorer.ports import UpOptions

    values = call.values
    up = UpOptions() if up is None else await to_make(values, up, name)
    stack = provider_of(values, name, up.hosts)
    try:
        session = session_on(call, stack, holder, recorded=recorded, calibrated=calibrated, up=up, **options)
        try:
            yield session
        finally:
            await asyncio.shield(session.disconnect())
    finally:
        await asyncio.shield(stack.close())


@asynccontextmanager
async def attached(call: Call, holder: str, *, look: bool = True, **options: Any) -> AsyncIterator[Session]:
    """A session on the running stack, as `composed` opens it; raises StackUnavailable when there is none.
    Without `look` it knows only which knobs the servers have."""
    async with composed(call, holder, **options) as session:
        await session.attach(look=look)
        yield session
