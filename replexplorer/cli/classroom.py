"""`classroom`: a stack for each student, and one trainer who sees and turns all of them."""

from __future__ import annotations

import argparse
import asyncio
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from replexplorer.cli.arguments import Parser, add_global_flags, add_json, parse, sentence
from replexplorer.cli.running import run_async
from replexplorer.cli.stack import limits_of, status_of
from replexplorer.cli.students import Ended, for_each, outcome
from replexplorer.cli.typed import positive, seconds, whole_number
from replexplorer.cli.wiring import composed, load_configuration_of
from replexplorer.core.classroom import (
    CLASS,
    MOST_STUDENTS,
    VERBS,
    ClassRoll,
    fitting,
    names_in,
    numbered,
    placed,
    shortage,
    worst,
)
from replexplorer.core.errors import MissingPiece, ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.knobs.catalogue import MIB
from replexplorer.core.limits import LEAST_MEMORY_MIB, MOST_CPUS
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.system import FLAVORS
from replexplorer.core.text import folded, number, table
from replexplorer.core.topology import MOST_REPLICAS
from replexplorer.formats.class_file import forget_class, password_file, read_class, write_class
from replexplorer.formats.json.classroom import ClassStatus, StudentJson
from replexplorer.formats.json.status import Status
from replexplorer.formats.paths import expanded
from replexplorer.formats.small_file import read_text

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.engine.session import Session

CPUS: Final = 1.0
"""Cores of each server, where --cpus says nothing else."""
MEMORY_MIB: Final = 1024
"""Memory of each server, where --memory says nothing else."""
POOL_MIB: Final = 32
"""Buffer pool of each server of a class."""
PORT: Final = 8100
_MOST_NAMES_BYTES: Final = 1 << 16
_BETWEEN_LOOKS_S: Final = 1.0
_LOOKS_AT_ONCE: Final = 4


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    children = {}
    for name, summary in (
        ("up", "make or mend a stack for each student"),
        ("status", "who is where, in which state, at how many TPS"),
        ("do", "a verb for every student, as `classroom do set rtt=85ms`"),
        ("serve", "each student's dashboard in a browser, with a password of its own"),
        ("down", "remove the stacks of all students"),
    ):
        child = children[name] = actions.add_parser(name, help=summary, description=sentence(summary))
        add_global_flags(child)
        child.add_argument("--class", dest="class_name", default="class", metavar="NAME", help="which class")
        if name != "serve":
            add_json(child)
    _up_arguments(children["up"])
    children["status"].add_argument(
        "--watch",
        type=seconds(positive=True),
        nargs="?",
        const=2.0,
        metavar="S",
        help="print it again every S seconds (default 2) until Ctrl-C",
    )
    for name, default in (("do", 4), ("down", 2)):
        children[name].add_argument(
            "--at-once",
            type=whole_number(1, MOST_STUDENTS),
            default=default,
            metavar="N",
            help=_at_once(default),
        )
    children["do"].add_argument(
        "words", nargs=argparse.REMAINDER, metavar="VERB ...", help=f"one of {', '.join(VERBS)}"
    )
    children["down"].add_argument("--yes", action="store_true", help="also where a load runs")
    serving = children["serve"]
    serving.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="listen here (default 127.0.0.1)"
    )
    serving.add_argument(
        "--port",
        type=whole_number(1024, 65535 - MOST_STUDENTS),
        default=PORT,
        metavar="N",
        help=f"the first student's port (default {PORT}); each other one has the next",
    )


def _up_arguments(parser: ArgumentParser) -> None:
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--students", type=whole_number(1, MOST_STUDENTS), metavar="N", help="make student1 to studentN"
    )
    who.add_argument("--names", metavar="FILE", help="the students' names, one a line")
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="HOST",
        help="a Docker host, once for each; students are spread",
    )
    parser.add_argument(
        "--replicas", type=whole_number(1, MOST_REPLICAS), metavar="N", help="of each stack (default 1)"
    )
    parser.add_argument(
        "--flavor", choices=FLAVORS, help="which server each stack runs; default: as `up` has it"
    )
    parser.add_argument(
        "--cpus", type=positive(MOST_CPUS), metavar="N", help=f"most cores of each server ({CPUS:g})"
    )
    parser.add_argument(
        "--memory",
        type=whole_number(LEAST_MEMORY_MIB),
        metavar="MIB",
        help=f"most memory of each server, in MiB ({MEMORY_MIB})",
    )
    parser.add_argument(
        "--at-once", type=whole_number(1, MOST_STUDENTS), default=2, metavar="N", help=_at_once(2)
    )
    parser.add_argument("--anyway", action="store_true", help="even where memory or disk will not do")


