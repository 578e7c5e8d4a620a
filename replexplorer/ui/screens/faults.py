"""Faults at hand: what is in force and how long, and what can be injected, with the very commands; and what
changes roles. Each row is what one would type: `kill@db1`, `partition=ack@db2`, `switchover db2`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events, on
from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.fault import KINDS, Fault, FaultRequest, kind_of, parse_fault, written
from replexplorer.core.role_change import ChangeKind, RoleChange
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
    ChangeKind.FAILOVER: "the source is gone: a replica (the one that lacks least) applies all that it has"
    " received and takes the writes, the others and the load follow it, and the old source takes none when it"
    " comes back",
    ChangeKind.SWITCHOVER: "source and replica (the nearest one) change places: writes wait until it has"
    " everything, and nothing is lost",
    ChangeKind.REJOIN: "a node that follows nobody follows the source again; one that has transactions which"
    " the source lacks, and loses, or that diverged gets a copy of the source's data",
}
"""What happens at each change of roles."""
_CHANGES: Final[Mapping[str, Callable[[Console, Any], Awaitable[RoleChange]]]] = {
    ChangeKind.FAILOVER: lambda console, node: console.failover(node),
    ChangeKind.SWITCHOVER: lambda console, node: console.switchover(node),
    ChangeKind.REJOIN: lambda console, node: console.rejoin(node),
}
_AWAY: Final = (Role.DETACHED, Role.DOWN)
"""Roles of a node that may follow the source again."""
Ask = Callable[[str, "Command[Any]", str], None]
"""Begins a command beside the others: its label, and words for it while it is under way."""


def injections(roster: Roster) -> Iterator[str]:
    """Every fault that can be injected, the usual nodes first."""
    replicas = [f"@{node}" for node in roster.others]
    for kind in KINDS:
        nodes = [f"@{roster.source}", *replicas]
        if kind.on_replicas:
            every = [""] if len(replicas) > 1 else []
            nodes = [*every, *replicas, *([f"@{roster.source}"] if kind.source_too else [])]
        for value in kind.values or _VALUES.get(kind.unit or "", (None,)):
            yield from (f"{written(kind.key, value)}{node}" for node in nodes)


def role_changes(tick: Tick) -> Iterator[str]:
    """Every change of roles; without a node the server's state decides."""
    others = [node for node in tick.nodes if not node.is_source]
    for verb in (ChangeKind.FAILOVER, ChangeKind.SWITCHOVER):
        yield verb
        yield from (f"{verb} {node.name}" for node in others)
    for node in others:
        if node.role in _AWAY or node.diverged:
            yield f"{ChangeKind.REJOIN} {node.name}"


class FaultsScreen(ChoiceScreen[str]):
    """The list; what is done is done behind the dashboard, which is shown then."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("X", "clear_all", "Clear every fault", show=False)]

    def __init__(
        self, stack: Console, ask: Ask, under_way: Sequence[str], picture: Picture, settings: Settings
    ) -> None:
        super().__init__(settings)
        self._stack = stack
        self._ask = ask
        self._under_way = under_way
        self._picture = picture
        self._asked = ""
        """A change of roles that Enter was pressed for: a second one does it."""

    @property
    def _faults(self) -> Mapping[str, Fault]:
        """Those in force, the newest first, by the row that clears each."""
        faults = self._picture.tick.faults if self._picture.tick else ()
        return {f"{_CLEAR} {fault.kind}@{fault.node}": fault for fault in reversed(faults)}

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Faults in force, then what can be injected, then what changes roles."""
        tick = self._picture.tick
        injected = tuple(injections(tick.roster)) if tick is not None and tick.roster is not None else ()
        changes = tuple(role_changes(tick)) if tick is not None else (ChangeKind.FAILOVER,)
        return ("IN FORCE", tuple(self._faults)), ("INJECT", injected), ("ROLES", changes)

    def listed(self) -> Listed:
        """The keys that do something to the chosen row, and what it means."""
        row = self.chosen
        does = "clear it" if row in self._faults else "inject"
        if _verb(row) in _ROLES:
            does = "do it" if self._asked == row else "asks, then does it"
        hints = [("Enter", does), *([("X", "clear all")] if self._faults else [])]
        doing = f"{self._under_way[-1]}…  " if self._under_way else ""
        title: Line = [("Faults ", "title b"), (doing, "warn"), *key_hints(*hints)]
        return Listed(title, [[], *self._details(row)])

    def row(self, row: str, *, chosen: bool) -> Line:
        """`▸ power_cut=strict@db1   the machine of the node loses power`; of a fault in force since when."""
        point, fault, tick = "▸ " if chosen else "  ", self._faults.get(row), self._picture.tick
        if fault is None or tick is None:
            short = re.split("[.;:]", self._does(row))[0]
            return [(f"{point}{row:<26} ", "title b"), (short, "muted")]
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
                told.append(("▲", f"{verb}: Enter again does it, any other key does not"))
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
            raise ReplexplorerError("nothing is known of the servers", "wait for the first look")
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
        row = self.chosen
        verb, _, node = row.partition(" ")
        if row in self._faults:
            self._begin("fault", lambda console: console.clear(node), f"clearing {self._faults[row]}")
        elif verb in _ROLES and self._asked != row:
            self._asked = row
            self.fill()
        elif verb in _ROLES:
            self._begin(verb, lambda console: _CHANGES[verb](console, node or None), row)
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
        self.dismiss()


def _verb(row: str) -> str:
    return row.partition(" ")[0]


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
