"""What labs of our own make of figures: as theory has them, and as it does not."""

from __future__ import annotations

from collections.abc import Sequence

from replexplorer.cli.experiment import LABS
from replexplorer.core.experiment.lab import Lab, PhaseResult
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram
from tests.known import known
from tests.typed import table_of

LENGTH_S = 10.0


def test_each_machine_is_as_durable_as_the_mode_says() -> None:
    """The replica of the relaxed modes had stayed durable, where in the article both were relaxed."""
    for phase in LABS.named("durability-modes").phases:
        for knob in ("sync_binlog", "innodb_flush_log_at_trx_commit"):
            [here] = [text for text in phase.settings if text.startswith(f"{knob}=")]
            assert here.replace("=", "@replica=") in phase.settings
        assert {"fsync_delay=2ms", "fsync_delay@replica=2ms"} <= set(phase.settings)


MEASURED = {
    "quorum-of-n": """\

async  | 1 |  1 |  0 |  |
1 of 3 | 1 | 11 | 10 |  |
2 of 3 | 1 | 41 | 40 |  |
3 of 3 | 1 | 86 | 85 |  |
2 of 3 | 1 | 86 | 40 |  | 2 of 3 waited for all
3 of 3 | 1 | 41 | 85 |  | 3 of 3 waited for two
""",
    "applier-lag": """\
lag at the end, s; acknowledged, not applied at the end; catches up in, s
applier keeps up     | 16 | 4 | 0 | 0 0 0        |
one slow worker      | 16 | 4 | 0 | 6.5 1300 6.5 |
sixteen slow workers | 16 | 4 | 0 | 0.2 40 0.2   |
one slow worker      | 16 | 4 | 0 | 2 400 2      | a slow worker that keeps up
sixteen slow workers | 16 | 4 | 0 | 3 600 3      | parallel workers that fall behind
one slow worker      | 16 | 9 | 0 | 6.5 1300 6.5 | acknowledgements that wait for the applier
""",
    "group-delay": """\
commits per binlog fsync
no delay, 1 client                    |  1 |   21 | 0 | 16 |
delay, 1 client                       |  1 | 23.2 | 0 | 16 |
no delay, 32 clients                  | 32 |   40 | 0 | 16 |
delay, 32 clients                     | 32 |   23 | 0 | 31 |
delay until all are there, 32 clients | 32 |   22 | 0 | 16 |
delay, 32 clients                     | 32 |   39 | 0 | 31 | a delay without a gain
delay, 1 client                       |  1 | 21.1 | 0 | 16 | a delay that costs nothing
""",
    "missing-key": """\
then on the replica, s; on the source, s; rows left on the source; rows left on the replica
no key                 | 0 | 1 | 0 | 12.6 0.2 800 800 |
no key, one index      | 0 | 1 | 0 | 0.2 0.2 800 800  |
a key added, invisible | 0 | 1 | 0 | 0.2 0.2 800 800  |
primary key            | 0 | 1 | 0 | 0.2 0.2 800 800  |
primary key generated  | 0 | 1 | 0 | 0.2 0.2 800 800  |
primary key            | 0 | 1 | 0 | 5 0.2 800 800    | slow with a key, too
no key                 | 0 | 1 | 0 | 12.6 0.2 800 790 | other rows on the replica
""",
    "systems-78ms": """\
rolled back and tried again; refused by certification; gave way before certification
async, 1 thread               |  1 |     4 | 78 |            |
async, 32 threads             | 32 |     8 | 78 |            |
AFTER_SYNC, 1 thread          |  1 |    82 | 78 |            |
AFTER_SYNC, 32 threads        | 32 |   100 | 78 |            |
AFTER_SYNC, hot rows          | 32 |   320 | 78 | 0          |
AFTER_COMMIT, 1 thread        |  1 |    82 | 78 |            |
AFTER_COMMIT, 32 threads      | 32 |    95 | 78 |            |
AFTER_COMMIT, hot rows        | 32 | 84.21 | 78 | 0          |
Group Replication, 1 thread   |  1 |   160 | 78 |            |
Group Replication, 32 threads | 32 |   170 | 78 |            |
Group Replication, hot rows   | 32 |  1067 | 78 | 400 390    |
Galera, 1 thread              |  1 |    81 | 78 |            |
Galera, 32 threads            | 32 |   110 | 78 |            |
Galera, hot rows              | 32 | 711.1 | 78 | 120 40 300 |
Galera, 1 thread              |  1 |    40 | 78 |            | Galera did not wait
Group Replication, 32 threads | 32 |  2560 | 78 |            | one after the other
AFTER_SYNC, hot rows          | 32 |    80 | 78 | 0          | locks were not held
AFTER_COMMIT, hot rows        | 32 | 84.21 | 78 | 3          | semi-sync rolled back
Galera, hot rows              | 32 | 711.1 | 78 | 0 0 0      | Galera rolled nothing back
Galera, 32 threads            | 32 |   110 | 78 | blocked    | blocked
""",
}
"""What a lab measured: its figures, then a line a phase: clients, mean latency in ms, round trip in ms, and
figures. Lines with a case at their end take the place of the phase's line: not as theory has it."""


def result(lab: Lab, row: Sequence[str], names: Sequence[str]) -> PhaseResult:
    """One phase, measured for ten seconds."""
    name, clients, mean_ms, rtt_ms, figures, *_ = row
    phase = next(each for each in lab.phases if each.name == name)
    state = ProtectionState.BLOCKED if figures == "blocked" else phase.state
    protection = Protection(state, requested=True, fallbacks=0, unprotected=0)
    tps = round(1000 * int(clients) / float(mean_ms), 1)
    return PhaseResult(
        phase, {}, float(rtt_ms), Histogram.of([round(1000 * float(mean_ms))] * round(LENGTH_S * tps)), tps,
        clients=int(clients), protection=protection, protection_before=protection, duration_s=LENGTH_S,
        figures=dict(zip(names, map(float, figures.removeprefix("blocked").split()), strict=False)),
        server=f"server of {phase.system}",
    )  # fmt: skip


def measured(lab: Lab) -> dict[str, dict[str, PhaseResult]]:
    """By case, the first as theory has it: each phase's result by its name."""
    (head, *_), *rows = table_of(MEASURED[lab.name])
    found: dict[str, dict[str, PhaseResult]] = {lab.name: {}}
    for row in rows:
        phases = found[lab.name] if row[-1] == "" else found.setdefault(row[-1], dict(found[lab.name]))
        phases[row[0]] = result(lab, row, head.split("; "))
    return found


def test_a_lab_deviates_where_its_figures_are_not_as_theory_has_them(snapshot: object) -> None:
    deviates = {}
    for lab in map(LABS.named, MEASURED):
        for case, phases in measured(lab).items():
            relations = lab.judge(phases)
            assert len(relations) > 2
            deviates[case] = [each.name for each in relations if not each.holds]
    assert deviates == snapshot


def test_the_systems_stand_side_by_side_as_far_as_they_were_measured(snapshot: object) -> None:
    lab = LABS.named("systems-78ms")
    found = measured(lab)[lab.name]
    summary = known(lab.summary(found))
    assert [("", *summary.columns), *((row.name, *row.values) for row in summary.rows)] == snapshot
    early = {name: each for name, each in found.items() if each.phase.system == "async"}
    assert known(lab.summary(early)).columns == ("async", "AFTER_SYNC", "AFTER_COMMIT")
    assert lab.summary({}) is None
