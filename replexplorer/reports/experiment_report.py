"""The report of a run of any experiment; of the matrix what each cell lost, next to theory and the meter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from replexplorer.core.experiment.drill_result import DrillResult, stretches_of
from replexplorer.core.experiment.experiment import ExperimentResult
from replexplorer.core.experiment.lab import Lab, LabResult, PhaseResult, Published, Summary
from replexplorer.core.experiment.lesson import LessonResult
from replexplorer.core.experiment.matrix import IN_WORDS, TITLE, CellResult, MatrixResult
from replexplorer.core.experiment.sweep_result import Swept
from replexplorer.core.history.series import Digest
from replexplorer.core.server.comeback import Replication
from replexplorer.core.server.exposure import FAILURES
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.protection import word_of
from replexplorer.core.system import DEFAULT
from replexplorer.core.text import number
from replexplorer.core.tick import Tick
from replexplorer.reports.conditions import COST_TITLE, cost_table, measured_on, rows
from replexplorer.reports.recordings import charts
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
from replexplorer.reports.svg import Window, bar_chart
from replexplorer.reports.sweep_report import sweep_blocks, sweep_facts

Facts = list[tuple[str, str]]
_BEFORE_S: Final = 3.0
"""How much of a drill's recording is drawn before the first step."""
_AFTER_S: Final = 1.0
_SMALL: Final = 10
"""A figure below it has another digit in a summary."""


def experiment_report(result: ExperimentResult, ticks: Sequence[Tick] = ()) -> Report:
    """What a run of any experiment found; charts over time are drawn of the `ticks` that were recorded. Of
    the matrix nothing is drawn: it is many drills."""
    name, verdict, title, more = result.experiment.name, result.verdict, "", ""
    own: Sequence[tuple[str, str]]
    blocks: Iterator[Block]
    match result:
        case LabResult():
            if result.repeats > 1:
                more = f", {result.repeats} runs of each phase in turn; [ ] is their 95 % interval"
            own, blocks = list(_lab_facts(result.lab)), _lab_blocks(result, ticks)
        case DrillResult():
            title, own, blocks = result.drill.title, list(_drill_facts(result)), _drill_blocks(result, ticks)
        case MatrixResult():
            title, own, blocks = TITLE, [("load", f"{result.clients} clients")], _matrix_blocks(result)
        case LessonResult(lesson=lesson):
            title, own, blocks = lesson.title, [], iter([_judged(result)])
        case Swept(sweep=sweep):
            passes = "" if sweep.repeats == 1 else f", {sweep.repeats} passes"
            more = f": {sweep.duration_s:g} s a run{passes}, seed {result.seed}"
            name, verdict = sweep.title, ""
            own, blocks = list(sweep_facts(result)), sweep_blocks(result)
        case _:
            raise TypeError(f"no report of {result!r}")
    facts: Facts = [("", title)] if title else []
    facts.append(("", measured_on(result.server, result.started_wall_s, quick=result.quick) + more))
    facts += [] if result.conditions is None else rows(result.conditions)
    facts += [] if result.aborted is None else [("aborted", result.aborted)]
    return Report(name, [*facts, *own], [*blocks, again(result.again)], verdict)


def _judged(result: ExperimentResult) -> ReportTable:
    """What must hold, under `relations` or `expectations`."""
    columns = words("", result.judged.removesuffix("s"), "evidence")
    found = [(each.word, each.name, each.evidence) for each in result.relations]
    return ReportTable(columns, found, result.judged)


def _over_time(
    ticks: Sequence[Tick],
    zero_s: float,
    marks: Iterable[tuple[float, int]] = (),
    windows: Sequence[Window] = (),
) -> Iterator[Block]:
    """TPS, latency and what was at risk, in seconds since `zero_s`, a clock time."""
    digest = Digest(ticks[-1].wall_s - ticks[0].wall_s)
    for tick in ticks:
        digest.feed(
            replace(tick, at_s=tick.wall_s - zero_s)
        )  # of several sessions each has a clock of its own
    first, *others = charts(digest.points, marks, windows)
    yield replace(first, title="As it ran")
    yield from others


# -- drills


