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
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from replexplorer import __version__
from replexplorer.core.errors import UsageError

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


_FLAGS: Final = {
    "--stack": True,
    "--config": True,
    "-v": False,
    "--verbose": False,
    "--version": False,
    "--view": False,
    "-h": False,
    "--help": False,
}
"""Flags that may stand before the verb, and whether a word follows."""


_DECLARED: Final[Mapping[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8")
)
"""Verbs and actions by what is typed, and under `option` what several of them take."""
_OWN_KEYS: Final = ("does", "description", "run", "listed", "takes")
"""Of a verb or action; its other keys are its arguments."""


class Verb(NamedTuple):
    """One verb: its line in --help, and where its function is."""

    name: str
    summary: str
    target: str
    """`module:function` below `replexplorer.cli`; the function takes a Call and answers the exit code."""

    def function(self, call: Any) -> int:
        """Carry it out; imports its module."""
        module, _, function = self.target.partition(":")
        code: int = getattr(importlib.import_module(f"replexplorer.cli.{module}"), function)(call)
        return code


def _verbs(*, listed: bool) -> tuple[Verb, ...]:
    rows = ((name, how) for name, how in _DECLARED.items() if "run" in how)
    return tuple(
        Verb(name, how["does"], how["run"]) for name, how in rows if how.get("listed", True) == listed
    )


VERBS: Final = _verbs(listed=True)
"""In the order of --help."""
ALIASES: Final = _verbs(listed=False)
"""Old names, which --help does not list."""


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
            from difflib import get_close_matches

            known = [str(choice) for choice in action.choices]
            near = get_close_matches(str(value), known, n=1)
            what = action.metavar if isinstance(action.metavar, str) else action.dest
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"unknown {what.lower()} {value!r}", hint)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; raise UsageError, or SystemExit(0) after --help and --version."""
    for word in argv:
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise UsageError(f"{word!r} is not UTF-8 text", "arguments are text in UTF-8")
    _check_flags_before(argv)
    args = build_parser().parse_args(list(argv))
    for name, default in (("stack", None), ("config", None), ("verbose", False), ("json", False)):
        if not hasattr(args, name):
            setattr(args, name, default)
    return args


def _check_flags_before(argv: Sequence[str]) -> None:
    """Raise UsageError for a wrong flag before the verb; argparse would take the word after it for one."""
    words = iter(argv)
    for word in words:
        if not word.startswith("-"):
            return
        flag, equals, _ = word.partition("=")
        if flag not in _FLAGS:
            from difflib import get_close_matches

            near = get_close_matches(flag, _FLAGS, n=1)
            raise UsageError(
                f"unknown flag {flag}", f"did you mean {near[0]}?" if near else f"see {PROGRAM} --help"
            )
        if _FLAGS[flag] and not equals:
            next(words, None)


def build_parser() -> Parser:
    """The command line with all verbs."""
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
    for verb in (*VERBS, *ALIASES):
        about = sentence(verb.summary)
        if verb in ALIASES:  # without a line of help it is not listed
            child = verbs.add_parser(verb.name, description=about)
        else:
            child = verbs.add_parser(verb.name, help=verb.summary, description=about)
        add_global_flags(child)
        _declare(child, verb.name)
        child.set_defaults(carry_out=verb.function)
    add_global_flags(parser)
    return parser


def sentence(summary: str) -> str:
    """A line of --help as the description of its own page."""
    return summary[:1].upper() + summary[1:] + "."


def add_global_flags(parser: argparse.ArgumentParser) -> None:
    """What every verb and every action of one takes."""
    group = parser.add_argument_group("global flags")
    group.add_argument(
        "--stack", metavar="NAME", default=argparse.SUPPRESS, help="which stack; two run side by side"
    )
    group.add_argument(
        "--config", metavar="FILE", default=argparse.SUPPRESS, help="read this configuration file"
    )
    group.add_argument(
        "-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help="say more; tracebacks too"
    )


def _declare(parser: argparse.ArgumentParser, name: str) -> None:
    """Give a verb, or an action of one, its arguments and its actions."""
    groups: dict[str, argparse._MutuallyExclusiveGroup] = {}
    for typed, how in _arguments(name).items():
        words: dict[str, Any] = {"action": "store_true", "help": how} if isinstance(how, str) else {**how}
        if "type" in words:
            words["type"] = _reader(words["type"])
        group = words.pop("group", None)
        if group is not None and group not in groups:
            groups[group] = parser.add_mutually_exclusive_group(required=group.startswith("one "))
        (groups[group] if group else parser).add_argument(*typed.split(), **words)
    actions = [key for key in _DECLARED if key.startswith(f"{name} ")]
    if actions:
        below = parser.add_subparsers(
            title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
        )
        for action in actions:
            how = _DECLARED[action]
            listed: dict[str, Any] = {}
            if how.get("listed", True):
                listed = {"help": how["does"], "description": how.get("description", sentence(how["does"]))}
            child = below.add_parser(action.removeprefix(f"{name} "), **listed)
            add_global_flags(child)
            _declare(child, action)


def _arguments(name: str) -> Mapping[str, Any]:
    """What a verb or action has of its own, then what it takes with others, as declared."""
    declared = _DECLARED[name]
    found = {key: how for key, how in declared.items() if key not in _OWN_KEYS}
    for shared in declared.get("takes", ()):
        for key, how in _DECLARED["option"][shared].items():
            found.setdefault(key, how)
    return found


# -- what an argument may be


def _reader(declared: str) -> Callable[[str], Any]:
    """What reads an argument of this type, as `verbs.toml` names types."""
    kind, *limits = declared.split()
    match kind:
        case "whole":
            return number(int, "a whole number, as 1000, 1k or 1m", *map(int, limits))
        case "positive":
            return number(float, "a number, as 500, 1k or 1.5k", 0, float(limits[0]))
        case "duration":
            return seconds(positive=not limits)
        case "size":
            return screen_size
        case "upper":
            return str.upper
    raise ValueError(declared)


def number(
    kind: type[int] | type[float], what: str, least: float, most: float = math.inf
) -> Callable[[str], float]:
    """A parser of numbers from `least` to `most`, thousands and millions as `1k` and `1m`; a float is above
    its least."""

    def read(text: str) -> float:
        factor = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower())
        try:
            value = kind(text) if factor is None else kind(text[:-1]) * factor
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None
        if kind is float and not least < value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} must be above {least:g} and at most {most:g}")
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is below {least}")
        if value > most:
            raise argparse.ArgumentTypeError(f"{value} is above {most}")
        return value

    return read


def seconds(*, positive: bool) -> Callable[[str], float]:
    """A parser of durations in seconds: `10`, `1.5`, `10s`, `500ms`, `2min`, `5m`."""

    def read(text: str) -> float:
        scale = 1.0
        number = text.strip().lower()
        for unit, factor in (("ms", 0.001), ("min", 60.0), ("m", 60.0), ("s", 1.0)):
            if number.endswith(unit):
                number, scale = number.removesuffix(unit), factor
                break
        try:
            value = float(number) * scale
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a duration, as 10, 10s, 500ms or 2min"
            ) from None
        if not 0 <= value < float("inf") or (positive and value == 0):
            raise argparse.ArgumentTypeError(f"{text!r} must be {'above' if positive else 'at least'} 0")
        return value

    return read


_SIZE: Final = re.compile(r"(\d{1,4})x(\d{1,4})", re.IGNORECASE)
_LEAST, _MOST = (40, 10), (500, 200)


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
