"""What the engine needs from the outside, as protocols; the adapters are these.

Every call may raise a ReplexplorerError and nothing else that a caller has to know. A cancelled
call leaves the old state or the new one, never a half one.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from replexplorer.core import wire
from replexplorer.core.errors import ServerRefused
from replexplorer.core.json_keys import json_keys
from replexplorer.core.load.pacing import CLOSED, POISSON
from replexplorer.core.machine import ServerLimits
from replexplorer.core.records import field, frozen
from replexplorer.core.system import DEFAULT
from replexplorer.core.wire import (
    DiskState,
    Document,
    Experiment,
    Flap,
    Health,
    Lease,
    LinkState,
    Request,
    Shape,
)

if TYPE_CHECKING:
    from replexplorer.core.dialect.question import Question, Row
    from replexplorer.core.load.interval import Interval
    from replexplorer.core.loss.client_log import RunLog
    from replexplorer.core.role_change import BootRoles
    from replexplorer.core.server.counters import CpuUsed
    from replexplorer.core.tick import Tick

Answered = TypeVar("Answered")
T = TypeVar("T")
DEADLINE_S: Final = 5.0
"""Of a question."""


class Clock(Protocol):
    """Time, so that tests can own it."""

    def monotonic(self) -> float:
        """Seconds that never go back (CLOCK_MONOTONIC: the same in all processes of a host)."""

    def wall(self) -> float:
        """Seconds since 1970, UTC."""

    async def sleep(self, seconds: float) -> None:
        """Return after this many seconds."""


class Sql(Protocol):
    """One control connection to one server; it reconnects when a call finds it lost.

    Calls queue on a lock. A statement's error is ServerRefused with MySQL's number; a lost or
    refused connection is ServerUnreachable. `deadline_s` bounds the call; past it, or when the
    call is cancelled, the connection is closed and the next call opens a new one.
    """

    node: str

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """Run a statement and answer its rows (none for a statement without a result)."""

    async def close(self) -> None:
        """Close the connection; a later call opens it again."""


async def ask(sql: Sql, question: Question[T], *, deadline_s: float = DEADLINE_S) -> T:
    """The answer; what the server refuses is asked the other way that the question has, if any.

    Raises ServerRefused when no way is left, ServerUnreachable as `ports.Sql` does.
    """
    while True:
        try:
            rows = await sql.query(question.statement, question.arguments, deadline_s=deadline_s)
        except ServerRefused:
            if question.instead is None:
                raise
            question = question.instead
        else:
            return question.answer(rows, sql.node)


async def ask_if_known(sql: Sql, question: Question[T], *, deadline_s: float = DEADLINE_S) -> T | None:
    """The answer; None where the server refuses the question because it lacks what is asked."""
    try:
        return await ask(sql, question, deadline_s=deadline_s)
    except ServerRefused:
        return None


async def execute(sql: Sql, statements: Iterable[str], *, deadline_s: float = DEADLINE_S) -> None:
    """Run statements in order, each within the deadline; raises at the first that fails."""
    for statement in statements:
        await sql.query(statement, deadline_s=deadline_s)


class Ability(Enum):
    """What can be done with a stack's nodes besides asking their servers; the value says it in words."""

    OWN = "be made, repaired and removed"
    WRITE = "have their settings changed"
    SHAPE_LINKS = "have their links shaped"
    DELAY_FSYNC = "have their fsyncs delayed"
    STOP_SERVERS = "have their servers stopped and started"
    SCALE = "become more or fewer"
    TAKE_ROWS = "take rows of the program's own"
    """A load, a heartbeat, a test commit."""
    RESTART_THREADS = "have their replication threads restarted"


