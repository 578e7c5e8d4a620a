"""The matrix of failures as a JSON document, as a table, and as a report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final, Literal, cast

from replexplorer import __version__
from replexplorer.core.experiment.matrix import TITLE, MatrixCell
from replexplorer.core.experiment.matrix_result import CellResult, MatrixResult
from replexplorer.core.system import DEFAULT
from replexplorer.core.text import table
from replexplorer.formats.json.drill import CellJson, MatrixJson, TheoryJson
from replexplorer.formats.json.status import LossJson
from replexplorer.formats.json.text import to_json
from replexplorer.reports.conditions import rows as condition_rows
from replexplorer.reports.directory import write_files
from replexplorer.reports.drill_result import FAILURES
from replexplorer.reports.lab_pages import PAGE_STYLE

_WORDS: Final = {
    **dict(FAILURES),
    "async": "async",
    "after_sync": "AFTER_SYNC",
    "after_commit": "AFTER_COMMIT",
    "fallen_back": "fallen back",
    "group": "Group Replication",
    "galera": "Galera",
    "isolated": "cut off, then healed",
    "majority_lost": "majority lost",
}
MATRIX_HEADS: Final = (
    "failure", "mode", "sync/flush", "theory", "acknowledged", "lost", "meter said", "read, then gone",
    "recovery ms", "as theory",
)  # fmt: skip
"""The table's columns."""


