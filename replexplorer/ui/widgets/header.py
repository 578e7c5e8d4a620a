"""The first row: state, acknowledgements, link, disk, throughput, latency, load, time."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.reactive import reactive

from replexplorer.core.history.recent import Recent
from replexplorer.core.server.durability import lax_knobs
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.widgets import header_load, header_stack
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, Segment, apart, width_of
from replexplorer.ui.words.states import STATES

SHRINK: Final = (
    "fsync", "help", "title", "load", "ack", "title", "latency", "separator", "fsync", "latency", "load",
    "load", "ack", "latency", "errors", "tps", "chips", "wait", "rtt", "held", "link", "latency", "errors",
    "wait", "elapsed", "title", "rtt", "ack", "chips", "link",
    "chips", "held", "held",
)  # fmt: skip
"""Which segment takes its next shorter variant, in this order, until the row fits."""


class Header(Lines):
    """The status header; each segment has variants and `SHRINK` says which gives way first. A figure has
    as many cells however many digits it has, so that nothing behind it moves."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "Header { height: 1; dock: top; }"

    tick: reactive[Tick | None] = reactive(None)
    """The picture."""
    recent: Recent = Recent()
    """The load's figures of now, all of one window."""
    live: reactive[tuple[Tick, Recent] | None] = reactive(None)
    """What is so while the picture is frozen; None while it is not."""
    sweep: reactive[str] = reactive("")
    """The sweep that turns the knobs behind the dashboard, and its run: `sweep 3 of 12`."""
    elapsed_s: reactive[float] = reactive(0.0)
    """Seconds since the first tick."""

    _situation: tuple[object, ...] = ()
    _steps = 0
    """How far the row is shrunk: kept in one situation, so that a digit more or less moves nothing."""

    def watch_tick(self) -> None:
        """Draw the new figures."""
        self.repaint()

    def watch_live(self) -> None:
        """Show, change or hide the chip."""
        self.repaint()

    def watch_sweep(self) -> None:
        """Show, change or hide the chip."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The row."""
        if self.tick is None:
            return []
        segments = self._segments(self.tick)
        situation = (
            width,
            *(
                bool(segments[name][0])
                for name in ("wait", "held", "link", "chips", "errors", "load", "rtt", "fsync")
            ),
            *(len(segments[name]) for name in ("fsync", "tps")),
            len(segments["load"][0]),
            *(width_of(segments[name][0]) for name in ("latency", "chips")),
        )
        if situation != self._situation:
            self._situation, self._steps = situation, 0
        while width_of(row := _joined(segments, self._chosen(segments), width)) > width and self._steps < len(
            SHRINK
        ):
            self._steps += 1
        return [row]

    def _chosen(self, segments: dict[str, Segment]) -> dict[str, int]:
        """The variant of each segment after the steps taken so far."""
        taken = SHRINK[: self._steps]
        return {name: min(taken.count(name), len(held) - 1) for name, held in segments.items()}

    def _segments(self, tick: Tick) -> dict[str, Segment]:
        recent = self.recent
        return {
            "title": (
                [("replexplorer", "title b"), (f" {tick.stack}", "muted")],
                [("replexplorer", "title b")],
                [("rx", "title b")],
                [],
            ),
            "state": (self._state(tick),),
            "wait": header_stack.wait(tick.protection),
            "held": self._held(),
            "link": header_stack.link(tick),
            "chips": self._chips(tick),
            "ack": header_stack.acks(tick),
            "rtt": header_stack.rtt(tick.rtt),
            "fsync": header_stack.fsync(tick.source_disk),
            "tps": header_load.throughput(recent),
            "latency": header_load.latency(recent),
            "errors": header_load.errors(recent),
            "load": header_load.load(tick.load, recent, tick.visitor),
            "elapsed": ([(figures.elapsed(self.elapsed_s), "text")], []),
            "help": ([("?", "key b"), (" help", "key")], [("?", "key b")]),
            "separator": ([(" │ ", "rule")], [("  ", "rule")]),
        }

    def _chips(self, tick: Tick) -> Segment:
        """What must not be overlooked; where there is no room, the first of it and how much more there is."""
        chip = "onstate on async b"
        found = [(each, each, each) for each in header_stack.injected(tick)]
        if self.sweep:
            found.append(((f" {self.sweep} ", chip),) * 3)
        if lax_knobs(tick.knobs):
            spelled = (" ▲ NOT DURABLE ", chip)
            found.append((spelled, spelled, (" ▲ RISK ", chip)))
        found += [(long, short, short) for long, short in header_stack.troubles(tick)]
        if not found:
            return ([],)
        variants = [apart([[each[at]] for each in found]) for at in range(3)]
        if len(found) > 1:
            variants.append([found[0][2], (f" +{len(found) - 1}", "warn b")])
        return tuple(variants)

    def _held(self) -> Segment:
        """That the picture is held, with what is so meanwhile."""
        if self.live is None:
            return ([],)
        chip: Run = (" FROZEN ", "onstate on armed b")
        held = self.tick.protection.state if self.tick is not None else None
        state, tps = _live(*self.live, held)
        return (
            [chip, (" live ", "muted"), state, tps, (" TPS", "muted")],
            [chip, (" live ", "muted"), state, tps],
            [chip, (" live ", "muted"), (state[0][0], state[1]), tps],
            [chip, (f" {state[0][0]}", state[1]), tps],
        )

    def _state(self, tick: Tick) -> Line:
        symbol, word, token, _ = STATES[tick.protection.state]
        if tick.state == "starting":
            symbol, word, token = "○", "STARTING", "async"
        text = f"[ {symbol} {word} ]" if self.app.no_color else f"  {symbol} {word}  "
        return [(text, f"onstate on {token} b")]


def _joined(segments: dict[str, Segment], chosen: dict[str, int], width: int) -> list[Run]:
    """The row with the chosen variants; time and help stand at the right edge."""
    separator = segments["separator"][chosen["separator"]]

    def join(names: tuple[str, ...]) -> list[Run]:
        row: list[Run] = []
        for name in names:
            if part := segments[name][chosen[name]]:
                row += [*(separator if row else ()), *part]
        return row

    left = [
        (" ", "text"),
        *join(
            (
                "title",
                "state",
                "wait",
                "held",
                "link",
                "chips",
                "ack",
                "rtt",
                "fsync",
                "tps",
                "latency",
                "errors",
                "load",
            )
        ),
    ]
    right = [*join(("elapsed", "help")), (" ", "text")]
    gap = width - width_of(left) - width_of(right)
    between = [*separator, (" " * max(0, gap - width_of(separator)), "text")]
    return [*left, *between, *right]


def _live(tick: Tick, recent: Recent, held: ProtectionState | None) -> Line:
    """`● PROTECTED   528`: what is so behind a held picture, as wide whatever it is; the state's word only
    where it is not the held one, which the row has already."""
    symbol, word, token, _ = STATES[tick.protection.state]
    longest = max(len(each.word) for each in STATES.values())
    if tick.protection.state is held:
        word, token = "same", "muted"
    return [
        (f"{symbol} {word:<{longest}}", f"{token} b"),
        (f" {figures.rate(recent.tps):>5}", "tps b"),
    ]
