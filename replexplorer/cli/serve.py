"""Sharing: serve, the dashboard in a browser, and classroom, a stack for each student.

Every action of classroom is a loop over what this program does with one stack. A class is the stacks whose
names begin with its own and a dash; nothing else is kept of it but passwords.
"""

from __future__ import annotations

import asyncio
import errno
import json
import re
import secrets
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from replexplorer.adapters.secrets import keep
from replexplorer.cli.arguments import OLD, check_without_stack, parse
from replexplorer.cli.dashboard import settings_of
from replexplorer.cli.entry import Call
from replexplorer.cli.experiment import LESSONS
from replexplorer.cli.trainer import HEADS, watched
from replexplorer.cli.wiring import runs, stack_names
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.records import printed
from replexplorer.core.text import command, table
from replexplorer.formats.paths import class_directory, expanded


async def serve(call: Call) -> int:
    """Serve the dashboard until Ctrl-C; the first tab drives, the others watch."""
    from replexplorer.web.gate import Gate, is_loopback, read_password
    from replexplorer.web.server import DashboardServer

    args, console = call.args, call.console
    loopback, file = is_loopback(args.host), args.password_file
    if not loopback and file is None:
        raise UsageError(
            f"--listen {args.host} lets other machines in", "add --password-file FILE, or leave --listen out"
        )
    gate = Gate(loopback=loopback, password=None if file is None else read_password(expanded(file)))
    settings_of(call)  # what is wrong with theme and keys is said here, not in every tab
    await runs(call.values)
    server = DashboardServer(partial(_words_of, call, console.stack, ""), gate)
    async with served(call, server.application(), args.port) as address:
        try:
            await until_ended(call, address, "the first tab drives, the others watch", loopback)
        finally:
            if server.has_driven:
                name = console.stack
                console.narrate(f"stack '{name}' keeps running if it ran; {command('down', name)} removes it")
    return 0


def _program(call: Call, stack: str, words: Sequence[str]) -> list[str]:
    """What starts this program on a stack, with the caller's configuration."""
    config = [] if call.args.config is None else ["--config", str(expanded(call.args.config).absolute())]
    return [sys.executable, "-P", "-m", "replexplorer", "--stack", stack, *config, *words]


def _words_of(call: Call, stack: str, lesson: str, drives: bool) -> Sequence[str]:
    """What a tab of a stack's dashboard runs, for the driver with this lesson where one is named."""
    words = ["lesson", "run", lesson] if lesson else []
    return _program(call, stack, words if drives else ["watch"])


async def until_ended(call: Call, what: str, says: str, loopback: bool) -> None:
    """Print what is served, and wait for the end."""
    call.console.print(what)
    call.console.narrate(f"{says}; Ctrl-C ends all")
    if not loopback:
        call.console.warn("passwords and pictures cross the network as they are: use `ssh -L` or a TLS proxy")
    await asyncio.Event().wait()


@asynccontextmanager
async def served(call: Call, application: web.Application, port: int) -> AsyncIterator[str]:
    """The address of a page that is served: of `--listen`, by the machine's name where that is all of its
    addresses. Raises MissingPiece or UsageError where one cannot listen there."""
    from aiohttp import web

    host: str = call.args.host
    bare = host.strip("[]")
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, "127.0.0.1" if bare.lower() == "localhost" else bare, port).start()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                told = f"{host} port {port} is taken by another program"
                raise MissingPiece(told, f"--listen {host}:0 picks a free one") from None
            told = f"--listen {host}:{port}: {(error.strerror or str(error)).lower()}"
            raise UsageError(told, "name an address of this machine, and a port from 1024 on") from None
        name = socket.gethostname() if bare in ("0.0.0.0", "::", "") else bare  # noqa: S104
        shown = f"[{name}]" if ":" in name else name
        yield f"http://{shown}:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


# -- classroom

VERBS: Final = ("set", "get", "reset", "preset", "fault", "load", "role", "check")
"""What `classroom each` carries out for each student."""
TRAINER: Final = "trainer"
"""Whose page and password come first."""
_CLASS: Final = re.compile(r"[a-z0-9][a-z0-9_]{0,17}")
_LOOK_EVERY_S: Final = 2.0
_ENDS_WITHIN_S: Final = 60.0
"""How long an interrupted verb may take to clean up."""


