"""Another stack beside the dashboard's own: which one is asked, and both are compared on a screen over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from textual import work
from textual.binding import Binding, BindingType

from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.pair import Overheard, PairedViews
from replexplorer.engine.view import View
from replexplorer.ui.keys.actions import DEFAULT_KEYS, PAIR_OVER_FOOTER, QUIT, key_label, keys_of
from replexplorer.ui.screens.compare import CompareScreen
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.screens.presenting import PresentingScreen
from replexplorer.ui.settings import Neighbours, Settings
from replexplorer.ui.words.runs import Line

_LOAD: Final = "load.toggle"
NO_OTHER = "no other stack to compare with: `replexplorer up --stack NAME` makes one"


class NeighbouringScreen(PresentingScreen):
    """The picture with the key that puts another stack beside it; its own load and recording go on."""

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__(view, settings)
        self.beside: View | None = None
        """The other stack, from when it is started until it is closed."""

    @property
    def _experiment(self) -> str:
        """The lab or sweep under way, which another load would weigh on."""
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing to compare with where nobody knows other stacks."""
        if action == "compare_open" and self._settings.neighbours is None:
            return False
        return super().check_action(action, parameters)

    def action_compare_open(self) -> None:
        """Ask with which other stack to compare."""
        neighbours = self._settings.neighbours
        if neighbours is None:
            return
        if self._experiment:
            self._warn(f"{self._experiment} runs: the other stack's load would weigh on it; end it first")
        elif self.beside is not None:
            self._warn("the other stack's load is still starting or stopping: try again in a moment")
        else:
            self._offer(neighbours)

    def _warn(self, text: str) -> None:
        self.notify(text, severity="warning", timeout=6)

    @work(exclusive=True, group="neighbours", exit_on_error=False)
    async def _offer(self, neighbours: Neighbours) -> None:
        try:
            names = await neighbours.names()
        except ReplexplorerError as error:
            self.notify(str(error), title="compare failed", severity="error", timeout=10)
            return
        if not names:
            self._warn(NO_OTHER)
        elif self.is_current:
            self.app.push_screen(NeighboursScreen(names, self._open_beside, self._settings))

    def _open_beside(self, name: str, loads: bool) -> None:
        """Show both; where it `loads`, the other stack's load is started for that."""
        neighbours = self._settings.neighbours
        if neighbours is not None and self.beside is None:
            self.beside = neighbours.view(name, loads)
            doing = "starting the load of" if loads else "attaching to"
            self.notify(f"{doing} stack {name}…", timeout=4)
            self._start_beside(neighbours, self.beside, name)

    @work(group="beside", exit_on_error=False)
    async def _start_beside(self, neighbours: Neighbours, view: View, name: str) -> None:
        own = Overheard(self._view)
        views = PairedViews(own, view, (self._settings.stack, name))
        try:
            await views.start(lambda _: None)
        except Exception as error:  # a defect of the other stack must not end this one's dashboard
            why = str(error) if isinstance(error, ReplexplorerError) else f"{type(error).__name__}: {error}"
            self.notify(why, title=f"compare with {name} failed", severity="error", timeout=10)
            await self._close_beside(tell=False)
            return
        self.overheard = own
        screen = ComparisonScreen(views, self._settings, neighbours.machine)
        self.app.push_screen(screen, self._leave_beside)

    def _leave_beside(self, _: None) -> None:
        self.overheard = None
        self.run_worker(self._close_beside(tell=True), group="beside", exit_on_error=False)

    async def _close_beside(self, *, tell: bool) -> None:
        """Stop the other stack's load; the stack keeps running."""
        if self.beside is None:
            return
        try:
            line = await self.beside.close(keep=True)
        except Exception as error:  # whatever it is, this dashboard goes on
            line = f"closing failed: {type(error).__name__}: {error}"
        self.beside = None
        if tell and line:
            self.notify(line, timeout=6)


class NeighboursScreen(ListingScreen):
    """The other stacks, one of them chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose(True)", "Start its load, show both", show=False),
        Binding(DEFAULT_KEYS[_LOAD], "choose(False)", "Show both as they are", show=False, id=_LOAD),
    ]

    def __init__(self, names: Sequence[str], choose: Callable[[str, bool], None], settings: Settings) -> None:
        super().__init__(settings)
        self._names = names
        self._choose = choose
        self._at = 0

    def fill(self) -> None:
        """A row a stack, and what is done with it."""
        about: Line = [
            ("Compare ", "title b"),
            (f"A is {self.settings.stack}, B:   ", "muted"),
            ("Enter", "key b"),
            (" start its load, show both   ", "muted"),
            (key_label(keys_of(_LOAD, self.settings.keymap)[0]), "key b"),
            (" leave it at rest", "muted"),
        ]
        body: list[Line] = [
            [("▸ ", "accent"), (name, "text b on select")]
            if at == self._at
            else [("  ", "text"), (name, "text")]
            for at, name in enumerate(self._names)
        ]
        self.listing.arrows_do = "choose"
        self.listing.show(about, [], body)

    def action_scroll_by(self, rows: int) -> None:
        """Move the cursor."""
        self._at = max(0, min(len(self._names) - 1, self._at + rows))
        self.fill()
        self.listing.reveal(self._at, self._at)

    def action_scroll_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        self.action_scroll_by(pages * self.listing.page_rows)

    def action_choose(self, loads: bool) -> None:
        """Compare with the chosen one; where it `loads`, its load is started."""
        self.dismiss()
        self._choose(self._names[self._at], loads)


class ComparisonScreen(CompareScreen):
    """Two stacks on one screen over the dashboard of A."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(DEFAULT_KEYS[QUIT], "close", "Back", show=False, id=QUIT)
    ]
    HINTS = PAIR_OVER_FOOTER

    def action_knob_revert(self) -> None:
        """Drop what is staged; with nothing staged, back to the dashboard."""
        if any(board.staged for board in self.twins.boards):
            super().action_knob_revert()
        else:
            self.action_close()

    def action_close(self) -> None:
        """Back to the dashboard."""
        self.dismiss()