@frozen
class NodeAddress:
    """Where one node's server is, as its provider knows it."""

    name: str
    """`db1`, `db2`, ..."""
    server_running: bool
    """Its mysqld runs, and is not frozen."""
    sidecar_running: bool
    address: str | None
    """Its own IPv4 address, by which the other nodes reach it."""
    port: int
    """Of its server at that address."""
    published_host: str | None
    """Where the server answers to who does not reach that address; None: nowhere else."""
    published_port: int | None
    identity: str = ""
    """Another one when the node was recreated, though name and address are the same."""
    system: str = DEFAULT
    """What its stack is (`core.system.SYSTEMS`)."""
    machine: str | None = None
    """The host that it is on, as `up --on` was told; None: this one."""
    keeps: bool = True
    """Its agent keeps what all apps of the stack share (`Agent`)."""
    also: frozenset[str] = frozenset()
    """Further hosts that are this node: how its replicas were told to reach it."""


@json_keys(show="clock_apart_ms")
@frozen
class HostView:
    """One of the hosts that a stack's nodes are on, as it was just seen."""

    name: str
    """As `up --on` was told."""
    nodes: tuple[str, ...]
    fault: str | None = None
    """Why it cannot be asked; None while it answers."""
    manages: bool | None = None
    """It is a manager of the swarm; None while it does not answer."""
    keeps: bool = False
    """What all apps of the stack share is kept here."""
    clock_ms: float | None = None
    """How far its clock is ahead of this machine's; None while no sidecar there can be asked."""
    clock_within_ms: float | None = None
    """How far off that may be: half of the round trip by which it was asked."""

    @property
    def clock_apart_ms(self) -> float | None:
        """How far the clocks are apart at least: the round trip explains the rest; None while unknown."""
        if self.clock_ms is None or self.clock_within_ms is None:
            return None
        return max(0.0, abs(self.clock_ms) - self.clock_within_ms)


@frozen
class Credentials:
    """Names and passwords of one stack's accounts; `repr` and `str` hide the passwords."""

    control_user: str
    control_password: str = field(repr=False)
    """The app's own account on every node: all privileges that the engine needs."""
    dsn_user: str
    dsn_password: str = field(repr=False)
    """The account that `dsn` hands out and that the load uses."""
    replication_user: str = ""
    replication_password: str = field(default="", repr=False)
    """The account by which a replica logs in to its source."""


@frozen
class UpOptions:
    """What `up` was asked for; None keeps what a live stack has."""

    replicas: int | None = None
    image: str | None = None
    """Any image that has a server; None: the program's own of that flavour."""
    flavor: str | None = None
    """mysql or mariadb."""
    system: str | None = None
    """How its nodes keep the same rows (`core.system.SYSTEMS`)."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    """What each server of a new stack may take."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """The host of each node by its name, where they are on several (`unix:///path`, `tcp://...`, a context's
    name)."""


class Reporter(Protocol):
    """Hears how long work goes on."""

    def __call__(self, text: str, done: float | None = None, /) -> None:
        """What is done now, in the present tense (`building the MySQL image`), and 0..1 when it is known."""


class Provider(Protocol):
    """Where one stack lives: what makes and removes its nodes and reaches them."""

    name: str
    """Of the stack."""
    abilities: frozenset[Ability]
    """What it can do; what is missing here is refused by name before anything is asked of it."""

    async def nodes(self) -> Sequence[NodeAddress]:
        """The nodes in order; empty when there is no such stack."""

    async def up(self, options: UpOptions, report: Reporter) -> bool:
        """Make what is missing, create or repair until every node runs; idempotent.

        Answers whether the stack was created by this call. Does not wait for the servers.
        """

    async def shrink(self, replicas: int) -> None:
        """Remove the replicas behind the first n, with their data."""

    async def keep_roles(self, roles: BootRoles) -> None:
        """Let the stack's servers be this whenever they start from now on, those included that do not run;
        what runs is not changed. Kept by the stack when this returns."""

    async def down(self, report: Reporter | None = None) -> int:
        """Remove all that carries this stack's label; answers how many things went. Waits, and reports it,
        while another `up` or `down` works on it."""

    async def hosts(self) -> Sequence[HostView]:
        """The hosts that its nodes are on, asked now; none where all are on this machine."""

    async def credentials(self) -> Credentials:
        """The stack's accounts; StackUnavailable when the file is lost or another user's."""

    async def server_age_s(self, node: str, *, ended: bool = False) -> float | None:
        """How long ago that node's server was started, or made if it never was; None where it has ended,
        unless that is asked for."""

    def server_process(self, node: str) -> ServerProcess:
        """The process of that node's server."""

    def server_log(self, node: str) -> str:
        """How somebody reads the log of that node's server, as a command."""


