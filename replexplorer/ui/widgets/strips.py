"""The figures of now, also in digits for the back row; what is wrong on the replicas, and what a failure now
would lose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import or_
from typing import ClassVar, Final, NamedTuple

from replexplorer.core.history.series import Recent
from replexplorer.core.load.interval import SERVER
from replexplorer.core.server.comeback import lax_knobs
from replexplorer.core.server.node_view import Trouble
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.ui.picture import Picture
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.widgets.statement import risky
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, apart, fit, hint, pair, spread, width_of
from replexplorer.ui.words.states import (
    exposure_line,
    fsync_runs,
    percentile,
    rtt_is_apart,
    state_of,
    window_words,
)

_IN_SECONDS_MS: Final = 9_999.5
_WINDOW_CELLS: Final = len("in 0.5 s")


class ValueStrip(Lines[Picture]):
    """Percentiles, load and every knob that risks something, in one row."""

    GROUND = "panel"
    DEFAULT_CSS = "ValueStrip { height: 1; }"

    def draw(self, shown: Picture, width: int, height: int) -> list[Line]:
        """The row; where there is no room for all, the load's mode and the unit go before the window that the
        figures are of."""
        tick, recent = shown.tick, shown.recent
        if tick is None or tick.load is None:
            return []
        load, risks, blank = tick.load, _risks(tick), (" ", "text")
        lefts: list[Line] = [
            [
                blank,
                ("commit mean ", "muted"),
                percentile(recent, "mean"),
                (" ms by the server's counters", "muted"),
            ]
        ]
        if not recent.is_by_server:
            state = load.mode if load.state in ("running", "viewer") else load.state
            who = f"×{load.clients}" if state == load.mode else f"{state} ×{load.clients}"
            window = f"{window_words(recent):<{_WINDOW_CELLS}} "
            now = {name: percentile(recent, name) for name in ("p50", "p95", "p99", "max")}
            wide = [pair(name, *figure) for name, figure in now.items()]
            # A blank less before each figure, and one more before its name: a name belongs to what follows.
            narrow = [pair(name, text.removeprefix(" "), ink) for name, (text, ink) in now.items()]
            lefts = [
                [blank, *apart(found, "  "), (unit, "muted"), (drives, "text")]
                for found, unit, drives in (
                    (wide, f"  ms {window} ", f"{state} ×{load.clients}"), (narrow, f"  {window}", who),
                    (narrow, "  ", who),
                )
            ]  # fmt: skip
        disk = tick.source_disk
        delay = fsync_runs(disk) if disk and disk.delay_asked_ms else []
        ends = [apart(end, "  ") for end in ([delay, *risks], risks)]
        fitting = (pair for pair in product(ends, lefts) if sum(map(width_of, pair)) + 2 < width)
        end, left = next(fitting, (ends[-1], lefts[-1]))
        return [spread(left, [*end, blank], width)]


def _risks(tick: Tick) -> list[list[Run]]:
    """The primary's knobs that let a power cut lose commits, and the others of that heading with a risk."""
    found = dict(lax_knobs(tick.knobs))
    for name, view in tick.knobs.items():
        if name.node == SOURCE and name.knob.group == "durability" and risky(name, view.requested):
            found.setdefault(name, view.requested)
    return [[(f"{name.knob.label} {value}", "warn")] for name, value in [*found.items()][:2]]


