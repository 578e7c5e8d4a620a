"""Keys, states and knobs, drawn from the registries."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from replexplorer.core.knobs.names import CATALOGUE, describe_default, describe_range
from replexplorer.core.load.pacing import HIDES
from replexplorer.ui.keys.actions import ACTIONS, QUIT, key_label, keys_of
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.words.runs import Line, hung, width_of
from replexplorer.ui.words.states import CHIPS, READING, STATES

_COLUMN = 34


class HelpScreen(ListingScreen):
    """The help over the whole terminal.

    `refused` are the methods of actions that the screen below does not take, `why` says it in a line;
    `titles`, by an action's id, are of those that do something else there.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        refused: frozenset[str] = frozenset(),
        why: str = "",
        titles: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(settings)
        self._refused = refused
        self._why = why
        self._titles = titles or {}

    def fill(self) -> None:
        """Keys by area, then the states, then the knobs."""
        width = self.app.size.width
        body = [*self._keys(width), [], *_states(width), [], *_reading(width), []]
        body += _knobs(
            width, takes_steps="knob_more" not in self._refused and "knob.more" not in self._titles
        )
        self.listing.show([("Help ", "title b"), (f"stack {self.settings.stack}", "muted")], [], body)

    def _keys(self, width: int) -> list[Line]:
        how = "digits type a value with its unit: 2.5ms, 20mbit, 1%; i types a word: auto, none"
        rows = hung([(" KEYS   ", "accent b")], self._why or how, width, "muted")
        taken = [action for action in ACTIONS if action.method not in self._refused]
        for area, actions in groupby(taken, key=lambda action: action.area):
            for at, action in enumerate(actions):
                bound = keys_of(action.id, self.settings.keymap)
                keys = " ".join(key_label(key, in_ascii=self.settings.glyphs.ascii) for key in bound)
                title = self._titles.get(action.id, action.title)
                if action.id == QUIT and QUIT not in self._titles:
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


def _knobs(width: int, *, takes_steps: bool) -> list[Line]:
    how = "   ←→ stages, a rest of 0.6 s or Enter applies" if takes_steps else ""
    rows: list[Line] = [[(" KNOBS", "accent b"), (how, "muted")]]
    for knob in CATALOGUE:
        text = f"{knob.help} {describe_range(knob)}; default {describe_default(knob)}."
        if knob.risk:
            text += f" ▲ {knob.risk}."
        label: Line = [("  ", "text"), (knob.key, "title b")]
        if width_of(label) >= _COLUMN:
            rows.append(label)
            label = []
        rows += hung([*label, (" " * (_COLUMN - width_of(label)), "text")], text, width)
    return rows
