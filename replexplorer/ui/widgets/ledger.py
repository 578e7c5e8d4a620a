"""What each change did: before, after, difference with its confidence interval; and the newest events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from replexplorer.core.epochs.epochs import Epoch, EpochSide
from replexplorer.core.epochs.table import (
    interval_of,
    lack_words,
    ratio_of,
    shows_effect,
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
    fit,
    fit_text,
    hung,
    listed,
    right,
    rule,
    spread,
    width_of,
)
from replexplorer.ui.words.states import SEVERITIES, exposure_words, in_short

_LEAST_TITLE: Final = 12
"""Cells that a change's title keeps beside the words of an outage."""
WIDE_FROM: Final = 100
"""Columns from which the table shows the time of each change and the interval itself."""


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
        return [row(epoch, width - 1, self.glyphs, 0.0, sizes=_STRIP) for epoch in reversed(shown[-height:])]


def number_cells(number: int, glyphs: Glyphs) -> str:
    """A mark's number in four cells, the last one blank, so that no number moves what follows."""
    text = glyphs.number(number)
    if len(text) > 3:
        text = f"…{text[-2:]}"
    return f"{text:<4}" if len(text) > 2 else f" {text:<3}"


def unprotected_total(count: int | None) -> Line:
    """`18,678 commits unprotected so far`, of the session; empty for none."""
    return [(f"{count:,} commit{'' if count == 1 else 's'} unprotected so far", "warn")] if count else []


_COLUMNS: Final = ("effect", "95% CI", "p50", "p95", "p99", "n", "dies/power/lost")
_SIZES: Final = (
    (140, (11, 18, 7, 7, 7, 10, 18)),
    (110, (11, 18, 7, 0, 7, 0, 18)),
    (100, (11, 18, 7, 7, 7, 10, 0)),
    (0, (10, 14, 5, 5, 5, 7, 0)),
)
"""From a number of columns on, the cells of each; 0 for one that is not shown. The last one is what a failure
would have lost, where there is room for it."""
_STRIP: Final = (10, 13, 9, 0, 9, 0, 0)
"""In a strip, which has no heads, a percentile's cell has its name."""


def _sizes(width: int) -> Sequence[int]:
    return next(sizes for least, sizes in _SIZES if width >= least)


def heads(width: int) -> Line:
    """The row of column heads."""
    is_wide = width >= WIDE_FROM
    sizes = _sizes(width)
    left: Line = [("         at change" if is_wide else "    change", "faint")]
    room = width - sum(sizes) - width_of(left)
    told = fit_text(("TPS before → after", "TPS → after", "TPS"), room - 1)
    cells = [
        run
        for word, size in zip(_COLUMNS, sizes, strict=True)
        if size
        for run in right([(word, word if word.startswith("p") else "faint")], size)
    ]
    return [*left, *right([(told, "faint")], room), *cells]


