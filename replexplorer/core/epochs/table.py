"""The epoch ledger as Markdown, for a ticket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from replexplorer.core.epochs.epochs import BEFORE, LAG, TOO_NOISY, TOO_SHORT, Epoch, EpochSide
from replexplorer.core.server.comeback import outage_words
from replexplorer.core.server.exposure import FAILURES, Loss, Unknown
from replexplorer.core.stats.measured import Estimate
from replexplorer.core.stats.ratio import interval_text, range_text, ratio_text, times_text
from replexplorer.core.text import duration_text, elapsed, printable

HEADS: Final = (
    "#", "at", "change", "", "TPS", "p50 ms", "p95 ms", "p99 ms", "n", *FAILURES.values(), "lag s", "effect",
    "verdict",
)  # fmt: skip
"""Of the ledger's columns."""
NOTE: Final = (
    "Brackets: 95 % confidence intervals from batch means, the transition after each change left out. "
    "Verdict and effect (after divided by before, of TPS in the closed loop and of response p95 in the "
    "open loop) come from one test of the logarithms, "
    "which holds at every moment of an epoch at once. Where "
    "a side holds an outage its figures are of several states, and nothing is compared. The three columns "
    "after n: acknowledged commits that such a failure would have lost, the median of the "
    "epoch's looks, in parentheses from the least to the most; ?: not known. Lag: of the replica that fell "
    "back farthest, at the end of the epoch, in parentheses the most."
)
"""What the ledger's figures mean."""


def figure(value: float | None) -> str:
    """A number with about three significant digits and never an exponent: `0.25`, `11.4`, `15703`."""
    if value is None:
        return "-"
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def with_interval(estimate: Estimate) -> str:
    """`619 [611, 627]`; a side without a bound is `…`."""
    text = figure(estimate.value)
    if estimate.low is None and estimate.high is None:
        return text
    low = "…" if estimate.low is None else figure(estimate.low)
    return f"{text} [{low}, {'…' if estimate.high is None else figure(estimate.high)}]"


def loss_figure(loss: Loss | Unknown | None) -> str:
    """`455 (0 to 900)`, `0`, `?` where it is not known; `-` before any look."""
    if not isinstance(loss, Loss):
        return "-" if loss is None else f">={loss.low}" if loss.low else "?"
    return f"{loss.commits} ({loss.low} to {loss.high})" if loss.high else "0"


def effect_words(epoch: Epoch) -> str:
    """`x0.143 [0.140, 0.146]`, as far as it is known."""
    return " ".join(part for part in (ratio_of(epoch), interval_of(epoch)) if part)


def ratio_of(epoch: Epoch) -> str:
    """`x0.143`: what the tested figure is multiplied by; empty where nothing is compared."""
    return ratio_text(epoch.ratio, epoch.low_ratio, epoch.high_ratio)


def interval_of(epoch: Epoch, *, short: bool = False) -> str:
    """`[0.140, 0.146]`, or `0.140-0.146` where it must be short; empty while there is none."""
    text = range_text if short else interval_text
    return text(epoch.ratio, epoch.low_ratio, epoch.high_ratio)


def lack_words(epoch: Epoch) -> tuple[str, ...]:
    """`too noisy: 40 s more`, from long to short; empty where nothing is lacking."""
    word = epoch.verdict
    kind, short = word.removesuffix(BEFORE), word.removeprefix("too ")
    if kind not in (TOO_SHORT, TOO_NOISY):
        return ()
    if epoch.more_s is None:
        return (word,)
    more = duration_text(max(1.0, epoch.more_s))
    return f"{word}: {more} more", f"{short}: {more} more", *((word,) if kind != word else ()), kind


def lag_words(epoch: Epoch) -> str:
    """`lag 0.3 → 12.4 s growing`: at the end of each side; empty where nothing says it since."""
    before, after = (side.lag if side is not None else None for side in (epoch.before, epoch.after))
    if after is None:
        return ""
    return f"lag {f'{before.end:.1f} → ' if before else ''}{after.end:.1f} s{after.trending}"


def verdict_words(epoch: Epoch) -> str:
    """The word and by how much, or what stood in the way of one."""
    if epoch.verdict == LAG:
        return lag_words(epoch)
    if epoch.verdict != "outage":
        word = next(iter(lack_words(epoch)), epoch.verdict)
        if epoch.ratio is not None and word in ("faster", "slower"):
            word = times_text(epoch.ratio, word)
        own = outage_words(epoch.after.outage) if epoch.after is not None else ()
        return f"{word}: {own[0]}" if own else word
    sides = (epoch.after or EpochSide(), epoch.before or EpochSide())
    own, before = (outage_words(side.outage) for side in sides)
    return own[0] if own else f"not compared: before it {before[0]}" if before else "not compared"


def tested(epoch: Epoch) -> str:
    """The one figure that word and colour come from."""
    return "TPS" if epoch.mode == "closed" else "response p95"


def markdown(epochs: Iterable[Epoch], origin_s: float = 0.0) -> str:
    """A table with a row for each side of each epoch, oldest first, and what the numbers mean.

    Times count from `origin_s`.
    """
    lines = [_line(HEADS), _line(["---"] * len(HEADS))]
    lines += (_line(cell.replace("|", "\\|") for cell in row) for row in ledger_rows(epochs, origin_s))
    return "\n".join([*lines, "", NOTE, ""])


def ledger_rows(epochs: Iterable[Epoch], origin_s: float) -> Iterator[list[str]]:
    """The cells under `HEADS`, a row for each side of each epoch, oldest first, as in `markdown`."""
    for epoch in epochs:
        name = [str(epoch.number), elapsed(epoch.at_s - origin_s), printable(epoch.title)]
        if epoch.before is not None:
            yield [*name, "before", *_cells(epoch.before), "", ""]
            name = ["", "", ""]
        yield [*name, "after", *_cells(epoch.after or EpochSide()), effect_words(epoch), verdict_words(epoch)]


def _cells(side: EpochSide) -> list[str]:
    estimates = (side.tps, side.p50_ms, side.p95_ms, side.p99_ms)
    losses = (None,) * len(FAILURES) if side.exposure is None else side.exposure.losses
    figures = [with_interval(estimate) for estimate in estimates]
    lag = side.lag
    late = "-" if lag is None else f"{lag.end:.1f} ({lag.max:.1f}){lag.trending}"
    return [*figures, str(side.n), *map(loss_figure, losses), late]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
