"""The stack's nodes with what reaches them: four connections a server and one agent a sidecar.

Law: statements that can block (a SET GLOBAL that waits in the server, the kick under semi-sync)
never run on the connection that the poller waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from replexplorer.core.dialect.dialect import Capabilities, Threads
from replexplorer.core.errors import (
    MissingPiece,
    NoSuchStack,
    ServerUnreachable,
    StackUnavailable,
    UsageError,
)
from replexplorer.core.knobs.catalogue import Backing, Knob, Restart
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.system import System, system_of
from replexplorer.core.topology import SOURCE, Roster, Standing, ends_of, source_of
from replexplorer.engine.shared_state import SharedState
from replexplorer.ports import (
    DEADLINE_S,
    Ability,
    Agent,
    ClientLogs,
    Clock,
    Credentials,
    Journal,
    LoadProcess,
    NodeAddress,
    Provider,
    Recorder,
    Reporter,
    ServerProcess,
    Snapshots,
    Sql,
    ask,
    execute,
)

if TYPE_CHECKING:
    from replexplorer.core.dialect.flavours import Dialect

STARTS_WITHIN_S: Final = 90.0
"""How long a server may take until it accepts logins."""


_CARRIED_BY: Final = {
    Backing.SERVER: Ability.WRITE,
    Backing.LINK: Ability.SHAPE_LINKS,
    Backing.DISK: Ability.DELAY_FSYNC,
    Backing.LOAD: Ability.TAKE_ROWS,
}


def _no_files(written: str) -> tuple[str, str]:
    raise UsageError(f"no workload {written}", "no files are read here")


@frozen
class Outside:
    """The adapters, chosen by the composition root."""

    provider: Provider
    sql: Callable[[NodeAddress, Credentials], Sql]
    """A new connection to that node's server; it logs in at its first call."""
    agent: Callable[[str], Agent]
    """The agent of that node's sidecar; it opens its bridge at its first call."""
    load: Callable[[Reporter], LoadProcess]
    """A load process that is not started yet; it reports the preparing of its table."""
    clock: Clock
    recorder: Callable[[], Recorder] | None = None
    """A new session file that is not made yet; None: the session is not recorded."""
    journals: Callable[[str, str], Journal] | None = None
    """The journal of a `sweep` or a `matrix` of this identity; None: none is kept."""
    snapshots: Snapshots | None = None
    """Copies of the servers' data; None where none can be made."""
    client_logs: ClientLogs | None = None
    """Where the `ledger` load's clients note what they do; None: nowhere."""
    workload_file: Callable[[str], tuple[str, str]] = _no_files
    """A user's workload by its path: where it is, from any directory, and its text, checked."""


