"""Verbs on recordings: replay and export."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from replexplorer.adapters.recording import SUFFIX, SessionReader
from replexplorer.core.errors import UsageError
from replexplorer.formats import export as forms
from replexplorer.formats import paths
from replexplorer.formats.files import whole_file
from replexplorer.formats.paths import ENV_PREFIX, expanded

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.tick import Tick
    from replexplorer.reports.report import Report


_TOUR: Final = "tour"
_LAST: Final = "last"


def opened_for(call: Call) -> SessionReader:
    """The session that a verb's FILE names: `last` is of the stack that is named, if one is, and is said."""

    reader = SessionReader(file_of(call.args.file, call.args.stack or os.environ.get(f"{ENV_PREFIX}STACK")))
    if call.args.file == _LAST:
        call.console.narrate(f"{reader.file}, of stack {reader.about.get('stack', '?')}")
    return reader


def file_of(name: str, stack: str | None = None) -> Path:
    """A path, a file of the sessions directory, `last` (the newest there, of a stack where one is named) or
    `tour` (the one that ships); raises UsageError naming the newest ones."""

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


def file_beside(reader: SessionReader | None, flag: str, name: str) -> AbstractContextManager[TextIO]:
    """A file to write; raises UsageError for the recording itself."""
    file = expanded(name)
    if reader is not None and file.exists() and file.samefile(reader.file):
        raise UsageError(f"{flag} {file} is the session itself", "name another file")
    return whole_file(file)


def replay(call: Call) -> int:
    """Play a recorded session in the dashboard; needs no servers and no Docker."""
    from replexplorer.cli.dashboard import shown
    from replexplorer.cli.play import settings_over
    from replexplorer.cli.wiring import HostClock
    from replexplorer.engine.view import Replay

    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise UsageError("a replay needs a terminal", "without one, `replexplorer export FILE --format md`")
    reader = opened_for(call)
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