def _at_once(default: int) -> str:
    return f"how many students at a time (default {default})"


def run(call: Call) -> int:
    """One of the actions."""
    name = call.args.class_name
    if CLASS.fullmatch(name) is None:
        raise UsageError(f"--class {name}", "1 to 18 lower-case letters, digits and _, as class or monday")
    if call.args.stack is not None:
        raise UsageError("--stack: classroom addresses the stacks of a class", "--class NAME chooses one")
    match call.args.action:
        case "up":
            return run_async(_up(call, _wanted(call.args)))
        case "down":
            return run_async(_down(call))
        case "do":
            words = _checked_words(call.args.words)
            return run_async(_do(call, _found(name), words))
        case "serve":
            return _serve(call, _found(name))
        case _:
            if call.args.watch is not None and call.console.json:
                raise UsageError("--watch with --json would be several documents", "leave one of them out")
            return run_async(_status(call, _found(name)))


def _found(name: str) -> ClassRoll:
    roll = read_class(name)
    if roll is None:
        raise StackUnavailable(f"no class '{name}'", "`replexplorer classroom up --students N` makes one")
    return roll


def _wanted(args: argparse.Namespace) -> ClassRoll:
    """The class that `up` is to make; raises UsageError for what a class that is there cannot become."""
    has = read_class(args.class_name)
    names = None
    if args.names is not None:
        file = expanded(args.names)
        names = names_in(read_text(file, "file of names", _MOST_NAMES_BYTES), str(file))
    elif args.students is not None:
        names = numbered(args.students)
    if has is None:
        if names is None:
            raise UsageError("who is in the class?", "--students N or --names FILE")
        limits = limits_of(args.cpus or CPUS, args.memory or MEMORY_MIB)
        seats = placed(names, args.on, {})
        return ClassRoll(args.class_name, seats, args.replicas or 1, limits, args.flavor)
    remedy = f"`replexplorer classroom down --class {has.name}` first, or another --class"
    if names is not None and (left := [name for name in has.hosts if name not in names]):
        raise UsageError(f"class '{has.name}' has {', '.join(left)} as well", f"a class only grows: {remedy}")
    limits = limits_of(
        args.cpus or has.limits.cpus, args.memory or (has.limits.memory_bytes or 0) // MIB or None
    )
    if args.flavor not in (None, has.flavor):
        runs = has.flavor or "the server that the configuration says"
        raise UsageError(f"class '{has.name}' was made with {runs}, not {args.flavor}", remedy)
    if limits != has.limits or args.replicas not in (None, has.replicas):
        raise UsageError(f"class '{has.name}' has {has.replicas} replicas, {has.limits}", remedy)
    hosts = args.on or sorted({host for host in has.hosts.values() if host})
    return replace(has, hosts=placed(names or (), hosts, has.hosts))


async def _up(call: Call, roll: ClassRoll) -> int:
    args = call.args
    await asyncio.to_thread(_check_room, call, roll)
    write_class(roll)  # before the first stack: `down` finds what a killed `up` left
    students = list(roll.hosts)
    settled = set(roll.settled)

    def words_of(student: str) -> list[str]:
        return ["up", *roll.words(student), "--json"]

    def pools_of(student: str) -> list[str]:
        """Small buffer pools for a new stack; what a student turns later stays."""
        names = [f"innodb_buffer_pool_size@db{node}" for node in range(1, roll.replicas + 2)]
        return ["set", *(f"{name}={POOL_MIB * MIB}" for name in names), "--json"]

    def settle(student: str, ended: Ended) -> None:
        if ended.exit_code == 0:
            settled.add(student)
            write_class(replace(roll, settled=frozenset(settled)))

    began_s = time.monotonic()
    ends = await for_each(call, roll, students, words_of, at_once=args.at_once)
    new = [student for student, ended in ends if ended.exit_code == 0 and student not in settled]
    pools = await for_each(call, roll, new, pools_of, at_once=args.at_once, after=settle)
    failed = [each for each in (*ends, *pools) if each[1].exit_code]
    code = worst(ended.exit_code for _, ended in failed)
    for student, ended in failed:
        call.console.warn(f"{student}: {_last_line(ended)}")
    if call.console.json:
        call.console.document(
            outcome(roll, ["up"], [*ends, *(each for each in pools if each[1].exit_code)], code)
        )
    else:
        rows = [
            (student, roll.stack(student), roll.hosts[student] or "here", _word(ended))
            for student, ended in dict((*ends, *pools)).items()
        ]
        call.console.print(table(rows, ("student", "stack", "host", "outcome")))
    up = len(students) - len({student for student, _ in failed})
    took_s = time.monotonic() - began_s
    call.console.narrate(
        f"{up} of {len(students)} stacks are up after {took_s:.0f} s:"
        " `replexplorer classroom serve` lets the students in"
    )
    if failed:
        call.console.narrate("`replexplorer classroom up` goes on with the others")
    return code


