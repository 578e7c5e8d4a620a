"""The verbs with their arguments, as argparse sees them; imports nothing heavier than argparse.

Law: a verb that is not built is absent. Global flags are accepted before and after the verb.
A wrong argument is one line with a suggestion, exit code 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from replexplorer import __version__
from replexplorer.core.errors import UsageError
from replexplorer.core.topology import MOST_REPLICAS

PROGRAM: Final = "replexplorer"
MOST_CLIENTS: Final = 1024
"""As of the knob."""
MOST_ROWS: Final = 100_000_000
"""As of the configuration's table_size."""
MOST_TPS: Final = 100_000.0
"""As of the knob."""

_EPILOG: Final = """\
examples:
  replexplorer                                  the dashboard; brings the stack up if none runs
  replexplorer up --replicas 2                  a primary and two replicas, without the dashboard
  replexplorer set semi_sync=on rtt=85ms        semi-sync over 85 ms, waits until it is in effect
  replexplorer load --clients 32 --duration 10  ten seconds of commits from 32 clients
  replexplorer scene apply network              a named set of knobs: durable on the network only
  mysql --defaults-file="$(replexplorer dsn --defaults-file)"
                                                a client, no password among its arguments
  replexplorer lab run tour                     the demonstration without a terminal

exit codes:
  0 done   1 an expectation of a lab did not hold   2 wrong usage or a value out of range
  3 this machine lacks something (Docker, a permission, an image)
  4 no such stack, a node is down, another driver holds the load
  5 the server refused a statement   130 interrupted

With --json, stdout is exactly one JSON document; progress and errors go to stderr.
"""


_RECORDING: Final = "a session file, the name of one in the sessions directory, `last` or `tour`"

_FLAGS: Final = {
    "--stack": True,
    "--config": True,
    "-v": False,
    "--verbose": False,
    "--version": False,
    "-h": False,
    "--help": False,
}
"""Flags that may stand before the verb, and whether a word follows."""


class Verb(NamedTuple):
    """One verb: its line in --help, its arguments and where its function is."""

    name: str
    summary: str
    target: str
    """`module:function` below `replexplorer.cli`; the function takes a Call and answers the exit code."""
    add: Callable[[argparse.ArgumentParser], None]


class _HelpLayout(argparse.RawDescriptionHelpFormatter):
    """Examples as they are written, and a verb's line never folded on 80 columns."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=18, **options)


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
    _refuse_unknown_flag(argv)
    args = build_parser().parse_args(list(argv))
    for name, default in (("stack", None), ("config", None), ("verbose", False), ("json", False)):
        if not hasattr(args, name):
            setattr(args, name, default)
    return args


def _refuse_unknown_flag(argv: Sequence[str]) -> None:
    """Name a wrong flag before the verb: argparse would take the word after it for the verb."""
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
    """The whole command line."""
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--stack NAME] [--config FILE] [-v] [VERB ...]",
        description="Explore live MySQL replication settings on a real primary and replica.\n"
        "Without a verb: the dashboard.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    verbs = parser.add_subparsers(
        title="verbs", dest="verb", metavar="VERB", prog=PROGRAM, parser_class=Parser
    )
    for verb in VERBS:
        child = verbs.add_parser(verb.name, help=verb.summary, description=_sentence(verb.summary))
        _add_global_flags(child)
        verb.add(child)
        child.set_defaults(target=verb.target)
    _add_global_flags(parser)
    return parser


def _sentence(summary: str) -> str:
    return summary[:1].upper() + summary[1:] + "."


def _add_global_flags(parser: argparse.ArgumentParser) -> None:
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


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _without_thousands(text: str, kind: type[int] | type[float]) -> str:
    """`1k` as 1000 and `1m` as 1000000; raises ValueError."""
    factor = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower())
    return text if factor is None else str(kind(text[:-1]) * factor)


def whole_number(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers from `minimum` to `maximum`; without one, as many as one likes."""

    def read(text: str) -> int:
        try:
            value = int(_without_thousands(text, int))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, as 1000, 1k or 1m") from None
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{value} is below {minimum}")
        if maximum is not None and value > maximum:
            raise argparse.ArgumentTypeError(f"{value} is above {maximum}")
        return value

    return read


def positive(maximum: float) -> Callable[[str], float]:
    """A parser of numbers above 0."""

    def read(text: str) -> float:
        try:
            value = float(_without_thousands(text, float))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number, as 500, 1k or 1.5k") from None
        if not 0 < value <= maximum:
            raise argparse.ArgumentTypeError(f"{text!r} must be above 0 and at most {maximum:g}")
        return value

    return read


