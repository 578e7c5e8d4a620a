"""The dashboard before a room: one big number, captions, time and keys; of the knobs those of the lesson."""

from __future__ import annotations

from collections.abc import Iterator

from textual import events
from textual.app import ComposeResult
from textual.widget import Widget

from replexplorer.core.history.caption import headline
from replexplorer.engine.view import View
from replexplorer.ui.desks.labs import LabView
from replexplorer.ui.desks.presenter import Presenter
from replexplorer.ui.keys.actions import key_label, keys_of
from replexplorer.ui.screens.knob_screen import KnobScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.lab_strip import LabStrip
from replexplorer.ui.widgets.presenter_bar import PresenterBar, Shown
from replexplorer.ui.words.staged import stages


class PresentingScreen(KnobScreen):
    """The knobs' screen with a bar for the room."""

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__(view, settings)
        self.presenter = Presenter()
        """What the room is shown."""

    def compose(self) -> ComposeResult:
        """The bar below the header and the lesson's row."""
        yield from _with_bar(super().compose(), PresenterBar(glyphs=self._settings.glyphs, id="presenter"))

    @property
    def lesson(self) -> LabView | None:
        """The lab or drill under way."""
        return None

    def action_present_toggle(self) -> None:
        """Begin to present, or end it."""
        self.presenter.toggle(self._settings.monotonic())
        is_on = self.presenter.is_on
        self.set_class(is_on, "-present")
        self.query_one(LabStrip).brief = is_on
        self._reduce_knobs()
        self._draw_bar()
        self.call_after_refresh(self._draw)

    def note_key(self, event: events.Key) -> None:
        """Show a key that was pressed."""
        if self.presenter.is_on:
            self.presenter.press(event, self._settings.monotonic())
            self._draw_bar()

    def read_back(self) -> None:
        """Read the lesson's caption before."""
        self.presenter.read_back(self.lesson)
        self._draw_bar()

    def read_on(self) -> bool:
        """Read the lesson's next caption; answers whether an earlier one was read."""
        went = self.presenter.read_on(self.lesson)
        self._draw_bar()
        return went

    def _draw_tick(self) -> None:
        tick = self.picture.shown.tick
        if tick is not None:
            self.presenter.fold(tick, self.lesson)
            self._reduce_knobs()
        super()._draw_tick()
        self._draw_bar()

    def _reduce_knobs(self) -> None:
        self.board.reduce(self.presenter.lesson_keys(self.lesson))

    def _draw_bar(self) -> None:
        drawn, lesson, presenter = self.drawn, self.lesson, self.presenter
        if drawn is None or presenter.began_s is None:
            return
        tick, recent = drawn
        now_s = self._settings.monotonic()
        stage, number = presenter.stage(lesson), presenter.stage_number(lesson)
        all_stages = [] if lesson is None else stages(lesson.lab, lesson.step)
        keymap = self._settings.keymap
        self.query_one(PresenterBar).show(
            Shown(
                headline(tick, recent.tps),
                caption=presenter.caption,
                lesson=stage.shows if stage else "",
                stands=f"{number}/{len(all_stages)} {stage.name}" if stage else "",
                is_earlier=presenter.reads is not None,
                longest=max((each.shows for each in all_stages), key=len, default=""),
                timer_s=now_s - presenter.began_s,
                keys=presenter.keys(now_s),
                back=key_label(keys_of("step.prev", keymap)[0]),
                on=key_label(keys_of("step.next", keymap)[0]),
            )
        )


def _with_bar(widgets: ComposeResult, bar: PresenterBar) -> Iterator[Widget]:
    """The bar behind the lesson's row, wherever the screen has that."""
    for widget in widgets:
        yield widget
        if isinstance(widget, LabStrip):
            yield bar
