"""Verbs on failures: fault, on purpose; failover, switchover and rejoin change who is the source."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from replexplorer.cli.entry import Call
from replexplorer.cli.wiring import attached, composed
from replexplorer.core.fault import KINDS, Fault, fault_parts, kind_of, parse_fault
from replexplorer.core.records import field, printed
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.comeback import Comeback
from replexplorer.core.server.gtid import transactions
from replexplorer.core.text import command, folded
from replexplorer.engine.console import Command
from replexplorer.engine.outcome import Cleared


@printed
class FaultsCleared:
    """`fault clear`."""

    cleared: list[Fault] = field(default_factory=list)
    came_back: list[Comeback] = field(default_factory=list)
    """Servers that run again."""
    ahead: dict[str, str] = field(default_factory=dict)
    """By replica: GTIDs that it has executed and its source, which is back, has lost."""

    def add(self, call: Call, cleared: Iterable[Cleared]) -> None:
        """With faults that ended; says what their servers came back without, and the command that makes
        them copies again."""
        for each in cleared:
            self.cleared.append(each.fault)
            if each.comeback is not None:
                self.came_back.append(each.comeback)
                self.ahead |= each.comeback.ahead
                for line in each.comeback.words(call.console.stack):
                    call.console.warn(line)

    @property
    def text(self) -> str:
        """What is over."""
        return "; ".join(f"{fault} is over" for fault in self.cleared) or "no fault is in force"


@printed
class FaultsInjected(FaultsCleared):
    """`fault inject`; what is cleared and comes back, with `--for`."""

    injected: list[Fault]
    lost_files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of a power cut, by node: the files that lost anything."""


def list_faults(call: Call) -> int:
    """What can be broken, how, and what mends it."""

    def text() -> str:
        lines = []
        for kind in KINDS:
            lines.append(kind.form)
            for line in (kind.does, f"without @NODE: {kind.without_node}", f"clear: {kind.undone}"):
                lines.append(folded(f"    {line}", call.console.columns, "    "))
        return "\n".join(lines)

    return call.console.deliver(KINDS, text)


async def inject(call: Call) -> int:
    """Break something, for a while or until it is cleared."""
    args, console = call.args, call.console
    fault_parts(args.fault)
    async with attached(call, "fault") as session:
        request = parse_fault(args.fault, session.fleet.roster)
        injected = await session.console.inject(request, args.for_s, args.force)
        document = FaultsInjected(
            injected=[each.fault for each in injected],
            lost_files={each.fault.node: each.lost_files for each in injected if each.lost_files},
        )
        for each in injected:
            console.narrate(f"fault {each.fault} is in force")
            for line in each.lost_files:
                console.narrate(f"  {each.fault.node} lost of {line}")
        if args.for_s is not None:
            try:
                await asyncio.sleep(args.for_s)
            finally:
                for fault in document.injected:
                    document.add(call, await asyncio.shield(session.console.clear(str(fault))))

    def text() -> str:
        if args.for_s is not None:
            return document.text
        targets = ((fault, f"{fault.kind}@{fault.node}") for fault in document.injected)
        return "\n".join(
            f"{fault}: {command('fault', console.stack, 'clear', target)} undoes it"
            for fault, target in targets
        )

    return console.deliver(document, text)


async def clear(call: Call) -> int:
    """Mend what was broken."""
    wanted: str | None = call.args.fault
    if wanted is not None:
        kind_of(wanted.partition("@")[0].partition("=")[0])
    document = FaultsCleared()
    async with attached(call, "fault") as session:
        session.narrate = call.console.narrate
        document.add(call, await session.console.clear(wanted))
    return call.console.deliver(document, lambda: document.text)


async def failover(call: Call) -> int:
    """A replica takes the place of a source that is gone."""
    args, since_s = call.args, time.monotonic()
    return await _change(
        call, lambda console: console.failover(args.to, since_s, args.force, args.accept_loss)
    )


async def switchover(call: Call) -> int:
    """The source and a replica change places."""
    return await _change(call, lambda console: console.switchover(call.args.to, call.args.force))


async def rejoin(call: Call) -> int:
    """A node follows the source again, or is a member of its group again; asks before it loses what only it
    has, where somebody can answer, and else says it."""
    args, console = call.args, call.console

    async def consents(node: str, gtids: str) -> bool:
        what = f"{node} has {transactions(gtids)} that the source lacks: {gtids}"
        if args.yes or not console.can_ask:
            console.narrate(f"{what}; its data is replaced by the source's")
            return True
        return await console.says_yes(f"{what}. Replace its data by the source's, and lose them?")

    return await _change(call, lambda stack: stack.rejoin(args.node, consents, args.force, args.copy))


async def _change(call: Call, change: Command[RoleChange]) -> int:
    console = call.console
    async with composed(call, call.args.command.split()[-1]) as session:
        await session.fleet.discover()
        session.narrate = console.progress
        done = await change(session.console)
    for warning in done.warnings:
        console.warn(warning)

    def text() -> str:
        lines = []
        for step in done.steps:
            lines.append(f"{step.took_ms:8.0f} ms  {step.node}: {step.name}")
            lines += [f"             {statement}" for statement in step.statements]
        return "\n".join([*lines, done.words])

    return console.deliver(done, text)
