"""What each change did: before, after, difference with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence

from textual.reactive import reactive

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
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.server.comeback import Outage, outage_words
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, hung, listed, rule, width_of
from replexplorer.ui.words.states import DANGERS, exposure_words, in_short

_LEAST_TITLE = 12
"""Cells that a change's title keeps beside the words of an outage."""
WIDE_FROM = 100
"""Columns from which the table shows the time of each change and the interval itself."""
EXPOSED_FROM = 110
"""Columns from which it shows what a failure would have lost before and after as well."""
_EXPOSED_CELLS = 18
_ALL_FROM = 140
"""Columns from which that takes no other figure's place."""


class EpochTable(Lines):
    """The table, newest change first."""

    DEFAULT_CSS = "EpochTable { height: 6; }"

    epochs: reactive[tuple[Epoch, ...]] = reactive(())
    """Newest last, as in the tick."""
    origin_s: reactive[float] = reactive(0.0)
    """When elapsed time began."""
    unprotected: reactive[int | None] = reactive(None)
    """Commits of the session that went unprotected."""

    def watch_epochs(self) -> None:
        """Draw the table."""
        self.repaint()

    def watch_unprotected(self) -> None:
        """Draw the total."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Rule, column heads, one row an epoch."""
        about = "each change against the one before"
        about += ", settling left out" if width >= WIDE_FROM else ""
        title: Line = [("Epochs ", "title b"), (about, "muted")]
        rows: list[Line] = [rule(title, unprotected_total(self.unprotected), width), heads(width - 1)]
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
                (number_cells(epoch.number, self.glyphs), "mark"),
                (listed(epoch.title, 23), "text"),
            ]
            row = _to(left, 28)
            if words := outage_words(_outage_of(epoch)):
                rows.append([*row, *_right(_fitting(words, width - 29), width - 29)])
                continue
            row += _right(_before_after(epoch), 13)
            row += [*_effect(epoch, 10, 13, wide=False), (" ", "text")]
            room = max(0, width - width_of(row) - 1)
            p50, p99 = _millis(epoch.p50_ms, 5), _millis(epoch.p99_ms, 5)
            tails = (f"p50 {p50}  p99 {p99}", f"p50/99 {p50}/{p99}", f"p99 {p99}")
            tail = next((each for each in tails if len(each) <= room), "")
            rows.append([*row, *_right([(tail, "muted")], room)])
        return rows


def number_cells(number: int, glyphs: Glyphs) -> str:
    """A mark's number in four cells, the last one blank, so that no number moves what follows."""
    text = glyphs.number(number)
    if len(text) > 3:
        text = glyphs.ellipsis + text[-2:]
    return f"{text:<4}" if len(text) > 2 else f" {text:<3}"


def unprotected_total(count: int | None) -> Line:
    """`18,678 commits unprotected so far`, of the session; empty for none."""
    return [(f"{count:,} commit{'' if count == 1 else 's'} unprotected so far", "warn")] if count else []


def heads(width: int) -> Line:
    """The row of column heads."""
    wide = width >= WIDE_FROM
    tail = _tail_widths(width)
    exposed = (
        _right([("/".join(danger.tag for danger in DANGERS), "faint")], exposed_cells(width))
        if exposed_cells(width)
        else []
    )
    left: list[Run] = [("         at change" if wide else "    change", "faint")]
    middle = width - sum(tail) - width_of(exposed)
    room = max(0, middle - width_of(left))
    told = next((text for text in ("TPS before → after", "TPS → after") if len(text) < room), "TPS")
    before = _right([(told, "faint")], room)
    words = ("effect", "95% CI", "p50", "p95", "p99", "n")
    tokens = ("faint", "faint", "p50", "p95", "p99", "faint")
    cells = [
        _right([(word, token)], size) for word, token, size in zip(words, tokens, tail, strict=True) if size
    ]
    return [*left, *before, *exposed, *(run for cell in cells for run in cell)]


