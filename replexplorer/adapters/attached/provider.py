"""A source and its replicas that somebody else made (`ports.Provider`): found, reached, never repaired.

Law: what a source says of its replicas is checked at each of them: one that does not follow this source is
none of its replicas, whoever listens at its address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, NoReturn, TypeVar

from replexplorer.adapters.mysql import Address, ControlConnection, Tls
from replexplorer.core import wire
from replexplorer.core.dialect.attaching import (
    DUMPED_TO,
    FOLLOWED,
    GROUP_OF,
    MEMBERS_OF,
    REGISTERED,
    WHO,
    Followed,
    Identity,
)
from replexplorer.core.dialect.dialect import system_of_server
from replexplorer.core.dialect.flavours import IDENTITY
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import (
    MissingPiece,
    ReplexplorerError,
    ServerRefused,
    ServerUnreachable,
    UsageError,
)
from replexplorer.core.system import System
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
)

T = TypeVar("T")
_LOGIN_WITHIN_S: Final = 10.0
"""Across an ocean with TLS a login takes eight round trips."""
_FIND_WITHIN_S: Final = 4.0
"""How long an address that the source names may take."""
_MOST_LEVELS: Final = 4
"""How far replicas of replicas are looked for."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Met:
    """A server that answered."""

    server_id: int
    followed: Followed | None
    """Whom it follows; None where it follows nobody."""


class Tree:
    """Servers by their addresses, each once, whatever addresses lead to it."""

    def __init__(self, source_id: int, source: ServerUrl) -> None:
        self.places: dict[ServerUrl, set[str]] = {source: set()}
        """In the order found, with the hosts by which its replicas were told to reach each."""
        self._by_id = {source_id: source}
        self._source = source

    def knows(self, met: Met) -> bool:
        """Whether it is one of those that are in it, at this or another address."""
        return met.server_id in self._by_id

    def take(self, url: ServerUrl, met: Met) -> bool:
        """Take a server that follows one of those that are in it; answers whether it does. One that was never
        connected does not know the number of its source, and is taken for a replica of the first one."""
        if met.followed is None or self.knows(met):
            return False
        parent = self._by_id.get(met.followed.server_id) if met.followed.server_id else self._source
        if parent is None:
            return False
        self.places[parent].add(met.followed.host)
        self.places.setdefault(url, set())
        self._by_id[met.server_id] = url
        return True


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
        async with _Asked(self.source, self.source.place, self.login) as source:
            try:
                variables = await source.ask(IDENTITY, within_s=_LOGIN_WITHIN_S)
            except ServerUnreachable as error:
                hint = error.hint or "check the address, the account and its password"
                raise ServerUnreachable(error.message, hint) from None
            system = system_of_server(variables)
            if system.is_group and Ability.WRITE in self.abilities:
                raise UsageError(
                    f"{self.source.place} is a member of {system.title}, which is only watched",
                    "leave --allow-changes out",
                )
            identity = await source.ask(WHO)
            try:
                await source.ask(FOLLOWED)
            except ServerRefused as refused:  # an unknown state would look like a bad one
                raise MissingPiece(
                    f"replication cannot be seen at {refused.message}", "grant it to the account"
                ) from None
        found = Tree(identity.server_id, self.source)
        if system.is_group:
            await self._meet_members(found, system)
        else:
            await self._meet_replicas(found)
        places = list(found.places)
        names = node_names(places)
        self._urls = dict(zip(names, places, strict=True))
        self._nodes = [
            NodeAddress(
                name, True, False, url.host, url.port, None, None, url.place, system.name,
                also=frozenset(found.places[url] - set(names)),
            )
            for name, url in self._urls.items()
        ]  # fmt: skip

    async def _meet_replicas(self, found: Tree) -> None:
        """Take the replicas that were named, else those that the source says it has, and theirs; but where
        settings may be changed its own alone: what it waits for says nothing of others. Of one that was named
        and does not answer, or follows none of them, that is said."""
        urls = self._named or await self._replicas_of(self.source)
        for level in range(_MOST_LEVELS):
            met = dict(zip(urls, await asyncio.gather(*map(self._meet, urls)), strict=True))
            left = {url: each for url, each in met.items() if isinstance(each, Met)}
            parents: list[ServerUrl] = []
            while taken := [url for url, each in left.items() if found.take(url, each)]:
                parents += taken
                left = {url: each for url, each in left.items() if url not in taken}
            failed = {url: each for url, each in met.items() if isinstance(each, str)}
            failed |= {
                url: f"{url.place} does not follow {self.source.place}"
                for url, each in left.items()
                if not found.knows(each)
            }
            if self._named or (not level and urls and not parents):
                self.warnings += failed.values()
            if self._named:
                found.places |= {url: set() for url in failed if url not in found.places}
            elif not level and urls and not parents:
                self.warnings.append("no replica was reached: --replica mysql://USER@HOST:PORT names one")
            if self._named or not parents or Ability.WRITE in self.abilities:
                return
            around = await asyncio.gather(*map(self._replicas_of, parents))
            urls = list(dict.fromkeys(url for each in around for url in each if url not in found.places))

    async def _meet_members(self, found: Tree, system: System) -> None:
        """Take the members of the source's group, those that were named or all that it knows. They may all
        have one server_id, so they are told apart by their machines' names as well."""
        async with _Asked(self.source, self.source.place, self.login) as source:
            identity = await source.ask(WHO)
            group = await source.ask(GROUP_OF[system.name])
            places = await source.ask(MEMBERS_OF[system.name])
        urls = self._named or [ServerUrl(place.host, place.port) for place in places]

        async def meet(url: ServerUrl) -> Identity | str:
            async with _Asked(url, url.place, self.login) as member:
                try:
                    theirs = await member.ask(WHO, within_s=_FIND_WITHIN_S)
                    same = await member.ask(GROUP_OF[system.name]) == group
                except ReplexplorerError as error:
                    return error.message if not error.hint else f"{error.message}: {error.hint}"
            return theirs if same else f"{url.place} is no member of the group of {self.source.place}"

        known = {(identity.server_id, identity.hostname)}
        for url, met in zip(urls, await asyncio.gather(*map(meet, urls)), strict=True):
            if isinstance(met, str):
                self.warnings.append(met)
            elif (met.server_id, met.hostname) not in known:
                known.add((met.server_id, met.hostname))
                found.places.setdefault(url, set())
        if len(found.places) == 1:
            self.warnings.append("no other member was reached: --replica mysql://USER@HOST:PORT names one")

    async def _replicas_of(self, parent: ServerUrl) -> list[ServerUrl]:
        """Where a server's replicas may be, by what they say, and by whom binlogs are sent to; nowhere for
        one that does not answer any more."""
        async with _Asked(parent, parent.place, self.login) as source:
            try:
                registered = await source.known(REGISTERED) or ()
                dumps = await source.known(DUMPED_TO) or ()
            except ReplexplorerError:
                return []
        ports = [place.port for place in registered if not place.host] or [PORT]
        places = [(place.host, place.port) for place in registered if place.host]
        places += [each for each in product(dumps, dict.fromkeys(ports)) if each not in places]
        urls = [ServerUrl(host, port) for host, port in places]
        return [url for url in urls if self.source.is_loopback or not url.is_loopback]

    async def _meet(self, url: ServerUrl) -> Met | str:
        """What a server is that may be a replica; in words where it does not answer."""
        async with _Asked(url, url.place, self.login) as replica:
            try:
                identity = await replica.ask(WHO, within_s=_FIND_WITHIN_S)
                followed = await replica.ask(FOLLOWED)
            except ReplexplorerError as error:
                return error.message if not error.hint else f"{error.message}: {error.hint}"
        return Met(identity.server_id, followed)

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

    async def outdated(self) -> str | None:
        """They are as their owner made them."""
        return None

    async def server_age_s(self, node: str, *, ended: bool = False) -> float | None:
        """Nobody here started them."""
        return None

    def server_log(self, node: str) -> str:
        """Where its owner keeps it."""
        return f"the error log of {node}"

    async def _absent(self, *_: Any, **__: Any) -> NoReturn:
        """Raises MissingPiece."""
        raise MissingPiece(
            f"the servers of '{self.name}' were not made by this program",
            "`replexplorer up` makes a stack",
        )

    up = shrink = keep_roles = down = open_bridge = _absent

    def server_process(self, node: str) -> ServerProcess:
        """Raises MissingPiece."""
        raise MissingPiece(f"{node} is started and stopped by its owner", "`replexplorer up` makes a stack")


