"""Verbs on recordings: replay, export, compare; and play, a script performed on the dashboard."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from replexplorer.cli.wiring import HostClock, composed
from replexplorer.core.errors import LoadTaken, StackUnavailable, UsageError
from replexplorer.engine.session import Session
from replexplorer.formats import paths
from replexplorer.formats.configuration import ENV_PREFIX
from replexplorer.formats.files import whole_file
from replexplorer.formats.paths import expanded
from replexplorer.formats.play_script import END, PlayedLine, PlayScript, Step
from replexplorer.reports.recordings import ComparedRun, compare_report, recorded_run
from replexplorer.reports.report import Report, html, markdown

if TYPE_CHECKING:
    from collections.abc import Callable

    from replexplorer.adapters.recording import SessionReader
    from replexplorer.cli.entry import Call
    from replexplorer.core.event import Event
    from replexplorer.core.tick import Tick
    from replexplorer.ui.play import PlayApp
    from replexplorer.ui.settings import Settings


_TOUR: Final = "tour"
_LAST: Final = "last"


def opened_for(call: Call) -> SessionReader:
    """The session that a verb's FILE names: `last` is of the stack that is named, if one is, and is said."""
    from replexplorer.adapters.recording import SessionReader

    reader = SessionReader(file_of(call.args.file, call.args.stack or os.environ.get(f"{ENV_PREFIX}STACK")))
    if call.args.file == _LAST:
        call.console.narrate(f"{reader.file}, of stack {reader.about.get('stack', '?')}")
    return reader


def file_of(name: str, stack: str | None = None) -> Path:
    """A path, a file of the sessions directory, `last` (the newest there, of a stack where one is named) or
    `tour` (the one that ships); raises UsageError naming the newest ones."""
    from replexplorer.adapters.recording import SUFFIX, SessionReader

    def is_of_stack(file: Path) -> bool:
        with suppress(UsageError), closing(SessionReader(file)) as reader:
            return reader.about.get("stack") == stack
        return False

    given, directory = expanded(name), paths.sessions_directory()
    recorded = sorted(directory.glob(f"*{SUFFIX}"), reverse=True)
    if name == _LAST and stack is not None:
        recorded = [*filter(is_of_stack, recorded)]
    named = [file for file in (directory / name, directory / f"{name}{SUFFIX}") if file.is_file()]
    found = [given] if given.exists() else recorded if name == _LAST else named
    if found:
        return found[0]
    if name == _TOUR:
        return paths.shipped_tour()
    newest = ", ".join(file.stem for file in recorded[:3])
    of = "" if name != _LAST or stack is None else f" of stack {stack}"
    raise UsageError(
        f"no recording {name}{of}", f"the newest are {newest}; {_LAST}, {_TOUR}" if newest else f"try {_TOUR}"
    )


_USUAL_SIZE: Final = (120, 36)


@dataclass(kw_only=True, slots=True)
class PlayJson:
    """A play that was performed to its end."""

    script: str
    title: str
    over: str | None
    """The recording; null on live servers."""
    lines: list[PlayedLine]
    cast: str | None
    """The cast that was written."""


def play(call: Call) -> int:
    """Check the whole script, then perform it; raises what ended it early."""
    from replexplorer.adapters.recording import SessionReader
    from replexplorer.formats.files import read_text
    from replexplorer.formats.play_script import LARGEST_PLAY_BYTES, read_play

    args = call.args
    file = expanded(args.script)
    script = read_play(read_text(file, "play", LARGEST_PLAY_BYTES), str(file))
    if (line := script.unfit(live=args.over is None)) is not None:
        why, hint = "live servers have no end", "wait for something else, or play --over FILE"
        if args.over is not None:
            why, hint = "a recording cannot be changed", "leave the line out, or play without --over"
        raise UsageError(f"{file}, line {line.number}: `{line.text}`: {why}", hint)
    in_terminal = sys.stdout.isatty() and sys.stdin.isatty()
    is_shown = in_terminal and not (args.headless or args.json or args.cast)
    if args.size is not None and is_shown:
        raise UsageError("--size is for --cast and --headless", "a terminal has a size of its own")
    size = None if is_shown else args.size or _USUAL_SIZE
    err = call.console.err  # while the dashboard runs, its library takes what is printed

    def tell(played: PlayedLine) -> None:
        """Tell of a line, where no dashboard stands there."""
        if size is not None:
            state = f", {played.state}" if played.state else ""
            changed = f"; changed: {'; '.join(played.changed)}" if played.changed else ""
            where = f"line {played.line}: " if played.line else ""
            err.write(f"{where}{played.text}: {played.took_s:.1f} s{state}{changed}\n")
            err.flush()

    with ExitStack() as stack:
        reader = stream = None
        if args.over is not None:
            reader = stack.enter_context(closing(SessionReader(file_of(args.over))))
        if args.cast is not None:
            stream = stack.enter_context(_file_beside(reader, "--cast", args.cast))
        played = _perform(call, script, size, stream, reader, told=tell)
    if args.cast is not None:
        call.console.narrate(f"written to {args.cast}")
    if args.json:
        call.console.document(
            PlayJson(
                script=script.file, title=script.title, over=args.over, lines=played.lines, cast=args.cast
            )
        )
    return 0


