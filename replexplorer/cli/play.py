"""`play`: a script performed on the dashboard, on live servers or over a recording; and casts of both."""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from argparse import ArgumentParser
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TextIO

from replexplorer.cli.sessions import RECORDING, opened
from replexplorer.cli.wiring import load_configuration_of
from replexplorer.core.errors import UsageError
from replexplorer.formats.paths import expanded
from replexplorer.formats.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from replexplorer.adapters.recording import SessionReader
    from replexplorer.cli.entry import Call
    from replexplorer.core.play.script import PlayScript
    from replexplorer.formats.cast import CastWriter
    from replexplorer.formats.json.play import PlayJson
    from replexplorer.ui.settings import Settings
    from replexplorer.ui.stage.performance import Performance, PlayedLine

_SIZE: Final = re.compile(r"(\d{1,4})x(\d{1,4})", re.IGNORECASE)
_LEAST, _MOST = (40, 10), (500, 200)
_USUAL_SIZE: Final = (120, 36)


def screen_size(text: str) -> tuple[int, int]:
    """`120x36` as columns and rows; for argparse."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, as 120x36")
    columns, rows = int(found[1]), int(found[2])
    if not (_LEAST[0] <= columns <= _MOST[0] and _LEAST[1] <= rows <= _MOST[1]):
        least, most = ("x".join(map(str, size)) for size in (_LEAST, _MOST))
        raise argparse.ArgumentTypeError(f"{text!r} must be between {least} and {most}")
    return columns, rows


def run_arguments(parser: ArgumentParser) -> None:
    """Which script, over what, and where to."""
    parser.add_argument(
        "script", metavar="SCRIPT", help="a file of start, key, type, wait, until, caption and other lines"
    )
    parser.add_argument("--over", metavar="FILE", help=f"over a recording, not live servers: {RECORDING}")
    parser.add_argument("--cast", metavar="PATH", help="write an asciinema cast; nothing is drawn here then")
    parser.add_argument(
        "--size", type=screen_size, metavar="CxR", help="columns and rows without a terminal (default 120x36)"
    )
    parser.add_argument("--headless", action="store_true", help="draw nothing, also in a terminal")
    parser.add_argument("--json", action="store_true", help="what was played, as JSON; draws nothing")


def run(call: Call) -> int:
    """Check the whole script, then perform it; raises what ended it early."""
    from replexplorer.core.play.script import LARGEST_PLAY_BYTES, read_play
    from replexplorer.formats.small_file import read_text

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
    performance = _live(call, script, size) if args.over is None else _over(call, script, size)
    if args.cast is not None:
        call.console.narrate(f"written to {args.cast}")
    if args.json:
        call.console.document(_document(args.over, args.cast, script, performance))
    return 0


def write_cast(
    call: Call, reader: SessionReader, stream: TextIO, *, size: tuple[int, int] | None, speed: float
) -> None:
    """A recorded session's replay as a cast, without a terminal and as fast as it is drawn."""
    from replexplorer.core.play.condition import EndHolds
    from replexplorer.core.play.script import PlayLine, PlayScript, UntilStep
    from replexplorer.ui.stage.venue import Venue

    line = PlayLine(1, "until end", UntilStep(EndHolds(), math.inf))
    settings = _recorded_settings(call, reader)
    script = PlayScript(str(reader.file), (line,), f"replexplorer, stack {settings.stack}")
    size = size or _USUAL_SIZE
    cast = _cast_of(stream, size, next(reader.ticks()).wall_s, script.title, speed)
    _whole(call, Venue(settings, size, cast).play_over(script, reader))


def _live(call: Call, script: PlayScript, size: tuple[int, int] | None) -> Performance:
    """On live servers, brought up where none run, as the dashboard does."""
    from replexplorer.cli.dashboard import live_session
    from replexplorer.ui.stage.venue import Venue

    path = call.args.cast
    session, settings = live_session(call, "play")
    with whole_file(expanded(path)) if path is not None else nullcontext() as stream:
        cast = None if stream is None else _cast_of(stream, size, time.time(), script.title)
        return _whole(call, Venue(settings, size, cast, _teller(call, size)).play_live(script, session))


def _over(call: Call, script: PlayScript, size: tuple[int, int] | None) -> Performance:
    """Over a recording; needs no servers."""
    from replexplorer.ui.stage.venue import Venue

    path = None if call.args.cast is None else expanded(call.args.cast)
    with closing(opened(call.args.over)) as reader:
        if path is not None and path.exists() and path.samefile(reader.file):
            raise UsageError(f"--cast {path} is the session itself", "name another file")
        settings = _recorded_settings(call, reader)
        with whole_file(path) if path is not None else nullcontext() as stream:
            wall_s = next(reader.ticks()).wall_s
            cast = None if stream is None else _cast_of(stream, size, wall_s, script.title)
            return _whole(call, Venue(settings, size, cast, _teller(call, size)).play_over(script, reader))


def _recorded_settings(call: Call, reader: SessionReader) -> Settings:
    from replexplorer.cli.dashboard import settings_of

    settings = settings_of(load_configuration_of(call))
    return replace(settings, stack=f"{reader.about.get('stack', '?')}, recorded")


def _cast_of(
    stream: TextIO, size: tuple[int, int] | None, wall_s: float, title: str, speed: float = 1.0
) -> CastWriter:
    from replexplorer.formats.cast import CastWriter

    return CastWriter(stream, size or _USUAL_SIZE, wall_s=wall_s, title=title, speed=speed)


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


def _whole(call: Call, performance: Performance) -> Performance:
    """A play that was performed to its end, saying what it left behind; raises what ended it early."""
    from replexplorer.cli.dashboard import told

    if performance.left:
        call.console.narrate(performance.left)
    if performance.crash is not None:
        raise told(performance.crash, "the play")
    if performance.failure is not None:
        raise performance.failure
    return performance


def _document(over: str | None, cast: str | None, script: PlayScript, performance: Performance) -> PlayJson:
    from replexplorer.formats.json.play import PlayedLineJson, PlayJson

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
            for each in performance.lines
        ],
        cast=cast,
    )
