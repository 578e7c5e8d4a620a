"""Sharing: serve, the dashboard in a browser, and classroom, a stack for each student.

Every action of classroom is a loop over what this program does with one stack. A class is the stacks whose
names begin with its own and a dash; nothing else is kept of it but passwords.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from replexplorer.adapters.secrets import keep
from replexplorer.cli.arguments import parse
from replexplorer.cli.dashboard import look, settings_of
from replexplorer.cli.documents import ClassOutcome, ClassStatus, OutcomeJson, StudentJson
from replexplorer.cli.output import delivered
from replexplorer.cli.running import run_async
from replexplorer.cli.wiring import composed, load_configuration_of, stack_names
from replexplorer.core.errors import MissingPiece, ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.text import command, folded, number, table
from replexplorer.engine.outcome import Status
from replexplorer.formats.files import read_text
from replexplorer.formats.paths import class_directory, expanded

if TYPE_CHECKING:
    from aiohttp.web import AppRunner

    from replexplorer.cli.entry import Call
    from replexplorer.engine.session import Session
    from replexplorer.web.gate import Gate
    from replexplorer.web.server import DashboardServer


def serve(call: Call) -> int:
    """Serve the dashboard until Ctrl-C; the first tab drives, those beside it watch."""
    from replexplorer.web.gate import Gate, is_loopback, read_password

    args = call.args
    loopback = is_loopback(args.host)
    if not loopback and args.password_file is None:
        raise UsageError(
            f"--host {args.host} lets other machines in", "add --password-file FILE, or leave --host out"
        )
    file = args.password_file
    password = None if file is None else read_password(expanded(file))
    loaded = load_configuration_of(call)
    settings_of(loaded)  # what is wrong with theme and keys is said here, not in every tab
    asyncio.run(look(loaded.values.stack, loaded))
    words = [sys.executable, "-P", "-m", "replexplorer", "--stack", loaded.values.stack]
    if args.config is not None:
        words += ["--config", str(expanded(args.config).absolute())]

    def words_of(drives: bool) -> Sequence[str]:
        return words if drives else [*words, "--view"]

    return run_async(_serve(call, words_of, Gate(loopback=loopback, password=password), loopback))


async def _serve(call: Call, words_of: Callable[[bool], Sequence[str]], gate: Gate, loopback: bool) -> int:
    """Listen until cancelled, then end every tab's process."""
    console = call.console
    async with served(words_of, gate, call.args.host, call.args.port) as (server, address):
        try:
            await until_ended(call, address, "the first tab drives, those beside it watch", loopback)
        finally:
            if server.has_driven:
                name = console.stack
                console.narrate(f"stack '{name}' keeps running if it ran; {command('down', name)} removes it")
    return 0


async def until_ended(call: Call, what: str, says: str, loopback: bool) -> None:
    """Print what is served, and wait for the end."""
    call.console.print(what)
    call.console.narrate(f"{says}; Ctrl-C ends all")
    if not loopback:
        call.console.warn("passwords and pictures cross the network as they are: use `ssh -L` or a TLS proxy")
    await asyncio.Event().wait()