def _check_room(call: Call, roll: ClassRoll) -> None:
    """Refuse what does not fit a host, with figures; raises MissingPiece. With --anyway only warn."""
    from replexplorer.adapters.docker.room import memory_by_stack, room_on

    values = load_configuration_of(call).values
    configured = values.flavor or (None if values.image else FLAVORS[0])
    for host in sorted(set(roll.hosts.values())):
        stacks = [roll.stack(student) for student, at in roll.hosts.items() if at == host]
        running = memory_by_stack(host, stacks)
        wanted = len(stacks) - len(running)
        room = room_on(host)
        problem = shortage(room, wanted, roll.replicas, host or "this machine", roll.flavor or configured)
        if problem is not None:
            fits = fitting(room, roll.replicas, roll.flavor or configured)
            if not call.args.anyway:
                raise MissingPiece(
                    problem, f"{fits} more would fit (`--students {len(running) + fits}`); --anyway tries it"
                )
            call.console.warn(f"{problem}: {fits} more would fit")
        if room.disk_bytes is None:
            call.console.warn(f"how much disk {host or 'this machine'} has left is not known from here")


async def _down(call: Call) -> int:
    roll = read_class(call.args.class_name)
    if roll is None:
        call.console.narrate(f"no class '{call.args.class_name}' is here")
        if call.console.json:
            call.console.document(outcome(ClassRoll(call.args.class_name, {}), ["down"], [], 0))
        return 0
    words = ["down", *(["--yes"] if call.args.yes else [])]
    ends = await for_each(call, roll, list(roll.hosts), lambda student: words, at_once=call.args.at_once)
    code = worst(ended.exit_code for _, ended in ends)
    for student, ended in ends:
        if ended.exit_code:
            call.console.warn(f"{student}: {_last_line(ended)}")
    if code == 0:
        forget_class(roll.name)
    if call.console.json:
        call.console.document(outcome(roll, words, ends, code))
    gone = sum(ended.exit_code == 0 for _, ended in ends)
    call.console.narrate(f"{gone} of {len(ends)} stacks of class '{roll.name}' are removed")
    return code


def _checked_words(words: Sequence[str]) -> list[str]:
    """The verb for all; raises UsageError for one that is not for a class, or is typed wrong."""
    if not words or words[0] not in VERBS:
        typed = f"classroom do {words[0]}" if words else "classroom do: which verb?"
        raise UsageError(typed, f"for a class there are {', '.join(VERBS)}")
    args = parse(words)
    if args.stack is not None:
        raise UsageError("--stack: the verb runs for every student", "leave it out")
    if words[0] == "set":
        from replexplorer.cli.knobs import check_without_stack

        for text in args.assignments:
            check_without_stack(text)
    return list(words)


async def _do(call: Call, roll: ClassRoll, words: Sequence[str]) -> int:
    json = call.console.json or call.args.json
    typed = [word for word in words if word != "--json"]
    students = list(roll.hosts)
    # A load lasts: all begin together, as a class does.
    at_once = len(students) if typed[0] == "load" else call.args.at_once
    child = [*typed, "--json"] if json else typed
    ends = await for_each(call, roll, students, lambda student: child, at_once=at_once)
    code = worst(ended.exit_code for _, ended in ends)
    if json:
        call.console.document(outcome(roll, typed, ends, code))
        return code
    for student, ended in ends:
        call.console.print(f"{student}: {_word(ended)}, {ended.took_s:.1f} s")
        for line in (*ended.out.splitlines(), *ended.err.splitlines()):
            call.console.print(f"    {line}")
    failed = sum(ended.exit_code != 0 for _, ended in ends)
    call.console.narrate(f"{len(ends) - failed} of {len(ends)} done, {failed} failed")
    return code


