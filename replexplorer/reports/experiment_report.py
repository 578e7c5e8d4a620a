"""The report of a run of any experiment; of the matrix what each cell lost, beside theory and the meter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from replexplorer.core.experiment.drill_result import DrillResult, stretches_of
from replexplorer.core.experiment.experiment import ExperimentResult
from replexplorer.core.experiment.lab import InAuthorsUnit, LabResult, PhaseResult, Published, Summary
from replexplorer.core.experiment.matrix import IN_WORDS, MATRIX, TITLE, CellResult, MatrixResult
from replexplorer.core.server.comeback import Replication
from replexplorer.core.server.exposure import Loss, Unknown
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.protection import word_of
from replexplorer.core.system import DEFAULT
from replexplorer.core.text import number
from replexplorer.core.tick import Tick
from replexplorer.reports.conditions import COST_NOTE, COST_TITLE, cost_cells, cost_columns, measured_on, rows
from replexplorer.reports.report import (
    Block,
    Report,
    ReportChart,
    ReportColumn,
    ReportNotes,
    ReportTable,
    again,
    numbers,
    words,
)
from replexplorer.reports.svg import Series, Window, bar_chart, line_chart

FAILURES: Final = (
    ("process_dies", "mysqld dies", "p50"),
    ("power_cut", "power cut", "p99"),
    ("source_lost", "source lost", "p95"),
)
"""The meter's figures by their names in JSON, in words, and the class of their line on a chart."""
_BEFORE_S: Final = 3.0
"""How much of the recording is drawn before the first step."""
_AFTER_S: Final = 1.0


def drill_report(result: DrillResult, ticks: Sequence[Tick] = ()) -> Report:
    """What the drill found; charts are drawn of the `ticks` that were recorded."""
    settings = " ".join(f"{name}={value}" for name, value in result.settings.items())
    facts = [
        ("", result.drill.title),
        ("", measured_on(result.server, result.started_wall_s, quick=result.quick)),
        ("load", f"{result.clients} clients; {settings}"),
    ]
    if result.drill.own_settings:
        facts.append(("set by the drill itself", " ".join(result.drill.own_settings)))
    facts += [
        ("settings before and after" if name == "settings" else name, fact)
        for name, fact in ([] if result.conditions is None else rows(result.conditions))
    ]
    if result.timeline:
        facts.append(("protection", state_words(result)))
    if result.aborted is not None:
        facts.append(("aborted", result.aborted))
    return Report(
        result.drill.name, facts, [*_drill_blocks(result, ticks), again(result.again)], result.verdict
    )


def _drill_blocks(result: DrillResult, ticks: Sequence[Tick]) -> Iterator[Block]:
    yield from _charts(result, ticks)
    yield ReportTable(words("fault", "in force"), window_rows(result), "faults")
    yield ReportTable(
        words("failure", "commits"), meter_rows(result), "at risk just before by the meter, and lost"
    )
    yield ReportTable(words("class", "rows"), ledger_rows(result), "what became of the rows")
    yield ReportTable(words("", ""), time_rows(result), "times")
    cost = [] if result.cost is None else [cost_cells(result.cost)]
    yield ReportTable(cost_columns(), cost, f"{COST_TITLE} before the first fault", COST_NOTE)
    expected = [
        ("holds" if each.holds else "deviates", each.name, each.evidence) for each in result.expectations
    ]
    yield ReportTable(words("", "expectation", "evidence"), expected, "expectations")
    yield ReportNotes(result.repaired, "repaired")
    yield ReportNotes(result.unrestored, "not restored")
    told = [(f"{at_s:.2f}", what) for at_s, what in result.course]
    yield ReportTable((*numbers("second"), *words("what")), told, "timeline", in_text=False)


def meter_rows(result: DrillResult) -> list[tuple[str, str]]:
    """What the meter said just before the failure, a kind of failure a row."""
    reading, ledger = result.reading, result.ledger
    if reading is None:
        return []
    found = [(title, _loss(getattr(reading.exposure, name))) for name, title, _ in FAILURES]
    if ledger is not None:
        between_ms = number((reading.failed_s - reading.at_s) * 1000, 0)
        told = f"{reading.meanwhile:,} in the {between_ms} ms between"
        found += [("acknowledged after the reading", told), ("really lost", f"{ledger.lost:,}")]
    return found


