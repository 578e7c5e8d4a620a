"""Verbs on recordings: list, replay, export and remove."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from replexplorer.adapters.recording import SUFFIX, SessionReader, is_being_written, remove_session
from replexplorer.cli.entry import Call, in_terminal
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.records import printed
from replexplorer.core.text import number, table, utc
from replexplorer.formats import export as forms
from replexplorer.formats import paths
from replexplorer.formats.files import whole_file
from replexplorer.formats.paths import expanded

if TYPE_CHECKING:
    from replexplorer.core.tick import Tick
    from replexplorer.reports.report import Report


_TOUR: Final = "tour"
_LAST: Final = "last"


def opened_for(call: Call) -> SessionReader:
    """The session that a verb's FILE names; which one is the last is said."""
    reader = SessionReader(file_of(call.args.file or "", call))
    if call.args.file == _LAST:
        call.console.narrate(str(reader.file))
    return reader


def file_of(name: str, call: Call) -> Path:
    """A path, a file of the sessions directory, `last` (the newest there of the stack) or `tour` (the one
    that ships); raises UsageError naming the newest ones."""

    def is_of_stack(file: Path) -> bool:
        with suppress(UsageError), closing(SessionReader(file)) as reader:
            return reader.about.get("stack") == call.values.stack
        return False

    given, directory = expanded(name), paths.sessions_directory()
    recorded = sorted(directory.glob(f"*{SUFFIX}"), reverse=True)
    named = [file for file in (directory / name, directory / f"{name}{SUFFIX}") if file.is_file()]
    found = [given] if given.exists() else filter(is_of_stack, recorded) if name == _LAST else named
    if name and (file := next(iter(found), None)) is not None:
        return file
    if name == _TOUR:
        return paths.SHIPPED_TOUR
    newest = ", ".join(file.stem for file in recorded[:3])
    of = f" of stack {call.values.stack}" if name == _LAST else ""
    raise UsageError(
        f"no recording {name}{of}" if name else "no recording is named",
        f"the newest are {newest}; {_LAST}, {_TOUR}" if newest else f"none was made yet, and {_TOUR} ships",
    )


def file_beside(reader: SessionReader | None, flag: str, name: str) -> AbstractContextManager[TextIO]:
    """A file to write; raises UsageError for the recording itself."""
    file = expanded(name)
    if reader is not None and file.exists() and file.samefile(reader.file):
        raise UsageError(f"{flag} {file} is the session itself", "name another file")
    return whole_file(file)


@printed
class RecordingEntry:
    """A recording in `session list` and `session remove`."""

    name: str
    file: str
    bytes: int
    stack: str | None = None
    """Null, as the next two, where the file cannot be read."""
    began: str | None = None
    """UTC."""
    length_s: float | None = None


def _recording(file: Path) -> RecordingEntry:
    found = RecordingEntry(name=file.stem, file=str(file), bytes=file.stat().st_size)
    with suppress(UsageError), closing(SessionReader(file)) as reader:
        found.stack, found.length_s = reader.about.get("stack"), reader.last_s - reader.first_s
        found.began = utc(next(reader.ticks()).wall_s)
    return found


def list_recordings(call: Call) -> int:
    """The recordings of this stack, or all, also those that cannot be read; the newest first."""
    files = sorted(paths.sessions_directory().glob(f"*{SUFFIX}"), reverse=True)
    found = [each for each in map(_recording, files) if call.args.all or each.stack == call.values.stack]
    rows = [
        (each.name, each.stack or "-", each.began or "-", number(each.length_s, 0), f"{each.bytes:,}")
        for each in found
    ]
    heads = ("NAME", "STACK", "BEGAN", "SECONDS", "BYTES")
    return call.console.deliver(found, lambda: table(rows, heads, right=(3, 4)))


async def remove(call: Call) -> int:
    """Remove recordings, all of them or none; asks first."""
    args, console, directory = call.args, call.console, paths.sessions_directory()
    files = {file_of(name, call): name for name in args.names}
    for file, name in files.items():
        if file.parent != directory:
            raise UsageError(f"{name} is not among the recordings", "`replexplorer session list` names those")
        if is_being_written(file):
            raise StackUnavailable(f"{name} is still being recorded", "end that session first")
    found = [*map(_recording, files)]
    what = ", ".join(each.name for each in found)
    if not args.yes and not (console.can_ask and await console.says_yes(f"Remove {what}?")):
        raise UsageError("nothing was removed", "answer y, or add --yes where no one can answer")
    for file in files:
        remove_session(file)
    return console.deliver(found, lambda: f"removed {what}")


def replay(call: Call) -> int:
    """Play a recorded session in the dashboard; needs no servers and no Docker."""
    from replexplorer.cli.dashboard import shown
    from replexplorer.cli.play import settings_over
    from replexplorer.cli.wiring import HostClock
    from replexplorer.engine.view import Replay

    reader = opened_for(call)
    if not in_terminal():
        reader.close()
        raise UsageError(
            "a replay needs a terminal", "without one, `replexplorer session export FILE --format md`"
        )
    settings = settings_over(call, reader)
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
        with file_beside(reader, "--output", args.output) as stream:
            _write(call, reader, stream)
    call.console.narrate(f"written to {args.output}")
    return 0


def _write(call: Call, reader: SessionReader, output: TextIO) -> None:

    match call.args.format:
        case "csv":
            csv.writer(output, lineterminator="\n").writerows(forms.csv_rows(reader.ticks()))
        case "jsonl":
            for document in forms.json_lines(reader.about, reader.ticks()):
                output.write(json.dumps(document, separators=(",", ":")) + "\n")
        case "cast":
            from replexplorer.cli.play import USUAL_SIZE, perform
            from replexplorer.formats.play_script import END, PlayScript, Step

            end = Step("until", length_s=math.inf, conditions=(END,), number=1, text="until end")
            title = f"replexplorer, stack {reader.about.get('stack', '?')}, recorded"
            script, args = PlayScript(str(reader.file), (end,), title), call.args
            perform(call, script, args.size or USUAL_SIZE, output, reader)
        case "md" | "html" as form:
            from replexplorer.reports import report

            output.write((report.markdown if form == "md" else report.html)(_report(reader)))
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