def matrix_document(result: MatrixResult) -> MatrixJson:
    """As `drill run matrix --json` prints it."""
    return MatrixJson(
        system=result.system,
        server=result.server,
        started=datetime.fromtimestamp(result.started_wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        duration_s=round(result.duration_s, 1),
        quick=result.quick,
        clients=result.clients,
        resumed=result.resumed,
        aborted=result.aborted,
        cells=[_cell(each) for each in result.cells],
        verdict=cast(Literal["holds", "deviates", "aborted"], result.verdict),
    )


def _cell(found: CellResult) -> CellJson:
    cell, meter, recovery_ms = found.cell, found.meter, found.recovery_ms
    theory = cell.theory
    return CellJson(
        mode=cell.mode.value,
        sync_binlog=cell.sync_binlog,
        innodb_flush_log_at_trx_commit=cell.flush,
        failure=cell.failure.value,
        theory=TheoryJson(lost=theory.lost.value, phantom=theory.phantom.value, why=theory.why),
        acknowledged=found.acknowledged,
        lost=found.lost,
        phantom_reads=found.phantom_reads,
        recovery_ms=None if recovery_ms is None else round(recovery_ms, 1),
        meter=None
        if meter is None
        else LossJson(commits=meter.commits, low=meter.low, high=meter.high, age_ms=meter.age_ms),
        in_meter=found.in_meter,
        as_theory=found.as_theory,
        repaired=list(found.repaired),
        aborted=found.aborted,
        unrestored=list(found.unrestored),
    )


def cell_title(cell: MatrixCell) -> str:
    """`power cut, AFTER_SYNC 1/2`."""
    return f"{_WORDS[cell.failure]}, {_WORDS[cell.mode]} {cell.durability}"


def cell_line(found: CellResult) -> str:
    """One cell in a line: what was lost, by theory and by the meter."""
    row, title = cell_row(_cell(found)), cell_title(found.cell)
    if found.aborted is not None:
        return f"{title}: aborted, {found.aborted}"
    repaired = "".join(f"; {text}" for text in found.repaired)
    return f"{title}: {row[5]} lost of {row[4]} (theory: {row[3]}; meter: {row[6]}){repaired}"


def cell_row(cell: CellJson) -> tuple[str, ...]:
    """A cell by the table's columns."""
    meter = "-"
    if cell.meter is not None:
        meter = f"{cell.meter.low:,} to {cell.meter.high:,}"
        meter += "" if cell.in_meter is not False else " ✖"
    word = {True: "holds", False: "deviates", None: "aborted"}[cell.as_theory]
    return (
        _WORDS[cell.failure],
        _WORDS[cell.mode],
        f"{cell.sync_binlog}/{cell.innodb_flush_log_at_trx_commit}",
        cell.theory.lost,
        _count(cell.acknowledged),
        _count(cell.lost),
        meter,
        _count(cell.phantom_reads),
        "-" if cell.recovery_ms is None else f"{cell.recovery_ms:,.0f}",
        word,
    )


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def matrix_summary(document: MatrixJson) -> str:
    """How many cells came as theory and, of a source, as the meter says, and how long they took."""
    held = [cell.as_theory for cell in document.cells]
    told = [f"{held.count(True)} of {len(held)} cells as theory says"]
    if document.system == DEFAULT:
        known = [cell.in_meter for cell in document.cells if cell.in_meter is not None]
        inside = f"{known.count(True)} of {len(known)}"
        told.append(f"lost within the meter's range in {inside} that it could read")
    return "; ".join([*told, f"{document.duration_s:,.0f} s"])


def render_matrix(document: MatrixJson) -> str:
    """The table for a terminal, then the verdict."""
    started = document.started.replace("T", " ").removesuffix("Z")
    heads = tuple(head.upper() for head in MATRIX_HEADS)
    blocks = [
        f"matrix on {document.server}, {started} UTC, {document.clients} clients",
        table([cell_row(cell) for cell in document.cells], heads, right=(4, 5, 7, 8)),
        *(
            f"aborted: {_WORDS[cell.failure]}, {_WORDS[cell.mode]}: {cell.aborted}"
            for cell in document.cells
            if cell.aborted
        ),
        *(f"repaired: {cell}: {text}" for cell, text in _repairs(document)),
        matrix_summary(document),
        f"verdict: {document.verdict}",
    ]
    return "\n\n".join(blocks)


def write_matrix_report(directory: Path, document: MatrixJson, session: str | None) -> str:
    """Write report.md, report.html, result.json and a copy of the session; answers what was written. Raises
    UsageError."""
    contents = {
        "report.md": matrix_markdown(document),
        "report.html": _html(document),
        "result.json": to_json(document) + "\n",
    }
    return write_files(directory, contents, session)


def _facts(document: MatrixJson) -> list[str]:
    facts = [
        TITLE,
        f"{document.server}, replexplorer {__version__}, {document.started}, {document.clients} clients"
        f"{f', {len(document.cells)} cells (--quick)' if document.quick else ''}",
        matrix_summary(document),
    ]
    if document.conditions is not None:
        facts += [f"{name.capitalize()}: {text}" for name, text in condition_rows(document.conditions)]
    return facts


def _why(document: MatrixJson) -> Sequence[tuple[str, str]]:
    return [(_title(cell), cell.theory.why) for cell in document.cells]


def _repairs(document: MatrixJson) -> Sequence[tuple[str, str]]:
    """Cells whose member was let in only with a copy, and why."""
    return [(_title(cell), text) for cell in document.cells for text in cell.repaired]


def _title(cell: CellJson) -> str:
    durability = f"{cell.sync_binlog}/{cell.innodb_flush_log_at_trx_commit}"
    return f"{_WORDS[cell.failure]}, {_WORDS[cell.mode]} {durability}"


def matrix_markdown(document: MatrixJson) -> str:
    """The report as Markdown."""
    lines = [f"# matrix: {document.verdict}", "", *(f"{fact}  " for fact in _facts(document)), ""]
    for row in (MATRIX_HEADS, ["---"] * len(MATRIX_HEADS), *map(cell_row, document.cells)):
        lines.append(f"| {' | '.join(row)} |")
    lines += ["", *(f"- {cell}: {text}" for cell, text in _repairs(document))] if _repairs(document) else []
    lines += ["", "## Why", "", *(f"- {cell}: {why}" for cell, why in _why(document))]
    return "\n".join([*lines, "", "## Again", "", *(f"    {line}" for line in document.again), ""])


def _html(document: MatrixJson) -> str:
    def cell(text: str) -> str:
        if text in ("holds", "deviates", "aborted"):
            return f'<span class="{"holds" if text == "holds" else "deviates"}">{text}</span>'
        return escape(text)

    head = "".join(f"<th>{escape(each)}</th>" for each in MATRIX_HEADS)
    body = "".join(
        f"<tr>{''.join(f'<td>{cell(each)}</td>' for each in cell_row(row))}</tr>" for row in document.cells
    )
    parts = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><title>matrix: {document.verdict}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{PAGE_STYLE}</style>",
        f"<h1>matrix: {cell(document.verdict)}</h1>",
        *(f"<p>{escape(fact)}</p>" for fact in _facts(document)),
        f"<table><tr>{head}</tr>{body}</table>",
        *(f"<p>{escape(name)}: {escape(text)}</p>" for name, text in _repairs(document)),
        "<h2>Why</h2><ul>",
        *(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in _why(document)),
        "</ul><h2>Again</h2>",
        "<pre>" + escape("\n".join(document.again)) + "</pre>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"
