"""One run of the program: parse, dispatch, and turn every failure into one line and an exit code."""

from __future__ import annotations

import argparse
import atexit
import errno
import gc
import io
import os
import sys
from collections.abc import Coroutine, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replexplorer.cli import arguments
from replexplorer.cli.output import Output
from replexplorer.core.errors import (
    Interrupted,
    MissingPiece,
    ReplexplorerError,
    StackUnavailable,
    UsageError,
)

if TYPE_CHECKING:
    from replexplorer.formats.configuration import Configuration, LoadedConfiguration

T = TypeVar("T")
# What is left at the end goes with the process: looking through it again takes a tenth of a short command.
atexit.register(gc.freeze)
PIPE_CLOSED = 141
"""Exit code when the reader of stdout has gone, as the shell's own tools have it."""

WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
"""What draws into a tab (`TEXTUAL_DRIVER`)."""

_COLLECT_AFTER: Final = 20_000
"""New objects: what a verb imports stays to its end, and looking through it again and again takes a short one
as long as a tenth of its imports."""


class Call:
    """What a verb is given."""

    def __init__(self, args: argparse.Namespace, console: Output) -> None:
        self.args = args
        self.console = console

    @cached_property
    def configuration(self) -> LoadedConfiguration:
        """The effective one: `--config`, else REPLEXPLORER_CONFIG, else the user's own file. Raises
        UsageError."""
        from replexplorer.formats import configuration, paths

        named = self.args.config or os.environ.get("REPLEXPLORER_CONFIG")
        file = paths.expanded(named) if named else paths.config_file()
        flags = {"stack": self.args.stack}
        loaded = configuration.load_configuration(file, named_by_user=bool(named), flags=flags)
        self.console.stack = loaded.values.stack
        for variable in loaded.unknown_variables:
            self.console.warn(f"{variable} is not a setting: `replexplorer config` lists them")
        return loaded

    @property
    def values(self) -> Configuration:
        """What is configured."""
        return self.configuration.values


def run(argv: Sequence[str] | None) -> int:
    """Run one verb and answer the exit code."""
    if "_ARGCOMPLETE" in os.environ:
        arguments.complete()
    words = list(sys.argv[1:] if argv is None else argv)
    gc.set_threshold(_COLLECT_AFTER)
    os.umask(os.umask(0o077) | 0o022)  # what it writes, nobody but its owner changes
    _mend_streams()
    tracebacks = "-v" in words or "--verbose" in words or bool(os.environ.get("REPLEXPLORER_DEBUG"))
    console = Output(json="--json" in words, verbose=tracebacks)
    try:
        code = _dispatch(words, console)
        sys.stdout.flush()
        return code
    except SystemExit as after_help:
        code = after_help.code if isinstance(after_help.code, int) else 0
        return PIPE_CLOSED if _is_closed() else code
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


def _dispatch(words: Sequence[str], console: Output) -> int:
    args = arguments.parse(words)
    target = "lesson:notes" if getattr(args, "notes", False) else args.target
    if target in (None, "dashboard:watch"):
        if not (is_served() or in_terminal()):
            raise UsageError("the dashboard needs a terminal", "without one, run `replexplorer lab run tour`")
        target = target or ("dashboard:watch" if args.view else "dashboard:run")
    elif args.view:
        raise UsageError(f"--view is `watch`: {args.command} has no such flag", "leave one of them out")
    done: int | Coroutine[Any, Any, int] = arguments.function(target)(Call(args, console))
    return run_async(done) if isinstance(done, Coroutine) else done


def run_async(verb: Coroutine[Any, Any, T]) -> T:
    """Run to the end and answer what it does. A signal that ends us ends it as Ctrl-C does: it cleans up,
    then Interrupted is raised, with 128 plus the signal's number as exit code."""
    import asyncio
    import signal

    received: list[signal.Signals] = []

    async def guarded() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()

        def end(number: signal.Signals) -> None:
            received.append(number)
            if task is not None:
                task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, end, number)
        return await verb

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        if not received:
            raise
        ended = Interrupted(f"ended by {received[0].name}")
        ended.exit_code = 128 + received[0]
        raise ended from None


def in_terminal() -> bool:
    """Whether the dashboard can be drawn, and asked, where we run."""
    return sys.stdout.isatty() and sys.stdin.isatty()


def is_served() -> bool:
    """Whether what the dashboard draws goes to a tab of `serve`, in place of a terminal."""
    return os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER


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
        return ReplexplorerError(f"{where}{error.strerror}", "run again with -v to see where")
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


def _is_closed() -> bool:
    """Whether nobody reads stdout any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return True
    return False


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
