"""The command line as argparse sees it: the verbs, their arguments and the global flags, from `verbs.toml`.

Law: a verb that is not built is absent. Global flags are accepted before and after the verb. A wrong argument
is one line with a suggestion, exit code 2. Of the verbs' modules none is imported before its verb is run.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from replexplorer import __version__
from replexplorer.core.errors import UsageError
from replexplorer.core.text import closest

PROGRAM: Final = "replexplorer"

_EPILOG: Final = """\
examples:
  replexplorer                                  the dashboard; brings the stack up if none runs
  replexplorer --view                           watches what another dashboard does
  replexplorer up --replicas 2                  a primary and two replicas, without the dashboard
  replexplorer set semi_sync=on rtt=85ms        semi-sync over 85 ms, waits until it is in effect
  replexplorer load --clients 32 --duration 10  ten seconds of commits from 32 clients
  replexplorer scene apply network              a named set of knobs: durable on the network only
  mysql --defaults-file="$(replexplorer dsn --defaults-file)"
                                                a client, no password among its arguments
  replexplorer lab run tour                     the demonstration without a terminal

exit codes:
  0 done   1 a lab or drill did not come out as expected   2 wrong usage or a value out of range
  3 this machine lacks something (Docker, a permission, an image)
  4 no such stack, a node is down, another driver holds the load
  5 the server refused a statement   130 interrupted

