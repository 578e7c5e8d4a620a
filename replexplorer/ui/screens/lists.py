"""The lists over the whole terminal: every event, every epoch, every server."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.binding import BindingType

from replexplorer.core.epochs.table import markdown
from replexplorer.core.event import Event
from replexplorer.core.link import NO_PARTITION, LinkView
from replexplorer.core.server.node_view import LATE_S, NodeView, lag_s_of
from replexplorer.core.tick import Tick
from replexplorer.core.topology import ends_of
from replexplorer.ui.actions import EPOCH_LEDGER, bindings_of
from replexplorer.ui.screens.listing import ListingScreen, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.state.board import Board
from replexplorer.ui.state.picture import Picture
from replexplorer.ui.widgets.epoch_table import heads, rows_of, unprotected_total
from replexplorer.ui.widgets.event_log import CLOCKS, event_rows
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, hung, width_of
from replexplorer.ui.words.states import contradiction_of, lag_text


class LogScreen(ListingScreen):
    """The event log over the whole terminal."""

    def __init__(self, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture
        self._wrapped: dict[tuple[Event, int, float], list[Line]] = {}
        """Rows by event, width and origin: a long log is filled twice a second and wrapped once."""

    def fill(self) -> None:
        """All rows."""
        events, width = self._picture.shown.log, self.app.size.width - 1
        rows = [row for event in reversed(events) for row in self._rows(event, width)]
        self.listing.show([("Events ", "title b"), (f"{len(events)} · {CLOCKS}", "muted")], [], rows)

    def _rows(self, event: Event, width: int) -> list[Line]:
        origin_s = self._picture.origin_s
        key = (event, width, origin_s)
        if key not in self._wrapped:
            self._wrapped[key] = event_rows(event, self.settings.glyphs, width, origin_s)
        return self._wrapped[key]


_TITLE_FROM: Final = 110
"""Cells from which on the title has room for what epochs are compared with."""


class EpochLedgerScreen(ListingScreen):
    """The epoch table over the whole terminal, each epoch with the intervals of all its figures."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of(EPOCH_LEDGER)

    def __init__(self, picture: Picture, board: Board, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture
        self._board = board

    def fill(self) -> None:
        """All rows of the newest tick."""
        tick = self._picture.shown.tick
        width = self.app.size.width - 1
        epochs = tuple(reversed(self._board.labelled(tick.epochs))) if tick else ()
        body: list[Line] = []
        for epoch in epochs:
            body += rows_of(epoch, width, self.settings.glyphs, self._picture.shown.origin_s)
        against = " · each against the one before, settling left out" if width >= _TITLE_FROM else ""
        about: Line = [
            ("Epochs ", "title b"),
            (f"{len(epochs)}{against}   ", "muted"),
            *key_hints((self.key("ledger.copy"), "copy as Markdown")),
        ]
        if total := unprotected_total(tick.protection.unprotected if tick else None):
            about = [*about[:1], *total, (" · ", "muted"), *about[1:]]
        self.listing.show(about, [heads(width)], body)

    def action_ledger_copy(self) -> None:
        """Copy the epoch ledger as Markdown, over OSC 52."""
        tick = self._picture.shown.tick
        epochs = tick.epochs if tick else ()
        self.copy(markdown(epochs, self._picture.shown.origin_s), f"{len(epochs)} epochs as Markdown")


_COLUMNS: Final = (10, 8, 12, 12, 9, 8)
"""Cells of node, state, IO thread, SQL thread, lag and queued transactions; the server stands behind."""
_THREADS: Final = {
    "on": ("on", "good"),
    "off": ("stopped", "warn b"),
    "connecting": ("connecting", "warn b"),
    "error": ("error", "bad b"),
}


class NodesScreen(ListingScreen):
    """The nodes over the whole terminal; a held picture's are held as well."""

    def __init__(self, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture

    def fill(self) -> None:
        """A row a node, below it what the server says and its link."""
        tick = self._picture.shown.tick
        nodes = tick.nodes if tick else ()
        names = ("node", "state", "IO thread", "SQL thread", "lag", "queued", "server")
        head = _row([(name, "faint") for name in names])
        body = [row for node in nodes if tick for row in _rows(tick, node, self.app.size.width - 1)]
        self.listing.show([("Nodes ", "title b"), (f"{len(nodes)}", "muted")], [head], body)


def _rows(tick: Tick, node: NodeView, width: int) -> list[Line]:
    """One node."""
    state = _state(node)
    port = f" :{node.published_port}" if node.published_port and node.machine is None else ""
    version = (node.version or "").partition("-")[0]
    server = (f"{node.flavor or ''} {version}{port}".strip(), "text")
    queued = next(
        (each.queued for each in (tick.truth.replicas if tick.truth else ()) if each.name == node.name), None
    )
    rows: list[Line] = [
        _row(
            [
                (node.name, "title b"), state, _thread(node.io_thread), _thread(node.sql_thread),
                _lag(tick, node), ("" if queued is None else str(queued), "text"), server,
            ]
        )
    ]  # fmt: skip
    if node.replication_fault:
        rows += hung([("   ▲ ", "warn b")], node.replication_fault, width, "warn")
    if node.transfer is not None:
        rows += hung([("   ▸ ", "warn b")], node.transfer.words, width, "text")
    rows += [_link(link, "link") for link in tick.links if link.replica == node.name]
    return rows + [
        _link(link, f"link to {ends_of(link.replica)[0]}")
        for link in tick.pairs
        if ends_of(link.replica)[1] == node.name
    ]


def _state(node: NodeView) -> Run:
    """Up or down; of a group's member the server's own word."""
    if not node.reachable:
        return ("✖ down", "bad b")
    if node.member is None:
        return ("up", "good")
    return (node.member.state, "good" if node.member.is_ready else "warn b")


def _thread(state: str | None) -> Run:
    """A thread's state; nothing for a primary."""
    return ("", "text") if state is None else _THREADS.get(state, (state, "warn b"))


def _lag(tick: Tick, node: NodeView) -> Run:
    """How far a replica is behind; `-` while nobody knows."""
    if node.is_source:
        return ("", "text")
    lag_s = lag_s_of(tick.truth, node)
    if lag_s is None:
        return (figures.UNKNOWN, "muted")
    return (lag_text(1000 * lag_s), "warn b" if lag_s >= LATE_S else "text")


def _link(link: LinkView, title: str) -> Line:
    """The round trip asked and measured, and what is wrong with the link."""
    measured = "none" if link.rtt_measured_ms is None else f"{figures.round_trip(link.rtt_measured_ms)} ms"
    apart = contradiction_of(link) is not None
    row: list[Run] = [
        (f"   {title}: asked {link.rtt_asked_ms:g} ms, ", "muted"),
        (f"measured {measured}", "warn" if apart else "muted"),
    ]
    if link.flap is not None:
        now = "down" if link.is_down else "up"
        row.append((f", flaps {link.flap.down_s:g} s down, {link.flap.up_s:g} s up, {now} now", "warn b"))
    elif link.partition not in (None, NO_PARTITION):
        row.append((f", partition {link.partition}", "warn b"))
    elif link.healing:
        row.append((", healed, TCP retries", "warn b"))
    if link.fault and link.fault != contradiction_of(link):  # those figures stand in the row already
        row.append((f", {link.fault}", "warn"))
    return row


def _row(cells: list[Run]) -> Line:
    """The cells in their columns."""
    row: list[Run] = [(" ", "text")]
    for at, cell in enumerate(cells):
        row.append(cell)
        if at < len(_COLUMNS):
            end = 1 + sum(_COLUMNS[: at + 1])
            row.append((" " * max(1, end - width_of(row)), "text"))
    return row
