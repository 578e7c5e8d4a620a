"""Faults at hand: what is in force and how long, and what can be injected, with the very commands; and what
changes roles. Each row is what one would type, the arrows turn its value and node: `kill@db1`,
`partition=ack@db2`, `switchover db2`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events, on
from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.fault import KINDS, Fault, FaultRequest, kind_of, parse_fault, written
from replexplorer.core.role_change import ChangeKind
from replexplorer.core.text import elapsed
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Role, Roster
from replexplorer.engine.outcome import Preview
from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.lists import ChoiceScreen, Listed, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.words.runs import Line, hung

if TYPE_CHECKING:
    from replexplorer.engine.console import Command, Console

_VALUES: Final[Mapping[str, Sequence[str | None]]] = {"ms": ("200", "1000", "5000"), "s/s": ("2/2", "10/20")}
"""What is offered where milliseconds follow a kind, or seconds down and up."""
_CLEAR: Final = "clear"
_ROLES: Final[Mapping[str, str]] = {
    ChangeKind.FAILOVER: "the source is gone: the most advanced replica applies what it has received and"
    " takes writes; the others and the load follow it, and the old source stays read-only when it returns",
    ChangeKind.SWITCHOVER: "source and replica (the nearest one) swap roles: writes wait until it has"
    " everything, and nothing is lost",
    ChangeKind.REJOIN: "make a node follow the source again; one that diverged, or has transactions that the"
    " source lacks, loses them and gets a copy of the source's data",
}
"""What happens at each change of roles, by the name of the console's command."""
_AWAY: Final = (Role.DETACHED, Role.DOWN)
"""Roles of a node that may follow the source again."""
Forms = tuple[str, ...]
"""What one row stands for, as it is typed: a kind with each value and node."""
Ask = Callable[[str, "Command[Any]", str], None]
"""Begins a command in parallel with the others: its label, and words for it while it is under way."""


def injections(roster: Roster) -> Iterator[Forms]:
    """Each kind of fault in all its forms, with every value and node, the usual one first."""
    replicas = [f"@{node}" for node in roster.others]
    for kind in KINDS:
        nodes = [f"@{roster.source}", *replicas]
        if kind.on_replicas:
            every = [""] if len(replicas) > 1 else []
            nodes = [*every, *replicas, *([f"@{roster.source}"] if kind.source_too else [])]
        values = kind.values or _VALUES.get(kind.unit or "", (None,))
        if nodes:
            yield tuple(f"{written(kind.key, value)}{node}" for value in values for node in nodes)


def role_changes(tick: Tick) -> Iterator[Forms]:
    """Each change of roles in all its forms; without a node the server's state decides."""
    others = [node for node in tick.nodes if not node.is_source]
    for verb in (ChangeKind.FAILOVER, ChangeKind.SWITCHOVER):
        yield verb, *(f"{verb} {node.name}" for node in others)
    away = [node.name for node in others if node.role in _AWAY or node.diverged]
    if away:
        yield tuple(f"{ChangeKind.REJOIN} {name}" for name in away)


