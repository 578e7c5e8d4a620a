"""What each change did: before, after, difference with its confidence interval; and the newest events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from replexplorer.core.epochs.epochs import LAG, Epoch, EpochSide
from replexplorer.core.epochs.table import (
    interval_of,
    lack_words,
    lag_words,
    ratio_of,
    tested,
    verdict_words,
    with_interval,
)
from replexplorer.core.event import Event
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.server.comeback import Outage, outage_words
from replexplorer.ui.picture import Picture
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import (
    Line,
    Run,
    cut,
    fit_text,
    hung,
    right,
    rule,
    spread,
    width_of,
)
from replexplorer.ui.words.states import SEVERITIES, exposure_line

_LEAST_TITLE: Final = 12
"""Cells that a change's title keeps next to an outage's words."""
WIDE_FROM: Final = 100
"""Columns from which the table shows the time of each change and the interval itself."""
_HEADS: Final = ("effect", "95% CI", "p50", "p95", "p99", "n")
_NARROW: Final = (10, 14, 5, 5, 5, 7)
_WIDE: Final = (11, 18, 7, 7, 7, 10)
_STRIP: Final = (10, 13, 9, 0, 9, 0)
"""Cells of each column, 0 for one that is not shown; in a strip, which has no heads, a percentile's cell
has its name."""


class EpochTable(Lines[tuple[Sequence[Epoch], float, int | None]]):
    """The table, newest change first: of the epochs, of when elapsed time began, and of the session's commits
    that went unprotected."""

    DEFAULT_CSS = "EpochTable { height: 6; }"

    def draw(self, shown: tuple[Sequence[Epoch], float, int | None], width: int, height: int) -> list[Line]:
        """Rule, column heads, one row an epoch."""
        epochs, origin_s, unprotected = shown
        about = "each change against the one before"
        about += ", settling left out" if width >= WIDE_FROM else ""
        title: Line = [("Epochs ", "title b"), (about, "muted")]
        rows = [row(epoch, width - 1, self.glyphs, origin_s) for epoch in reversed(epochs[-height:])]
        return [rule(title, unprotected_total(unprotected), width), heads(width - 1), *rows]


class EpochStrip(Lines[Sequence[Epoch]]):
    """The last three epochs, one short row each, for a small screen."""

    DEFAULT_CSS = "EpochStrip { height: 3; }"

    def draw(self, shown: Sequence[Epoch], width: int, height: int) -> list[Line]:
        """Number, change, before and after, difference, percentiles with their names."""
        return [row(epoch, width - 1, self.glyphs, 0.0, in_strip=True) for epoch in reversed(shown[-height:])]


def number_cells(number: int, glyphs: Glyphs) -> str:
    """A mark's number in four cells, the last one blank, so that no number moves what follows."""
    text = glyphs.number(number)
    if len(text) > 3:
        text = f"…{text[-2:]}"
    return f"{text:<4}" if len(text) > 2 else f" {text:<3}"


def unprotected_total(count: int | None) -> Line:
    """`18,678 commits unprotected so far`, of the session; empty for none."""
    return [(f"{count:,} commit{'' if count == 1 else 's'} unprotected so far", "warn")] if count else []


def heads(width: int) -> Line:
    """The row of column heads."""
    is_wide = width >= WIDE_FROM
    left: Line = [("         at change" if is_wide else "    change", "faint")]
    cells = [
        run
        for word, size in zip(_HEADS, _WIDE if is_wide else _NARROW, strict=True)
        for run in right([(word, word if word.startswith("p") else "faint")], size)
    ]
    room = width - width_of(left) - width_of(cells)
    return [
        *left,
        *right([(fit_text(("TPS before → after", "TPS → after"), room - 1), "faint")], room),
        *cells,
    ]


def row(epoch: Epoch, width: int, glyphs: Glyphs, origin_s: float, *, in_strip: bool = False) -> Line:
    """One epoch: its change, TPS before and after, the effect and the figures since; or the words of an
    outage."""
    is_wide = width >= WIDE_FROM and not in_strip
    sizes = _STRIP if in_strip else _WIDE if is_wide else _NARROW
    left: list[Run] = [(number_cells(epoch.number, glyphs), "mark")]
    if is_wide:
        left.append((f"{figures.moment(epoch.at_s - origin_s):>7} ", "faint"))
    room, title = width - width_of(left), [(epoch.title, "text")]
    if words := outage_words(epoch.after.outage if epoch.after is not None else Outage()):
        most = room - _LEAST_TITLE
        return [*left, *spread(title, cut([(fit_text(words, most), "warn")], most), room)]
    cells = _effect(epoch, sizes[0], sizes[1], is_wide=is_wide)
    percentiles = zip(_HEADS[2:5], (epoch.p50_ms, epoch.p95_ms, epoch.p99_ms), sizes[2:5], strict=True)
    for name, value, size in percentiles:
        text = _millis(value, 5 if in_strip else size) if epoch.n else ""
        if in_strip and text:
            text = f"{name} {text}"
        cells += right([(text, "muted" if in_strip else "text")] if size else [], size)
    cells += right([(figures.count(epoch.n) if epoch.n and sizes[5] else "", "muted")], sizes[5])
    return [*left, *spread(title, _before_after(epoch), max(0, room - width_of(cells))), *cells]


def rows_of(epoch: Epoch, width: int, glyphs: Glyphs, origin_s: float) -> list[Line]:
    """One epoch with all that is known of it; a title that its row cuts is in full below."""
    first = row(epoch, width, glyphs, origin_s)
    is_cut = epoch.title not in "".join(text for text, _ in first)
    named = hung([("      ", "text")], epoch.title, width, "title") if is_cut else []
    return [first, *named, *details(epoch, width)]