@asynccontextmanager
async def served(
    words_of: Callable[[bool], Sequence[str]], gate: Gate, host: str, port: int
) -> AsyncIterator[tuple[DashboardServer, str]]:
    """A dashboard behind a gate, with its address; `words_of(drives)` start a tab's process."""
    from aiohttp import web

    from replexplorer.web.server import DashboardServer

    server = DashboardServer(words_of, gate)
    runner = web.AppRunner(server.application(), access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        yield server, _address_of(host, await _listen(runner, host, port))
    finally:
        await runner.cleanup()


async def _listen(runner: AppRunner, host: str, port: int) -> int:
    """Begin to listen and answer the port; raises MissingPiece or UsageError where that cannot be."""
    from aiohttp import web

    address = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
    try:
        await web.TCPSite(runner, address, port).start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            told = f"{host} port {port} is taken by another program"
            raise MissingPiece(told, "--port 0 picks a free one") from None
        told = f"--host {host} --port {port}: {(error.strerror or str(error)).lower()}"
        raise UsageError(told, "name an address of this machine, and a port from 1024 on") from None
    return int(runner.addresses[0][1])


def _address_of(host: str, port: int) -> str:
    """What to open; the machine's name where it listens to all of its addresses."""
    bare = host.strip("[]")
    name = socket.gethostname() if bare in ("0.0.0.0", "::", "") else bare  # noqa: S104
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


# -- classroom

MOST_STUDENTS: Final = 200
VERBS: Final = (
    "set", "get", "reset", "scene", "fault", "load", "failover", "switchover", "rejoin", "check-schema",
)  # fmt: skip
"""What `classroom each` carries out for each student."""
_STUDENT: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,19}")
_CLASS: Final = re.compile(r"[a-z0-9][a-z0-9_]{0,17}")
_MOST_NAMES_BYTES: Final = 1 << 16
_BETWEEN_LOOKS_S: Final = 1.0
_LOOKS_AT_ONCE: Final = 4
_ENDS_WITHIN_S: Final = 60.0
"""How long an interrupted verb may take to clean up."""


def classroom(call: Call) -> int:
    """One of the actions."""
    args = call.args
    if _CLASS.fullmatch(args.class_name) is None:
        raise UsageError(f"--class {args.class_name}", "1 to 18 lower-case letters, digits and _, as monday")
    if args.stack is not None:
        raise UsageError("--stack: classroom addresses the stacks of a class", "--class NAME chooses one")
    match args.action:
        case "up":
            return run_async(_up(call, _named(args)))
        case "down":
            return run_async(_down(call))
        case "serve":
            return run_async(_serve_class(call))
        case "status":
            return run_async(_class_status(call))
        case _:
            return run_async(_each(call, _checked(args.words)))


def _named(args: argparse.Namespace) -> list[str]:
    """The students that `up` is asked for; raises UsageError that names the line of a wrong name."""
    if args.names is None:
        return [f"student{number}" for number in range(1, args.students + 1)]
    file = expanded(args.names)
    found: list[str] = []
    for at, line in enumerate(read_text(file, "file of names", _MOST_NAMES_BYTES).splitlines(), 1):
        name = line.partition("#")[0].strip()
        if name and (_STUDENT.fullmatch(name) is None or name in found):
            raise UsageError(
                f"{file} line {at}: {name!r} is no name for a student, or is there twice",
                "1 to 20 lower-case letters, digits, - and _, each once, as anna or team-2",
            )
        found += [name] if name else []
    if not 1 <= len(found) <= MOST_STUDENTS:
        raise UsageError(f"{file} names {len(found)} students", f"1 to {MOST_STUDENTS}, one a line")
    return found


async def _students(call: Call) -> list[str]:
    """Who has a stack, in order; raises StackUnavailable where nobody has."""
    prefix = f"{call.args.class_name}-"
    found = [name.removeprefix(prefix) for name in await stack_names() if name.startswith(prefix)]
    if not found:
        raise StackUnavailable(
            f"no class '{call.args.class_name}'", "`replexplorer classroom up --students N` makes one"
        )
    return sorted(
        found, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
    )


def _stack(call: Call, student: str) -> str:
    return f"{call.args.class_name}-{student}"


# -- a verb for each


def _words(call: Call, student: str, words: Sequence[str]) -> list[str]:
    """What starts this program on a student's stack, with the caller's configuration."""
    program = [sys.executable, "-P", "-m", "replexplorer", "--stack", _stack(call, student)]
    config = [] if call.args.config is None else ["--config", os.path.abspath(call.args.config)]
    return [*program, *config, *words]


