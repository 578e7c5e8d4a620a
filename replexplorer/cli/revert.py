"""The verb revert: undoes what a killed `attach --allow-changes` left changed."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from replexplorer.cli.arguments import add_json
from replexplorer.cli.running import run_async
from replexplorer.cli.server_login import DSN, login_arguments, login_with, password_for
from replexplorer.core.change.journalled import Fate, TakenBack
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.text import table
from replexplorer.engine.finish import to_the_end
from replexplorer.formats import paths
from replexplorer.formats.json.attach import Reverted, RevertReport, UndoneVariable
from replexplorer.formats.option_file import read_option_files, standard_files
from replexplorer.formats.paths import expanded
from replexplorer.formats.server_url import ServerUrl, parse_server_url

if TYPE_CHECKING:
    from replexplorer.adapters.attached.journal import ChangeJournal
    from replexplorer.adapters.attached.provider import Login
    from replexplorer.cli.entry import Call
    from replexplorer.cli.output import Output
    from replexplorer.ports import Sql


def run_arguments(parser: ArgumentParser) -> None:
    """Whose changes, and how one logs in."""
    parser.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="the source whose changes are meant; without it: all that there are",
    )
    login_arguments(parser)
    add_json(parser)


@dataclass(frozen=True, slots=True)
class _Left:
    """What one killed `attach` left."""

    journal: ChangeJournal
    source: str
    urls: Mapping[str, ServerUrl]
    """By node."""
    login: Login


def run(call: Call) -> int:
    """Undo what journals name; exit code 4 where something is still to do.

    Raises StackUnavailable naming an `attach` that still runs and whose changes alone were meant; those of
    others are undone beside it.
    """
    from replexplorer.adapters.attached.journal import ChangeJournal, file_of, journals

    directory = paths.attached_directory()
    if call.args.url is None:
        files = journals(directory)
    else:
        file = file_of(directory, parse_server_url(call.args.url).place)
        files = [file] if file.exists() else []
    with ExitStack() as stack:
        found: list[_Left] = []
        held: list[StackUnavailable] = []
        for file in files:
            try:
                journal = ChangeJournal.open(file)
            except StackUnavailable as error:
                held.append(error)
                continue
            stack.callback(journal.close)
            if journal.outstanding:
                found.append(_left(call, journal))  # a password is asked for before anything is undone
            else:
                journal.remove()
        if held and not found:
            raise held[0]
        done = run_async(_revert(call, found))
        for refusal in held:
            call.console.fail(refusal)
        return StackUnavailable.exit_code if held else done


async def _revert(call: Call, found: Sequence[_Left]) -> int:
    from replexplorer.adapters.attached.provider import connection_to
    from replexplorer.adapters.attached.undo import undo

    if not found:
        call.console.narrate("no change of `attach` is left to undo")
    reverted: list[Reverted] = []
    for left in found:
        call.console.progress(f"undoing what is left at {left.source}")
        connect = partial(_connect, connection_to, left)
        undone = await to_the_end(undo(left.journal, connect))
        narrate_undone(call.console, left.source, undone)
        if not call.console.json:
            rows = [
                (each.change.node, each.change.variable, each.change.asked, _now(each)) for each in undone
            ]
            call.console.print(table(rows, ("SERVER", "VARIABLE", "WAS SET TO", "NOW")))
        reverted.append(Reverted(source=left.source, variables=[undone_json(each) for each in undone]))
    if call.console.json:
        call.console.document(RevertReport(reverted=reverted))
    unreached = any(row.fate == "unreached" for each in reverted for row in each.variables)
    return StackUnavailable.exit_code if unreached else 0


def _connect(connection_to: Callable[[ServerUrl, str, Login], Sql], left: _Left, node: str) -> Sql:
    if node not in left.urls:
        raise UsageError(
            f"the journal of changes {left.journal.file} does not say where {node} is", "look at it"
        )
    return connection_to(left.urls[node], node, left.login)


def _left(call: Call, journal: ChangeJournal) -> _Left:
    source, urls = _servers(journal)
    return _Left(journal, source, dict(urls), _login(call, journal, urls[0][1]))


def _now(each: TakenBack) -> str:
    match each.fate:
        case Fate.RESTORED:
            return each.change.before
        case Fate.LEFT if each.change.is_schema:
            return "another one has its name, left"
        case Fate.AS_BEFORE:
            return f"{each.change.before} (it was so already)"
        case Fate.LEFT:
            return f"{each.found} (set by somebody else, left; it was {each.change.before})"
        case Fate.UNREACHED:
            return f"unknown (it was {each.change.before}): {each.why}"


def _servers(journal: ChangeJournal) -> tuple[str, list[tuple[str, ServerUrl]]]:
    """The source as it was named, and the servers by name, the source first."""
    head = journal.head
    try:
        urls = [
            (str(node["name"]), ServerUrl(str(node["host"]), int(node["port"]), node["user"]))
            for node in head["nodes"]
        ]
        source = str(head["source"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"the journal of changes {journal.file} is broken", "look at it, then remove it"
        ) from None
    if not urls:
        raise UsageError(
            f"the journal of changes {journal.file} names no server", "look at it, then remove it"
        )
    return source, urls


def _login(call: Call, journal: ChangeJournal, source: ServerUrl) -> Login:
    """As the journal says one logged in; what is typed now goes before."""
    head, args = journal.head, call.args
    named = args.defaults_file or head.get("defaults_file")
    options = read_option_files([expanded(named)] if named else standard_files())
    user = str(source.user)
    environment: Mapping[str, str] = os.environ
    if environment.get(DSN):
        from_dsn = parse_server_url(environment[DSN], with_password=True)
        if from_dsn.place == head.get("source"):
            source = replace(source, password=from_dsn.password)
    password, _ = password_for(source, user, options, call.console, environment)
    flags = Namespace(
        ssl_mode=args.ssl_mode or head.get("ssl_mode"), ssl_ca=args.ssl_ca or head.get("ssl_ca")
    )
    return login_with(flags, options, user, password)


def undone_json(each: TakenBack) -> UndoneVariable:
    """One variable as a document has it."""
    row: dict[str, Any] = {
        "node": each.change.node,
        "variable": each.change.variable,
        "before": each.change.before,
        "asked": each.change.asked,
        "found": each.found,
        "fate": each.fate.value,
        "why": each.why or None,
    }
    return UndoneVariable(**row)


def narrate_undone(console: Output, source: str, undone: Sequence[TakenBack]) -> None:
    """What became of the changes, in words."""
    done = [each for each in undone if each.fate in (Fate.RESTORED, Fate.AS_BEFORE)]
    restored = sum(not each.change.is_schema for each in done)
    if not undone:
        console.narrate(f"{source}: nothing was changed")
    if restored:
        count = "1 setting is" if restored == 1 else f"{restored} settings are"
        console.narrate(f"{source}: {count} as before")
    for each in done:
        if each.change.is_schema:
            console.narrate(f"{source}: {each.change.variable} is gone")
    for each in undone:
        if each.change.is_schema:
            _narrate_schema(console, each)
            continue
        name = f"{each.change.variable} of {each.change.node}"
        if each.fate is Fate.LEFT:
            console.warn(
                f"{name} is {each.found} now, which somebody else has set: it is left;"
                f" it was {each.change.before}"
            )
        elif each.fate is Fate.UNREACHED:
            console.warn(
                f"{name} is still to be set back to {each.change.before} ({each.why}): `replexplorer revert`"
            )


def _narrate_schema(console: Output, each: TakenBack) -> None:
    """What of a load's schema is still there."""
    name = f"{each.change.variable} of {each.change.node}"
    if each.fate is Fate.LEFT:
        console.warn(f"{name} is not the one that was made here: it is left")
    elif each.fate is Fate.UNREACHED:
        console.warn(f"{name} is still to be dropped ({each.why}): `replexplorer revert`")