@printed
class StudentOutcome:
    """What came of a verb for one student."""

    student: str
    stack: str
    exit_code: int
    took_ms: float
    answer: Any
    """The verb's own document; null where it prints none."""
    said: list[str]
    """Its lines on stderr, progress included."""

    @property
    def words(self) -> str:
        """`done, 3.1 s`."""
        word = "done" if self.exit_code == 0 else f"failed, exit code {self.exit_code}"
        return f"{word}, {self.took_ms / 1000:.1f} s"


@printed
class ClassOutcome:
    """What every action of `classroom` prints."""

    name: str
    verb: list[str]
    exit_code: int
    """The greatest among the students'."""
    students: list[StudentOutcome]

    @property
    def text(self) -> str:
        """A line each, and below it what the verb said; of one that printed a document only its errors."""
        lines = []
        for each in self.students:
            said = each.said if each.exit_code else []
            if isinstance(each.answer, str):
                said = [*each.answer.splitlines(), *each.said]
            lines += [f"{each.student}: {each.words}", *(f"    {line}" for line in said)]
        return "\n".join(lines)


def _stack(call: Call, student: str) -> str:
    """The student's stack; raises UsageError where no class is meant."""
    name = call.args.class_name
    if _CLASS.fullmatch(name) is None:
        raise UsageError(f"--class {name}", "1 to 18 lower-case letters, digits and _, such as monday")
    if call.args.stack is not None:
        raise UsageError("--stack: classroom addresses the stacks of a class", "--class NAME chooses one")
    return f"{name}-{student}"


async def _students(call: Call) -> dict[str, str]:
    """Who has a stack, in order, with its name; raises StackUnavailable where nobody has one."""
    prefix = _stack(call, "")
    found = [name.removeprefix(prefix) for name in await stack_names() if name.startswith(prefix)]
    if not found:
        raise StackUnavailable(
            f"no class '{call.args.class_name}'", "`replexplorer classroom up --students N` makes one"
        )
    return {name: prefix + name for name in sorted(found, key=lambda name: (len(name), name))}


async def _ran(call: Call, student: str, words: Sequence[str]) -> StudentOutcome:
    """Run one verb to its end, in a session of its own that a terminal's Ctrl-C does not reach; a cancel
    interrupts it and waits until it has cleaned up."""
    began_s, stack = time.monotonic(), _stack(call, student)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *_program(call, stack, words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )
    talk = asyncio.ensure_future(process.communicate())
    try:
        out, err = (each.decode("utf-8", "replace") for each in await asyncio.shield(talk))
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.terminate()
            await asyncio.wait({talk}, timeout=_ENDS_WITHIN_S)
            process.kill()
        raise
    code = process.returncode or 0
    answer: Any = out or None
    with suppress(ValueError):
        answer = json.loads(out)
    return StudentOutcome(
        student=student,
        stack=stack,
        exit_code=130 if code < 0 else code,
        took_ms=(time.monotonic() - began_s) * 1000,
        answer=answer,
        said=err.splitlines(),
    )


async def _for_all(
    call: Call, students: Collection[str], words: Sequence[str], summary: str, at_once: int | None = None
) -> ClassOutcome:
    """Run a verb for each of these students, a few at once, and print what came of it."""
    slots, done, console = asyncio.Semaphore(at_once or call.args.at_once), 0, call.console

    async def one(student: str) -> StudentOutcome:
        nonlocal done
        async with slots:
            console.progress(f"{student}: {words[0]}", done / len(students))
            ended = await _ran(call, student, words)
        done += 1
        console.progress(f"{student}: {ended.words}, {done} of {len(students)}", done / len(students))
        return ended

    ends = await asyncio.gather(*map(one, students))
    found = ClassOutcome(
        name=call.args.class_name,
        verb=[*words],
        exit_code=max((each.exit_code for each in ends), default=0),
        students=ends,
    )
    console.deliver(found, lambda: found.text or "nothing to remove")
    console.narrate(f"{sum(each.exit_code == 0 for each in ends)} of {len(ends)} {summary}")
    return found


