"""The figures of now, also in digits for the back row; what is wrong on the replicas, and what a failure now
would lose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
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
from replexplorer.ui.words.states import STATES, exposure_line, fsync_runs, percentile, window_words

_IN_SECONDS_MS: Final = 9_999.5
_WINDOW_CELLS: Final = len("in 0.5 s")


class ValueStrip(Lines[Picture]):
    """Percentiles, load and every knob that risks something, in one row."""

    GROUND: ClassVar[str] = "panel"
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
            found = [pair(name, *percentile(recent, name)) for name in ("p50", "p95", "p99", "max")]
            lefts = [
                [blank, *apart(found, gap), (unit, "muted"), (drives, "text")]
                for gap, unit, drives in (
                    ("  ", f"  ms {window} ", f"{state} ×{load.clients}"), (" ", f" {window}", who),
                    (" ", " ", who),
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
    """State and figures three rows high, for the back row."""

    DEFAULT_CSS = "BigStrip { height: 5; }"

    STATE_WIDTH: ClassVar = 38
    """Columns of the state's block."""

    def draw(self, shown: Picture, width: int, height: int) -> list[Line]:
        """A blank row, three rows, a blank row; each figure begins where it does whatever the others are."""
        tick = shown.tick
        if tick is None:
            return []
        symbol, word, token, _ = STATES[tick.protection.state]
        blank, parts = " " * self.STATE_WIDTH, _big_figures(tick, shown.recent)
        state = (blank, f"{f'{symbol}   ' + ' '.join(word):^{self.STATE_WIDTH}}", blank)
        gap = max(1, (width - self.STATE_WIDTH - sum(part.cells for part in parts)) // (len(parts) + 1))
        rows: list[Line] = [[]]
        for at in range(3):
            row: list[Run] = [(state[at], f"onstate on {token} b")]
            start = self.STATE_WIDTH
            for part in parts:
                start += gap
                row.append((" " * max(1, start - width_of(row)), "text"))
                label_cells = max(map(len, part.labels)) + 1
                row.append((f"{part.labels[at]:<{label_cells}}", "title b" if at == 0 else "muted"))
                row.append((big_rows(part.digits, self.glyphs)[at], part.ink))
                start += part.cells
            rows.append(row)
        return rows


class _Figure(NamedTuple):
    """A figure with what is next to its three rows."""

    labels: tuple[str, str, str]
    digits: str
    ink: str
    cells: int = 23
    """Columns that it takes with as many digits as it can have."""


def _big_figures(tick: Tick, recent: Recent) -> list[_Figure]:
    """From left to right."""
    window = figures.span(recent.length_s) if recent.length_s > 0 else ""
    tps = _Figure(("TPS", "commits/s", f"in {window}" if window else ""), figures.rate(recent.tps), "tps")
    latencies = [_big_latency(name, recent, window) for name in ("p50", "p99")]
    if recent.is_by_server:
        latencies = [_Figure(("commit", "mean ms", "by server"), figures.millis(recent.mean_ms), "p50")]
    if tick.load is not None and tick.load.state == SERVER:
        return [tps, *latencies]
    ceiling = figures.rate(tick.ceiling.tps if tick.ceiling else None)
    bound = _Figure(("ceiling", "at most", ""), ceiling, "ceiling")
    if tick.predicted is not None:
        beside = ("ceiling", ceiling) if tick.ceiling else ("", "")
        bound = _Figure(("predicted", *beside), figures.rate(tick.predicted.tps), "title")
    asked = f"{tick.rtt.rtt_asked_ms:g} ms" if tick.rtt is not None else ""
    trip = figures.round_trip(tick.rtt.rtt_measured_ms if tick.rtt else None)
    return [tps, bound, *latencies, _Figure(("RTT", "asked", asked), trip, "title", 24)]


def _big_latency(name: str, recent: Recent, window: str) -> _Figure:
    """A percentile in ms; from 10 s on in seconds, which keeps it as narrow."""
    value_ms = recent.latency_ms(name)
    unit, digits = "ms", figures.millis(value_ms)
    if value_ms is not None and value_ms >= _IN_SECONDS_MS:
        unit, digits = "seconds", figures.round_trip(value_ms / 1000)
    return _Figure((name, unit, window), digits, name if recent.is_firm(name) else "faint", 18)


class TinyNotice(Lines[Picture]):
    """What stands when the terminal is too small: the state, the throughput, the size needed."""

    DEFAULT_CSS = "TinyNotice { height: 1fr; }"

    def draw(self, shown: Picture, width: int, height: int) -> list[Line]:
        """Some rows in the middle."""
        lines: list[Run] = []
        if (tick := shown.tick) is not None:
            symbol, word, token, _ = STATES[tick.protection.state]
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
            ("Enlarge it or use a smaller font; all keeps running.", "muted"),
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


_CHARACTERS: Final = "0123456789-kM"
"""What the fonts have a shape for, three cells each, a blank between them."""
_STROKES: Final = (
    "┏━┓   ╻ ╺━┓ ╺━┓ ╻ ╻ ┏━╸ ┏━╸ ╺━┓ ┏━┓ ┏━┓     ╻   ┏┳┓",
    "┃ ┃   ┃ ┏━┛  ━┫ ┗━┫ ┗━┓ ┣━┓   ┃ ┣━┫ ┗━┫ ╺━╸ ┃┏╸ ┃┃┃",
    "┗━┛   ╹ ┗━╸ ╺━┛   ╹ ╺━┛ ┗━┛   ╹ ┗━┛ ╺━┛     ╹┗╸ ╹ ╹",
)
_ASCII: Final = (
    " _       _   _       _   _   _   _   _              ",
    "| |   |  _|  _| |_| |_  |_    | |_| |_|  _  |/  |V| ",
    "|_|   | |_   _|   |  _| |_|   | |_|  _|     |\\  | | ",
)
_SOLID: Final = (
    "###  #  ### ### # # ### ### ### ### ###     #   # #",
    "# # ##    #   # # # #   #     # # # # #     # # ###",
    "# #  #  ### ### ### ### ###   # ### ### ### ##  ###",
    "# #  #  #     #   #   # # #   # # #   #     # # # #",
    "### ### ### ###   # ### ###   # ### ###     # # # #",
)


def _shape(font: Sequence[str], character: str) -> tuple[str, ...]:
    """The rows of one character: one cell for a point and for what has no shape."""
    at = 4 * _CHARACTERS.find(character)
    if at >= 0:
        return tuple(f"{row[at : at + 3]:<3}" for row in font)
    return (*(" " for _ in font[1:]), "." if character == "." else " ")


def big_rows(text: str, glyphs: Glyphs = BRAILLE) -> tuple[str, ...]:
    """The three rows of a figure such as `85.4` or `16.1k`; characters without a shape are blank."""
    shapes = [_shape(_ASCII if glyphs.ascii else _STROKES, character) for character in text]
    return tuple("".join(row) for row in zip(*shapes, strict=True)) or ("",) * len(_STROKES)


def solid_rows(text: str, glyphs: Glyphs = BRAILLE) -> tuple[str, ...]:
    """The five rows of a figure; a stroke is two cells wide, a point one."""
    ink = "#" if glyphs.ascii else "█"
    rows: list[list[str]] = [[] for _ in _SOLID]
    for character in text:
        for row, cells in zip(rows, _shape(_SOLID, character), strict=True):
            row.append(cells if len(cells) == 1 else "".join(2 * cell for cell in cells))
    return tuple(" ".join(row).replace("#", ink).replace(".", ink) for row in rows)
