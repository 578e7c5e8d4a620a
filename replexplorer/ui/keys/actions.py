"""The one registry of what a key can do: bindings, footer, help, palette and keymap come from it.

Law: an action's method is `action_` plus its id with `_` for `.`; nothing else names a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a key does."""

    id: str
    """`area.verb`: the binding id, and the name in keys.toml."""
    keys: str
    """Default keys, comma-separated, by their Textual names."""
    title: str
    """`Verb thing`, for the palette and the help."""
    listed: bool = True
    """Offered by the command palette (moving the selection is not)."""

    @property
    def area(self) -> str:
        """The first part of the id, as the palette and the help group it."""
        return self.id.partition(".")[0].replace("_", " ").replace("semisync", "semi-sync")

    @property
    def method(self) -> str:
        """Name of the action without `action_`."""
        return self.id.replace(".", "_")


DASHBOARD: Final[tuple[Action, ...]] = (
    Action("knob.prev", "up,k", "Select the knob above", listed=False),
    Action("knob.next", "down,j", "Select the knob below", listed=False),
    Action("knob.less", "left,h", "Stage one step less", listed=False),
    Action("knob.more", "right,l", "Stage one step more", listed=False),
    Action("knob.coarse_less", "shift+left,H", "Stage a coarse step less", listed=False),
    Action("knob.coarse_more", "shift+right,shift+l", "Stage a coarse step more", listed=False),
    Action("knob.type", "i", "Type a value: a figure with its unit, or a word (auto, none)"),
    Action("knob.apply", "enter", "Apply the staged value now; open all knobs on a small screen"),
    Action("knob.revert", "escape", "Drop the staged value, the filter or the drawer"),
    Action("knob.filter", "slash", "Filter the knobs by name or help"),
    Action("knob.undo", "u", "Undo the last change"),
    Action("semisync.toggle", "s", "Turn semi-sync on or off"),
    Action("wait_point.toggle", "w", "Switch AFTER_SYNC and AFTER_COMMIT"),
    Action("fault.partition", "p", "Cut every link, both ways"),
    Action("fault.heal", "r", "Heal every link"),
    Action(
        "fault.open",
        "F",
        "Open the faults: break something, clear it; failover, switchover, rejoin",
    ),
    Action("load.toggle", "x", "Stop or start the background load"),
    Action("mark.add", "m", "Put a numbered mark on the charts"),
    Action("chart.freeze", "space", "Freeze or release the picture (the load runs on)"),
    Action("chart.zoom_in", "plus,equals_sign", "Show less time"),
    Action("chart.zoom_out", "minus", "Show more time"),
    Action("chart.yscale", "y", "Switch the TPS axis: linear, log"),
    Action("chart.heat", "d", "Show latency as percentile lines or as a density"),
    Action("chart.exposure", "e", "Show what a failure now would lose as a chart, in place of another"),
    Action("present.toggle", "z", "Present: a big number, captions, keys and time for a room; or end it"),
    Action("view.next", "v", "Switch the chart on a small screen"),
    Action("stack.reset", "R", "Reset all knobs to their defaults (one undo)"),
    Action("stack.repair", "f", "Repair: start dead nodes and stopped replication threads again"),
    Action("nodes.open", "N", "Open the nodes: replication threads, lag, links"),
    Action("statement.copy", "Y", "Copy the statement and its undo"),
    Action("ledger.open", "g", "Open the epoch ledger"),
    Action("log.open", "L", "Open the event log"),
    Action("sweep.open", "S", "Open the sweep: every combination of some knobs, measured"),
    Action("lab.open", "o", "Open the labs: run a published experiment, see what it found"),
    Action("compare.open", "C", "Compare with another stack: both on one screen, turned apart or together"),
)
"""Actions of the dashboard itself."""

CONDUCTOR: Final[tuple[Action, ...]] = (
    Action("lab.pause", "P", "Hold the lab before its next phase, or let it go on"),
    Action("lab.abort", "A", "Abort the lab and restore its knobs"),
    Action("step.next", "n", "Next phase of a lab; next mark of a replay"),
    Action(
        "step.prev",
        "b",
        "Presenting: the lesson's caption before; in a replay: the mark before",
        listed=False,
    ),
)
"""A presenter's hand on the lab that runs."""

PLAYER: Final[tuple[Action, ...]] = (
    Action("replay.faster", "greater_than_sign", "Play faster (in a replay)", listed=False),
    Action("replay.slower", "less_than_sign", "Play slower (in a replay)", listed=False),
)
"""Actions of a replay alone; space pauses it, and the arrows that stage a value seek in it."""

EPOCH_LEDGER: Final[tuple[Action, ...]] = (
    Action("ledger.copy", "c", "Copy the ledger as Markdown (in it, and in compare)", listed=False),
)
"""Actions of the epoch ledger's screen."""

