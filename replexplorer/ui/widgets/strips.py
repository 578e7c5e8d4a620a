"""The figures of now, what is wrong on the replicas, and what a failure now would lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import ClassVar, Final, NamedTuple

from textual.reactive import reactive

from replexplorer.core.history.series import Recent
from replexplorer.core.load.interval import SERVER
from replexplorer.core.server.comeback import lax_knobs
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.node_view import Trouble
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.ui.actions import key_label, keys_of
from replexplorer.ui.charts.contents import window_words
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.big_digits import big_rows
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.widgets.statement import risky
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, spread, width_of
from replexplorer.ui.words.states import STATES, exposure_line, fsync_too_short

_IN_SECONDS_MS: Final = 9_999.5
_MS_CELLS: Final = 4
_WINDOW_CELLS: Final = len("in 0.5 s")


class ValueStrip(Lines):
    """Percentiles, load and every knob that risks something, in one row."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "ValueStrip { height: 1; }"

    recent: Recent = Recent()
    """The load's figures of now, all of one window."""
    tick: reactive[Tick | None] = reactive(None)
    """The picture."""

    def watch_tick(self) -> None:
        """Draw the figures."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The row; where there is no room for all, the load's mode and the unit go before the window that the
        figures are of."""
        tick = self.tick
        if tick is None or tick.load is None:
            return []
        load, recent = tick.load, self.recent
        if recent.is_by_server:
            return [cut(spread(_by_server(recent), _joined(_risks(tick)), width), width)]
        state = load.mode if load.state in ("running", "viewer") else load.state
        drives: Run = (f"{state} ×{load.clients}", "text")
        short: Run = (f"×{load.clients}", "text") if state == load.mode else drives
        window = window_words(recent)
        windows = [f"ms {window:<{_WINDOW_CELLS}}  ", f"{window:<{_WINDOW_CELLS}} "] if window else []
        variants = [
            *product(("  ", " "), windows[:1], (drives, short)),
            *product((" ",), windows[1:], (short,)),
            *product(("  ", " "), ("ms  ", ""), (drives, short)),
        ]
        risks = _risks(tick)
        for right in (_joined([*_fsync(tick), *risks]), _joined(risks)):
            for gap, unit, who in variants:
                left: list[Run] = [*_percentiles(recent, gap), (unit, "muted"), who]
                if width_of(left) + width_of(right) + (2 if right else 0) <= width:
                    return [spread(left, right, width)]
        return [cut(spread([*_percentiles(recent, " "), short], _joined(risks), width), width)]


def _by_server(recent: Recent) -> list[Run]:
    """` commit mean 1.8 ms by the server's counters`."""
    mean: Run = (f"{figures.millis(recent.mean_ms):>{_MS_CELLS}}", "p50 b")
    return [(" commit mean ", "muted"), mean, (" ms by the server's counters", "muted")]


def _percentiles(recent: Recent, gap: str) -> list[Run]:
    """` p50  1.8  p95  5.7 ...`, this much apart."""
    row: list[Run] = [(" ", "text")]
    for word in ("p50", "p95", "p99", "max"):
        ink = f"{word} b" if recent.is_firm(word) else "faint"
        value = figures.millis(recent.latency_ms(word))
        row += [(f"{word} ", "muted"), (f"{value:>{_MS_CELLS}}", ink), (gap, "text")]
    return row


def _joined(parts: list[list[Run]]) -> list[Run]:
    """Parts with blanks between them and one behind."""
    row: list[Run] = []
    for part in parts:
        row += [*([("  ", "text")] if row else ()), *part]
    return [*row, (" ", "text")] if row else []


def _risks(tick: Tick) -> list[list[Run]]:
    """The primary's knobs that let a power cut lose commits, and the others of that heading with a risk."""
    lax = dict(lax_knobs(tick.knobs))
    others = [
        (name, view.requested)
        for name, view in tick.knobs.items()
        if name.node == SOURCE
        and name.knob.group == "durability"
        and name not in lax
        and risky(name, view.requested)
    ]
    return [[(f"{name.knob.label} {value}", "warn")] for name, value in [*lax.items(), *others][:2]]