def _drill_facts(result: DrillResult) -> Iterator[tuple[str, str]]:
    settings = " ".join(f"{name}={value}" for name, value in result.settings.items())
    yield "load", f"{result.clients} clients; {settings}"
    if result.drill.own_settings:
        yield "set by the drill itself", " ".join(result.drill.own_settings)
    if result.timeline:
        stretches = stretches_of(result.timeline, result.duration_s)
        states = (f"{word_of(state)} {took_s:.1f} s" for state, took_s in stretches)
        yield "protection", " > ".join(states)


def _drill_blocks(result: DrillResult, ticks: Sequence[Tick]) -> Iterator[Block]:
    windows = [
        Window(
            each.from_s,
            result.duration_s if each.to_s is None else each.to_s,
            f"{each.fault}@{each.node}",
        )
        for each in result.windows
    ]
    from_s, to_s = result.started_wall_s - _BEFORE_S, result.started_wall_s + result.duration_s + _AFTER_S
    seen = [tick for tick in ticks if from_s <= tick.wall_s <= to_s]
    if seen:
        yield from _over_time(seen, result.started_wall_s, windows=windows)
    told = [(each.what, f"{each.from_s:.1f} s to {each.to_s:.1f} s") for each in windows]
    yield ReportTable(words("fault", "in force"), told, "faults")
    title = "at risk just before by the meter, and lost"
    yield ReportTable(words("failure", "commits"), list(_meter_rows(result)), title)
    yield ReportTable(words("class", "rows"), list(_ledger_rows(result)), "what became of the rows")
    yield ReportTable(words("", ""), list(_time_rows(result)), "times")
    yield cost_table((), [((), result.cost)], f"{COST_TITLE} before the first fault")
    yield _judged(result)
    yield ReportNotes(result.repaired, "repaired")
    yield ReportNotes(result.unrestored, "not restored")
    course = [(f"{each.at_s:.2f}", each.text) for each in result.course]
    yield ReportTable((*numbers("second"), *words("what")), course, "timeline", in_text=False)


def _meter_rows(result: DrillResult) -> Iterator[tuple[str, str]]:
    """What the meter said just before the failure, a kind of failure a row."""
    reading = result.reading
    if reading is None:
        return
    for title, loss in zip(FAILURES.values(), reading.exposure.losses, strict=True):
        yield title, loss.words
    if result.ledger is not None:
        between_ms = number(reading.read_ms, 0)
        yield "acknowledged after the reading", f"{reading.meanwhile:,} in the {between_ms} ms between"
        yield "really lost", f"{result.ledger.lost:,}"


def _ledger_rows(result: DrillResult) -> Iterator[tuple[str, str]]:
    """What became of the rows, a class a row."""
    ledger = result.ledger
    if ledger is None:
        return
    lost, age_ms = f"{ledger.lost:,}", ledger.oldest_lost_age_ms
    if ledger.lost and age_ms is not None:
        lost += f" (of the last {age_ms:,.0f} ms)"
    there, gone = ledger.unknown_present, ledger.unknown_absent
    yield "attempted", f"{ledger.attempted:,}"
    yield "acknowledged", f"{ledger.acknowledged:,}"
    yield "refused", f"{ledger.failed:,}"
    yield "unknown", f"{ledger.unknown:,}, of which {there:,} are there and {gone:,} are not"
    yield f"lost on {ledger.survivor}", lost
    yield "read by others, then gone", f"{ledger.phantom_reads:,}"
    for node, each in ledger.nodes.items():
        errant = f"; GTIDs of its own: {each.errant_gtids}" if each.errant_gtids else ""
        yield node, f"{each.rows:,} rows, {each.missing:,} missing, {each.extra:,} extra{errant}"
    if result.comebacks:
        logs = [each.binlog_lost for each in result.comebacks]
        count = None if None in logs else sum(gtid_count(each or "") for each in logs)
        size = sum(each.binlog_bytes for each in result.comebacks)
        yield "gone from the binlog", f"{number(count, 0)} ({size:,} bytes)"
    for comeback in result.comebacks:
        for node, after in comeback.replication.items():
            remedy = "" if after is Replication.WHOLE else ": it has to be copied from the source"
            yield f"replication to {node}", f"{after.value}{remedy}"


