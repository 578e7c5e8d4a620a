"""The verb `check-schema`: what of a server's tables hurts replication, with the statement that mends it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import add_json
from replexplorer.cli.running import run_async
from replexplorer.cli.stack import node_named
from replexplorer.cli.wiring import attached
from replexplorer.core.tables.check import TablesReport, Weight
from replexplorer.core.text import folded
from replexplorer.core.topology import SOURCE
from replexplorer.formats.json.check_schema import TableFinding, TablesChecked

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call

_HAS_PROBLEMS: Final = 1


def run_arguments(parser: ArgumentParser) -> None:
    """Which databases, on which node."""
    parser.add_argument(
        "databases",
        nargs="*",
        metavar="DATABASE",
        help="only these; without any all but the server's own and the program's",
    )
    parser.add_argument(
        "--node", default=SOURCE, metavar="NODE", help="whose tables: name or role; default: the primary"
    )
    add_json(parser)


def run(call: Call) -> int:
    """Exit code 1 where a problem is found; notes change nothing."""
    return run_async(_run(call))


async def _run(call: Call) -> int:
    async with attached(call, "check-schema") as session:
        node = node_named(call.args.node, session.roster)
        report = await session.check_tables(node, call.args.databases)
    if call.console.json:
        call.console.document(document_of(report))
    else:
        call.console.print(render(report, call.console.columns))
    return _HAS_PROBLEMS if report.count(Weight.PROBLEM) else 0


def render(report: TablesReport, columns: int | None = None) -> str:
    """A line or two a finding with its statement below it, and the count."""
    lines = []
    for each in report.found:
        finding = each.finding
        lines.append(folded(f"{finding.severity}: {finding.table}: {finding.why}", columns))
        lines.append(f"  {each.statement};")
    if report.found:
        lines.append("")
    where = ", ".join(report.databases) or "no database"
    lines.append(
        f"{_counted(report.tables, 'table')} in {where} on {report.node} ({report.server}):"
        f" {_counted(report.count(Weight.PROBLEM), 'problem')},"
        f" {_counted(report.count(Weight.NOTE), 'note')}"
    )
    return "\n".join(lines)


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def document_of(report: TablesReport) -> TablesChecked:
    """As JSON."""
    return TablesChecked(
        node=report.node,
        server=report.server,
        databases=list(report.databases),
        tables=report.tables,
        problems=report.count(Weight.PROBLEM),
        notes=report.count(Weight.NOTE),
        findings=[
            TableFinding(
                kind=each.finding.kind.value,
                severity=each.finding.severity.value,
                database=each.finding.table.database,
                table=each.finding.table.table,
                columns=list(each.finding.columns),
                index=each.finding.index,
                why=each.finding.why,
                statement=each.statement,
            )
            for each in report.found
        ],
    )