_SIDE: Final = Action("side.next", "a", "Turn knobs of both stacks, of A, of B (in compare)", listed=False)
_SHARED: Final = (
    "knob.prev", "knob.next", "knob.less", "knob.more", "knob.coarse_less", "knob.coarse_more", "knob.apply",
    "knob.revert", "knob.undo", "load.toggle", "chart.freeze", "chart.zoom_in", "chart.zoom_out",
    "chart.exposure",
)  # fmt: skip
COMPARED: Final[tuple[Action, ...]] = (
    _SIDE,
    *(one for one in DASHBOARD if one.id in _SHARED),
    *EPOCH_LEDGER,
)
"""Actions of the screen of two stacks."""

QUIT: Final = "app.quit"
"""Id of what `q` does: it closes what is open, and quits on the dashboard."""

EVERYWHERE: Final[tuple[Action, ...]] = (
    Action("theme.next", "t", "Switch to the next theme"),
    Action("palette", "ctrl+p", "Open the command palette", listed=False),
    Action("help", "question_mark", "Show keys and states"),
    Action(QUIT, "q", "Close what is open, or quit (asks while a load runs; ctrl+c quits at once)"),
)
"""Actions of every screen."""

LEAVE_KEY: Final = "ctrl+c"
"""Quits at once, whatever is open; not in the keymap, so that there always is a way out."""

ACTIONS: Final[tuple[Action, ...]] = DASHBOARD + CONDUCTOR + PLAYER + EPOCH_LEDGER + (_SIDE,) + EVERYWHERE
"""All of them, in the order of the help."""

DEFAULT_KEYS: Final[Mapping[str, str]] = {action.id: action.keys for action in ACTIONS}
"""Keys by binding id as they are without keys.toml."""


@dataclass(frozen=True, slots=True)
class FooterItem:
    """One hint of the footer: the first keys of some actions and a word."""

    actions: tuple[str, ...]
    word: str
    rank: int
    """When the width is short, the highest rank goes first."""
    layouts: str = "wnc"
    """Layouts that show it: wide, normal, compact."""
    when: str = ""
    """Shown only in this condition: `down` (a node is down, or a replication thread is stopped)."""


FOOTER: Final[tuple[FooterItem, ...]] = (
    FooterItem(("stack.repair",), "repair", 0, when="down"),
    FooterItem(("knob.prev", "knob.next"), "knob", 1),
    FooterItem(("knob.less", "knob.more"), "change", 1),
    FooterItem((), "0-9 type", 11, "wn"),
    FooterItem(("semisync.toggle",), "semi-sync", 2),
    FooterItem(("wait_point.toggle",), "wait point", 12),
    FooterItem(("fault.open",), "faults", 3),
    FooterItem(("load.toggle",), "load", 10),
    FooterItem(("knob.undo",), "undo", 4),
    FooterItem(("mark.add",), "mark", 7),
    FooterItem(("chart.freeze",), "freeze", 5),
    FooterItem(("view.next",), "view", 3, "c"),
    FooterItem(("chart.zoom_in", "chart.zoom_out"), "zoom", 11, "wn"),
    FooterItem(("chart.exposure",), "exposure", 7, "nc"),
    FooterItem(("chart.heat",), "density", 12),
    FooterItem(("chart.yscale",), "lin/log", 13, "w"),
    FooterItem(("ledger.open",), "ledger", 9),
    FooterItem(("log.open",), "log", 14),
    FooterItem(("lab.open",), "labs", 8),
    FooterItem(("compare.open",), "compare", 13),
    FooterItem(("stack.reset",), "reset", 15),
    FooterItem(("theme.next",), "theme", 6),
    FooterItem(("palette",), "all", 16),
    FooterItem(("help",), "help", 0),
    FooterItem(("app.quit",), "quit", 0),
)
"""The footer, in the order of the line."""

REPLAY_FOOTER: Final[tuple[FooterItem, ...]] = (
    FooterItem(("chart.freeze",), "pause", 0),
    FooterItem(("knob.less", "knob.more"), "5 s", 1),
    FooterItem(("knob.coarse_less", "knob.coarse_more"), "30 s", 6, "wn"),
    FooterItem(("step.prev", "step.next"), "mark", 2),
    FooterItem(("replay.slower", "replay.faster"), "speed", 3),
    FooterItem(("view.next",), "view", 4, "c"),
    FooterItem(("chart.zoom_in", "chart.zoom_out"), "zoom", 8, "wn"),
    FooterItem(("chart.exposure",), "exposure", 7, "nc"),
    FooterItem(("chart.heat",), "density", 9),
    FooterItem(("ledger.open",), "ledger", 5),
    FooterItem(("log.open",), "log", 10),
    FooterItem(("theme.next",), "theme", 7),
    FooterItem(("help",), "help", 0),
    FooterItem(("app.quit",), "quit", 0),
)
"""The footer of a replay."""