def seconds(*, positive: bool) -> Callable[[str], float]:
    """A parser of durations in seconds: `10`, `1.5`, `10s`, `500ms`, `2min`."""

    def read(text: str) -> float:
        scale = 1.0
        number = text.strip().lower()
        for unit, factor in (("ms", 0.001), ("min", 60.0), ("s", 1.0)):
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


def _add_up(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replicas",
        type=whole_number(1, MOST_REPLICAS),
        metavar="N",
        help="how many replicas; without it a live stack keeps its own and a new one has 1",
    )
    parser.add_argument("--image", metavar="REF", help="any image that has mysqld, instead of our own")
    _json(parser)


def _add_down(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="every replexplorer stack on this Docker host")
    parser.add_argument(
        "--yes", action="store_true", help="also under a load that runs, which is asked about otherwise"
    )


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "assignments", nargs="+", metavar="KEY=VALUE", help="as semi_sync=on, rtt=85ms, rtt@replica2=10"
    )
    _turning(parser, dry_run=True)


def _add_reset(parser: argparse.ArgumentParser) -> None:
    _turning(parser)


def _turning(parser: argparse.ArgumentParser, *, dry_run: bool = False) -> None:
    """The flags of every verb that turns knobs."""
    if dry_run:
        parser.add_argument("--dry-run", action="store_true", help="print the statements and run none")
    parser.add_argument(
        "--anyway", action="store_true", help="even while a lab or a sweep runs, whose result says so"
    )
    _json(parser)


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "assignments",
        nargs="*",
        metavar="KEY=VALUE",
        help="as `set` takes them; others are the stack's, or the defaults where none runs",
    )
    _json(parser)


def _add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("keys", nargs="*", metavar="KEY", help="without a key: all of them")
    _json(parser)


def _add_scene(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    for name, summary in (
        ("list", "the shipped scenes and your own"),
        ("save", "keep the requested knobs under a name"),
        ("apply", "set the knobs of a scene"),
    ):
        child = actions.add_parser(name, help=summary, description=_sentence(summary))
        _add_global_flags(child)
        if name != "list":
            child.add_argument("name", metavar="NAME", help="the scene's name")
        if name == "save":
            child.add_argument(
                "keys",
                nargs="*",
                metavar="KEY",
                help="of the knobs to keep; without: those not at their default",
            )
            child.add_argument("--title", metavar="TEXT", default="", help="one line of what it is for")
        if name == "apply":
            _turning(child, dry_run=True)
        else:
            _json(child)


def _add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--clients", type=whole_number(1, MOST_CLIENTS), metavar="N", help="connections; default: the knob"
    )
    parser.add_argument(
        "--rate",
        type=positive(MOST_TPS),
        metavar="R",
        help="open loop: this many transactions arrive per second (TPS), however fast the server answers",
    )
    parser.add_argument(
        "--arrivals",
        choices=("poisson", "even"),
        metavar="HOW",
        help="poisson (default) or even gaps; with --rate",
    )
    parser.add_argument(
        "--workload",
        metavar="W",
        help="sysbench's update_index, update_non_index, insert, write_only, read_write or point_select; "
        "employees, foo, ledger; or a file of SQL, a transaction a block; default: the knob",
    )
    parser.add_argument(
        "--statements", action="store_true", help="latency of each class of statements as well"
    )
    parser.add_argument(
        "--duration", type=seconds(positive=True), default=10.0, metavar="S", help="seconds (default 10)"
    )
    parser.add_argument(
        "--warmup",
        type=seconds(positive=False),
        default=0.0,
        metavar="S",
        help="seconds before, not counted (default 0)",
    )
    parser.add_argument(
        "--table-size", type=whole_number(1, MOST_ROWS), metavar="N", help="rows of the table"
    )
    parser.add_argument("--beside", action="store_true", help="run beside another driver of the stack's load")
    _json(parser)