def _loss(loss: Loss | Unknown) -> str:
    if isinstance(loss, Unknown):
        return f"unknown: {loss.why}"
    spread = f" ({loss.low:,} to {loss.high:,})" if loss.low != loss.high else ""
    age = f", the oldest {loss.age_ms:,.0f} ms old" if loss.age_ms is not None else ""
    return f"{loss.commits:,}{spread}{age}"


def ledger_rows(result: DrillResult) -> list[tuple[str, str]]:
    """What became of the rows, a class a row."""
    ledger = result.ledger
    if ledger is None:
        return []
    lost, age_ms = f"{ledger.lost:,}", ledger.oldest_lost_age_ms
    if ledger.lost and age_ms is not None:
        lost += f" (of the last {age_ms:,.0f} ms)"
    there, gone = ledger.unknown_present, ledger.unknown_absent
    found = [
        ("attempted", f"{ledger.attempted:,}"),
        ("acknowledged", f"{ledger.acknowledged:,}"),
        ("refused", f"{ledger.failed:,}"),
        ("unknown", f"{ledger.unknown:,}, of which {there:,} are there and {gone:,} are not"),
        (f"lost on {ledger.survivor}", lost),
        ("read by others, then gone", f"{ledger.phantom_reads:,}"),
    ]
    for node, each in ledger.nodes.items():
        errant = f"; GTIDs of its own: {each.errant_gtids}" if each.errant_gtids else ""
        found.append((node, f"{each.rows:,} rows, {each.missing:,} missing, {each.extra:,} extra{errant}"))
    if result.comebacks:
        logs = [each.binlog_lost for each in result.comebacks]
        count = None if None in logs else sum(gtid_count(each or "") for each in logs)
        size = sum(each.binlog_bytes for each in result.comebacks)
        found.append(("gone from the binlog", f"{number(count, 0)} ({size:,} bytes)"))
    for comeback in result.comebacks:
        for node, after in comeback.replication.items():
            remedy = "" if after is Replication.WHOLE else ": it has to be copied from the source"
            found.append((f"replication to {node}", f"{after.value}{remedy}"))
    return found


def time_rows(result: DrillResult) -> list[tuple[str, str]]:
    """How long it took until clients wrote again."""
    found, change = [], result.failover
    if change is not None:
        rto = change.rto
        parts = (
            ("detected", rto.detect_ms),
            ("promoted", rto.promote_ms),
            ("first write", rto.first_write_ms),
        )
        split = ", ".join(f"{word} {number(ms, 0)} ms" for word, ms in parts)
        found.append(("failover", f"{number(rto.total_ms, 0)} ms: {split}"))
    if result.recovery_ms is not None:
        found.append(("recovery", f"{result.recovery_ms:,.0f} ms from mending to the first OK"))
    for name, tps in result.rates_tps.items():
        when = f"{name.removeprefix('tps_')} the fault"
        if name == "tps_during" and change is not None and result.ledger is not None:
            when += f", then on {result.ledger.survivor}"
        found.append((f"TPS {when}", number(tps)))
    if result.fallbacks is not None:
        found.append(("falls back to async", str(result.fallbacks)))
    return found


def state_words(result: DrillResult) -> str:
    """The protection states in order, each with how long it was in force."""
    stretches = stretches_of(result.timeline, result.duration_s)
    return " > ".join(f"{word_of(state)} {took_s:.1f} s" for state, took_s in stretches)


def window_rows(result: DrillResult) -> list[tuple[str, str]]:
    """The faults, each with when it was in force."""
    return [
        (
            f"{each.fault}@{each.node}",
            f"{each.from_s:.1f} s to {'the end' if each.to_s is None else f'{each.to_s:.1f} s'}",
        )
        for each in result.windows
    ]


