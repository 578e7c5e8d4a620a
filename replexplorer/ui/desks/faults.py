"""The dashboard's faults: which there are, what is chosen of each, and those under way."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.fault import KINDS, Fault, FaultKind, FaultRequest, kind_of, parse_fault
from replexplorer.core.topology import Roster
from replexplorer.engine.console import Clear, Inject
from replexplorer.engine.outcome import Preview
from replexplorer.ui.desks.commander import Commander

LABEL: Final = "fault"
"""Of the desk's commands."""
STALLS_MS: Final = ("10", "50", "200", "1000", "5000")
"""What `+` and `-` walk through where milliseconds follow a kind."""
FLAPS_S: Final = ("0.5/0.5", "1/4", "2/2", "5/5", "10/20")
"""And where seconds down and up follow it."""
_LADDERS: Final = {"ms": STALLS_MS, "s/s": FLAPS_S}
_USUAL: Final = 2


class Target(NamedTuple):
    """Whom a fault may hit."""

    words: str
    node: str | None
    """None: every replica."""


@dataclass(slots=True)
class _Choice:
    """What is chosen of one kind."""

    target: int = 0
    value: int = 0
    typed: str = ""
    """Figures in place of the value."""


@dataclass(slots=True)
class FaultDesk:
    """It outlives the screen that shows it: what was chosen stays, and what is under way goes on."""

    commander: Commander
    run: Callable[[Coroutine[Any, Any, None]], object]
    """Begins a coroutine beside the screens."""
    under_way: list[str] = field(default_factory=list)
    """What is being injected or cleared now, in words."""
    _waiting: list[Callable[[], None]] = field(default_factory=list)
    """What begins once nothing is under way."""
    _choices: dict[str, _Choice] = field(default_factory=lambda: _first_choices())

    def targets(self, kind: FaultKind, roster: Roster) -> Sequence[Target]:
        """Whom it can hit, the usual ones first; none where there is no replica and it needs one."""
        replicas = [Target(f"{node} replica", node) for node in roster.others]
        if not kind.on_replicas:
            return [Target(f"{roster.source} primary", roster.source), *replicas]
        found = [Target("every replica", None), *replicas] if len(replicas) > 1 else replicas
        return [*found, Target(f"{roster.source} primary", roster.source)] if kind.source_too else found

    def target(self, kind: FaultKind, roster: Roster) -> Target | None:
        """Whom it would hit."""
        found = self.targets(kind, roster)
        return found[min(self._choices[kind.key].target, len(found) - 1)] if found else None

    def value(self, kind: FaultKind) -> str | None:
        """What would follow `=`."""
        choice = self._choices[kind.key]
        values = _values(kind)
        return choice.typed or (values[choice.value] if values else None)

    def next_target(self, kind: FaultKind, roster: Roster, steps: int) -> None:
        """Another node."""
        if found := self.targets(kind, roster):
            choice = self._choices[kind.key]
            choice.target = (min(choice.target, len(found) - 1) + steps) % len(found)

    def next_value(self, kind: FaultKind, steps: int) -> None:
        """Another value; the ends of figures hold."""
        choice, values = self._choices[kind.key], _values(kind)
        choice.typed = ""
        if kind.values:
            choice.value = (choice.value + steps) % len(values)
        elif values:
            choice.value = max(0, min(len(values) - 1, choice.value + steps))

    def type(self, kind: FaultKind, character: str) -> None:
        """A figure typed in place of the value; nothing for the last one taken back."""
        choice = self._choices[kind.key]
        if kind.unit is not None:
            choice.typed = (choice.typed + character if character else choice.typed[:-1])[:8]

    def request(self, kind: FaultKind, roster: Roster) -> FaultRequest:
        """What is chosen; raises UsageError in one line."""
        target, value = self.target(kind, roster), self.value(kind)
        if target is None:
            raise UsageError(f"{kind.key} is done to a replica, and there is none", "add one (nodes)")
        at = "" if target.node is None else f"@{target.node}"
        return parse_fault(f"{kind.key}{at}" if value is None else f"{kind.key}={value}{at}", roster)

    def preview(self, kind: FaultKind, roster: Roster) -> Preview:
        """What it would run, and why it would be refused."""
        try:
            return self.commander.preview_fault(self.request(kind, roster))
        except UsageError as error:
            return Preview((), (), (str(error),))

    def preview_of(self, fault: Fault) -> Preview:
        """What one in force ran, and what takes it back; nothing of one that this version does not know."""
        try:
            request = FaultRequest(kind_of(fault.kind), fault.value, (fault.node,))
            return self.commander.preview_fault(request)
        except ReplexplorerError:
            return Preview((), (), ())

    def inject(self, kind: FaultKind, roster: Roster) -> None:
        """Do it, beside the dashboard; raises UsageError."""
        request = self.request(kind, roster)
        self._begin(f"injecting {request.text} on {', '.join(request.nodes)}", Inject(request))

    def clear(self, fault: Fault | None) -> None:
        """Take it back, or all for None, beside the dashboard."""
        if fault is None:
            self._begin("clearing every fault", Clear())
        else:
            self._begin(f"clearing {fault}", Clear(f"{fault.kind}@{fault.node}"))

    def _begin(self, words: str, command: Inject | Clear) -> None:
        self.under_way.append(words)
        self.run(self._carry_out(words, command))

    async def _carry_out(self, words: str, command: Inject | Clear) -> None:
        try:
            await self.commander.carry_out(LABEL, command)
        finally:
            self.under_way.remove(words)
            if not self.under_way:
                waiting, self._waiting = self._waiting, []
                for begin in waiting:
                    begin()

    def when_done(self, begin: Callable[[], None]) -> str:
        """Call this once nothing is under way; answers what it waits for, nothing where it was called."""
        if self.under_way:
            self._waiting.append(begin)
        else:
            begin()
        return ", ".join(self.under_way)


def _values(kind: FaultKind) -> tuple[str, ...]:
    return kind.values or _LADDERS.get(kind.unit or "", ())


def _first_choices() -> dict[str, _Choice]:
    return {kind.key: _Choice(value=_USUAL if kind.unit else 0) for kind in KINDS}
