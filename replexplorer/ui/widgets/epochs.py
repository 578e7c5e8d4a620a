"""What each change did: before, after, difference with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence

from textual.reactive import reactive

from replexplorer.core.tick import Epoch
from replexplorer.ui import figures
from replexplorer.ui.glyphs import Glyphs
from replexplorer.ui.widgets.lines import Line, Lines, Run, cut, rule, width_of

WIDE_FROM = 100
"""Columns from which the table shows the time of each change and the interval itself."""


class Epochs(Lines):
    """The table, newest change first."""

    DEFAULT_CSS = "Epochs { height: 6; }"

    epochs: reactive[tuple[Epoch, ...]] = reactive(())
    """Newest last, as in the tick."""
    origin_s: reactive[float] = reactive(0.0)
    """When elapsed time began."""

    def watch_epochs(self) -> None:
        """Draw the table."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Rule, column heads, one row an epoch."""
        about = "each change against the one before"
        about += ", settling left out" if width >= WIDE_FROM else ""
        title: Line = [("Epochs ", "title b"), (about, "muted")]
        rows: list[Line] = [rule(title, [], width), heads(width - 1)]
        newest = tuple(reversed(self.epochs))
        rows += [row(epoch, width - 1, self.glyphs, self.origin_s) for epoch in newest[: max(0, height - 2)]]
        return rows


class EpochStrip(Lines):
    """The last three epochs, one short row each, for a small screen."""

    DEFAULT_CSS = "EpochStrip { height: 3; }"

    epochs: reactive[tuple[Epoch, ...]] = reactive(())
    """Newest last, as in the tick."""

    def watch_epochs(self) -> None:
        """Draw the rows."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Number, change, before and after, difference, percentiles."""
        rows: list[Line] = []
        for epoch in tuple(reversed(self.epochs))[:height]:
            left: list[Run] = [
                (f" {self.glyphs.number(epoch.number)} ", "mark"),
                *cut([(epoch.title, "text")], 26),
            ]
            row = _to(left, 30)
            row += _right(_before_after(epoch), 13)
            row += _right(difference(epoch, unit=" %"), 12)
            row += _right(_interval(epoch, wide=False), 8)
            tail = f"p50 {figures.millis(epoch.p50_ms)}  p99 {figures.millis(epoch.p99_ms)}"
            rows.append([*row, *_right([(tail, "muted")], max(0, width - width_of(row) - 1))])
        return rows


def heads(width: int) -> Line:
    """The row of column heads."""
    wide = width >= WIDE_FROM
    tail = _tail_widths(wide)
    left: list[Run] = [("      at     change" if wide else "    change", "faint")]
    middle = width - sum(tail)
    before = _right([("TPS before → after", "faint")], max(0, middle - width_of(left)))
    words = ("Δ %", "95% CI" if wide else "±95%", "p50", "p95", "p99", "n")
    tokens = ("faint", "faint", "p50", "p95", "p99", "faint")
    cells = [_right([(word, token)], size) for word, token, size in zip(words, tokens, tail, strict=True)]
    return [*left, *before, *(run for cell in cells for run in cell)]


def row(epoch: Epoch, width: int, glyphs: Glyphs, origin_s: float) -> Line:
    """One epoch."""
    wide = width >= WIDE_FROM
    tail = _tail_widths(wide)
    middle = width - sum(tail)
    left: list[Run] = [(f" {glyphs.number(epoch.number)}  ", "mark")]
    if wide:
        left.append((f" {figures.elapsed(epoch.at_s - origin_s)[3:]}  ", "faint"))
    change = _before_after(epoch)
    room = middle - width_of(left) - width_of(change) - 1
    left = [*left, *cut([(epoch.title, "text")], max(0, room))]
    found = [
        _right(difference(epoch), tail[0]),
        _right(_interval(epoch, wide=wide), tail[1]),
        *(
            _right([(figures.millis(value) if epoch.n else "", "text")], size)
            for value, size in zip((epoch.p50_ms, epoch.p95_ms, epoch.p99_ms), tail[2:5], strict=True)
        ),
        _right([(figures.count(epoch.n) if epoch.n else "", "muted")], tail[5]),
    ]
    cells = [run for cell in found for run in cell]
    return [*left, *_right(change, max(0, middle - width_of(left))), *cells]


def difference(epoch: Epoch, unit: str = "") -> list[Run]:
    """`▴ +201.2`; coloured only when the confidence interval excludes zero, `≈` when it does not."""
    if epoch.delta_percent is None or (epoch.ci_percent is None and epoch.verdict == "measuring"):
        return []
    if epoch.ci_percent is None:
        return [(f"{epoch.delta_percent:+.1f}{unit}", "muted")]
    if epoch.verdict == "no difference shown" or abs(epoch.delta_percent) <= epoch.ci_percent:
        return [(f"≈ {epoch.delta_percent:+.1f}{unit}", "muted")]
    up = epoch.delta_percent > 0
    return [(f"{'▴' if up else '▾'} {epoch.delta_percent:+.1f}{unit}", "good b" if up else "bad b")]


def _tail_widths(wide: bool) -> Sequence[int]:
    """Widths of difference, interval, p50, p95, p99 and n."""
    return (11, 18, 7, 7, 7, 10) if wide else (10, 7, 5, 5, 5, 7)


def _before_after(epoch: Epoch) -> list[Run]:
    if epoch.verdict == "measuring" and epoch.ci_percent is None and epoch.number > 0:
        return [("measuring…", "muted")]
    after: Run = (figures.rate(epoch.after_tps), "tps b")
    return [after] if epoch.before_tps is None else [(f"{figures.rate(epoch.before_tps)} → ", "muted"), after]


def _interval(epoch: Epoch, *, wide: bool) -> list[Run]:
    if epoch.ci_percent is None or epoch.delta_percent is None:
        return []
    if not wide:
        return [(f"±{epoch.ci_percent:.1f}", "muted")]
    low, high = epoch.delta_percent - epoch.ci_percent, epoch.delta_percent + epoch.ci_percent
    return [(f"[{low:+.1f}, {high:+.1f}]", "muted")]


def _right(line: Line, width: int) -> list[Run]:
    """The runs at the right edge of so many cells."""
    return [(" " * max(0, width - width_of(line)), "text"), *line]


def _to(line: Line, column: int) -> list[Run]:
    return [*line, (" " * max(0, column - width_of(line)), "text")]