With --json, stdout is exactly one JSON document; progress and errors go to stderr.
"""


_DECLARED: Final[Mapping[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8")
)
"""Verbs and actions by what is typed, and under `option` what several of them take."""
_OWN_KEYS: Final = ("does", "description", "run", "prints", "listed", "takes")
"""Of a verb or action; its other keys are its arguments."""


_ALL: Final = [name for name in _DECLARED if " " not in name and name not in ("option", "document")]
"""Verbs and old names of some."""
VERBS: Final = {name: _DECLARED[name] for name in _ALL if _DECLARED[name].get("listed", True)}
"""The verbs of --help as declared, in its order."""
PRINTED: Final[Mapping[str, Any]] = _DECLARED["document"] | {
    name: how["prints"] for name, how in _DECLARED.items() if "prints" in how
}
"""What is typed to the type of its --json, as declared."""


def function(target: str) -> Callable[[Any], Any]:
    """What carries out a verb, as its table names it; imports its module."""
    module, _, name = target.partition(":")
    found: Callable[[Any], Any] = getattr(importlib.import_module(f"replexplorer.cli.{module}"), name)
    return found


class _HelpLayout(argparse.RawDescriptionHelpFormatter):
    """Examples as they are written, and a verb's line never folded on 80 columns."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=18, **options)
        # Python 3.11 does not count that verbs are indented, and folds the longest one's line.
        self._action_max_length = 16


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError with a suggestion instead of exiting."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _HelpLayout)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise the problem in our one-line form."""
        raise UsageError(message, f"see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown word with the nearest known one."""
        if action.choices is not None and value not in action.choices:
            known = [text for each in action.choices if (text := str(each)) in VERBS or text not in _ALL]
            what = action.metavar if isinstance(action.metavar, str) else action.dest
            hint = closest(str(value), known) or f"known: {', '.join(known)}"
            raise UsageError(f"unknown {what.lower()} {value!r}", hint)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; raise UsageError, or SystemExit(0) after --help and --version."""
    try:
        " ".join(argv).encode()
    except UnicodeEncodeError as error:
        word = error.object[error.start - 1 : error.end]
        raise UsageError(f"{word!r} is not UTF-8 text", "arguments are text in UTF-8") from None
    given = argparse.Namespace(stack=None, config=None, verbose=False, json=False)
    return build_parser(argv).parse_args(list(argv), given)


def build_parser(typed: Sequence[str] = tuple(_DECLARED)) -> Parser:
    """The command line with all verbs; of those that are not among the words `typed` without arguments."""
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--stack NAME] [--config FILE] [-v] [--view] [VERB ...]",
        description="Explore live MySQL replication settings on a real primary and replica.\n"
        "Without a verb: the dashboard.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument(
        "--view", action="store_true", help="the dashboard without a verb, as a spectator who turns nothing"
    )
    verbs = parser.add_subparsers(
        title="verbs", dest="verb", metavar="VERB", prog=PROGRAM, parser_class=Parser
    )
    for name in _ALL:
        _declare(verbs, name, typed)
    _add_global_flags(parser)
    return parser


def _add_global_flags(parser: argparse.ArgumentParser) -> None:
    """What every verb and every action of one takes."""
    add = partial(parser.add_argument_group("global flags").add_argument, default=argparse.SUPPRESS)
    add("--stack", metavar="NAME", help="which stack; two run side by side")
    add("--config", metavar="FILE", help="read this configuration file")
    add("-v", "--verbose", action="store_true", help="say more; tracebacks too")


def _declare(verbs: argparse._SubParsersAction[Parser], name: str, typed: Sequence[str]) -> None:
    """Give the command line a verb, or a verb an action, with its arguments and actions where it is typed:
    those of all verbs take longer than many a verb."""
    how = _DECLARED[name]
    words = {"description": how.get("description", f"{how['does'][:1].upper()}{how['does'][1:]}.")}
    if how.get("listed", True):  # without a line of help it is not listed
        words["help"] = how["does"]
    parser = verbs.add_parser(name.rpartition(" ")[2], **words)
    parser.set_defaults(target=how.get("run"))
    if name.partition(" ")[0] not in typed:
        return
    _add_global_flags(parser)
    groups: dict[str, argparse._MutuallyExclusiveGroup] = {}
    for typed, argument in _arguments(how).items():
        given: dict[str, Any] = {"action": "store_true", "help": argument}
        if not isinstance(argument, str):
            given = {**argument}
        if "type" in given:
            given["type"] = _reader(given["type"])
        group = given.pop("group", None)
        if group is not None and group not in groups:
            groups[group] = parser.add_mutually_exclusive_group(required=group.startswith("one "))
        (groups[group] if group else parser).add_argument(*typed.split(), **given)
    actions = [key for key in _DECLARED if key.startswith(f"{name} ")]
    if actions:
        below = parser.add_subparsers(
            title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
        )
        for action in actions:
            _declare(below, action, typed)


def _arguments(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a verb or action has of its own, then what it takes with others, as declared."""
    shared = [_DECLARED["option"][name] for name in declared.get("takes", ())]
    own = {key: how for key, how in declared.items() if key not in _OWN_KEYS}
    return own | {key: how for each in shared for key, how in each.items() if key not in own}


# -- what an argument may be


_COUNTS: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_SECONDS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0}
_SCREEN: Final = {"columns": (40, 500), "lines": (10, 200)}


def _reader(declared: str) -> Callable[[str], Any]:
    """What reads an argument of this type, as `verbs.toml` names types."""
    kind, *limits = declared.split()
    low, high, *_ = (*map(float, limits), math.inf, math.inf)
    match kind:
        case "whole":
            return partial(_number, int, "a whole number, as 1000, 1k or 1m", _COUNTS, low, high)
        case "positive":
            return partial(_number, float, "a number, as 500, 1k or 1.5k", _COUNTS, math.ulp(0.0), low)
        case "duration":
            least = 0.0 if limits else math.ulp(0.0)
            return partial(_number, float, "a duration, as 10, 10s, 500ms or 2min", _SECONDS, least, math.inf)
        case "size":
            return _screen_size
    return str.upper


