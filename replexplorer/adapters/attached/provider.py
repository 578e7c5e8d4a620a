"""A source and its replicas that somebody else made (`ports.Provider`): found, reached, never repaired.

Law: what a source says of its replicas is checked at each of them: one that does not follow this source is
none of its replicas, whoever listens at its address.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import product
from typing import Any, Final, NoReturn

from replexplorer.adapters.mysql import Address, ControlConnection, Tls
from replexplorer.core import wire
from replexplorer.core.dialect.attaching import (
    DUMPED_TO,
    FOLLOWED,
    REGISTERED,
    WHO,
    Identity,
)
from replexplorer.core.dialect.flavours import IDENTITY, MemberDialect, member_of
from replexplorer.core.errors import (
    MissingPiece,
    ReplexplorerError,
    ServerRefused,
    ServerUnreachable,
    UsageError,
)
from replexplorer.core.records import dataclass, field, frozen, replace
from replexplorer.core.system import ASYNC
from replexplorer.core.wire import Document, Held
from replexplorer.formats.server_url import PORT, ServerUrl, node_names
from replexplorer.ports import (
    Ability,
    Agent,
    Credentials,
    HostView,
    NodeAddress,
    ServerProcess,
    Sql,
    ask,
    ask_if_known,
)

_LOGIN_WITHIN_S: Final = 10.0
"""Across an ocean with TLS a login takes eight round trips."""
_FIND_WITHIN_S: Final = 4.0
"""How long an address that the source names may take."""


@frozen
class Login:
    """How one logs in, at all servers alike."""

    user: str
    password: str = field(repr=False)
    ssl_mode: str | None = None
    """One of `mysql.SSL_MODES`; None: verified but on the loopback, where it is used if the server has it."""
    ssl_ca: str | None = None

    def mode_at(self, host: str) -> str:
        """What holds at this host."""
        if self.ssl_mode is not None:
            return self.ssl_mode
        return "PREFERRED" if ServerUrl(host).is_loopback else "VERIFY_IDENTITY"


def connection_to(url: ServerUrl, name: str, login: Login) -> ControlConnection:
    """A connection that is not open yet, to a server that is known by this name."""
    address = Address(url.host, url.port, "direct")

    async def locate() -> Address:
        return address

    return ControlConnection(
        name,
        locate,
        url.user or login.user,
        login.password,
        connect_timeout_s=_LOGIN_WITHIN_S,
        tls=Tls(login.mode_at(url.host), login.ssl_ca),
    )


class AttachedProvider:
    """One source with its replicas."""

    def __init__(
        self, source: ServerUrl, replicas: Sequence[ServerUrl], login: Login, *, writes: bool
    ) -> None:
        self.name = source.place
        self.abilities = frozenset({Ability.WRITE} if writes else ())
        self.source = source
        self.login = login
        self.warnings: list[str] = []
        """What was found and is not as one would expect, in words."""
        self._named = list(replicas)
        self._nodes: list[NodeAddress] = []
        self._urls: dict[str, ServerUrl] = {}

    # -- finding

    async def nodes(self) -> Sequence[NodeAddress]:
        """As they were found the first time. Raises StackUnavailable where the source does not answer,
        UsageError for what is no source with replicas."""
        if not self._nodes:
            await self._find()
        return self._nodes

    async def _find(self) -> None:
        async with _connected(self.source, self.login) as source:
            try:
                variables = await ask(source, IDENTITY, deadline_s=_LOGIN_WITHIN_S)
            except ServerUnreachable as error:
                raise ServerUnreachable(error.message, error.hint or "check the address") from None
            member = member_of(variables)
            if member is not None and Ability.WRITE in self.abilities:
                raise UsageError(
                    f"{self.source.place} is a member of {member.system.title}, which is only watched",
                    "leave --allow-changes out",
                )
            identity = await ask(source, WHO)
            try:
                await ask(source, FOLLOWED)
            except ServerRefused as refused:  # an unknown state would look like a bad one
                raise MissingPiece(
                    f"replication cannot be seen at {refused.message}", "grant it to the account"
                ) from None
            group = None if member is None else await ask(source, member.group_name)
            urls = self._named or await self._listed(source, member)
        places, known, followed, failed = [self.source], {identity}, set[str](), dict[ServerUrl, str]()
        meeting = (self._meet(url, identity, member, group) for url in urls)
        for url, met in zip(urls, await asyncio.gather(*meeting), strict=True):
            if isinstance(met, str):
                failed[url] = met
            elif met[0] not in known:
                known.add(met[0])
                places.append(url)
                followed.add(met[1])
        if self._named or len(places) == 1:
            self.warnings += failed.values()
        if self._named:
            places += failed
        elif urls and len(places) == 1:
            other = "replica was" if member is None else "other member was"
            self.warnings.append(f"no {other} reached: --replica mysql://USER@HOST:PORT names one")
        self._urls = dict(zip(node_names(places), places, strict=True))
        self._nodes = [
            NodeAddress(
                name, True, False, url.host, url.port, None, None, url.place,
                (ASYNC if member is None else member.system).name,
                also=frozenset(followed - set(self._urls) if url is self.source else ()),
            )
            for name, url in self._urls.items()
        ]  # fmt: skip

    async def _meet(
        self, url: ServerUrl, source: Identity, member: type[MemberDialect] | None, group: str | None
    ) -> tuple[Identity, str] | str:
        """Who a replica of the source is, or a member of its group, and the host by which it was told to
        reach the source; in words why it is none."""
        async with _connected(url, self.login) as server:
            try:
                identity = await ask(server, WHO, deadline_s=_FIND_WITHIN_S)
                if identity == source:
                    return identity, url.host
                if member is not None:
                    is_ours = await ask(server, member.group_name) == group
                    return (identity, "") if is_ours else f"{url.place} is in another group"
                followed = await ask(server, FOLLOWED)
            except ReplexplorerError as error:
                return error.message if not error.hint else f"{error.message}: {error.hint}"
        # One that was never connected does not know the number of its source.
        if followed is None or (followed.server_id or source.server_id) != source.server_id:
            return f"{url.place} does not follow {self.source.place}"
        return identity, followed.host

    async def _listed(self, source: Sql, member: type[MemberDialect] | None) -> list[ServerUrl]:
        """Where the other members of a group may be, or a source's replicas, by what they say of themselves
        and by whom binlogs are sent to."""
        if member is not None:
            return [ServerUrl(place.host, place.port) for place in await ask(source, member.members)]
        registered = await ask_if_known(source, REGISTERED) or ()
        ports = [place.port for place in registered if not place.host] or [PORT]
        places = [(place.host, place.port) for place in registered if place.host]
        dumps = product(await ask_if_known(source, DUMPED_TO) or (), dict.fromkeys(ports))
        urls = [ServerUrl(host, port) for host, port in dict.fromkeys([*places, *dumps])]
        return [url for url in urls if self.source.is_loopback or not url.is_loopback]

    # -- what it knows of them

    def connection(self, node: NodeAddress) -> Sql:
        """A connection to a node that is not open yet."""
        return connection_to(self._urls[node.name], node.name, self.login)

    def url(self, node: str) -> ServerUrl:
        """Where a node is, and as whom one logs in there."""
        url = self._urls[node]
        return replace(url, user=url.user or self.login.user)

    # -- what a provider is

    async def credentials(self) -> Credentials:
        """The one account that there is."""
        return Credentials(self.login.user, self.login.password, self.login.user, self.login.password)

    async def hosts(self) -> Sequence[HostView]:
        """Nothing is known of the machines that they are on."""
        return ()

    async def server_age_s(self, node: str, *, ended: bool = False) -> float | None:
        """They were not started here."""
        return None

    def server_log(self, node: str) -> str:
        """Where its owner keeps it."""
        return f"the error log of {node}"

    async def _absent(self, *_: Any, **__: Any) -> NoReturn:
        """Raises MissingPiece."""
        raise MissingPiece(
            f"the servers of '{self.name}' were not made by this program",
            "run `replexplorer up` to make a stack",
        )

    up = shrink = keep_roles = down = _absent

    def server_process(self, node: str) -> ServerProcess:
        """Raises MissingPiece."""
        raise MissingPiece(
            f"{node} is started and stopped by its owner", "run `replexplorer up` to make a stack"
        )


@asynccontextmanager
async def _connected(url: ServerUrl, login: Login) -> AsyncIterator[Sql]:
    """A connection to one server for a few questions."""
    sql = connection_to(url, url.place, login)
    try:
        yield sql
    finally:
        await sql.close()


@dataclass(eq=False)
class NoSidecar(Agent):
    """What stands in for the agent of a node without a sidecar: no link, no disk, and what this app keeps for
    itself.

    Law: what it keeps, shared by all nodes of `kept`, is kept no longer than the process lives, because who
    ends has undone its changes, and what a killed one left is in its journal.
    """

    node: str
    _kept: dict[str, Document]

    async def ask(self, request: wire.Request[Any]) -> Any:
        """See `ports.Agent`; raises MissingPiece for what needs a sidecar."""
        now = self._kept.get("requested", Document(0, {}))
        match request:
            case wire.AskDocument():
                return now
            case wire.WriteDocument(content, expected):
                if expected != now.version:
                    return wire.Written(None)
                self._kept["requested"] = Document(expected + 1, dict(content))
                return wire.Written(self._kept["requested"])
            case wire.Take(wire.EXPERIMENT):
                raise MissingPiece(
                    "nothing is measured on servers that `up` did not make",
                    "run `replexplorer up` to make a stack",
                )
            case wire.Take(wire.LEASE, wish):  # these servers take no load
                return Held(replace(wish, holder="the servers' own clients"), ours=False)
            case wire.Take(_, wish):  # who changes these servers holds their journal
                return Held(wish, ours=True)
            case wire.AskHolder() | wire.Leave():
                return Held(None, ours=False)
        raise MissingPiece(
            f"no sidecar runs next to {self.node}", "links and disks are known in a stack that `up` made"
        )

    async def until_lost(self) -> None:
        """It never is: nothing is reached through it."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """There is nothing to close."""
