"""Two stacks, or two recordings, beside each other: as JSON and as text."""

from __future__ import annotations

from replexplorer.core.epochs.epoch import EpochSide
from replexplorer.core.epochs.table import loss_figure, with_interval
from replexplorer.core.history.pair import ComparedStretch, PairComparison, StackSide, differences, footing
from replexplorer.core.knobs.knob import Knob
from replexplorer.core.knobs.names import Value, format_value
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.server.state_words import word_of
from replexplorer.core.stats.measured import Estimate
from replexplorer.core.text import table
from replexplorer.formats.json.compare import (
    CompareDocument,
    ComparedSideJson,
    DifferenceJson,
    FigureJson,
    StretchJson,
)
from replexplorer.reports.documents import exposure_document

_LACKED = "(none)"
"""How the value of a knob is written that a side does not have."""


def compare_document(
    a: StackSide,
    b: StackSide,
    found: PairComparison,
    *,
    at_once: bool,
    turns: int = 0,
    cores: int | None = None,
    percent: float | None = None,
) -> CompareDocument:
    """The whole comparison; `percent` is the CPU of all cores of A's machine meanwhile."""
    knobs = [{} if side.tick is None else side.tick.knobs for side in (a, b)]
    return CompareDocument(
        a=_side(a, found.a),
        b=_side(b, found.b),
        tested="tps" if found.epoch.mode == CLOSED else "response_p95_ms",
        ratio=FigureJson(value=found.ratio, low=found.bounds[0], high=found.bounds[1]),
        verdict=found.verdict,
        at_once=at_once,
        turns=turns,
        cores=cores,
        machine_percent=None if percent is None else round(percent, 1),
        footing=footing(at_once=at_once, turns=turns, cores=cores, percent=percent),
        differences=[
            DifferenceJson(knob=str(one.name), a=one.a, b=one.b) for one in differences(knobs[0], knobs[1])
        ],
    )


def compare_text(a: StackSide, b: StackSide, found: PairComparison, document: CompareDocument) -> str:
    """The same as a table of two columns and what follows from it."""
    knobs = [{} if side.tick is None else side.tick.knobs for side in (a, b)]
    rows: list[tuple[str, ...]] = [("server", document.a.server, document.b.server)]
    stretches = document.a.stretch, document.b.stretch
    if any(stretches):
        rows.append(("stretch taken", *map(_span, stretches)))
    for word, name in (("TPS", "tps"), ("p50 ms", "p50_ms"), ("p95 ms", "p95_ms"), ("p99 ms", "p99_ms")):
        rows.append((word, *(with_interval(getattr(side, name)) for side in (found.a, found.b))))
    rows.append(("commits", *(f"{side.n:,} in {side.length_s:.1f} s" for side in (found.a, found.b))))
    for word, name in (
        ("mysqld dies", "process_dies"), ("power cut", "power_cut"), ("source lost", "source_lost"),
    ):  # fmt: skip
        losses = [
            None if side.exposure is None else getattr(side.exposure, name) for side in (found.a, found.b)
        ]
        rows.append((f"lost if {word}", *map(loss_figure, losses)))
    rows.append(("protection", *(word_of(side.protection or "-") for side in (document.a, document.b))))
    for one in differences(knobs[0], knobs[1]):
        rows.append((str(one.name), *(_value(one.name.knob, value) for value in (one.a, one.b))))
    tested = "TPS" if document.tested == "tps" else "response p95"
    return "\n".join(
        [
            table(rows, ("", f"A: {a.name}", f"B: {b.name}")),
            "",
            f"B against A, {tested}: {found.words()}",
            f"Footing: {document.footing}.",
            *(
                f"{letter}'s stretch is {one.why}."
                for letter, one in zip("AB", stretches, strict=True)
                if one is not None
            ),
            "Brackets: 95 % confidence intervals.",
        ]
    )


def _span(stretch: StretchJson | None) -> str:
    return "none" if stretch is None else f"{stretch.from_s:.1f} to {stretch.to_s:.1f} s"


def _side(side: StackSide, figures: EpochSide) -> ComparedSideJson:
    return ComparedSideJson(
        name=side.name,
        server=side.server,
        stretch=_stretch(side.stretch_taken),
        tps=_figure(figures.tps),
        p50_ms=_figure(figures.p50_ms),
        p95_ms=_figure(figures.p95_ms),
        p99_ms=_figure(figures.p99_ms),
        commits=figures.n,
        measured_s=round(figures.length_s, 2),
        protection=None if side.tick is None else side.tick.protection.state.value,
        exposure=None if figures.exposure is None else exposure_document(figures.exposure),
    )


def _stretch(found: ComparedStretch | None) -> StretchJson | None:
    if found is None or found.to_s < found.from_s:
        return None
    from_s, to_s = (round(at_s - found.zero_s, 1) for at_s in (found.from_s, found.to_s))
    return StretchJson(from_s=from_s, to_s=to_s, why=found.why)


def _figure(estimate: Estimate) -> FigureJson:
    return FigureJson(value=estimate.value, low=estimate.low, high=estimate.high)


def _value(knob: Knob, value: Value | None) -> str:
    return _LACKED if value is None else format_value(knob, value)
