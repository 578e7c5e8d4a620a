"""Lists over the whole terminal or below the charts: a titled text that scrolls, or rows to choose from with
what the chosen one means below them; and the texts: every event, epoch and server, and the help."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from rich.style import Style
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from replexplorer.core.epochs.table import markdown
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.link import NO_PARTITION, LinkView
from replexplorer.core.load.pacing import HIDES
from replexplorer.core.server.gtid import transactions
from replexplorer.core.server.node_view import LATE_S, NodeView, errant_words, lag_s_of, thread_faults
from replexplorer.core.text import printable, table
from replexplorer.core.tick import Tick
from replexplorer.core.topology import ends_of
from replexplorer.ui.actions import (
    ACTIONS,
    DEFAULT_KEYS,
    EPOCH_LEDGER,
    QUIT,
    DashboardMode,
    bindings_of,
    first_key,
    key_label,
    keys_of,
)
from replexplorer.ui.board import Board
from replexplorer.ui.picture import Picture
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import inks_of, sheet_rows
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.widgets.ledger import CLOCKS, event_rows, heads, rows_of, unprotected_total
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, hint, hung, padded, rule
from replexplorer.ui.words.states import CHIPS, READING, STATES, lag_text

if TYPE_CHECKING:
    from replexplorer.engine.console import Console

Row = TypeVar("Row")
_QUIET: Final = frozenset({"muted", "faint"})
"""Tokens that cannot be read on the ground of what is chosen."""


class Listed(NamedTuple):
    """What a list shows."""

    title: Line
    rows: Sequence[Line]
    """What scrolls; of rows to choose from, what stands below them."""
    head: Sequence[Line] = ()
    """What stands above them."""
    copies: Callable[[], tuple[str, str]] | None = None
    """The text that `ledger.copy` puts on the clipboard, and what it is; None: there is none."""


def drawn(app: App[Any], glyphs: Glyphs, row: Line, *, chosen: bool = False) -> Text:
    """A row in the colors of the app's theme, in its glyphs, with nothing that a terminal would obey; on the
    ground of what is chosen where it is that."""
    inks = inks_of(app)
    parts: list[tuple[str, Style]] = []
    for told, words in cut(row, app.size.width - 1):
        token, _, more = words.partition(" ")
        if chosen:
            token = "text" if token in _QUIET else token
            more += "" if "on" in more.split() else " on select"
        parts.append((glyphs.text(printable(told)), inks.style(f"{token} {more}")))
    return Text.assemble(*parts)


class ListScreen(Screen[None]):
    """A title, fixed rows, a text that scrolls, and the keys."""

    AUTO_FOCUS = "#body"
    DEFAULT_CSS = """
    ListScreen {
        #sheet { dock: bottom; background: $rx-bg; }
        Static { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
        #body, #body:focus {
            height: 1fr; min-height: 3; padding: 0; border: none; background: $rx-bg;
            background-tint: transparent 0%; text-wrap: nowrap; overflow-x: hidden;
            scrollbar-size-vertical: 1;
        }
        #keys { height: 1; }
    }
    """
    HINTS: ClassVar[tuple[tuple[str, str], ...]] = (("↑↓", "scroll"),)
    """What keys do in it, besides those of its title, in a word each."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Back", show=False),
        Binding(DEFAULT_KEYS[QUIT], "close", "Back", show=False, id=QUIT),
        Binding("k", "app.simulate_key('up')", "Up", show=False),
        Binding("j", "app.simulate_key('down')", "Down", show=False),
        Binding("space", "app.simulate_key('pagedown')", "Page down", show=False),
        *bindings_of(EPOCH_LEDGER),
    ]

    def __init__(
        self, settings: Settings, name: str = "", listed: Callable[[int], Listed] | None = None
    ) -> None:
        """`listed` says what is so now, for a width in cells; without it a subclass does."""
        super().__init__(name)
        self.settings = settings
        """How the dashboard was started."""
        self.is_sheet = False
        """The charts above it are left free, except on a tiny terminal."""
        self._listed_by = listed
        self._shown: dict[str, object] = {}

    def compose(self) -> ComposeResult:
        """Title, head, what scrolls, what stands below it, and the keys."""
        with Vertical(id="sheet"):
            yield Static(id="title")
            yield Static(id="head")
            yield from self.body()
            yield Static(id="keys")

    def body(self) -> Sequence[Widget]:
        """What scrolls, and what stands below it."""
        return [VerticalScroll(Static(id="rows"), id="body")]

    def on_mount(self) -> None:
        """Keep it up to date."""
        self._fit()
        self.watch(self.app, "theme", self.fill, init=False)
        self.set_interval(0.5, self.fill)

    def on_resize(self) -> None:
        """Fill the new size."""
        self._fit()
        self.call_after_refresh(self.fill)

    def _fit(self) -> None:
        """Take as many rows as there are for it."""
        size = self.app.size
        rows = sheet_rows(*size) if self.is_sheet else size.height
        self.set_class(rows < size.height, "-sheet")
        self.query_one("#sheet").styles.height = rows

    def listed(self) -> Listed:
        """What is so now."""
        if self._listed_by is None:
            raise NotImplementedError
        return self._listed_by(self.width)

    def fill(self) -> None:
        """Show what is so now."""
        listed = self.listed()
        self._draw("title", [rule(listed.title, [], self.width)])
        self._draw("head", listed.head)
        self._draw("rows", listed.rows)
        closes = " ".join(["esc", *([] if isinstance(self.focused, Input) else [self.key(QUIT)])])
        self._draw("keys", [key_hints((f" {closes}", "back "), *self.HINTS)])

    @property
    def width(self) -> int:
        """Cells of a row next to the scroll bar."""
        return self.app.size.width - 1

    def _draw(self, name: str, rows: Sequence[Line]) -> None:
        """Give a part its rows, where they are others than before."""
        inks = inks_of(self.app)
        if self._shown.get(name) != (inks, rows):
            self._shown[name] = inks, rows
            part = self.query_one(f"#{name}", Static)
            part.display = bool(rows)
            part.update(Text("\n").join(drawn(self.app, self.settings.glyphs, row) for row in rows))

    def key(self, action: str) -> str:
        """The first key of an action, as it is shown."""
        return first_key(action, self.settings.keymap)

    def action_ledger_copy(self) -> None:
        """Put what the list copies on the clipboard, over OSC 52, and say what it was."""
        copies = self.listed().copies
        if copies is not None:
            text, what = copies()
            self.app.copy_to_clipboard(text)
            self.notify(what, title="copied", timeout=4)

    def action_close(self) -> None:
        """Back to the screen behind."""
        self.dismiss()


