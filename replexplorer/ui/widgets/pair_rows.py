"""The rows of two stacks: how each is, the knobs of both, and what each change did to either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.reactive import reactive

from replexplorer.core.history.pair import SideChange, StackSide, effect_words
from replexplorer.core.knobs.names import format_value
from replexplorer.core.server.state_words import word_of
from replexplorer.ui.charts.pair import INKS
from replexplorer.ui.desks.twins import BOTH, LETTERS, Twins
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, rule, wrapped

_LABEL_CELLS: Final = 16
_VALUE_CELLS: Final = 10


class PairHead(Lines):
    """A row for each side, B against A, and what that rests on."""

    DEFAULT_CSS = "PairHead { height: 5; }"

    verdict: reactive[str] = reactive("")
    """B against A, in words."""
    footing: reactive[str] = reactive("")
    """What it rests on."""
    sides: Sequence[StackSide] = ()
    """A and B."""

    def paint(self, width: int, height: int) -> list[Line]:
        """The rows."""
        rows: list[Line] = [_side_row(at, side) for at, side in enumerate(self.sides)]
        rows.append([("B against A ", "title b"), (self.verdict, "text b")])
        return [*rows, *([(row, "warn")] for row in wrapped(self.footing, width))]


def _side_row(at: int, side: StackSide) -> Line:
    tick, ink = side.tick, INKS[at]
    head: list[Run] = [(f"{LETTERS[at]} ", f"{ink} b"), (side.name, f"{ink} b")]
    if tick is None:
        return [*head, ("  waiting for the first look", "muted")]
    recent = side.history.recent
    load = tick.load
    clients = "no load" if load is None or load.state == "stopped" else f"{load.clients} clients"
    return [
        *head,
        (f"  {figures.rate(recent.tps)} TPS", "text b"),
        (f"  p95 {figures.millis(recent.latency_ms('p95'))} ms", "text"),
        (f"  {word_of(tick.protection.state)}", "text"),
        (f"  {clients}", "muted"),
        (f"  {side.server}", "muted"),
    ]


class PairKnobs(Lines):
    """One row a knob, with A's value and B's; what a side lacks is said."""

    GROUND = "panel"
    DEFAULT_CSS = "PairKnobs { width: 1fr; }"

    def __init__(self, twins: Twins, *, glyphs: Glyphs = BRAILLE, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._twins = twins

    def paint(self, width: int, height: int) -> list[Line]:
        """As many rows around the cursor as fit."""
        twins, names = self._twins, self._twins.names
        title: list[Run] = [("Knobs ", "title b"), (f"→ {twins.choice}", "accent b")]
        rows: list[Line] = [rule(title, [(f"{len(names)}", "muted")], width)]
        room = max(1, height - 1)
        at = names.index(twins.selected) if twins.selected in names else 0
        top = max(0, min(at - room // 2, len(names) - room))
        for name in names[top : top + room]:
            picked = name == twins.selected
            ground = " on select" if picked else ""
            label = next(board.label(name) for board in twins.boards if name in board.views)
            row: list[Run] = [
                ("▸ " if picked else "  ", f"accent{ground}"),
                (f"{label[:_LABEL_CELLS]:<{_LABEL_CELLS}}", f"text{ground}"),
            ]
            for side, board in enumerate(twins.boards):
                value, ink = "none", f"faint{ground}"
                if name in board.views:
                    asked = board.asked(name)
                    value = format_value(name.knob, asked)
                    moved = name in board.staged or name in board.pending
                    ink = f"{'warn b' if moved else INKS[side]}{ground}"
                row.append((f" {value[:_VALUE_CELLS]:<{_VALUE_CELLS}}", ink))
            rows.append(row)
        return rows


class PairLedger(Lines):
    """What each change did to A beside what it did to B, the newest first."""

    DEFAULT_CSS = "PairLedger { width: 1fr; }"

    changes: reactive[tuple[SideChange, ...]] = reactive(())
    """Oldest first."""
    origin_s: float = 0.0
    """When elapsed time began."""

    def watch_changes(self) -> None:
        """Draw them."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Two rows a change: its title, and its effect on either side."""
        about: list[Run] = [("What changes did ", "title b"), ("after / before", "muted")]
        rows: list[Line] = [rule(about, [], width)]
        for one in reversed(self.changes):
            clock = figures.moment(one.at_s - self.origin_s)
            rows.append([(f" {clock} ", "muted"), (one.title, "text")])
            effects: list[Run] = [("   ", "text")]
            for side, epoch in zip(BOTH, (one.a, one.b), strict=True):
                effects.append((f"{LETTERS[side]} {effect_words(epoch)}   ", INKS[side]))
            rows.append(effects)
        if len(rows) == 1:
            rows.append([(" nothing was changed yet", "muted")])
        return rows
