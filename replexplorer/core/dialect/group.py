"""The dialect of a MySQL server that was started for Group Replication (manual, "Group Replication").

It is MySQL's, but for what a replica's threads and channel are: those of a member belong to the plugin.
What a member says of its group is its own view: one that is cut off sees the others as UNREACHABLE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from replexplorer.core.dialect.attaching import read_registered
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import Question, Row, numbers, whole
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import Value
from replexplorer.core.records import frozen
from replexplorer.core.server.node_view import Membership, majority_of
from replexplorer.core.system import GROUP
from replexplorer.core.topology import Belonging

APPLIER: Final = "group_replication_applier"
"""The channel by which a member receives what the others commit."""

_NAME: Final = "group_replication_group_name"
_MEMBERS: Final = "performance_schema.replication_group_members"
_STATUS: Final = "performance_schema.global_status"
_US_PER_MS: Final = 1000
_COUNTS: Final = {
    name: name for name in ("size", "answering", "queued", "to_apply", "conflicts", "certified", "holds")
}
"""Columns of `_MEMBERSHIP` that are called as their fields."""
_MEMBERSHIP: Final = (
    "SELECT m.member_state AS state, m.member_role AS role, s.view_id AS view,"
    f" (SELECT COUNT(*) FROM {_MEMBERS}) AS size,"
    f" (SELECT COUNT(*) FROM {_MEMBERS} WHERE member_state IN ('ONLINE', 'RECOVERING')) AS answering,"
    " s.count_transactions_in_queue AS queued, s.count_transactions_remote_in_applier_queue AS to_apply,"
    " s.count_conflicts_detected AS conflicts, s.count_transactions_checked AS certified,"
    f" (SELECT variable_value FROM {_STATUS}"
    " WHERE variable_name = 'Gr_flow_control_throttle_time_sum') AS held_us,"
    f" (SELECT variable_value FROM {_STATUS}"
    " WHERE variable_name = 'Gr_flow_control_throttle_count') AS holds"
    f" FROM (SELECT @@GLOBAL.server_uuid AS id) AS me LEFT JOIN {_MEMBERS} m ON m.member_id = me.id"
    " LEFT JOIN performance_schema.replication_group_member_stats s ON s.member_id = me.id"
)


def _read_membership(rows: Sequence[Row]) -> Membership:
    row = rows[0]
    state = str(row["state"] or "OFFLINE")
    if state == "OFFLINE":
        return Membership(Belonging.OUTSIDE, state)
    counts, held_us = numbers(row, _COUNTS), whole(row["held_us"])
    return Membership(
        _belongs(state, counts.get("size", 0), counts.get("answering", 0)),
        state,
        **counts,
        view=str(row["view"]) if row["view"] else None,
        held_ms=None if held_us is None else held_us / _US_PER_MS,
    )


def _belongs(state: str, size: int, answering: int) -> Belonging:
    if state == "RECOVERING":
        return Belonging.JOINING
    if state != "ONLINE":
        return Belonging.OUTSIDE
    return Belonging.MEMBER if answering >= majority_of(size) else Belonging.CUT_OFF


@frozen
class GroupMySql(MySql):
    """One member's dialect; see `mysql.MySql` for what each question is."""

    system: ClassVar = GROUP
    probed: ClassVar = (_NAME,)
    channel: ClassVar = APPLIER

    @classmethod
    def is_for(cls, variables: Mapping[str, str]) -> bool:
        """Whether a server with these variables is one that this dialect is for: its plugin is loaded."""
        return _NAME in variables

    # -- finding the members of a group that somebody else made

    group_name: ClassVar = Question(
        f"SELECT @@GLOBAL.{_NAME} AS name", lambda rows: str(rows[0]["name"] or "")
    )
    """Empty of a server that is in no group."""

    members: ClassVar = Question(
        f"SELECT member_host AS Host, member_port AS Port FROM {_MEMBERS}",
        lambda rows: tuple(place for place in read_registered(rows) if place.host),
    )
    """Where they may be reached, as one of them knows it."""

    # -- settings

    def set(self, key: str, value: Value) -> str:
        """How many primaries there are is agreed by all members, in a statement of its own that answers
        when they have (manual, "Changing the Group Mode")."""
        if key == keys.GROUP_REPLICATION_SINGLE_PRIMARY_MODE:
            self.capabilities.knob(key)
            if value == "on":
                return "SELECT group_replication_switch_to_single_primary_mode(@@GLOBAL.server_uuid)"
            return "SELECT group_replication_switch_to_multi_primary_mode()"
        return MySql.set(self, key, value)

    # -- membership in a group

    membership: ClassVar = Question(_MEMBERSHIP, _read_membership)
    """A server that has not started the plugin is in no row of the members."""

    found: ClassVar = ("SET GLOBAL group_replication_bootstrap_group = ON", "START GROUP_REPLICATION")
    """The variable is off again whatever came of the start: a second group of the same name would be
    founded by the next."""

    after_founding: ClassVar = (
        "SET GLOBAL group_replication_bootstrap_group = OFF",
        "SET GLOBAL group_replication_force_members = ''",
    )
    """See `found` and `go_on_with`: either would act again."""

    def go_on_with(self, members: Sequence[str]) -> tuple[str, ...]:
        """Manual, "Handling a Network Partition and Loss of Quorum": answers when that is the group, and what
        waited for the others is committed."""
        return (f"SET GLOBAL group_replication_force_members = '{','.join(members)}'",)

    def join(self, seeds: Sequence[str]) -> tuple[str, ...]:
        """A member that was expelled is in offline mode (`group_replication_exit_state_action`), and may be
        between two tries to come back by itself."""
        return (
            "STOP GROUP_REPLICATION",
            "SET GLOBAL offline_mode = OFF",
            f"SET GLOBAL group_replication_group_seeds = '{','.join(seeds)}'",
            "START GROUP_REPLICATION",
        )

    leave: ClassVar = ("STOP GROUP_REPLICATION",)
    """It stays up, with super_read_only on."""

    def elect(self, server_uuid: str) -> str:
        """Answers when the new primary takes writes."""
        return f"SELECT group_replication_set_as_primary('{server_uuid}')"

    # -- replication threads

    threads: ClassVar = Question("SELECT 1", lambda _: None)
    """Those of a member are the plugin's."""
