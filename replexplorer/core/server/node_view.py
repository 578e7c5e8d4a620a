"""One server, as far as it is known.

A group as its members see it: who takes part, whether a majority answers, what waits and what was refused.

Law: each figure is one member's own; two members may differ, and one that is cut off does not know it yet.
A group is protected while a member that takes writes has a majority: a commit is confirmed only when most
members have it. What nobody says is None.

What is not as it should be on the replicas, and what happened to their threads, in words.

Law: what is unknown is not a problem; a replica that refuses logins has that one problem.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from replexplorer.core.event import Severity
from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import dataclass, frozen
from replexplorer.core.server.counters import Binlogs, grown
from replexplorer.core.server.gtid import subtract_gtids, transactions
from replexplorer.core.server.protection import Protection, ProtectionState, meaning_of, word_of
from replexplorer.core.server.truth import ReplicaTruth, ServerTruth
from replexplorer.core.system import System
from replexplorer.core.text import command
from replexplorer.core.topology import Belonging, Role


@json_keys(hide="belongs state", show="is_ready", is_ready="in_majority")
@frozen
class Membership:
    """One node's view of its group at one look."""

    belongs: Belonging
    state: str
    """In the server's word: ONLINE, RECOVERING, Synced, ..."""
    size: int | None = None
    """Members in its view, those that do not answer it included."""
    answering: int | None = None
    """Of these, how many answer it, itself counted; None where it does not say."""
    view: str | None = None
    """Names the view: another one after each change of members."""
    queued: int | None = None
    """Transactions that wait here to be certified."""
    to_apply: int | None = None
    """Transactions of other members that wait here to be applied."""
    conflicts: int | None = None
    """Transactions that certification refused, since this node became a member: its own, or those of all
    members (`System.counts_alike`)."""
    gave_way: int | None = None
    """Its own transactions that were rolled back for one of another member before they were certified."""
    certified: int | None = None
    """Transactions that were checked, since then."""
    held_ms: float | None = None
    """How long flow control has held commits back here, in all, since the server's start."""
    holds: int | None = None
    """Commits that it held back."""

    @property
    def is_ready(self) -> bool:
        """It takes part and has all that the others have."""
        return self.belongs is Belonging.MEMBER


@frozen
class Conflicts:
    """Transactions of a group that lost against one of another member that changed the same row."""

    refused: int | None = None
    """By certification; None where no member says."""
    gave_way: int | None = None
    """Rolled back before that, as the other's was applied; None where the servers do not count them."""

    def since(self, before: Conflicts) -> Conflicts:
        """Those that came after `before`; unknown where a member's count began again meanwhile."""
        return Conflicts(
            grown(before.refused, self.refused),
            grown(before.gave_way, self.gave_way),
        )


def conflicts_of(system: System, members: Iterable[Membership | None]) -> Conflicts:
    """What has been lost in all, by what each node says: members that count alike have each counted all."""
    told = [each for each in members if each is not None]
    refused = [each.conflicts for each in told if each.conflicts is not None]
    gave_way = [each.gave_way for each in told if each.gave_way is not None]
    together = max if system.counts_alike else sum
    return Conflicts(together(refused) if refused else None, sum(gave_way) if gave_way else None)


def majority_of(size: int) -> int:
    """How many members of a group of this size are a majority."""
    return size // 2 + 1


def judge_group(
    system: System,
    members: Mapping[str, Membership | None],
    writers: Collection[str],
    *,
    requested_size: int,
) -> Protection:
    """The protection state of a group from what each node that answers says of it; `writers` take writes.

    `protected`: a majority of the members answers, and one of them takes writes; `blocked`: it does not, no
    node is a member, or none is elected yet; `down`: no node answers. Acknowledgements are those of the other
    members that can be reached: as many are needed as the system waits for, a member that is gone among them
    until the others' view is without it.
    """
    if not members:
        return Protection(ProtectionState.DOWN, requested=True, by_majority=True)
    quorate = {name: each for name, each in members.items() if each is not None and each.is_ready}
    best = max(quorate.values(), key=lambda each: each.answering or each.size or 0, default=None)
    size = best.size if best is not None and best.size else requested_size
    answering = len(quorate) if best is None or best.answering is None else best.answering
    takes = any(name in writers for name in quorate)
    return Protection(
        ProtectionState.PROTECTED if takes else ProtectionState.BLOCKED,
        requested=True,
        operational=bool(quorate),
        replicas_acking=max(0, min(answering, len(quorate)) - 1),
        replicas_required=system.others_needed(size),
        by_majority=True,
    )


