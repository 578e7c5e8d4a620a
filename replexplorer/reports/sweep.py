"""A finished sweep as a JSON document, as text for the terminal and as a report's files."""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from replexplorer.core.experiment.heat import HeatMap, heat_map, risk_map
from replexplorer.core.experiment.load_curve import LoadCurve, curve_lines, curves_of
from replexplorer.core.experiment.sweep import SCENE, Dimension
from replexplorer.core.experiment.sweep_effects import Effect, effects_of
from replexplorer.core.experiment.sweep_runs import CellFigures, SweptRun, figures_of, passes_needed
from replexplorer.core.experiment.sweep_text import (
    AT_RISK_NOTE,
    HEADINGS,
    headings_of,
    heat_lines,
    partial,
    passes_text,
    rows_of,
)
from replexplorer.core.experiment.swept import Swept
from replexplorer.core.knobs.keys import WORKLOAD
from replexplorer.core.stats.measured import Estimate
from replexplorer.core.text import table
from replexplorer.formats.json.measured import Conditions
from replexplorer.formats.json.model import Scalar
from replexplorer.formats.json.sweep import (
    SweepCell,
    SweepCurve,
    SweepCurvePoint,
    SweepEffect,
    SweepInterval,
    SweepKnob,
    SweepMap,
    SweepResult,
    SweepRiskMap,
    SweepRunJson,
)
from replexplorer.formats.json.text import to_json
from replexplorer.formats.scenes import SHIPPED, scene_keys
from replexplorer.reports.commit_cost import (
    COST_HEADINGS,
    COST_NOTE,
    COST_TITLE,
    cost_cells,
    cost_document,
)
from replexplorer.reports.conditions import again, others
from replexplorer.reports.conditions import rows as condition_rows
from replexplorer.reports.curve_svg import curve_svg
from replexplorer.reports.directory import write_files
from replexplorer.reports.documents import exposure_document
from replexplorer.reports.heat_svg import heat_svg
from replexplorer.reports.load import latency
from replexplorer.reports.prediction import regions_markdown, regions_text

METHOD = (
    "TPS with a 95 % interval: within one run from batch means, of several runs from how they differ. "
    "Effects: pairs of cells equal in all else, the mean difference of log TPS with Student's t interval: "
    "ratios, whose bounds are never below zero."
)


def sweep_document(
    swept: Swept, keys: Sequence[str] | None = None, conditions: Conditions | None = None
) -> SweepResult:
    """The result as `sweep --json` prints it; `keys` are the heat map's knobs, `conditions` those of the
    stack before it."""
    grid = swept.sweep.grid
    varied = {str(name) for name in grid.names}
    scenes = {
        choice.label: scene_keys(choice.values)
        for dimension in grid.dimensions
        if dimension.key == SCENE
        for choice in dimension.choices
    }
    workload = conditions.settings.get(WORKLOAD) if conditions is not None else None
    figures = figures_of(grid, swept.runs)
    return SweepResult(
        sweep=grid.text,
        server=swept.server,
        started=_moment(swept.started_wall_s),
        ended=_moment(swept.ended_wall_s),
        seed=swept.seed,
        duration_s=swept.sweep.duration_s,
        repeat=swept.sweep.repeats,
        resumed_runs=swept.resumed,
        journal=swept.journal,
        knobs=[_knob(dimension) for dimension in grid.dimensions],
        passes_needed=passes_needed(figures),
        cells=[_cell(each, grid.dimensions) for each in figures],
        effects=[_effect(effect) for effect in effects_of(grid, figures)],
        heat_map=_map(heat_map(grid, figures, keys)),
        risk_map=_risk_map(risk_map(grid, figures, keys)),
        curves=[_curve(curve) for curve in curves_of(grid, figures)],
        conditions=None if conditions is None else others(conditions, varied),
        workload=str(workload.requested) if workload is not None and WORKLOAD not in varied else None,
        scenes=scenes,
        again=[] if conditions is None else _again(conditions, swept, varied, scenes),
    )


def _again(
    conditions: Conditions, swept: Swept, varied: Container[str], scenes: Mapping[str, Mapping[str, Scalar]]
) -> list[str]:
    """The commands that run the same elsewhere; a scene that does not ship is made first."""
    sweep = swept.sweep
    command = ["replexplorer", "sweep", *sweep.grid.text.split(" "), "--duration", f"{sweep.duration_s:g}"]
    command += ["--repeat", str(sweep.repeats), "--seed", str(swept.seed)]
    up, *rest = again(conditions, command, varied)
    own = [
        shlex.join(line)
        for name, knobs in scenes.items()
        if name not in SHIPPED
        for line in (
            ["replexplorer", "reset"],
            ["replexplorer", "set", *(f"{key}={value}" for key, value in knobs.items())],
            ["replexplorer", "scene", "save", name],
        )
    ]
    return [up, *own, *rest]