def _charts(result: DrillResult, ticks: Sequence[Tick]) -> Iterator[ReportChart]:
    """TPS, latency and what was at risk while the drill ran, faults shaded."""
    passed = [(tick.wall_s - result.started_wall_s, tick) for tick in ticks]
    seen = [(at_s, tick) for at_s, tick in passed if -_BEFORE_S <= at_s <= result.duration_s + _AFTER_S]
    if not seen:
        return
    windows = [
        Window(
            each.from_s, result.duration_s if each.to_s is None else each.to_s, f"{each.fault}@{each.node}"
        )
        for each in result.windows
    ]

    def of_load(name: str, style: str, figure: str) -> Series:
        return Series(
            name, style, [(at_s, getattr(tick.load, figure) if tick.load else None) for at_s, tick in seen]
        )

    def at_risk(name: str, title: str, style: str) -> Series:
        losses = [(at_s, getattr(tick.exposure, name, None)) for at_s, tick in seen]
        points = [(at_s, float(loss.commits) if isinstance(loss, Loss) else None) for at_s, loss in losses]
        return Series(title, style, points)

    tps = [of_load("TPS", "tps", "tps")]
    yield ReportChart(line_chart("TPS", "commits per second", tps, windows=windows), title="As it ran")
    latency = [of_load(name, name, f"{name}_ms") for name in ("p50", "p95", "p99")]
    yield ReportChart(line_chart("Latency", "ms, log", latency, log=True, windows=windows))
    unit = "acknowledged commits that a failure would lose"
    yield ReportChart(line_chart("At risk", unit, [at_risk(*each) for each in FAILURES], windows=windows))


_PHASES: Final = (
    ReportColumn("phase"),
    ReportColumn("clients", is_number=True, rank=5),
    ReportColumn("RTT ms", is_number=True, rank=2),
    ReportColumn("fsync ms", is_number=True, rank=8),
    ReportColumn("published", is_number=True),
    ReportColumn("predicted TPS", is_number=True, rank=1),
    ReportColumn("measured TPS", is_number=True),
    ReportColumn("ceiling", is_number=True, rank=4),
    ReportColumn("mean ms", is_number=True, rank=7),
    ReportColumn("p50 ms", is_number=True, rank=6),
    ReportColumn("p95 ms", is_number=True, rank=6),
    ReportColumn("p99 ms", is_number=True, rank=3),
    ReportColumn("n", is_number=True, rank=9),
    ReportColumn("protection", rank=5),
)
_SMALL: Final = 10
"""A figure below it has another digit in a summary."""


def lab_report(result: LabResult, ticks: Sequence[Tick] = ()) -> Report:
    """What the lab found; charts over time are drawn of the `ticks` that were recorded."""
    source = result.lab.source
    told = measured_on(result.server, result.started_wall_s, quick=result.quick)
    if result.repeats > 1:
        told += f", {result.repeats} runs of each phase in turn; [ ] is their 95 % interval"
    facts = [("", told)]
    if source is not None:
        url = f" ({source.url})" if source.url else ""
        facts.append(("after", f"{source.author}: {source.title}{url}"))
    if result.lab.failure:
        facts.append(("in a failure", result.lab.failure))
    facts += [] if result.conditions is None else rows(result.conditions)
    if result.aborted is not None:
        facts.append(("aborted", result.aborted))
    blocks = [*_lab_blocks(result, ticks), again(result.again)]
    return Report(result.lab.name, facts, blocks, result.verdict)


def _lab_blocks(result: LabResult, ticks: Sequence[Tick]) -> Iterator[Block]:
    if result.summary is not None:
        yield _summary(result.summary)
    yield from _bars(result)
    yield ReportTable(_PHASES, [_row(phase) for phase in result.phases])
    judged = [(each.word, each.name, each.evidence) for each in result.relations]
    yield ReportTable(words("", "relation", "evidence"), judged, "relations")
    if left_open := sum(each.word == "open" for each in result.relations):
        yield ReportNotes(
            [f"{left_open} left open: the repeats show neither that it holds nor that it does not"]
        )
    found = [f"{phase.phase.name}: {phase.finding}" for phase in result.phases if phase.finding is not None]
    yield ReportNotes(found, "found")
    limits = [f"{phase.phase.name}: {phase.limited}" for phase in result.phases if phase.limited is not None]
    yield ReportNotes(
        limits if result.verdict == "deviates" else (), "what may explain it, besides the settings"
    )
    yield ReportNotes([f"{each.name}: {each.tps:,.1f} TPS" for each in result.references], "for comparison")
    yield from _over_time(ticks)
    yield ReportTable((*words("phase"), *numbers("published", "measured")), _timed_rows(result), "time taken")
    yield ReportTable(
        (*words("phase", "figure"), *numbers("published", "measured")), figure_rows(result), "also found"
    )
    yield ReportTable((*words("phase"), *cost_columns()), _cost_rows(result), COST_TITLE, COST_NOTE)
    yield ReportNotes(result.unrestored, "not restored")
    settings = [
        (phase.phase.name, " ".join(f"{name}={value}" for name, value in phase.settings.items()))
        for phase in result.phases
        if phase.settings
    ]
    yield ReportTable(words("phase", "knobs"), settings, "settings", in_text=False)