_SEVERITIES: Final = {Belonging.MEMBER: Severity.GOOD, Belonging.JOINING: Severity.INFO}
"""Of how a member stands to its group now; else it is bad."""


def member_news(node: str, before: Membership | None, now: Membership | None) -> list[tuple[Severity, str]]:
    """What a node says of its group that it did not say when it last said anything, in words."""
    told: list[tuple[Severity, str]] = []
    if now is None or before is None:
        return told
    if now.state != before.state or now.belongs is not before.belongs:
        words = now.state
        if now.belongs is Belonging.CUT_OFF:
            heard = "" if now.answering is None else f": {now.answering} of {now.size}"
            words += f", and no majority answers{heard}"
        told.append((_SEVERITIES.get(now.belongs, Severity.BAD), f"{node}: {words}"))
    if now.is_ready and before.size != now.size and now.size is not None:
        severity = Severity.WARN if now.size < (before.size or 0) else Severity.INFO
        told.append((severity, f"{node} sees a group of {now.size}"))
    return told


@frozen
class ThreadError:
    """The last error of a replication thread, by the server's number and in its words."""

    number: int
    """The server's; null: none."""
    text: str
    """In the server's words; null: none."""


@json_keys(
    hide="published_host restarted_s io_error sql_error applier",
    show="last_io_error=io_error.text last_io_errno=io_error.number last_sql_error=sql_error.text"
    " last_sql_errno=sql_error.number queued=applier.queued applied_tps=applier.applied_tps"
    " drain_s=applier.drain_s workers=applier.workers",
    follows="source",
)
@frozen
class NodeView:
    """One server, as far as it is known."""

    name: str
    role: str
    """What it was seen to be: primary, replica, secondary (of a group), joining, detached or down."""
    reachable: bool
    host: str | None = None
    port: int | None = None
    published_host: str | None = None
    """Where it answers to who does not reach `host`."""
    published_port: int | None = None
    path: str | None = None
    """`direct` (the node's own address), `published` or `tunnel` (a way that its provider opens for each
    connection): which of them the app uses."""
    machine: str | None = None
    """The host that it is on, as `up --on` was told; None: this one."""
    flavor: str | None = None
    version: str | None = None
    server_uuid: str | None = None
    gtid_executed: str | None = None
    retrieved_gtids: str | None = None
    """Transactions that a replica has received; of MariaDB the position that it has read to."""
    missing_gtids: str | None = None
    """On a replica: transactions that the source had executed a moment before and it has not, empty for none;
    None unknown."""
    errant_gtids: str | None = None
    """On a replica: transactions that it has executed and the primary lacks, empty for none; None
    unknown."""
    diverged: str | None = None
    """Why its rows may not be the source's, and the remedy (`diverged_words`); None: nothing says so."""
    io_thread: str | None = None
    """on, off, connecting, error; None for a primary."""
    sql_thread: str | None = None
    lag_s: float | None = None
    restarted_s: float | None = None
    """When it was last seen to have restarted, on the session's clock; None: not in this session."""
    io_error: ThreadError | None = None
    """Why its IO thread does not run, or not reach the source; None while it has none."""
    sql_error: ThreadError | None = None
    follows: str | None = None
    """The node that it replicates from, as it was configured; None: from none, or that is not known."""
    state: str | None = None
    """What the server calls its membership in a group (ONLINE, RECOVERING, ...); None of one in none."""
    member: Membership | None = None
    """What it says of its group; None of one in none."""
    why_down: str | None = None
    """Of one that no login reaches: what of it has ended, as its machine says; None: nothing, or unknown."""
    is_source: bool = False
    """The others follow it, or did when it was last seen: a source that is down still is it."""
    applier: ReplicaTruth | None = None
    """What it has to apply and how fast it does, at one look; a tick's is in its truth."""
    received_to: str | None = None
    """Where in its source's binlogs it has received to, `binlog.000003:1234`; never in a tick, nor are the
    following ones."""
    applied_to: str | None = None
    """Where in them it has applied to."""
    binlogs: Binlogs | None = None
    """Its own; None unknown."""

    @property
    def replication_fault(self) -> str | None:
        """Why a thread of it does not run, in the server's words, the applier's before the IO thread's."""
        error = self.sql_error or self.io_error
        return None if error is None else error.text


