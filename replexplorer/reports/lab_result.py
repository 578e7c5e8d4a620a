"""A lab's result as a JSON document and as a table for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, cast

from replexplorer.core.text import number, table
from replexplorer.engine.experiment.labs.lab import LabResult, PhaseResult
from replexplorer.formats.json.lab import LabPhase, LabSource, Published, Relation
from replexplorer.formats.json.lab import LabResult as LabDocument
from replexplorer.reports.load import latency


def lab_document(result: LabResult) -> LabDocument:
    """The result as `lab run --json` prints it."""
    source = result.lab.source
    return LabDocument(
        lab=result.lab.name,
        source=LabSource(title=source.title, author=source.author, url=source.url) if source else None,
        server=result.server,
        started=datetime.fromtimestamp(result.started_wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        phases=[_phase(phase) for phase in result.phases],
        relations=[
            Relation(
                name=relation.name,
                holds=relation.holds,
                evidence=relation.evidence,
                checked=relation.checked,
            )
            for relation in result.relations
        ],
        verdict=cast(Literal["holds", "deviates", "aborted"], result.verdict),
        quick=result.quick,
        aborted=result.aborted,
        unrestored=list(result.unrestored),
    )


def _phase(result: PhaseResult) -> LabPhase:
    published, rtt = result.phase.published, result.rtt
    measured = result.measured_tps is not None
    return LabPhase(
        name=result.phase.name,
        settings={str(name): value for name, value in result.settings.items()},
        clients=result.clients,
        rtt_measured_ms=_rounded(result.rtt_measured_ms, 3),
        rtt_interval_ms=(round(rtt.low_ms, 3), round(rtt.high_ms, 3)) if rtt else None,
        fsync_measured_ms=_rounded(result.fsync_measured_ms, 3),
        disk_probe_ms=_rounded(result.disk_probe_ms, 3),
        published=Published(value=published.value, unit=published.unit) if published else None,
        ceiling_tps=_rounded(result.ceiling_tps, 2),
        predicted_tps=_rounded(result.predicted_tps, 2),
        tps=round(result.tps, 2) if measured else None,
        latency_ms=latency(result.service) if measured else None,
        protection=result.protection.state.value,
        errors=result.errors,
        n=result.service.count,
        duration_s=round(result.duration_s, 3),
        generator_cpu_percent=_rounded(result.busy_percent, 1),
        machine_cpu_percent=_rounded(result.machine_percent, 1),
        limited=result.limited,
        invalid=result.invalid,
        finding=result.finding,
        figures={
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in result.figures.items()
        },
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


_HEADINGS = (
    "PHASE", "CLIENTS", "RTT ms", "PUBLISHED", "PREDICTED", "MEASURED tps", "CEILING", "p50 ms", "p95 ms",
    "p99 ms", "PROTECTION",
)  # fmt: skip


def render_lab(document: LabDocument) -> str:
    """The table of phases, what else they found, each relation with its evidence, then the verdict."""
    rows = [_row(phase) for phase in document.phases]
    found = [
        (phase.name, name, number(value, 2) if isinstance(value, float) else str(value))
        for phase in document.phases
        for name, value in phase.figures.items()
    ]
    relations = [
        (relation.word if relation.holds else relation.word.upper(), relation.name, relation.evidence)
        for relation in document.relations
    ]
    started = document.started.replace("T", " ").removesuffix("Z")
    blocks = [
        f"{document.lab} on {document.server}, {started} UTC",
        table(rows, _HEADINGS, right=range(1, 10)),
    ]
    if document.source is not None:
        blocks.insert(1, f"after {document.source.author}: {document.source.title}")
    if found:
        blocks.append(table(found))
    if findings := findings_of(document):
        blocks.append("found:\n" + "\n".join(f"  {line}" for line in findings))
    if relations:
        blocks.append(table(relations))
    if document.verdict == "deviates" and (limits := limits_of(document)):
        blocks.append("what may explain it:\n" + "\n".join(f"  {line}" for line in limits))
    if document.aborted is not None:
        blocks.append(f"aborted: {document.aborted}")
    blocks += [f"not restored: {line}" for line in document.unrestored]
    return "\n\n".join([*blocks, f"verdict: {document.verdict}"])


def findings_of(document: LabDocument) -> list[str]:
    """Phases that contradict what is known, each with how."""
    return [f"{phase.name}: {phase.finding}" for phase in document.phases if phase.finding is not None]


def limits_of(document: LabDocument) -> list[str]:
    """Phases in which something beside the settings may have been the limit, each with what."""
    return [f"{phase.name}: {phase.limited}" for phase in document.phases if phase.limited is not None]


def _row(phase: LabPhase) -> tuple[str, ...]:
    published, latencies = phase.published, phase.latency_ms
    percentiles = (latencies.p50, latencies.p95, latencies.p99) if latencies else (None, None, None)
    return (
        phase.name,
        "-" if phase.clients is None else str(phase.clients),
        number(phase.rtt_measured_ms),
        "-" if published is None else f"{published.value:g} {published.unit}",
        number(phase.predicted_tps),
        number(phase.tps),
        number(phase.ceiling_tps),
        *(number(value, 2) for value in percentiles),
        phase.protection or "-",
    )