class _Asked:
    """A connection to one server for a few questions, as a context."""

    def __init__(self, url: ServerUrl, name: str, login: Login) -> None:
        self._sql = connection_to(url, name, login)

    async def __aenter__(self) -> _Asked:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sql.close()

    async def ask(self, question: Question[T], *, within_s: float = 5.0) -> T:
        """The answer, asked the other way where the server refuses the first."""
        try:
            rows = await self._sql.query(question.statement, question.arguments, deadline_s=within_s)
        except ServerRefused:
            if question.instead is None:
                raise
            return await self.ask(question.instead, within_s=within_s)
        return question.answer(rows, self._sql.node)

    async def known(self, question: Question[T]) -> T | None:
        """The answer; None where the account may not ask, or the server does not know."""
        try:
            return await self.ask(question)
        except ServerRefused:
            return None


class NoSidecar(Agent):
    """What stands in for the agent of a node without a sidecar: no link, no disk, and what this app keeps for
    itself.

    Law: what it keeps, shared by all nodes of `kept`, is kept no longer than the process lives, because who
    ends has undone its changes, and what a killed one left stands in its journal.
    """

    def __init__(self, node: str, kept: dict[str, Document]) -> None:
        self.node = node
        self._kept = kept

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
                    "nothing is measured on servers that `up` did not make", "`replexplorer up` makes a stack"
                )
            case wire.Take(wire.LEASE, wish):  # these servers take no load
                return Held(replace(wish, holder="the servers' own clients"), ours=False)
            case wire.Take(_, wish):  # who changes these servers holds their journal
                return Held(wish, ours=True)
            case wire.AskHolder() | wire.Leave():
                return Held(None, ours=False)
        raise MissingPiece(
            f"no sidecar stands beside {self.node}", "links and disks are known in a stack that `up` made"
        )

    async def until_lost(self) -> None:
        """It never is: nothing is reached through it."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """There is nothing to close."""
