"""The catalogue's own laws, and reading and writing of values."""

from __future__ import annotations

import re
from ast import literal_eval
from itertools import product

from replexplorer.core.knobs.names import (
    BY_KEY,
    CATALOGUE,
    Assignment,
    Backing,
    Kind,
    KnobName,
    addressed,
    defaults,
    desired_of,
    expand,
    find,
    format_value,
    parse_assignment,
    parse_name,
    parse_value,
    same_value,
    step,
)
from replexplorer.core.topology import new_roster
from tests.known import refused
from tests.typed import table_of, typed

VALUES = [
    (knob, parse_value(knob, str(value)))
    for knob in CATALOGUE
    for value in (knob.default, *knob.steps, knob.minimum, knob.maximum)
    if value is not None
]


def test_each_row_is_sound() -> None:
    for knob in CATALOGUE:
        assert len(knob.label) <= 15, knob.key
        assert knob.steps, "the arrow keys need a ladder"
        assert bool(knob.choices) == (knob.kind is Kind.CHOICE)
        assert bool(knob.variables) == (knob.backing is Backing.SERVER)
        for value in (knob.default, *knob.steps):
            assert parse_value(knob, str(value)) == value
        if knob.kind is not Kind.CHOICE:
            plain = [rung for rung in knob.ladder if rung not in dict(knob.words).values()]
            assert plain == sorted(plain, key=float)
            assert None not in (knob.minimum, knob.maximum)


GENERATIONS = """\
semi_sync                            semi_sync
SEMI-SYNC                            semi_sync
rpl_semi_sync_master_enabled         semi_sync
rpl_semi_sync_master_wait_no_slave   wait_no_replica
slave_parallel_threads               replica_parallel_workers
"""


def test_find_knows_every_generation_and_no_name_is_of_two_knobs() -> None:
    for text, key in table_of(GENERATIONS, None):
        assert find(text).key == key, text
    names = [name for knob in CATALOGUE for name in knob.input_names]
    assert len(names) == len(set(names))


READ = """\
rtt=85
rtt=85ms
rtt= 2.5 ms
rtt=0.5s
rtt=1000
rtt=250us
rtt=250µs
rtt=.5
rtt=-0
semi_sync_timeout=10s
semi_sync_timeout=1500
binlog_group_commit_sync_delay=1ms
innodb_flush_log_at_timeout=5000ms
sync_binlog=4294967295
sync_binlog=10.0
semi_sync=1
semi_sync=TRUE
semi_sync=OFF
wait_point=AFTER_COMMIT
innodb_doublewrite=Detect_Only
innodb_doublewrite=DETECT_AND_RECOVER
clients=32clients
clients=1k
rate=1.5k
sync_binlog=1m
innodb_buffer_pool_size=16M
innodb_buffer_pool_size=1gib
innodb_redo_log_capacity=8388608
fsync_delay_redo=auto
workload=./Mine.sql
workload=mine.sql
workload=/srv/work loads/mine
"""


def test_values_are_read_in_the_knobs_own_unit_and_written_short(snapshot: object) -> None:
    told = {}
    for line in READ.splitlines():
        key, _, text = line.partition("=")
        knob, value = BY_KEY[key], parse_value(BY_KEY[key], text)
        told[line] = value, format_value(knob, value), format_value(knob, value, unit=False)
    assert told == snapshot


WRONG_VALUES = """\
rtt=abc
rtt=nan
rtt=1e999999999
rtt=2,5
rtt=85 %
rtt=٣
rtt=6s
rtt=
clients=-1
clients=2.5
clients=5ms
rtt=1k
bandwidth=1m
semi_sync_timeout=0
wait_point=sometimes
wait_point=after_sink
wait_point=./mine.sql
workload=mine
innodb_flush_log_at_trx_commit=4
sync_binlog=1\x1b[31m
"""


def test_a_wrong_value_is_one_line_that_names_what_is_right(snapshot: object) -> None:
    told = {}
    for each in (*WRONG_VALUES.splitlines(), f"sync_binlog={'9' * 5000}"):
        key, _, text = each.partition("=")
        told[each[:50]] = refused(parse_value, BY_KEY[key], text)
    assert told == snapshot