@dataclass(slots=True)
class Member:
    """One node and the ways to it."""

    address: NodeAddress
    control: Sql
    """For statements that change something."""
    poll: Sql
    """For the poller alone."""
    kick: Sql
    """For the kick write, which waits under semi-sync."""
    meter: Sql
    """For the looks at what a failure would lose, which follow each other closely."""
    agent: Agent
    probed: Dialect | None = None
    """None until the server was asked what it is."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.address.name

    @property
    def dialect(self) -> Dialect:
        """How its server is asked; raises ServerUnreachable while it was never reached."""
        if self.probed is None:
            raise ServerUnreachable(f"{self.name} was not reached yet")
        return self.probed

    @property
    def capabilities(self) -> Capabilities | None:
        """What its server has; None until it was probed."""
        return None if self.probed is None else self.probed.capabilities

    @property
    def server_uuid(self) -> str | None:
        """Its server's own, which begins each GTID that it numbers; None where it has none, or was never
        reached."""
        return None if self.probed is None else self.probed.capabilities.server_uuid

    async def run(self, *statements: str, deadline_s: float = DEADLINE_S) -> None:
        """Run statements in order, each within the deadline; raises at the first that fails."""
        await execute(self.control, statements, deadline_s=deadline_s)

    async def executed(self) -> str:
        """GTID set of what its server has executed."""
        return await ask(self.control, self.dialect.executed)

    async def threads(self) -> Threads | None:
        """Its replication threads; None where none are configured."""
        return await ask(self.control, self.dialect.threads)

    async def close(self) -> None:
        """Close connections and bridge."""
        await asyncio.gather(
            self.control.close(),
            self.poll.close(),
            self.kick.close(),
            self.meter.close(),
            self.agent.close(),
            return_exceptions=True,
        )


@dataclass(slots=True)
class Fleet:
    """All members in the order of their names, and which of them is the source as last seen."""

    outside: Outside
    members: dict[str, Member] = field(default_factory=dict)
    credentials: Credentials | None = None
    keeper: SharedState = field(init=False)
    """What the stack keeps for all apps, through whichever member's agent answers."""
    _standings: dict[str, Standing] = field(default_factory=dict, init=False)
    """What was last seen of each node."""
    _source: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Make the keeper."""
        self.keeper = SharedState(self._agents, self.outside.clock)

    def can(self, ability: Ability) -> bool:
        """Whether that can be done with this stack's nodes."""
        return ability in self.outside.provider.abilities

    def need(self, ability: Ability) -> None:
        """Raise MissingPiece where this stack's nodes cannot do that."""
        if not self.can(ability):
            name = self.outside.provider.name
            raise MissingPiece(
                f"the servers of '{name}' cannot {ability.value} from here",
                "a stack that `replexplorer up` made can",
            )

    def carries_out(self, knob: Knob) -> bool:
        """Whether anything here can turn it."""
        if knob.restart is Restart.APPLIER and not self.can(Ability.RESTART_THREADS):
            return False
        return self.can(_CARRIED_BY[knob.backing])

    def server_process(self, node: str) -> ServerProcess:
        """The process of a node's server; raises StackUnavailable when there is no such node, MissingPiece
        where nobody here may stop servers."""
        self.need(Ability.STOP_SERVERS)
        return self.outside.provider.server_process(self.member(node).name)

    def _agents(self) -> list[Agent]:
        """Those first whose sidecar ran when it was last looked for: who is down is not waited for."""
        keepers = [member for member in self.members.values() if member.address.keeps]
        members = sorted(keepers, key=lambda member: not member.address.sidecar_running)
        return [member.agent for member in members]

    @property
    def source(self) -> Member:
        """The node that is the source now; raises StackUnavailable when no stack is attached."""
        return self.member(SOURCE)

    @property
    def source_name(self) -> str:
        """Its name; the first node's while nothing was looked at."""
        if self._source is not None and self._source in self.members:
            return self._source
        return next(iter(self.members), SOURCE)

    def saw(self, standing: Standing) -> None:
        """Take what a look has seen of a node, which may make another node the source."""
        self._standings[standing.name] = standing
        before = self.source_name
        first = self.members.get(before)
        if self.system.is_group and before not in self._standings and first and first.address.server_running:
            return  # where all take writes the first that is looked at would be it
        self._source = source_of([self.standing(name) for name in self.members], before)

    def standing(self, node: str) -> Standing:
        """The node's last sample, or an unreachable one."""
        return self._standings.get(node, Standing(node, reachable=False))

    def node_at(self, host: str) -> str:
        """The node of this name or address; of a host that is none of the stack's, the host."""
        if host in self.members:
            return host
        found = (
            name
            for name, member in self.members.items()
            if member.address.address == host or host in member.address.also
        )
        return next(found, host)

    def named(self, node: str) -> str:
        """The name of the node that a knob is set on, `SOURCE` included."""
        return self.source_name if node == SOURCE else node

    def member(self, node: str) -> Member:
        """A node by its name, or the `SOURCE`; raises StackUnavailable when it is not, or no more, there."""
        name = self.named(node)
        try:
            return self.members[name]
        except KeyError:
            raise StackUnavailable(
                f"there is no {name} in stack '{self.outside.provider.name}'", "run `replexplorer up`"
            ) from None

    def ends(self, link: str) -> tuple[Member, Member]:
        """The nodes of the link whose knobs stand here (`db2`, `db2:db3`), the one that they take for the
        primary first; raises StackUnavailable when one is not, or no more, there."""
        roster = self.roster
        pair = roster.link(link)
        begins = roster.begins(pair)
        one, other = ends_of(pair)
        return self.member(begins), self.member(other if one == begins else one)

    def connection(self, node: str) -> Sql:
        """A new connection to a node besides its member's own, which the caller closes; raises
        StackUnavailable when no stack is attached, or there is no such node."""
        return self.outside.sql(self.member(node).address, self.logins)

    @property
    def logins(self) -> Credentials:
        """The accounts of the stack; raises StackUnavailable when none is attached."""
        if self.credentials is None:
            raise StackUnavailable("no stack is attached", "run `replexplorer up`")
        return self.credentials

    @property
    def replicas(self) -> tuple[Member, ...]:
        """The others, in their order."""
        source = self.source_name
        return tuple(member for name, member in self.members.items() if name != source)

    @property
    def replica_names(self) -> tuple[str, ...]:
        """Names of the replicas."""
        return tuple(member.name for member in self.replicas)

    @property
    def roster(self) -> Roster:
        """The names, and which of them is the source."""
        return Roster(tuple(self.members), self.source_name, mesh=self.system.mesh)

    @property
    def system(self) -> System:
        """What the stack is; the default one while no node was found."""
        return system_of(next((member.address.system for member in self.members.values()), None))

    async def discover(self) -> None:
        """Ask the provider which nodes there are; members that stay keep their connections.

        A place that moved means new connections, and so do other passwords: then the stack is another
        one. The old members are replaced by the new ones at once. Raises NoSuchStack.
        """
        nodes, provider = await self.outside.provider.nodes(), self.outside.provider
        if not nodes:
            which = "" if provider.name == "default" else f" --stack {provider.name}"
            raise NoSuchStack(f"no stack '{provider.name}' runs here", f"run `replexplorer up{which}`")
        known = self.credentials
        logins = known
        if logins is None or any(self._is_new(node) for node in nodes):
            logins = await provider.credentials()
        before, members, is_same = self.members, dict[str, Member](), known in (None, logins)
        for node in nodes:
            if is_same and not self._is_new(node):
                members[node.name] = before[node.name]
                members[node.name].address = node
            else:
                control, poll, kick, meter = (self.outside.sql(node, logins) for _ in range(4))
                members[node.name] = Member(node, control, poll, kick, meter, self.outside.agent(node.name))
        self.members, self.credentials = members, logins
        if not is_same:
            self._standings, self._source = {}, None
        gone = (member for name, member in before.items() if members.get(name) is not member)
        await asyncio.gather(*(member.close() for member in gone))

    def _is_new(self, node: NodeAddress) -> bool:
        """Whether no connection that is known leads to this node."""
        member = self.members.get(node.name)
        return member is None or _place(member.address) != _place(node)

    async def open_bridges(self) -> None:
        """Reach all agents at once: a bridge takes as long as a process in a container takes to start. One
        that is away is asked again by whoever needs it."""
        if self.can(Ability.SHAPE_LINKS):
            asked = (member.agent.health() for member in self.members.values())
            await asyncio.gather(*asked, return_exceptions=True)

    async def close(self) -> None:
        """Give back what is held and close everything."""
        await self.keeper.close()
        members, self.members = self.members, {}
        await asyncio.gather(*(member.close() for member in members.values()))


def _place(node: NodeAddress) -> tuple[object, ...]:
    """What connections to it depend on."""
    return node.address, node.published_port, node.identity