def _facts(document: SweepResult) -> list[tuple[str, str]]:
    """What it was measured under, a fact a row."""
    found = [] if document.conditions is None else condition_rows(document.conditions)
    if document.workload is not None:
        found.append(("workload", document.workload))
    scenes = [
        (f"scene {name}", ", ".join(f"{key}={value}" for key, value in knobs.items()))
        for name, knobs in document.scenes.items()
    ]
    return [*found, *scenes]


def _knob(dimension: Dimension) -> SweepKnob:
    if dimension.key == SCENE:
        return SweepKnob(key="scene", unit=None, values=[choice.label for choice in dimension.choices])
    values: list[Scalar] = [next(iter(choice.values.values())) for choice in dimension.choices]
    return SweepKnob(key=dimension.key, unit=next(iter(dimension.names)).knob.unit or None, values=values)


def _cell(each: CellFigures, dimensions: Sequence[Dimension]) -> SweepCell:
    return SweepCell(
        settings={str(name): value for name, value in each.cell.values.items()},
        labels={d.key: label for d, label in zip(dimensions, each.cell.labels, strict=True)},
        tps=_interval(each.tps),
        latency_ms=latency(each.service),
        n=each.service.count,
        errors=each.errors,
        rtt_measured_ms=_rounded(each.typical("rtt_ms")),
        fsync_measured_ms=_rounded(each.typical("fsync_ms")),
        exposure=None if each.exposure is None else exposure_document(each.exposure),
        commit_cost=cost_document(each.cost),
        failed=each.why,
        limited=each.limited,
        runs=[_run(run) for run in each.runs],
    )


def _run(run: SweptRun) -> SweepRunJson:
    return SweepRunJson(
        block=run.block + 1,
        attempt=run.attempt,
        started=_moment(run.started_wall_s),
        took_s=round(run.took_s, 3),
        failed=run.why,
        limited=run.limited,
        tps=_interval(run.interval),
        duration_s=round(run.duration_s, 3),
        n=run.service.count,
        errors=run.errors,
        unknown=run.unknown,
        latency_ms=latency(run.service),
        response_ms=latency(run.response) if run.response.count else None,
        rtt_measured_ms=_rounded(run.rtt_ms),
        fsync_measured_ms=_rounded(run.fsync_ms),
        generator_cpu_percent=_rounded(run.cpu_percent, 1),
        protection=run.state or None,
        effective=dict(run.effective),
        exposure=None if run.exposure is None else exposure_document(run.exposure),
        commit_cost=cost_document(run.cost),
        anatomy_ms=None if run.anatomy is None else dict(run.anatomy),
    )


def _effect(effect: Effect) -> SweepEffect:
    return SweepEffect(
        key=effect.key,
        before=effect.before,
        after=effect.after,
        ratio=_rounded(effect.ratio, 6),
        low=_rounded(effect.low, 6),
        high=_rounded(effect.high, 6),
        least=_rounded(effect.least, 6),
        most=_rounded(effect.most, 6),
        pairs=effect.pairs,
        passes=effect.passes,
        left_out=effect.left_out,
        verdict=effect.verdict,
        words=effect.words,
    )


def _map(heat: HeatMap | None) -> SweepMap | None:
    if heat is None:
        return None
    return SweepMap(
        rows=heat.rows.key,
        columns=heat.columns.key,
        row_values=[choice.label for choice in heat.rows.choices],
        column_values=[choice.label for choice in heat.columns.choices],
        tps=[[_rounded(each.value, 2) for each in row] for row in heat.fields],
    )


def _risk_map(heat: HeatMap | None) -> SweepRiskMap | None:
    if heat is None:
        return None
    return SweepRiskMap(
        rows=heat.rows.key,
        columns=heat.columns.key,
        row_values=[choice.label for choice in heat.rows.choices],
        column_values=[choice.label for choice in heat.columns.choices],
        commits=[[_rounded(each.value, 1) for each in row] for row in heat.fields],
    )


def _curve(curve: LoadCurve) -> SweepCurve:
    knee = curve.knee
    return SweepCurve(
        label=curve.label,
        points=[
            SweepCurvePoint(
                asked_tps=point.asked_tps,
                tps=round(point.tps, 2),
                response_p50_ms=round(point.p50_ms, 3),
                response_p99_ms=round(point.p99_ms, 3),
                saturated=point.is_saturated,
            )
            for point in curve.points
        ],
        knee_tps=None if knee is None else round(knee.tps, 2),
        saturation_tps=_rounded(curve.saturation_tps, 2),
        words=curve.words,
    )