def details(epoch: Epoch, width: int) -> list[Line]:
    """The word and what it comes from, then both sides with the intervals of all figures."""
    indent: Run = ("      ", "text")
    rows = hung([indent], verdict_words(epoch), width, f"{_token(epoch)} b")
    if interval_of(epoch):
        rows[-1] = cut([*rows[-1], (f" · by {tested(epoch)}, 95 % sure at any time", "muted")], width)
    for name, side in (("before", epoch.before), ("after", epoch.after)):
        if side is not None:
            rows += _side(name, side, width)
    return rows


def difference(epoch: Epoch) -> list[Run]:
    """`▴ x3.01`; coloured only when the one test shows a difference, `≈` when it shows none."""
    if epoch.ratio is None or epoch.verdict == "measuring":
        return []
    text = ratio_of(epoch)
    if epoch.verdict in ("faster", "slower"):
        return [(f"{'▴' if epoch.ratio > 1 else '▾'} {text}", f"{_token(epoch)} b")]
    return [(f"≈ {text}" if epoch.verdict == "no difference shown" else text, "muted")]


def _token(epoch: Epoch) -> str:
    return {"faster": "good", "slower": "bad"}.get(epoch.verdict, "muted")


def _side(name: str, side: EpochSide, width: int) -> list[Line]:
    """`before  TPS 619 [611, 627]  p50 25.2 [25.1, 25.3]  ...  n 28.5k`, in two rows where one is
    too short, and what a failure would have lost."""
    head: Line = [(f"      {name:<8}", "faint")]
    indent: Line = [(" " * width_of(head), "text")]
    tps, p50, p95, p99 = (
        [(f"{label} ", "faint"), (f"{with_interval(estimate)}  ", "text")]
        for label, estimate in (
            ("TPS", side.tps), ("p50", side.p50_ms), ("p95", side.p95_ms), ("p99", side.p99_ms)
        )
    )  # fmt: skip
    count: Line = [("n ", "faint"), (figures.count(side.n), "muted")]
    rows: list[Line] = [[*head, *tps, *p50, *p95, *p99, *count]]
    if width_of(rows[0]) > width:
        rows = [[*head, *tps, *p50, *count], [*indent, *p95, *p99]]
    if side.lag is not None and side.lag.max >= 1:
        rows.append([*indent, ("lag ", "faint"), (side.lag.words, "text")])
    if side.exposure is not None:
        rows.append([*indent, *exposure_line(side.exposure, width - width_of(indent), "at risk ")])
    return [cut(each, width) for each in rows]


def _before_after(epoch: Epoch) -> list[Run]:
    if epoch.verdict == "measuring" and epoch.number > 0:
        return [("measuring…", "muted")]
    if epoch.mode == OPEN and epoch.before and epoch.after:
        old, new = epoch.before.p95_ms.value, epoch.after.p95_ms.value
        return [(f"p95 {figures.millis(old)} → ", "muted"), (f"{figures.millis(new)} ms", "p95 b")]
    after: Run = (figures.rate(epoch.after_tps), "tps b")
    return [after] if epoch.before_tps is None else [(f"{figures.rate(epoch.before_tps)} → ", "muted"), after]


def _effect(epoch: Epoch, cells: int, more: int, *, is_wide: bool) -> list[Run]:
    """The difference and its interval in a column each; words of what is lacking take from the first."""
    effect = difference(epoch)
    interval = "" if epoch.verdict == "measuring" else interval_of(epoch, short=not is_wide)
    if epoch.number and (words := lack_words(epoch)):
        interval = fit_text(words, cells + more - 2 - width_of(effect))
    elif epoch.verdict == LAG:
        interval = lag_words(epoch)
    elif epoch.verdict == "outage":
        interval = "outage before" if is_wide else "outage"
    taken = max(more, len(interval) + 1)
    return [*right(effect, cells + more - taken), *right([(interval, "muted")], taken)]


def _millis(value: float | None, cells: int) -> str:
    """Milliseconds with a blank before them; where they are too long in thousands: `12k`."""
    text = figures.millis(value)
    return text if value is None or len(text) < cells else f"{value / 1000:.0f}k"


CLOCKS: Final = "elapsed as on the charts, then local time"
"""What the two times of a row are."""


class EventLogPane(Lines[Picture]):
    """A titled list, newest first; one row without a title on a small screen."""

    DEFAULT_CSS = "EventLogPane { height: 4; }"

    def draw(self, shown: Picture, width: int, height: int) -> list[Line]:
        """The rows."""
        title: Line = [("Events ", "title b"), (CLOCKS, "muted")]
        rows: list[Line] = [rule(title, [], width)] if height > 1 else []
        for event in islice(reversed(shown.log), height - len(rows)):
            rows.append([*_head(event, self.glyphs, shown.origin_s), _text(event)])
        return rows


def event_rows(event: Event, glyphs: Glyphs, width: int, origin_s: float) -> list[Line]:
    """Elapsed and local time, mark or symbol, and the whole text in as many rows as it takes."""
    text, words = _text(event)
    return hung(_head(event, glyphs, origin_s), text, width, words)


def _head(event: Event, glyphs: Glyphs, origin_s: float) -> Line:
    symbol, token = SEVERITIES[event.severity]
    if event.mark is not None:
        symbol, token = glyphs.number(event.mark), "mark"
    return [
        (f"{figures.moment(event.at_s - origin_s):>7} ", "text"),
        (f"{figures.local_time(event.wall_s)} ", "faint"),
        (f"{symbol:>3} ", token),
    ]


def _text(event: Event) -> Run:
    stands_out = event.severity in ("warn", "bad") or event.mark is not None
    return (event.text, "text" if stands_out else "muted")