class ChoiceScreen(ListScreen, Generic[Row]):
    """Rows to choose from; subclasses say which, how each is drawn, and what the chosen one means."""

    HINTS = ("↑↓", "choose"), ("tab", "read on")
    DEFAULT_CSS = """
    ChoiceScreen OptionList > .option-list--option { padding: 0; }
    ChoiceScreen #body > .option-list--option-highlighted { background: $rx-select; }
    ChoiceScreen #details { height: auto; max-height: 55%; scrollbar-size-vertical: 1; }
    """

    def __init__(self, settings: Settings, chosen: Row | None = None) -> None:
        super().__init__(settings)
        self._chosen = chosen
        self._options: list[tuple[Row | None, Text]] = []
        """The rows as they are drawn; None for a heading."""

    def body(self) -> Sequence[Widget]:
        """The rows, what the chosen one means below them."""
        return [OptionList(id="body"), VerticalScroll(Static(id="rows"), id="details")]

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[Row]]]:
        """What can be chosen now, each part with its heading."""
        raise NotImplementedError

    def row(self, row: Row, *, chosen: bool) -> Line:
        """How one is drawn."""
        raise NotImplementedError

    @property
    def chosen(self) -> Row:
        """What is under the cursor: what was chosen while it is there, else the first."""
        rows = [row for _, part in self.parts for row in part]
        return self._chosen if self._chosen is not None and self._chosen in rows else rows[0]

    def fill(self) -> None:
        """Show the rows of now, and what the chosen one means."""
        super().fill()
        options, chosen, before = self.query_one(OptionList), self.chosen, self._options
        glyphs, found = self.settings.glyphs, list[tuple[Row | None, Text]]()
        for heading, part in self.parts:
            if heading and part:
                found.append((None, drawn(self.app, glyphs, [(f" {heading}", "accent b")])))
            for row in part:
                line = self.row(row, chosen=row == chosen)
                found.append((row, drawn(self.app, glyphs, line, chosen=row == chosen)))
        self._options = found
        if [row for row, _ in found] != [row for row, _ in before]:
            options.set_options(Option(text, disabled=row is None) for row, text in found)
            options.highlighted = next(at for at, (row, _) in enumerate(found) if row == chosen)
        else:
            for at, (old, new) in enumerate(zip(before, found, strict=True)):
                if old != new:
                    options.replace_option_prompt_at_index(at, new[1])
        self.call_after_refresh(options.scroll_to_highlight)  # what is below it may take more

    @on(OptionList.OptionHighlighted)
    def _choose(self, event: OptionList.OptionHighlighted) -> None:
        row = self._options[event.option_index][0]
        if row is not None and row != self._chosen:
            self._chosen = row
            self.moved()
            self.fill()

    def moved(self) -> None:
        """The cursor went to another row."""