def _interval(estimate: Estimate) -> SweepInterval:
    return SweepInterval(
        value=_rounded(estimate.value), low=_rounded(estimate.low), high=_rounded(estimate.high)
    )


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _moment(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def render(swept: Swept, document: SweepResult, keys: Sequence[str] | None = None) -> str:
    """The table, the heat map and the effects, for a terminal or a pipe."""
    grid = swept.sweep.grid
    figures = figures_of(grid, swept.runs)
    first = len(grid.dimensions)
    numbers = range(first, first + len(HEADINGS) - 1)
    parts = [_title(document), "", table(rows_of(figures), headings_of(grid), right=numbers)]
    parts += filter(None, [passes_text(swept.sweep, figures)])
    if any(each.exposure for each in figures):
        parts.append(AT_RISK_NOTE)
    if costs := _cost_rows(document):
        right = range(first, first + len(COST_HEADINGS))
        parts += ["", COST_TITLE, table(costs, _cost_headings(document), right=right)]
    for heat in (heat_map(grid, figures, keys), risk_map(grid, figures, keys)):
        if heat is not None:
            parts += ["", *heat_lines(heat)]
            if partial(heat):
                parts.append("* without cells that do not count")
    for curve in curves_of(grid, figures):
        parts += ["", *curve_lines(curve)]
    if document.effects:
        parts += ["", "What each knob by itself did to TPS (95 %):"]
        parts += [f"  {effect.words}" for effect in document.effects]
    if facts := _facts(document):
        parts += ["", table(facts)]
    if document.calibration is not None:
        parts += ["", document.calibration]
    if document.prediction:
        parts += ["", regions_text(document.prediction)]
    return "\n".join(parts)


def _cost_headings(document: SweepResult) -> tuple[str, ...]:
    return (*(knob.key for knob in document.knobs), *COST_HEADINGS)


def _cost_rows(document: SweepResult) -> list[tuple[str, ...]]:
    """What a commit cost in each cell: its values, then `COST_HEADINGS`; none where no cell knows it."""
    if all(cell.commit_cost is None for cell in document.cells):
        return []
    return [(*cell.labels.values(), *cost_cells(cell.commit_cost)) for cell in document.cells]


def _title(document: SweepResult) -> str:
    begun = document.started.replace("T", " ").removesuffix("Z")
    passes = "" if document.repeat == 1 else f", {document.repeat} passes"
    return (
        f"sweep of {document.sweep} on {document.server}, {begun} UTC: "
        f"{document.duration_s:g} s a run{passes}, seed {document.seed}"
    )


def write_report(
    directory: Path, swept: Swept, document: SweepResult, keys: Sequence[str] | None = None
) -> str:
    """Write the report with its heat map; answers what was written. Raises UsageError."""
    figures = figures_of(swept.sweep.grid, swept.runs)
    heat = heat_map(swept.sweep.grid, figures, keys)
    contents = {"report.md": markdown(swept, document, keys), "result.json": to_json(document) + "\n"}
    if heat is not None:
        contents["sweep.svg"] = heat_svg(heat, _title(document))
    if (risk := risk_map(swept.sweep.grid, figures, keys)) is not None:
        contents["risk.svg"] = heat_svg(risk, _title(document))
    if curves := curves_of(swept.sweep.grid, figures):
        contents["curve.svg"] = curve_svg(curves, _title(document))
    return write_files(directory, contents)


def _marked(row: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def markdown(swept: Swept, document: SweepResult, keys: Sequence[str] | None = None) -> str:
    """The report as Markdown."""
    grid = swept.sweep.grid
    figures = figures_of(grid, swept.runs)
    columns = headings_of(grid)
    lines = [
        f"# Sweep: {grid.text}",
        "",
        f"{_title(document)}. {METHOD}",
        "",
        "| " + " | ".join(heading or "note" for heading in columns) + " |",
        "|"
        + "|".join(" --- " if at < len(grid.dimensions) else " ---: " for at in range(len(columns)))
        + "|",
        *map(_marked, rows_of(figures)),
    ]
    if told := passes_text(swept.sweep, figures):
        lines += ["", f"{told}."]
    if any(each.exposure for each in figures):
        lines += ["", AT_RISK_NOTE]
    if costs := _cost_rows(document):
        headings = _cost_headings(document)
        ruler = [" --- "] * len(document.knobs) + [" ---: "] * len(COST_HEADINGS)
        lines += ["", "## What a commit cost", "", f"{COST_NOTE}.", "", f"| {' | '.join(headings)} |"]
        lines += [f"|{'|'.join(ruler)}|", *(_marked(row) for row in costs)]
    heat = heat_map(grid, figures, keys)
    if heat is not None:
        lines += ["", f"![TPS by {heat.rows.key} and {heat.columns.key}](sweep.svg)"]
    if (risk := risk_map(grid, figures, keys)) is not None:
        lines += ["", f"![commits at risk by {risk.rows.key} and {risk.columns.key}](risk.svg)"]
    if document.curves:
        lines += ["", "![response over answered TPS](curve.svg)", ""]
        lines += [f"- {curve.words}" for curve in document.curves]
    if document.effects:
        lines += ["", "## What each knob by itself did to TPS", ""]
        lines += [f"- {effect.words}" for effect in document.effects]
    if facts := _facts(document):
        lines += ["", "## Measured under", "", *(f"- {name}: {text}" for name, text in facts)]
    if document.calibration is not None:
        lines += ["", "## The model", "", document.calibration]
    if document.prediction:
        lines += ["", regions_markdown(document.prediction)]
    if document.again:
        lines += ["", "## Again", "", *(f"    {line}" for line in document.again)]
    return "\n".join(lines) + "\n"
