"""Verbs of the knobs: set, get, reset; and the report that they share with scenes."""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import add_json
from replexplorer.cli.render import render_knobs, render_set, waiting_words
from replexplorer.cli.running import run_async, running_s
from replexplorer.cli.wiring import attached
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.knobs.knob_view import KnobView
from replexplorer.core.knobs.names import KnobName, addressed, find, parse_assignment
from replexplorer.core.topology import is_pair, new_roster
from replexplorer.engine.console import Reset, Turn
from replexplorer.engine.outcome import RolledBack, SetResult
from replexplorer.engine.session import Session
from replexplorer.formats.workload_file import workload_file
from replexplorer.reports.documents import knob_document, set_report

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


def set_knobs_arguments(parser: ArgumentParser) -> None:
    """The knobs with their values."""
    parser.add_argument(
        "assignments", nargs="+", metavar="KEY=VALUE", help="such as semi_sync=on, rtt=85ms or rtt@db3=10"
    )
    turning_arguments(parser, dry_run=True)


def get_arguments(parser: ArgumentParser) -> None:
    """Which knobs."""
    parser.add_argument("keys", nargs="*", metavar="KEY", help="without a key: all of them")
    add_json(parser)


def reset_arguments(parser: ArgumentParser) -> None:
    """What any turning of knobs takes."""
    turning_arguments(parser)


def turning_arguments(parser: ArgumentParser, *, dry_run: bool = False) -> None:
    """The flags of every verb that turns knobs."""
    if dry_run:
        parser.add_argument("--dry-run", action="store_true", help="print the statements and run none")
    parser.add_argument(
        "--anyway", action="store_true", help="even while a lab, sweep or drill runs; its result is marked"
    )
    add_json(parser)


def set_knobs(call: Call) -> int:
    """Turn knobs; all are checked before the first statement runs."""
    texts: list[str] = call.args.assignments
    for text in texts:
        check_without_stack(text)
    return run_async(turn(call, "set", lambda session: apply(session, texts, call.args)))


def reset(call: Call) -> int:
    """All knobs to their defaults."""
    return run_async(turn(call, "reset", lambda session: session.console.do(Reset(call.args.anyway))))


def get(call: Call) -> int:
    """Knobs with their values on this stack."""
    for key in call.args.keys:
        find(key.partition("@")[0])
    return run_async(_get(call))


async def _get(call: Call) -> int:
    async with attached(call, "get") as session:
        roster = session.roster
        names = [name for key in call.args.keys for name in addressed(key, roster)]
        if any(is_pair(name.node) for name in names):
            await session.look_at(names)
        chosen = _chosen(names, session.knobs())
    knobs = {str(name): knob_document(view, roster.source) for name, view in chosen.items()}
    if call.console.json:
        call.console.document({**knobs})
    else:
        call.console.print(render_knobs(knobs, call.console.columns))
        for key in dict.fromkeys(name.key for name in chosen) if call.args.keys else ():
            call.console.narrate(f"{key}: {find(key).help}")
    return 0


def _chosen(names: Sequence[KnobName], views: dict[KnobName, KnobView]) -> dict[KnobName, KnobView]:
    for name in names:
        if name not in views:
            raise UsageError(f"this server has no {name.key}", "`replexplorer get` lists what it has")
    return {name: views[name] for name in names} if names else views


def check_without_stack(text: str) -> None:
    """Refuse what is wrong on any stack before one is looked for; raise UsageError."""
    left, equals, value = text.partition("=")
    found = parse_assignment(f"{left.partition('@')[0]}{equals}{value}", new_roster())
    if found.names[0].knob.is_file(str(found.value)):
        workload_file(str(found.value))


async def apply(session: Session, texts: Iterable[str], args: Namespace) -> SetResult:
    """Parse all, then turn all; `--dry-run` and `--anyway` are heard."""
    assignments = tuple(session.console.parse(text) for text in texts)
    return await session.console.do(Turn(assignments, dry_run=args.dry_run, anyway=args.anyway))


_CONNECTING_IS_SAID_AFTER_S: Final = 2.0
"""A busy machine takes long to reach its own servers."""


async def turn(call: Call, holder: str, change: Callable[[Session], Awaitable[SetResult]]) -> int:
    """Attach, change, and report what was changed, or that all of it was rolled back."""
    began_s = time.monotonic() - running_s()
    try:
        connecting = asyncio.get_running_loop().call_later(
            _CONNECTING_IS_SAID_AFTER_S, call.console.progress, "connecting to the stack"
        )
        try:
            async with attached(call, holder, look=False) as session:
                connecting.cancel()
                session.narrate = call.console.narrate
                connected_s = time.monotonic()
                await session.sight.read_document()
                written_s = session.sight.requested.written_s
                result = await change(session)
                if not result.dry_run:  # its own request hides from now on what restarts took before it
                    await session.lost.catch_up(written_s)
                source = session.roster.source
                took_s = time.monotonic() - began_s
        finally:
            connecting.cancel()
    except RolledBack as error:
        call.console.fail(error, changed=[], warnings=[], rolled_back=error.complete)
        return error.exit_code
    report = set_report(result, source, took_s * 1000)
    for warning in report.warnings:
        call.console.warn(warning)
    if call.console.json:
        call.console.document(report)
    else:
        call.console.print(render_set(report, [str(name) for name in result.unchanged]))
        if (line := waiting_words(report, connected_s - began_s)) is not None:
            call.console.narrate(line)
    return StackUnavailable.exit_code if result.unmet else 0
