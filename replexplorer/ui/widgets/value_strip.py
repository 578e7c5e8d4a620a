"""The figures of now: one row on a small screen, three rows of big digits on a wide one."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.reactive import reactive

from replexplorer.core.tick import LoadView, Tick
from replexplorer.ui import figures
from replexplorer.ui.effects import fsync_too_short
from replexplorer.ui.widgets.big_digits import big_rows
from replexplorer.ui.widgets.lines import Line, Lines, Run, cut, spread, width_of
from replexplorer.ui.widgets.statement import risky
from replexplorer.ui.words import STATES

_IN_SECONDS_MS: Final = 9_999.5


class ValueStrip(Lines):
    """Percentiles, load and every knob that risks something, in one row."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "ValueStrip { height: 1; }"

    tick: reactive[Tick | None] = reactive(None)
    """The picture."""

    def watch_tick(self) -> None:
        """Draw the figures."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The row."""
        tick = self.tick
        if tick is None or tick.load is None:
            return []
        load = tick.load
        left: list[Run] = [(" ", "text")]
        for word, value in (
            ("p50", load.latency_ms("p50")),
            ("p95", load.latency_ms("p95")),
            ("p99", load.latency_ms("p99")),
            ("max", load.latency_ms("max")),
        ):
            left += [(f"{word} ", "muted"), (f"{figures.millis(value):>3}", f"{word} b"), ("  ", "text")]
        state = load.mode if load.state in ("running", "viewer") else load.state
        left += [("ms  ", "muted"), (f"{state} ×{load.clients}", "text"), ("  ", "text")]
        risks = [
            (f"{name.knob.label} {view.requested}", "warn")
            for name, view in tick.knobs.items()
            if name.node == "primary" and name.knob.group == "durability" and risky(name, view.requested)
        ]
        told = [*_fsync(tick), *([risk] for risk in risks[:2])]
        if sum(width_of(one) + 2 for one in told) + width_of(left[:-1]) > width:
            told = [[risk] for risk in risks[:2]]
        right: list[Run] = []
        for one in told:
            right += [*one, ("  ", "text")]
        return [cut(spread(left[:-1], right[:-1] + ([(" ", "text")] if right else []), width), width)]


def _fsync(tick: Tick) -> list[list[Run]]:
    """`fsync +2→2.2`, where a delay is asked of the primary's disk: there is no room in the header."""
    disk = tick.source_disk
    if disk is None or not disk.delay_asked_ms:
        return []
    measured: Run = (figures.millis(disk.measured_ms), "warn b" if fsync_too_short(disk) else "text b")
    return [[("fsync ", "muted"), (f"+{disk.delay_asked_ms:g}→", "text b"), measured]]


class BigStrip(Lines):
    """State and figures three rows high, for the back row."""

    DEFAULT_CSS = "BigStrip { height: 5; }"

    tick: reactive[Tick | None] = reactive(None)
    """The picture."""

    STATE_WIDTH: ClassVar = 46
    """Columns of the state's block."""

    def watch_tick(self) -> None:
        """Draw the figures."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """A blank row, three rows, a blank row."""
        tick = self.tick
        if tick is None:
            return []
        symbol, word, token, _ = STATES[tick.protection.state]
        spaced = f"{symbol}   {' '.join(word)}"
        words = f"onstate on {token} b"
        blank: Run = (" " * self.STATE_WIDTH, words)
        state = [blank, (f"{spaced:^{self.STATE_WIDTH}}", words), blank]
        parts = self._figures(tick)
        room = (width - self.STATE_WIDTH - 3) // len(parts)
        rows: list[Line] = [[]]
        for at in range(3):
            row: list[Run] = [state[at], ("  ", "text")]
            for place, (labels, digits, ink) in enumerate(parts):
                # A long figure takes of the room before the next one; those after it stay in place.
                start = self.STATE_WIDTH + 3 + place * room
                row.append((" " * max(1, start - width_of(row)), "text"))
                row.append((f"{labels[at]:<10}", "title b" if at == 0 else "muted"))
                row.append((big_rows(digits, self.glyphs)[at], ink))
            rows.append(row)
        return rows

    def _figures(self, tick: Tick) -> list[tuple[tuple[str, str, str], str, str]]:
        """Labels of three rows, the figure and its token, from left to right."""
        load, link = tick.load, tick.rtt
        asked = f"{link.rtt_asked_ms:g} ms" if link is not None else ""
        return [
            (("TPS", "commits/s", ""), figures.rate(load.tps if load else None), "tps"),
            _bound(tick),
            _latency("p50", load),
            _latency("p99", load),
            (("RTT", "asked", asked), figures.round_trip(link.rtt_measured_ms if link else None), "title"),
        ]


def _latency(name: str, load: LoadView | None) -> tuple[tuple[str, str, str], str, str]:
    """A percentile in ms; from 10 s on in seconds, which keeps it as narrow."""
    value_ms = load.latency_ms(name) if load else None
    if value_ms is not None and value_ms >= _IN_SECONDS_MS:
        return (name, "seconds", ""), figures.round_trip(value_ms / 1000), name
    return (name, "ms", ""), figures.millis(value_ms), name


def _bound(tick: Tick) -> tuple[tuple[str, str, str], str, str]:
    """The prediction with the ceiling beside it; the ceiling where nothing is predicted."""
    ceiling = figures.rate(tick.ceiling.tps if tick.ceiling else None)
    if tick.predicted is None:
        return ("ceiling", "at most", ""), ceiling, "ceiling"
    beside = ("ceiling", ceiling) if tick.ceiling else ("", "")
    return ("predicted", *beside), figures.rate(tick.predicted.tps), "title"


class TinyNotice(Lines):
    """What stands when the terminal is too small: the state, the throughput, the size needed."""

    DEFAULT_CSS = "TinyNotice { height: 1fr; }"

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
            load = self.tick.load
            lines += [
                (f" {symbol} {word} ", f"onstate on {token} b"),
                (f"{figures.rate(load.tps if load else None)} TPS", "tps b"),
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
