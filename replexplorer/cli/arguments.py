"""The command line as argparse sees it: the verbs, their arguments and the global flags.

Law: a verb that is not built is absent. Global flags are accepted before and after the verb. A wrong argument
is one line with a suggestion, exit code 2. Of the verbs' modules only that of the typed one is imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from typing import Any, Final, NoReturn

from replexplorer import __version__
from replexplorer.cli.verbs import VERBS, Verb
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
    args = build_parser(verbs_typed(argv)).parse_args(list(argv))
    for name, default in (("stack", None), ("config", None), ("verbose", False), ("json", False)):
        if not hasattr(args, name):
            setattr(args, name, default)
    return args


def verbs_typed(argv: Sequence[str]) -> list[Verb]:
    """The verb that stands there, if it is one. Raises UsageError for a wrong flag before it."""
    typed = _verb_word(argv)
    return [verb for verb in VERBS if verb.name == typed]


def _verb_word(argv: Sequence[str]) -> str | None:
    """The word that stands for the verb; None without one. Raises UsageError for a wrong flag before it:
    argparse would take the word after that for the verb."""
    words = iter(argv)
    for word in words:
        if not word.startswith("-"):
            return word
        flag, equals, _ = word.partition("=")
        if flag not in _FLAGS:
            from difflib import get_close_matches

            near = get_close_matches(flag, _FLAGS, n=1)
            raise UsageError(
                f"unknown flag {flag}", f"did you mean {near[0]}?" if near else f"see {PROGRAM} --help"
            )
        if _FLAGS[flag] and not equals:
            next(words, None)
    return None


def build_parser(wanted: Collection[Verb] = VERBS) -> Parser:
    """The command line with all verbs, of which the wanted ones have their arguments."""
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
    for verb in VERBS:
        child = verbs.add_parser(verb.name, help=verb.summary, description=sentence(verb.summary))
        add_global_flags(child)
        if verb in wanted:
            (verb.arguments or add_json)(child)
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


def add_json(parser: argparse.ArgumentParser) -> None:
    """What every verb takes that prints a document."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
