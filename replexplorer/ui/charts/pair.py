"""What the charts of two stacks show: one figure of both on one axis, a colour each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

from replexplorer.core.history.pair import StackSide
from replexplorer.ui.charts.chart_model import ChartModel, ChartSeries, Points
from replexplorer.ui.charts.contents import in_page
from replexplorer.ui.words import figures

INKS: Final = ("p50", "p99")
"""Theme tokens of A's and of B's colour."""
_LETTERS: Final = ("A", "B")
_LOG_FROM: Final = 30.0
"""Values farther apart than this factor stand on a logarithmic axis."""


def pair_models(
    sides: Iterable[StackSide], *, page: tuple[float, float], origin_s: float
) -> tuple[ChartModel, ChartModel, ChartModel]:
    """TPS, latency p95 and exposure to the loss of the source, of both sides."""
    both = tuple(sides)

    def one(
        title: str, subtitle: str, short: str, name: str, written: Callable[[float], str], log: bool | None
    ) -> ChartModel:
        shown = [in_page(side.points(name), page) for side in both]
        return ChartModel(
            title=title,
            subtitle=subtitle,
            short_subtitle=short,
            start_s=page[0],
            end_s=page[1],
            origin_s=origin_s,
            series=tuple(
                ChartSeries(points, ink, _labels(points, letter, written), strong=True)
                for points, ink, letter in zip(shown, INKS, _LETTERS, strict=True)
            ),
            log=_spans(shown) if log is None else log,
            reach=(1.0, 100.0) if name == "source_lost" else None,
            empty="no commits yet" if name != "source_lost" else "not known yet",
        )

    return (
        one("TPS", "commits/s", "", "tps", figures.rate, None),
        one("Latency", "p95, ms, log", "p95 ms", "p95_ms", figures.millis, True),
        one(
            "Exposure", "lost with the source, log", "source lost", "source_lost",
            lambda value: figures.count(round(value)), True,
        ),
    )  # fmt: skip


def _labels(points: Points, letter: str, written: Callable[[float], str]) -> tuple[str, ...]:
    last = points[-1][1] if points else None
    return () if last is None else (f"{letter} {written(last)}",)


def _spans(shown: Iterable[Points]) -> bool:
    known = [value for _, value in chain.from_iterable(shown) if value]
    return bool(known) and max(known) > _LOG_FROM * min(known)