def _time_rows(result: DrillResult) -> Iterator[tuple[str, str]]:
    """How long it took until clients wrote again."""
    change = result.failover
    if change is not None:
        rto = change.rto
        yield (
            "failover",
            f"{number(rto.total_ms, 0)} ms: detected {number(rto.detect_ms, 0)} ms,"
            f" promoted {number(rto.promote_ms, 0)} ms, first write {number(rto.first_write_ms, 0)} ms",
        )
    if result.recovery_ms is not None:
        yield "recovery", f"{result.recovery_ms:,.0f} ms from repair to the first OK"
    for name, tps in result.tps.items():
        when = f"{name} the fault"
        if name == "during" and change is not None and result.ledger is not None:
            when += f", then on {result.ledger.survivor}"
        yield f"TPS {when}", number(tps)
    if result.fallbacks is not None:
        yield "falls back to async", str(result.fallbacks)


# -- labs

_PHASES: Final = (
    ReportColumn("phase"),
    *(
        ReportColumn(head, is_number=True, rank=rank)
        for head, rank in (
            ("clients", 5), ("RTT ms", 2), ("fsync ms", 8), ("published", 0), ("predicted TPS", 1),
            ("measured TPS", 0), ("ceiling", 4), ("mean ms", 7), ("p50 ms", 6), ("p95 ms", 6), ("p99 ms", 3),
            ("n", 9),
        )
    ),
    ReportColumn("protection", rank=5),
)  # fmt: skip


def _lab_facts(lab: Lab) -> Iterator[tuple[str, str]]:
    source = lab.source
    if source is not None:
        url = f" ({source.url})" if source.url else ""
        yield "after", f"{source.author}: {source.title}{url}"
    if lab.failure:
        yield "in a failure", lab.failure


def _lab_blocks(result: LabResult, ticks: Sequence[Tick]) -> Iterator[Block]:
    phases = result.phases
    if result.summary is not None:
        yield _summary(result.summary)
    yield from _bars(result)
    yield ReportTable(_PHASES, [_phase_row(phase) for phase in phases])
    yield _judged(result)
    if left_open := sum(each.word == "open" for each in result.relations):
        told = f"{left_open} left open: the repeats show neither that it holds nor that it does not"
        yield ReportNotes([told])
    yield ReportNotes([f"{each.name}: {each.finding}" for each in phases if each.finding], "found")
    limits = [f"{each.name}: {each.limited}" for each in phases if each.limited]
    explains = limits if result.verdict == "deviates" else ()
    yield ReportNotes(explains, "what may explain it, besides the settings")
    yield ReportNotes([f"{each.name}: {each.tps:,.1f} TPS" for each in result.references], "for comparison")
    if ticks:
        zero_s = ticks[0].wall_s
        events = [event for tick in ticks for event in tick.events]
        marks = [(each.wall_s - zero_s, each.mark, each.text) for each in events if each.mark is not None]
        yield from _over_time(ticks, zero_s, [(at_s, number) for at_s, number, _ in marks])
        rows = [(str(number), f"{at_s:.0f} s", text) for at_s, number, text in marks]
        yield ReportTable((*numbers("mark", "at"), *words("what")), rows, in_text=False)
    both = numbers("published", "measured")
    yield ReportTable((*words("phase"), *both), list(_timed_rows(result)), "time taken")
    figures = [
        (
            each.name,
            name,
            _published(each.phase.published_figures.get(name)),
            number(value, 2) if isinstance(value, float) else str(value),
        )
        for each in phases
        for name, value in each.figures.items()
    ]
    yield ReportTable((*words("phase", "figure"), *both), figures, "also found")
    costs = [((each.name,), each.cost) for each in phases if each.measured_tps is not None]
    yield cost_table(words("phase"), costs)
    yield ReportNotes(result.unrestored, "not restored")
    settings = [
        (each.name, " ".join(f"{name}={value}" for name, value in each.settings.items()))
        for each in phases
        if each.settings
    ]
    yield ReportTable(words("phase", "knobs"), settings, "settings", in_text=False)


def _phase_row(result: PhaseResult) -> tuple[str, ...]:
    told, tps, interval = result.latency_ms, number(result.measured_tps, 2), result.tps_interval
    if interval is not None:
        tps += f" [{number(interval.low, 2)}, {number(interval.high, 2)}]"
    latencies = (None,) * 4 if told is None else (told.mean, told.p50, told.p95, told.p99)
    return (
        result.name,
        str(result.clients),
        number(result.rtt_measured_ms, 2),
        number(result.fsync_measured_ms, 2),
        "-"
        if result.phase.published is None
        else f"{result.phase.published.value:g} {result.phase.published.unit}",
        number(result.predicted_tps),
        tps,
        number(result.ceiling_tps),
        *(number(value, 2) for value in latencies),
        f"{result.service.count:,}",
        word_of(result.protection.state.value),
    )


