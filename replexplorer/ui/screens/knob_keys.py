"""The keys that select a knob and step through its values, on every screen that has knobs."""

from __future__ import annotations


class KnobKeys:
    """Their actions; a screen says what a move and a step do there."""

    def action_knob_prev(self) -> None:
        """Select the knob above."""
        self._move(-1)

    def action_knob_next(self) -> None:
        """Select the knob below."""
        self._move(1)

    def action_knob_less(self) -> None:
        """Stage one step less."""
        self._step(-1)

    def action_knob_more(self) -> None:
        """Stage one step more."""
        self._step(1)

    def action_knob_coarse_less(self) -> None:
        """Stage a coarse step less."""
        self._step(-1, coarse=True)

    def action_knob_coarse_more(self) -> None:
        """Stage a coarse step more."""
        self._step(1, coarse=True)

    def _move(self, rows: int) -> None:
        """Select the knob this number of rows below; above where it is negative."""
        raise NotImplementedError

    def _step(self, direction: int, *, coarse: bool = False) -> None:
        """Stage the next value in this direction."""
        raise NotImplementedError