LATE_S: Final = 3.0
"""So far behind a replica is a trouble."""
SETTLED_S: Final = 1.0
"""Below this one that was is none any more: between the two nothing comes and goes."""
_ARRIVED: Final = "acknowledgements lost: a waiting commit is here already"
_STATES: Final = {"off": "stopped", "connecting": "connecting", "error": "error"}
_FOR_SURE: Final = 2
"""Looks in a row that must see the same before it is reported: a change restarts threads for a moment."""


@frozen
class Trouble:
    """What is wrong with one replica."""

    replica: str
    words: tuple[str, ...]
    """`SQL thread stopped`, `12 s behind`."""
    is_failure: bool = False
    """It is down, has other rows than the source, or a thread ended with an error."""
    can_be_repaired: bool = False
    """A server or a stopped thread that a repair starts again."""
    why: str | None = None
    """What differs and the remedy, or the server's own words of a thread's error."""


def troubles(
    nodes: Sequence[NodeView],
    truth: ServerTruth | None,
    late_s: float = LATE_S,
    acks_lost: Collection[str] = (),
) -> tuple[Trouble, ...]:
    """One for each replica that has any, in the order of the nodes; `acks_lost` are those whose
    acknowledgements alone are cut off: a commit that waits has arrived there."""
    found = (
        _trouble(truth, node, late_s, (_ARRIVED,) if node.name in acks_lost else ())
        for node in nodes
        if not node.is_source
    )
    return tuple(trouble for trouble in found if trouble is not None)


def _trouble(
    truth: ServerTruth | None, node: NodeView, late_s: float, words: tuple[str, ...]
) -> Trouble | None:
    if not node.reachable:
        return Trouble(node.name, ("down",), is_failure=True, can_be_repaired=True)
    if node.role is Role.DETACHED:
        return Trouble(node.name, ("detached",))
    threads = (node.io_thread, node.sql_thread)
    words = (*words, *thread_words(node))
    lag_s = lag_s_of(truth, node)
    if lag_s is not None and lag_s >= late_s and node.diverged is None:
        words = (*words, f"{lag_s:.0f} s behind")
    why = node.replication_fault
    if node.diverged is not None:
        words, why = ("diverged", *words), node.diverged
    if not words:
        return None
    is_failure = "error" in threads or node.diverged is not None
    return Trouble(node.name, words, is_failure, "off" in threads, why)


_BROKEN: Final = frozenset({ProtectionState.DOWN, ProtectionState.BLOCKED, ProtectionState.DEGRADED})


@frozen
class Wholeness:
    """Whether replication is whole: every node answers, follows and has what the source has, none lags too
    much, and commits wait for what was asked, not in vain."""

    failed: Sequence[str]
    """What is not so."""
    unknown: Sequence[str]
    """Of what nothing is known: neither whole nor failed."""

    @property
    def words(self) -> str:
        """The answer, and what it rests on, in one line."""
        if not (self.failed or self.unknown):
            return "replication is whole"
        answer = "replication is not" if self.failed else "it is not known whether replication is"
        return f"{answer} whole: {'; '.join((*self.failed, *self.unknown))}"


def wholeness(nodes: Sequence[NodeView], protection: Protection, most_lag_s: float = math.inf) -> Wholeness:
    """Judge the nodes of a stack and its protection; a replica that lags `most_lag_s` is not whole."""
    failed, unknown = list[str](), list[str]()
    if _falls_short(protection):
        meaning = meaning_of(protection, is_group=protection.by_majority)
        failed.append(f"protection {word_of(protection.state)}: {meaning}")
    for node in nodes:
        found = [f"{node.name}: {what}" for what in _failures(node, most_lag_s)]
        failed += found
        if not found and node.sql_thread == "on" and node.lag_s is None and most_lag_s < math.inf:
            unknown.append(f"{node.name}: its lag is not known")
    return Wholeness(failed, unknown)


