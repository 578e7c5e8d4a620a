"""What labs of our own make of figures: as theory has them, and as it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from replexplorer.core.server.protection import Protection
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.experiment.labs import find_lab
from replexplorer.engine.experiment.labs.lab import Lab, PhaseResult, Relation
from replexplorer.engine.experiment.labs.title_table import ALL_ROWS, GONE

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
    lab = find_lab("quorum-of-n")
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
    lab = find_lab("applier-lag")
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
    lab = find_lab("group-delay")
    groups: dict[str, Mapping[str, float | str]] = {
        phase.name: {"commits per binlog fsync": 16.0} for phase in lab.phases
    }
    groups["delay, 32 clients"] = {"commits per binlog fsync": 31.0}
    names = failed(lab, results(lab, {**DELAY, **means_ms}, figures=groups))
    assert [name.startswith(part) for name, part in zip(names, deviates, strict=True)] == [True] * len(names)


@pytest.mark.parametrize(
    ("replica_s", "left", "deviates"),
    [
        ({}, 800.0, []),
        (
            {"primary key": 5.0},
            800.0,
            ["without a key the replica takes at least 3 x as long as with: primary key"],
        ),
        ({}, "800 and 790", ["source and replica have the same rows after it"]),
    ],
)
def test_a_missing_key_stalls_the_replica_and_nothing_else(
    replica_s: Mapping[str, float], left: float | str, deviates: list[str]
) -> None:
    lab = find_lab("missing-key")
    took_s = {phase.name: 0.2 for phase in lab.phases} | {"no key": 12.6} | dict(replica_s)
    figures: dict[str, Mapping[str, float | str]] = {
        name: {"then on the replica, s": s, "as long as on the source": s / 0.2, "rows left on both": 800.0}
        for name, s in took_s.items()
    }
    figures["no key"] = {**figures["no key"], "rows left on both": left}
    means_ms = {phase.name: 1.0 for phase in lab.phases}
    assert failed(lab, results(lab, means_ms, figures=figures)) == deviates


def test_each_machine_is_as_durable_as_the_mode_says() -> None:
    """The replica of the relaxed modes had stayed durable, where in the article both were relaxed."""
    for phase in find_lab("durability-modes").phases:
        for knob in ("sync_binlog", "innodb_flush_log_at_trx_commit"):
            [here] = [text for text in phase.settings if text.startswith(f"{knob}=")]
            assert here.replace("=", "@replica=") in phase.settings
        assert {"fsync_delay=2ms", "fsync_delay@replica=2ms"} <= set(phase.settings)


def test_the_table_that_is_archived_is_the_article_s_and_so_is_the_share_that_goes() -> None:
    deleted = next(each for each in find_lab("archive").phases if "DELETE" in each.name)
    assert deleted.published is not None
    assert (deleted.published.value, deleted.published.rows) == (169.99, ALL_ROWS)
    assert deleted.published_figures["delete, s"].value == 86.27
    assert deleted.published_figures["rows after"].value == ALL_ROWS - GONE == 1_086_894


def test_bulk_load_loads_all_rows_in_full_mode() -> None:
    timed = [each for each in find_lab("bulk-load").phases if each.published is not None]
    assert len(timed) == 4
    whole = {
        each.name: each.length(quick=False).commits for each in timed if each.name.startswith("all rows")
    }
    assert whole == {"all rows, async": 300_024, "all rows, semi-sync": 300_024}
    assert {each.published.rows for each in timed if each.published} == {300_024}


@pytest.mark.parametrize("name", ["wan-insert", "durability-modes", "bulk-load", "wan-threads", "archive"])
def test_a_published_experiment_has_the_address_of_its_page(name: str) -> None:
    source = find_lab(name).source
    assert source is not None
    assert source.url is not None
    assert len(urlsplit(source.url).path) > 1, "a page, not a site"
