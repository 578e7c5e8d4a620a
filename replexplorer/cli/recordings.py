"""Verbs on recordings: replay, export, compare; and play, a script performed on the dashboard."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from replexplorer.cli.wiring import HostClock, composed
from replexplorer.core.errors import LoadTaken, StackUnavailable, UsageError
from replexplorer.engine.session import Session
from replexplorer.formats import paths
from replexplorer.formats.configuration import ENV_PREFIX
from replexplorer.formats.files import whole_file
from replexplorer.formats.paths import expanded
from replexplorer.reports.compare import ComparedRun, compare_report, recorded_run
from replexplorer.reports.page import html
from replexplorer.reports.report import Report, markdown

if TYPE_CHECKING:
    from collections.abc import Callable

    from replexplorer.adapters.recording import SessionReader
    from replexplorer.cli.entry import Call
    from replexplorer.core.event import Event
    from replexplorer.core.tick import Tick
    from replexplorer.formats.play_script import PlayScript
    from replexplorer.ui.play import PlayApp, PlayedLine


_TOUR: Final = "tour"
_LAST: Final = "last"


def opened(name: str, stack: str | None = None) -> SessionReader:
    """The session of this name; raises UsageError."""
    from replexplorer.adapters.recording import SessionReader

    return SessionReader(file_of(name, stack))


def opened_for(call: Call) -> SessionReader:
    """The session that a verb's FILE names: `last` is of the stack that is named, if one is, and is said."""
    reader = opened(call.args.file, call.args.stack or os.environ.get(f"{ENV_PREFIX}STACK"))
    if call.args.file == _LAST:
        call.console.narrate(f"{reader.file}, of stack {reader.about.get('stack', '?')}")
    return reader


def file_of(name: str, stack: str | None = None) -> Path:
    """A path, a file of the sessions directory, `last` (the newest there, of a stack where one is named) or
    `tour` (the one that ships); raises UsageError naming the newest ones."""
    from replexplorer.adapters.recording import SUFFIX

    given = expanded(name)
    if given.exists():
        return given
    directory = paths.sessions_directory()
    recorded = sorted(directory.glob(f"*{SUFFIX}"), reverse=True)
    if name == _LAST and stack is not None:
        recorded = [file for file in recorded if _is_of(file, stack)]
    if name == _LAST and recorded:
        return recorded[0]
    if name == _TOUR:
        return paths.shipped_tour()
    for candidate in (directory / name, directory / f"{name}{SUFFIX}"):
        if candidate.is_file():
            return candidate
    newest = ", ".join(file.stem for file in recorded[:3])
    of = "" if name != _LAST or stack is None else f" of stack {stack}"
    raise UsageError(
        f"no recording {name}{of}", f"the newest are {newest}; {_LAST}, {_TOUR}" if newest else f"try {_TOUR}"
    )


def _is_of(file: Path, stack: str) -> bool:
    """Whether a file is a readable recording of this stack."""
    try:
        with closing(opened(str(file))) as reader:
            return reader.about.get("stack") == stack
    except UsageError:
        return False


_USUAL_SIZE: Final = (120, 36)


@dataclass(kw_only=True, slots=True)
class PlayedLineJson:
    """A line that was performed."""

    line: int
    """In the file; 0: the start that the play does not write."""
    text: str
    at_s: float
    """When it ended, since the play began."""
    took_s: float
    state: str
    """The protection state then."""
    changed: list[str]
    """What was changed so that the play starts from what it says; empty for other lines."""


@dataclass(kw_only=True, slots=True)
class PlayJson:
    """A play that was performed to its end."""

    script: str
    title: str
    over: str | None
    """The recording; null on live servers."""
    lines: list[PlayedLineJson]
    cast: str | None
    """The cast that was written."""


def play(call: Call) -> int:
    """Check the whole script, then perform it; raises what ended it early."""
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
    with ExitStack() as stack:
        reader = None if args.over is None else stack.enter_context(closing(opened(args.over)))
        cast = None if args.cast is None else expanded(args.cast)
        if cast is not None and reader is not None and cast.exists() and cast.samefile(reader.file):
            raise UsageError(f"--cast {cast} is the session itself", "name another file")
        stream = None if cast is None else stack.enter_context(whole_file(cast))
        played = _perform(call, script, size, stream, reader, told=_teller(call, size))
    if args.cast is not None:
        call.console.narrate(f"written to {args.cast}")
    if args.json:
        call.console.document(_document(args.over, args.cast, script, played))
    return 0