def _file_beside(reader: SessionReader | None, flag: str, name: str) -> AbstractContextManager[TextIO]:
    """A file to write; raises UsageError for the recording itself."""
    file = expanded(name)
    if reader is not None and file.exists() and file.samefile(reader.file):
        raise UsageError(f"{flag} {file} is the session itself", "name another file")
    return whole_file(file)


def _perform(
    call: Call,
    script: PlayScript,
    size: tuple[int, int] | None,
    stream: TextIO | None,
    reader: SessionReader | None,
    *,
    told: Callable[[PlayedLine], None] = lambda _: None,
) -> PlayApp:
    """Perform a script to its end over a recording, else on live servers, which are brought up where none
    run; each line is `told`. Says what it left behind and raises what ended it early."""
    from replexplorer.cli.dashboard import crashed, live_session
    from replexplorer.formats.play_script import CastWriter
    from replexplorer.ui.play import PlayApp

    wall_s = time.time() if reader is None else next(reader.ticks()).wall_s
    cast = None
    if stream is not None:
        cast = CastWriter(stream, size or _USUAL_SIZE, wall_s=wall_s, title=script.title)
    if reader is None:
        session, settings = live_session(call, "play")
        played = PlayApp(script, session, settings, size=size, cast=cast, told=told)
    else:
        played = PlayApp.over(script, reader, _shown(call, reader), size=size, cast=cast, told=told)
    played.perform()
    if played.left:
        call.console.narrate(played.left)
    if played.crash is not None:
        raise crashed(played.crash, "the play")
    if played.failure is not None:
        raise played.failure
    return played


def _shown(call: Call, reader: SessionReader) -> Settings:
    """How a recording is shown."""
    from replexplorer.cli.dashboard import settings_of

    return replace(settings_of(call), stack=f"{reader.about.get('stack', '?')}, recorded")


def replay(call: Call) -> int:
    """Play a recorded session in the dashboard; needs no servers and no Docker."""
    from replexplorer.cli.dashboard import shown
    from replexplorer.engine.view import Replay

    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise UsageError("a replay needs a terminal", "without one, `replexplorer export FILE --format md`")
    reader = opened_for(call)
    settings = _shown(call, reader)
    return shown(call, Replay(reader, HostClock(), speed=call.args.speed), settings, "the replay")


def export(call: Call) -> int:
    """Write a recorded session to stdout, or to `--output`."""
    args = call.args
    if args.size is not None and args.format != "cast":
        raise UsageError("--size is for --format cast", "leave it out")
    with closing(opened_for(call)) as reader:
        if args.output is None:
            _write(call, reader, sys.stdout)
            return 0
        with _file_beside(reader, "--output", args.output) as stream:
            _write(call, reader, stream)
    call.console.narrate(f"written to {args.output}")
    return 0


def _write(call: Call, reader: SessionReader, output: TextIO) -> None:
    from replexplorer.formats import export as forms

    match call.args.format:
        case "csv":
            csv.writer(output, lineterminator="\n").writerows(forms.csv_rows(reader.ticks()))
        case "jsonl":
            for document in forms.json_lines(reader.about, reader.ticks()):
                output.write(json.dumps(document, separators=(",", ":")) + "\n")
        case "cast":
            end = Step("until", length_s=math.inf, conditions=(END,), number=1, text="until end")
            title = f"replexplorer, stack {reader.about.get('stack', '?')}, recorded"
            script, args = PlayScript(str(reader.file), (end,), title), call.args
            _perform(call, script, args.size or _USUAL_SIZE, output, reader)
        case "md":
            output.write(markdown(_report(reader)))
        case "html":
            output.write(html(_report(reader)))
        case _:
            output.writelines(f"{line}\n" for line in forms.hdr_log(reader.about.items(), reader.ticks()))