def _add_dsn(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", nargs="?", default="primary", metavar="NODE", help="default: primary")
    parser.add_argument("--published", action="store_true", help="by the port on 127.0.0.1")
    parser.add_argument(
        "--admin", action="store_true", help="the app's own account, which may do anything, on every node"
    )
    parser.add_argument(
        "--defaults-file",
        action="store_true",
        help="write the address as an option file that only you can read and print its path, for "
        'mysql --defaults-file="$(replexplorer dsn --defaults-file)" and sysbench --config-file="$(...)": '
        "every user of a machine sees the arguments of a command, and a password is none; a client that "
        'takes a mysql:// address only gets it by the environment: MYSQL_DSN="$(replexplorer dsn)" mycli',
    )
    _json(parser)


def _add_lab(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    listing = actions.add_parser(
        "list", help="the labs that there are", description="The labs that there are."
    )
    run = actions.add_parser(
        "run", help="run one", description="Run a lab and say whether its relations hold."
    )
    run.add_argument(
        "name", metavar="NAME", help="as `lab list` has it, as `tour`; or your own lab's file, as ./mine.toml"
    )
    run.add_argument("--quick", action="store_true", help="shorter counts, the same method")
    run.add_argument("--dump", metavar="FILE", help="an employees.sql whose rows the bulk-load lab inserts")
    run.add_argument(
        "--rows", type=whole_number(1000, 10_000_000), metavar="N", help="of the archive lab's table"
    )
    run.add_argument(
        "--report", metavar="DIR", help="write report.md, report.html, result.json and the session"
    )
    run.add_argument("--beside", action="store_true", help="run beside another driver of the stack's load")
    for child in (listing, run):
        _add_global_flags(child)
        _json(child)


def _add_sweep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "knobs",
        nargs="+",
        metavar="KEY=V1,V2,...",
        help="a knob with its values, as rtt=0,2,10,85 or clients=1,8,32; scene=none,local,network,both",
    )
    parser.add_argument(
        "--duration",
        type=seconds(positive=True),
        default=5.0,
        metavar="S",
        help="seconds of each run (default 5)",
    )
    parser.add_argument(
        "--repeat",
        type=whole_number(1),
        default=1,
        metavar="N",
        help="passes over all combinations; with 3 or more, intervals show how runs differ (default 1)",
    )
    parser.add_argument("--seed", type=whole_number(0), metavar="N", help="of the random order")
    parser.add_argument(
        "--map", metavar="KEY,KEY", help="the heat map's knobs; default: the two with the most values"
    )
    parser.add_argument("--fresh", action="store_true", help="start over instead of continuing")
    parser.add_argument("--report", metavar="DIR", help="write report.md, sweep.svg and result.json there")
    parser.add_argument("--beside", action="store_true", help="run beside another driver of the stack's load")
    _json(parser)


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=_RECORDING)
    parser.add_argument(
        "--format", choices=("csv", "jsonl", "md"), required=True, metavar="FORMAT", help="csv, jsonl or md"
    )
    parser.add_argument("--output", metavar="PATH", help="instead of stdout")


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=_RECORDING)
    parser.add_argument(
        "--speed", type=positive(16), default=1.0, metavar="X", help="times as fast (default 1, at most 16)"
    )


def _add_schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", nargs="*", metavar="VERB", help="only this verb's document")


VERBS: Final[tuple[Verb, ...]] = (
    Verb("up", "bring the stack up, or repair it; wait until it answers", "stack:up", _add_up),
    Verb("down", "remove everything of the stack", "stack:down", _add_down),
    Verb("status", "nodes, protection, links and knobs", "stack:status", _json),
    Verb("set", "turn knobs and wait until they are in effect", "knobs:set_knobs", _add_set),
    Verb("get", "knobs with value, default, range and help", "knobs:get", _add_get),
    Verb("reset", "all knobs to their defaults", "knobs:reset", _add_reset),
    Verb("scene", "named sets of knobs: list, save, apply", "scene:run", _add_scene),
    Verb("load", "run a load in the foreground and report", "load:run", _add_load),
    Verb("lab", "scripted experiments: list, run", "lab:run", _add_lab),
    Verb("sweep", "measure every combination of some knobs", "sweep:run", _add_sweep),
    Verb("replay", "play a recorded session in the dashboard", "recorded:replay", _add_replay),
    Verb("export", "a recorded session as csv, jsonl or md", "recorded:export", _add_export),
    Verb("predict", "what the model expects of settings; nothing is turned", "predict:run", _add_predict),
    Verb("dsn", "the address of a server for mysql, mycli, sysbench", "stack:dsn", _add_dsn),
    Verb("doctor", "what is here and what is missing, with the remedy", "machine:doctor", _json),
    Verb("config", "effective configuration and where each value came from", "machine:config", _json),
    Verb("themes", "built-in and own themes", "machine:themes", _json),
    Verb("keys", "key bindings", "machine:keys", _json),
    Verb("schema", "JSON Schema of every --json document", "machine:schema", _add_schema),
)
"""Every verb that is built, in the order of --help."""
