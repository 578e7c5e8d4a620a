"""Keys and states, drawn from the registries; a knob's help stands beside it."""

from __future__ import annotations

from itertools import groupby

from replexplorer.core.load.pacing import HIDES
from replexplorer.ui.actions import ACTIONS, QUIT, DashboardMode, key_label, keys_of
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.words.runs import Line, hung
from replexplorer.ui.words.states import CHIPS, READING, STATES


class HelpScreen(ListingScreen):
    """The help over the whole terminal, of what can be done in this mode."""

    def __init__(self, settings: Settings, mode: DashboardMode) -> None:
        super().__init__(settings)
        self._mode = mode

    def fill(self) -> None:
        """Keys by area, then the states, then the charts."""
        width = self.app.size.width
        body = [*self._keys(width), [], *_states(width), [], *_reading(width)]
        self.listing.show([("Help ", "title b"), (f"stack {self.settings.stack}", "muted")], [], body)

    def _keys(self, width: int) -> list[Line]:
        how = "digits type a value with its unit: 2.5ms, 20mbit, 1%; i types a word: auto, none"
        rows = hung([(" KEYS   ", "accent b")], self._mode.why or how, width, "muted")
        taken = [action for action in ACTIONS if action.method not in self._mode.refused]
        for area, actions in groupby(taken, key=lambda action: action.area):
            for at, action in enumerate(actions):
                bound = keys_of(action.id, self.settings.keymap)
                keys = " ".join(key_label(key, in_ascii=self.settings.glyphs.ascii) for key in bound)
                title = self._mode.titles.get(action.id, action.title)
                if action.id == QUIT and QUIT not in self._mode.titles:
                    what = "keeps" if self.settings.on_quit == "keep" else "removes"
                    title = f"{title}; {what} the stack (on_quit = {self.settings.on_quit})"
                head: Line = [(f"  {area if at == 0 else '':<12}", "muted"), (f"{keys:<20}", "key b")]
                rows += hung(head, title, width)
        return rows


def _states(width: int) -> list[Line]:
    rows: list[Line] = [[(" STATES", "accent b")]]
    for symbol, word, token, meaning in STATES.values():
        block = (f" {symbol} {word} ", f"onstate on {token} b")
        rows += hung([("  ", "text"), block, (" " * max(1, 16 - len(block[0])), "text")], meaning, width)
    rows += [[], [(" LINK", "accent b"), ("   beside the state, while it lasts", "muted")]]
    for chip, words, meaning in CHIPS:
        gap = " " * max(1, 21 - len(chip))
        rows += hung([("  ", "text"), (chip, words), (gap, "text")], meaning, width)
    return rows


def _reading(width: int) -> list[Line]:
    """What the charts and the rows below them show, and what each mode of the load hides."""
    rows: list[Line] = [[(" READING IT", "accent b")]]
    told = (*READING, *((f"{mode} loop", text.partition(": ")[2]) for mode, text in HIDES.items()))
    for word, meaning in told:
        rows += hung([(f"  {word:<14}", "title b")], meaning, width)
    return rows
