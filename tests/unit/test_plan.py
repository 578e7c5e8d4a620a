"""The planner: what runs in which order and back, what is warned of, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replexplorer.core.change.planner import (
    Kick,
    Observed,
    make_plan,
    written,
)
from replexplorer.core.dialect.dialect import Range
from replexplorer.core.dialect.mariadb import MariaDb
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs.names import (
    SOURCE,
    KnobName,
    Value,
    defaults,
    parse_name,
)
from tests.fakes.servers import MARIADB, MYSQL_9, mysql_9
from tests.typed import table_of, typed

REPLICAS = ("db2", "db3")
SERVER = mysql_9()


def everywhere(server: MySql) -> dict[str, MySql]:
    return dict.fromkeys((SOURCE, *REPLICAS), server)


WORDY = MySql.of(MYSQL_9, {"innodb_doublewrite": Range(None, None, words=("off", "on", "fast"))})
BARE = MySql.of({n: v for n, v in MYSQL_9.items() if not n.endswith("wait_for_replica_count")}, {})
MARIA = {"servers": everywhere(MariaDb.of(MARIADB, {}))}
ALONE = {"servers": {SOURCE: SERVER}, "semi_sync_clients": 0}
STACKS: dict[str, dict[str, Any]] = {
    "whole": {},
    "without a load": {"load_runs": False},
    "wordy": {"servers": everywhere(WORDY)},
    "bare": {"servers": everywhere(BARE)},
    "alone": ALONE,
    "late": {**ALONE, "late": dict.fromkeys(REPLICAS, "")},
    "dead but counted": {**ALONE, "semi_sync_clients": 1},
    "without db2": {**ALONE, "servers": {SOURCE: SERVER, "db3": SERVER}},
    "without the shim": {"impossible": {KnobName("fsync_delay", SOURCE): "the server runs without the shim"}},
    "one counted": {"semi_sync_clients": 1, "registered": {"db2": True, "db3": False}},
    "db2 registered": {"semi_sync_clients": 0, "registered": {"db2": True, "db3": False}},
    "registered, not counted": {"semi_sync_clients": 0},
    "none counted": {"semi_sync_clients": 0, "registered": {}},
    "count unknown": {"semi_sync_clients": None, "registered": {}},
    "mariadb": MARIA,
    "mariadb acknowledged": {**MARIA, "commits_are_acknowledged": True},
}


def observed(values: str = "", unknown: str = "", **changes: Any) -> Observed:
    """A healthy stack at its defaults, with these values instead."""
    have: dict[KnobName, Value | None] = {**defaults(REPLICAS), **typed(values)}
    sound = Observed(
        values={**have, **dict.fromkeys(map(parse_name, unknown.split()))},
        replicas=REPLICAS,
        servers=everywhere(SERVER),
        semi_sync_clients=2,
        registered=dict.fromkeys(REPLICAS, True),
        load_runs=True,
    )
    return replace(sound, **changes)


FALLS = "partition@db2=none loss@db2=1 fsync_delay@db2=1"
RISES = "rtt@db2=85 bandwidth@db2=1000000 fsync_delay=2 sync_binlog=0"
OPEN = "load_mode=open clients=8 rtt@db2=85"
FAR = f"{OPEN} semi_sync=on rtt@db3=85"
PLANS = f"""\
whole | {RISES} {FALLS} | partition@db2=ack fsync_delay@db2=5 loss@db2=5
whole | semi_sync=on rtt@db2=85 semi_sync_timeout=3s wait_point=after_commit
whole | wait_point=after_commit semi_sync=off rtt@db2=5 rtt@db3=90 | semi_sync=on rtt@db2=85 rtt@db3=85
whole | wait_point=after_commit semi_sync=on rtt@db2=5 rtt@db3=90 | rtt@db2=85 rtt@db3=85
whole | replica_parallel_workers@db2=8 replica_preserve_commit_order@db2=off sync_relay_log@db2=1
whole | clients=32 binlog_row_image=minimal binlog_format=mixed workload=insert
without a load | binlog_format=mixed
whole | semi_sync_replicas=1 | semi_sync=on semi_sync_replicas=2
whole | semi_sync_replicas=3 | semi_sync=on
whole | innodb_doublewrite=detect_only
whole | rtt@db2:db3=4s partition@db2:db3=both semi_sync_timeout=300
whole | rtt@db2:db3=1 | rtt@db2:db3=20 jitter@db2:db3=5
whole | sync_binlog=0 rtt@db2=5 | | sync_binlog rtt@db2
whole | rtt@db2=0 sync_binlog=0 | | rtt@db2
one counted | semi_sync=on
db2 registered | semi_sync=on
registered, not counted | semi_sync=on
none counted | semi_sync=on
count unknown | semi_sync=on
without db2 | semi_sync=on
dead but counted | semi_sync=on
without the shim | fsync_delay=0
mariadb | wait_point=after_commit | wait_point=after_sync semi_sync=on
mariadb acknowledged | wait_point=after_commit | wait_point=after_sync semi_sync=on
mariadb acknowledged | semi_sync_timeout=3s | wait_point=after_sync semi_sync=on
"""
"""A stack, what is wanted, what it has and what of it is unknown. A link between two replicas delays no
commit; an unknown delay falls only to zero, and what was unknown is not taken back."""
WARNED = f"""\
whole | semi_sync_timeout=170                 | rtt@db2=85
whole | rtt@db3=85                            | semi_sync_timeout=100
whole | semi_sync_timeout=171                 | rtt@db2=85
whole | sync_binlog=1                         | semi_sync_timeout=100 rtt@db2=85
whole | sync_binlog=0                         | semi_sync=on
whole | sync_binlog=0                         | semi_sync=on sync_binlog=0
whole | semi_sync=on                          | sync_binlog=100
whole | sync_binlog=0                         |
whole | sync_binlog@db2=0                     | semi_sync=on
whole | semi_sync_replicas=2                  |
whole | semi_sync=on semi_sync_replicas=3     |
whole | binlog_group_commit_sync_delay=1000   | sync_binlog=0
whole | binlog_group_commit_sync_delay=1000   | sync_binlog=100
whole | binlog_group_commit_sync_delay=0      | sync_binlog=0
whole | rate=95                               | {FAR}
whole | rate=94                               | {FAR}
whole | rate=95                               | {OPEN} rtt@db3=85
whole | rate=95                               | {FAR} load_mode=closed
whole | rate=95                               | {OPEN} semi_sync=on rtt@db3=5
whole | rate=95                               | {OPEN} semi_sync=on rtt@db3=5 semi_sync_replicas=2
whole | load_mode=open                        | {FAR} rate=500
"""
REFUSED = """\
whole | innodb_doublewrite=on | innodb_doublewrite=off
whole | innodb_doublewrite@db2=off sync_binlog=0
whole | sync_binlog=0 replica_parallel_workers@db2=0
wordy | innodb_doublewrite=detect_only
bare | semi_sync_replicas=2 | | semi_sync_replicas
whole | jitter@db2=5
whole | jitter@db2=50 rtt@db2=85
whole | jitter@db2=21 delay_to_primary@db2=40
alone | sync_relay_log@db3=1
alone | semi_sync=on
late | semi_sync=on
without db2 | semi_sync=on semi_sync_replicas=2
without the shim | fsync_delay=2 sync_binlog=0
"""


def written_plan(stack: str, wanted: str, *has: str) -> list[str]:
    """The steps, the way back, and what is warned of; or why there is no plan."""
    try:
        made = make_plan(observed(*has, **STACKS[stack]), typed(wanted))
    except ReplexplorerError as error:
        return [f"{type(error).__name__}: {error}"]
    steps = written(planned.step for planned in made.steps)
    return [*steps, *(f"back: {line}" for line in written(made.rollback())), *made.warnings]


@pytest.mark.parametrize("table", [PLANS, WARNED, REFUSED], ids=["planned", "warned", "refused"])
def test_what_runs_in_which_order_what_is_warned_of_and_what_is_refused(table: str, snapshot: object) -> None:
    assert {line: written_plan(*table_of(line)[0]) for line in table.splitlines()} == snapshot


def test_the_kick_waits_for_the_longest_delay_before_or_after() -> None:
    for rtt_ms, deadline_s in ((85, 2.0), (2000, 6.0)):
        made = make_plan(observed(f"rtt@db2={rtt_ms}"), typed("semi_sync=on rtt@db2=0"))
        assert Kick(deadline_s) in [planned.step for planned in made.steps]