def _summary(summary: Summary) -> ReportTable:
    """The table for the wall."""

    def cell(value: float | str | None) -> str:
        if value is None or isinstance(value, str):
            return value or "-"
        return number(value, 2 if abs(value) < _SMALL else 1)

    shown = [(row.name, *map(cell, row.values)) for row in summary.rows]
    return ReportTable((*words(""), *numbers(*summary.columns)), shown, summary.title, is_large=True)


def _timed_rows(result: LabResult) -> Iterator[tuple[str, str, str]]:
    """Phases for which seconds were published: those and ours."""
    for each in result.phases:
        published, measured = each.phase.published, each.measured
        if published is not None and published.unit == "s" and measured is not None:
            scaled = f", at the pace of {measured.rows:,}" if measured.rows else ""
            yield each.name, _published(published), f"{measured.value:,.2f} {measured.unit}{scaled}"


def _published(published: Published | None) -> str:
    if published is None:
        return "-"
    of_rows = f" for {published.rows:,} rows" if published.rows else ""
    return f"{published.value:g} {published.unit}{of_rows}"


def _bars(result: LabResult) -> Iterator[ReportChart]:
    """TPS and mean latency by phase, on logarithmic scales: what an acknowledgement costs is a factor."""
    tps, latency = [], []
    for each in result.phases:
        if each.measured_tps is not None:
            told = each.phase.published
            published = told.value if told and told.unit == "tps" else None
            figures = [("published", published), ("predicted", each.predicted_tps), ("measured", each.tps)]
            tps.append((each.name, figures))
            latency.append((each.name, [("measured", each.service.mean_ms)]))
    lines = [(each.name, each.tps) for each in result.references]
    yield ReportChart(partial(bar_chart, "Commits by phase", "per second, log", tps, lines))
    yield ReportChart(partial(bar_chart, "Mean latency by phase", "ms, log", latency))


# -- the matrix

_CELLS: Final = (
    *words("failure", "mode", "sync/flush"),
    ReportColumn("theory", rank=2),
    *(
        ReportColumn(head, is_number=True, rank=rank)
        for head, rank in (
            ("acknowledged", 4), ("lost", 0), ("meter said", 0), ("read, then gone", 3), ("recovery ms", 5),
        )
    ),
    *words("as theory"),
)  # fmt: skip


def _matrix_blocks(result: MatrixResult) -> Iterator[Block]:
    cells = result.cells
    yield ReportTable(_CELLS, [_cell_row(each) for each in cells])
    yield ReportNotes([_matrix_summary(result)], kind="lines")
    yield ReportNotes([f"{each.cell.title}: {each.aborted}" for each in cells if each.aborted], "aborted")
    yield ReportNotes([f"{each.cell.title}: {line}" for each in cells for line in each.repaired], "repaired")
    yield ReportNotes([f"{each.cell.title}: {each.cell.theory.why}" for each in cells], "why", in_text=False)


def _matrix_summary(result: MatrixResult) -> str:
    """How many cells came as theory and, of a source, as the meter says, and how long they took."""
    held = [cell.as_theory for cell in result.cells]
    told = [f"{held.count(True)} of {len(held)} cells as theory says"]
    if result.system == DEFAULT:
        known = [cell.in_meter for cell in result.cells if cell.in_meter is not None]
        inside = f"{known.count(True)} of {len(known)}"
        told.append(f"lost within the meter's range in {inside} that it could read")
    return "; ".join([*told, f"{result.duration_s:,.0f} s"])


def _cell_row(found: CellResult) -> tuple[str, ...]:
    acknowledged, lost, gone, recovery = (
        number(value, 0) for value in (found.acknowledged, found.lost, found.phantom_reads, found.recovery_ms)
    )
    judged = {True: "holds", False: "deviates", None: "aborted"}[found.as_theory]
    cell = found.cell
    return (
        *(IN_WORDS[cell.failure], IN_WORDS[cell.mode], cell.durability, cell.theory.lost.value),
        *(acknowledged, lost, found.meter_text, gone, recovery, judged),
    )