def key_hints(*hints: tuple[str, str]) -> list[Run]:
    """Keys, each with what it does."""
    return [run for key, word in hints for run in hint(key, f"{word}  ")]


def log_screen(picture: Picture, settings: Settings) -> ListScreen:
    """All events, the newest first."""
    # A long log is filled twice a second and wrapped once.
    wrapped = lru_cache(maxsize=8192)(partial(event_rows, glyphs=settings.glyphs))

    def listed(width: int) -> Listed:
        events, origin_s = picture.shown.log, picture.origin_s
        rows = [row for each in reversed(events) for row in wrapped(each, width=width, origin_s=origin_s)]
        return Listed([("Events ", "title b"), (f"{len(events)} · {CLOCKS}", "muted")], rows)

    return ListScreen(settings, "log", listed)


_TITLE_FROM: Final = 110
"""Cells from which on the title has room for what epochs are compared with."""


def epochs_screen(picture: Picture, board: Board, settings: Settings) -> ListScreen:
    """The epoch ledger, each epoch with the intervals of all its figures."""

    def listed(width: int) -> Listed:
        tick, origin_s = picture.shown.tick, picture.shown.origin_s
        epochs = tick.epochs if tick else ()
        against = " · each against the one before, settling left out" if width >= _TITLE_FROM else ""
        total = unprotected_total(tick.protection.unprotected if tick else None)
        title: Line = [
            ("Epochs ", "title b"),
            *([*total, (" · ", "muted")] if total else []),
            (f"{len(epochs)}{against}   ", "muted"),
            *key_hints((screen.key("ledger.copy"), "copy as Markdown")),
        ]
        newest_first = reversed(board.labelled(epochs))
        rows = [row for each in newest_first for row in rows_of(each, width, settings.glyphs, origin_s)]

        def copies() -> tuple[str, str]:
            return markdown(epochs, origin_s), f"{len(epochs)} epochs as Markdown"

        return Listed(title, rows, [heads(width)], copies)

    screen = ListScreen(settings, "epochs", listed)
    return screen


_NODE_HEADS: Final = ("node", "state", "IO thread", "SQL thread", "lag", "queued", "server")
_SETS_EVERY_S: Final = 1.0
"""What each node has is asked for, while somebody looks."""


