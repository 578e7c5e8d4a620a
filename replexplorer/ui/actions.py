"""The one registry of what a key can do: bindings, footer, help, palette and keymap come from it.

Law: nothing else names a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from replexplorer.core.records import field, frozen, replace

if TYPE_CHECKING:
    from textual.binding import BindingType

    from replexplorer.engine.view import View


@frozen
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
    runs: str = ""
    """What Textual runs for it, `step(-1)`; empty: the id with `_` for `.`."""

    @property
    def area(self) -> str:
        """The first part of the id, as the palette and the help group it."""
        return self.id.partition(".")[0].replace("_", " ").replace("semisync", "semi-sync")

    @property
    def run(self) -> str:
        """What Textual runs for it."""
        return self.runs or self.id.replace(".", "_")

    @property
    def method(self) -> str:
        """Name of what is run, without `action_`."""
        return self.run.partition("(")[0]


RESET: Final = "lesson.reset"
"""Id of what is asked before it is done, as `QUIT` is."""
DASHBOARD: Final = (
    Action("knob.prev", "up,k", "Select the knob above", False, "move(-1)"),
    Action("knob.next", "down,j", "Select the knob below", False, "move(1)"),
    Action("knob.less", "left,h", "Stage one step less", False, "step(-1)"),
    Action("knob.more", "right,l", "Stage one step more", False, "step(1)"),
    Action("knob.coarse_less", "shift+left,H", "Stage a coarse step less", False, "step(-1, True)"),
    Action("knob.coarse_more", "shift+right,shift+l", "Stage a coarse step more", False, "step(1, True)"),
    Action("knob.type", "i", "Type a value: a figure with its unit, or a word (auto, none)"),
    Action("knob.apply", "enter", "Apply the staged value now; with none, show all knobs, or the usual ones"),
    Action("knob.revert", "escape", "Discard the staged value, or close the filter or drawer"),
    Action("knob.filter", "slash", "Filter the knobs by name or help"),
    Action("knob.undo", "u", "Undo the last change"),
    Action("semisync.toggle", "s", "Turn semi-sync on or off", runs="flip('semi_sync', 'off', 'on')"),
    Action(
        "wait_point.toggle", "w", "Switch AFTER_SYNC and AFTER_COMMIT",
        runs="flip('wait_point', 'after_sync', 'after_commit')",
    ),
    Action("fault.partition", "p", "Cut every link, both ways", runs="partition('both')"),
    Action("fault.heal", "r", "Heal every link", runs="partition('none')"),
    Action("fault.open", "F", "Open the faults: break something, clear it; failover, switchover, rejoin"),
    Action("load.toggle", "x", "Stop or start the background load"),
    Action("mark.add", "m", "Put a numbered mark on the charts"),
    Action("chart.freeze", "space", "Freeze the picture (arrow keys then move in time), or release it"),
    Action("chart.zoom_in", "plus,equals_sign", "Show less time", runs="zoom(-1)"),
    Action("chart.zoom_out", "minus", "Show more time", runs="zoom(1)"),
    Action("chart.yscale", "y", "Switch the TPS axis: linear, log"),
    Action("chart.exposure", "e", "Chart commits at risk"),
    Action("present.toggle", "z", "Presenter mode on or off"),
    Action("view.next", "v", "Switch the chart: TPS, latency, commits at risk, lag"),
    Action("stack.reset", "R", "Reset all knobs to their defaults (one undo)"),
    Action("stack.repair", "f", "Repair: start dead nodes and stopped replication threads again"),
    Action("nodes.open", "N", "Open the nodes: threads, lag, GTID sets, binlogs, links"),
    Action("waits.open", "W", "Open the waits: what sessions wait for, who holds the locks, statements"),
    Action("statement.copy", "Y", "Copy the statement and its undo"),
    Action("ledger.open", "g", "Open the epoch ledger"),
    Action("log.open", "L", "Open the event log"),
    Action("sweep.open", "S", "Open the sweep: every combination of some knobs, measured"),
    Action("lab.open", "o", "Open the lessons, labs and drills: begin one, see what it found"),
    Action("lab.pause", "P", "Pause the lab before its next phase, or continue"),
    Action("lab.abort", "A", "Abort the lab, or end the lesson, and restore its knobs"),
    Action("lesson.answer", "a", "Answer the lesson's question, or reveal it (nothing typed)"),
    Action(RESET, "B", "Begin the lesson's step again, rows and all (asks)"),
    Action("step.next", "n", "Next phase of a lab, step of a lesson, mark of a replay"),
    Action("step.prev", "b", "Previous step of a lesson, caption (presenting), mark (replay)", False),
    Action("replay.faster", "greater_than_sign", "Play faster (in a replay)", False, "speed(True)"),
    Action("replay.slower", "less_than_sign", "Play slower (in a replay)", False, "speed(False)"),
)  # fmt: skip
"""Actions of the dashboard itself."""

EPOCH_LEDGER: Final = (Action("ledger.copy", "c", "Copy the ledger as Markdown (in it)", listed=False),)
"""Actions of the epoch ledger's screen."""