def test_what_is_written_reads_back() -> None:
    for knob, value in VALUES:
        for unit in (True, False):
            assert parse_value(knob, format_value(knob, value, unit=unit)) == value


ADDRESSED = """\
sync_binlog         sync_binlog
sync_binlog@primary sync_binlog
sync_binlog@db3     sync_binlog@db3
rtt                 rtt@db2 rtt@db3
rtt@db2             rtt@db2
clients             clients
sync_relay_log      sync_relay_log@db2 sync_relay_log@db3
"""


def test_a_key_addresses_its_nodes() -> None:
    for text, *names in table_of(ADDRESSED, None):
        assert [*map(str, addressed(text, new_roster(2)))] == names, text


WRONG_ASSIGNMENTS = """\
rtt@nowhere=5
rtt@replca=5
rtt@=5
rtt@primary=5
semi_sync@db2=on
clients@db2=5
rtt@db1:db9=5
rtt@db1:=5
rtt@replica:db2=5
sync_relay_log@db1:db2=5
sync_binlog
sync_binlog=
sync_binlg=1
zzz=1
power_cut=1
=5

"""


def test_a_wrong_assignment_says_what_is_wrong(snapshot: object) -> None:
    wrong = WRONG_ASSIGNMENTS.splitlines()
    assert {each: refused(parse_assignment, each, new_roster(1)) for each in wrong} == snapshot


def test_a_stack_without_replicas_has_no_links() -> None:
    for text in ("rtt", "rtt@primary"):
        assert "add a replica to the stack" in refused(addressed, text, new_roster(0))


def test_the_later_assignment_holds() -> None:
    first, second = (parse_assignment(text, new_roster(2)) for text in ("rtt=5", "rtt@db3=9ms"))
    assert first == Assignment((KnobName("rtt", "db2"), KnobName("rtt", "db3")), 5.0)
    assert desired_of([first, second]) == typed("rtt@db2=5 rtt@db3=9")


def test_every_name_reads_back_and_has_a_default() -> None:
    names = expand(CATALOGUE, ("db2", "db3"))
    assert [parse_name(str(name)) for name in names] == list(names)
    assert tuple(defaults(("db2", "db3"))) == names
    assert "each replica" in refused(parse_name, "rtt")


STEPS = """\
rtt=0 up
rtt=60 up
rtt=60 down
rtt=60 up, coarse
rtt=0 down
rtt=4000 up
rtt=1 down, coarse
sync_binlog=0 up
sync_binlog=1m up, coarse
semi_sync=off up
semi_sync=on up
innodb_doublewrite=on down
innodb_doublewrite=off up
bandwidth=unlimited down
bandwidth=unlimited up
bandwidth=3mbit down
bandwidth=2gbit up
delay_to_replica=auto up
delay_to_replica=0 down
delay_to_replica=3 up
"""


def test_the_arrow_keys_walk_the_ladder(snapshot: object) -> None:
    """A word has its place on it."""
    told = {}
    for line in STEPS.splitlines():
        key, text, way = re.split("[= ]", line, maxsplit=2)
        told[line] = step(BY_KEY[key], parse_value(BY_KEY[key], text), "up" in way, "coarse" in way)
    assert told == snapshot


def test_a_step_never_goes_the_other_way_and_stays_in_range() -> None:
    for (knob, value), up, coarse in product(VALUES, (True, False), (True, False)):
        stepped = step(knob, value, up, coarse)
        assert parse_value(knob, format_value(knob, stepped)) == stepped
        # A word is at one end of the ladder, whatever number it means, and a choice anywhere.
        if not {stepped, value} & {*dict(knob.words).values(), *knob.choices}:
            low, high = (value, stepped) if up else (stepped, value)
            assert float(low) <= float(high), knob.key


SAME = """\
rtt       None None    no
rtt       None 0.0     no
rtt       85.0 85.0004 yes
rtt       85.0 85.1    no
semi_sync 'on' 'on'    yes
semi_sync 'on' 'off'   no
"""


def test_same_value_never_takes_the_unknown_for_known() -> None:
    for key, *values, same in table_of(SAME, None):
        assert same_value(BY_KEY[key], *map(literal_eval, values)) is (same == "yes"), (key, values)
