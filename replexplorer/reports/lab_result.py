"""A lab's result as a JSON document and as a table for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, cast

from replexplorer.core.server.state_words import word_of
from replexplorer.core.text import number, table
from replexplorer.engine.experiment.labs.lab import LabResult, PhaseResult
from replexplorer.engine.experiment.labs.lab import Published as PublishedFigure
from replexplorer.engine.experiment.labs.lab import Summary as SummaryTable
from replexplorer.formats.json.lab import (
    LabPhase,
    LabRepeat,
    LabSource,
    Measured,
    Published,
    Reference,
    Relation,
    Summary,
    SummaryRow,
)
from replexplorer.formats.json.lab import LabResult as LabDocument
from replexplorer.formats.json.model import Scalar
from replexplorer.reports.commit_cost import COST_HEADINGS, COST_TITLE, cost_cells, cost_document
from replexplorer.reports.load import latency


def lab_document(result: LabResult) -> LabDocument:
    """The result as `lab run --json` prints it."""
    source = result.lab.source
    return LabDocument(
        lab=result.lab.name,
        source=LabSource(title=source.title, author=source.author, url=source.url) if source else None,
        failure=result.lab.failure,
        server=result.server,
        started=datetime.fromtimestamp(result.started_wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        phases=[_phase(phase) for phase in result.phases],
        relations=[
            Relation(
                name=relation.name,
                holds=relation.holds,
                evidence=relation.evidence,
                checked=relation.checked,
                open=relation.is_open,
            )
            for relation in result.relations
        ],
        verdict=cast(Literal["holds", "deviates", "aborted"], result.verdict),
        quick=result.quick,
        repeats=result.repeats,
        summary=_summary(result.summary),
        references=[Reference(name=each.name, tps=round(each.tps, 2)) for each in result.references],
        aborted=result.aborted,
        unrestored=list(result.unrestored),
    )


def _summary(summary: SummaryTable | None) -> Summary | None:
    if summary is None:
        return None
    rows = [
        SummaryRow(
            name=name,
            values=[round(value, 3) if isinstance(value, float) else value for value in values],
        )
        for name, values in summary.rows
    ]
    return Summary(title=summary.title, columns=list(summary.columns), rows=rows)


def _phase(result: PhaseResult) -> LabPhase:
    published, rtt, in_unit = result.phase.published, result.rtt, result.measured
    measured, interval = result.measured_tps is not None, result.tps_interval
    return LabPhase(
        name=result.phase.name,
        settings={str(name): value for name, value in result.settings.items()},
        clients=result.clients,
        rtt_measured_ms=_rounded(result.rtt_measured_ms, 3),
        rtt_interval_ms=(round(rtt.low_ms, 3), round(rtt.high_ms, 3)) if rtt else None,
        fsync_measured_ms=_rounded(result.fsync_measured_ms, 3),
        disk_probe_ms=_rounded(result.disk_probe_ms, 3),
        published=_published(published) if published else None,
        measured=Measured(value=round(in_unit.value, 3), unit=in_unit.unit, rows=in_unit.rows)
        if in_unit
        else None,
        tps_interval=(_rounded(interval.low, 2), _rounded(interval.high, 2)) if interval else None,
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
        figures=_figures(result),
        fallbacks=result.fallbacks,
        unacknowledged=result.unprotected,
        commit_cost=cost_document(result.cost),
        published_figures={name: _published(each) for name, each in result.phase.published_figures.items()},
        repeats=[_repeat(each) for each in result.repeats],
        system=result.phase.system,
        server=result.server,
    )


def _published(published: PublishedFigure) -> Published:
    return Published(value=published.value, unit=published.unit, rows=published.rows)


def _repeat(result: PhaseResult) -> LabRepeat:
    return LabRepeat(
        tps=_rounded(result.measured_tps, 2),
        mean_ms=_rounded(result.service.mean_ms, 3),
        rtt_measured_ms=_rounded(result.rtt_measured_ms, 3),
        n=result.service.count,
        duration_s=round(result.duration_s, 3),
        machine_cpu_percent=_rounded(result.machine_percent, 1),
        figures=_figures(result),
    )


def _figures(result: PhaseResult) -> dict[str, Scalar]:
    return {
        name: round(value, 4) if isinstance(value, float) else value for name, value in result.figures.items()
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


_HEADINGS = (
    "PHASE", "CLIENTS", "RTT ms", "PUBLISHED", "PREDICTED", "MEASURED tps", "CEILING", "mean ms", "p50 ms",
    "p95 ms", "p99 ms", "PROTECTION",
)  # fmt: skip


def render_lab(document: LabDocument) -> str:
    """The table of phases, what else they found, each relation with its evidence, then the verdict."""
    rows = [_row(phase) for phase in document.phases]
    found = figure_rows(document)
    relations = [
        (relation.word if relation.holds else relation.word.upper(), relation.name, relation.evidence)
        for relation in document.relations
    ]
    started = document.started.replace("T", " ").removesuffix("Z")
    blocks = [
        f"{document.lab} on {document.server}, {started} UTC{repeats_words(document)}",
        table(rows, _HEADINGS, right=range(1, 11)),
    ]
    if document.source is not None:
        blocks.insert(1, f"after {document.source.author}: {document.source.title}")
    if document.summary is not None:
        headings, rows_of_summary = summary_table(document.summary)
        blocks.append(
            f"{document.summary.title}\n" + table(rows_of_summary, headings, right=range(1, len(headings)))
        )
    if timed := timed_rows(document):
        blocks.append(table(timed, ("PHASE", "PUBLISHED", "MEASURED"), right=(1, 2)))
    if found:
        blocks.append(table(found, ("PHASE", "FIGURE", "PUBLISHED", "MEASURED"), right=(2, 3)))
    if costs := cost_rows(document):
        costs_table = table(costs, ("PHASE", *COST_HEADINGS), right=range(1, 1 + len(COST_HEADINGS)))
        blocks.append(f"{COST_TITLE}\n{costs_table}")
    blocks += [f"{each.name}: {each.tps:,.1f} TPS" for each in document.references]
    if findings := findings_of(document):
        blocks.append("found:\n" + "\n".join(f"  {line}" for line in findings))
    if relations:
        blocks.append(table(relations))
    if document.verdict == "deviates" and (limits := limits_of(document)):
        blocks.append("what may explain it:\n" + "\n".join(f"  {line}" for line in limits))
    if document.failure:
        blocks.append(f"in a failure: {document.failure}")
    if document.aborted is not None:
        blocks.append(f"aborted: {document.aborted}")
    blocks += [f"not restored: {line}" for line in document.unrestored]
    return "\n\n".join([*blocks, f"verdict: {verdict_words(document)}"])


def summary_table(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a summary, in words."""
    rows = [[each.name, *map(_summary_cell, each.values)] for each in summary.rows]
    return ["", *summary.columns], rows