def _row(result: PhaseResult) -> tuple[str, ...]:
    published, service = result.phase.published, result.service
    latencies = (service.mean_ms, *(service.percentile_ms(percent) for percent in (50, 95, 99)))
    return (
        result.phase.name,
        str(result.clients),
        number(result.rtt_measured_ms, 2),
        number(result.fsync_measured_ms, 2),
        "-" if published is None else f"{published.value:g} {published.unit}",
        number(result.predicted_tps),
        _tps(result),
        number(result.ceiling_tps),
        *(number(value if result.measured_tps is not None else None, 2) for value in latencies),
        f"{service.count:,}",
        word_of(result.protection.state.value),
    )


def _tps(result: PhaseResult) -> str:
    """`11.40 [11.31, 11.52]`: TPS with the interval of the repeats."""
    shown, interval = number(result.measured_tps, 2), result.tps_interval
    if interval is None:
        return shown
    return f"{shown} [{number(interval.low, 2)}, {number(interval.high, 2)}]"


def _summary(summary: Summary) -> ReportTable:
    """The table for the wall."""

    def cell(value: float | str | None) -> str:
        if value is None or isinstance(value, str):
            return value or "-"
        return number(value, 2 if abs(value) < _SMALL else 1)

    shown = [(row.name, *map(cell, row.values)) for row in summary.rows]
    return ReportTable((*words(""), *numbers(*summary.columns)), shown, summary.title, is_large=True)


def _timed_rows(result: LabResult) -> list[tuple[str, str, str]]:
    """Phases for which seconds were published: those and ours."""
    return [
        (each.phase.name, _published(each.phase.published), _measured(each.measured))
        for each in result.phases
        if each.phase.published is not None and each.phase.published.unit == "s" and each.measured is not None
    ]


def figure_rows(result: LabResult) -> list[tuple[str, str, str, str]]:
    """What phases found beside their load: phase, name, as published, as measured."""
    return [
        (
            each.phase.name,
            name,
            _published(each.phase.published_figures.get(name)),
            number(value, 2) if isinstance(value, float) else str(value),
        )
        for each in result.phases
        for name, value in each.figures.items()
    ]


def _cost_rows(result: LabResult) -> list[tuple[str, ...]]:
    """What a commit cost in each phase that let the load run; none where no phase knows it."""
    if all(each.cost is None for each in result.phases):
        return []
    measured = [each for each in result.phases if each.measured_tps is not None]
    return [(each.phase.name, *cost_cells(each.cost)) for each in measured]


def _published(published: Published | None) -> str:
    if published is None:
        return "-"
    return f"{published.value:g} {published.unit}" + (f" for {published.rows:,} rows" * bool(published.rows))


def _measured(measured: InAuthorsUnit) -> str:
    scaled = f", at the pace of {measured.rows:,}" if measured.rows else ""
    return f"{measured.value:,.2f} {measured.unit}{scaled}"


def _bars(result: LabResult) -> Iterator[ReportChart]:
    """TPS and mean latency by phase, on logarithmic scales: what an acknowledgement costs is a factor."""
    measured = [each for each in result.phases if each.measured_tps is not None]
    tps = [
        (
            each.phase.name,
            [
                ("published", published.value if published and published.unit == "tps" else None),
                ("predicted", each.predicted_tps),
                ("measured", each.tps),
            ],
        )
        for each in measured
        for published in (each.phase.published,)
    ]
    lines = [(each.name, each.tps) for each in result.references]
    yield ReportChart(bar_chart("Commits by phase", "per second, log", tps, lines))
    latency = [(each.phase.name, [("measured", each.service.mean_ms)]) for each in measured]
    yield ReportChart(bar_chart("Mean latency by phase", "ms, log", latency))


