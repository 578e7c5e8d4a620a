"""The verbs on recorded sessions: `replay`, `export`, and which file a name means."""

from __future__ import annotations

import csv
import json
import os
import sys
from argparse import ArgumentParser
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from replexplorer.cli.textual_variables import check_textual_variables
from replexplorer.cli.typed import positive
from replexplorer.cli.wiring import HostClock, load_configuration_of
from replexplorer.core.errors import UsageError
from replexplorer.formats import paths
from replexplorer.formats.whole_file import whole_file

if TYPE_CHECKING:
    from replexplorer.adapters.recording import SessionReader
    from replexplorer.cli.entry import Call

_TOUR = "tour"
_LAST = "last"


_RECORDING: Final = "a session file, the name of one in the sessions directory, `last` or `tour`"


def replay_arguments(parser: ArgumentParser) -> None:
    """Which recording, and how fast."""
    parser.add_argument("file", metavar="FILE", help=_RECORDING)
    parser.add_argument(
        "--speed", type=positive(16), default=1.0, metavar="X", help="times as fast (default 1, at most 16)"
    )


def export_arguments(parser: ArgumentParser) -> None:
    """Which recording, as what, and where to."""
    parser.add_argument("file", metavar="FILE", help=_RECORDING)
    parser.add_argument(
        "--format", choices=("csv", "jsonl", "md"), required=True, metavar="FORMAT", help="csv, jsonl or md"
    )
    parser.add_argument("--output", metavar="PATH", help="instead of stdout")


def export(call: Call) -> int:
    """Write a recorded session to stdout, or to `--output`."""
    args = call.args
    with closing(opened(args.file)) as reader:
        if args.output is None:
            _write(reader, args.format, sys.stdout)
            return 0
        output = Path(args.output).expanduser()
        if output.exists() and output.samefile(reader.file):
            raise UsageError(f"--output {output} is the session itself", "name another file")
        with whole_file(output) as stream:
            _write(reader, args.format, stream)
    call.console.narrate(f"written to {args.output}")
    return 0


def replay(call: Call) -> int:
    """Play a recorded session in the dashboard; needs no servers and no Docker."""
    check_textual_variables(os.environ)
    from replexplorer.cli.dashboard import settings_of, told
    from replexplorer.engine.replay import Replay
    from replexplorer.ui.app import ExplorerApp

    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise UsageError("a replay needs a terminal", "without one, `replexplorer export FILE --format md`")
    loaded = load_configuration_of(call)
    reader = opened(call.args.file)
    settings = replace(settings_of(loaded), stack=f"{reader.about.get('stack', '?')}, recorded")
    app = ExplorerApp(Replay(reader, HostClock(), speed=call.args.speed), settings)
    app.run()
    if app.crash is not None:
        raise told(app.crash, "the replay")
    return app.return_code or 0


def _write(reader: SessionReader, form: str, output: TextIO) -> None:
    from replexplorer.core.history import export as forms

    match form:
        case "csv":
            csv.writer(output, lineterminator="\n").writerows(forms.csv_rows(reader.ticks()))
        case "jsonl":
            for document in forms.json_lines(reader.about, reader.ticks()):
                output.write(json.dumps(document, separators=(",", ":")) + "\n")
        case _:
            output.write(forms.markdown_report(reader.about, reader.ticks()))


def opened(name: str) -> SessionReader:
    """The session of this name; raises UsageError."""
    from replexplorer.adapters.recording import SessionReader

    return SessionReader(file_of(name))


def file_of(name: str) -> Path:
    """A path, a file of the sessions directory, `last` (the newest there) or `tour` (the one that ships);
    raises UsageError naming the newest ones."""
    from replexplorer.adapters.recording import SUFFIX

    given = Path(name).expanduser()
    if given.exists():
        return given
    directory = paths.sessions_directory()
    recorded = sorted(directory.glob(f"*{SUFFIX}"), reverse=True)
    if name == _LAST and recorded:
        return recorded[0]
    if name == _TOUR:
        return paths.shipped_tour()
    for candidate in (directory / name, directory / f"{name}{SUFFIX}"):
        if candidate.is_file():
            return candidate
    newest = ", ".join(file.stem for file in recorded[:3])
    raise UsageError(
        f"no recording {name}", f"the newest are {newest}; {_LAST}, {_TOUR}" if newest else f"try {_TOUR}"
    )
