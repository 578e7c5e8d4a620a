"""The verb play: a script performed on the dashboard, over a recording or on live servers."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Final, TextIO

from replexplorer.adapters.recording import SessionReader
from replexplorer.cli.entry import Call, in_terminal
from replexplorer.cli.experiment import named
from replexplorer.cli.recordings import file_beside, file_of
from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.matrix import MATRIX, Matrix
from replexplorer.core.records import field, printed, replace
from replexplorer.formats.files import read_text
from replexplorer.formats.paths import expanded
from replexplorer.formats.play_script import (
    LARGEST_PLAY_BYTES,
    CastWriter,
    PlayedLine,
    PlayScript,
    read_play,
    slides,
)  # fmt: skip

if TYPE_CHECKING:
    from replexplorer.ui.play import PlayApp
    from replexplorer.ui.settings import Settings


USUAL_SIZE: Final = (120, 36)


@printed
class PlayJson:
    """A play that was performed to its end, or checked."""

    script: str
    title: str
    over: str | None
    """The recording; null on live servers."""
    lines: list[PlayedLine] = field(default_factory=list)
    """Those that were performed."""
    cast: str | None = None
    """The cast that was written."""
    svg: str | None = None
    """The animated picture that was written."""


def play(call: Call) -> int:
    """Check the whole script, then perform it, or no more with `--check`; raises what ended it early."""
    args = call.args
    file = expanded(args.script)
    script = read_play(read_text(file, "play", LARGEST_PLAY_BYTES), str(file), _named)
    if (line := script.unfit(live=args.over is None)) is not None:
        why, hint = "live servers have no end", "wait for something else, or play --over FILE"
        if args.over is not None:
            why, hint = "a recording cannot be changed", "leave the line out, or play without --over"
        raise UsageError(f"{file}, line {line.number}: `{line.text}`: {why}", hint)
    found = PlayJson(script=script.file, title=script.title, over=args.over, cast=args.cast, svg=args.svg)
    if args.check:
        return call.console.deliver(found, lambda: f"{file}: OK, {len(script.lines)} lines")
    is_shown = in_terminal() and not (args.headless or args.json or args.cast or args.svg)
    if args.size is not None and is_shown:
        raise UsageError("--size is for --cast, --svg and --headless", "a terminal has a size of its own")
    size = None if is_shown else args.size or USUAL_SIZE
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
            reader = stack.enter_context(closing(SessionReader(file_of(args.over, call))))
        if args.cast is not None:
            stream = stack.enter_context(file_beside(reader, "--cast", args.cast))
        picture = None if args.svg is None else stack.enter_context(file_beside(reader, "--svg", args.svg))
        pictures: list[str] | None = None if picture is None else []
        played = perform(call, script, size, stream, reader, told=tell, pictures=pictures)
        if picture is not None and pictures:
            picture.write(slides(pictures[1:] or pictures))
    for file in filter(None, (args.cast, args.svg)):
        call.console.narrate(f"written to {file}")
    if args.json:
        found.lines = played.lines
        call.console.document(found)
    return 0


def _named(kind: str, name: str) -> Any:
    """The lesson, lab, drill or matrix of drills of this name; raises UsageError."""
    return Matrix() if name == MATRIX else named(kind, name)


def perform(
    call: Call,
    script: PlayScript,
    size: tuple[int, int] | None,
    stream: TextIO | None,
    reader: SessionReader | None,
    **how: Any,
) -> PlayApp:
    """Perform a script to its end over a recording, else on live servers, which are brought up where none
    run; `how` is `told` and `pictures` of `PlayApp`. Says what it left behind and raises what ended it
    early."""
    from replexplorer.cli.dashboard import crashed, live_session
    from replexplorer.ui.play import PlayApp

    how["size"] = size
    wall_s = time.time() if reader is None else next(reader.ticks()).wall_s
    if stream is not None:
        how["cast"] = CastWriter(stream, size or USUAL_SIZE, wall_s=wall_s, title=script.title)
    if reader is None:
        session, settings = live_session(call, "play")
        played = PlayApp(script, session, settings, **how)
    else:
        played = PlayApp.over(script, reader, settings_over(call, reader), **how)
    played.perform()
    if played.left:
        call.console.narrate(played.left)
    if played.crash is not None:
        raise crashed(played.crash, "the play")
    if played.failure is not None:
        raise played.failure
    return played


def settings_over(call: Call, reader: SessionReader) -> Settings:
    """How a recording is shown."""
    from replexplorer.cli.dashboard import settings_of

    return replace(settings_of(call), stack=f"{reader.about.get('stack', '?')}, recorded")
