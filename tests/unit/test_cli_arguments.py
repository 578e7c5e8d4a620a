"""The command line: global flags on both sides, suggestions, exit codes, --help."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from replexplorer import __version__
from replexplorer.adapters.mysql import SSL_MODES
from replexplorer.cli.arguments import VERBS, build_parser, function, parse
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


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--duration 10", 10.0),
        ("--duration 1.5", 1.5),
        ("--duration 10s", 10.0),
        ("--duration 500ms", 0.5),
        ("--duration 2min", 120.0),
        ("--duration 1e1", 10.0),
        ("--table-size 1m", 1_000_000),
        ("--clients 1k", 1000),
        ("--rate 1.5k", 1500.0),
    ],
)
def test_durations_have_units_and_counts_thousands_and_millions(words: str, value: float) -> None:
    flag = words.split()[0].removeprefix("--").replace("-", "_")
    assert getattr(parse(["load", *words.split()]), flag) == value


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