def _over_time(ticks: Sequence[Tick]) -> Iterator[Block]:
    """TPS and latency over the whole run, with the phases' marks."""
    if not ticks:
        return
    origin_s = ticks[0].at_s
    marked = [event for tick in ticks for event in tick.events if event.mark is not None]
    marks = [(event.at_s - origin_s, str(event.mark)) for event in marked]

    def series(name: str, style: str, figure: str) -> Series:
        points = [(tick.at_s - origin_s, getattr(tick.load, figure) if tick.load else None) for tick in ticks]
        return Series(name, style, points)

    ceiling = [(tick.at_s - origin_s, tick.ceiling.tps if tick.ceiling else None) for tick in ticks]
    lines = [series("TPS", "tps", "tps"), Series("ceiling", "ceiling", ceiling)]
    yield ReportChart(line_chart("TPS", "commits per second, log", lines, marks, log=True), title="As it ran")
    lines = [series(name, name, f"{name}_ms") for name in ("p50", "p95", "p99")]
    yield ReportChart(line_chart("Latency", "ms, log", lines, marks, log=True))
    told = [(str(event.mark), f"{event.at_s - origin_s:.0f} s", event.text) for event in marked]
    yield ReportTable((*numbers("mark", "at"), *words("what")), told, in_text=False)


MATRIX_COLUMNS: Final = (
    ReportColumn("failure"),
    ReportColumn("mode"),
    ReportColumn("sync/flush"),
    ReportColumn("theory", rank=2),
    ReportColumn("acknowledged", is_number=True, rank=4),
    ReportColumn("lost", is_number=True),
    ReportColumn("meter said", is_number=True),
    ReportColumn("read, then gone", is_number=True, rank=3),
    ReportColumn("recovery ms", is_number=True, rank=5),
    ReportColumn("as theory"),
)
"""Of a row a cell (`cell_row`)."""


def experiment_report(result: ExperimentResult, ticks: Sequence[Tick] = ()) -> Report:
    """What a run of any experiment found; charts over time are drawn of the `ticks` that were recorded."""
    match result:
        case LabResult():
            return lab_report(result, ticks)
        case DrillResult():
            return drill_report(result, ticks)
        case MatrixResult():
            return matrix_report(result)
    raise TypeError(f"no report of {result!r}")


def matrix_report(result: MatrixResult) -> Report:
    """What the cells found. Nothing is drawn: it is many drills."""
    cells = result.cells
    facts = [
        ("", TITLE),
        ("", measured_on(result.server, result.started_wall_s, quick=result.quick)),
        ("load", f"{result.clients} clients"),
        *([] if result.conditions is None else rows(result.conditions)),
    ]
    if result.aborted is not None:
        facts.append(("aborted", result.aborted))
    blocks: list[Block] = [
        ReportTable(MATRIX_COLUMNS, [cell_row(each) for each in cells]),
        ReportNotes([matrix_summary(result)], kind="lines"),
        ReportNotes([f"{each.cell.title}: {each.aborted}" for each in cells if each.aborted], "aborted"),
        ReportNotes([f"{each.cell.title}: {line}" for each in cells for line in each.repaired], "repaired"),
        ReportNotes([f"{each.cell.title}: {each.cell.theory.why}" for each in cells], "why", in_text=False),
        again(result.again),
    ]
    return Report(MATRIX, facts, blocks, result.verdict)


def matrix_summary(result: MatrixResult) -> str:
    """How many cells came as theory and, of a source, as the meter says, and how long they took."""
    held = [cell.as_theory for cell in result.cells]
    told = [f"{held.count(True)} of {len(held)} cells as theory says"]
    if result.system == DEFAULT:
        known = [cell.in_meter for cell in result.cells if cell.in_meter is not None]
        inside = f"{known.count(True)} of {len(known)}"
        told.append(f"lost within the meter's range in {inside} that it could read")
    return "; ".join([*told, f"{result.duration_s:,.0f} s"])


def cell_row(found: CellResult) -> tuple[str, ...]:
    """A cell under `MATRIX_COLUMNS`."""
    meter = "-"
    if found.meter is not None:
        meter = f"{found.meter.low:,} to {found.meter.high:,}{' ✖' * (found.in_meter is False)}"
    return (
        IN_WORDS[found.cell.failure],
        IN_WORDS[found.cell.mode],
        found.cell.durability,
        found.cell.theory.lost.value,
        _count(found.acknowledged),
        _count(found.lost),
        meter,
        _count(found.phantom_reads),
        _count(found.recovery_ms),
        {True: "holds", False: "deviates", None: "aborted"}[found.as_theory],
    )


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
