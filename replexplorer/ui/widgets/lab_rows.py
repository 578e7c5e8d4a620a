"""Labs, drills and the matrix as rows: the list to choose from, and the table of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.matrix import FailureKind, Matrix, MatrixCell, matrix_cells
from replexplorer.core.experiment.matrix_result import MatrixResult
from replexplorer.core.experiment.sweep_text import figure
from replexplorer.core.system import DEFAULT, GROUP
from replexplorer.core.text import duration_text
from replexplorer.engine.experiment.labs.lab import Lab, LabResult, PhaseResult
from replexplorer.reports.drill_result import (
    drill_document,
    ledger_rows,
    meter_rows,
    state_words,
    time_rows,
    window_rows,
)
from replexplorer.reports.lab_result import figure_rows, lab_document
from replexplorer.reports.matrix_pages import (
    MATRIX_HEADS,
    cell_row,
    cell_title,
    matrix_document,
    matrix_summary,
)
from replexplorer.ui.words.runs import Line, Run, spread, wrapped
from replexplorer.ui.words.staged import Staged, StagedResult
from replexplorer.ui.words.states import STATES

VERDICTS: Final = {"holds": ("✓", "good"), "deviates": ("▲", "bad"), "aborted": ("✖", "warn")}
"""A verdict's symbol and role."""
_GAP: Final = "  "


_DRILL: Final = "drill: "
"""Before a drill's title."""
_BEFORE_TITLE: Final = 49
"""Cells of a row before the title."""


def lab_row(lab: Staged, verdict: str, width: int, *, chosen: bool) -> list[Run]:
    """One lab in the list; `verdict` of its last run here, `running`, or nothing."""
    ground = " on select" if chosen else ""
    symbol, role = VERDICTS.get(verdict, ("", "accent"))
    takes = [duration_text(lab.seconds(quick=quick)) for quick in (True, False)]
    row: list[Run] = [
        (f"{'▸' if chosen else ' '} {lab.name:<18}", f"title{ground} b"),
        (f"{takes[0]:>8}{takes[1]:>8}  ", f"text{ground}"),
        (f"{f'{symbol} {verdict}'.strip():<11}", f"{role}{ground} b"),
        ("" if isinstance(lab, Lab) else _DRILL, f"muted{ground}"),
        (lab.title, f"text{ground}"),
    ]
    return spread(row, [], width, f"text{ground}")


def lab_heads() -> Line:
    """What the columns of `lab_row` are."""
    return [(f"  {'LAB':<18}{'quick':>8}{'full':>8}  {'last run':<11}title", "muted")]


def lab_details(lab: Staged, width: int) -> list[Line]:
    """What a lab teaches, whose experiment it is, and what it will change."""
    if isinstance(lab, Drill | Matrix):
        return _drill_details(lab, width)
    told = [*_whole_title(lab, width), ("teaches", lab.teaches)]
    if lab.source is not None:
        told.append(("after", f"{lab.source.author}: {lab.source.title}"))
    if lab.failure:
        told.append(("failure", lab.failure))
    told.append(("phases", "; ".join(phase.name for phase in lab.phases)))
    if lab.systems:
        stacks = f"stacks of its own, one after the other: {', '.join(lab.systems)}"
        told.append(("makes", f"{stacks}; run it in a shell: replexplorer lab run {lab.name}"))
        return [line for head, text in told for line in _told(head, text, width)]
    told.append(("changes", f"{', '.join(lab.turns)}; all are restored at the end"))
    if detached := sum(phase.replicas is not None and phase.replicas < lab.replicas for phase in lab.phases):
        told.append(
            ("detaches", f"replicas (their IO threads stop) in {detached} of {len(lab.phases)} phases")
        )
    if lab.replicas > 1:
        told.append(("brings up", f"replicas up to {lab.replicas}, and removes again what it brought up"))
    return [line for head, text in told for line in _told(head, text, width)]


def _whole_title(lab: Staged, width: int) -> list[tuple[str, str]]:
    """The title of a lab whose row has no room for it."""
    kind = "" if isinstance(lab, Lab) else _DRILL
    fits = _BEFORE_TITLE + cell_len(kind + lab.title) <= width
    return [] if fits else [("title", f"{kind}{lab.title}")]


def _drill_details(drill: Drill | Matrix, width: int) -> list[Line]:
    """What a drill or the matrix teaches, breaks and expects."""
    if isinstance(drill, Matrix):
        whole, quick = (matrix_cells(quick=quick) for quick in (False, True))
        kinds = (dict.fromkeys(each) for each in zip(*(cell.words for cell in whole), strict=True))
        steps = (
            f"{len(whole)} cells, {len(quick)} of them quick: {' x '.join(', '.join(each) for each in kinds)}"
        )
        steps += f"; on a group {len(matrix_cells(quick=False, system=GROUP.name))} of its own"
        expects = "each cell loses what theory says and what the exposure meter said"
    else:
        steps = "; ".join(step.text for step in drill.steps)
        expects = "; ".join(each.name for each in drill.expects)
    told = [
        *_whole_title(drill, width),
        ("teaches", drill.teaches),
        ("steps", steps),
        ("expects", expects),
        ("changes", f"{', '.join(drill.turns)}; all are restored and every fault is cleared at the end"),
    ]
    return [line for head, text in told for line in _told(head, text, width)]


