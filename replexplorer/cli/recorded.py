"""The verbs on recorded sessions: `replay`, `export`."""

from __future__ import annotations

import csv
import json
import sys
from argparse import ArgumentParser
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TextIO

from replexplorer.cli.play import screen_size, write_cast
from replexplorer.cli.sessions import RECORDING, opened_for
from replexplorer.cli.typed import positive
from replexplorer.cli.wiring import HostClock, load_configuration_of
from replexplorer.core.errors import UsageError
from replexplorer.formats.paths import expanded
from replexplorer.formats.whole_file import whole_file

if TYPE_CHECKING:
    from replexplorer.adapters.recording import SessionReader
    from replexplorer.cli.entry import Call

_FORMS: Final = ("csv", "jsonl", "md", "html", "hlog", "cast")


def replay_arguments(parser: ArgumentParser) -> None:
    """Which recording, and how fast."""
    parser.add_argument("file", metavar="FILE", help=RECORDING)
    parser.add_argument(
        "--speed", type=positive(16), default=1.0, metavar="X", help="times as fast (default 1, at most 16)"
    )


def export_arguments(parser: ArgumentParser) -> None:
    """Which recording, as what, and where to."""
    parser.add_argument("file", metavar="FILE", help=RECORDING)
    forms = ", ".join(_FORMS[:-1]) + f" or {_FORMS[-1]}"
    parser.add_argument("--format", choices=_FORMS, required=True, metavar="FORMAT", help=forms)
    parser.add_argument("--output", metavar="PATH", help="instead of stdout")
    parser.add_argument(
        "--size", type=screen_size, metavar="CxR", help="of a cast: columns and rows (default 120x36)"
    )
    parser.add_argument(
        "--speed", type=positive(1000), metavar="X", help="of a cast: times as fast (default 1)"
    )


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
    from replexplorer.cli.dashboard import settings_of, told
    from replexplorer.engine.replay import Replay
    from replexplorer.ui.app import ExplorerApp

    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise UsageError("a replay needs a terminal", "without one, `replexplorer export FILE --format md`")
    loaded = load_configuration_of(call)
    reader = opened_for(call)
    settings = replace(settings_of(loaded), stack=f"{reader.about.get('stack', '?')}, recorded")
    app = ExplorerApp(Replay(reader, HostClock(), speed=call.args.speed), settings)
    app.run()
    if app.crash is not None:
        raise told(app.crash, "the replay")
    return app.return_code or 0


def _write(call: Call, reader: SessionReader, output: TextIO) -> None:
    from replexplorer.core.history import export as forms

    match call.args.format:
        case "csv":
            csv.writer(output, lineterminator="\n").writerows(forms.csv_rows(reader.ticks()))
        case "jsonl":
            for document in forms.json_lines(reader.about, reader.ticks()):
                output.write(json.dumps(document, separators=(",", ":")) + "\n")
        case "cast":
            write_cast(call, reader, output, size=call.args.size, speed=call.args.speed or 1.0)
        case "html":
            output.write(_page(reader))
        case "hlog":
            from replexplorer.formats.hdr_log import hdr_log

            output.writelines(f"{line}\n" for line in hdr_log(reader.about.items(), reader.ticks()))
        case _:
            output.write(forms.markdown_report(reader.about, reader.ticks()))


def _page(reader: SessionReader) -> str:
    """The session as one page; its shaded windows are those of the dashboard's charts."""
    from replexplorer.reports.session_page import SessionStory, ShadedSpan, session_page
    from replexplorer.ui.desks.picture import Picture

    story, picture = SessionStory(reader.last_s - reader.first_s), Picture()
    for tick in reader.ticks():
        story.feed(tick)
        picture.fold(tick)
    spans = [ShadedSpan(one.start_s, one.end_s, one.word) for one in picture.all_windows]
    return session_page(reader.about, story, spans)