async def _ran(call: Call, student: str, words: Sequence[str]) -> OutcomeJson:
    """Run one verb to its end; a cancel interrupts it and waits until it has cleaned up.

    It is in a session of its own: a terminal's Ctrl-C does not reach it twice, and a kill of this process
    leaves it to end its own work.
    """
    began_s = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *_words(call, student, words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    talk = asyncio.ensure_future(process.communicate())
    try:
        out, err = await asyncio.shield(talk)
    except asyncio.CancelledError:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait({talk}, timeout=_ENDS_WITHIN_S)
        if process.returncode is None:
            process.kill()
        talk.cancel()
        raise
    code = process.returncode or 0
    text = out.decode("utf-8", "replace")
    answer: Any = text or None
    with suppress(ValueError):
        answer = json.loads(text)
    return OutcomeJson(
        student=student,
        stack=_stack(call, student),
        exit_code=130 if code < 0 else code,
        took_ms=(time.monotonic() - began_s) * 1000,
        answer=answer,
        said=err.decode("utf-8", "replace").splitlines(),
    )


async def _for_all(
    call: Call, students: Sequence[str], words: Sequence[str], *, at_once: int | None = None, summary: str
) -> int:
    """Run a verb for each of these students, a few at once, and print what came of it; answers the worst exit
    code."""
    slots, done = asyncio.Semaphore(at_once or call.args.at_once), 0

    async def one(student: str) -> OutcomeJson:
        nonlocal done
        async with slots:
            call.console.progress(f"{student}: {words[0]}", done / len(students))
            ended = await _ran(call, student, words)
        done += 1
        call.console.progress(
            f"{student}: {_outcome(ended)}, {done} of {len(students)}", done / len(students)
        )
        return ended

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(student)) for student in students]
    ends = [task.result() for task in tasks]
    code = max(each.exit_code for each in ends)
    document = ClassOutcome(name=call.args.class_name, verb=list(words), exit_code=code, students=ends)
    delivered(call.console, document, lambda: "\n".join(map(_ended_text, ends)))
    fine = sum(each.exit_code == 0 for each in ends)
    call.console.narrate(f"{fine} of {len(ends)} {summary}")
    return code


def _outcome(ended: OutcomeJson) -> str:
    word = "done" if ended.exit_code == 0 else f"failed, exit code {ended.exit_code}"
    return f"{word}, {ended.took_ms / 1000:.1f} s"


def _ended_text(ended: OutcomeJson) -> str:
    """A line, and below it what the verb said; of one that printed a document for itself only its errors."""
    said = ended.said if ended.exit_code else []
    if isinstance(ended.answer, str):
        said = [*ended.answer.splitlines(), *ended.said]
    return "\n".join([f"{ended.student}: {_outcome(ended)}", *(f"    {line}" for line in said)])


async def _up(call: Call, students: Sequence[str]) -> int:
    args = call.args
    words = ["up", "--cpus", f"{args.cpus:g}", "--memory", str(args.memory), "--json"]
    words += [] if args.replicas is None else ["--replicas", str(args.replicas)]
    words += [] if args.flavor is None else ["--flavor", args.flavor]
    return await _for_all(
        call, students, words, summary="stacks are up: `replexplorer classroom serve` lets the students in"
    )


async def _down(call: Call) -> int:
    try:
        students = await _students(call)
    except StackUnavailable as error:
        call.console.narrate(error.message)
        if call.console.json:
            call.console.document(
                ClassOutcome(name=call.args.class_name, verb=["down"], exit_code=0, students=[])
            )
        return 0
    words = ["down", *(["--yes"] if call.args.yes else [])]
    code = await _for_all(call, students, words, summary="stacks are removed")
    if code == 0:
        shutil.rmtree(class_directory(call.args.class_name), ignore_errors=True)
    return code


def _checked(words: Sequence[str]) -> list[str]:
    """The verb for all; raises UsageError for one that is not for a class, or is typed wrong."""
    if not words or words[0] not in VERBS:
        typed = f"classroom each {words[0]}" if words else "classroom each: which verb?"
        raise UsageError(typed, f"for a class there are {', '.join(VERBS)}")
    args = parse(words)
    if args.stack is not None:
        raise UsageError("--stack: the verb runs for every student", "leave it out")
    if words[0] == "set":
        from replexplorer.cli.knobs import check_without_stack

        for text in args.assignments:
            check_without_stack(text)
    return list(words)


