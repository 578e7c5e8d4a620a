"""A lab's report: report.md, report.html (one file, nothing from outside), result.json, the session file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from replexplorer import __version__
from replexplorer.core.server.state_words import word_of
from replexplorer.core.text import number
from replexplorer.core.tick import Tick
from replexplorer.formats.json.lab import LabPhase, LabResult
from replexplorer.formats.json.text import to_json
from replexplorer.formats.small_file import MOST_TOML_BYTES, read_text
from replexplorer.reports.commit_cost import COST_HEADINGS, COST_NOTE
from replexplorer.reports.conditions import rows as condition_rows
from replexplorer.reports.directory import write_files
from replexplorer.reports.lab_result import (
    cost_rows,
    figure_rows,
    findings_of,
    limits_of,
    repeats_words,
    summary_table,
    timed_rows,
    tps_words,
)
from replexplorer.reports.svg_chart import STYLE, Series, bar_chart, line_chart

PAGE_STYLE = """\
:root { color-scheme: light dark; --paper: #fff; --ink: #1d2733; --dim: #5b6875; --rule: #dde3e9;
  --tps: #0b6e99; --p50: #2f7d32; --p95: #b26a00; --p99: #b3261e; --predicted: #7a4fb5; --good: #2f7d32;
  --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #12181f; --ink: #e4eaf0; --dim: #93a1ae;
  --rule: #2a333d; --tps: #5cc4ee; --p50: #7ecf83; --p95: #f0b35a; --p99: #ff8a80; --predicted: #c3a5f0;
  --good: #7ecf83; --bad: #ff8a80; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--dim); font-weight: 600; } .holds { color: var(--good); } .deviates { color: var(--bad); }
.wall { font-size: 1.15rem; } .wall td:nth-child(n+2), .wall th:nth-child(n+2) { text-align: right; }
pre, code { font: 13px ui-monospace, monospace; } pre { overflow-x: auto; } .dim { color: var(--dim); }"""
"""Of every page that is a report."""

_HEADINGS = (
    "phase", "clients", "RTT ms", "fsync ms", "published", "predicted TPS", "measured TPS", "ceiling",
    "mean ms", "p50 ms", "p95 ms", "p99 ms", "n", "protection",
)  # fmt: skip


_TIMED = ("phase", "published", "measured")
_FOUND = ("phase", "figure", "published", "measured")


def rerun(name: str, *flags: str, quick: bool) -> list[str]:
    """The command that runs a lab, with these flags."""
    return ["replexplorer", "lab", "run", name, *(["--quick"] if quick else ()), *flags]


def write_report(
    directory: Path,
    document: LabResult,
    session: str | None,
    own: Path | None = None,
    ticks: Sequence[Tick] = (),
    parts: Mapping[str, str] | None = None,
) -> str:
    """Write the report, its charts drawn from the `ticks` that the lab recorded, and a copy of the session
    file, or of those of its `parts` by name, and of an `own` lab's file; answers what was written. Raises
    UsageError."""
    contents = {
        "report.md": markdown(document),
        "report.html": html(document, ticks),
        "result.json": to_json(document) + "\n",
    }
    if own is not None:
        contents[own.name] = read_text(own, "lab file", MOST_TOML_BYTES)
    return write_files(directory, contents, session, parts or {})


def _row(phase: LabPhase) -> tuple[str, ...]:
    latency, published = phase.latency_ms, phase.published
    shown = (latency.mean, latency.p50, latency.p95, latency.p99) if latency else (None,) * 4
    return (
        phase.name,
        "-" if phase.clients is None else str(phase.clients),
        number(phase.rtt_measured_ms, 2),
        number(phase.fsync_measured_ms, 2),
        "-" if published is None else f"{published.value:g} {published.unit}",
        number(phase.predicted_tps),
        tps_words(phase, 2),
        number(phase.ceiling_tps),
        *(number(value, 2) for value in shown),
        f"{phase.n:,}",
        word_of(phase.protection or "-"),
    )


def _facts(document: LabResult) -> list[str]:
    facts = [
        f"{document.server}, replexplorer {__version__}, {document.started}"
        f"{', shortened (--quick)' if document.quick else ''}{repeats_words(document)}"
    ]
    source = document.source
    if source is not None:
        facts.append(f"After {source.author}: {source.title}{f' ({source.url})' if source.url else ''}")
    if document.failure:
        facts.append(f"In a failure: {document.failure}")
    if document.conditions is not None:
        facts += [f"{name.capitalize()}: {text}" for name, text in condition_rows(document.conditions)]
    if document.aborted is not None:
        facts.append(f"Aborted: {document.aborted}")
    facts += [f"{each.name}: {each.tps:,.1f} TPS" for each in document.references]
    facts += [f"Found: {line}" for line in findings_of(document)]
    if document.verdict == "deviates" and (limits := limits_of(document)):
        facts.append(f"What may explain a deviation, beside the settings: {'; '.join(limits)}")
    facts += [f"Not restored: {line}" for line in document.unrestored]
    return facts


def _settings(phase: LabPhase) -> str:
    return " ".join(f"{key}={value}" for key, value in phase.settings.items())


def markdown(document: LabResult) -> str:
    """The report for a ticket."""

    def rows(cells: Sequence[Sequence[str]]) -> list[str]:
        return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells]

    lines = [f"# {document.lab}: {document.verdict}", "", *(f"{fact}  " for fact in _facts(document)), ""]
    if (summary := document.summary) is not None:
        columns, summary_rows = summary_table(summary)
        lines += [f"## {_sentence(summary.title)}", ""]
        lines += [*rows([columns, ("---", *["---:"] * len(summary.columns)), *summary_rows]), ""]
    lines += rows([_HEADINGS, ["---"] * len(_HEADINGS), *map(_row, document.phases)])
    if timed := timed_rows(document):
        lines += ["", *rows([_TIMED, ("---",) * 3, *timed])]
    if found := figure_rows(document):
        lines += ["", *rows([_FOUND, ("---",) * 4, *found])]
    if costs := cost_rows(document):
        headings = ("phase", *COST_HEADINGS)
        lines += ["", "## What a commit cost", "", f"{COST_NOTE}.", ""]
        lines += rows([headings, ("---", *["---:"] * len(COST_HEADINGS)), *costs])
    lines += ["", "## Relations", ""]
    lines += rows(
        [("", "relation", "evidence"), ("---",) * 3]
        + [
            (each.word if each.holds else f"**{each.word}**", each.name, each.evidence)
            for each in document.relations
        ]
    )
    lines += ["", "## Settings", ""]
    lines += [f"- {phase.name}: `{_settings(phase)}`" for phase in document.phases if phase.settings]
    return "\n".join([*lines, "", "## Again", "", *(f"    {line}" for line in document.again), ""])


def html(document: LabResult, ticks: Sequence[Tick]) -> str:
    """The report as one page with its charts."""

    word = document.verdict
    relations = [
        [_verdict(each.word), escape(each.name), escape(each.evidence)] for each in document.relations
    ]
    parts = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><title>{escape(document.lab)}: {escape(word)}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{PAGE_STYLE}\n{STYLE}</style>",
        f"<h1>{escape(document.lab)}: {_verdict(word)}</h1>",
        *(f"<p>{escape(fact)}</p>" for fact in _facts(document)),
        *_summary(document),
        *_bars(document),
        table(_HEADINGS, plain([_row(phase) for phase in document.phases])),
        "<h2>Relations</h2>",
        table(("", "relation", "evidence"), relations),
        *_charts(ticks),
    ]
    if timed := timed_rows(document):
        parts += ["<h2>Time taken</h2>", table(_TIMED, plain(timed))]
    if found := figure_rows(document):
        parts += ["<h2>Also found</h2>", table(_FOUND, plain(found))]
    if costs := cost_rows(document):
        parts += ["<h2>What a commit cost</h2>", f"<p>{escape(COST_NOTE)}.</p>"]
        parts.append(table(("phase", *COST_HEADINGS), plain(costs)))
    settings = [(phase.name, _settings(phase)) for phase in document.phases if phase.settings]
    parts += ["<h2>Settings</h2>", table(("phase", "knobs"), plain(settings))]
    parts += ["<h2>Again</h2>", "<pre>" + escape("\n".join(document.again)) + "</pre>", "</html>"]
    return "\n".join(part for part in parts if part) + "\n"


def table(headings: Sequence[str], cells: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table of cells that are markup already."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in headings)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    return f"<table{kind}><tr>{head}</tr>{body}</table>"


def plain(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cells of text as markup."""
    return [[escape(cell) for cell in row] for row in rows]


def _sentence(text: str) -> str:
    """With a capital at its beginning."""
    return text[:1].upper() + text[1:]


def _summary(document: LabResult) -> list[str]:
    """The table for the wall."""
    if document.summary is None:
        return []
    headings, rows = summary_table(document.summary)
    title = escape(_sentence(document.summary.title))
    return [f"<h2>{title}</h2>", table(headings, plain(rows), ' class="wall"')]


def _verdict(word: str) -> str:
    kind = {"holds": "holds", "shown": "dim", "open": "dim"}.get(word, "deviates")
    return f'<span class="{kind}">{escape(word)}</span>'


def _bars(document: LabResult) -> list[str]:
    """TPS and mean latency by phase, on logarithmic scales: what an acknowledgement costs is a factor."""
    tps = [
        (
            phase.name,
            [
                (
                    "published",
                    phase.published.value if phase.published and phase.published.unit == "tps" else None,
                ),
                ("predicted", phase.predicted_tps),
                ("measured", phase.tps),
            ],
        )
        for phase in document.phases
        if phase.tps is not None
    ]
    latency = [
        (phase.name, [("measured", phase.latency_ms.mean)]) for phase in document.phases if phase.latency_ms
    ]
    lines = [(each.name, each.tps) for each in document.references]
    return [
        bar_chart("Commits by phase", "per second, log", tps, lines, log=True),
        bar_chart("Mean latency by phase", "ms, log", [(name, bars) for name, bars in latency], log=True),
    ]


def _charts(ticks: Sequence[Tick]) -> list[str]:
    """TPS and latency over the whole run, with the phases' marks."""
    if not ticks:
        return []
    origin_s = ticks[0].at_s
    marked = [event for tick in ticks for event in tick.events if event.mark is not None]
    marks = [(event.at_s - origin_s, str(event.mark)) for event in marked]
    told = "".join(
        f"<br>{event.mark}: {escape(event.text)}, at {event.at_s - origin_s:.0f} s" for event in marked
    )

    def series(name: str, style: str, figure: str) -> Series:
        points = [(tick.at_s - origin_s, getattr(tick.load, figure) if tick.load else None) for tick in ticks]
        return Series(name, style, points)

    ceiling = [(tick.at_s - origin_s, tick.ceiling.tps if tick.ceiling else None) for tick in ticks]
    lines = [series("TPS", "tps", "tps"), Series("ceiling", "ceiling", ceiling)]
    tps = line_chart("TPS", "commits per second, log", lines, marks, log=True)
    latency = line_chart(
        "Latency", "ms, log",
        [series("p50", "p50", "p50_ms"), series("p95", "p95", "p95_ms"), series("p99", "p99", "p99_ms")],
        marks, log=True,
    )  # fmt: skip
    return ["<h2>As it ran</h2>", tps, latency, f'<p class="dim">marks{told}</p>' if told else ""]
