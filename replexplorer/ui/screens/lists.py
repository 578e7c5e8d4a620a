"""What is read over the whole terminal: every event, epoch and server, and the help."""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import groupby
from typing import ClassVar, Final

from textual.binding import BindingType

from replexplorer.core.epochs.table import markdown
from replexplorer.core.link import NO_PARTITION, LinkView
from replexplorer.core.load.pacing import HIDES
from replexplorer.core.server.node_view import LATE_S, NodeView, lag_s_of
from replexplorer.core.tick import Tick
from replexplorer.core.topology import ends_of
from replexplorer.ui.actions import (
    ACTIONS,
    EPOCH_LEDGER,
    QUIT,
    DashboardMode,
    bindings_of,
    key_label,
    keys_of,
)
from replexplorer.ui.board import Board
from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.listing import ListScreen, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.ledger import CLOCKS, event_rows, heads, rows_of, unprotected_total
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, hung, width_of
from replexplorer.ui.words.states import CHIPS, READING, STATES, contradiction_of, lag_text


class LogScreen(ListScreen):
    """The event log."""

    def __init__(self, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture
        # A long log is filled twice a second and wrapped once.
        self._wrapped = lru_cache(maxsize=8192)(partial(event_rows, glyphs=settings.glyphs))

    def fill(self) -> None:
        """All events, the newest first."""
        events, origin_s = self._picture.shown.log, self._picture.origin_s
        wrapped = (self._wrapped(event, width=self.width, origin_s=origin_s) for event in reversed(events))
        rows = [row for each in wrapped for row in each]
        self.show([("Events ", "title b"), (f"{len(events)} · {CLOCKS}", "muted")], [], rows)


_TITLE_FROM: Final = 110
"""Cells from which on the title has room for what epochs are compared with."""


class EpochLedgerScreen(ListScreen):
    """The epoch table, each epoch with the intervals of all its figures."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of(EPOCH_LEDGER)

    def __init__(self, picture: Picture, board: Board, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture
        self._board = board

    def fill(self) -> None:
        """All rows of the newest tick."""
        picture, width = self._picture.shown, self.width
        tick = picture.tick
        epochs = tuple(reversed(self._board.labelled(tick.epochs))) if tick else ()
        rows = [
            row for each in epochs for row in rows_of(each, width, self.settings.glyphs, picture.origin_s)
        ]
        against = " · each against the one before, settling left out" if width >= _TITLE_FROM else ""
        total = unprotected_total(tick.protection.unprotected if tick else None)
        title: Line = [
            ("Epochs ", "title b"),
            *([*total, (" · ", "muted")] if total else []),
            (f"{len(epochs)}{against}   ", "muted"),
            *key_hints((self.key("ledger.copy"), "copy as Markdown")),
        ]
        self.show(title, [heads(width)], rows)

    def action_ledger_copy(self) -> None:
        """Copy the epoch ledger as Markdown, over OSC 52."""
        tick = self._picture.shown.tick
        epochs = tick.epochs if tick else ()
        self.copy(markdown(epochs, self._picture.shown.origin_s), f"{len(epochs)} epochs as Markdown")


_COLUMNS: Final = (10, 8, 12, 12, 9, 8, 0)
"""Cells of node, state, IO thread, SQL thread, lag, queued transactions and server."""
_THREADS: Final = {
    None: ("", "text"),
    "on": ("on", "good"),
    "off": ("stopped", "warn b"),
    "connecting": ("connecting", "warn b"),
    "error": ("error", "bad b"),
}


class NodesScreen(ListScreen):
    """The nodes; a held picture's are held as well."""

    def __init__(self, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture

    def fill(self) -> None:
        """A row a node, below it what the server says and its link."""
        tick = self._picture.shown.tick
        nodes = tick.nodes if tick else ()
        names = ("node", "state", "IO thread", "SQL thread", "lag", "queued", "server")
        rows = [row for node in nodes if tick for row in _node(tick, node, self.width)]
        self.show(
            [("Nodes ", "title b"), (f"{len(nodes)}", "muted")],
            [_row([(each, "faint") for each in names])],
            rows,
        )


def _node(tick: Tick, node: NodeView, width: int) -> list[Line]:
    """One node: up or down, or of a group's member the server's own word; its threads and how far it is
    behind, `-` while nobody knows."""
    state = ("✖ down", "bad b")
    if node.reachable:
        member = node.member
        state = ("up", "good")
        if member is not None:
            state = (member.state, "good" if member.is_ready else "warn b")
    lag_s, lag = lag_s_of(tick.truth, node), (figures.UNKNOWN, "muted")
    if node.is_source:
        lag = ("", "text")
    elif lag_s is not None:
        lag = (lag_text(1000 * lag_s), "warn b" if lag_s >= LATE_S else "text")
    queued = {each.name: each.queued for each in (tick.truth.replicas if tick.truth else ())}.get(node.name)
    port = f":{node.published_port}" if node.published_port and node.machine is None else ""
    server = " ".join(filter(None, (node.flavor, (node.version or "").partition("-")[0], port)))
    threads = [_THREADS.get(each, (str(each), "warn b")) for each in (node.io_thread, node.sql_thread)]
    rows: list[Line] = [
        _row(
            [
                (node.name, "title b"),
                state,
                *threads,
                lag,
                ("" if queued is None else str(queued), "text"),
                (server, "text"),
            ]
        )
    ]
    if node.replication_fault:
        rows += hung([("   ▲ ", "warn b")], node.replication_fault, width, "warn")
    if node.transfer is not None:
        rows += hung([("   ▸ ", "warn b")], node.transfer.words, width)
    rows += [_link(link, "link") for link in tick.links if link.replica == node.name]
    pairs = [(link, *ends_of(link.replica)) for link in tick.pairs]
    return rows + [_link(link, f"link to {first}") for link, first, second in pairs if second == node.name]


def _link(link: LinkView, title: str) -> Line:
    """The round trip asked and measured, and what is wrong with the link."""
    measured = "none" if link.rtt_measured_ms is None else f"{figures.round_trip(link.rtt_measured_ms)} ms"
    apart = contradiction_of(link)
    row: list[Run] = [
        (f"   {title}: asked {link.rtt_asked_ms:g} ms, ", "muted"),
        (f"measured {measured}", "muted" if apart is None else "warn"),
    ]
    if link.flap is not None:
        now = "down" if link.is_down else "up"
        row.append((f", flaps {link.flap.down_s:g} s down, {link.flap.up_s:g} s up, {now} now", "warn b"))
    elif link.partition not in (None, NO_PARTITION):
        row.append((f", partition {link.partition}", "warn b"))
    elif link.healing:
        row.append((", healed, TCP retries", "warn b"))
    if link.fault and link.fault != apart:  # those figures stand in the row already
        row.append((f", {link.fault}", "warn"))
    return row


def _row(cells: list[Run]) -> Line:
    """The cells in their columns."""
    columns = zip(cells, _COLUMNS, strict=True)
    return [
        (" ", "text"),
        *(run for cell, cells in columns for run in (cell, (" " * max(1, cells - width_of([cell])), "text"))),
    ]


class HelpScreen(ListScreen):
    """Keys and states, drawn from the registries, of what can be done in this mode."""

    def __init__(self, settings: Settings, mode: DashboardMode) -> None:
        super().__init__(settings)
        self._mode = mode

    def fill(self) -> None:
        """Keys by area, then the states, then the charts, and what each mode of the load hides."""
        width, mode, settings = self.width, self._mode, self.settings
        how = mode.why or "digits type a value with its unit: 2.5ms, 20mbit, 1%; i types a word: auto, none"
        rows = hung([(" KEYS   ", "accent b")], how, width, "muted")
        taken = [action for action in ACTIONS if action.method not in mode.refused]
        for area, actions in groupby(taken, key=lambda action: action.area):
            for at, action in enumerate(actions):
                bound = keys_of(action.id, settings.keymap)
                keys = " ".join(key_label(key, in_ascii=settings.glyphs.ascii) for key in bound)
                title = mode.titles.get(action.id, action.title)
                if action.id == QUIT and QUIT not in mode.titles:
                    title += f"; {settings.on_quit}s the stack (on_quit = {settings.on_quit})"
                head: Line = [(f"  {'' if at else area:<12}", "muted"), (f"{keys:<20}", "key b")]
                rows += hung(head, title, width)
        rows += [[], [(" STATES", "accent b")]]
        for symbol, word, token, meaning in STATES.values():
            rows += hung(
                [("  ", "text"), *_chip(f" {symbol} {word} ", f"onstate on {token} b", 16)], meaning, width
            )
        rows += [[], [(" LINK", "accent b"), ("   beside the state, while it lasts", "muted")]]
        for chip, words, meaning in CHIPS:
            rows += hung([("  ", "text"), *_chip(chip, words, 21)], meaning, width)
        rows += [[], [(" READING IT", "accent b")]]
        for word, meaning in (
            *READING,
            *((f"{mode} loop", text.partition(": ")[2]) for mode, text in HIDES.items()),
        ):
            rows += hung([(f"  {word:<14}", "title b")], meaning, width)
        self.show([("Help ", "title b"), (f"stack {settings.stack}", "muted")], [], rows)


def _chip(text: str, words: str, cells: int) -> list[Run]:
    return [(text, words), (" " * max(1, cells - len(text)), "text")]