def write_cast(
    call: Call, reader: SessionReader, stream: TextIO, *, size: tuple[int, int] | None, speed: float
) -> None:
    """A recorded session's replay as a cast, without a terminal and as fast as it is drawn."""
    from replexplorer.core.play.condition import parse_condition
    from replexplorer.formats.play_script import PlayScript, Step

    line = Step("until", length_s=math.inf, condition=parse_condition("end"), number=1, text="until end")
    title = f"replexplorer, stack {reader.about.get('stack', '?')}, recorded"
    script = PlayScript(str(reader.file), (line,), title)
    _perform(call, script, size or _USUAL_SIZE, stream, reader, speed=speed)


def _perform(
    call: Call,
    script: PlayScript,
    size: tuple[int, int] | None,
    stream: TextIO | None,
    reader: SessionReader | None = None,
    *,
    speed: float = 1.0,
    told: Callable[[PlayedLine], None] = lambda _: None,
) -> PlayApp:
    """Perform a script to its end over a recording, else on live servers, which are brought up where none
    run; each line is `told`. Says what it left behind and raises what ended it early."""
    from replexplorer.cli.dashboard import crashed, live_session, settings_of
    from replexplorer.formats.play_script import CastWriter
    from replexplorer.ui.play import PlayApp

    wall_s = time.time() if reader is None else next(reader.ticks()).wall_s
    cast = None
    if stream is not None:
        cast = CastWriter(stream, size or _USUAL_SIZE, wall_s=wall_s, title=script.title, speed=speed)
    if reader is None:
        session, settings = live_session(call, "play")
        played = PlayApp(script, session, settings, size=size, cast=cast, told=told)
    else:
        settings = settings_of(call)
        settings = replace(settings, stack=f"{reader.about.get('stack', '?')}, recorded")
        played = PlayApp.over(script, reader, settings, size=size, cast=cast, told=told)
    played.perform()
    if played.left:
        call.console.narrate(played.left)
    if played.crash is not None:
        raise crashed(played.crash, "the play")
    if played.failure is not None:
        raise played.failure
    return played


def _teller(call: Call, size: tuple[int, int] | None) -> Callable[[PlayedLine], None]:
    """Tells of each line on stderr, where no dashboard stands there."""
    stream = call.console.err  # while the dashboard runs, its library takes what is printed

    def tell(played: PlayedLine) -> None:
        if size is not None:
            state = f", {played.state}" if played.state else ""
            changed = f"; changed: {'; '.join(played.changed)}" if played.changed else ""
            where = f"line {played.line.number}: " if played.line.number else ""
            stream.write(f"{where}{played.line.text}: {played.took_s:.1f} s{state}{changed}\n")
            stream.flush()

    return tell


def _document(over: str | None, cast: str | None, script: PlayScript, played: PlayApp) -> PlayJson:
    return PlayJson(
        script=script.file,
        title=script.title,
        over=over,
        lines=[
            PlayedLineJson(
                line=each.line.number,
                text=each.line.text,
                at_s=round(each.at_s, 3),
                took_s=round(each.took_s, 3),
                state=each.state,
                changed=list(each.changed),
            )
            for each in played.lines
        ],
        cast=cast,
    )


_FORMS: Final = ("csv", "jsonl", "md", "html", "hlog", "cast")


def export(call: Call) -> int:
    """Write a recorded session to stdout, or to `--output`."""
    args = call.args
    for flag in ("size", "speed"):
        if getattr(args, flag) is not None and args.format != "cast":
            raise UsageError(f"--{flag} is for --format cast", "leave it out")
    with closing(opened_for(call)) as reader:
        if args.output is None:
            _write(call, reader, sys.stdout)
            return 0
        output = expanded(args.output)
        if output.exists() and output.samefile(reader.file):
            raise UsageError(f"--output {output} is the session itself", "name another file")
        with whole_file(output) as stream:
            _write(call, reader, stream)
    call.console.narrate(f"written to {args.output}")
    return 0


def replay(call: Call) -> int:
    """Play a recorded session in the dashboard; needs no servers and no Docker."""
    from replexplorer.cli.dashboard import settings_of, shown
    from replexplorer.engine.view import Replay

    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise UsageError("a replay needs a terminal", "without one, `replexplorer export FILE --format md`")
    reader = opened_for(call)
    settings = replace(settings_of(call), stack=f"{reader.about.get('stack', '?')}, recorded")
    return shown(call, Replay(reader, HostClock(), speed=call.args.speed), settings, "the replay")