class FaultsScreen(ChoiceScreen[Forms]):
    """The list; it stays open while what was begun goes on, so that the next key can take it back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("X", "clear_all", "Clear every fault", show=False),
        Binding("left", "turn(-1)", "The value or node before", show=False, priority=True),
        Binding("right", "turn(1)", "The next value or node", show=False, priority=True),
    ]

    def __init__(
        self, stack: Console, ask: Ask, under_way: Sequence[str], picture: Picture, settings: Settings
    ) -> None:
        super().__init__(settings)
        self._stack = stack
        self._ask = ask
        self._under_way = under_way
        self._picture = picture
        self._at = Counter[Forms]()
        """How many forms further the arrows went."""
        self._asked = ""
        """A change of roles that Enter was pressed for: a second one does it."""

    @property
    def _faults(self) -> Mapping[str, Fault]:
        """Those in force, the newest first, by the row that clears each."""
        faults = self._picture.tick.faults if self._picture.tick else ()
        return {f"{_CLEAR} {fault.kind}@{fault.node}": fault for fault in reversed(faults)}

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[Forms]]]:
        """Faults in force, then each kind that can be injected, then each change of roles."""
        tick = self._picture.tick
        injected = tuple(injections(tick.roster)) if tick is not None and tick.roster is not None else ()
        changes = tuple(role_changes(tick)) if tick is not None else ((ChangeKind.FAILOVER,),)
        return ("IN FORCE", [(row,) for row in self._faults]), ("INJECT", injected), ("ROLES", changes)

    def _form(self, row: Forms) -> str:
        """That which the arrows went to."""
        return row[self._at[row] % len(row)]

    def action_turn(self, steps: int) -> None:
        """Another value or node of what is chosen."""
        self._at[self.chosen] += steps
        self.moved()
        self.fill()

    def listed(self) -> Listed:
        """The keys that do something to the chosen row, and what it means."""
        forms, row = self.chosen, self._form(self.chosen)
        does = "clear it" if row in self._faults else "inject"
        if _verb(row) in _ROLES:
            does = "do it" if self._asked == row else "asks, then does it"
        hints = [("Enter", does), *([("←→", "value, node")] if len(forms) > 1 else [])]
        hints += [("X", "clear all")] if self._faults else []
        doing = f"{self._under_way[-1]}…  " if self._under_way else ""
        title: Line = [("Faults ", "title b"), (doing, "warn"), *key_hints(*hints)]
        return Listed(title, [[], *self._details(row)])

    def row(self, forms: Forms, *, chosen: bool) -> Line:
        """`▸ power_cut=strict@db1 ◂▸   the machine of the node loses`; of a fault in force since when."""
        row, tick, point = self._form(forms), self._picture.tick, "▸ " if chosen else "  "
        fault = self._faults.get(row)
        if fault is None or tick is None:
            short = re.split("[.;:]", self._does(row))[0]
            arrows = " ◂▸" if chosen and len(forms) > 1 else ""
            return [(f"{point}{row + arrows:<26} ", "title b"), (short, "muted")]
        left_s = None if fault.until_wall_s is None else max(0.0, fault.until_wall_s - tick.wall_s)
        until = "" if left_s is None else f", ends by itself in {left_s:.0f} s"
        age = elapsed(max(0.0, tick.wall_s - fault.since_wall_s))
        return [
            (f"{point}{fault!s:<26} ", "fault b"),
            (f"{age}  ", "text"),
            (f"by {fault.by}{until}", "muted"),
        ]

    def _does(self, row: str) -> str:
        """What happens, to whom."""
        return _ROLES.get(_verb(row)) or kind_of(re.split("[=@]", row)[0]).does

    def _details(self, row: str) -> Sequence[Line]:
        """What happens, the very commands, how it is taken back, and why it would be refused."""
        told = [("does", self._does(row))] if row not in self._faults else []
        verb, _, node = row.partition(" ")
        if verb in _ROLES:
            nodes = {each.name: each for each in self._picture.tick.nodes} if self._picture.tick else {}
            if verb == ChangeKind.REJOIN and node in nodes and nodes[node].errant_gtids:
                told.append(("▲", f"{node} would lose what the source lacks: {nodes[node].errant_gtids}"))
            if self._asked == row:
                told.append(("▲", f"{verb}: Enter again does it, any other key cancels"))
        else:
            try:
                request = self._request(row)
                preview = self._stack.preview_fault(request)
                told += [("runs", text) for text in preview.statements if row not in self._faults]
                told += [("clearing", text) for text in preview.undo or (request.kind.undone,)]
            except ReplexplorerError as error:
                preview = Preview((), (), (str(error),))
            told += [("▲", text) for text in preview.warnings]
        inks = {"runs": "warn b", "clearing": "muted", "▲": "warn"}
        lines: list[Line] = []
        for at, (head, text) in enumerate(told):
            shown = "" if at and told[at - 1][0] == head else head
            lead: Line = [(f"    {shown:<12}", "warn b" if head == "▲" else "muted")]
            lines += hung(lead, text, self.width, inks.get(head, "text"))
        return lines

    def _request(self, row: str) -> FaultRequest:
        """The fault of a row; raises UsageError."""
        fault, tick = self._faults.get(row), self._picture.tick
        if fault is not None:
            return FaultRequest(kind_of(fault.kind), fault.value, (fault.node,))
        if tick is None or tick.roster is None:
            raise ReplexplorerError("the servers have not answered yet", "wait a moment")
        return parse_fault(row, tick.roster)

    def moved(self) -> None:
        """Another row takes a question back."""
        self._asked = ""

    def on_key(self, event: events.Key) -> None:
        """Any key but the one that was asked for takes a question back."""
        if self._asked and event.key != "enter":
            self._asked = ""
            self.fill()

    @on(OptionList.OptionSelected)
    def _act(self) -> None:
        """Inject what is chosen, or clear it where it is in force, or ask before roles change."""
        row = self._form(self.chosen)
        verb, _, node = row.partition(" ")
        if row in self._faults:
            self._begin("fault", lambda console: console.clear(node), f"clearing {self._faults[row]}")
        elif verb in _ROLES and self._asked != row:
            self._asked = row
            self.fill()
        elif verb in _ROLES:
            self._begin(verb, lambda console: getattr(console, verb)(node or None), row)
        else:
            request = self._request(row)
            words = f"injecting {request.text} on {', '.join(request.nodes)}"
            self._begin("fault", lambda console: console.inject(request), words)

    def action_clear_all(self) -> None:
        """Take every fault back."""
        if self._faults:
            self._begin("fault", lambda console: console.clear(), "clearing every fault")

    def _begin(self, label: str, command: Command[Any], words: str) -> None:
        self._ask(label, command, words)
        self.moved()


def _verb(row: str) -> str:
    return row.partition(" ")[0]
