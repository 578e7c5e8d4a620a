"""Verbs on failures: fault, on purpose; failover, switchover and rejoin change who is the source."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from replexplorer.cli.documents import FaultsCleared, FaultsInjected
from replexplorer.cli.running import can_ask, run_async, says_yes
from replexplorer.cli.wiring import attached, composed
from replexplorer.core.fault import KINDS, check_fault, kind_of, parse_fault
from replexplorer.core.role_change import ChangeKind, RoleChange
from replexplorer.core.server.gtid import transactions
from replexplorer.core.text import command, folded
from replexplorer.engine.console import Command, Consent
from replexplorer.engine.outcome import Cleared

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.cli.output import Output


def fault(call: Call) -> int:
    """One of the three actions."""
    match call.args.action:
        case "list":
            return _list(call)
        case "inject":
            check_fault(call.args.fault)
            return run_async(_inject(call))
        case _:
            if call.args.fault is not None:
                kind_of(call.args.fault.partition("@")[0].partition("=")[0])
            return run_async(_clear(call))


def _list(call: Call) -> int:
    console = call.console
    if console.json:
        console.document(KINDS)
        return 0
    for kind in KINDS:
        console.print(kind.form)
        for line in (kind.does, f"without @NODE: {kind.without_node}", f"clear: {kind.undone}"):
            console.print(folded(f"    {line}", console.columns, "    "))
    return 0


async def _inject(call: Call) -> int:
    args, console = call.args, call.console
    async with attached(call, "fault") as session:
        request = parse_fault(args.fault, session.fleet.roster)
        injected = await session.console.inject(request, args.for_s, args.anyway)
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
                for each in injected:
                    cleared = await asyncio.shield(session.console.clear(str(each.fault)))
                    _warn_of_lost(console, cleared)
                    document.add(cleared)
    if console.json:
        console.document(document)
    elif args.for_s is None:
        for each in injected:
            target = f"{each.fault.kind}@{each.fault.node}"
            console.print(f"{each.fault}: {command('fault', console.stack, 'clear', target)} undoes it")
    else:
        console.print("; ".join(f"{each.fault} is over" for each in injected))
    return 0


async def _clear(call: Call) -> int:
    console = call.console
    async with attached(call, "fault") as session:
        session.narrate = console.narrate
        cleared = await session.console.clear(call.args.fault)
    _warn_of_lost(console, cleared)
    if console.json:
        document = FaultsCleared()
        document.add(cleared)
        console.document(document)
    else:
        console.print(
            "; ".join(f"{each.fault} is over" for each in cleared) if cleared else "no fault is in force"
        )
    return 0


def _warn_of_lost(console: Output, cleared: Iterable[Cleared]) -> None:
    """What servers came back without, and the command that makes them copies again, a line each."""
    for each in cleared:
        for line in () if each.comeback is None else each.comeback.words(console.stack):
            console.warn(line)


def failover(call: Call) -> int:
    """A replica takes the place of a source that is gone."""
    args = call.args
    since_s = time.monotonic()
    return run_async(
        _change(call, lambda console: console.failover(args.to, since_s, args.anyway, args.accept_loss))
    )


def switchover(call: Call) -> int:
    """The source and a replica change places."""
    return run_async(_change(call, lambda console: console.switchover(call.args.to, call.args.anyway)))


def rejoin(call: Call) -> int:
    """A node follows the source again, or is a member of its group again."""
    args, consent = call.args, _consent(call)
    return run_async(
        _change(call, lambda console: console.rejoin(args.node, consent, args.anyway, args.copy))
    )


def _consent(call: Call) -> Consent:
    """Ask before a node loses what only it has, where somebody can answer; else say it."""

    async def consents(node: str, gtids: str) -> bool:
        what = f"{node} has {transactions(gtids)} that the source lacks: {gtids}"
        if call.args.yes or not can_ask(call.console):
            call.console.narrate(f"{what}; its data is replaced by the source's")
            return True
        return await says_yes(call.console, f"{what}. Replace its data by the source's, and lose them?")

    return consents


async def _change(call: Call, command: Command[RoleChange]) -> int:
    console = call.console
    async with composed(call, call.args.verb) as session:
        await session.reach()
        session.narrate = console.progress
        done = await command(session.console)
    for warning in done.warnings:
        console.warn(warning)
    if console.json:
        console.document(done)
        return 0
    for step in done.steps:
        console.print(f"{step.took_ms:8.0f} ms  {step.node}: {step.name}")
        for statement in step.statements:
            console.print(f"             {statement}")
    console.print(outcome_words(done))
    return 0


def outcome_words(done: RoleChange) -> str:
    """The change in one line, and what it lost in another."""
    if done.kind is ChangeKind.REJOIN:
        if not done.steps:
            return f"{done.source_before} {done.standing} already: nothing was done"
        lost = done.rpo.commits or 0
        lost_words = f", and lost {lost:,} transaction{'' if lost == 1 else 's'}" if lost else ""
        return f"{done.source_before} {done.standing} again{lost_words}"
    rto = done.rto
    parts = (("detect", rto.detect_ms), ("promote", rto.promote_ms), ("first write", rto.first_write_ms))
    times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in parts if ms is not None)
    told = [f"{done.source} is the source, {done.source_before} was: {times}"]
    if done.rpo.accepted:
        told.append(f"{transactions(done.rpo.accepted)} lost, as accepted: {done.rpo.accepted}")
    if done.rpo.commits is not None:
        told.append(f"{done.rpo.commits:,} acknowledged row{'' if done.rpo.commits == 1 else 's'} lost")
    elif done.rpo.unknown is not None:
        told.append(f"how many commits are lost is unknown: {done.rpo.unknown}")
    return "\n".join(told)
