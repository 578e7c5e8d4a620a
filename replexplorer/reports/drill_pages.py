"""A drill's report: report.md, report.html (one file, nothing from outside), result.json, the session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Final

from replexplorer import __version__
from replexplorer.core.server.exposure import Loss
from replexplorer.core.tick import Tick
from replexplorer.formats.json.drill import DrillRunJson
from replexplorer.formats.json.text import to_json
from replexplorer.formats.small_file import MOST_TOML_BYTES, read_text
from replexplorer.reports.commit_cost import COST_HEADINGS, cost_cells
from replexplorer.reports.conditions import rows as condition_rows
from replexplorer.reports.directory import write_files
from replexplorer.reports.drill_result import (
    FAILURES,
    ledger_rows,
    meter_rows,
    state_words,
    time_rows,
    window_rows,
)
from replexplorer.reports.lab_pages import PAGE_STYLE
from replexplorer.reports.svg_chart import STYLE, Series, line_chart

_BEFORE_S: Final = 3.0
"""How much of the recording is drawn before the first step."""
_AFTER_S: Final = 1.0
_STYLES: Final = {"process_dies": "p50", "power_cut": "p99", "source_lost": "p95"}

_Section = tuple[str, tuple[str, ...], Sequence[Sequence[str]]]
"""Heading, column heads, rows."""


def write_drill_report(
    directory: Path,
    document: DrillRunJson,
    session: str | None,
    own: Path | None = None,
    ticks: Sequence[Tick] = (),
) -> str:
    """Write the report, its charts drawn from the `ticks` that were recorded, and a copy of the session file
    and of an `own` drill's file; answers what was written. Raises UsageError."""
    contents = {
        "report.md": drill_markdown(document),
        "report.html": drill_html(document, ticks),
        "result.json": to_json(document) + "\n",
    }
    if own is not None:
        contents[own.name] = read_text(own, "drill file", MOST_TOML_BYTES)
    return write_files(directory, contents, session)


def _facts(document: DrillRunJson) -> list[str]:
    facts = [
        document.title,
        f"{document.server}, replexplorer {__version__}, {document.started}"
        f"{', shortened (--quick)' if document.quick else ''}",
        f"{document.clients} clients; "
        + " ".join(f"{key}={value}" for key, value in document.settings.items()),
    ]
    if document.conditions is not None:
        facts += [
            f"{'Settings before and after' if name == 'settings' else name.capitalize()}: {text}"
            for name, text in condition_rows(document.conditions)
        ]
    if document.aborted is not None:
        facts.append(f"Aborted: {document.aborted}")
    facts += [f"Repaired: {line}" for line in document.repaired]
    facts += [f"Not restored: {line}" for line in document.unrestored]
    return facts


def _sections(document: DrillRunJson) -> list[_Section]:
    """Everything that is a table, in order; those without rows are left out."""
    meter = meter_rows(document)
    found: list[_Section] = [
        (
            "Expectations",
            ("", "expectation", "evidence"),
            [
                ("holds" if each.holds else "deviates", each.name, each.evidence)
                for each in document.expectations
            ],
        ),
        ("At risk by the meter, and lost", ("failure", "commits"), meter),
        ("What became of the rows", ("class", "rows"), ledger_rows(document)),
        ("Times", ("", ""), time_rows(document)),
        (
            "What a commit cost the servers before the first fault",
            COST_HEADINGS,
            [cost_cells(document.commit_cost)] if document.commit_cost is not None else [],
        ),
        ("Faults", ("fault", "in force"), window_rows(document)),
        ("Timeline", ("second", "what"), [(f"{each.at_s:.2f}", each.text) for each in document.told]),
    ]
    return [section for section in found if section[2]]


def drill_markdown(document: DrillRunJson) -> str:
    """The report for a ticket."""
    lines = [f"# {document.drill}: {document.verdict}", "", *(f"{fact}  " for fact in _facts(document))]
    if document.protection:
        lines += ["", f"Protection: {state_words(document)}"]
    for heading, heads, rows in _sections(document):
        lines += ["", f"## {heading}", ""]
        for row in (heads, ["---"] * len(heads), *rows):
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |")
    return "\n".join([*lines, "", "## Again", "", *(f"    {line}" for line in document.again), ""])


def drill_html(document: DrillRunJson, ticks: Sequence[Tick]) -> str:
    """The report as one page with its charts."""
    word = document.verdict
    parts = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><title>{escape(document.drill)}: {escape(word)}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{PAGE_STYLE}\n{STYLE}</style>",
        f"<h1>{escape(document.drill)}: {_verdict(word)}</h1>",
        *(f"<p>{escape(fact)}</p>" for fact in _facts(document)),
        *_charts(document, ticks),
    ]
    if document.protection:
        parts.append(f"<p>Protection: {escape(state_words(document))}</p>")
    for heading, heads, rows in _sections(document):
        head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
        body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
        parts.append(f"<h2>{escape(heading)}</h2><table><tr>{head}</tr>{body}</table>")
    parts += ["<h2>Again</h2>", "<pre>" + escape("\n".join(document.again)) + "</pre>", "</html>"]
    return "\n".join(part for part in parts if part) + "\n"


def _cell(text: str) -> str:
    return _verdict(text) if text in ("holds", "deviates") else escape(text)


def _verdict(word: str) -> str:
    kind = "holds" if word == "holds" else "deviates"
    return f'<span class="{kind}">{escape(word)}</span>'


def _charts(document: DrillRunJson, ticks: Sequence[Tick]) -> list[str]:
    """TPS, latency and what was at risk while the drill ran, faults shaded."""
    began_s = datetime.fromisoformat(document.started).timestamp()
    seen = [
        (tick.wall_s - began_s, tick)
        for tick in ticks
        if -_BEFORE_S <= tick.wall_s - began_s <= document.duration_s + _AFTER_S
    ]
    if not seen:
        return []
    windows = [
        (each.from_s, document.duration_s if each.to_s is None else each.to_s, f"{each.fault}@{each.node}")
        for each in document.windows
    ]

    def of_load(name: str, style: str, figure: str) -> Series:
        return Series(
            name, style, [(at_s, getattr(tick.load, figure) if tick.load else None) for at_s, tick in seen]
        )

    def at_risk(name: str, words: str) -> Series:
        points = []
        for at_s, tick in seen:
            loss = None if tick.exposure is None else getattr(tick.exposure, name)
            points.append((at_s, float(loss.commits) if isinstance(loss, Loss) else None))
        return Series(words, _STYLES[name], points)

    return [
        "<h2>As it ran</h2>",
        line_chart("TPS", "commits per second", [of_load("TPS", "tps", "tps")], (), windows=windows),
        line_chart(
            "Latency", "ms, log",
            [of_load(name, name, f"{name}_ms") for name in ("p50", "p95", "p99")],
            (), log=True, windows=windows,
        ),
        line_chart(
            "At risk", "acknowledged commits that a failure would lose",
            [at_risk(name, words) for name, words in FAILURES], (), windows=windows,
        ),
    ]  # fmt: skip