def row(
    epoch: Epoch,
    width: int,
    glyphs: Glyphs,
    origin_s: float,
    *,
    sizes: Sequence[int] = (),
    with_details: bool = False,
) -> Line:
    """One epoch; `with_details`: the words of an outage, which stand below in full, give way to the title."""
    is_wide = width >= WIDE_FROM and not sizes
    sizes = sizes or _sizes(width)
    left: list[Run] = [(number_cells(epoch.number, glyphs), "mark")]
    if is_wide:
        left.append((f"{figures.moment(epoch.at_s - origin_s):>7} ", "faint"))
    room = width - width_of(left)
    if words := outage_words(epoch.after.outage if epoch.after is not None else Outage()):
        title_cells = max(_LEAST_TITLE, min(len(epoch.title) + 2, width // 2) if with_details else 0)
        told = cut([(fit_text(words, room - title_cells), "warn")], room - title_cells)
        title: Run = (listed(epoch.title, room - width_of(told) - 2), "text")
        return [*left, *spread([title], told, room)]
    room -= sum(sizes)
    change = _before_after(epoch)
    title = (listed(epoch.title, max(0, room - width_of(change) - 1)), "text")
    cells = _effect(epoch, sizes[0], sizes[1], is_wide=is_wide)
    for name, size in zip(_COLUMNS[2:5], sizes[2:5], strict=True):
        text = _millis(getattr(epoch, f"{name}_ms"), 5 if sizes is _STRIP else size) if epoch.n else ""
        if sizes is _STRIP and text:
            text = f"{name} {text}"
        cells += right([(text, "muted" if sizes is _STRIP else "text")] if size else [], size)
    count = figures.count(epoch.n) if epoch.n and sizes[5] else ""
    cells += right([(count, "muted")], sizes[5])
    cells += right(_at_risk(epoch, sizes[6]), sizes[6])
    return [*left, *spread([title], change, max(0, room)), *cells]


def _at_risk(epoch: Epoch, cells: int) -> Line:
    """`0/0/8 → 0/312/8`: what each failure would have lost before and after, where that was seen; after
    alone where both are too long."""
    before, after = (in_short(side.exposure if side else None) for side in (epoch.before, epoch.after))
    if not cells or not (before or after):
        return []
    now: Line = [(after or figures.UNKNOWN, "text b")]
    return fit([[(f"{before} → " if before else "", "muted"), *now], cut(now, cells - 1)], cells - 1)


def rows_of(epoch: Epoch, width: int, glyphs: Glyphs, origin_s: float) -> list[Line]:
    """One epoch with all that is known of it; a title that its row cuts stands in full below."""
    first = row(epoch, width, glyphs, origin_s, with_details=True)
    is_cut = epoch.title not in "".join(text for text, _ in first)
    named = hung([("      ", "text")], epoch.title, width, "title") if is_cut else []
    return [first, *named, *details(epoch, width)]


def details(epoch: Epoch, width: int) -> list[Line]:
    """The word and what it comes from, then both sides with the intervals of all figures."""
    indent: Run = ("      ", "text")
    rows = hung([indent], verdict_words(epoch), width, f"{_token(epoch)} b")
    more: list[Run] = []
    if interval_of(epoch):
        more.append((f" · by {tested(epoch)}, 95 % sure at any time", "muted"))
    if shows_effect(epoch):
        more.append((f" · d {epoch.effect:+.1f}", "muted"))
    rows[-1] = cut([*rows[-1], *more], width)
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
    too short."""
    head: Line = [(f"      {name:<8}", "faint")]
    cells: list[Line] = [
        [(f"{label} ", "faint"), (f"{with_interval(estimate)}  ", "text")]
        for label, estimate in (
            ("TPS", side.tps), ("p50", side.p50_ms), ("p95", side.p95_ms), ("p99", side.p99_ms)
        )
    ]  # fmt: skip
    cells.append([("n ", "faint"), (figures.count(side.n), "muted")])
    lost: list[Line] = []
    if side.exposure is not None:
        blank: Run = (" " * width_of(head), "text")
        lost.append([blank, *exposure_words(side.exposure, width - width_of(head))])
    first, second = [*head, *(run for cell in cells for run in cell)], []
    if width_of(first) > width:
        first = [*head, *cells[0], *cells[1], *cells[4]]
        second = [[(" " * width_of(head), "text"), *cells[2], *cells[3]]]
    return [cut(each, width) for each in (first, *second)] + lost


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
    told = difference(epoch)
    interval = "" if epoch.verdict == "measuring" else interval_of(epoch, short=not is_wide)
    if epoch.number and (words := lack_words(epoch)):
        interval = fit_text(words, cells + more - 2 - width_of(told))
    elif epoch.verdict == "outage":
        interval = "outage before" if is_wide else "outage"
    taken = max(more, len(interval) + 1)
    return [*right(told, cells + more - taken), *right([(interval, "muted")], taken)]


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
        """The rows; of a change of several knobs as many as fit whole."""
        title: Line = [("Events ", "title b"), (CLOCKS, "muted")]
        rows: list[Line] = [rule(title, [], width)] if height > 1 else []
        for event in islice(reversed(shown.log), height - len(rows)):
            head, (text, words) = _head(event, self.glyphs, shown.origin_s), _text(event)
            if event.mark is not None:
                text = listed(text, width - width_of(head))
            rows.append([*head, (text, words)])
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