class Snapshots(Protocol):
    """Copies of the data of all servers of one stack, which go with it. The servers have ended meanwhile.

    Raises StackUnavailable where there is no room; then nothing is changed.
    """

    async def save_data(self) -> tuple[str, int]:
        """Make a copy; answers its name and how many bytes it takes."""

    async def restore_data(self, copy: str, mark: str) -> None:
        """Give every server the data that it had in this copy. Whoever is killed meanwhile leaves the rest to
        `Provider.up`, before which no server starts."""

    async def was_restored(self, mark: str) -> bool:
        """Whether the restore of this mark was done, by whoever it was, since copies were last kept."""

    async def keep_data(self, copies: Collection[str]) -> None:
        """Remove all copies but these, and forget which restores were done."""


class ServerProcess(Protocol):
    """One node's mysqld as the machine sees it: what a fault does to it, and what takes that back.

    Each call returns when the process is as asked, and does nothing where it is so already. The node keeps
    its address, its link and its data. Raises StackUnavailable where there is no such process.
    """

    async def kill(self) -> None:
        """End it with SIGKILL, also while it is frozen; what it had not written is lost to it."""

    async def stop(self) -> None:
        """Let it shut down; one that takes longer than a minute is killed. One that is frozen goes on
        first."""

    async def lose_unsynced(self, mode: str) -> tuple[str, ...]:
        """Roll the files of one that was killed back to what a power cut would have left of them (`strict`,
        `aged` or `torn`; compose/sidecar/powercut.py); answers which lost anything, in words. Raises
        StackUnavailable where it runs, or no undo journal was kept."""

    async def pause(self) -> None:
        """Freeze it: its connections stay open and nothing answers. Raises StackUnavailable where it does
        not run."""

    async def start(self) -> None:
        """Start it where it has ended; one that is frozen goes on. Does not wait for its first login."""

    async def log(self) -> Sequence[tuple[float, str]]:
        """The newest lines that it has written since it was started, each with its moment in seconds since
        1970, in order; a thousand at most."""

    async def stored_view(self) -> int | None:
        """The number of the last view of its Galera cluster that had a majority, as its data say; None where
        they say none, as after a clean stop."""

    async def cpu(self) -> CpuUsed | None:
        """What CPU it has used since it was started, its children included; None if not counted
        here. Raises StackUnavailable where it does not run."""


class Bridge(Protocol):
    """Lines of text to and from an agent."""

    def send(self, line: str) -> None:
        """One line, without its newline, which is on its way whole when this returns."""

    def lines(self) -> AsyncIterator[str]:
        """Lines as they come, until the other side ends."""

    async def close(self) -> None:
        """End the process's stdin, which ends it."""