def found_rows(result: StagedResult, width: int) -> list[Line]:
    """All that a run found."""
    if isinstance(result, MatrixResult):
        return _matrix_rows(result, width)
    if isinstance(result, DrillResult):
        return _drill_rows(result, width)
    return _lab_rows(result, width)


_MATRIX_RANKS: Final = {"recovery ms": 5, "acknowledged": 4, "read, then gone": 3, "theory": 2}
"""By heading: the highest goes first where the width is short; all others stay."""


def _matrix_rows(result: MatrixResult, width: int) -> list[Line]:
    """The table as the command line has it, with why below."""
    document = matrix_document(result)
    rows: list[Line] = []
    if result.aborted is not None:
        rows += [[(f" ✖ aborted: {result.aborted}; the next run continues", "warn b")]]
    rows += [[(f" {text}", "text")] for text in wrapped(matrix_summary(document), max(20, width - 2))]
    table = [cell_row(cell) for cell in document.cells]
    columns = [
        _Column(head, [row[at] for row in table], "text", _MATRIX_RANKS.get(head, 0))
        for at, head in enumerate(MATRIX_HEADS)
    ]
    if table:
        rows += [[], *_table_rows(columns, width)]
    for cell in result.cells:
        told = [f"aborted: {cell.aborted}"] if cell.aborted else []
        told += [*cell.repaired, *(f"not restored: {line}" for line in cell.unrestored)]
        for text in (
            part for line in told for part in wrapped(f"{cell_title(cell.cell)}: {line}", max(20, width - 2))
        ):
            rows.append([(f" {text}", "warn")])
    rows += [[], [(" WHY", "accent b")]]
    for why in dict.fromkeys(cell.cell.theory.why for cell in result.cells):
        meant = [cell.cell for cell in result.cells if cell.cell.theory.why == why]
        rows += [[(f" {text}", "text")] for text in wrapped(f"{_meant(meant)}: {why}", max(20, width - 2))]
    return rows


def _meant(cells: Sequence[MatrixCell]) -> str:
    """Cells with one reason, in a few words: what it rests on is the mode where the source is lost, else the
    durability."""
    titles = [cell_title(cell).partition(", ") for cell in cells]
    failures = " and ".join(dict.fromkeys(failure for failure, _, _ in titles))
    by_mode = cells[0].failure is FailureKind.SOURCE_LOST or cells[0].mode.system != DEFAULT
    of = [title.rpartition(" ")[0 if by_mode else 2] for _, _, title in titles]
    return f"{failures}, {', '.join(dict.fromkeys(of))}"


def _drill_rows(result: DrillResult, width: int) -> list[Line]:
    document = drill_document(result)
    rows: list[Line] = []
    if result.aborted is not None:
        rows += [[(f" ✖ aborted: {result.aborted}", "warn b")]]
    for line in result.unrestored:
        rows += [[(f" {text}", "bad b")] for text in wrapped(f"not restored: {line}", max(20, width - 2))]
    parts = (
        ("FAULTS", window_rows(document)),
        ("AT RISK JUST BEFORE, BY THE METER", meter_rows(document)),
        ("WHAT BECAME OF THE ROWS", ledger_rows(document)),
        ("TIMES", time_rows(document)),
    )
    for heading, pairs in parts:
        if pairs:
            beside = max(len(name) for name, _ in pairs) + 3
            rows += [[], [(f" {heading}", "accent b")]]
            for name, text in pairs:
                for at, part in enumerate(wrapped(text, max(20, width - beside))):
                    head = f" {name if at == 0 else '':<{beside - 1}}"
                    rows.append([(head, "muted"), (part, "text")])
    if document.protection:
        rows += [[], [(" PROTECTION", "accent b")]]
        rows += [[(f" {text}", "text")] for text in wrapped(state_words(document), max(20, width - 2))]
    if result.expectations:
        rows += [[], [(" EXPECTATIONS", "accent b")]]
        for each in result.expectations:
            word = "holds" if each.holds else "deviates"
            rows += _judged_rows(word, each.name, each.evidence, width)
    return rows[1:] if rows and not rows[0] else rows


def _told(head: str, text: str, width: int) -> list[Line]:
    rows = wrapped(text, max(20, width - 14))
    return [[(f"    {head if at == 0 else '':<10}", "muted"), (row, "text")] for at, row in enumerate(rows)]


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cells: Sequence[str]
    words: str
    rank: int
    """The highest goes first where the width is short; 0 stays."""

    @property
    def width(self) -> int:
        return max(len(text) for text in (self.head, *self.cells))