QUIT: Final = "app.quit"
"""Id of what `q` does: it closes what is open, and quits on the dashboard."""

EVERYWHERE: Final = (
    Action("theme.next", "t", "Switch to the next theme"),
    Action("picture.save", "ctrl+s", "Save the screen as a picture (SVG) in the working directory"),
    Action("palette", "ctrl+p", "Open the command palette", listed=False),
    Action("help", "question_mark", "Show keys and states"),
    Action(QUIT, "q", "Close what is open, or quit (asks while a load runs; ctrl+c quits at once)"),
)
"""Actions of every screen."""

LEAVE_KEY: Final = "ctrl+c"
"""Quits at once, whatever is open; not in the keymap, so that there always is a way out."""

ACTIONS: Final = DASHBOARD + EPOCH_LEDGER + EVERYWHERE
"""All of them, in the order of the help."""

DEFAULT_KEYS: Final[Mapping[str, str]] = {action.id: action.keys for action in ACTIONS}
"""Keys by binding id as they are without keys.toml."""


@frozen
class FooterItem:
    """One hint of the footer: the first keys of some actions and a word."""

    actions: str
    """Their ids, a blank between them; empty: the word begins with what is pressed."""
    word: str
    rank: int
    """When the width is short, the highest rank goes first."""
    layouts: str = "wnc"
    """Layouts that show it: wide, normal, compact."""
    modes: str = "dvcrf"
    """Initials of `DashboardMode` that show it."""
    when: str = ""
    """Shown only in this condition: `down` (a node is down, or a replication thread is stopped)."""


FOOTER: Final = (
    FooterItem("stack.repair", "repair", 0, modes="df", when="down"),
    FooterItem("", "view only", 0, modes="v"),
    FooterItem("chart.freeze", "pause", 0, modes="r"),
    FooterItem("chart.freeze", "live", 0, modes="f"),
    FooterItem("knob.prev knob.next", "knob", 1, modes="dvc"),
    FooterItem("knob.less knob.more", "change", 1, modes="dc"),
    FooterItem("knob.less knob.more", "5 s", 1, modes="rf"),
    FooterItem("knob.coarse_less knob.coarse_more", "30 s", 6, "wn", modes="rf"),
    FooterItem("step.prev step.next", "mark", 2, modes="r"),
    FooterItem("replay.slower replay.faster", "speed", 3, modes="r"),
    FooterItem("knob.apply", "all knobs", 8, "wn"),
    FooterItem("", "0-9 type", 11, "wn", modes="dc"),
    FooterItem("semisync.toggle", "semi-sync", 2, modes="dc"),
    FooterItem("wait_point.toggle", "wait point", 12, modes="d"),
    FooterItem("fault.open", "faults", 3, modes="d"),
    FooterItem("load.toggle", "load", 10, modes="d"),
    FooterItem("knob.undo", "undo", 4, modes="dc"),
    FooterItem("mark.add", "mark", 7, modes="dc"),
    FooterItem("chart.freeze", "freeze", 5, modes="dvc"),
    FooterItem("view.next", "view", 3, "c"),
    FooterItem("view.next", "lag", 8, "wn"),
    FooterItem("chart.zoom_in chart.zoom_out", "zoom", 11, "wn"),
    FooterItem("chart.exposure", "exposure", 7, "nc"),
    FooterItem("chart.yscale", "lin/log", 13, "w", modes="dv"),
    FooterItem("ledger.open", "ledger", 9, modes="dc"),
    FooterItem("ledger.open", "ledger", 5, modes="vr"),
    FooterItem("nodes.open", "nodes", 13, "wn", modes="vc"),
    FooterItem("log.open", "log", 14),
    FooterItem("lab.open", "labs", 8, modes="d"),
    FooterItem("stack.reset", "reset", 15, modes="d"),
    FooterItem("theme.next", "theme", 6),
    FooterItem("palette", "all", 16, modes="d"),
    FooterItem("help", "help", 0),
    FooterItem("app.quit", "quit", 0),
)
"""The footer of every mode, in the order of the line."""