def _falls_short(protection: Protection) -> bool:
    """Whether a commit has less than was asked for, or the next one waits in vain."""
    acking, required = protection.replicas_acking, protection.replicas_required
    match protection.state:
        case ProtectionState.OFF:
            return protection.requested
        case ProtectionState.ARMED if acking is not None and required is not None and acking < required:
            return True
    return protection.state in _BROKEN or protection.no_ack_can_come


def _failures(node: NodeView, most_lag_s: float) -> Iterator[str]:
    """What is wrong with one node."""
    if not node.reachable:
        yield f"down: {node.why_down or 'no login succeeds'}"
        return
    if node.role in (Role.DETACHED, Role.JOINING):
        yield str(node.role)
    if node.role == Role.DETACHED:
        return
    yield from thread_faults(node)
    if node.diverged is not None:
        yield f"diverged: {node.diverged}"
    if node.errant_gtids and not node.diverged:
        yield f"has {transactions(node.errant_gtids)} that the source lacks"
    if node.lag_s is not None and node.lag_s >= most_lag_s:
        yield f"{node.lag_s:.1f} s behind"


def diverged_words(why: str, node: str, stack: str | None) -> str:
    """Why a node's rows may not be the source's, which is said of the node, and the remedy; `stack` is None
    for servers that are not ours."""
    remedy = "cloning the source" if stack is None else command("role rejoin", stack, node, "--copy")
    return f"it {why}; {remedy} makes it a copy"


def thread_faults(node: NodeView) -> Iterator[str]:
    """Each thread that does not run, with the server's error: `SQL thread stopped, error 1062: ...`."""
    threads = (("IO", node.io_thread, node.io_error), ("SQL", node.sql_thread, node.sql_error))
    for name, state, error in threads:
        if state in _STATES:
            why = "" if error is None else f", error {error.number}: {error.text}"
            yield f"{name} thread {'connecting' if state == 'connecting' else 'stopped'}{why}"


def errant_words(node: NodeView, nodes: Sequence[NodeView]) -> str:
    """What a replica has and the source lacks, with the other replicas that have all of it too; empty for
    nothing."""
    errant = node.errant_gtids
    if not errant:
        return ""
    others = [
        each for each in nodes if each != node and not each.is_source and each.gtid_executed is not None
    ]
    too = [each.name for each in others if not subtract_gtids(errant, each.gtid_executed or "")]
    return f"{errant}, on {' and '.join(too)} too" if too else errant


def thread_words(node: NodeView) -> tuple[str, ...]:
    """Threads that do not run: `SQL thread stopped`; `both threads stopped` where they are alike."""
    known = [
        (name, _STATES[state])
        for name, state in (("IO", node.io_thread), ("SQL", node.sql_thread))
        if state in _STATES
    ]
    if len(known) == 2 and known[0][1] == known[1][1]:
        return (f"both threads {known[0][1]}",)
    return tuple(f"{name} thread {state}" for name, state in known)


def lag_s_of(truth: ServerTruth | None, node: NodeView) -> float | None:
    """How far a replica is behind, as exactly as it is known."""
    exact = truth.replica(node.name) if truth is not None else None
    return node.lag_s if exact is None or exact.lag_ms is None else exact.lag_ms / 1000


@dataclass(slots=True)
class ThreadWatch:
    """One replica's threads from look to look: what is worth an event."""

    _told: tuple[str, ...] = ()
    _seen: tuple[str, ...] = ()
    _times: int = 0

    def seen(self, node: NodeView) -> tuple[Severity, str] | None:
        """What to report after this look; None while nothing changed for sure."""
        words = thread_words(node) if node.reachable else self._told
        self._times = self._times + 1 if words == self._seen else 1
        self._seen = words
        if words == self._told or self._times < _FOR_SURE:
            return None
        self._told = words
        if not words:
            return Severity.GOOD, f"{node.name}: both threads run again"
        why = f": {node.replication_fault}" if node.replication_fault else ""
        failed = "error" in (node.io_thread, node.sql_thread)
        return (Severity.BAD if failed else Severity.WARN), f"{node.name}: {' and '.join(words)}{why}"


def healthy(nodes: Sequence[NodeView]) -> bool:
    """Every server answers and no replication thread is stopped, but those of a detached node, which are
    not for a repair to start."""
    return all(
        node.reachable and (node.role is Role.DETACHED or "off" not in (node.io_thread, node.sql_thread))
        for node in nodes
    )