def _word(ended: Ended) -> str:
    return "done" if ended.exit_code == 0 else f"failed, exit code {ended.exit_code}"


def _last_line(ended: Ended) -> str:
    lines = ended.err.strip().splitlines()
    return lines[-1].removeprefix("replexplorer: ") if lines else _word(ended)


async def _status(call: Call, roll: ClassRoll) -> int:
    watch: float | None = call.args.watch
    async with AsyncExitStack() as opened:
        sessions = {
            student: await opened.enter_async_context(composed(call, "classroom", name=roll.stack(student)))
            for student in roll.hosts
        }
        before = await _looks(sessions)
        while True:
            await asyncio.sleep(watch or _BETWEEN_LOOKS_S)
            after = await _looks(sessions)
            memory = await asyncio.to_thread(_memory, roll)
            students = [
                _student(roll, student, before[student], after[student], memory.get(roll.stack(student)))
                for student in roll.hosts
            ]
            if call.console.json:
                call.console.document(ClassStatus(name=roll.name, students=students))
            else:
                call.console.print(_page(students))
                for each in students:
                    if each.problem is not None:
                        call.console.print(folded(f"{each.student}: {each.problem}", call.console.columns))
            if watch is None:
                return StackUnavailable.exit_code if any(each.state != "up" for each in students) else 0
            call.console.print()
            before = after


Look = tuple[float, Status | ReplexplorerError]
"""When a stack was looked at, on the monotonic clock, and what was seen."""


async def _looks(sessions: dict[str, Session]) -> dict[str, Look]:
    slots = asyncio.Semaphore(_LOOKS_AT_ONCE)

    async def one(session: Session) -> Look:
        async with slots:
            try:
                seen: Status | ReplexplorerError = await status_of(session)
            except ReplexplorerError as error:
                seen = error
            return time.monotonic(), seen

    looks = await asyncio.gather(*map(one, sessions.values()))
    return dict(zip(sessions, looks, strict=True))


def _memory(roll: ClassRoll) -> dict[str, int]:
    """By stack; nothing of a host that is away, which its stacks' own lines say."""
    from replexplorer.adapters.docker.room import memory_by_stack

    found: dict[str, int] = {}
    for host in set(roll.hosts.values()):
        try:
            found |= memory_by_stack(host, [roll.stack(student) for student in roll.hosts])
        except ReplexplorerError:
            continue
    return found


def _student(roll: ClassRoll, student: str, before: Look, after: Look, memory: int | None) -> StudentJson:
    seen = after[1]
    known: dict[str, Any] = {"state": None, "protection": None, "tps": None, "load": None, "problem": None}
    if isinstance(seen, ReplexplorerError):
        known["problem"] = str(seen)
    else:
        known |= {"state": seen.state, "protection": seen.protection.state, "load": seen.load.driver}
        known["tps"] = _tps(before, after)
    return StudentJson(
        student=student,
        stack=roll.stack(student),
        host=roll.hosts[student] or None,
        memory_bytes=memory,
        **known,
    )


def _tps(before: Look, after: Look) -> float | None:
    """Transactions that the source logged between two looks, a second; None where it was not seen twice."""
    counts = [_logged(look[1]) for look in (before, after)]
    if counts[0] is None or counts[1] is None or after[0] <= before[0]:
        return None
    return max(counts[1] - counts[0], 0) / (after[0] - before[0])


def _logged(seen: Status | ReplexplorerError) -> int | None:
    if isinstance(seen, ReplexplorerError):
        return None
    source = next((node for node in seen.nodes if node.is_source), None)
    return None if source is None or source.gtid_executed is None else gtid_count(source.gtid_executed)


def _page(students: Sequence[StudentJson]) -> str:
    rows = [
        (
            each.student,
            each.stack,
            each.host or "here",
            each.state or "away",
            each.protection or "-",
            number(each.tps),
            "-" if each.memory_bytes is None else f"{each.memory_bytes / MIB:.0f}",
            each.load or "-",
        )
        for each in students
    ]
    headings = ("student", "stack", "host", "state", "protection", "TPS", "memory MiB", "load")
    return table(rows, headings, right=(5, 6))


def _serve(call: Call, roll: ClassRoll) -> int:
    """Serve every student's dashboard until Ctrl-C, each on a port and behind a password of its own."""
    from replexplorer.cli.classroom_doors import open_doors

    return run_async(open_doors(call, roll, call.args.host, call.args.port, password_file))
