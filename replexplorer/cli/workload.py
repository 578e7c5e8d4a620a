"""The verb `workload`: a file of SQL made of what another server's clients do."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING

from replexplorer.cli.arguments import Parser, add_global_flags, add_json, sentence
from replexplorer.cli.running import run_async
from replexplorer.cli.server_login import Known, known_login, login_arguments
from replexplorer.cli.typed import seconds, whole_number
from replexplorer.core.errors import UsageError
from replexplorer.core.imitation.imitation import MOST_ROWS, imitate
from replexplorer.engine.capture import capture
from replexplorer.formats.whole_file import whole_file
from replexplorer.reports.capture import document_of, render

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call

_DEFAULT_S = 60.0
_MOST_ROWS = 100_000_000


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    summary = "watch a server's statement digests and write a workload file like them; reads, changes nothing"
    child = actions.add_parser("capture", help=summary, description=sentence(summary))
    add_global_flags(child)
    child.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="mysql://USER@HOST:PORT; without it MYSQL_DSN or an option file says which",
    )
    login_arguments(child)
    child.add_argument(
        "--for",
        dest="duration",
        type=seconds(positive=True),
        default=_DEFAULT_S,
        metavar="S",
        help="how long, as 300 or 5m (default 60 s)",
    )
    child.add_argument(
        "-o", "--output", metavar="FILE", help="the workload's file; without it stdout gets the workload"
    )
    child.add_argument(
        "--database",
        action="append",
        default=[],
        metavar="NAME",
        help="only statements on tables of this one; may be given several times",
    )
    child.add_argument(
        "--rows",
        type=whole_number(1, _MOST_ROWS),
        default=MOST_ROWS,
        metavar="N",
        help=f"most rows of a table in the file (default {MOST_ROWS})",
    )
    add_json(child)


def run(call: Call) -> int:
    """The one action."""
    return run_async(_capture(call, known_login(call.args, call.console)))


async def _capture(call: Call, known: Known) -> int:
    from replexplorer.adapters.attached.provider import connection_to

    args, console = call.args, call.console
    place = known.source.place
    sql = connection_to(known.source, place, known.login)
    try:
        captured = await capture(
            sql,
            address=place,
            seconds=args.duration,
            databases=args.database,
            tell=lambda at_s, seen: console.progress(
                f"watching {place}", min(1.0, at_s / args.duration), f", {seen} statements in order"
            ),
        )
    finally:
        await sql.close()
    imitation = imitate(captured, most_rows=args.rows)
    found = document_of(captured, imitation, args.output)
    if not imitation.transactions:
        if found.left_out:
            console.narrate(render(found, console.columns))
        raise UsageError(
            f"{place} had no statement within {captured.seconds:.0f} s that can be imitated",
            imitation.remedy,
        )
    if args.output is not None:
        with whole_file(Path(args.output)) as stream:
            stream.write(imitation.text)
    if console.json:
        console.document(found)
    elif args.output is None:
        console.print(imitation.text.rstrip("\n"))
        console.narrate(render(found, console.columns))
    else:
        console.print(render(found, console.columns))
        console.narrate(f"wrote {args.output}: replexplorer load --workload {args.output}")
    return 0