def _columns(phases: Sequence[PhaseResult]) -> list[_Column]:
    """Published, predicted, measured, and what they were measured with."""

    def tps(value: float | None) -> str:
        return "-" if value is None else f"{figure(value)} tps"

    def percentile(phase: PhaseResult, percent: float) -> str:
        return figure(phase.service.percentile_ms(percent))

    published = [each.phase.published for each in phases]
    return [
        _Column("phase", [each.phase.name for each in phases], "title b", 0),
        _Column("clients", [str(each.clients) for each in phases], "muted", 5),
        _Column("RTT ms", [figure(each.rtt_measured_ms, 2) for each in phases], "muted", 2),
        _Column("fsync ms", [figure(each.fsync_measured_ms, 2) for each in phases], "muted", 6),
        _Column(
            "published", [f"{each.value:g} {each.unit}" if each else "-" for each in published], "text", 0
        ),
        _Column("predicted", [tps(each.predicted_tps) for each in phases], "text", 0),
        _Column("measured", [_measured(each) for each in phases], "tps b", 0),
        _Column("mean ms", [figure(each.service.mean_ms) for each in phases], "text", 8),
        _Column("p50 ms", [percentile(each, 50) for each in phases], "p50", 4),
        _Column("p99 ms", [percentile(each, 99) for each in phases], "p99", 3),
        _Column("protection", [STATES[each.protection.state][1] for each in phases], "muted", 7),
    ]


def _measured(phase: PhaseResult) -> str:
    """In the unit of what was published; TPS with the interval of its repeats."""
    measured, interval = phase.measured, phase.tps_interval
    if measured is not None and measured.unit == "s":
        return f"{figure(measured.value)} s" + (f" at the pace of {measured.rows:,}" if measured.rows else "")
    if phase.measured_tps is None:
        return "-"
    if interval is None:
        return f"{figure(phase.measured_tps)} tps"
    return f"{figure(phase.measured_tps)} [{figure(interval.low)}, {figure(interval.high)}] tps"


def phase_rows(phases: Sequence[PhaseResult], width: int) -> list[Line]:
    """The table, with as many columns as fit."""
    return _table_rows(_columns(phases), width) if phases else []


def _table_rows(columns: Sequence[_Column], width: int) -> list[Line]:
    """As many columns as fit; a verdict's word has its colour."""
    columns = list(columns)
    while sum(each.width + len(_GAP) for each in columns) > width and any(each.rank for each in columns):
        columns.remove(max(columns, key=lambda each: each.rank))

    def cell(column: _Column, text: str) -> str:
        return f" {text:<{column.width}}" if column is columns[0] else f"{_GAP}{text:>{column.width}}"

    rows: list[Line] = [[(cell(column, column.head), "muted") for column in columns]]
    for at in range(len(columns[0].cells)):
        rows.append(
            [
                (cell(column, text), f"{VERDICTS[text][1]} b" if text in VERDICTS else column.words)
                for column in columns
                for text in (column.cells[at],)
            ]
        )
    return rows


def relation_rows(result: LabResult, width: int) -> list[Line]:
    """Each relation: whether it holds, what it says, and the evidence."""
    rows: list[Line] = []
    for relation in result.relations:
        rows += _judged_rows(relation.word, relation.name, relation.evidence, width)
    return rows


def _judged_rows(word: str, name: str, evidence: str, width: int) -> list[Line]:
    """A verdict's word, what it is of, and below it the evidence."""
    symbol, role = VERDICTS.get(word, ("·", "muted"))
    rows: list[Line] = []
    for at, text in enumerate(wrapped(name, max(20, width - 14))):
        rows.append([(f" {f'{symbol} {word}' if at == 0 else '':<12}", f"{role} b"), (text, "text")])
    rows += [[(" " * 13, "text"), (text, "muted")] for text in wrapped(evidence, max(20, width - 14))]
    return rows


def _lab_rows(result: LabResult, width: int) -> list[Line]:
    rows: list[Line] = []
    if result.aborted is not None:
        rows += [[(f" ✖ aborted: {result.aborted}", "warn b")]]
    for line in result.unrestored:
        rows += [[(f" {text}", "bad b")] for text in wrapped(f"not restored: {line}", max(20, width - 2))]
    if result.lab.source is not None:
        source = result.lab.source
        about = f"after {source.author}: {source.title}{f'; {source.setup}' if source.setup else ''}"
        rows += [[(f" {text}", "muted")] for text in wrapped(about, max(20, width - 2))]
    rows += [*([[]] if rows else []), *phase_rows(result.phases, width)]
    document = lab_document(result)
    found = figure_rows(document)
    if found:
        rows += [[], [(" FOUND", "accent b")]]
        widths = [max(len(row[at]) for row in found) for at in (0, 1)]
        rows += [
            [
                (f" {phase:<{widths[0]}}", "title b"),
                (f"{_GAP}{name:<{widths[1]}}", "muted"),
                (f"{_GAP}{value}", "tps b"),
                ("" if published == "-" else f"{_GAP}published {published}", "text"),
            ]
            for phase, name, published, value in found
        ]
    rows += [[(f" {each.name}: {each.tps:,.1f} TPS", "muted")] for each in document.references]
    if result.relations:
        rows += [[], [(" RELATIONS", "accent b")], *relation_rows(result, width)]
    return rows