class NodesScreen(ListScreen):
    """A row a node, below it what the server says and its link; a held picture's are held as well.

    GTID sets, positions and binlogs are in no tick: they are asked for while it is open.
    """

    def __init__(self, picture: Picture, stack: Console | None, settings: Settings) -> None:
        super().__init__(settings, "nodes")
        self._picture = picture
        self._stack = stack
        self._in_full: Mapping[str, NodeView] = {}

    def on_mount(self) -> None:
        """Ask until it is closed."""
        self._ask()

    @work(exit_on_error=False)
    async def _ask(self) -> None:
        while self._stack is not None:
            with contextlib.suppress(ReplexplorerError):  # asked again
                self._in_full = {node.name: node for node in await self._stack.nodes()}
            await asyncio.sleep(_SETS_EVERY_S)

    def listed(self) -> Listed:
        """What is so now."""
        tick, width = self._picture.shown.tick, self.width
        nodes = tick.nodes if tick else ()
        known = {} if self._picture.is_frozen else self._in_full
        in_full = [known.get(node.name, node) for node in nodes]
        head, *lines = table([_cells(tick, node) for node in nodes if tick], _NODE_HEADS).splitlines()
        rows = [
            row
            for node, full, line in zip(nodes, in_full, lines, strict=True)
            if tick
            for row in (
                [(f" {line}", _ink(tick, node))],
                *_below(tick, node, width),
                *_has(full, in_full, width),
            )
        ]
        title: Line = [("Nodes ", "title b"), (f"{len(nodes)}", "muted")]
        return Listed(title, rows, [[(f" {head}", "faint")]])


def _cells(tick: Tick, node: NodeView) -> tuple[str, ...]:
    """Up or down, or of a group's member the server's own word; its threads and how far it is behind, `-`
    while unknown."""
    state = "up" if node.member is None else node.member.state
    lag_s = lag_s_of(tick.truth, node)
    lag = "" if node.is_source else figures.UNKNOWN if lag_s is None else lag_text(1000 * lag_s)
    applier = tick.applier(node.name)
    port = f":{node.published_port}" if node.published_port and node.machine is None else ""
    server = " ".join(filter(None, (node.flavor, (node.version or "").partition("-")[0], port)))
    return (
        node.name,
        state if node.reachable else "✖ down",
        node.io_thread or "",
        node.sql_thread or "",
        lag,
        "" if applier is None or applier.queued is None else str(applier.queued),
        server,
    )


def _ink(tick: Tick, node: NodeView) -> str:
    """Of a node's row, by the worst in it."""
    threads, member = {node.io_thread, node.sql_thread}, node.member
    if not node.reachable or "error" in threads:
        return "bad b"
    is_late = not node.is_source and (lag_s_of(tick.truth, node) or 0.0) >= LATE_S
    is_well = threads <= {None, "on"} and (member is None or member.is_ready) and not is_late
    return "text" if is_well else "warn b"


def _below(tick: Tick, node: NodeView, width: int) -> list[Line]:
    """What the server says of its threads, how it differs, and its links."""
    rows: list[Line] = []
    wrong = list(thread_faults(node)) if node.replication_fault else []
    if node.diverged is not None:
        wrong.append(f"diverged: {node.diverged}")
    for each in wrong:
        rows += hung([("   ▲ ", "warn b")], each, width, "warn")
    if (applier := tick.applier(node.name)) is not None and applier.pace:
        rows.append([("   applier: ", "muted"), (applier.pace, "text")])
    rows += [_link(link, "link") for link in tick.links if link.replica == node.name]
    pairs = [(link, *ends_of(link.replica)) for link in tick.pairs]
    return rows + [_link(link, f"link to {first}") for link, first, second in pairs if second == node.name]


