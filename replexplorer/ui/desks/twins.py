"""The knobs of two stacks under one cursor: what is turned on A, on B or on both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.knobs.names import KnobName
from replexplorer.ui.desks.board import Board

LETTERS: Final = ("A", "B")
BOTH: Final = (0, 1)
CHOICES: Final[tuple[tuple[int, ...], ...]] = (BOTH, (0,), (1,))
"""Which sides a knob turns, in the order of the key."""


@dataclass(slots=True)
class Twins:
    """Two boards and the side that is chosen."""

    boards: tuple[Board, Board] = field(default_factory=lambda: (Board(), Board()))
    chosen: tuple[int, ...] = BOTH
    selected: KnobName | None = None

    @property
    def names(self) -> tuple[KnobName, ...]:
        """Knobs of either side; seldom ones only where they are not at their default."""
        a, b = (board.views for board in self.boards)
        found = tuple(name for name in dict.fromkeys([*a, *b]) if self._is_shown(name))
        if self.selected not in found:
            self.selected = found[0] if found else None
        return found

    def _is_shown(self, name: KnobName) -> bool:
        views = [board.views[name] for board in self.boards if name in board.views]
        return (
            not name.knob.seldom
            or name == self.selected
            or any(view.requested != view.default for view in views)
        )

    def choose_next(self) -> None:
        """Both, A, B, and around."""
        self.chosen = CHOICES[(CHOICES.index(self.chosen) + 1) % len(CHOICES)]

    @property
    def choice(self) -> str:
        """`A`, `B`, `both`."""
        return "both" if self.chosen == BOTH else LETTERS[self.chosen[0]]

    def move(self, rows: int) -> None:
        """Move the cursor; the ends hold."""
        names = self.names
        if self.selected is not None:
            self.selected = names[max(0, min(len(names) - 1, names.index(self.selected) + rows))]

    def step(self, direction: int, now_s: float, *, coarse: bool = False) -> tuple[str, ...]:
        """Stage the next value of the selected knob, on both the same one; answers the letters of those
        chosen sides that have no such knob."""
        name = self.selected
        if name is None:
            return ()
        having = [at for at in self.chosen if name in self.boards[at].views]
        if having:
            first = self.boards[having[0]]
            first.select(name)
            first.step(direction, now_s, coarse=coarse)
            for at in having[1:]:
                self.boards[at].stage(name, first.asked(name), now_s)
        return tuple(LETTERS[at] for at in self.chosen if at not in having)

    def revert(self) -> None:
        """Drop what is staged."""
        for board in self.boards:
            board.revert()