def _lesson_file(call: Call) -> Path:
    """Names the lesson with which each student's dashboard begins."""
    return class_directory(call.args.class_name) / "lesson"


async def class_up(call: Call) -> int:
    """A stack for each student, made or repaired."""
    args = call.args
    _stack(call, "")
    words = ["up", "--cpus", f"{args.cpus:g}", "--memory", str(args.memory), "--json"]
    words += [] if args.replicas is None else ["--replicas", str(args.replicas)]
    words += [] if args.flavor is None else ["--flavor", args.flavor]
    summary = "stacks are up: `replexplorer classroom serve` lets the students in"
    students = [f"student{number}" for number in range(1, args.students + 1)]
    if args.lesson is not None:
        LESSONS.named(args.lesson)
        keep(_lesson_file(call), args.lesson + "\n")
    return (await _for_all(call, students, words, summary)).exit_code


async def class_down(call: Call) -> int:
    """Remove the stacks of all, and their passwords."""
    try:
        students = await _students(call)
    except StackUnavailable:
        students = {}
    words = ["down", *(["--yes"] if call.args.yes else [])]
    code = (await _for_all(call, students, words, "stacks are removed")).exit_code
    if code == 0:
        shutil.rmtree(class_directory(call.args.class_name), ignore_errors=True)
    return code


async def class_each(call: Call) -> int:
    """Run a verb for each student; raises UsageError for one that is not for a class, or is typed wrong."""
    words = [word for word in call.args.words if word != "--json"]
    verb = OLD.get(words[0], words[0]).partition(" ")[0] if words else ""
    if verb not in VERBS:
        typed = f"classroom each {words[0]}" if words else "classroom each needs a command"
        raise UsageError(typed, f"for a class there are {', '.join(VERBS)}")
    args = parse(words)
    if args.stack is not None:
        raise UsageError("--stack: the verb runs for every student", "leave it out")
    for text in args.assignments if words[0] == "set" else ():
        check_without_stack(text)
    students = await _students(call)
    at_once = len(students) if words[0] == "load" else None  # a load lasts: all begin together
    words += ["--json"] if call.console.json else []
    return (await _for_all(call, students, words, "done", at_once)).exit_code


async def class_status(call: Call) -> int:
    """How each student's stack and lesson are, once or until Ctrl-C; exit code 4 where not all are up."""
    args, console = call.args, call.console
    if args.watch and console.json:
        raise UsageError("--watch prints no JSON document", "leave one of them out")
    async with watched(call, await _students(call)) as look:
        while args.watch:
            console.redraw((await look()).text(console.columns))
            await asyncio.sleep(_LOOK_EVERY_S)
        found = await look()
    console.deliver(found, lambda: found.text(console.columns))
    return found.exit_code


async def class_serve(call: Call) -> int:
    """Serve the trainer's page and every student's dashboard until Ctrl-C, each on a port and behind a
    password of its own."""
    from replexplorer.web.gate import Gate, is_loopback, read_password
    from replexplorer.web.server import DashboardServer, table_page

    loopback, stacks = is_loopback(call.args.host), await _students(call)
    directory, file = class_directory(call.args.class_name), _lesson_file(call)
    lesson = file.read_text(encoding="utf-8").strip() if file.exists() else ""
    async with AsyncExitStack() as opened:
        look = await opened.enter_async_context(watched(call, stacks))
        rows = []

        async def look_rows() -> Sequence[Sequence[str]]:
            return (await look()).rows

        for port, name in enumerate((TRAINER, *stacks), call.args.port):
            file = directory / f"{name}.password"
            if not file.exists():
                keep(file, secrets.token_urlsafe(12) + "\n")
            gate = Gate(loopback=loopback, password=read_password(file))
            if name == TRAINER:
                application = table_page(gate, f"class {call.args.class_name}", HEADS, look_rows)
            else:
                words_of = partial(_words_of, call, stacks[name], lesson)
                application = DashboardServer(words_of, gate).application()
            address = await opened.enter_async_context(served(call, application, port))
            rows.append((name, address, str(file)))
        page = table(rows, ("who", "address", "password in"))
        await until_ended(call, page, "each student's first tab drives, further ones watch", loopback)
    return 0
