"""A drill's result as a JSON document and as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal, cast

from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.drill_verdict import StateAt, stretches_of
from replexplorer.core.server.comeback import Comeback
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.state_words import word_of
from replexplorer.core.text import number, table
from replexplorer.formats.json.drill import (
    DrillRunJson,
    ExpectationJson,
    FaultWindowJson,
    MomentJson,
    RpoJson,
    RtoJson,
    StateJson,
)
from replexplorer.formats.json.fault import BinlogLostJson
from replexplorer.formats.json.ledger import LossLedgerJson
from replexplorer.formats.json.status import ExposureJson, LossJson, UnknownLossJson
from replexplorer.reports.commit_cost import cost_document, cost_line

SYSTEM: Final = "async"
FAILURES: Final = (
    ("process_dies", "mysqld dies"),
    ("power_cut", "power cut"),
    ("source_lost", "source lost"),
)
"""The meter's figures by their names in JSON, and in words."""


def drill_document(result: DrillResult) -> DrillRunJson:
    """The result as `drill run --json` prints it."""
    ledger, reading, failover = result.ledger, result.reading, result.failover
    return DrillRunJson(
        drill=result.drill.name,
        title=result.drill.title,
        system=result.system,
        server=result.server,
        settings={str(name): value for name, value in result.settings.items()},
        sets=list(result.drill.own_settings),
        asked=list(result.drill.asked),
        started=datetime.fromtimestamp(result.started_wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        + "Z",
        duration_s=round(result.duration_s, 3),
        quick=result.quick,
        clients=result.clients,
        windows=[
            FaultWindowJson(
                fault=each.fault, node=each.node, from_s=round(each.from_s, 3), to_s=_rounded(each.to_s)
            )
            for each in result.windows
        ],
        exposure_before=None if reading is None else _exposure(reading.exposure),
        exposure_read_ms=None if reading is None else round((reading.failed_s - reading.at_s) * 1000, 1),
        acknowledged_since=None if reading is None else reading.meanwhile,
        ledger=None if ledger is None else LossLedgerJson.of(ledger),
        binlog_lost=_binlog_lost(result.comebacks),
        replication_after={
            node: each.value for comeback in result.comebacks for node, each in comeback.replication.items()
        },
        rpo=None
        if ledger is None
        else RpoJson(commits=ledger.lost, ms=_rounded(ledger.oldest_lost_age_ms, 1) if ledger.lost else 0.0),
        rto=None
        if failover is None
        else RtoJson(
            detect_ms=_rounded(failover.rto.detect_ms, 1),
            promote_ms=_rounded(failover.rto.promote_ms, 1),
            first_write_ms=_rounded(failover.rto.first_write_ms, 1),
            total_ms=_rounded(failover.rto.total_ms, 1),
        ),
        recovery_ms=_rounded(result.recovery_ms, 1),
        tps={name.removeprefix("tps_"): round(tps, 1) for name, tps in result.rates_tps.items()},
        commit_cost=cost_document(result.cost),
        fallbacks=result.fallbacks,
        protection=[StateJson(at_s=round(each.at_s, 3), state=each.state) for each in result.timeline],
        told=[MomentJson(at_s=round(at_s, 3), text=text) for at_s, text in result.told],
        expectations=[
            ExpectationJson(name=each.name, holds=each.holds, evidence=each.evidence)
            for each in result.expectations
        ],
        verdict=cast(Literal["holds", "deviates", "aborted"], result.verdict),
        repaired=list(result.repaired),
        aborted=result.aborted,
        unrestored=list(result.unrestored),
    )


def _binlog_lost(comebacks: Sequence[Comeback]) -> BinlogLostJson | None:
    if not comebacks:
        return None
    logs = [each.binlog_lost for each in comebacks]
    return BinlogLostJson(
        transactions=None if None in logs else sum(gtid_count(each or "") for each in logs),
        bytes=sum(each.binlog_bytes for each in comebacks),
    )


def _exposure(exposure: Exposure) -> ExposureJson:
    def shown(loss: Loss | Unknown) -> LossJson | UnknownLossJson:
        if isinstance(loss, Unknown):
            return UnknownLossJson(unknown=loss.why, low=loss.low)
        return LossJson(commits=loss.commits, low=loss.low, high=loss.high, age_ms=_rounded(loss.age_ms, 1))

    return ExposureJson(
        process_dies=shown(exposure.process_dies),
        power_cut=shown(exposure.power_cut),
        source_lost=shown(exposure.source_lost),
        binlog_lost=shown(exposure.binlog_lost),
        replication_after=exposure.replication_after and exposure.replication_after.value,
    )


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


# -- for people


def meter_rows(document: DrillRunJson) -> list[tuple[str, str]]:
    """What the meter said just before the failure, a kind of failure a row."""
    exposure = document.exposure_before
    if exposure is None:
        return []
    rows = [(words, _loss(getattr(exposure, name))) for name, words in FAILURES]
    if document.rpo is not None:
        if document.acknowledged_since is not None:
            told = f"{document.acknowledged_since:,} in the {number(document.exposure_read_ms, 0)} ms between"
            rows.append(("acknowledged after the reading", told))
        rows.append(("really lost", f"{document.rpo.commits:,}"))
    return rows


def _loss(loss: LossJson | UnknownLossJson) -> str:
    if isinstance(loss, UnknownLossJson):
        return f"unknown: {loss.unknown}"
    spread = f" ({loss.low:,} to {loss.high:,})" if loss.low != loss.high else ""
    age = f", the oldest {loss.age_ms:,.0f} ms old" if loss.age_ms is not None else ""
    return f"{loss.commits:,}{spread}{age}"


def ledger_rows(document: DrillRunJson) -> list[tuple[str, str]]:
    """What became of the rows, a class a row."""
    ledger = document.ledger
    if ledger is None:
        return []
    age = document.rpo.ms if document.rpo else None
    lost = f"{ledger.lost:,}"
    if ledger.lost and age is not None:
        lost += f" (of the last {age:,.0f} ms)"
    rows = [
        ("attempted", f"{ledger.attempted:,}"),
        ("acknowledged", f"{ledger.acknowledged:,}"),
        ("refused", f"{ledger.failed:,}"),
        (
            "unknown",
            f"{ledger.unknown:,}, of which {ledger.unknown_present:,} are there"
            f" and {ledger.unknown_absent:,} are not",
        ),
        (f"lost on {ledger.survivor}", lost),
        ("read by others, then gone", f"{ledger.phantom_reads:,}"),
    ]
    for node, each in ledger.nodes.items():
        errant = f"; GTIDs of its own: {each.errant_gtids}" if each.errant_gtids else ""
        rows.append((node, f"{each.rows:,} rows, {each.missing:,} missing, {each.extra:,} extra{errant}"))
    log = document.binlog_lost
    if log is not None:
        rows.append(("gone from the binlog", f"{number(log.transactions, 0)} ({log.bytes:,} bytes)"))
    for node, after in document.replication_after.items():
        remedy = "" if after == "whole" else ": it has to be copied from the source"
        rows.append((f"replication to {node}", f"{after}{remedy}"))
    return rows


def time_rows(document: DrillRunJson) -> list[tuple[str, str]]:
    """How long it took until clients wrote again."""
    rows = []
    rto = document.rto
    if rto is not None:
        parts = (
            ("detected", rto.detect_ms),
            ("promoted", rto.promote_ms),
            ("first write", rto.first_write_ms),
        )
        split = ", ".join(f"{word} {number(ms, 0)} ms" for word, ms in parts)
        rows.append(("failover", f"{number(rto.total_ms, 0)} ms: {split}"))
    if document.recovery_ms is not None:
        rows.append(("recovery", f"{document.recovery_ms:,.0f} ms from mending to the first OK"))
    rows += [(f"TPS {_when(name, document)}", number(tps)) for name, tps in document.tps.items()]
    if document.fallbacks is not None:
        rows.append(("falls back to async", str(document.fallbacks)))
    return rows


def _when(name: str, document: DrillRunJson) -> str:
    """`before the fault`; where the load went on at another node, its commits are in the figure."""
    if name != "during":
        return f"{name} the fault"
    moved = document.rto is not None and document.ledger is not None
    return f"during the fault{f', then on {document.ledger.survivor}' if moved and document.ledger else ''}"


def state_words(document: DrillRunJson) -> str:
    """The protection states in order, each with how long it was in force."""
    timeline = [StateAt(each.at_s, each.state) for each in document.protection]
    return " > ".join(
        f"{word_of(state)} {took_s:.1f} s" for state, took_s in stretches_of(timeline, document.duration_s)
    )


def window_rows(document: DrillRunJson) -> list[tuple[str, str]]:
    """The faults, each with when it was in force."""
    return [
        (
            f"{each.fault}@{each.node}",
            f"{each.from_s:.1f} s to {'the end' if each.to_s is None else f'{each.to_s:.1f} s'}",
        )
        for each in document.windows
    ]


def render_drill(document: DrillRunJson) -> str:
    """The result for a terminal: meter beside ledger, times, expectations, then the verdict."""
    started = document.started.replace("T", " ").removesuffix("Z")
    settings = " ".join(f"{key}={value}" for key, value in document.settings.items())
    own = [f"set by the drill itself: {' '.join(document.sets)}"] if document.sets else []
    head = [f"{document.drill} on {document.server}, {started} UTC", document.title, settings, *own]
    blocks = ["\n".join(head)]
    parts = (
        ("faults", window_rows(document)),
        ("at risk just before, by the meter", meter_rows(document)),
        ("what became of the rows", ledger_rows(document)),
        ("times", time_rows(document)),
    )
    for heading, rows in parts:
        if rows:
            blocks.append(f"{heading}\n" + table([("  " + name, text) for name, text in rows]))
    if document.commit_cost is not None:
        blocks.append(f"a commit cost the servers, before the first fault: {cost_line(document.commit_cost)}")
    if document.protection:
        blocks.append(f"protection: {state_words(document)}")
    if document.expectations:
        blocks.append(
            table(
                [
                    ("holds" if each.holds else "DEVIATES", each.name, each.evidence)
                    for each in document.expectations
                ]
            )
        )
    if document.aborted is not None:
        blocks.append(f"aborted: {document.aborted}")
    blocks += [f"repaired: {line}" for line in document.repaired]
    blocks += [f"not restored: {line}" for line in document.unrestored]
    return "\n\n".join([*blocks, f"verdict: {document.verdict}"])