class BigStrip(Lines[Picture]):
    """State and figures in large letters, for the back row."""

    DEFAULT_CSS = "BigStrip { height: 5; }"

    STATE_WIDTH: ClassVar = 38
    """Columns of the state's block."""

    def draw(self, shown: Picture, width: int, height: int) -> list[Line]:
        """A row of names, four rows of digits; each figure begins where it does whatever the others are."""
        tick = shown.tick
        if tick is None:
            return []
        _, word, token = state_of(tick)
        parts = _big_figures(tick, shown.recent)
        gap = max(1, (width - self.STATE_WIDTH - sum(part.cells for part in parts)) // (len(parts) + 1))
        rows: list[list[Run]] = [
            [(f"{row:^{self.STATE_WIDTH}}", f"onstate on {token} b")]
            for row in ("", *block_rows(word, self.glyphs))
        ]
        start = self.STATE_WIDTH
        for part in parts:
            start += gap
            below: list[Line] = [[(row, f"{part.ink} b")] for row in block_rows(part.digits, self.glyphs)]
            for row, line in zip(
                rows, [[(part.name, "title b"), (f" {part.what}", "muted")], *below], strict=True
            ):
                row += [(" " * max(1, start - width_of(row)), "text"), *line]
            start += part.cells
        return list(rows)


class _Figure(NamedTuple):
    """A figure with its name above it."""

    name: str
    what: str
    """What it is of."""
    digits: str
    ink: str
    cells: int = 19
    """Columns that it takes with as many digits as it can have."""


def _big_figures(tick: Tick, recent: Recent) -> list[_Figure]:
    """From left to right."""
    tps = _Figure("TPS", "commits/s", figures.rate(recent.tps), "tps")
    latencies = [_big_latency(name, recent) for name in ("p50", "p99")]
    if recent.is_by_server:
        latencies = [_Figure("commit", "mean ms", figures.millis(recent.mean_ms), "p50")]
    if tick.load is not None and tick.load.state == SERVER:
        return [tps, *latencies]
    ceiling = figures.rate(tick.ceiling.tps if tick.ceiling else None)
    bound = _Figure("ceiling", "at most", ceiling, "ceiling", 23)
    if tick.predicted is not None:
        beside = f"ceiling {ceiling}" if tick.ceiling else ""
        bound = _Figure("predicted", beside, figures.rate(tick.predicted.tps), "title", 23)
    asked = f" of {tick.rtt.rtt_asked_ms:g} asked" if tick.rtt is not None else ""
    trip = figures.round_trip(tick.rtt.rtt_measured_ms if tick.rtt else None)
    ink = "warn" if tick.rtt is not None and rtt_is_apart(tick.rtt) else "title"
    return [tps, bound, *latencies, _Figure("RTT", f"ms{asked}", trip, ink, 20)]


def _big_latency(name: str, recent: Recent) -> _Figure:
    """A percentile in ms; from 10 s on in seconds, which keeps it as narrow."""
    value_ms = recent.latency_ms(name)
    unit, digits = "ms", figures.millis(value_ms)
    if value_ms is not None and value_ms >= _IN_SECONDS_MS:
        unit, digits = "seconds", figures.round_trip(value_ms / 1000)
    return _Figure(name, unit, digits, name if recent.is_firm(name) else "faint", 16)


class TinyNotice(Lines[Picture]):
    """What stands when the terminal is too small: the state, the throughput, the size needed."""

    DEFAULT_CSS = "TinyNotice { height: 1fr; }"

    def draw(self, shown: Picture, width: int, height: int) -> list[Line]:
        """Some rows in the middle."""
        lines: list[Run] = []
        if (tick := shown.tick) is not None:
            symbol, word, token = state_of(tick)
            lines += [
                (f" {symbol} {word} ", f"onstate on {token} b"),
                (f"{figures.rate(shown.recent.tps)} TPS", "tps b"),
            ]
            lines += [
                (f"not durable: {name.knob.label} {value}", "warn b") for name, value in lax_knobs(tick.knobs)
            ]
        lines += [
            ("", "text"),
            ("replexplorer needs 80 x 24", "title b"),
            (f"this terminal is {self.app.size.width} x {self.app.size.height}", "text"),
            ("Enlarge it or use a smaller font; nothing stops.", "muted"),
            ("q quit", "key"),
        ]
        middle = [[(" " * max(0, (width - len(text)) // 2), "text"), (text, ink)] for text, ink in lines]
        return [*([[]] * max(0, (height - len(lines)) // 2)), *middle]


class ReplicaStrip(Lines[Sequence[Trouble]]):
    """`✖ db2: SQL thread error   ▲ db3: IO thread stopped      f repair  N nodes`."""

    GROUND = "panel"
    DEFAULT_CSS = "ReplicaStrip { height: 1; }"

    def draw(self, shown: Sequence[Trouble], width: int, height: int) -> list[Line]:
        """Each replica with its trouble: a server's own words where there is room for them, else each with
        its first words alone, for a lag comes of the thread that does not run."""
        hints = [hint(self.key("nodes.open"), "nodes")]
        if any(trouble.can_be_repaired for trouble in shown):
            hints.insert(0, hint(self.key("stack.repair"), "repair"))
        keys = [*apart(hints, "  "), (" ", "text")]
        rows: list[Line] = []
        for brief in (False, True):
            found = []
            for each in shown:
                symbol, ink = ("✖", "bad") if each.is_failure else ("▲", "warn")
                words, why = (
                    (each.words[:1], "") if brief else (each.words, f": {each.why}" if each.why else "")
                )
                found.append([(f"{symbol} {each.replica}: {', '.join(words)}", f"{ink} b"), (why, ink)])
            rows.append(apart(found, "   "))
        return [spread([(" ", "text"), *fit(rows, width - width_of(keys) - 3)], keys, width)]


class ExposureLine(Lines[Tick]):
    """` at risk now: mysqld dies 0 · power cut 312 (0.4 s) · source lost 8`."""

    GROUND = "panel"
    DEFAULT_CSS = "ExposureLine { height: 1; }"

    def draw(self, shown: Tick, width: int, height: int) -> list[Line]:
        """The row."""
        return [exposure_line(shown.exposure, width)]


_FONT: Final = bytes.fromhex(
    "0000000000" "00005f0000" "0007000700" "147f147f14" "242a7f2a12" "2313086462" "3649562050" "0008070300"
    "001c224100" "0041221c00" "2a1c7f1c2a" "08083e0808" "0080703000" "0808080808" "0000606000" "2010080402"
    "3e4141413e" "00427f4000" "4261514946" "2241494936" "1814127f10" "2745454539" "3c4a494930" "0171090503"
    "3649494936" "464949291e" "0036360000" "0056360000" "0008142241" "1414141414" "0041221408" "0201590906"
    "3e415d594e" "7e1111117e" "7f49494936" "3e41414122" "7f4141413e" "7f49494941" "7f09090901" "3e4141517a"
    "7f0808087f" "00417f4100" "2040413f01" "7f08142241" "7f40404040" "7f020c027f" "7f0408107f" "3e4141413e"
    "7f09090906" "3e4151215e" "7f09192946" "2649494932" "01017f0101" "3f4040403f" "1f2040201f" "3f4038403f"
    "6314081463" "0708700807" "6151494543" "007f414100" "0204081020" "0041417f00" "0402010204" "4040404040"
    "0003070800" "2054545478" "7f48444438" "3844444428" "384444487f" "3854545418" "00087e0902" "18a4a49c78"
    "7f08040478" "00447d4000" "4080847d00" "7f10284400" "00417f4000" "7c04780478" "7c08040478" "3844444438"
    "fc18242418" "18242418fc" "7c08040408" "4854545424" "04043f4424" "3c4040207c" "1c2040201c" "3c4030403c"
    "4428102844" "1ca0a0a07c" "4464544c44" "0008364100" "0000770000" "0041360800" "0201020402"
)  # fmt: skip
"""The usual 5x7 dots of ASCII from the blank on, a byte a column, its lowest bit on top; the eighth row is
below the line."""
_QUADRANTS: Final = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
"""By dots: top left 1, top right 2, bottom left 4, bottom right 8."""


def block_rows(text: str, glyphs: Glyphs = BRAILLE, *, bold: bool = True, scale: int = 1) -> list[str]:
    """A text in letters of 4 rows at scale 1 and 8 at scale 2, the last of them for what goes below the line:
    3 cells a character, bold 4 and a point 2, times the scale. What is not ASCII is blank. In ASCII scale 1
    is the text itself, a word spaced."""
    if glyphs.ascii and scale == 1:
        return ["", " ".join(text) if text.isalpha() else text, "", ""]
    columns: list[int] = []
    for character in text:
        at = 5 * (ord(character) - ord(" ")) if character.isascii() else 0
        shape = _FONT[at : at + 5]
        if bold:
            shape = bytes(map(or_, (*shape, 0), (0, *shape))) if character != "." else shape[2:4]
        columns += [*shape, 0, 0] if bold else [*shape, 0]
    dots = [
        [column >> y & 1 for column in columns for _ in range(scale)] for y in range(8) for _ in range(scale)
    ]
    cells = " " + 15 * "#" if glyphs.ascii else _QUADRANTS
    return [
        "".join(
            cells[upper[x] | upper[x + 1] << 1 | lower[x] << 2 | lower[x + 1] << 3]
            for x in range(0, len(upper), 2)
        )
        for upper, lower in zip(dots[::2], dots[1::2], strict=True)
    ]