_SETTINGS: Final = frozenset({"knob_type", "knob_undo", "flip", "mark_add", "statement_copy"})
CHANGING: Final = _SETTINGS | {
    "partition", "fault_open", "load_toggle", "stack_reset", "stack_repair", "sweep_open", "lab_open",
    "lab_pause", "lab_abort",
}  # fmt: skip
"""Methods of the actions that change something of a stack."""
_STEPS: Final = frozenset({"step", "step_next"})
SEEK_S: Final = 5.0
"""How far a step goes in a recording."""
FAR_S: Final = 30.0
"""And a coarse one."""


@frozen
class DashboardMode:
    """What can be done on the dashboard: nothing, settings alone, or all."""

    initial: str
    """As `FooterItem.modes` has it."""
    refused: frozenset[str] = frozenset()
    """Methods of the actions that are refused."""
    why: str = ""
    """The line that a refused key is answered with."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """What actions do that do something else here, by their ids."""

    @property
    def frozen(self) -> DashboardMode:
        """The same while the picture is held."""
        return replace(self, initial="f", refused=self.refused - {"step"})

    @property
    def footer(self) -> tuple[FooterItem, ...]:
        """Its key hints."""
        items = (item for item in FOOTER if item.actions.replace(".", "_") not in self.refused)
        return tuple(item for item in items if self.initial in item.modes)


_QUITS: Final = {QUIT: "Close what is open, or quit"}
DRIVE: Final = DashboardMode("d")
"""A stack of our own."""
VIEW: Final = DashboardMode("v", CHANGING | _STEPS, "view only: the driver turns the knobs", _QUITS)
"""What others do with a live stack."""
WATCHED: Final = DashboardMode(
    "v",
    CHANGING | _STEPS,
    "these servers are only watched: add --allow-changes to change settings",
    _QUITS,
)
"""Servers that somebody else runs."""
ATTACHED: Final = DashboardMode(
    "c", CHANGING - _SETTINGS, "on servers that `up` did not make only settings can be turned", _QUITS
)
"""The same where changes are allowed."""
REPLAY: Final = DashboardMode(
    "r",
    CHANGING,
    "a recording: nothing can be turned",
    {
        **_QUITS,
        "knob.less": f"Go back {SEEK_S:g} s",
        "knob.more": f"Go forward {SEEK_S:g} s",
        "knob.coarse_less": f"Go back {FAR_S:g} s",
        "knob.coarse_more": f"Go forward {FAR_S:g} s",
        "knob.apply": "Show all knobs, or the usual ones",
        "knob.revert": "Drop the filter or the drawer",
        "chart.freeze": "Pause or play",
        "step.next": "Go to the next mark",
        "step.prev": "Go to the mark before",
        "replay.faster": "Play faster",
        "replay.slower": "Play slower",
    },
)
"""A recording: the same picture, with a player's keys where the knobs' are."""


def mode_of(view: View, *, visits: bool) -> DashboardMode:
    """What can be done with this view; `visits`: of servers that somebody else runs."""
    if visits:
        return WATCHED if view.console is None else ATTACHED
    if view.player is not None:
        return REPLAY
    return VIEW if view.console is None else DRIVE


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


def keys_of(action: str, keymap: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of an action under this keymap."""
    return tuple(key.strip() for key in keymap.get(action, DEFAULT_KEYS[action]).split(","))


def first_key(action: str, keymap: Mapping[str, str], *, in_ascii: bool = False) -> str:
    """The first key of an action, as it is shown."""
    return key_label(keys_of(action, keymap)[0], in_ascii=in_ascii)


def bindings_of(actions: Sequence[Action]) -> list[BindingType]:
    """The registry's rows as bindings of Textual."""
    from textual.binding import Binding  # not for `keys` on the command line

    return [Binding(action.keys, action.run, action.title, show=False, id=action.id) for action in actions]
