"""The dialect of MariaDB as a member of a Galera cluster.

A commit is sent to all members in one total order and certified by each of them alike; its client is told
when every member of the component has received it. A member that cannot reach a majority of the component
that it was in refuses to read and write tables (error 1047), but tells its state. What stands here was
measured on MariaDB 11.8 with Galera 26.4 (docs/systems.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from replexplorer.core.dialect.capabilities import Capabilities, Range
from replexplorer.core.dialect.dialect import Position
from replexplorer.core.dialect.mariadb import EXECUTED, MariaDb, gtids_of
from replexplorer.core.dialect.question import Question, Row, listed, read_pairs
from replexplorer.core.dialect.values import whole
from replexplorer.core.server.membership import Membership
from replexplorer.core.topology import Belonging

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
_MEMBERSHIP: Final = (
    "wsrep_local_state_comment",
    "wsrep_cluster_status",
    "wsrep_cluster_size",
    "wsrep_cluster_conf_id",
    "wsrep_connected",
    "wsrep_local_send_queue",
    "wsrep_local_recv_queue",
    "wsrep_local_cert_failures",
    "wsrep_local_bf_aborts",
    "wsrep_replicated",
    "wsrep_flow_control_paused_ns",
    "wsrep_flow_control_recv",
)


@dataclass(frozen=True, slots=True)
class Galera(MariaDb):
    """One member's dialect; see `dialect.Dialect` for what each question is."""

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
    size = whole(found.get("wsrep_cluster_size")) or None
    paused_ns = whole(found.get("wsrep_flow_control_paused_ns"))
    return Membership(
        belongs=_belongs(found, state),
        state=state,
        size=size,
        view=found.get("wsrep_cluster_conf_id"),
        queued=whole(found.get("wsrep_local_send_queue")),
        to_apply=whole(found.get("wsrep_local_recv_queue")),
        conflicts=whole(found.get("wsrep_local_cert_failures")),
        gave_way=whole(found.get("wsrep_local_bf_aborts")),
        certified=whole(found.get("wsrep_replicated")),
        held_ms=None if paused_ns is None else paused_ns / _NS_PER_MS,
        holds=whole(found.get("wsrep_flow_control_recv")),
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