class SharedPlaces(ABC):
    """What all apps of a stack share: the requested document, and who drives, changes and measures. An agent
    keeps it, or whichever agent of a stack answers.

    Who died holding something loses it seconds later; until then a taker waits, so that nobody comes in
    between when an app only lost its way to the stack.
    """

    @abstractmethod
    async def ask(self, request: Request[Answered]) -> Answered:
        """What answers a request."""

    async def document(self) -> Document:
        """The requested document."""
        return await self.ask(wire.AskDocument())

    async def write_document(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """Compare and set; None when somebody else wrote meanwhile. A bridge lost midway is an error: whether
        it was written, `document` says."""
        return (await self.ask(wire.WriteDocument(dict(content), expect_version))).document

    async def take_lease(
        self,
        holder: str,
        *,
        load: Mapping[str, int | float | str] | None = None,
        selected: str | None = None,
    ) -> Lease | None:
        """Take the driver's lease, or say again which `load` is driven (its knobs by key) and which knob
        is `selected`; None when it is ours now, else the holder that has it."""
        driven = None if load is None else dict(load)
        wish = Lease(holder, os.getpid(), socket.gethostname(), driven, selected)
        return cast(Lease | None, await self._take(wire.Take(wire.LEASE, wish)))

    async def lease(self) -> Lease | None:
        """Who drives now."""
        return cast(Lease | None, (await self.ask(wire.AskHolder(wire.LEASE))).holder)

    async def take_turn(
        self, holder: str, *, within_s: float, anyway: bool = False
    ) -> Lease | Experiment | None:
        """Wait for our turn to change knobs: None when it is ours, else who has it still, or at once
        another's experiment that runs, unless `anyway`."""
        wish = Lease(holder, os.getpid(), socket.gethostname())
        return await self._take(wire.Take(wire.TURN, wish, within_s, anyway))

    async def begin_experiment(self, kind: str, name: str, holder: str) -> Experiment | None:
        """Refuse turns to all others from now on: None when that is so, else whose experiment runs already;
        harmless twice."""
        wish = Experiment(kind, name, holder, os.getpid(), socket.gethostname())
        return cast(Experiment | None, await self._take(wire.Take(wire.EXPERIMENT, wish)))

    async def leave(self, place: wire.Place) -> None:
        """Give the lease, our turn or our waiting for it, or our experiment back; nothing when it is not
        ours."""
        await self.ask(wire.Leave(place))

    async def _take(self, wish: wire.Take) -> Lease | Experiment | None:
        found = await self.ask(wish)
        return None if found.ours else found.holder


class Agent(SharedPlaces):
    """What can be asked of the agent in one node's sidecar; it reconnects its bridge when a call finds it
    gone. What was taken through one may be released through another."""

    node: str

    @abstractmethod
    async def until_lost(self) -> None:
        """Return when the bridge in use has ended, at once when there is none."""

    @abstractmethod
    async def close(self) -> None:
        """End the bridge; what was taken through it is lost some seconds later."""

    async def link(self, peer: str, *, anew: bool = False) -> LinkState:
        """The state of the link to a peer; `anew` forgets what was measured until now."""
        return await self.ask(wire.AskLink(peer, anew))

    async def set_link(self, peer: str, address: str, shape: Shape) -> LinkState:
        """Shape this side of the link to the peer; the default shape removes the rule.

        Returns when the rule is in force; the probe's window starts afresh.
        """
        return await self.ask(wire.SetLink(peer, address, shape))

    async def set_flap(self, peer: str, address: str, flap: Flap | None) -> LinkState:
        """Let this side of the link go down and up by the clock until another flap, or None, is set; the
        shape stays. Returns when that is in force; the probe's window starts afresh."""
        return await self.ask(wire.SetFlap(peer, address, flap))

    async def disk(self, *, probe: bool = False) -> DiskState:
        """The node's disk; `probe` writes to it first (1,000 synchronous writes, 5 s at most)."""
        return await self.ask(wire.AskDisk(probe))

    async def watch(self, peer: str, address: str) -> LinkState:
        """Probe the peer from now on; measures the base path first when no delay is in force."""
        return await self.ask(wire.Watch(peer, address))

    async def health(self, *, footprint: bool = False) -> Health:
        """How the agent is, its machine, packets under rules, disk facts."""
        return await self.ask(wire.AskHealth(footprint))


@frozen
class LoadTarget:
    """Where the load connects, and as whom."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    path: str
    """`direct` or `published`, for the report."""
    readers: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Host and port of each node, by name: where sessions look for the rows of the `ledger` load."""
    tracking: str | None = None
    """The statement after which each reply to a commit carries its GTID; None: none is to."""


@frozen
class LoadSettings:
    """What the load is to do; each field can change while it runs."""

    clients: int
    workload: str
    """A built-in one, or with a `script` the name of the user's file."""
    table_size: int = 10_000
    fresh_sessions: int = 0
    """Raise it by one to make every client reconnect (a session-scoped variable changed)."""
    rows_bound: int = 2_000_000
    """Insert workloads truncate their table at this many rows (counted once an interval)."""
    mode: str = CLOSED
    """`closed` or `open`."""
    rate_tps: float = 500.0
    """Arrivals per second in the open loop."""
    spacing: str = POISSON
    """`poisson` or `even`: how they are spaced."""
    key_spread: int = 0
    """Rows that keys are drawn from, all equally likely; 0: the whole table, as sysbench draws."""
    payload_bytes: int = 0
    """Written beside sysbench's own columns by each INSERT and UPDATE."""
    script: str | None = None
    """The text of a user's file instead of a built-in workload."""
    ledger: str | None = None
    """The directory of a run's client logs (`ClientLogs.new_run`), for the workload `ledger` alone. Who
    keeps it goes on in that run."""
    ledger_file: int | None = None
    """Which file of that run this process writes, in a directory that nobody made yet; None: the next."""
    processes: int = 0
    """Generator processes, as they were when the load was started; 0: as many as the load is worth."""


class LoadProcess(Protocol):
    """The load's own process."""

    async def spawn(self) -> None:
        """Start the bare process, so that `start` has less to wait for; harmless twice."""

    async def start(self, target: LoadTarget, settings: LoadSettings, *, interval_s: float) -> None:
        """Start the process, prepare the table, begin; returns when the first client commits or
        at once when 0 clients are asked; raises ReplexplorerError when the table cannot be prepared."""

    async def change(self, settings: LoadSettings) -> None:
        """Change the running load; clients that stay keep their connections.

        Returns when every client that stays or comes runs with the new settings (after its commit
        under way) or waits for the primary; raises ReplexplorerError when a table cannot be
        prepared, and the load goes on as before.
        """

    async def move(self, target: LoadTarget) -> None:
        """Go on at another server, from the next transaction of each client on. A commit that the one of
        before does not answer soon is given up, and counted as unknown."""

    async def drain(self) -> None:
        """Let no more arrivals come, serve those that wait, report what that made; then nothing runs
        until the next change. A closed loop ends after the transactions under way."""

    def intervals(self) -> AsyncIterator[Interval]:
        """An interval each `interval_s`, merged over all generator processes, until it ends."""

    async def stop(self) -> None:
        """End it; waits for commits under way at most 1 s."""


class ClientLogs(Protocol):
    """The client logs of one stack's `ledger` loads (core/loss). Raises MissingPiece naming what cannot be
    made or read."""

    async def new_run(self, claim: Callable[[int], Awaitable[int]]) -> str:
        """A new directory for the logs of a run, which no load has had; the oldest runs' go. `claim` answers
        its number: this one or a later one, which no other load of the stack gets."""

    def newest(self) -> str | None:
        """The directory of the last run; None where there was none."""

    async def read(self, run: str) -> RunLog:
        """All that the logs in this directory say now; raises UsageError if one is not a client log."""


class Recorder(Protocol):
    """A session file that is being written; what a call has answered for survives a kill."""

    file: str
    """Where it is."""

    async def open(self, about: Mapping[str, str]) -> None:
        """Make it, with facts about the session."""

    async def write(self, ticks: Sequence[Tick]) -> None:
        """Add ticks, in order."""

    def past(self) -> Iterator[Tick]:
        """What is in it so far, in order; raises UsageError where that cannot be read."""

    async def close(self) -> None:
        """Close it; harmless twice."""

    async def discard(self) -> None:
        """Close it and leave no file."""


class Journal(Protocol):
    """What a sweep or a matrix has done so far, kept so that a kill loses one run at most.

    Raises UsageError naming the file when it cannot be read or written.
    """

    async def read(self) -> Sequence[Mapping[str, Any]]:
        """The entries in order, the head first; none when nothing is unfinished."""

    async def begin(self, head: Mapping[str, Any]) -> None:
        """Start over with this head; what there was is forgotten."""

    async def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry; on the disk when this returns."""

    async def set_aside(self) -> str | None:
        """It is finished: keep it under another name, which is answered."""
