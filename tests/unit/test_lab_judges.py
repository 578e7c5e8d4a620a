"""What labs of our own make of figures: as theory has them, and as it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from replexplorer.cli.experiment import LABS
from replexplorer.core.experiment.experiment import Relation
from replexplorer.core.experiment.lab import GAVE_WAY, REFUSED, RETRIED, Lab, PhaseResult
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram

LENGTH_S = 10.0


def results(
    lab: Lab,
    means_ms: Mapping[str, float],
    rtts_ms: Mapping[str, float] | None = None,
    figures: Mapping[str, Mapping[str, float | str]] | None = None,
) -> dict[str, PhaseResult]:
    """Each phase of a lab with this mean latency of its clients, for ten seconds."""
    found, clients = {}, 1
    for phase in lab.phases:
        mean_ms, service = means_ms[phase.name], Histogram()
        clients = next((int(text[8:]) for text in phase.settings if text.startswith("clients=")), clients)
        count = round(clients * LENGTH_S * 1000 / mean_ms)
        service.record_all([round(1000 * mean_ms)] * count)
        protection = Protection(phase.state, requested=True, fallbacks=0, unprotected=0)
        result = PhaseResult(
            phase, {}, (rtts_ms or {}).get(phase.name, 0.0), service, count / LENGTH_S, None, protection,
            clients, 0, duration_s=LENGTH_S, protection_before=protection,
        )  # fmt: skip
        found[phase.name] = replace(result, figures=(figures or {}).get(phase.name, {}))
    return found


def failed(lab: Lab, found: Mapping[str, PhaseResult]) -> list[str]:
    """Names of the relations that do not hold."""
    relations: list[Relation] = list(lab.judge(found))
    assert len(relations) > 2
    return [each.name for each in relations if not each.holds]


QUORUM = {"async": 1.0, "1 of 3": 11.0, "2 of 3": 41.0, "3 of 3": 86.0}
RTTS = {"1 of 3": 10.0, "2 of 3": 40.0, "3 of 3": 85.0}


@pytest.mark.parametrize(
    ("means_ms", "deviates"),
    [
        ({}, []),
        ({"2 of 3": 86.0}, ["2 of 3: TPS", "2 of 3 faster than 3 of 3"]),  # it waited for all
        ({"3 of 3": 41.0}, ["3 of 3: TPS", "2 of 3 faster than 3 of 3"]),  # it waited for two
    ],
)
def test_a_quorum_waits_for_the_nth_nearest_and_for_no_other(
    means_ms: Mapping[str, float], deviates: list[str]
) -> None:
    lab = LABS.named("quorum-of-n")
    names = failed(lab, results(lab, {**QUORUM, **means_ms}, RTTS))
    assert [name.startswith(part) for name, part in zip(names, deviates, strict=True)] == [True] * len(names)


def lagging(slow_s: float, parallel_s: float) -> dict[str, dict[str, float]]:
    """What the phases of applier-lag found."""
    lags_s = {"applier keeps up": 0.0, "one slow worker": slow_s, "sixteen slow workers": parallel_s}
    names = ("lag at the end, s", "acknowledged, not applied at the end", "catches up in, s")
    return {
        phase: dict(zip(names, (lag_s, 200 * lag_s, lag_s), strict=True)) for phase, lag_s in lags_s.items()
    }


@pytest.mark.parametrize(
    ("slow_s", "parallel_s", "slow_ms", "deviates"),
    [
        (6.5, 0.2, 4.0, []),
        (2.0, 0.2, 4.0, ["one slow worker falls behind"]),
        (6.5, 3.0, 4.0, ["parallel workers leave"]),
        (6.5, 0.2, 9.0, ["acknowledgements go on"]),
    ],
)
def test_lag_grows_while_acknowledgements_go_on_and_workers_mend_it(
    slow_s: float, parallel_s: float, slow_ms: float, deviates: list[str]
) -> None:
    lab = LABS.named("applier-lag")
    means_ms = {phase.name: 4.0 for phase in lab.phases} | {"one slow worker": slow_ms}
    names = failed(lab, results(lab, means_ms, figures=lagging(slow_s, parallel_s)))
    assert [name.startswith(part) for name, part in zip(names, deviates, strict=True)] == [True] * len(names)


DELAY = {
    "no delay, 1 client": 21.0, "delay, 1 client": 23.2, "no delay, 32 clients": 40.0,
    "delay, 32 clients": 23.0, "delay until all are there, 32 clients": 22.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("means_ms", "deviates"),
    [
        ({}, []),
        ({"delay, 32 clients": 39.0}, ["delay, 32 clients at least"]),
        ({"delay, 1 client": 21.1}, ["1 client pays"]),
    ],
)
def test_a_group_delay_gains_with_company_and_costs_who_is_alone(
    means_ms: Mapping[str, float], deviates: list[str]
) -> None:
    lab = LABS.named("group-delay")
    groups: dict[str, Mapping[str, float | str]] = {
        phase.name: {"commits per binlog fsync": 16.0} for phase in lab.phases
    }
    groups["delay, 32 clients"] = {"commits per binlog fsync": 31.0}
    names = failed(lab, results(lab, {**DELAY, **means_ms}, figures=groups))
    assert [name.startswith(part) for name, part in zip(names, deviates, strict=True)] == [True] * len(names)


LEFT = ("rows left on the source", "rows left on the replica")


@pytest.mark.parametrize(
    ("replica_s", "left", "deviates"),
    [
        ({}, (800.0, 800.0), []),
        (
            {"primary key": 5.0},
            (800.0, 800.0),
            ["without a key the replica takes at least 3 x as long as with: primary key"],
        ),
        ({}, (800.0, 790.0), ["source and replica have the same rows after it: no key"]),
    ],
)
def test_a_missing_key_stalls_the_replica_and_nothing_else(
    replica_s: Mapping[str, float], left: tuple[float, float], deviates: list[str]
) -> None:
    lab = LABS.named("missing-key")
    took_s = {phase.name: 0.2 for phase in lab.phases} | {"no key": 12.6} | dict(replica_s)
    figures: dict[str, Mapping[str, float | str]] = {
        name: {"then on the replica, s": s, "on the source, s": 0.2, **dict.fromkeys(LEFT, 800.0)}
        for name, s in took_s.items()
    }
    figures["no key"] = {**figures["no key"], **dict(zip(LEFT, left, strict=True))}
    means_ms = {phase.name: 1.0 for phase in lab.phases}
    assert failed(lab, results(lab, means_ms, figures=figures)) == deviates


def test_each_machine_is_as_durable_as_the_mode_says() -> None:
    """The replica of the relaxed modes had stayed durable, where in the article both were relaxed."""
    for phase in LABS.named("durability-modes").phases:
        for knob in ("sync_binlog", "innodb_flush_log_at_trx_commit"):
            [here] = [text for text in phase.settings if text.startswith(f"{knob}=")]
            assert here.replace("=", "@replica=") in phase.settings
        assert {"fsync_delay=2ms", "fsync_delay@replica=2ms"} <= set(phase.settings)


def test_the_table_that_is_archived_is_the_article_s_and_so_is_the_share_that_goes() -> None:
    deleted = next(each for each in LABS.named("archive").phases if "DELETE" in each.name)
    assert deleted.published is not None
    assert (deleted.published.value, deleted.published.rows) == (169.99, 2_172_320)
    assert deleted.published_figures["delete, s"].value == 86.27
    assert deleted.published_figures["rows after"].value == 2_172_320 - 1_085_426


def test_bulk_load_loads_all_rows_in_full_mode() -> None:
    timed = [each for each in LABS.named("bulk-load").phases if each.published is not None]
    assert len(timed) == 4
    whole = {
        each.name: each.length(quick=False).commits for each in timed if each.name.startswith("all rows")
    }
    assert whole == {"all rows, async": 300_024, "all rows, semi-sync": 300_024}
    assert {each.published.rows for each in timed if each.published} == {300_024}


@pytest.mark.parametrize("name", ["wan-insert", "durability-modes", "bulk-load", "wan-threads", "archive"])
def test_a_published_experiment_has_the_address_of_its_page(name: str) -> None:
    source = LABS.named(name).source
    assert source is not None
    assert source.url is not None
    assert len(urlsplit(source.url).path) > 1, "a page, not a site"


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
    means_ms: Mapping[str, tuple[float, float]], hot: Mapping[str, tuple[float, Mapping[str, float]]]
) -> dict[str, PhaseResult]:
    """Each phase of systems-78ms at a round trip of 78 ms: mean latencies of 1 and 32 threads, and TPS with
    what was rolled back on the hot rows."""
    lab = LABS.named("systems-78ms")
    by_phase = dict.fromkeys((phase.name for phase in lab.phases), 1.0)
    for name, (one, many) in means_ms.items():
        by_phase |= {f"{name}, 1 thread": one, f"{name}, 32 threads": many}
    found = results(lab, by_phase, dict.fromkeys(by_phase, 78.0))
    for name, (tps, figures) in hot.items():
        service = Histogram()
        service.record_all([320_000] * round(tps * LENGTH_S))
        phase = f"{name}, hot rows"
        found[phase] = replace(found[phase], service=service, tps=tps, figures=figures)
    return {name: replace(each, server=f"server of {each.phase.system}") for name, each in found.items()}


@pytest.mark.parametrize(
    ("means_ms", "hot", "deviates"),
    [
        pytest.param({}, {}, [], id="as theory has it"),
        pytest.param(
            {"Galera": (40.0, 110.0)}, {},
            ["Galera, 1 thread: TPS at most"], id="it did not wait",
        ),
        pytest.param(
            {"Group Replication": (160.0, 2560.0)}, {}, ["Group Replication, 32 threads at least 8 x"],
            id="one after the other",
        ),
        pytest.param(
            {}, {"AFTER_SYNC": (400.0, {RETRIED: 0.0})},
            ["AFTER_SYNC, hot rows: TPS at most", "AFTER_COMMIT, hot rows faster than AFTER_SYNC"],
            id="locks were not held",
        ),
        pytest.param(
            {}, {"AFTER_COMMIT": (380.0, {RETRIED: 3.0})}, ["AFTER_COMMIT, hot rows: no transaction"],
            id="semi-sync rolled back",
        ),
        pytest.param(
            {}, {"Galera": (45.0, {RETRIED: 0.0, REFUSED: 0.0, GAVE_WAY: 0.0})},
            ["Galera, hot rows: transactions are"], id="a group did not",
        ),
    ],
)  # fmt: skip
def test_systems_wait_a_round_trip_and_groups_roll_hot_rows_back(
    means_ms: Mapping[str, tuple[float, float]],
    hot: Mapping[str, tuple[float, Mapping[str, float]]],
    deviates: list[str],
) -> None:
    found = on_systems({**SYSTEMS_MS, **means_ms}, {**HOT, **hot})
    names = failed(LABS.named("systems-78ms"), found)
    assert [name.startswith(part) for name, part in zip(names, deviates, strict=True)] == [True] * len(names)


def test_a_group_without_a_majority_deviates() -> None:
    found = on_systems(SYSTEMS_MS, HOT)
    name = "Galera, 32 threads"
    blocked = replace(found[name].protection, state=ProtectionState.BLOCKED)
    found[name] = replace(found[name], protection=blocked)
    assert failed(LABS.named("systems-78ms"), found) == ["each phase was protected as it asked"]


def test_the_systems_stand_side_by_side_as_far_as_they_were_measured() -> None:
    lab = LABS.named("systems-78ms")
    found = on_systems(SYSTEMS_MS, HOT)
    summary = lab.summary(found)
    assert summary is not None
    assert summary.columns == tuple(SYSTEMS_MS)
    rows = {row.name: row.values for row in summary.rows}
    assert rows["1 thread, TPS"] == pytest.approx((250, 12.2, 12.2, 6.3, 12.3), abs=0.1)
    assert rows["1 thread, round trips"] == pytest.approx((0.05, 1.05, 1.05, 2.05, 1.04), abs=0.01)
    assert rows["1 thread, published"] == ("273 TPS", None, "102 ms at 100 ms", None, "108 ms at 100 ms")
    assert rows["hot rows, TPS"] == (None, 100, 380, 30, 45)
    assert rows[f"hot rows, {REFUSED}"] == (None, None, None, "390", "40")
    assert rows[f"hot rows, {GAVE_WAY}"] == (None, None, None, None, "300")
    assert rows["server"] == ("server of async",) * 3 + ("server of group", "server of galera")
    early = lab.summary({name: each for name, each in found.items() if each.phase.system == "async"})
    assert early is not None
    assert early.columns == ("async", "AFTER_SYNC", "AFTER_COMMIT")
    assert lab.summary({}) is None
