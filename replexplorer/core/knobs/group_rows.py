"""The rows of the catalogue that only Group Replication's servers have.

Defaults and ranges are those of MySQL 9.7 (refman, "Group Replication System Variables"); each member has its
own value of all but the number of primaries, which the group agrees on.
"""

from __future__ import annotations

from typing import Final

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.knob import ON_OFF, Backing, Group, Kind, Knob, Place, Restart


def _choice(
    key: str,
    label: str,
    default: str,
    help_text: str,
    choices: tuple[str, ...],
    *,
    place: Place = Place.MEMBERS,
    restart: Restart = Restart.NONE,
    risk: str = "",
    seldom: bool = False,
) -> Knob:
    """A row of words."""
    return Knob(
        key=key,
        label=label,
        group=Group.GROUP,
        kind=Kind.CHOICE,
        place=place,
        backing=Backing.SERVER,
        default=default,
        help=help_text,
        choices=choices,
        restart=restart,
        risk=risk,
        variables=(key,),
        seldom=seldom,
    )


def _number(
    key: str, label: str, default: int, help_text: str, maximum: int, ladder: tuple[int, ...], unit: str = ""
) -> Knob:
    """A row of a number from 0 on that each member has, turned seldom."""
    return Knob(
        key=key,
        label=label,
        group=Group.GROUP,
        kind=Kind.INT,
        place=Place.MEMBERS,
        backing=Backing.SERVER,
        default=default,
        help=help_text,
        unit=unit,
        minimum=0,
        maximum=maximum,
        ladder=ladder,
        variables=(key,),
        seldom=True,
    )


_P: Final = "group_replication_"
_MOST: Final = 2**31 - 1

GROUP_ROWS: Final[tuple[Knob, ...]] = (
    _choice(
        keys.GROUP_REPLICATION_CONSISTENCY,
        "consistency",
        "before_on_primary_failover",
        "BEFORE: wait until earlier transactions are applied on this member. AFTER: wait until every member"
        " has applied this one.",
        ("eventual", "before_on_primary_failover", "before", "after", "before_and_after"),
        restart=Restart.SESSIONS,
        risk="eventual: a new primary may answer with old rows while it applies what it received",
    ),
    _choice(
        keys.GROUP_REPLICATION_SINGLE_PRIMARY_MODE,
        "single primary",
        "on",
        "One member takes writes; off: all do, and of two that change the same row the second is refused.",
        ON_OFF,
        place=Place.SOURCE,
    ),
    _choice(
        f"{_P}flow_control_mode",
        "flow control",
        "quota",
        "Slow the members that write down while one has too much to certify or to apply.",
        ("disabled", "quota"),
    ),
    _number(
        f"{_P}flow_control_applier_threshold",
        "fc applier",
        25_000,
        "Transactions waiting to be applied at a member above which flow control begins.",
        _MOST,
        (0, 10, 100, 1000, 25_000),
        "commits",
    ),
    _number(
        f"{_P}flow_control_certifier_threshold",
        "fc certifier",
        25_000,
        "Transactions waiting to be certified at a member above which flow control begins.",
        _MOST,
        (0, 10, 100, 1000, 25_000),
        "commits",
    ),
    _number(
        f"{_P}flow_control_min_quota",
        "fc min quota",
        0,
        "Lowest quota that flow control gives a member; 0: computed by the server.",
        _MOST,
        (0, 10, 100, 1000),
        "commits a period",
    ),
    _number(
        f"{_P}flow_control_max_quota",
        "fc max quota",
        0,
        "Highest quota that flow control gives the whole group; 0: no limit.",
        _MOST,
        (0, 10, 100, 1000),
        "commits a period",
    ),
    _number(
        f"{_P}member_expel_timeout",
        "expel timeout",
        5,
        "How long a member that is suspected (after 5 s of silence) is waited for before it is expelled.",
        3600,
        (0, 1, 5, 10, 30, 60),
        "s",
    ),
    _number(
        f"{_P}unreachable_majority_timeout",
        "no majority",
        0,
        "How long a member that no majority answers waits before it gives up and leaves; 0: for ever.",
        31_536_000,
        (0, 5, 10, 30, 60),
        "s",
    ),
    _number(
        f"{_P}autorejoin_tries",
        "rejoin tries",
        3,
        "How often an expelled member tries to come back by itself, 5 minutes apart.",
        2016,
        (0, 1, 3, 10),
    ),
    _choice(
        f"{_P}exit_state_action",
        "on exit",
        "offline_mode",
        "What a member does after leaving the group involuntarily, if it cannot rejoin.",
        ("read_only", "offline_mode", "abort_server"),
        seldom=True,
    ),
    _number(
        f"{_P}member_weight",
        "weight",
        50,
        "Which member is elected when the primary leaves: the heaviest, of several the one with the lowest"
        " server_uuid.",
        100,
        (0, 25, 50, 75, 100),
    ),
)
