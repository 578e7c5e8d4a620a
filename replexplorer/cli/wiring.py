"""Composition: the configuration of a call and the adapters behind its session, imported lazily."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from replexplorer.core.errors import MissingPiece, ReplexplorerError, UsageError
from replexplorer.core.model.fitted import Calibration
from replexplorer.core.system import DEFAULT
from replexplorer.core.tick import Tick
from replexplorer.core.topology import node_names
from replexplorer.core.wire import DiskState, Lease
from replexplorer.engine.fleet import Outside
from replexplorer.engine.keeping import Keeping
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.formats import paths
from replexplorer.formats.configuration import Configuration, LoadedConfiguration, load_configuration
from replexplorer.formats.files import workload_file
from replexplorer.formats.paths import expanded
from replexplorer.ports import Credentials, NodeAddress, Recorder, UpOptions

if TYPE_CHECKING:
    from replexplorer.adapters.agent import BridgedAgent
    from replexplorer.adapters.attached.changes import ChangeJournal
    from replexplorer.adapters.attached.provider import AttachedProvider
    from replexplorer.adapters.docker.provider import DockerProvider
    from replexplorer.adapters.doctor import SidecarFacts
    from replexplorer.adapters.mysql import ControlConnection
    from replexplorer.cli.entry import Call


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


def load_configuration_of(call: Call) -> LoadedConfiguration:
    """The effective configuration: `--config`, else REPLEXPLORER_CONFIG, else the user's own file."""
    named = call.args.config or os.environ.get("REPLEXPLORER_CONFIG")
    file = expanded(named) if named else paths.config_file()
    loaded = load_configuration(file, named_by_user=bool(named), flags={"stack": call.args.stack})
    call.console.stack = loaded.values.stack
    for variable in loaded.unknown_variables:
        call.console.warn(f"{variable} is no setting: `replexplorer config` lists them")
    return loaded


def calibration_of(call: Call) -> Calibration:
    """What the model was fitted to: this machine's last sweep, else what ships; says what is wrong."""
    from replexplorer.formats.calibration import load_calibration

    calibrated = load_calibration(paths.calibration_file())
    if calibrated.problem is not None:
        call.console.warn(calibrated.problem)
    return calibrated.calibration


def provider_of(
    values: Configuration,
    name: str | None = None,
    *,
    hosts: Mapping[str, str] | None = None,
) -> DockerProvider:
    """The stack that the configuration names, or another one; Docker is not touched yet. `hosts` are those of
    a new stack's nodes."""
    from replexplorer.adapters.docker import hosts as on_hosts
    from replexplorer.adapters.docker.provider import DockerProvider

    stack = name or values.stack
    placed = on_hosts.read(stack)
    if placed is None and hosts:
        placed = on_hosts.Placement(hosts)
    return DockerProvider(stack, placed, subnet=values.subnet)


def hosts_of(words: Sequence[str]) -> Mapping[str, str]:
    """Node to host of `--on NODE=HOST` words; raises UsageError."""
    if not words:
        return {}
    from replexplorer.adapters.docker import hosts as on_hosts

    return on_hosts.asked(words)


async def _on_hosts(values: Configuration, stack: str, up: UpOptions) -> UpOptions:
    """The options with the hosts of all nodes, of a stack that is on hosts or is to be.

    A live stack stays where it is; raises UsageError where it is on this machine and hosts are named.
    """
    from replexplorer.adapters.docker import hosts as on_hosts

    placed = on_hosts.read(stack)
    if placed is None:
        hosts = up.hosts or values.hosts
        if not hosts:
            return up
        here = provider_of(values, stack)
        try:
            is_here = bool(await here.nodes())
        except MissingPiece:  # no Docker on this machine: nothing of it is here
            is_here = False
        finally:
            await here.close()
        if is_here and up.hosts:
            raise UsageError(
                f"stack {stack} is on this machine",
                f"`replexplorer down --stack {stack}` first, or another --stack",
            )
        if is_here:
            return up
        if not up.hosts and up.replicas is not None:
            hosts = {node: host for node, host in hosts.items() if node in node_names(up.replicas)}
    else:
        hosts = {**placed.hosts, **up.hosts}
    replicas = up.replicas
    if replicas is None and (placed is None or up.hosts):
        replicas = max(len(hosts) - 1, 1)
    if placed is None and replicas is not None:
        hosts = on_hosts.checked(hosts, node_names(replicas))
    return replace(up, hosts=hosts, replicas=replicas)


@asynccontextmanager
async def _agents(
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
    try:
        async with asyncio.timeout(_DRIVER_WITHIN_S), _agents(values, name) as agents:
            keepers = [agent for node, agent in agents if node.keeps]
            return await Keeping(lambda: keepers, HostClock()).lease()
    except (ReplexplorerError, TimeoutError):
        return None


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


def outside_of(stack: DockerProvider, record: Callable[[], Recorder] | None = None) -> Outside:
    """The adapters around one stack; with `record` its session is recorded."""
    from replexplorer.adapters.agent import BridgedAgent
    from replexplorer.adapters.journal import FileJournal
    from replexplorer.adapters.load import LoadGroup

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
    )


