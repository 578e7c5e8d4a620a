"""A stack like servers that one has: `up --like` reads theirs, and has the new stack be so."""

from __future__ import annotations

from typing import Final

from replexplorer.cli.attach import attached_session, captured, known_login
from replexplorer.cli.entry import Call
from replexplorer.cli.wiring import runs
from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import Assignment, Value, format_value
from replexplorer.core.like import Likeness, Theirs, rows_of
from replexplorer.core.text import command, table
from replexplorer.engine.like import read_theirs
from replexplorer.engine.session import Session
from replexplorer.formats import paths
from replexplorer.formats.files import whole_file
from replexplorer.formats.server_url import parse_server_url
from replexplorer.reports.conditions import machine

WATCHED_S: Final = 30.0
"""How long their load is watched unless `--for` says otherwise."""


async def theirs_of(call: Call) -> Theirs:
    """What the servers that are named are like. Raises UsageError where the stack is there already, and what
    attaching to them raises."""
    from replexplorer.adapters.attached.provider import AttachedProvider

    args, stack = call.args, call.values.stack
    source, replicas = parse_server_url(args.like), [parse_server_url(text) for text in args.replica]
    if await runs(call.values):
        raise UsageError(
            f"stack '{stack}' already exists", f"{command('down', stack)} first, or another --stack"
        )
    known = known_login(args, call.console, source=source)
    servers = AttachedProvider(source, replicas, known.login, writes=False)
    async with attached_session(call, servers) as session:
        return await read_theirs(session, captured(call, known, args.for_s or WATCHED_S))


async def make_like(call: Call, session: Session, theirs: Theirs) -> int:
    """Turn a new stack's knobs to what was read, and print what came of it."""
    console, place = call.console, parse_server_url(call.args.like).place
    file = paths.captured_workload(place)
    if theirs.load is not None:
        with whole_file(file, parents=True) as stream:
            stream.write(theirs.load.workload or "")

    async def rows() -> list[Likeness]:
        found, roster = await session.status(), session.roster
        return rows_of(
            theirs,
            session.server.title if session.server else "",
            (roster.source, *roster.others),
            found.knobs,
            found.links,
            found.disks,
            workload=str(file),
            memory_bytes=machine().memory_bytes,
        )

    wanted = [
        Assignment((row.name,), row.asked) for row in await rows() if row.name and row.asked is not None
    ]
    for line in (await session.console.set(wanted)).all_warnings:
        console.warn(line)
    found = await rows()

    def text() -> str:
        """Settings that are theirs and what a stack has by itself are counted alone."""
        told = [row for row in found if row.why or not row.name or row.theirs != row.name.knob.default]
        lines = [
            (row.setting, _written(row, row.theirs), _written(row, row.here), row.sure, row.why)
            for row in told
        ]
        headings = ("SETTING", place.upper(), session.name.upper(), "HOW SURE", "")
        written = table(lines, headings, fold=4, columns=console.columns)
        return f"{written}\n{len(found) - len(told)} more settings are the same, and the default"

    return console.deliver(found, text)


def _written(row: Likeness, value: Value | None) -> str:
    """Theirs or here, for people."""
    if value is None or row.name is None:
        return "-" if value is None else str(value)
    return format_value(row.name.knob, round(value, 2) if isinstance(value, float) else value)