def _number(
    kind: type[int] | type[float],
    what: str,
    units: Mapping[str, float],
    least: float,
    most: float,
    text: str,
) -> float:
    """A number in one of these units, from `least` to `most`; for argparse."""
    number, unit = re.fullmatch(r"(.*?)([a-z]*)", text.strip().lower(), re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        value = kind(number) * units[unit]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None
    if not least <= value <= most or math.isinf(value):
        low = f"at least {least:g}" if least >= 1 or not least else "above 0"
        high = "" if math.isinf(most) else f" and at most {most:.0f}"
        raise argparse.ArgumentTypeError(f"{text!r} must be {low}{high}")
    return value


def _screen_size(text: str) -> tuple[int, int]:
    """`120x36` as columns and rows; for argparse."""
    found = re.fullmatch(r"(\d{1,4})x(\d{1,4})", text.strip(), re.IGNORECASE)
    size = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(low <= each <= high for each, (low, high) in zip(size, _SCREEN.values(), strict=True)):
        limits = " and ".join(f"{low} to {high} {name}" for name, (low, high) in _SCREEN.items())
        raise argparse.ArgumentTypeError(f"{text!r} is no size of {limits}, as 120x36")
    return size


def check_without_stack(text: str) -> None:
    """Refuse a `KEY=VALUE` that is wrong on any stack before one is looked for; raise UsageError."""
    from replexplorer.core.knobs.names import parse_assignment
    from replexplorer.core.topology import new_roster
    from replexplorer.formats.files import workload_file

    left, equals, value = text.partition("=")
    found = parse_assignment(f"{left.partition('@')[0]}{equals}{value}", new_roster())
    if found.names[0].knob.is_file(str(found.value)):
        workload_file(str(found.value))


# -- completion in the shell: at each Tab its script runs this program with the line in the environment


def completion(call: Any) -> int:
    """Print what makes the shell ask for completions."""
    from argcomplete.shell_integration import shellcode

    call.console.print(shellcode([PROGRAM], shell=call.args.shell))
    return 0


def complete() -> None:
    """Print the words that fit for the shell whose line is in the environment, and end this process."""
    from argcomplete.completers import SuppressCompleter
    from argcomplete.finders import CompletionFinder

    CompletionFinder(default_completer=SuppressCompleter())(completing_parser())


def completing_parser(parser: argparse.ArgumentParser | None = None) -> argparse.ArgumentParser:
    """A parser, of all verbs where none is given, each of whose arguments says what may be typed there;
    argparse's own choices are known."""
    from argcomplete.completers import FilesCompleter

    parser = parser or build_parser()
    for action in parser._actions:
        what = action.metavar if isinstance(action.metavar, str) else ""
        if what == "NAME" and not action.option_strings:
            what = f"{parser.prog.split()[1]} NAME"
        if isinstance(action.choices, dict):
            for child in action.choices.values():
                completing_parser(child)
        elif what in ("FILE", "DIR", "PATH"):
            action.completer = FilesCompleter()  # type: ignore[attr-defined]
        elif action.choices is None:
            action.completer = lambda prefix, what=what, **_: _words(what, prefix)  # type: ignore[attr-defined]
    return parser


def _words(what: str, prefix: str) -> list[str]:
    """What may stand for an argument, by what it is called in --help; nothing where anything may."""
    from replexplorer.formats import paths

    def names(*directories: Path) -> list[str]:
        return [file.stem for directory in directories for file in paths.toml_files(directory)]

    match what:
        case "KEY=VALUE" | "KEY=V1,V2,...":
            return _knob_words(prefix)
        case "KEY":
            from replexplorer.core.knobs.catalogue import BY_KEY

            return [*BY_KEY]
        case "KIND[=VALUE][@NODE]" | "KIND[@NODE]":
            from replexplorer.core.fault import KINDS

            return [kind.key for kind in KINDS]
        case "lab NAME":
            return names(paths.shipped_labs(), paths.labs_directory())
        case "drill NAME":
            return names(paths.shipped_drills(), paths.drills_directory())
        case "scene NAME":
            from replexplorer.formats.scenes import SHIPPED

            return [*SHIPPED, *names(paths.scenes_directory())]
    return []


def _knob_words(prefix: str) -> list[str]:
    """Knobs as `KEY=`, and once that stands there the words that it takes."""
    from replexplorer.core.knobs.catalogue import BY_KEY

    key, equals, _ = prefix.partition("=")
    if not equals:
        return [f"{name}=" for name in BY_KEY]
    knob = BY_KEY.get(key.partition("@")[0])
    return [f"{key}={word}" for word in knob.choices] if knob is not None else []
