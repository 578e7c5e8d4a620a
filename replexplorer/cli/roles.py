"""Verbs that change who is the source: failover, switchover, rejoin."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from replexplorer.cli.arguments import add_json
from replexplorer.cli.question import can_ask, says_yes
from replexplorer.cli.running import run_async
from replexplorer.cli.wiring import composed
from replexplorer.core.role_change import ChangeKind, RoleChange
from replexplorer.core.server.gtid import transactions
from replexplorer.engine.console import Command, Consent, Failover, Rejoin, Switchover
from replexplorer.reports.documents import role_change_document

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


def failover_arguments(parser: ArgumentParser) -> None:
    """Who is promoted."""
    _promoting(parser, "the one that lacks least")
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="promote the NODE of --to without what it lacks and cannot fetch from another",
    )


def switchover_arguments(parser: ArgumentParser) -> None:
    """Who is promoted."""
    _promoting(parser, "the one that is nearest")


def rejoin_arguments(parser: ArgumentParser) -> None:
    """Who comes back."""
    parser.add_argument("node", metavar="NODE", help="name or alias of the node")
    parser.add_argument(
        "--copy",
        action="store_true",
        help="give it a copy of the source's data, also where it follows",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask, even if the node loses transactions")
    _common(parser)


def _promoting(parser: ArgumentParser, otherwise: str) -> None:
    parser.add_argument("--to", metavar="NODE", help=f"the replica to promote; without it {otherwise}")
    _common(parser)


def _common(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--anyway", action="store_true", help="even while a lab, sweep or drill runs; its result is marked"
    )
    add_json(parser)


def failover(call: Call) -> int:
    """A replica takes the place of a source that is gone."""
    args = call.args
    return run_async(_change(call, Failover(args.to, time.monotonic(), args.anyway, args.accept_loss)))


def switchover(call: Call) -> int:
    """The source and a replica change places."""
    return run_async(_change(call, Switchover(call.args.to, call.args.anyway)))


def rejoin(call: Call) -> int:
    """A node follows the source again, or is a member of its group again."""
    return run_async(_change(call, Rejoin(call.args.node, _consent(call), call.args.anyway, call.args.copy)))


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
        done = await session.console.do(command)
    for warning in done.warnings:
        console.warn(warning)
    if console.json:
        console.document(role_change_document(done))
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