WATCH_FOOTER: Final[tuple[FooterItem, ...]] = (
    FooterItem((), "view only", 0),
    FooterItem(("knob.prev", "knob.next"), "knob", 3),
    FooterItem(("chart.freeze",), "freeze", 4),
    FooterItem(("view.next",), "view", 2, "c"),
    FooterItem(("chart.zoom_in", "chart.zoom_out"), "zoom", 1),
    FooterItem(("chart.exposure",), "exposure", 7, "nc"),
    FooterItem(("chart.heat",), "density", 8),
    FooterItem(("chart.yscale",), "lin/log", 9, "w"),
    FooterItem(("ledger.open",), "ledger", 5),
    FooterItem(("nodes.open",), "nodes", 11, "wn"),
    FooterItem(("log.open",), "log", 10),
    FooterItem(("theme.next",), "theme", 2),
    FooterItem(("help",), "help", 0),
    FooterItem(("app.quit",), "quit", 0),
)
"""The footer of a spectator."""

VISIT_FOOTER: Final[tuple[FooterItem, ...]] = (
    FooterItem(("knob.prev", "knob.next"), "knob", 1),
    FooterItem(("knob.less", "knob.more"), "change", 1),
    FooterItem((), "0-9 type", 11, "wn"),
    FooterItem(("semisync.toggle",), "semi-sync", 2),
    FooterItem(("knob.undo",), "undo", 4),
    FooterItem(("mark.add",), "mark", 7),
    FooterItem(("chart.freeze",), "freeze", 5),
    FooterItem(("view.next",), "view", 3, "c"),
    FooterItem(("chart.zoom_in", "chart.zoom_out"), "zoom", 11, "wn"),
    FooterItem(("chart.exposure",), "exposure", 8, "nc"),
    FooterItem(("ledger.open",), "ledger", 9),
    FooterItem(("nodes.open",), "nodes", 12, "wn"),
    FooterItem(("log.open",), "log", 10),
    FooterItem(("theme.next",), "theme", 6),
    FooterItem(("help",), "help", 0),
    FooterItem(("app.quit",), "quit", 0),
)
"""The footer over servers that somebody else runs, whose settings may be turned."""
LOADING_FOOTER: Final[tuple[FooterItem, ...]] = (FooterItem(("load.toggle",), "load", 0), *VISIT_FOOTER)
"""The same where a load runs there."""

PAIR_FOOTER: Final[tuple[FooterItem, ...]] = (
    FooterItem(("side.next",), "A, B, both", 0),
    FooterItem(("knob.prev", "knob.next"), "knob", 1),
    FooterItem(("knob.less", "knob.more"), "change", 1),
    FooterItem(("knob.undo",), "undo", 4),
    FooterItem(("load.toggle",), "load", 3),
    FooterItem(("chart.freeze",), "freeze", 8),
    FooterItem(("chart.exposure",), "exposure", 5, "nc"),
    FooterItem(("chart.zoom_in", "chart.zoom_out"), "zoom", 6),
    FooterItem(("ledger.copy",), "copy", 9),
    FooterItem(("theme.next",), "theme", 7),
    FooterItem(("help",), "help", 0),
    FooterItem(("app.quit",), "quit", 0),
)
"""The footer of two stacks."""

PAIR_OVER_FOOTER: Final[tuple[FooterItem, ...]] = (*PAIR_FOOTER[:-1], FooterItem((QUIT,), "back", 0))
"""The footer of two stacks over the dashboard of one."""

SHORT_KEYS: Final[Mapping[str, str]] = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "slash": "/",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "space": "space",
    "question_mark": "?",
    "enter": "Enter",
    "escape": "esc",
}
"""How keys with long names are written."""


def key_label(key: str, *, in_ascii: bool = False) -> str:
    """One key as the screens write it: `^p`, `shift+←`, `?`; in ASCII arrows and Enter are words, for what
    stands for their signs there is other keys' own: `^`, `v`, `<`, `>`."""
    *modifiers, last = key.split("+") if key != "+" else ["+"]
    label = SHORT_KEYS.get(last, last)
    if in_ascii and not label.isascii():
        label = last
    if modifiers == ["ctrl"]:
        return f"^{label}"
    return "+".join([*modifiers, label])


def keys_markdown() -> str:
    """The actions with their default keys, as docs/keys.md has them."""
    rows = ["| id | keys | does |", "|---|---|---|"]
    for action in ACTIONS:
        keys = " ".join(f"`{key_label(key)}`" for key in keys_of(action.id, {}))
        rows.append(f"| `{action.id}` | {keys} | {action.title} |")
    return "\n".join(rows)


def keys_of(action: str, keymap: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of an action under this keymap."""
    return tuple(key.strip() for key in keymap.get(action, DEFAULT_KEYS[action]).split(","))