def _write(call: Call, reader: SessionReader, output: TextIO) -> None:
    from replexplorer.formats import export as forms

    match call.args.format:
        case "csv":
            csv.writer(output, lineterminator="\n").writerows(forms.csv_rows(reader.ticks()))
        case "jsonl":
            for document in forms.json_lines(reader.about, reader.ticks()):
                output.write(json.dumps(document, separators=(",", ":")) + "\n")
        case "cast":
            write_cast(call, reader, output, size=call.args.size, speed=call.args.speed or 1.0)
        case "md":
            output.write(markdown(_report(reader)))
        case "html":
            output.write(html(_report(reader)))
        case _:
            output.writelines(f"{line}\n" for line in forms.hdr_log(reader.about.items(), reader.ticks()))


def _report(reader: SessionReader) -> Report:
    """The session; its shaded windows are those of the dashboard's charts."""
    from replexplorer.reports.session_report import ShadedSpan, session_report
    from replexplorer.ui.state.picture import Picture

    picture = Picture()

    def seen() -> Iterator[Tick]:
        for tick in reader.ticks():
            picture.fold(tick)
            yield tick

    def spans() -> Iterator[ShadedSpan]:
        return (ShadedSpan(one.start_s, one.end_s, one.word) for one in picture.windows.all())

    return session_report(reader.about, seen(), reader.last_s - reader.first_s, spans)


_DURATION_S: Final = 20.0
_WARMUP_S: Final = 3.0
_TURNS: Final = 2
_END_IT: Final = "end what drives it, then compare again"


async def compare(call: Call) -> int:
    """Measure two stacks in turns, or read two recordings, and print B against A."""
    args = call.args
    recordings = [_is_recording(word) for word in (args.a, args.b)]
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
    for name in (args.a, args.b):
        with closing(opened(name)) as reader:
            found.append(recorded_run(Path(name).stem, reader.ticks()))
    (a, of_a), (b, of_b) = found
    document, text = compare_report(a, b, epochs=(of_a, of_b))
    return call.console.deliver(document, lambda: text)


def _is_recording(word: str) -> bool:
    return word.endswith(".rxs") or os.sep in word


@dataclass(slots=True)
class _Stand:
    """One stack that is measured."""

    session: Session
    run: ComparedRun
    counts: bool = field(default=False)
    """What is seen now belongs to it: its load runs and is warm."""

    def see(self, tick: Tick) -> None:
        """A look at everything."""
        if self.counts:
            self.run.look(tick)

    async def take_turn(self, duration_s: float, warmup_s: float) -> None:
        """Run the load that its knobs ask for and stop it; raises UsageError where they ask for none."""
        load = self.session.foreground()
        if load.requested().clients < 1:
            raise UsageError(
                f"stack {self.run.name} has no clients",
                f"`replexplorer set clients=8 --stack {self.run.name}`",
            )
        with naming(self.run.name):
            await load.drive(load.requested(), lambda _: None)
            await self.session.outside.clock.sleep(warmup_s)
            self.counts = True
            await load.measure(duration_s=duration_s, warmup_s=0.0, on_interval=lambda _: None)
            self.counts = False
        self.run.intervals.extend(load.measured.intervals)
        await self.session.console.toggle_load()


@contextmanager
def naming(stack: str) -> Iterator[None]:
    """What fails within says of which of the two stacks; no load can be added to another one here."""
    try:
        yield
    except StackUnavailable as error:
        error.message = f"stack {stack}: {error.message}"
        if isinstance(error, LoadTaken):
            error.hint = _END_IT
        raise


async def _measured(call: Call) -> int:
    args, turns = call.args, call.args.turns or _TURNS
    async with _stand(call, args.a) as a, _stand(call, args.b) as b:
        for turn in range(turns):
            # ABBA: what drifts with time weighs on both alike.
            for stand in (a, b) if turn % 2 == 0 else (b, a):
                call.console.progress(f"turn {turn + 1} of {turns}: {stand.run.name}")
                await stand.take_turn((args.duration or _DURATION_S) / turns, args.warmup)
    document, text = compare_report(a.run, b.run, turns=turns)
    return call.console.deliver(document, lambda: text)


@asynccontextmanager
async def _stand(call: Call, name: str) -> AsyncIterator[_Stand]:
    """A stack that runs; raises NoSuchStack."""

    def hear(event: Event) -> None:
        call.console.hear(replace(event, text=f"{name}: {event.text}"))

    async with composed(call, "compare", name=name) as session:
        call.console.stack = name
        await session.attach()
        stand = _Stand(session, ComparedRun(name))
        async with session.observed(hear, stand.see):
            yield stand
