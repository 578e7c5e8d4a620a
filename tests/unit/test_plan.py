"""The planner: tables for the order, laws on a model of a stack."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.change.planner import (
    DiskStep,
    FreshSessions,
    IoRestart,
    Kick,
    LinkStep,
    LoadStep,
    Observed,
    Plan,
    SqlStep,
    Step,
    make_plan,
    written,
)
from replexplorer.core.dialect.dialect import Range
from replexplorer.core.dialect.mariadb import MariaDb
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs.names import (
    CATALOGUE,
    SOURCE,
    Kind,
    KnobName,
    Value,
    defaults,
    expand,
    parse_name,
)
from replexplorer.core.link import LinkSettings
from tests.fakes.servers import MARIADB, MYSQL_9, mysql_9
from tests.typed import table_of, typed

REPLICAS = ("db2", "db3")
SERVER = mysql_9()


def observed(values: str = "", unknown: str = "") -> Observed:
    """A healthy stack at its defaults, with these values instead."""
    have: dict[KnobName, Value | None] = {**defaults(REPLICAS), **typed(values)}
    return Observed(
        values={**have, **dict.fromkeys(map(parse_name, unknown.split()))},
        replicas=REPLICAS,
        servers=dict.fromkeys(("primary", *REPLICAS), SERVER),
        semi_sync_clients=2,
        registered=dict.fromkeys(REPLICAS, True),
        load_runs=True,
    )


def plan(wanted: str, have: str = "", unknown: str = "") -> Plan:
    return make_plan(observed(have, unknown), typed(wanted))


def lines(planned: Plan) -> list[str]:
    return list(written(step.step for step in planned.steps))


FALLS = "partition@db2=none loss@db2=1 fsync_delay@db2=1"
RISES = "rtt@db2=85 bandwidth@db2=1000000 fsync_delay=2 sync_binlog=0"
PLANS = f"""\
{RISES} {FALLS} | partition@db2=ack fsync_delay@db2=5 loss@db2=5
semi_sync=on rtt@db2=85 semi_sync_timeout=3s wait_point=after_commit                   |
wait_point=after_commit semi_sync=off rtt@db2=5 rtt@db3=90 | semi_sync=on rtt@db2=85 rtt@db3=85
replica_parallel_workers@db2=8 replica_preserve_commit_order@db2=off sync_relay_log@db2=1      |
clients=32 binlog_row_image=minimal binlog_format=mixed workload=insert                        |
semi_sync_replicas=1                                       | semi_sync=on semi_sync_replicas=2
semi_sync_replicas=3                                       | semi_sync=on
innodb_doublewrite=detect_only                             |
"""
"""What is wanted, on a stack with these values."""


def test_what_runs_in_which_order(snapshot: object) -> None:
    made = [(line, plan(*line.split("|"))) for line in PLANS.splitlines()]
    assert [(line, lines(each), written(each.rollback())) for line, each in made] == snapshot


def test_a_link_between_two_replicas_is_planned_as_any_other_and_delays_no_commit(snapshot: object) -> None:
    made = plan("rtt@db2:db3=4s partition@db2:db3=both semi_sync_timeout=300")
    assert lines(made)[-1] == "link db2 <-> db3: rtt 4 s, partition both"
    assert made.warnings == (), "the timeout is of the links to the source"
    jitter = plan("rtt@db2:db3=1", "rtt@db2:db3=20 jitter@db2:db3=5")
    told = [step.step for step in made.steps if isinstance(step.step, LinkStep)]
    assert (told, jitter.warnings) == snapshot


def test_switching_off_is_taken_back_with_a_kick_and_what_was_unknown_not_at_all() -> None:
    assert [type(step) for step in plan("semi_sync=off", "semi_sync=on").rollback()] == [SqlStep, Kick]
    made = plan("sync_binlog=0 rtt@db2=5", unknown="sync_binlog rtt@db2")
    assert made.rollback() == ()
    assert [before for before, _ in made.changes.values()] == [None, None]


def test_an_unknown_delay_falls_only_to_zero() -> None:
    assert lines(plan("rtt@db2=0 sync_binlog=0", unknown="rtt@db2"))[0].startswith("link")
    assert lines(plan("rtt@db2=1 sync_binlog=0", unknown="rtt@db2"))[-1].startswith("link")


def test_without_a_load_no_session_is_renewed() -> None:
    stack = replace(observed(), load_runs=False)
    made = make_plan(stack, typed("binlog_format=mixed"))
    assert lines(made) == ["SET GLOBAL binlog_format = 'MIXED'"]
    assert written(made.rollback()) == ("SET GLOBAL binlog_format = 'ROW'",)


CLIENTS = """\
2 | db2 db3
1 | db2
0 | db2
0 | db2 db3
"""
"""How many the source counts, and which replicas it has registered."""


def test_only_unregistered_replicas_restart_their_io_thread(snapshot: object) -> None:
    told = {}
    for line in CLIENTS.splitlines():
        clients, names = line.split("|")
        registered: dict[str, bool | None] = {name: name in names for name in REPLICAS}
        stack = replace(observed(), semi_sync_clients=int(clients), registered=registered)
        told[line] = lines(make_plan(stack, typed("semi_sync=on")))
    for clients_unknown in (0, None):
        stack = replace(observed(), semi_sync_clients=clients_unknown, registered={})
        told[f"{clients_unknown}, registered unknown"] = lines(make_plan(stack, typed("semi_sync=on")))
    assert told == snapshot


OPEN = "load_mode=open clients=8 rtt@db2=85"
FAR = f"{OPEN} semi_sync=on rtt@db3=85"
WARNED = f"""\
semi_sync_timeout=170                 | rtt@db2=85
rtt@db3=85                            | semi_sync_timeout=100
semi_sync_timeout=171                 | rtt@db2=85
sync_binlog=1                         | semi_sync_timeout=100 rtt@db2=85
sync_binlog=0                         | semi_sync=on
sync_binlog=0                         | semi_sync=on sync_binlog=0
semi_sync=on                          | sync_binlog=100
sync_binlog=0                         |
sync_binlog@db2=0                     | semi_sync=on
semi_sync_replicas=2                  |
semi_sync=on semi_sync_replicas=3     |
binlog_group_commit_sync_delay=1000   | sync_binlog=0
binlog_group_commit_sync_delay=1000   | sync_binlog=100
binlog_group_commit_sync_delay=0      | sync_binlog=0
rate=95                               | {FAR}
rate=94                               | {FAR}
rate=95                               | {OPEN} rtt@db3=85
rate=95                               | {FAR} load_mode=closed
rate=95                               | {OPEN} semi_sync=on rtt@db3=5
rate=95                               | {OPEN} semi_sync=on rtt@db3=5 semi_sync_replicas=2
load_mode=open                        | {FAR} rate=500
"""
"""What is wanted, on a stack with these values."""


def test_warnings(snapshot: object) -> None:
    assert {line: plan(*line.split("|")).warnings for line in WARNED.splitlines()} == snapshot


def test_mariadb_changes_its_wait_point_between_commits(snapshot: object) -> None:
    told = {}
    for acknowledged in (True, False):
        seen = run_by(MariaDb.of(MARIADB, {}), "wait_point=after_sync semi_sync=on")
        seen = replace(seen, commits_are_acknowledged=acknowledged)
        for wanted in ("wait_point=after_commit", "semi_sync_timeout=3s"):
            told[acknowledged, wanted] = lines(make_plan(seen, typed(wanted)))
    assert told == snapshot


WORDY = MySql.of(MYSQL_9, {"innodb_doublewrite": Range(None, None, words=("off", "on", "fast"))})
BARE = MySql.of({n: v for n, v in MYSQL_9.items() if not n.endswith("wait_for_replica_count")}, {})
SHIM = {KnobName("fsync_delay", SOURCE): "the server runs without the fsync shim"}
ALONE = replace(observed(), servers={SOURCE: SERVER}, semi_sync_clients=0)
WITHOUT_DB2 = replace(ALONE, servers={SOURCE: SERVER, "db3": SERVER})


def run_by(server: MySql, values: str = "", unknown: str = "") -> Observed:
    """The stack with this server everywhere."""
    seen = observed(values, unknown)
    return replace(seen, servers=dict.fromkeys(seen.servers, server))


STACKS = {
    "whole": observed(),
    "without doublewrite": observed("innodb_doublewrite=off"),
    "wordy": run_by(WORDY),
    "bare": run_by(BARE, unknown="semi_sync_replicas"),
    "alone": ALONE,
    "late": replace(ALONE, late={"db2": "", "db3": ""}),
    "without db2": WITHOUT_DB2,
    "without the shim": replace(observed(), impossible=SHIM),
}
REFUSED = """\
without doublewrite | innodb_doublewrite=on
whole               | innodb_doublewrite@db2=off sync_binlog=0
whole               | sync_binlog=0 replica_parallel_workers@db2=0
wordy               | innodb_doublewrite=detect_only
bare                | semi_sync_replicas=2
whole               | jitter@db2=5
whole               | jitter@db2=50 rtt@db2=85
whole               | jitter@db2=21 delay_to_primary@db2=40
alone               | sync_relay_log@db3=1
alone               | semi_sync=on
late                | semi_sync=on
without db2         | semi_sync=on semi_sync_replicas=2
without the shim    | fsync_delay=2 sync_binlog=0
"""


def test_what_cannot_be_is_refused_before_anything_runs(snapshot: object) -> None:
    told = []
    for stack, wanted in table_of(REFUSED):
        with pytest.raises(ReplexplorerError) as caught:
            make_plan(STACKS[stack], typed(wanted))
        told.append((wanted, caught.typename, str(caught.value)))
    assert told == snapshot


def test_what_is_almost_refused_is_planned() -> None:
    has_not_noticed_yet = replace(ALONE, semi_sync_clients=1)
    for stack, wanted, is_something in (
        (WITHOUT_DB2, "semi_sync=on", True),
        (has_not_noticed_yet, "semi_sync=on", True),
        (replace(observed(), impossible=SHIM), "fsync_delay=0", False),
    ):
        assert bool(make_plan(stack, typed(wanted)).steps) is is_something, wanted
    assert make_plan(run_by(WORDY), {parse_name("innodb_doublewrite"): "fast"}).steps


def test_the_kick_waits_for_the_longest_delay_before_or_after() -> None:
    for rtt_ms, deadline_s in ((85, 2.0), (2000, 6.0)):
        made = plan("semi_sync=on rtt@db2=0", f"rtt@db2={rtt_ms}")
        assert Kick(deadline_s) in [planned.step for planned in made.steps]


def test_a_link_goes_on_being_asked_what_is_limited_now() -> None:
    asked = LinkSettings(rtt_ms=10, jitter_ms=20)
    stack = replace(observed("rtt@db2=10 jitter@db2=3.5"), asked_of_links={"db2": asked})
    (step,) = [planned.step for planned in make_plan(stack, typed("rtt@db2=85")).steps]
    assert step == LinkStep("db2", replace(asked, rtt_ms=85.0), (KnobName("rtt", "db2"),))


@dataclass
class Model:
    """A stack that does what steps say, and remembers what it saw."""

    values: dict[KnobName, Value | None]
    applier_runs: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(REPLICAS, True))
    session_values: dict[KnobName, Value | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.session_values = {n: v for n, v in self.values.items() if n.knob.restart == "sessions"}

    def run(self, step: Step) -> None:
        match step:
            case SqlStep():
                for statement in step.before:
                    assert statement == "STOP REPLICA SQL_THREAD"
                    self.applier_runs[step.node] = False
                for check in step.checks:
                    if check.name.knob.restart == "applier":
                        assert not self.applier_runs[step.node]
                    assert SERVER.set(check.name.key, check.value) in step.statements
                    self.values[check.name] = check.value
                for _ in step.after:
                    self.applier_runs[step.node] = True
            case LinkStep():
                told = step.settings.values()
                self.values.update({KnobName(key, step.link): value for key, value in told.items()})
            case DiskStep():
                self.values[step.name] = step.value
            case LoadStep():
                assert {name.key for name in step.names} == set(step.changes)
                self.values.update({name: step.changes[name.key] for name in step.names})
            case FreshSessions():
                self.renew()
            case Kick():
                assert self.values[KnobName("semi_sync", "primary")] == "on"
            case IoRestart():
                pass


LIVE = [
    name
    for name in expand(CATALOGUE, REPLICAS)
    if name.key not in ("innodb_doublewrite", "jitter") and SERVER.capabilities.has(name.key)
]
"""Knobs of which any value may follow on any other."""


def some_value(name: KnobName) -> st.SearchStrategy[Value]:
    """A value that our server takes."""
    knob = SERVER.capabilities.knob(name.key)
    if knob.kind is Kind.FLOAT:
        words: list[Value] = [value for _, value in knob.words[:1]]
        return st.sampled_from([*words, 0.0, 0.5, 85.0, 1000.0 if knob.unit == "ms" else 100.0])
    return st.sampled_from(knob.steps)


states = st.fixed_dictionaries({name: some_value(name) for name in LIVE})
wishes = st.sets(st.sampled_from(LIVE)).flatmap(
    lambda names: st.fixed_dictionaries({name: some_value(name) for name in names})
)


@given(states, wishes)
def test_a_plan_reaches_what_was_asked_and_then_nothing_is_left_to_do(
    start: dict[KnobName, Value], wish: dict[KnobName, Value]
) -> None:
    model = Model({**defaults(REPLICAS), **start})
    for planned in make_plan(replace(observed(), values=model.values), wish).steps:
        model.run(planned.step)
    assert model.values == {**defaults(REPLICAS), **start, **wish}
    assert all(model.applier_runs.values())
    assert all(model.values[name] == value for name, value in model.session_values.items())
    again = make_plan(replace(observed(), values=model.values), wish)
    assert again.steps == ()
    assert set(again.unchanged) == set(wish)


@given(states, wishes, st.data())
def test_the_rollback_of_any_part_leads_back(
    start: dict[KnobName, Value], wish: dict[KnobName, Value], data: st.DataObject
) -> None:
    model = Model({**defaults(REPLICAS), **start})
    before = dict(model.values)
    made = make_plan(replace(observed(), values=before), wish)
    done = data.draw(st.integers(0, len(made.steps)))
    for planned in made.steps[:done]:
        model.run(planned.step)
    for step in made.rollback(done):
        model.run(step)
    assert model.values == before
    assert all(model.values[name] == value for name, value in model.session_values.items())
    assert all(model.applier_runs.values())


@given(states, wishes)
def test_order_laws(start: dict[KnobName, Value], wish: dict[KnobName, Value]) -> None:
    stack = replace(observed(), values={**defaults(REPLICAS), **start})
    steps = [planned.step for planned in make_plan(stack, wish).steps]
    outside = [index for index, step in enumerate(steps) if isinstance(step, LinkStep | DiskStep)]
    falls = [index for index in outside if _falls(stack, steps[index])]
    rises = [index for index in outside if index not in falls]
    assert falls == list(range(len(falls)))
    assert rises == list(range(len(steps) - len(rises), len(steps)))
    switch = [
        (index, step.checks[0].value)
        for index, step in enumerate(steps)
        if isinstance(step, SqlStep) and step.checks[0].name.key == "semi_sync"
    ]
    settings = [
        index for index, step in enumerate(steps) if isinstance(step, SqlStep) and index not in dict(switch)
    ]
    for index, value in switch:
        assert all(index > other for other in settings) if value == "on" else index == len(falls)
        if value == "on":
            assert isinstance(steps[index + 1], Kick)


def _falls(stack: Observed, step: Step) -> bool:
    if isinstance(step, DiskStep):
        before = stack.values[step.name]
        wanted = step.value
        if isinstance(before, int | float) and isinstance(wanted, int | float):
            return wanted < before
        return wanted == step.name.knob.default
    assert isinstance(step, LinkStep)
    now = LinkSettings.of({n.key: v for n, v in stack.values.items() if n.node == step.link})
    return now.easier(step.settings) == step.settings
