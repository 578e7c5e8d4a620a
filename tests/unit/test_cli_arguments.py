"""The command line: global flags on both sides, suggestions, exit codes, --help."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from argcomplete.completers import SuppressCompleter
from argcomplete.finders import CompletionFinder

from replexplorer import __version__
from replexplorer.adapters.mysql import SSL_MODES
from replexplorer.cli.arguments import VERBS, build_parser, completing_parser, function, parse
from replexplorer.core.errors import UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY
from replexplorer.core.load.pacing import MOST_PROCESSES
from replexplorer.core.system import SYSTEMS
from replexplorer.core.topology import MOST_REPLICAS
from tests.unit.conftest import Run


def test_help_names_every_verb_examples_and_exit_codes(run: Run) -> None:
    code, text, _ = run("--help")
    assert code == 0
    for name, verb in VERBS.items():
        assert f"{name:<12}  {verb['does']}" in text
    assert "examples:" in text
    assert "exit codes:" in text
    assert max(map(len, text.splitlines())) <= 100


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"replexplorer {__version__}\n", "")


@pytest.mark.parametrize(
    "words",
    [
        "--stack a --config f -v status",
        "status --stack a --config f -v",
        "--stack a status -v --config f",
        "--stack b status --stack a --config f -v",
        "--stack a scene apply none -v --config f",
    ],
)
def test_global_flags_before_and_after_the_verb(words: str) -> None:
    args = parse(words.split())
    assert (args.stack, args.config, args.verbose) == ("a", "f", True)


AMOUNTS = """\
--duration 10    = 10
--duration 1.5   = 1.5
--duration 10s   = 10
--duration 500ms = 0.5
--duration 2min  = 120
--duration 1e1   = 10
--table-size 1m  = 1000000
--clients 1k     = 1000
--rate 1.5k      = 1500
"""


@pytest.mark.parametrize("line", AMOUNTS.splitlines())
def test_durations_have_units_and_counts_thousands_and_millions(line: str) -> None:
    flag, written, _, amount = line.split()
    assert getattr(parse(["load", flag, written]), flag[2:].replace("-", "_")) == float(amount)


def test_every_verb_and_action_has_a_function() -> None:
    def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
        below = [each.choices for each in parser._actions if isinstance(each.choices, dict)]
        for children in below:
            for child in children.values():
                yield from leaves(child)
        if not below:
            yield parser

    found = [parser.get_default("target") for parser in leaves(build_parser())]
    assert len(found) > len(VERBS)
    assert all(callable(function(target)) for target in found)


@pytest.mark.parametrize(
    ("words", "most", "beyond"),
    [
        ("load --clients", BY_KEY[keys.CLIENTS].maximum, 1025),
        ("load --rate", BY_KEY[keys.RATE].maximum, 100_001),
        ("load --processes", MOST_PROCESSES, MOST_PROCESSES + 1),
        ("up --replicas", MOST_REPLICAS, MOST_REPLICAS + 1),
        ("up --memory", 512, 511),
        ("up --cpus", 1024, 1025),
        *(("up --system", each, f"{each}x") for each in SYSTEMS),
        *(("up --flavor", each, f"{each}x") for system in SYSTEMS.values() for each in system.flavors),
        *(("attach --ssl-mode", each, f"{each}X") for each in SSL_MODES),
    ],
)
def test_the_declared_limits_are_those_of_the_program(words: str, most: object, beyond: object) -> None:
    parse(f"{words} {most}".split())
    with pytest.raises(UsageError):
        parse(f"{words} {beyond}".split())


def test_every_verb_has_help() -> None:
    parser = build_parser()
    for verb in VERBS:
        with pytest.raises(SystemExit) as stopped:
            parser.parse_args([verb, "--help"])
        assert stopped.value.code == 0


# -- completion in the shell: which words fit, and that bash is given them


ASK = """
eval "$(replexplorer completion bash)"
for COMP_LINE in "$@"; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9
    _python_argcomplete replexplorer
    echo "${COMPREPLY[*]}"
done
"""


def in_bash(*lines: str) -> list[list[str]]:
    """What bash is given to choose from after each of these lines."""
    here = Path(sys.executable).parent
    told = subprocess.run(
        ["bash", "-c", ASK, "bash", *lines],
        env=os.environ | {"PATH": f"{here}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.split() for line in told.stdout.splitlines()]


COMPLETED = """\
swi                      : switchover
set semi_sync=o          : semi_sync=off semi_sync=on
set wait_point=after_c   : wait_point=after_commit
set rtt@db2=             :
set nonsense=            :
set rt                   : rtt=
lab run wan-             : wan-insert wan-threads
fault inject part        : partition
"""


@pytest.mark.parametrize("line", COMPLETED.splitlines())
def test_verbs_knobs_values_and_names_are_given(line: str) -> None:
    typed, words = line.split(" :")
    *before, prefix = typed.split()
    finder = CompletionFinder(completing_parser(), default_completer=SuppressCompleter())
    given = finder._get_completions(["replexplorer", *before], prefix, "", None)  # type: ignore[no-untyped-call]
    assert [each.strip() for each in given] == words.split()


@pytest.mark.costly("each Tab starts the program")
def test_bash_is_given_them() -> None:
    lines = {"replexplorer set semi_sync=o": ["off", "on"], "replexplorer 'unended": []}
    assert in_bash(*lines) == list(lines.values())
