"""What labs of our own make of figures: as theory has them, and as it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from replexplorer.cli.experiment import LABS
from replexplorer.core.experiment.lab import GAVE_WAY, REFUSED, RETRIED, Lab, PhaseResult
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram
from tests.known import known

LENGTH_S = 10.0
Found = tuple[Lab, Mapping[str, PhaseResult]]


def results(
    lab: Lab,
    means_ms: Mapping[str, float],
    rtts_ms: Mapping[str, float] | None = None,
    figures: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, PhaseResult]:
    """Each phase of a lab with this mean latency of its clients, for ten seconds."""
    found, clients = {}, 1
    for phase in lab.phases:
        mean_ms = means_ms[phase.name]
        clients = next((int(text[8:]) for text in phase.settings if text.startswith("clients=")), clients)
        count = round(clients * LENGTH_S * 1000 / mean_ms)
        service = Histogram.of([round(1000 * mean_ms)] * count)
        protection = Protection(phase.state, requested=True, fallbacks=0, unprotected=0)
        found[phase.name] = PhaseResult(
            phase, {}, (rtts_ms or {}).get(phase.name, 0.0), service, count / LENGTH_S, clients=clients,
            protection=protection, protection_before=protection, duration_s=LENGTH_S,
            figures=(figures or {}).get(phase.name, {}),
        )  # fmt: skip
    return found


QUORUM = {"async": 1.0, "1 of 3": 11.0, "2 of 3": 41.0, "3 of 3": 86.0}
RTTS = {"1 of 3": 10.0, "2 of 3": 40.0, "3 of 3": 85.0}


def quorum(**means_ms: float) -> Found:
    lab = LABS.named("quorum-of-n")
    return lab, results(lab, {**QUORUM, **means_ms}, RTTS)


def lagging(slow_s: float = 6.5, parallel_s: float = 0.2, slow_ms: float = 4.0) -> Found:
    """A replica that is so far behind at the end of the phases with slow workers, and what a commit takes."""
    lab = LABS.named("applier-lag")
    lags_s = {"applier keeps up": 0.0, "one slow worker": slow_s, "sixteen slow workers": parallel_s}
    names = ("lag at the end, s", "acknowledged, not applied at the end", "catches up in, s")
    figures = {
        phase: dict(zip(names, (lag_s, 200 * lag_s, lag_s), strict=True)) for phase, lag_s in lags_s.items()
    }
    means_ms = {phase.name: 4.0 for phase in lab.phases} | {"one slow worker": slow_ms}
    return lab, results(lab, means_ms, figures=figures)


DELAY = {
    "no delay, 1 client": 21.0, "delay, 1 client": 23.2, "no delay, 32 clients": 40.0,
    "delay, 32 clients": 23.0, "delay until all are there, 32 clients": 22.0,
}  # fmt: skip


def delayed(**means_ms: float) -> Found:
    lab = LABS.named("group-delay")
    groups = dict.fromkeys(DELAY, 16.0) | {"delay, 32 clients": 31.0}
    figures = {phase: {"commits per binlog fsync": size} for phase, size in groups.items()}
    return lab, results(lab, {**DELAY, **means_ms}, figures=figures)


LEFT = ("rows left on the source", "rows left on the replica")


def keyless(with_key_s: float = 0.2, left_on_replica: float = 800.0) -> Found:
    """The replica takes 12.6 s without a key."""
    lab = LABS.named("missing-key")
    took_s = {phase.name: 0.2 for phase in lab.phases} | {"no key": 12.6, "primary key": with_key_s}
    figures = {
        name: {"then on the replica, s": s, "on the source, s": 0.2, **dict.fromkeys(LEFT, 800.0)}
        for name, s in took_s.items()
    }
    figures["no key"][LEFT[1]] = left_on_replica
    return lab, results(lab, dict.fromkeys(took_s, 1.0), figures=figures)


def test_each_machine_is_as_durable_as_the_mode_says() -> None:
    """The replica of the relaxed modes had stayed durable, where in the article both were relaxed."""
    for phase in LABS.named("durability-modes").phases:
        for knob in ("sync_binlog", "innodb_flush_log_at_trx_commit"):
            [here] = [text for text in phase.settings if text.startswith(f"{knob}=")]
            assert here.replace("=", "@replica=") in phase.settings
        assert {"fsync_delay=2ms", "fsync_delay@replica=2ms"} <= set(phase.settings)


SYSTEMS_MS = {
    "async": (4.0, 8.0), "AFTER_SYNC": (82.0, 100.0), "AFTER_COMMIT": (82.0, 95.0),
    "Group Replication": (160.0, 170.0), "Galera": (81.0, 110.0),
}  # fmt: skip
HOT = {
    "AFTER_SYNC": (100.0, {RETRIED: 0.0}),
    "AFTER_COMMIT": (380.0, {RETRIED: 0.0}),
    "Group Replication": (30.0, {RETRIED: 400.0, REFUSED: 390.0}),
    "Galera": (45.0, {RETRIED: 120.0, REFUSED: 40.0, GAVE_WAY: 300.0}),
}


def on_systems(
    means_ms: Mapping[str, tuple[float, float]] = SYSTEMS_MS,
    hot: Mapping[str, tuple[float, Mapping[str, float]]] = HOT,
) -> tuple[Lab, dict[str, PhaseResult]]:
    """Each phase of systems-78ms at a round trip of 78 ms: mean latencies of 1 and 32 threads, and TPS with
    what was rolled back on the hot rows."""
    lab = LABS.named("systems-78ms")
    by_phase = dict.fromkeys((phase.name for phase in lab.phases), 1.0)
    for name, (one, many) in {**SYSTEMS_MS, **means_ms}.items():
        by_phase |= {f"{name}, 1 thread": one, f"{name}, 32 threads": many}
    found = results(lab, by_phase, dict.fromkeys(by_phase, 78.0))
    for name, (tps, figures) in {**HOT, **hot}.items():
        service = Histogram.of([320_000] * round(tps * LENGTH_S))
        phase = f"{name}, hot rows"
        found[phase] = replace(found[phase], service=service, tps=tps, figures=figures)
    return lab, {name: replace(each, server=f"server of {each.phase.system}") for name, each in found.items()}


def blocked(name: str) -> Found:
    """A phase of systems-78ms whose group had no majority at its end."""
    lab, found = on_systems()
    protection = replace(found[name].protection, state=ProtectionState.BLOCKED)
    return lab, found | {name: replace(found[name], protection=protection)}


RAN: dict[str, Callable[[], Found]] = {
    "quorum": quorum,
    "2 of 3 waited for all": partial(quorum, **{"2 of 3": 86.0}),
    "3 of 3 waited for two": partial(quorum, **{"3 of 3": 41.0}),
    "lag": lagging,
    "a slow worker that keeps up": partial(lagging, slow_s=2.0),
    "parallel workers that fall behind": partial(lagging, parallel_s=3.0),
    "acknowledgements that wait for the applier": partial(lagging, slow_ms=9.0),
    "group delay": delayed,
    "a delay without a gain": partial(delayed, **{"delay, 32 clients": 39.0}),
    "a delay that costs nothing": partial(delayed, **{"delay, 1 client": 21.1}),
    "missing key": keyless,
    "slow with a key, too": partial(keyless, with_key_s=5.0),
    "other rows on the replica": partial(keyless, left_on_replica=790.0),
    "systems": on_systems,
    "Galera did not wait": partial(on_systems, {"Galera": (40.0, 110.0)}),
    "one after the other": partial(on_systems, {"Group Replication": (160.0, 2560.0)}),
    "locks were not held": partial(on_systems, hot={"AFTER_SYNC": (400.0, {RETRIED: 0.0})}),
    "semi-sync rolled back": partial(on_systems, hot={"AFTER_COMMIT": (380.0, {RETRIED: 3.0})}),
    "Galera rolled nothing back": partial(
        on_systems, hot={"Galera": (45.0, {RETRIED: 0.0, REFUSED: 0.0, GAVE_WAY: 0.0})}
    ),
    "blocked": partial(blocked, "Galera, 32 threads"),
}


def test_a_lab_deviates_where_its_figures_are_not_as_theory_has_them(snapshot: object) -> None:
    deviates = {}
    for case, ran in RAN.items():
        lab, found = ran()
        relations = lab.judge(found)
        assert len(relations) > 2
        deviates[case] = [each.name for each in relations if not each.holds]
    assert deviates == snapshot


def test_the_systems_stand_side_by_side_as_far_as_they_were_measured(snapshot: object) -> None:
    lab, found = on_systems()
    summary = known(lab.summary(found))
    assert [("", *summary.columns), *((row.name, *row.values) for row in summary.rows)] == snapshot
    early = {name: each for name, each in found.items() if each.phase.system == "async"}
    assert known(lab.summary(early)).columns == ("async", "AFTER_SYNC", "AFTER_COMMIT")
    assert lab.summary({}) is None
