"""One run of the program: parse, dispatch, and turn every failure into one line and an exit code."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, cast

from replexplorer.cli import arguments
from replexplorer.cli.arguments import Verb
from replexplorer.cli.output import Output
from replexplorer.core.errors import (
    Interrupted,
    MissingPiece,
    ReplexplorerError,
    StackUnavailable,
    UsageError,
)

PIPE_CLOSED = 141
"""Exit code when the reader of stdout has gone, as the shell's own tools have it."""

WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
"""What draws into a tab (`TEXTUAL_DRIVER`)."""


class Call(NamedTuple):
    """What a verb is given."""

    args: argparse.Namespace
    console: Output


def run(argv: Sequence[str] | None) -> int:
    """Run one verb and answer the exit code."""
    if "_ARGCOMPLETE" in os.environ:
        from replexplorer.cli import completion

        completion.answer()
    words = list(sys.argv[1:] if argv is None else argv)
    os.umask(os.umask(0o077) | 0o022)  # what it writes, nobody but its owner changes
    _mend_streams()
    console = Output(json="--json" in words, verbose=_wants_tracebacks(words))
    try:
        code = _dispatch(words, console)
        sys.stdout.flush()
    except SystemExit as exit_request:
        return _after_help(exit_request)
    except KeyboardInterrupt:
        return _fail(console, Interrupted("interrupted"))
    except BrokenPipeError:
        _silence_stdout()
        return PIPE_CLOSED
    except ReplexplorerError as error:
        return _fail(console, error)
    except Exception as error:
        if console.verbose:
            console.traceback()
        return _fail(console, _unexpected(error))
    return code


def _dispatch(words: Sequence[str], console: Output) -> int:
    args = arguments.parse(words)
    if args.verb is None:
        if not is_served() and not (sys.stdout.isatty() and sys.stdin.isatty()):
            raise UsageError("the dashboard needs a terminal", "without one, run `replexplorer lab run tour`")
        what = "watch" if args.view else "run"
        return Verb("", "", f"dashboard:{what}").function(Call(args, console))
    if args.view:
        raise UsageError(f"--view is the dashboard's: {args.verb} has no such flag", "leave one of them out")
    return cast(int, args.carry_out(Call(args, console)))


def is_served() -> bool:
    """Whether what the dashboard draws goes to a tab of `serve`, in place of a terminal."""
    return os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER


def _wants_tracebacks(words: Sequence[str]) -> bool:
    return "-v" in words or "--verbose" in words or bool(os.environ.get("REPLEXPLORER_DEBUG"))


def _unexpected(error: Exception) -> ReplexplorerError:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        if isinstance(error, PermissionError):
            hint = "give this user access to it (`chmod`, `chown`), or set XDG_CONFIG_HOME or XDG_STATE_HOME"
            return MissingPiece(f"{where}{error.strerror}", hint)
        if error.errno == errno.ENOSPC:
            return StackUnavailable(
                f"{where or 'the output cannot be written: '}{error.strerror}", "make room"
            )
        hint = "run again with -v to see where"
        return ReplexplorerError(f"{where}{error.strerror}", hint)
    text = " ".join(str(error).split())[:200]
    return ReplexplorerError(
        f"unexpected {type(error).__name__}: {text}" if text else f"unexpected {type(error).__name__}",
        "run again with -v for the traceback and report it",
    )


def _fail(console: Output, error: ReplexplorerError) -> int:
    try:
        console.fail(error)
        sys.stdout.flush()
    except OSError:  # a closed pipe or a full disk; stderr has had the line
        _silence_stdout()
    return error.exit_code


def _after_help(exit_request: SystemExit) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return PIPE_CLOSED
    return exit_request.code if isinstance(exit_request.code, int) else 0


def _mend_streams() -> None:
    """Open what the shell closed, before anything else takes its number; print what a terminal's
    encoding lacks as `?`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _silence_stdout() -> None:
    """Keep the interpreter from complaining about the closed pipe once more while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
