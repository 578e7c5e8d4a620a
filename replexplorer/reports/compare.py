"""Two stacks, or two recordings, next to each other: as JSON and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from replexplorer.core.epochs.epochs import Epoch, EpochSide
from replexplorer.core.epochs.table import effect_words, loss_figure, verdict_words, with_interval
from replexplorer.core.history.comparison import ComparedRun, KnobDifference, changes, compared, differences
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs.names import format_value
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.server.protection import word_of
from replexplorer.core.stats.measured import Estimate
from replexplorer.core.text import table


@dataclass(kw_only=True, slots=True)
class ComparedFigures:
    """One of the two; figures have 95 % intervals of their own."""

    name: str
    """The stack, or the recording's file name without its ending."""
    server: str
    stretch: tuple[float, float] | None
    """What of a recording is compared, in seconds since its first tick, as in `export`; null for a stack, and
    where a recording has none."""
    figures: EpochSide
    protection: str | None


@json_keys(hide="epoch", show="ratio verdict")
@dataclass(slots=True)
class ChangeEffect:
    """What a change did to one of the two."""

    epoch: Epoch

    @property
    def ratio(self) -> Estimate:
        """After divided by before, of TPS, or of response p95 in the open loop."""
        return Estimate(self.epoch.ratio, self.epoch.low_ratio, self.epoch.high_ratio)

    @property
    def verdict(self) -> str:
        """Faster, slower, no difference shown, or why nothing is said."""
        return self.epoch.verdict

    @property
    def words(self) -> str:
        """The ratio with its interval, else the verdict."""
        return effect_words(self.epoch) or self.epoch.verdict


@dataclass(kw_only=True, slots=True)
class RecordedChange:
    """A change that was recorded."""

    title: str
    a: ChangeEffect | None
    """Null where it was not made."""
    b: ChangeEffect | None


@dataclass(kw_only=True, slots=True)
class CompareDocument:
    """`compare A B --json`."""

    a: ComparedFigures
    b: ComparedFigures
    tested: Literal["tps", "response_p95_ms"]
    """TPS in the closed loop, else response p95."""
    ratio: Estimate
    """B's divided by A's, with its 95 % interval; null: not compared."""
    verdict: str
    """Faster, slower (of B), no difference shown, or why nothing is said."""
    turns: int
    """How often each had the machine for itself; 0: recordings."""
    footing: str
    """What the ratio rests on, in words."""
    differences: tuple[KnobDifference, ...]
    changes: list[RecordedChange]
    """Of recordings, what each change did to either."""


_FIGURES: Final = (("TPS", "tps"), ("p50 ms", "p50_ms"), ("p95 ms", "p95_ms"), ("p99 ms", "p99_ms"))
_LOSSES: Final = (("mysqld dies", "process_dies"), ("power cut", "power_cut"), ("source lost", "source_lost"))


def compare_report(
    a: ComparedRun,
    b: ComparedRun,
    *,
    turns: int = 0,
    epochs: tuple[Sequence[Epoch], Sequence[Epoch]] = ((), ()),
) -> tuple[CompareDocument, str]:
    """The comparison as a document and as text; without `turns` it is of recordings with these `epochs`."""
    found = compared(a, b)
    whole = ChangeEffect(found)
    footing = (
        f"in turns, {'once' if turns == 1 else f'{turns} times'} each: while one ran the other rested"
        if turns
        else "two recordings: each ran by itself, and nothing says whether their machines were alike"
    )
    document = CompareDocument(
        a=_side(a, found.before, recorded=not turns),
        b=_side(b, found.after, recorded=not turns),
        tested="tps" if found.mode == CLOSED else "response_p95_ms",
        ratio=whole.ratio,
        verdict=whole.verdict,
        turns=turns,
        footing=footing,
        differences=differences(a, b),
        changes=[
            RecordedChange(title=title, a=_effect(of_a), b=_effect(of_b))
            for title, of_a, of_b in changes(*epochs)
        ],
    )
    tested = "TPS" if document.tested == "tps" else "response p95"
    word = f"B is {verdict_words(found)}" if found.verdict in ("faster", "slower") else verdict_words(found)
    lines = [
        table(_rows(document), ("", f"A: {a.name}", f"B: {b.name}")),
        "",
        f"B against A, {tested}: {': '.join(filter(None, (effect_words(found), word)))}",
        f"Basis: {footing}.",
        "Brackets: 95 % confidence intervals.",
    ]
    return document, "\n".join(lines)


def _effect(epoch: Epoch | None) -> ChangeEffect | None:
    return None if epoch is None else ChangeEffect(epoch)


def _side(run: ComparedRun, figures: EpochSide | None, *, recorded: bool) -> ComparedFigures:
    tick, stretch = run.tick, None
    if tick is not None and recorded:
        stretch = round(run.from_s - run.zero_s, 1), round(tick.at_s - run.zero_s, 1)
    return ComparedFigures(
        name=run.name,
        server=run.server,
        stretch=stretch,
        figures=figures or EpochSide(),
        protection=None if tick is None else tick.protection.state.value,
    )


def _rows(document: CompareDocument) -> list[tuple[str, ...]]:
    """A figure, a knob or a change a row."""
    both = document.a, document.b
    sides = [side.figures for side in both]
    rows: list[tuple[str, ...]] = [("server", *(side.server for side in both))]
    if not document.turns:
        rows.append(("stretch", *(_span(side.stretch) for side in both)))
    rows += [(word, *(with_interval(getattr(side, name)) for side in sides)) for word, name in _FIGURES]
    rows.append(("commits", *(f"{side.n:,} in {side.length_s:.1f} s" for side in sides)))
    for word, name in _LOSSES:
        losses = [None if side.exposure is None else getattr(side.exposure, name) for side in sides]
        rows.append((f"lost if {word}", *map(loss_figure, losses)))
    rows.append(("protection", *(word_of(side.protection or "-") for side in both)))
    for one in document.differences:
        values = (
            "(none)" if value is None else format_value(one.name.knob, value) for value in (one.a, one.b)
        )
        rows.append((str(one.name), *values))
    for change in document.changes:
        effects = ("not changed" if each is None else each.words for each in (change.a, change.b))
        rows.append((change.title, *effects))
    return rows


def _span(stretch: tuple[float, float] | None) -> str:
    return "none" if stretch is None else f"{stretch[0]:.1f} to {stretch[1]:.1f} s"
