"""The dialect of MariaDB as a member of a Galera cluster.

A commit is sent to all members in one total order and certified by each of them alike; its client is told
when every member of the component has received it. A member that cannot reach a majority of the component
that it was in refuses to read and write tables (error 1047), but tells its state. What stands here was
measured on MariaDB 11.8 with Galera 26.4 (docs/systems.md).

What a Galera server's log says of a state transfer.

A member accepts no login while it is given a whole copy, and MariaDB has no status variable of either kind of
transfer (`wsrep_ist_receive_*` are Percona's): its log alone says which it is and how far. Lines as of
MariaDB 11.8 with Galera 26.4 (docs/systems.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from replexplorer.core.dialect.dialect import Capabilities, Position, Range
from replexplorer.core.dialect.mariadb import EXECUTED, MariaDb, gtids_of
from replexplorer.core.dialect.question import Question, Row, listed, numbers, read_pairs, whole
from replexplorer.core.server.node_view import Membership, Transfer, TransferKind
from replexplorer.core.topology import Belonging

_BEGINS: Final = "WSREP: State transfer required"
_ENDS: Final = "WSREP: Shifting JOINER -> JOINED"
_LOCAL: Final = re.compile(r"Local state: *([0-9a-f-]+):(-?\d+)")
_DONOR: Final = re.compile(r"requested state transfer from .* Selected \S+ \(([^)]+)\)")
_COPIED: Final = re.compile(r"SST succeeded for position ([0-9a-f-]+):(-?\d+)")
_RECEIVES: Final = re.compile(r"Receiving IST: (\d+) writesets, seqnos (\d+)-(\d+)")
_PROGRESS: Final = re.compile(r"Receiving IST\.\.\. *[\d.]+% *\( *(\d+)/ *(\d+) events\)")
_NOTHING: Final = "00000000-0000-0000-0000-000000000000"


def transfer_in(lines: Iterable[tuple[float, str]], now_s: float) -> Transfer | None:
    """The last state transfer of a server's log as it is now, each line with its moment, all in seconds since
    1970; None where it needed none. Transactions that follow a whole copy are part of that."""
    found: Transfer | None = None
    had = copied = first = None
    for at_s, line in lines:
        if _BEGINS in line:
            found, had, copied, first = Transfer(None, at_s, 0.0), None, None, None
        elif found is None or not found.runs:
            continue
        elif _ENDS in line:
            found = replace(found, runs=False, elapsed_s=at_s - found.began_s)
        elif match := _LOCAL.search(line):
            had = match[1], int(match[2])
        elif match := _COPIED.search(line):
            copied = match[1], int(match[2])
        elif match := _RECEIVES.search(line):
            first, found = int(match[2]), replace(found, done=0, total=int(match[1]))
        elif match := _PROGRESS.search(line):
            found = replace(found, done=int(match[1]), total=int(match[2]))
        elif found.donor is None and (match := _DONOR.search(line)):
            found = replace(found, donor=match[1])
    if found is None:
        return None
    found = replace(found, kind=_kind(had, copied, first))
    if found.kind is not TransferKind.IST:
        found = replace(found, done=None, total=None)
    return replace(found, elapsed_s=max(0.0, now_s - found.began_s)) if found.runs else found


def _kind(
    had: tuple[str, int] | None, copied: tuple[str, int] | None, first: int | None
) -> TransferKind | None:
    """A donor that still has what the member lacks sends that alone, from where the member's end. By cluster
    and number of the last transaction that it `had` itself and that it has by a copy, and the `first` that it
    is sent."""
    if had is not None and had[0] == _NOTHING:
        return TransferKind.SST
    if had is not None and first is not None and first <= had[1] + 1:
        return TransferKind.IST
    if copied is None:
        return None
    return TransferKind.IST if copied == had else TransferKind.SST


_STATES: Final = {
    "synced": Belonging.MEMBER,
    "donor/desynced": Belonging.MEMBER,
    "joined": Belonging.JOINING,
    "joining": Belonging.JOINING,
    "joiner": Belonging.JOINING,
}
"""wsrep_local_state_comment by how a member with it stands to its cluster; `Joining: receiving ...` too."""
_APPLIED: Final = f"SET STATEMENT wsrep_sync_wait = 1 FOR {EXECUTED}"
"""Answered when all that the cluster had sent before is applied here; refused without a majority."""
_PRIMARY: Final = "primary"
_NS_PER_MS: Final = 1e6
_COUNTS: Final = {
    "size": "wsrep_cluster_size",
    "queued": "wsrep_local_send_queue",
    "to_apply": "wsrep_local_recv_queue",
    "conflicts": "wsrep_local_cert_failures",
    "gave_way": "wsrep_local_bf_aborts",
    "certified": "wsrep_replicated",
    "holds": "wsrep_flow_control_recv",
}
"""Field of a membership to the status variable that is its number."""
_MEMBERSHIP: Final = (
    "wsrep_local_state_comment",
    "wsrep_cluster_status",
    "wsrep_cluster_conf_id",
    "wsrep_connected",
    "wsrep_flow_control_paused_ns",
    *_COUNTS.values(),
)


@dataclass(frozen=True, slots=True)
class Galera(MariaDb):
    """One member's dialect; see `mysql.MySql` for what each question is."""

    @classmethod
    def of(cls, variables: Mapping[str, str], ranges: Mapping[str, Range]) -> Galera:
        """From a server's variables; MariaDB's semi-sync is built in, and means nothing here."""
        return cls(capabilities=Capabilities.of(variables, ranges), word="SLAVE")

    # -- positions

    def position(self) -> Question[Position]:
        """Other members may have applied what a session here is about to commit: all that was sent before is
        waited for, a round trip to the farthest member."""
        return Question(
            _APPLIED,
            lambda rows: Position("", gtids_of(rows[0]["executed"])),
        )

    def received_gtids(self) -> Question[str]:
        """What was received is nowhere said by its number: it is waited for until it is applied."""
        return Question(_APPLIED, lambda rows: gtids_of(rows[0]["executed"]))

    def reached(self, executed: str, within_s: float) -> Question[bool]:
        """Members number the same transactions each in its own way: what the cluster had sent before is
        waited for, as long as `repl.causal_read_timeout` (30 s), past which the server refuses to answer."""
        return Question(_APPLIED, lambda rows: True)

    # -- membership in a group

    def membership(self) -> Question[Membership] | None:
        """By SHOW, which a member answers that is cut off."""
        return Question(
            f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed(_MEMBERSHIP)})", _read_membership
        )

    def found(self) -> tuple[str, ...]:
        """A member that waits for the rest of its cluster becomes the whole of it."""
        return ("SET GLOBAL wsrep_provider_pc_bootstrap = ON",)

    def join(self, seeds: Sequence[str]) -> tuple[str, ...]:
        """It tries by itself."""
        return ()


def _read_membership(rows: Sequence[Row]) -> Membership:
    found = read_pairs(rows)
    state = found.get("wsrep_local_state_comment", "")
    paused_ns = whole(found.get("wsrep_flow_control_paused_ns"))
    counts = numbers(found, _COUNTS)
    return Membership(
        _belongs(found, state),
        state,
        **counts | {"size": counts.get("size") or None},
        view=found.get("wsrep_cluster_conf_id"),
        held_ms=None if paused_ns is None else paused_ns / _NS_PER_MS,
    )


def _belongs(found: Mapping[str, str], state: str) -> Belonging:
    """How a member stands to its cluster."""
    if found.get("wsrep_connected", "").lower() != "on":
        return Belonging.OUTSIDE
    if found.get("wsrep_cluster_status", "").lower() != _PRIMARY:
        return Belonging.CUT_OFF
    if found.get("wsrep_cluster_size") == "0":
        return Belonging.JOINING
    word = state.lower().partition(":")[0]
    return _STATES.get(word, Belonging.JOINING)
