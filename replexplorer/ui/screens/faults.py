"""Faults at hand: what is in force and how long, and what can be injected, with the very commands; and what
changes roles."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from textual import events, on
from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.fault import KINDS, Fault, FaultKind, FaultRequest, kind_of, parse_fault
from replexplorer.core.role_change import ChangeKind, RoleChange
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Role
from replexplorer.engine.outcome import Preview
from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.lists import ChoiceScreen, Listed, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, hung

if TYPE_CHECKING:
    from replexplorer.engine.console import Command, Console

_LADDERS: Final = {
    "ms": ("200", "500", "1000", "2000", "5000", "10", "50", "100"),
    "s/s": ("2/2", "5/5", "10/20", "0.5/0.5", "1/4"),
}
"""What `+` and `-` walk through where milliseconds follow a kind, or seconds down and up; the usual first."""
_UNITS: Final = {"ms": " ms", "s/s": " s"}
_AWAY: Final = (Role.DETACHED, Role.DOWN)
"""Roles of a node that may follow the source again."""


class RoleKind(NamedTuple):
    """One kind of change of roles, as the list has it."""

    key: ChangeKind
    does: str
    """What happens, to whom."""
    usual: str
    """Whom it takes where nobody is chosen; empty: somebody must be."""
    values: tuple[str, ...] = ()
    """Nothing follows `=`."""
    unit: str | None = None


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


def targets(row: FaultKind | RoleKind, tick: Tick | None) -> Sequence[Target]:
    """Whom it may concern now, the usual ones first."""
    if isinstance(row, RoleKind):
        usual = [Target(row.usual, None)] if row.usual else []
        return usual + [
            Target(f"{node.name} {node.role}", node.name)
            for node in (tick.nodes if tick else ())
            if not node.is_source and (usual or node.role in _AWAY or node.diverged)
        ]
    if tick is None or tick.roster is None:
        return ()
    source = Target(f"{tick.roster.source} primary", tick.roster.source)
    replicas = [Target(f"{node} replica", node) for node in tick.roster.others]
    if not row.on_replicas:
        return [source, *replicas]
    every = [Target("every replica", None)] if len(replicas) > 1 else []
    return [*every, *replicas, *([source] if row.source_too else [])]


class FaultsScreen(ChoiceScreen[Row]):
    """The list; what is done is done behind the dashboard, which is shown then."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "target(-1)", "The node before", show=False, priority=True),
        Binding("right,l", "target(1)", "The next node", show=False, priority=True),
        Binding("minus", "value(-1)", "The value before", show=False),
        Binding("plus,equals_sign", "value(1)", "The next value", show=False),
        Binding("X", "clear_all", "Clear every fault", show=False),
    ]

    def __init__(
        self, console: Console, beside: Beside, under_way: Sequence[str], picture: Picture, settings: Settings
    ) -> None:
        super().__init__(settings)
        self._stack = console
        self._beside = beside
        self._under_way = under_way
        self._picture = picture
        self._values: dict[str, str] = {}
        """What would follow `=`, by kind."""
        self._targets: dict[str, Target] = {}
        """By kind of a change of roles, and one for all faults that can hit it."""
        self._asked: RoleKind | None = None
        """A change of roles that Enter was pressed for: a second one does it."""

    @property
    def _faults(self) -> Sequence[Fault]:
        """Those in force, the newest first."""
        return tuple(reversed(self._picture.tick.faults if self._picture.tick else ()))

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[Row]]]:
        """Faults in force, then the kinds, then what changes roles."""
        return ("IN FORCE", self._faults), ("INJECT", KINDS), ("ROLES", ROLE_KINDS)

    def listed(self) -> Listed:
        """The keys that do something to the chosen row, and what it means."""
        row = self.chosen
        hints = [("Enter", "inject"), ("←→", "node")]
        if isinstance(row, Fault):
            hints = [("Enter", "clear it")]
        elif isinstance(row, RoleKind):
            hints[0] = ("Enter", "do it" if self._asked is row else "asks, then does it")
        elif self._value(row) is not None:
            hints.append(("-+", "value"))
        hints += [("X", "clear all")] if self._faults else []
        doing = f"{self._under_way[-1]}…  " if self._under_way else ""
        title: Line = [("Faults ", "title b"), (doing, "warn"), *key_hints(*hints)]
        return Listed(title, [[], *self._details(row)])

    def row(self, row: Row, *, chosen: bool) -> Line:
        """`▸ power_cut     ◂ strict ▸   ◂ db1 primary ▸`; what is not chosen has its meaning in short."""
        point = "▸ " if chosen else "  "
        if isinstance(row, Fault):
            now_wall_s = self._picture.tick.wall_s if self._picture.tick else row.since_wall_s
            left_s = None if row.until_wall_s is None else max(0.0, row.until_wall_s - now_wall_s)
            until = "" if left_s is None else f", ends by itself in {left_s:.0f} s"
            age = figures.elapsed(max(0.0, now_wall_s - row.since_wall_s))
            return [
                (f"{point}{row!s:<26} ", "fault b"),
                (f"{age}  ", "text"),
                (f"by {row.by}{until}", "muted"),
            ]
        target, value = self._target(row), self._value(row)
        value = None if value is None else f"{value}{_UNITS.get(row.unit or '', '')}"
        words = target.words if target else "no node is away" if row in ROLE_KINDS else "no replica"
        head: Run = (f"{point}{row.key:<14}", "title b")
        if chosen:
            turned = [each for each in (value, words) if each is not None]
            return [
                head,
                *(
                    run
                    for each in turned
                    for run in ((" ◂ ", "accent b"), (each, "text b"), (" ▸  ", "accent b"))
                ),
            ]
        short = re.split("[.;:]", row.does)[0]
        return [head, (f"{value or '':<9}{words:<24} ", "text"), (short, "muted")]

    def _details(self, row: Row) -> Sequence[Line]:
        """What happens, the very commands, how it is taken back, and why it would be refused."""
        told: list[tuple[str, str]] = []
        if isinstance(row, RoleKind):
            target, tick = self._target(row), self._picture.tick
            told.append(("does", row.does))
            for node in tick.nodes if tick and target and row.key is ChangeKind.REJOIN else ():
                if target and node.name == target.node and node.errant_gtids:
                    told.append(("▲", f"{node.name} would lose what the source lacks: {node.errant_gtids}"))
            if self._asked is row:
                told.append(("▲", f"{row.key}: Enter again does it, any other key does not"))
        else:
            kind = kind_of(row.kind) if isinstance(row, Fault) else row
            try:
                of = (
                    FaultRequest(kind, row.value, (row.node,))
                    if isinstance(row, Fault)
                    else self._request(row)
                )
                preview = self._stack.preview_fault(of)
            except ReplexplorerError as error:
                preview = Preview((), (), (str(error),))
            if not isinstance(row, Fault):
                told += [("does", kind.does), *(("runs", text) for text in preview.statements)]
            told += [("clearing", text) for text in preview.undo or (kind.undone,)]
            told += [("▲", text) for text in preview.warnings]
        inks = {"runs": "warn b", "clearing": "muted", "▲": "warn"}
        lines: list[Line] = []
        for at, (head, text) in enumerate(told):
            shown = "" if at and told[at - 1][0] == head else head
            lead: Line = [(f"    {shown:<12}", "warn b" if head == "▲" else "muted")]
            lines += hung(lead, text, self.width, inks.get(head, "text"))
        return lines

    def _target(self, row: FaultKind | RoleKind) -> Target | None:
        """Whom it would concern; None where there is nobody."""
        found, chosen = targets(row, self._picture.tick), self._targets.get(_group(row))
        return next((each for each in found if chosen and each.node == chosen.node), next(iter(found), None))

    def _value(self, row: FaultKind | RoleKind) -> str | None:
        """What would follow `=`."""
        return self._values.get(row.key) or next(iter(_values(row)), None)

    def _request(self, kind: FaultKind) -> FaultRequest:
        """What is chosen; raises UsageError in one line."""
        target, value, tick = self._target(kind), self._value(kind), self._picture.tick
        if target is None or tick is None or tick.roster is None:
            raise UsageError(f"{kind.key} is done to a replica, and there is none", "add one (nodes)")
        text = f"{kind.key}{'' if value is None else f'={value}'}"
        return parse_fault(text if target.node is None else f"{text}@{target.node}", tick.roster)

    def moved(self) -> None:
        """Another row takes a question back."""
        self._asked = None

    def on_key(self, event: events.Key) -> None:
        """Any key but the one that was asked for takes a question back."""
        if self._asked is not None and event.key != "enter":
            self._asked = None
            self.fill()

    def action_target(self, steps: int) -> None:
        """Another node."""
        row = self.chosen
        if not isinstance(row, Fault) and (now := self._target(row)) is not None:
            found = targets(row, self._picture.tick)
            self._targets[_group(row)] = found[(found.index(now) + steps) % len(found)]
            self.fill()

    def action_value(self, steps: int) -> None:
        """Another value."""
        row = self.chosen
        if not isinstance(row, Fault) and (now := self._value(row)) is not None:
            values = _values(row)
            self._values[row.key] = values[(values.index(now) + steps) % len(values)]
            self.fill()

    @on(OptionList.OptionSelected)
    def _act(self) -> None:
        """Inject what is chosen, or clear it where it is in force, or ask before roles change."""
        row = self.chosen
        if isinstance(row, Fault):
            where = f"{row.kind}@{row.node}"
            self._begin("fault", lambda console: console.clear(where), f"clearing {row}")
        elif isinstance(row, RoleKind):
            self._change_roles(row)
        else:
            try:
                request = self._request(row)
            except UsageError as error:
                self.notify(str(error), severity="warning", timeout=6)
                return
            words = f"injecting {request.text} on {', '.join(request.nodes)}"
            self._begin("fault", lambda console: console.inject(request), words)

    def _change_roles(self, row: RoleKind) -> None:
        """Ask first; asked, do it and show the charts."""
        target = self._target(row)
        if target is None:
            told = "every node follows the source or is it: nobody can rejoin"
            self.notify(told, severity="warning", timeout=6)
        elif self._asked is not row:
            self._asked = row
            self.fill()
        else:
            node, verb = target.node, row.key.value
            changes: dict[ChangeKind, Command[RoleChange]] = {
                ChangeKind.FAILOVER: lambda console: console.failover(node),
                ChangeKind.SWITCHOVER: lambda console: console.switchover(node),
                ChangeKind.REJOIN: lambda console: console.rejoin(str(node)),
            }
            self._begin(verb, changes[row.key], f"{verb} {node}" if node else verb)

    def action_clear_all(self) -> None:
        """Take every fault back."""
        if self._faults:
            self._begin("fault", lambda console: console.clear(), "clearing every fault")

    def _begin(self, label: str, command: Command[Any], words: str) -> None:
        self._beside(label, command, words)
        self.dismiss()


def _values(row: FaultKind | RoleKind) -> Sequence[str]:
    """What may follow `=`, the usual first."""
    return row.values or _LADDERS.get(row.unit or "", ())


def _group(row: FaultKind | RoleKind) -> str:
    return row.key if isinstance(row, RoleKind) else "fault"


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