def outside_of_attached(servers: AttachedProvider, journal: ChangeJournal | None) -> Outside:
    """The adapters around servers that somebody else made; with a `journal` they may be changed."""
    from replexplorer.adapters.attached.changes import GuardedSql
    from replexplorer.adapters.attached.provider import NoSidecar
    from replexplorer.core.wire import Document

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


def recorder_of(values: Configuration, holder: str) -> Callable[[], Recorder] | None:
    """What makes this session's file; None where sessions are not recorded."""
    if not values.record:
        return None

    def make() -> Recorder:
        from replexplorer.adapters.recording import SessionWriter, new_file

        directory = paths.sessions_directory()
        return SessionWriter(new_file(directory, time.time(), holder, kept=values.sessions_kept))

    return make


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


async def new_stack_options(stack: DockerProvider, values: Configuration, asked: UpOptions) -> UpOptions:
    """What `up` is to make: flags first; what is configured only for a new stack, and its image and flavor
    only for one of the configured system."""
    defaults = Configuration.model_fields
    if all(getattr(values, key) == defaults[key].default for key in _OF_NEW_STACKS):
        return asked
    if await stack.nodes() or asked.system not in (None, values.system or DEFAULT):
        return asked
    system = asked.system or values.system
    replicas = values.replicas if system in (None, DEFAULT) else None
    names_server = asked.image is not None or asked.flavor is not None
    return UpOptions(
        replicas=replicas if asked.replicas is None else asked.replicas,
        image=asked.image if names_server else values.image,
        flavor=asked.flavor if names_server or values.image is not None else values.flavor,
        system=system,
        limits=asked.limits,
        hosts=asked.hosts,
    )


async def for_new_stack(call: Call, options: UpOptions) -> UpOptions:
    """These options where there is no stack yet; one that is there keeps what it is."""
    stack = provider_of(load_configuration_of(call).values)
    try:
        return UpOptions() if await stack.nodes() else options
    finally:
        await stack.close()


@asynccontextmanager
async def composed(
    call: Call,
    holder: str,
    *,
    up: UpOptions | None = None,
    on_quit: str = "keep",
    beside: bool = False,
    table_size: int | None = None,
    tick_s: float = 0.5,
    recorded: bool = False,
    calibrated: bool = False,
    name: str | None = None,
) -> AsyncIterator[Session]:
    """A session that is not attached yet, on the configured stack or on the one of this `name`; everything of
    it is closed at the end. With `calibrated` it predicts."""
    values = load_configuration_of(call).values
    stack_name = name or values.stack
    up = await _on_hosts(values, stack_name, up) if up is not None else None
    hosts = up.hosts if up is not None else None
    stack = provider_of(values, stack_name, hosts=hosts)
    try:
        options = SessionOptions(
            holder=holder,
            up=await new_stack_options(stack, values, up) if up is not None else UpOptions(),
            reapply=values.reapply,
            on_quit=on_quit,
            beside=beside,
            table_size=table_size or values.workload.table_size,
            processes=values.workload.processes,
            tick_s=tick_s,
            calibration=calibration_of(call) if calibrated else None,
        )
        session = Session(outside_of(stack, recorder_of(values, holder) if recorded else None), options)
        try:
            yield session
        finally:
            await asyncio.shield(session.disconnect())
    finally:
        await asyncio.shield(stack.close())


@asynccontextmanager
async def attached(
    call: Call,
    holder: str,
    *,
    beside: bool = False,
    table_size: int | None = None,
    tick_s: float = 0.5,
    recorded: bool = False,
    look: bool = True,
) -> AsyncIterator[Session]:
    """A session on the running stack; raises StackUnavailable when there is none. Without `look` it
    knows only which knobs the servers have."""
    async with composed(
        call, holder, beside=beside, table_size=table_size, tick_s=tick_s, recorded=recorded
    ) as session:
        await session.attach(look=look)
        yield session


async def sidecar_facts(values: Configuration) -> SidecarFacts | None:
    """What the running stack's agents report of a link and the disks; None when there is none to ask.

    Each disk is probed, which takes a part of a second.
    """
    from replexplorer.adapters.doctor import SidecarFacts

    try:
        async with _agents(values) as agents:
            if len(agents) < 2:
                return None
            (_, one), (other, _), *_ = agents
            disks = {node.name: disk for node, agent in agents if (disk := await _probed(agent)) is not None}
            return SidecarFacts(await one.link(other.name), await one.health(), disks)
    except ReplexplorerError:
        return None


async def _probed(agent: BridgedAgent) -> DiskState | None:
    """The node's disk after a probe, or as it is where none can be made; None when the agent is away."""
    for probe in (True, False):
        try:
            return await agent.disk(probe=probe)
        except ReplexplorerError:
            continue
    return None


def recorded_ticks(session: str | None) -> list[Tick]:
    """All ticks of the session file at this path; none where there is no file, or none that can be read."""
    if session is None:
        return []
    from replexplorer.adapters.recording import SessionReader

    try:
        with closing(SessionReader(Path(session))) as reader:
            return list(reader.ticks())
    except UsageError:
        return []
