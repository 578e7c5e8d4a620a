"""The verb `fault`: what can be done to a node on purpose, doing it, and taking it back."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import TYPE_CHECKING

from replexplorer.cli.arguments import Parser, add_global_flags, add_json, sentence
from replexplorer.cli.running import run_async
from replexplorer.cli.typed import seconds
from replexplorer.cli.wiring import attached
from replexplorer.core.fault import KINDS, FaultKind, check_fault, kind_of, parse_fault
from replexplorer.core.hints import command
from replexplorer.core.text import folded
from replexplorer.engine.console import Clear, Inject
from replexplorer.engine.outcome import Cleared
from replexplorer.formats.json.fault import FaultKindJson, FaultsCleared, FaultsInjected
from replexplorer.reports.documents import fault_document

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.cli.output import Output
    from replexplorer.core.server.comeback import Comeback


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    for name, summary in (
        ("list", "what can be done to a node, and what undoes it"),
        ("inject", "do it"),
        ("clear", "undo it, or all that is in force"),
    ):
        child = actions.add_parser(name, help=summary, description=sentence(summary))
        add_global_flags(child)
        if name == "inject":
            child.add_argument("fault", metavar="KIND[=VALUE][@NODE]", help="as kill, partition=ack@db2")
            child.add_argument(
                "--for",
                dest="for_s",
                type=seconds(positive=True),
                metavar="S",
                help="undo it after this many seconds, or when interrupted",
            )
            child.add_argument(
                "--anyway",
                action="store_true",
                help="even while a lab, sweep or drill runs; its result is marked",
            )
        if name == "clear":
            child.add_argument(
                "fault", nargs="?", metavar="KIND[@NODE]", help="without: every fault in force"
            )
        add_json(child)


def run(call: Call) -> int:
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
        console.document(list(map(_kind_document, KINDS)))
        return 0
    for kind in KINDS:
        console.print(kind.form)
        for line in (kind.does, f"without @NODE: {_without_node(kind)}", f"clear: {kind.undone}"):
            console.print(folded(f"    {line}", console.columns, "    "))
    return 0


def kinds_markdown() -> str:
    """The table of docs/faults.md."""
    rows = [(f"`{kind.form}`", kind.does, _without_node(kind), kind.undone) for kind in KINDS]
    head = ("fault", "what happens", "without `@NODE`", "`fault clear`")
    cells = [head, ("---",) * 4, *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    lines = map(" | ".join, cells)
    return "\n".join(f"| {line} |" for line in lines)


def _without_node(kind: FaultKind) -> str:
    return "every replica" if kind.on_replicas else "the source"


def _kind_document(kind: FaultKind) -> FaultKindJson:
    return FaultKindJson(
        kind=kind.key,
        form=kind.form,
        does=kind.does,
        undone=kind.undone,
        without_node=_without_node(kind),
    )


async def _inject(call: Call) -> int:
    args, console = call.args, call.console
    async with attached(call, "fault") as session:
        request = parse_fault(args.fault, session.fleet.roster)
        injected = await session.console.do(Inject(request, args.for_s, args.anyway))
        document = FaultsInjected(
            injected=[fault_document(each.fault) for each in injected],
            lost_files={each.fault.node: list(each.lost_files) for each in injected if each.lost_files},
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
                    cleared = await asyncio.shield(session.console.do(Clear(str(each.fault))))
                    document.cleared += [fault_document(one.fault) for one in cleared]
                    document.add(_told(console, cleared))
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
        cleared = await session.console.do(Clear(call.args.fault))
    came_back = _told(console, cleared)
    if console.json:
        document = FaultsCleared(cleared=[fault_document(each.fault) for each in cleared])
        document.add(came_back)
        console.document(document)
    else:
        console.print(
            "; ".join(f"{each.fault} is over" for each in cleared) if cleared else "no fault is in force"
        )
    return 0


def _told(console: Output, cleared: Iterable[Cleared]) -> list[Comeback]:
    """What servers came back without, and the command that makes them copies again; told a line each."""
    found = [each.comeback for each in cleared if each.comeback is not None]
    for comeback in found:
        for line in comeback.words(console.stack):
            console.warn(line)
    return found