async def _each(call: Call, words: Sequence[str]) -> int:
    if "--json" in words:
        call.console.json = True
    typed = [word for word in words if word != "--json"]
    students = await _students(call)
    return await _for_all(
        call,
        students,
        [*typed, "--json"] if call.console.json else typed,
        at_once=len(students) if typed[0] == "load" else None,  # a load lasts: all begin together
        summary="done",
    )


# -- what the trainer sees, and how students get in

Look = tuple[float, Status | ReplexplorerError]
"""When a stack was looked at, on the monotonic clock, and what was seen."""


async def _class_status(call: Call) -> int:
    slots = asyncio.Semaphore(_LOOKS_AT_ONCE)

    async def look(session: Session) -> Look:
        async with slots:
            try:
                return time.monotonic(), await session.status()
            except ReplexplorerError as error:
                return time.monotonic(), error

    students = await _students(call)
    async with AsyncExitStack() as opened:
        sessions = [
            await opened.enter_async_context(composed(call, "classroom", name=_stack(call, student)))
            for student in students
        ]
        before = await asyncio.gather(*map(look, sessions))
        await asyncio.sleep(_BETWEEN_LOOKS_S)
        after = await asyncio.gather(*map(look, sessions))
    rows = [_student(call, *each) for each in zip(students, before, after, strict=True)]
    document = ClassStatus(name=call.args.class_name, students=rows)
    delivered(call.console, document, lambda: _page(rows, call.console.columns))
    return StackUnavailable.exit_code if any(each.state != "up" for each in rows) else 0


def _student(call: Call, student: str, before: Look, after: Look) -> StudentJson:
    logged = [_logged(look[1]) for look in (before, after)]
    row = StudentJson(student=student, stack=_stack(call, student))
    match after[1]:
        case ReplexplorerError() as error:
            row.problem = str(error)
        case seen:
            row.state, row.protection, row.load = seen.state, seen.protection.state, seen.load.driver
    if logged[0] is not None and logged[1] is not None:
        row.tps = max(logged[1] - logged[0], 0) / (after[0] - before[0])
    return row


def _logged(seen: Status | ReplexplorerError) -> int | None:
    """Transactions that the source has logged."""
    nodes = [] if isinstance(seen, ReplexplorerError) else seen.nodes
    source = next((node for node in nodes if node.is_source), None)
    return None if source is None or source.gtid_executed is None else gtid_count(source.gtid_executed)


def _page(students: Sequence[StudentJson], columns: int | None) -> str:
    rows = [
        (
            each.student,
            each.stack,
            each.state or "away",
            each.protection or "-",
            number(each.tps),
            each.load or "-",
        )
        for each in students
    ]
    problems = [folded(f"{each.student}: {each.problem}", columns) for each in students if each.problem]
    return "\n".join(
        [table(rows, ("student", "stack", "state", "protection", "TPS", "load"), right=(4,)), *problems]
    )


def _tab(call: Call, student: str, drives: bool) -> Sequence[str]:
    """What starts a tab's process."""
    return _words(call, student, [] if drives else ["--view"])


async def _serve_class(call: Call) -> int:
    """Serve every student's dashboard until Ctrl-C, each on a port and behind a password of its own."""
    from replexplorer.web.gate import Gate, is_loopback, read_password

    host, loopback = call.args.host, is_loopback(call.args.host)
    async with AsyncExitStack() as opened:
        rows = []
        for port, student in enumerate(await _students(call), call.args.port):
            file = class_directory(call.args.class_name) / f"{student}.password"
            if not file.exists():
                keep(file, secrets.token_urlsafe(12) + "\n")
            gate = Gate(loopback=loopback, password=read_password(file))
            serving = served(partial(_tab, call, student), gate, host, port)
            _, address = await opened.enter_async_context(serving)
            rows.append((student, address, str(file)))
        page = table(rows, ("student", "address", "password in"))
        await until_ended(call, page, "each student's first tab drives, further ones watch", loopback)
    return 0
