"""Faults at hand: what is in force and how long, and what can be injected, with the very commands; and what
changes roles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from textual import events
from textual.binding import Binding, BindingType

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.fault import KINDS, Fault, FaultKind, FaultRequest, kind_of, parse_fault
from replexplorer.core.role_change import ChangeKind, RoleChange
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Role
from replexplorer.engine.outcome import Preview
from replexplorer.ui.screens.listing import ListingScreen, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.state.picture import Picture
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, spread, wrapped

if TYPE_CHECKING:
    from replexplorer.engine.console import Command


_NAME_CELLS: Final = 14
_HEAD_CELLS: Final = 12
_UNITS: Final = {"ms": " ms", "s/s": " s"}


def in_force_row(fault: Fault, now_wall_s: float, width: int, *, chosen: bool) -> list[Run]:
    """`kill@db1   12 s   fault (pid 12)`."""
    ground = " on select" if chosen else ""
    age = figures.elapsed(max(0.0, now_wall_s - fault.since_wall_s))
    until = ""
    if fault.until_wall_s is not None:
        until = f", ends by itself in {max(0.0, fault.until_wall_s - now_wall_s):.0f} s"
    row: list[Run] = [
        (f"{'▸' if chosen else ' '} {fault!s:<26} ", f"fault{ground} b"),
        (f"{age}  ", f"text{ground}"),
        (f"by {fault.by}{until}", f"muted{ground}"),
    ]
    return spread(row, [], width, f"text{ground}")


def kind_row(kind: FaultKind, value: str | None, target: str, width: int, *, chosen: bool) -> list[Run]:
    """`▸ power_cut     ◂ strict ▸   ◂ db1 primary ▸`; what is not chosen has whom it would hit and its
    meaning in short."""
    ground = " on select" if chosen else ""
    unit = _UNITS.get(kind.unit or "", "")
    row: list[Run] = [(f"{'▸' if chosen else ' '} {kind.key:<{_NAME_CELLS}}", f"title{ground} b")]
    if not chosen:
        short = kind.does.partition(".")[0].partition(":")[0]
        named = f"{'' if value is None else value + unit:<9}{target or 'no replica':<14} "
        return cut([*row, (named, "text"), (short, "muted")], width)
    if value is not None:
        row += _turned(f"{value}{unit}", ground)
    return spread([*row, *_turned(target or "no replica", ground)], [], width, f"text{ground}")


def _turned(text: str, ground: str) -> list[Run]:
    """`◂ text ▸`: keys turn it."""
    arrow = f"accent{ground} b"
    return [(" ◂ ", arrow), (text, f"text{ground} b"), (" ▸  ", arrow)]


def kind_details(kind: FaultKind, preview: Preview, width: int) -> list[Line]:
    """What happens, the very commands, how it is taken back, and why it would be refused."""
    rows = _told("does", [kind.does], width, "text")
    rows += _told("runs", preview.statements, width, "warn b")
    rows += _told("clearing", preview.undo or [kind.undone], width, "muted")
    return rows + _told("▲", preview.warnings, width, "warn")


def in_force_details(kind: FaultKind, preview: Preview, width: int) -> list[Line]:
    """What clearing one does, by the commands where they are known."""
    return _told("clearing", preview.undo or [kind.undone], width, "muted")


def _told(head: str, texts: Sequence[str], width: int, ink: str) -> list[Line]:
    """Texts below each other beside their head."""
    rows = [row for text in texts for row in wrapped(text, max(20, width - _HEAD_CELLS - 4))]
    return [
        [(f"    {head if at == 0 else '':<{_HEAD_CELLS}}", "warn b" if head == "▲" else "muted"), (row, ink)]
        for at, row in enumerate(rows)
    ]


def role_row(name: str, target: str | None, does: str, width: int, *, chosen: bool) -> list[Run]:
    """`▸ switchover     ◂ the nearest replica ▸`."""
    ground = " on select" if chosen else ""
    row: list[Run] = [(f"{'▸' if chosen else ' '} {name:<{_NAME_CELLS}}", f"title{ground} b")]
    if not chosen:
        short = does.partition(":")[0].partition(";")[0]
        return cut([*row, (f"{'':<9}{target or 'no node is away':<24} ", "text"), (short, "muted")], width)
    return spread([*row, *_turned(target or "no node is away", ground)], [], width, f"text{ground}")


def role_details(does: str, errant: str, question: str, width: int) -> list[Line]:
    """What happens, what would be lost, and the question before it does."""
    rows = _told("does", [does], width, "text")
    rows += _told("▲", [errant] if errant else [], width, "warn")
    return rows + _told("▲", [question] if question else [], width, "warn b")


_FIGURES: Final = {"ms": ".", "s/s": "./"}
"""What a typed value may have beside digits, by unit."""
_LADDERS: Final = {
    "ms": ("10", "50", "200", "1000", "5000"),
    "s/s": ("0.5/0.5", "1/4", "2/2", "5/5", "10/20"),
}
"""What `+` and `-` walk through where milliseconds follow a kind, or seconds down and up."""
_USUAL: Final = 2
"""Where they begin."""
_AWAY: Final = (Role.DETACHED, Role.DOWN)
"""Roles of a node that may follow the source again."""


class RoleKind(NamedTuple):
    """One kind of change, as the list has it."""

    kind: ChangeKind
    does: str
    """What happens, to whom."""
    usual: str
    """Whom it takes where nobody is chosen; empty: somebody must be."""


ROLE_KINDS: Final = (
    RoleKind(
        ChangeKind.FAILOVER,
        "the source is gone: a replica applies all that it has received and takes the writes, the others and"
        " the load follow it, and the old source takes none when it comes back",
        "the one that lacks least",
    ),
    RoleKind(
        ChangeKind.SWITCHOVER,
        "source and replica change places: writes wait until it has everything, and nothing is lost",
        "the nearest replica",
    ),
    RoleKind(
        ChangeKind.REJOIN,
        "a node that follows nobody follows the source again; one that has transactions which the source"
        " lacks, and loses, or that diverged gets a copy of the source's data",
        "",
    ),
)


class Target(NamedTuple):
    """Whom a fault or a change of roles may concern."""

    words: str
    node: str | None
    """None: every replica, or whom the server's state decides."""