def _report(reader: SessionReader) -> Report:
    """The session; its shaded windows are those of the dashboard's charts."""
    from replexplorer.reports.recordings import session_report
    from replexplorer.reports.svg import Window
    from replexplorer.ui.picture import Picture

    picture = Picture()

    def seen() -> Iterator[Tick]:
        for tick in reader.ticks():
            picture.fold(tick)
            yield tick

    def spans() -> Iterator[Window]:
        for one in picture.windows.all():
            yield Window(one.start_s, math.inf if one.end_s is None else one.end_s, one.word)

    return session_report(reader.about, seen(), reader.last_s - reader.first_s, spans)


# -- compare

_DURATION_S: Final = 20.0
_TURNS: Final = 2


async def compare(call: Call) -> int:
    """Measure two stacks in turns, or read two recordings, and print B against A."""
    from replexplorer.adapters.recording import SessionReader

    args, pair = call.args, (call.args.a, call.args.b)
    recordings = [word.endswith(".rxs") or os.sep in word for word in pair]
    if args.a == args.b:
        raise UsageError(f"{args.a} is named twice", "name two stacks, or two recordings")
    if any(recordings) and not all(recordings):
        raise UsageError(
            f"{args.a} and {args.b} are a stack and a recording", "name two stacks, or two recordings"
        )
    if not all(recordings):
        return await _measured(call)
    if args.duration is not None or args.turns is not None:
        raise UsageError("a recording is compared as it is", "leave --duration and --turns out")
    found = []
    for name in pair:
        with closing(SessionReader(file_of(name))) as reader:
            found.append(recorded_run(Path(name).stem, reader.ticks()))
    (a, of_a), (b, of_b) = found
    document, text = compare_report(a, b, epochs=(of_a, of_b))
    return call.console.deliver(document, lambda: text)


@dataclass(slots=True)
class _Stand:
    """One stack that is measured."""

    session: Session
    run: ComparedRun
    counts: bool = False
    """What is seen now belongs to it: its load runs and is warm."""

    def see(self, tick: Tick) -> None:
        """A look at everything."""
        if self.counts:
            self.run.look(tick)

    async def take_turn(self, duration_s: float, warmup_s: float) -> None:
        """Run the load that its knobs ask for and stop it; raises UsageError where they ask for none."""
        session, name = self.session, self.run.name
        if session.driving.settings().clients < 1:
            raise UsageError(f"stack {name} has no clients", f"`replexplorer set clients=8 --stack {name}`")
        with naming(name):
            await session.drive(session.driving.settings())
            await session.outside.clock.sleep(warmup_s)
            self.counts = True
            found = await session.rig.load.measure(duration_s=duration_s)
            self.counts = False
        self.run.intervals.extend(found.load.intervals)
        await session.console.toggle_load()


@contextmanager
def naming(stack: str) -> Iterator[None]:
    """What fails within says of which of the two stacks; no load can be added to another one here."""
    try:
        yield
    except StackUnavailable as error:
        error.message = f"stack {stack}: {error.message}"
        if isinstance(error, LoadTaken):
            error.hint = "end what drives it, then compare again"
        raise


async def _measured(call: Call) -> int:
    args, console, turns = call.args, call.console, call.args.turns or _TURNS
    async with AsyncExitStack() as opened:
        stands = []
        for name in (args.a, args.b):

            def hear(event: Event, name: str = name) -> None:
                console.hear(replace(event, text=f"{name}: {event.text}"))

            session = await opened.enter_async_context(composed(call, "compare", name=name))
            console.stack = name
            await session.attach()
            stand = _Stand(session, ComparedRun(name))
            await opened.enter_async_context(session.observed(hear, stand.see))
            stands.append(stand)
        for turn in range(turns):  # ABBA: what drifts with time weighs on both alike
            for stand in stands if turn % 2 == 0 else reversed(stands):
                console.progress(f"turn {turn + 1} of {turns}: {stand.run.name}")
                await stand.take_turn((args.duration or _DURATION_S) / turns, args.warmup)
    a, b = stands
    document, text = compare_report(a.run, b.run, turns=turns)
    return console.deliver(document, lambda: text)
