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
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final, NoReturn

from replexplorer import __version__
from replexplorer.core.errors import UsageError
from replexplorer.core.text import closest, table

if TYPE_CHECKING:
    from replexplorer.core.knobs.names import Assignment

PROGRAM: Final = "replexplorer"

_DECLARED: Final[Mapping[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8")
)
"""Commands by what is typed, and under `option` what several of them take."""
_OWN_KEYS: Final = (
    "does", "description", "run", "any_word", "prints", "listed", "takes", "first", "was", "examples",
)  # fmt: skip
"""Of a command; its other keys are its arguments."""
GROUPS: Final[Mapping[str, list[str]]] = _DECLARED["group"]
"""Verbs, without old ones, in the groups of `help`."""
VERBS: Final = [verb for verbs in GROUPS.values() for verb in verbs]
COMMANDS: Final = {
    name: how for name, how in _DECLARED.items() if name not in ("option", "document", "group")
}
"""Every command as declared."""
OLD: Final = {
    how["was"] + name.removeprefix(now): name
    for now, how in COMMANDS.items()
    for name in COMMANDS
    if "was" in how and f"{name} ".startswith(f"{now} ")
}
"""Old names, which go on working, to those of today."""
NAMES: Final = {name: name for name in COMMANDS} | OLD
"""All that can be typed."""
PRINTED: Final[Mapping[str, Any]] = _DECLARED["document"] | {
    typed: COMMANDS[name]["prints"] for typed, name in NAMES.items() if "prints" in COMMANDS[name]
}
"""What is typed to the type of its --json, as declared."""

_EXIT_CODES: Final = """\
exit codes:
  0 done   1 not as expected: a lab, drill, check or goal   2 wrong usage or a value out of range
  3 this machine lacks something (Docker, a permission, an image)
  4 no such stack, a node is down, another driver holds the load
  5 the server refused a statement   130 interrupted
With --json, stdout is exactly one JSON document, of an error too; progress goes to stderr."""


def function(target: str) -> Callable[[Any], Any]:
    """What carries out a command, as its table names it; imports its module."""
    module, _, name = target.partition(":")
    found: Callable[[Any], Any] = getattr(importlib.import_module(f"replexplorer.cli.{module}"), name)
    return found


def actions_of(verb: str) -> dict[str, str]:
    """What may be typed behind a verb to choose what it does, with the full names."""
    return {typed.removeprefix(f"{verb} "): NAMES[typed] for typed in NAMES if typed.startswith(f"{verb} ")}


def _in_short(verb: str) -> str:
    """`fault list|inject|clear`, `config [show|themes]`."""
    actions = "|".join(word for word, name in actions_of(verb).items() if word in name)
    if actions and "run" in COMMANDS[verb]:
        actions = f"[{actions}]"
    return f"{verb} {actions}".rstrip()


def help_on(call: Any) -> int:
    """List all commands in their groups, or print the help of one."""
    words = call.args.words
    if words not in ([], ["all"]):
        parse([*words[:2], "--help"])
    for group, verbs in GROUPS.items():
        names = [name for verb in verbs for name in COMMANDS if f"{name} ".startswith(f"{verb} ")]
        rows = [("", f"{name:<18}", COMMANDS[name]["does"]) for name in names if "run" in COMMANDS[name]]
        call.console.print(f"{group}\n{table(rows)}\n")
    return 0


class _HelpLayout(argparse.RawDescriptionHelpFormatter):
    """Examples as they are written, and a command's line never folded on 80 columns."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=18, **options)
        # Python 3.11 does not count that commands are indented, and folds the longest one's line.
        self._action_max_length = 16


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]  # generic for mypy alone
    """Commands, some of them of two words: `attach revert` next to `attach URL`."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Read the rest as the command has it that these words begin with."""
        both = " ".join(values[:2])
        words = [both, *values[2:]] if both in self.choices else values
        super().__call__(parser, namespace, words, option_string)


class _Listen(argparse.Action):
    """`ADDRESS:PORT`, or one of them, as what `--host` and `--port` take."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Keep both, each within its own limits."""
        both = values.count(":") == 1 or "]:" in values
        for flag, text in zip(("--host", "--port"), values.rsplit(":", both), strict=False):
            if text:
                parser.parse_known_args([f"{flag}={text}"], namespace)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError with a suggestion instead of exiting."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _HelpLayout)
        super().__init__(allow_abbrev=False, **options)
        self.register("action", "parsers", _Commands)
        self.register("action", "listen", _Listen)

    def error(self, message: str) -> NoReturn:
        """Raise the problem in our one-line form."""
        raise UsageError(message, f"see {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what this command does not know, with the nearest of its own flags."""
        first = args[0].partition("=")[0] if args else ""
        if self._subparsers and first.startswith("--") and first not in self._option_string_actions:
            self._refuse(args[:1])  # what stands behind it might be taken for a verb
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self._refuse(rest)
        return found, rest

    def _refuse(self, words: Sequence[str]) -> NoReturn:
        wrong = next((word for word in words if word.startswith("--")), "").partition("=")[0]
        known = (flag for flag, how in self._option_string_actions.items() if how.help != argparse.SUPPRESS)
        hint = f"{closest(wrong, known)} see {self.prog} --help"
        raise UsageError(f"unrecognized arguments: {' '.join(words)}", hint.lstrip())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown word with the nearest known one."""
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            what = action.metavar if isinstance(action.metavar, str) else action.dest
            hint = closest(str(value), known) or f"known: {', '.join(known)}"
            raise UsageError(f"unknown {what.lower()} {value!r}", hint)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; raise UsageError, or SystemExit(0) after --help, which a noun alone prints, and
    --version."""
    try:
        " ".join(argv).encode()
    except UnicodeEncodeError as error:
        word = error.object[error.start - 1 : error.end]
        raise UsageError(f"{word!r} is not UTF-8 text", "arguments are text in UTF-8") from None
    given = dict.fromkeys(("stack", "config", "command", "target")) | {"verbose": False, "json": False}
    args = build_parser(argv).parse_args(list(argv), argparse.Namespace(**given))
    if args.json and args.command not in PRINTED:
        raise UsageError(f"{args.command or 'the dashboard'} prints no JSON document", "leave --json out")
    if args.command and args.target is None:
        parse([*argv, "--help"])
    return args


def build_parser(typed: Sequence[str] = VERBS) -> Parser:
    """The command line with all commands; those that are not among the words `typed` have no arguments, and
    old names are left out."""
    rows = [("", group, "  ".join(map(_in_short, verbs))) for group, verbs in GROUPS.items()]
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [COMMAND ...] [--stack NAME] [--config FILE] [--json] [-v]",
        description="Explore live MySQL replication settings on a real source and its replicas.\n"
        "Without a command: the dashboard, which brings the stack up if none runs.",
        epilog=f"all commands (`help` explains each, `help COMMAND` one):\n{table(rows)}\n\n{_EXIT_CODES}",
    )
    verbs = parser.add_subparsers(title="commands", dest="verb", metavar="VERB", prog=PROGRAM)
    for word, name in NAMES.items():
        verb, _, action = word.partition(" ")
        # An action is a command of its own only where any word may stand behind its verb.
        is_action = verb in typed and "any_word" in COMMANDS[NAMES[verb]]
        if is_action if action else verb in VERBS or verb in typed:
            made = _add(verbs, word, name, listed=word == name and "first" in COMMANDS[name])
            if verb in typed:
                _fill(made, name)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument("--view", action="store_true", help=argparse.SUPPRESS)
    _add_global_flags(parser)
    return parser


def _add_global_flags(parser: argparse.ArgumentParser, *, prints: bool = True) -> None:
    """What every command takes; --json where there is a document."""
    add = partial(parser.add_argument_group("global flags").add_argument, default=argparse.SUPPRESS)
    add("--stack", metavar="NAME", help="which stack; two run side by side")
    add("--config", metavar="FILE", help="read this configuration file")
    if prints:
        add("--json", action="store_true", help="print one JSON document")
    add("-v", "--verbose", action="store_true", help="say more; tracebacks too")


def _add(commands: Any, word: str, name: str, *, listed: bool) -> Parser:
    """A command by this word, still without arguments: those of all take longer than many a command."""
    how = COMMANDS[name]
    own = how.get("examples") or [COMMANDS[action]["examples"][0] for action in actions_of(name).values()]
    examples = table([("", f"{PROGRAM} {typed}", does) for typed, does in own])
    words = {"help": how["does"]} if listed else {}
    made: Parser = commands.add_parser(
        word,
        description=how.get("description", how["does"]),
        epilog=f"examples:\n{examples}" if examples else None,
        **words,
    )
    made.set_defaults(command=name, target=how.get("run"))
    return made


def _fill(parser: Parser, name: str) -> None:
    """Give a command its arguments, and a noun its actions."""
    how = COMMANDS[name]
    groups: dict[str, argparse._MutuallyExclusiveGroup] = {}
    for typed, argument in _arguments(how).items():
        given: dict[str, Any] = {"action": "store_true", "help": argument}
        if not isinstance(argument, str):
            given = {**argument}
        if "type" in given:
            given["type"] = _reader(given["type"])
        group, was = given.pop("group", None), given.pop("was", None)
        if group is not None and group not in groups:
            groups[group] = parser.add_mutually_exclusive_group(required=group.startswith("one "))
        if not given.pop("listed", True):
            given["help"] = argparse.SUPPRESS
        made = (groups[group] if group else parser).add_argument(*typed.split(), **given)
        if was is not None:
            parser.add_argument(was, **given | {"dest": made.dest, "help": argparse.SUPPRESS})
    actions = {} if "any_word" in how else actions_of(name)
    if actions:
        below = parser.add_subparsers(title="actions", dest="action", metavar="ACTION")
        for word, action in actions.items():
            _fill(_add(below, word, action, listed=word in action), action)
    _add_global_flags(parser, prints="prints" in how or bool(actions))


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
            return partial(_number, int, "a whole number, such as 1000, 1k or 1m", _COUNTS, low, high)
        case "positive":
            return partial(_number, float, "a number, such as 500, 1k or 1.5k", _COUNTS, math.ulp(0.0), low)
        case "duration":
            least = 0.0 if limits else math.ulp(0.0)
            return partial(
                _number, float, "a duration, such as 10, 10s, 500ms or 2min", _SECONDS, least, math.inf
            )
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
    typed = text.strip().lower()
    number = typed.rstrip(ascii_lowercase)
    try:
        value = kind(number) * units[typed.removeprefix(number)]
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of {limits}, such as 120x36")
    return size


def check_without_stack(text: str) -> Assignment:
    """A `KEY=VALUE`, refused where it is wrong on any stack before one is looked for; raise UsageError."""
    from replexplorer.core.knobs.names import parse_assignment
    from replexplorer.core.topology import new_roster
    from replexplorer.formats.files import workload_file

    left, equals, value = text.partition("=")
    found = parse_assignment(f"{left.partition('@')[0]}{equals}{value}", new_roster())
    if found.names[0].knob.is_file(str(found.value)):
        workload_file(str(found.value))
    return found


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
    actions: Sequence[Any] = parser._actions
    for action in actions:
        what = action.metavar if isinstance(action.metavar, str) else ""
        if what == "NAME" and not action.option_strings:
            what = f"{parser.prog.split()[1]} NAME"
        if isinstance(action.choices, dict):
            for word, child in [*action.choices.items()]:
                completing_parser(child)
                if " " in word:  # what is completed is one word
                    del action.choices[word]
        elif what in ("FILE", "DIR", "PATH"):
            action.completer = FilesCompleter()
        elif action.choices is None:
            action.completer = lambda prefix, what=what, **_: _words(what, prefix)
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
        case "lab NAME" | "drill NAME" | "lesson NAME":
            kind = what.partition(" ")[0]
            return names(paths.shipped_experiments(kind), paths.experiments_directory(kind))
        case "preset NAME":
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