Row = Fault | FaultKind | RoleKind
"""What the cursor may be on."""
Beside = Callable[[str, "Command[Any]", str], None]
"""Begins a command beside the screens: its label, and words for it while it is under way."""


@dataclass(slots=True)
class FaultChoices:
    """What is chosen of each kind; it outlives the screen."""

    values: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By kind: which of its values."""
    typed: dict[str, str] = field(default_factory=dict)
    """By kind: figures in place of the value."""
    targets: dict[str, Target] = field(default_factory=dict)
    """By kind of a change of roles, and one for all faults that can hit it: others hit their usual one."""

    def targets_of(self, row: FaultKind | RoleKind, tick: Tick | None) -> Sequence[Target]:
        """Whom it may concern now, the usual ones first."""
        if isinstance(row, RoleKind):
            others = [node for node in tick.nodes if not node.is_source] if tick else []
            usual = [Target(row.usual, None)] if row.usual else []
            return usual + [
                Target(f"{node.name} {node.role}", node.name)
                for node in others
                if usual or node.role in _AWAY or node.diverged
            ]
        roster = tick.roster if tick else None
        if roster is None:
            return ()
        source = Target(f"{roster.source} primary", roster.source)
        replicas = [Target(f"{node} replica", node) for node in roster.others]
        if not row.on_replicas:
            return [source, *replicas]
        found = [Target("every replica", None), *replicas] if len(replicas) > 1 else replicas
        return [*found, source] if row.source_too else found

    def target(self, row: FaultKind | RoleKind, tick: Tick | None) -> Target | None:
        """Whom it would concern; None where there is nobody."""
        found = self.targets_of(row, tick)
        chosen = self.targets.get(_group(row))
        return next((each for each in found if chosen and each.node == chosen.node), next(iter(found), None))

    def next_target(self, row: FaultKind | RoleKind, tick: Tick | None, steps: int) -> None:
        """Choose another node."""
        found, now = self.targets_of(row, tick), self.target(row, tick)
        if now is not None:
            self.targets[_group(row)] = found[(found.index(now) + steps) % len(found)]

    def value(self, kind: FaultKind) -> str | None:
        """What would follow `=`."""
        values = kind.values or _LADDERS.get(kind.unit or "", ())
        at = self.values[kind.key] + (_USUAL if kind.unit else 0)
        return self.typed.get(kind.key) or (values[at] if values else None)

    def next_value(self, kind: FaultKind, steps: int) -> None:
        """Choose another value; the ends of figures hold."""
        self.typed.pop(kind.key, None)
        at = self.values[kind.key] + steps
        last = len(_LADDERS.get(kind.unit or "", ())) - 1 - _USUAL
        self.values[kind.key] = at % len(kind.values) if kind.values else max(-_USUAL, min(last, at))

    def type(self, kind: FaultKind, character: str) -> None:
        """A figure typed in place of the value; nothing for the last one taken back."""
        typed = self.typed.get(kind.key, "")
        self.typed[kind.key] = (typed + character if character else typed[:-1])[:8]

    def request(self, kind: FaultKind, tick: Tick | None) -> FaultRequest:
        """What is chosen; raises UsageError in one line."""
        target, value = self.target(kind, tick), self.value(kind)
        if target is None or tick is None or tick.roster is None:
            raise UsageError(f"{kind.key} is done to a replica, and there is none", "add one (nodes)")
        at = "" if target.node is None else f"@{target.node}"
        return parse_fault(f"{kind.key}{at}" if value is None else f"{kind.key}={value}{at}", tick.roster)


def _group(row: FaultKind | RoleKind) -> str:
    return row.kind if isinstance(row, RoleKind) else "fault"


class FaultsScreen(ListingScreen):
    """The list; the chosen row is unfolded. What is done is done behind the dashboard, shown then."""

    ARROWS = "choose"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "act", "Inject it; clear it where it is in force", show=False),
        Binding("left,h", "target(-1)", "The node before", show=False),
        Binding("right,l", "target(1)", "The next node", show=False),
        Binding("minus", "value(-1)", "The value before", show=False),
        Binding("plus,equals_sign", "value(1)", "The next value", show=False),
        Binding("x", "clear", "Clear the chosen fault in force", show=False),
        Binding("X", "clear_all", "Clear every fault", show=False),
    ]

    def __init__(
        self,
        choices: FaultChoices,
        preview: Callable[[FaultRequest], Preview],
        beside: Beside,
        under_way: Sequence[str],
        picture: Picture,
        settings: Settings,
    ) -> None:
        super().__init__(settings)
        self._choices = choices
        self._preview_of = preview
        self._beside = beside
        self._under_way = under_way
        self._picture = picture
        self._chosen: Row | None = None
        self._asked: RoleKind | None = None
        """A change of roles that Enter was pressed for: a second one does it."""
        self._reveals = False
        """The chosen row is to be scrolled into view."""

    @property
    def _tick(self) -> Tick | None:
        return self._picture.tick

    @property
    def _rows(self) -> list[Row]:
        """Faults in force, the newest first, then the kinds, then what changes roles."""
        return [*reversed(self._tick.faults if self._tick else ()), *KINDS, *ROLE_KINDS]

    @property
    def _at(self) -> int:
        """Where the cursor is: on what was chosen, else on the first row."""
        rows = self._rows
        return rows.index(self._chosen) if self._chosen in rows else 0

    @property
    def chosen(self) -> Row:
        """What is under the cursor."""
        return self._rows[self._at]

    def fill(self) -> None:
        """The rows as they are now."""
        rows, at = self._rows, self._at
        body: list[Line] = []
        heads = {Fault: "IN FORCE", FaultKind: "INJECT", RoleKind: "ROLES"}
        for place, row in enumerate(rows):
            if place == 0 or type(row) is not type(rows[place - 1]):
                body += [*([[]] if body else []), [(f" {heads[type(row)]}", "accent b")]]
            first = len(body)
            body += self._drawn(row, chosen=place == at)
            if place == at:
                shown = 0 if at == 0 else first, len(body) - 1
        self.listing.show(self._title(), [], body)
        if self._reveals:
            self._reveals = False
            self.listing.reveal(*shown)

    def _drawn(self, row: Row, *, chosen: bool) -> list[Line]:
        """A row, and below the chosen one what it means."""
        width, tick = self.app.size.width, self._tick
        if isinstance(row, Fault):
            head = in_force_row(row, tick.wall_s if tick else row.since_wall_s, width, chosen=chosen)
            kind = kind_of(row.kind)
            details = in_force_details(
                kind, self._preview(FaultRequest(kind, row.value, (row.node,))), width - 1
            )
            return [head, *(details if chosen else [])]
        target = self._choices.target(row, tick)
        words = target.words if target else None
        if isinstance(row, RoleKind):
            head = role_row(row.kind.value, words, row.does, width, chosen=chosen)
            node = (
                next((each for each in tick.nodes if target and each.name == target.node), None)
                if tick
                else None
            )
            errant = node.errant_gtids if node is not None and row.kind is ChangeKind.REJOIN else None
            told = f"{node.name} would lose what the source lacks: {errant}" if node and errant else ""
            question = (
                f"{row.kind.value}: Enter again does it, any other key does not" if self._asked is row else ""
            )
            return [head, *(role_details(row.does, told, question, width - 1) if chosen else [])]
        head = kind_row(row, self._choices.value(row), words or "", width, chosen=chosen)
        return [head, *(kind_details(row, self._preview(row), width - 1) if chosen else [])]

    def _preview(self, what: FaultKind | FaultRequest) -> Preview:
        """What it would run, and why it would be refused."""
        try:
            request = what if isinstance(what, FaultRequest) else self._choices.request(what, self._tick)
            return self._preview_of(request)
        except ReplexplorerError as error:
            return Preview((), (), (str(error),) if isinstance(what, FaultKind) else ())

    def _title(self) -> Line:
        """What the keys do to the chosen row, and what is under way."""
        chosen = self.chosen
        if isinstance(chosen, Fault):
            hints = [("Enter", "clear it"), ("X", "clear all")]
        elif isinstance(chosen, RoleKind):
            hints = [("Enter", "do it" if self._asked is chosen else "asks, then does it"), ("←→", "node")]
        else:
            hints = [("Enter", "inject"), ("←→", "node")]
            if self._choices.value(chosen) is not None:
                hints.append(("-+ 0-9" if chosen.unit else "-+", "value"))
            if isinstance(self._rows[0], Fault):
                hints.append(("X", "clear all"))
        told = f"{self._under_way[-1]}…  " if self._under_way else ""
        return [("Faults ", "title b"), (told, "warn"), *key_hints(*hints)]

    def _show_chosen(self, row: Row | None = None, *, asked: RoleKind | None = None) -> None:
        """Put the cursor here, or leave it on its row, and show all of that."""
        self._chosen, self._asked, self._reveals = row or self.chosen, asked, True
        self.fill()

    def action_scroll_by(self, rows: int) -> None:
        """Move the cursor."""
        self._show_chosen(self._rows[max(0, min(len(self._rows) - 1, self._at + rows))])

    def action_target(self, steps: int) -> None:
        """Another node."""
        if not isinstance(self.chosen, Fault):
            self._choices.next_target(self.chosen, self._tick, steps)
            self._show_chosen()

    def action_value(self, steps: int) -> None:
        """Another value."""
        if isinstance(self.chosen, FaultKind):
            self._choices.next_value(self.chosen, steps)
            self._show_chosen()

    def on_key(self, event: events.Key) -> None:
        """Figures of a value; any key but the one that was asked for takes a question back."""
        if self._asked is not None and event.key != "enter":
            self._show_chosen()
        chosen = self.chosen
        if isinstance(chosen, FaultKind) and chosen.unit is not None:
            character = event.character or ""
            is_figure = character.isdigit() or character in tuple(_FIGURES[chosen.unit])
            if is_figure or event.key == "backspace":
                self._choices.type(chosen, character if is_figure else "")
                event.stop()
                self._show_chosen()

    def action_act(self) -> None:
        """Inject what is chosen, or clear it where it is in force, or ask before roles change, and show the
        charts."""
        chosen = self.chosen
        if isinstance(chosen, Fault):
            self.action_clear()
        elif isinstance(chosen, RoleKind):
            self._change_roles(chosen)
        else:
            try:
                request = self._choices.request(chosen, self._tick)
            except UsageError as error:
                self.notify(str(error), severity="warning", timeout=6)
                return
            words = f"injecting {request.text} on {', '.join(request.nodes)}"
            self._begin("fault", lambda console: console.inject(request), words)

    def _change_roles(self, chosen: RoleKind) -> None:
        """Ask first; asked, do it and show the charts."""
        target = self._choices.target(chosen, self._tick)
        if target is None:
            told = "every node follows the source or is it: nobody can rejoin"
            self.notify(told, severity="warning", timeout=6)
        elif self._asked is not chosen:
            self._show_chosen(asked=chosen)
        else:
            node, verb = target.node, chosen.kind.value
            changes: dict[ChangeKind, Command[RoleChange]] = {
                ChangeKind.FAILOVER: lambda console: console.failover(node),
                ChangeKind.SWITCHOVER: lambda console: console.switchover(node),
                ChangeKind.REJOIN: lambda console: console.rejoin(str(node)),
            }
            self._begin(verb, changes[chosen.kind], f"{verb} {node}" if node else verb)

    def action_clear(self) -> None:
        """Take the chosen fault back."""
        if isinstance(self.chosen, Fault):
            fault = self.chosen
            where = f"{fault.kind}@{fault.node}"
            self._begin("fault", lambda console: console.clear(where), f"clearing {fault}")

    def action_clear_all(self) -> None:
        """Take every fault back."""
        if isinstance(self._rows[0], Fault):
            self._begin("fault", lambda console: console.clear(), "clearing every fault")

    def _begin(self, label: str, command: Command[Any], words: str) -> None:
        self._beside(label, command, words)
        self.dismiss()


def change_words(change: RoleChange) -> str:
    """`switchover: db2 takes the writes of db1 after 312 ms, nothing is lost`."""
    lost = change.rpo.commits
    what = "acknowledged rows" if change.kind is ChangeKind.FAILOVER else "transactions"
    told = "" if lost is None else "nothing is lost" if not lost else f"{lost:,} {what} are lost"
    if change.kind is ChangeKind.REJOIN:
        done = f"{change.source_before} {change.standing} again"
    else:
        total_ms = change.rto.total_ms
        after = "" if total_ms is None else f" after {total_ms:,.0f} ms"
        done = f"{change.source} takes the writes of {change.source_before}{after}"
    return f"{change.kind}: {', '.join(filter(None, (done, told)))}"