def _fsync(tick: Tick) -> list[list[Run]]:
    """`fsync +2: 2.2`, where a delay is asked of the primary's disk: there is no room in the header."""
    disk = tick.source_disk
    if disk is None or not disk.delay_asked_ms:
        return []
    measured: Run = (figures.millis(disk.measured_ms), "warn b" if fsync_too_short(disk) else "text b")
    return [[("fsync ", "muted"), (f"+{disk.delay_asked_ms:g}: ", "text b"), measured]]


class BigStrip(Lines):
    """State and figures three rows high, for the back row."""

    DEFAULT_CSS = "BigStrip { height: 5; }"

    recent: Recent = Recent()
    """The load's figures of now, all of one window."""
    tick: reactive[Tick | None] = reactive(None)
    """The picture."""

    STATE_WIDTH: ClassVar = 38
    """Columns of the state's block."""

    def watch_tick(self) -> None:
        """Draw the figures."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """A blank row, three rows, a blank row; each figure begins where it does whatever the others are."""
        tick = self.tick
        if tick is None:
            return []
        symbol, word, token, _ = STATES[tick.protection.state]
        spaced = f"{symbol}   {' '.join(word)}"
        words = f"onstate on {token} b"
        blank: Run = (" " * self.STATE_WIDTH, words)
        state = [blank, (f"{spaced:^{self.STATE_WIDTH}}", words), blank]
        parts = self._figures(tick)
        gap = max(1, (width - self.STATE_WIDTH - sum(part.cells for part in parts)) // (len(parts) + 1))
        rows: list[Line] = [[]]
        for at in range(3):
            row: list[Run] = [state[at]]
            start = self.STATE_WIDTH
            for part in parts:
                start += gap
                row.append((" " * max(1, start - width_of(row)), "text"))
                row.append((f"{part.labels[at]:<{part.label_cells}}", "title b" if at == 0 else "muted"))
                row.append((big_rows(part.digits, self.glyphs)[at], part.ink))
                start += part.cells
            rows.append(row)
        return rows

    def _figures(self, tick: Tick) -> list[_Figure]:
        """From left to right."""
        recent, link = self.recent, tick.rtt
        asked = f"{link.rtt_asked_ms:g} ms" if link is not None else ""
        window = f"in {figures.span(recent.length_s)}" if recent.length_s > 0 else ""
        tps = _Figure(("TPS", "commits/s", window), figures.rate(recent.tps), "tps", 23)
        latencies = [_latency("p50", recent), _latency("p99", recent)]
        if recent.is_by_server:
            labels = ("commit", "mean ms", "by server")
            latencies = [_Figure(labels, figures.millis(recent.mean_ms), "p50", 23)]
        if tick.load is not None and tick.load.state == SERVER:
            return [tps, *latencies]
        trip = figures.round_trip(link.rtt_measured_ms if link else None)
        return [tps, _bound(tick), *latencies, _Figure(("RTT", "asked", asked), trip, "title", 24)]


class _Figure(NamedTuple):
    """A figure with what stands beside its three rows."""

    labels: tuple[str, str, str]
    digits: str
    ink: str
    cells: int
    """Columns that it takes with as many digits as it can have."""

    @property
    def label_cells(self) -> int:
        """Columns of the words."""
        return max(map(len, self.labels)) + 1


def _latency(name: str, recent: Recent) -> _Figure:
    """A percentile in ms; from 10 s on in seconds, which keeps it as narrow."""
    value_ms = recent.latency_ms(name)
    ink = name if recent.is_firm(name) else "faint"
    window = figures.span(recent.length_s) if recent.length_s > 0 else ""
    if value_ms is not None and value_ms >= _IN_SECONDS_MS:
        return _Figure((name, "seconds", window), figures.round_trip(value_ms / 1000), ink, 18)
    return _Figure((name, "ms", window), figures.millis(value_ms), ink, 18)


def _bound(tick: Tick) -> _Figure:
    """The prediction with the ceiling beside it; the ceiling where nothing is predicted."""
    ceiling = figures.rate(tick.ceiling.tps if tick.ceiling else None)
    if tick.predicted is None:
        return _Figure(("ceiling", "at most", ""), ceiling, "ceiling", 23)
    beside = ("ceiling", ceiling) if tick.ceiling else ("", "")
    return _Figure(("predicted", *beside), figures.rate(tick.predicted.tps), "title", 23)


class TinyNotice(Lines):
    """What stands when the terminal is too small: the state, the throughput, the size needed."""

    DEFAULT_CSS = "TinyNotice { height: 1fr; }"

    recent: Recent = Recent()
    """The load's figures of now, all of one window."""
    tick: reactive[Tick | None] = reactive(None)
    """The picture."""

    def watch_tick(self) -> None:
        """Draw state and throughput."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Six rows in the middle."""
        lines: list[tuple[str, str]] = []
        if self.tick is not None:
            symbol, word, token, _ = STATES[self.tick.protection.state]
            lines += [
                (f" {symbol} {word} ", f"onstate on {token} b"),
                (f"{figures.rate(self.recent.tps)} TPS", "tps b"),
            ]
            lines += [
                (f"not durable: {name.knob.label} {value}", "warn b")
                for name, value in lax_knobs(self.tick.knobs)
            ]
        lines += [
            ("", "text"),
            ("replexplorer needs 80 x 24", "title b"),
            (f"this terminal is {self.app.size.width} x {self.app.size.height}", "text"),
            ("Enlarge it or use a smaller font; all keeps running.", "muted"),
            ("q quit", "key"),
        ]
        top = max(0, (height - len(lines)) // 2)
        middle: list[Line] = [
            [(" " * max(0, (width - len(text)) // 2), "text"), (text, words)] for text, words in lines
        ]
        return [*([[]] * top), *middle]


class ReplicaStrip(Lines):
    """`✖ db2: SQL thread error   ▲ db3: IO thread stopped      f repair  N nodes`."""

    GROUND = "panel"
    DEFAULT_CSS = "ReplicaStrip { height: 1; }"

    def __init__(self, keymap: Mapping[str, str], *, glyphs: Glyphs = BRAILLE, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._keymap = keymap
        self._troubles: Sequence[Trouble] = ()

    def show(self, troubles: Sequence[Trouble]) -> None:
        """Show what is wrong with each replica, in one row; none clears it."""
        if troubles != self._troubles:
            self._troubles = troubles
            self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Each replica with its trouble; a server's own words where there is room for them."""
        keys = self._keys()
        rows = [self._row(with_why=True), self._row(), self._row(is_brief=True), self._row(is_first=True)]
        room = width - width_of(keys)
        return [spread(next((row for row in rows if width_of(row) < room), rows[-1]), keys, width)]

    def _row(self, *, with_why: bool = False, is_brief: bool = False, is_first: bool = False) -> list[Run]:
        """All of them; brief without the word `thread`, `is_first` each with its first words alone: a lag
        comes of the thread that does not run."""
        row: list[Run] = []
        for trouble in self._troubles:
            symbol, ink = ("✖", "bad") if trouble.is_failure else ("▲", "warn")
            row += [("   " if row else " ", "text"), (f"{symbol} {trouble.replica}: ", f"{ink} b")]
            words = ", ".join(trouble.words[:1] if is_first else trouble.words)
            row.append((words.replace(" thread", "") if is_brief or is_first else words, f"{ink} b"))
            if with_why and trouble.why:
                row.append((f": {trouble.why}", ink))
        return row

    def _keys(self) -> list[Run]:
        """What can be done about it."""
        words = [("nodes.open", "nodes")]
        if any(trouble.can_be_repaired for trouble in self._troubles):
            words.insert(0, ("stack.repair", "repair"))
        runs: list[Run] = []
        for action, word in words:
            key = key_label(keys_of(action, self._keymap)[0])
            runs += [("  ", "text"), (key, "key b"), (f" {word}", "muted")]
        return [*runs, (" ", "text")]


class ExposureLine(Lines):
    """` at risk now: mysqld dies 0 · power cut 312 (0.4 s) · source lost 8`."""

    GROUND = "panel"
    DEFAULT_CSS = "ExposureLine { height: 1; }"

    exposure: reactive[Exposure | None] = reactive(None)
    """What was known at the moment that is shown; None before anything was looked at."""

    def watch_exposure(self) -> None:
        """Draw the row."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The row."""
        return [exposure_line(self.exposure, width)]