def row(epoch: Epoch, width: int, glyphs: Glyphs, origin_s: float, *, with_details: bool = False) -> Line:
    """One epoch; `with_details`: the words of an outage, which stand below in full, give way to the title."""
    wide = width >= WIDE_FROM
    tail = _tail_widths(width)
    exposed = _right(_exposures(epoch, exposed_cells(width)), exposed_cells(width))
    middle = width - sum(tail) - width_of(exposed)
    left: list[Run] = [(number_cells(epoch.number, glyphs), "mark")]
    if wide:
        left.append((f"{figures.moment(epoch.at_s - origin_s):>7} ", "faint"))
    if words := outage_words(_outage_of(epoch)):
        title_cells = max(_LEAST_TITLE, min(len(epoch.title) + 2, width // 2) if with_details else 0)
        room = width - width_of(left) - title_cells
        told = _fitting(words, room)
        title: Run = (listed(epoch.title, width - width_of(left) - width_of(told) - 2), "text")
        return [*left, title, *_right(told, width - width_of(left) - width_of([title]))]
    change = _before_after(epoch)
    room = middle - width_of(left) - width_of(change) - 1
    left = [*left, (listed(epoch.title, max(0, room)), "text")]
    found = [
        _effect(epoch, tail[0], tail[1], wide=wide),
        *(
            _right([(_millis(value, size) if epoch.n else "", "text")], size)
            for value, size in zip((epoch.p50_ms, epoch.p95_ms, epoch.p99_ms), tail[2:5], strict=True)
        ),
        _right([(figures.count(epoch.n) if epoch.n else "", "muted")], tail[5]),
    ]
    cells = [run for size, cell in zip(tail[1:], found, strict=True) if size for run in cell]
    return [*left, *_right(change, max(0, middle - width_of(left))), *exposed, *cells]


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


def _outage_of(epoch: Epoch) -> Outage:
    """What stood in the way while it lasted."""
    return epoch.after.outage if epoch.after is not None else Outage()


def _fitting(words: Sequence[str], room: int, style: str = "warn") -> list[Run]:
    """The longest that fits, or the last one cut."""
    word = next((each for each in words if len(each) <= room), words[-1])
    return [*cut([(word, style)], room)]


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
    whole = [*head, *(run for cell in cells for run in cell)]
    if width_of(whole) <= width:
        return [whole, *lost]
    first = [*head, *cells[0], *cells[1], *cells[4]]
    second = [(" " * width_of(head), "text"), *(run for cell in cells[2:4] for run in cell)]
    return [cut(first, width), cut(second, width), *lost]


def exposed_cells(width: int) -> int:
    """Columns of what a failure would have lost."""
    return _EXPOSED_CELLS if width >= EXPOSED_FROM else 0


def _exposures(epoch: Epoch, cells: int) -> list[Run]:
    """`0/0/8 → 0/312/8`: what each failure would have lost before and after, where that was seen; after
    alone where both are too long."""
    before, after = (in_short(side.exposure if side else None) for side in (epoch.before, epoch.after))
    if not cells or not (before or after):
        return []
    now: list[Run] = [(after or figures.UNKNOWN, "text b")]
    both: list[Run] = [(f"{before} → ", "muted"), *now] if before else now
    return both if width_of(both) < cells else cut(now, cells - 1)


def _tail_widths(width: int) -> Sequence[int]:
    """Widths of difference, interval, p50, p95, p99 and n; 0 for one that is not shown."""
    if width < WIDE_FROM:
        return (10, 14, 5, 5, 5, 7)
    return (11, 18, 7, 0, 7, 0) if EXPOSED_FROM <= width < _ALL_FROM else (11, 18, 7, 7, 7, 10)


def _before_after(epoch: Epoch) -> list[Run]:
    if epoch.verdict == "measuring" and epoch.number > 0:
        return [("measuring…", "muted")]
    if epoch.mode == OPEN and epoch.before and epoch.after:
        old, new = epoch.before.p95_ms.value, epoch.after.p95_ms.value
        return [(f"p95 {figures.millis(old)} → ", "muted"), (f"{figures.millis(new)} ms", "p95 b")]
    after: Run = (figures.rate(epoch.after_tps), "tps b")
    return [after] if epoch.before_tps is None else [(f"{figures.rate(epoch.before_tps)} → ", "muted"), after]


def _effect(epoch: Epoch, cells: int, more: int, *, wide: bool) -> list[Run]:
    """The difference and its interval in a column each; words of what is lacking take from the first."""
    told = difference(epoch)
    interval = _interval(epoch, cells + more - 2 - width_of(told), wide=wide)
    taken = max(more, width_of(interval) + 1)
    return [*_right(told, cells + more - taken), *_right(interval, taken)]


def _interval(epoch: Epoch, room: int, *, wide: bool) -> list[Run]:
    if epoch.number and (words := lack_words(epoch)):
        return _fitting(words, room, "muted")
    if epoch.verdict == "outage":
        return [("outage before", "muted")] if wide else [("outage", "muted")]
    text = "" if epoch.verdict == "measuring" else interval_of(epoch, short=not wide)
    return [(text, "muted")] if text else []


def _millis(value: float | None, cells: int) -> str:
    """Milliseconds with a blank before them; where they are too long in thousands: `12k`."""
    text = figures.millis(value)
    return text if value is None or len(text) < cells else f"{value / 1000:.0f}k"


def _right(line: Line, width: int) -> list[Run]:
    """The runs at the right edge of this many cells."""
    return [(" " * max(0, width - width_of(line)), "text"), *line]


def _to(line: Line, column: int) -> list[Run]:
    return [*line, (" " * max(0, column - width_of(line)), "text")]