def _summary_cell(value: Scalar | None) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return number(value, 2 if abs(value) < _SMALL else 1)


_SMALL = 10


def verdict_words(document: LabDocument) -> str:
    """The verdict, with how many relations the repeats leave open."""
    left_open = sum(each.word == "open" for each in document.relations)
    return f"{document.verdict}, {left_open} left open" if left_open else document.verdict


def repeats_words(document: LabDocument) -> str:
    """Of how many runs each figure is; nothing for one."""
    if document.repeats < 2:
        return ""
    return f", {document.repeats} runs of each phase in turn; [ ] is their 95 % interval"


def tps_words(phase: LabPhase, digits: int = 1) -> str:
    """`11.4 [11.3, 11.5]`: a phase's TPS with the interval of its repeats."""
    text = number(phase.tps, digits)
    if phase.tps_interval is None:
        return text
    low, high = (number(bound, digits) for bound in phase.tps_interval)
    return f"{text} [{low}, {high}]"


def timed_rows(document: LabDocument) -> list[tuple[str, str, str]]:
    """Phases for which seconds were published: those and ours."""
    return [
        (phase.name, _with_rows(phase.published), _as_measured(phase.measured))
        for phase in document.phases
        if phase.published is not None and phase.published.unit == "s" and phase.measured is not None
    ]


def figure_rows(document: LabDocument) -> list[tuple[str, str, str, str]]:
    """What phases found beside their load: phase, name, as published, as measured."""
    return [
        (
            phase.name,
            name,
            _with_rows(phase.published_figures.get(name)),
            number(value, 2) if isinstance(value, float) else str(value),
        )
        for phase in document.phases
        for name, value in phase.figures.items()
    ]


def cost_rows(document: LabDocument) -> list[tuple[str, ...]]:
    """What a commit cost in each phase that let the load run: the phase, then `COST_HEADINGS`; none where no
    phase knows it."""
    if all(phase.commit_cost is None for phase in document.phases):
        return []
    return [
        (phase.name, *cost_cells(phase.commit_cost)) for phase in document.phases if phase.tps is not None
    ]


def _with_rows(published: Published | None) -> str:
    if published is None:
        return "-"
    rows = f" for {published.rows:,} rows" if published.rows else ""
    return f"{published.value:g} {published.unit}{rows}"


def _as_measured(measured: Measured) -> str:
    scaled = f", at the pace of {measured.rows:,}" if measured.rows else ""
    return f"{measured.value:,.2f} {measured.unit}{scaled}"


def findings_of(document: LabDocument) -> list[str]:
    """Phases that contradict what is known, each with how."""
    return [f"{phase.name}: {phase.finding}" for phase in document.phases if phase.finding is not None]


def limits_of(document: LabDocument) -> list[str]:
    """Phases in which something beside the settings may have been the limit, each with what."""
    return [f"{phase.name}: {phase.limited}" for phase in document.phases if phase.limited is not None]


def _row(phase: LabPhase) -> tuple[str, ...]:
    published, latencies = phase.published, phase.latency_ms
    shown = (latencies.mean, latencies.p50, latencies.p95, latencies.p99) if latencies else (None,) * 4
    return (
        phase.name,
        "-" if phase.clients is None else str(phase.clients),
        number(phase.rtt_measured_ms),
        "-" if published is None else f"{published.value:g} {published.unit}",
        number(phase.predicted_tps),
        tps_words(phase),
        number(phase.ceiling_tps),
        *(number(value, 2) for value in shown),
        word_of(phase.protection or "-"),
    )