def _has(node: NodeView, nodes: Sequence[NodeView], width: int) -> list[Line]:
    """What a node has executed, received and logged, as far as it is known."""
    rows: list[Line] = []
    missing, errant, binlogs = node.missing_gtids, errant_words(node, nodes), node.binlogs
    if node.received_to and node.applied_to:
        rows += hung(
            [("   position: ", "muted")], f"received {node.received_to}, applied {node.applied_to}", width
        )
    if binlogs is not None:
        rate = "" if binlogs.bytes_per_s is None else f", grows {binlogs.bytes_per_s:,.0f} bytes/s"
        files = f"{binlogs.files} file{'' if binlogs.files == 1 else 's'} of {binlogs.bytes:,} bytes"
        rows += hung([("   binlogs: ", "muted")], f"{files}, ends at {binlogs.end}{rate}", width)
    if missing is not None:
        told = f"{transactions(missing, 'none')}: {missing}".removesuffix(": ")
        rows += hung([("   missing: ", "muted")], told, width, "warn" if missing else "text")
    for name, gtids, ink in (
        ("errant", errant, "warn"),
        ("executed", node.gtid_executed, "text"),
        ("received", node.retrieved_gtids, "text"),
    ):
        if gtids:
            rows += hung([(f"   {name}: ", "muted")], gtids, width, ink)
    return rows


def _link(link: LinkView, title: str) -> Line:
    """The round trip asked and measured, and what is wrong with the link."""
    measured = "none" if link.rtt_measured_ms is None else f"{figures.round_trip(link.rtt_measured_ms)} ms"
    apart, wrong = link.contradiction, ""
    if link.flap is not None:
        now = "down" if link.is_down else "up"
        wrong = f", flaps {link.flap.down_s:g} s down, {link.flap.up_s:g} s up, {now} now"
    elif link.partition not in (None, NO_PARTITION):
        wrong = f", partition {link.partition}"
    elif link.healing:
        wrong = ", healed, TCP retries"
    if link.fault and link.fault != apart:  # those figures stand in the row already
        wrong += f", {link.fault}"
    return [
        (f"   {title}: asked {link.rtt_asked_ms:g} ms, ", "muted"),
        (f"measured {measured}", "muted" if apart is None else "warn"),
        (wrong, "warn b"),
    ]


def help_screen(settings: Settings, mode: DashboardMode) -> ListScreen:
    """Keys by area, then the states, then the charts, and what each mode of the load hides: drawn from the
    registries, of what can be done in this mode."""
    how = mode.why or "digits type a value with its unit: 2.5ms, 20mbit, 1%; i types a word: auto, none"
    taken = [action for action in ACTIONS if action.method not in mode.refused]

    def entries() -> list[tuple[Line, str]]:
        """Heads, and what hangs next to them."""
        found: list[tuple[Line, str]] = []
        for area, actions in groupby(taken, key=lambda action: action.area):
            for at, action in enumerate(actions):
                bound = keys_of(action.id, settings.keymap)
                keys = " ".join(key_label(key, in_ascii=settings.glyphs.ascii) for key in bound)
                title = mode.titles.get(action.id, action.title)
                if action.id == QUIT and QUIT not in mode.titles:
                    title += f"; {settings.on_quit}s the stack (on_quit = {settings.on_quit})"
                head = [(f"  {'' if at else area:<12}", "muted"), (f"{keys:<20}", "key b")]
                found.append((head, title))
        found += [([], ""), ([(" STATES", "accent b")], "")]
        for symbol, word, token, meaning in STATES.values():
            found.append(
                (padded([("  ", "text"), (f" {symbol} {word} ", f"onstate on {token} b")], 18), meaning)
            )
        found += [([], ""), ([(" LINK   ", "accent b")], "next to the state, while it lasts")]
        found += [(padded([("  ", "text"), (chip, words)], 23), meaning) for chip, words, meaning in CHIPS]
        hidden = [(f"{mode} loop", text.partition(": ")[2]) for mode, text in HIDES.items()]
        found += [([], ""), ([(" READING IT", "accent b")], "")]
        return found + [([(f"  {word:<14}", "title b")], meaning) for word, meaning in (*READING, *hidden)]

    def listed(width: int) -> Listed:
        rows = hung([(" KEYS   ", "accent b")], how, width, "muted")
        rows += [row for head, text in entries() for row in hung(head, text, width)]
        return Listed([("Help ", "title b"), (f"stack {settings.stack}", "muted")], rows)

    return ListScreen(settings, "help", listed)
