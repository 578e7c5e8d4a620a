"""The command line: global flags on both sides, suggestions, exit codes, --help."""

from __future__ import annotations

import json
import sys

import pytest

from replexplorer import __version__
from replexplorer.cli import main
from replexplorer.cli.arguments import build_parser, parse
from replexplorer.cli.verbs import VERBS, Verb
from replexplorer.core.errors import UsageError

CONTRACT = [
    "up",
    "down",
    "status",
    "attach",
    "revert",
    "set",
    "get",
    "reset",
    "scene",
    "load",
    "workload",
    "lab",
    "drill",
    "fault",
    "failover",
    "switchover",
    "rejoin",
    "classroom",
    "sweep",
    "compare",
    "replay",
    "play",
    "export",
    "serve",
    "predict",
    "advise",
    "check-schema",
    "dsn",
    "doctor",
    "config",
    "themes",
    "keys",
    "completion",
    "schema",
]


def test_the_verbs_are_those_of_the_contract() -> None:
    assert [verb.name for verb in VERBS] == CONTRACT


def test_help_names_every_verb_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for verb in VERBS:
        assert f"{verb.name:<12}  {verb.summary}" in text
    assert "examples:" in text
    assert "exit codes:" in text
    assert max(map(len, text.splitlines())) <= 100


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"replexplorer {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--stack", "a", "--config", "f", "-v", "status"],
        ["status", "--stack", "a", "--config", "f", "-v"],
        ["--stack", "a", "status", "-v", "--config", "f"],
        ["--stack", "b", "status", "--stack", "a", "--config", "f", "-v"],
    ],
)
def test_global_flags_before_and_after_the_verb(words: list[str]) -> None:
    args = parse(words)
    assert (args.stack, args.config, args.verbose) == ("a", "f", True)


def test_global_flags_after_a_nested_action() -> None:
    args = parse(["--stack", "a", "scene", "apply", "none", "-v", "--json"])
    assert (args.stack, args.verbose, args.json, args.name) == ("a", True, True, "none")


def test_flags_left_out_are_none() -> None:
    args = parse(["load"])
    assert (args.stack, args.config, args.verbose, args.json) == (None, None, False, False)
    assert (args.clients, args.workload, args.duration, args.warmup, args.table_size) == (
        None,
        None,
        10.0,
        0,
        None,
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["statsu"], "did you mean status?"),
        (["frobnicate"], "known: up, down"),
        (["scene", "aply", "x"], "did you mean apply?"),
        (["load", "--duration", "0"], "--duration"),
        (["load", "--duration", "-5"], "--duration"),
        (["load", "--duration", "nan"], "--duration"),
        (["load", "--duration", "inf"], "--duration"),
        (["load", "--clients", "0"], "0 is below 1"),
        (["load", "--clients", "-1"], "-1"),
        (["load", "--clients", "1.5"], "not a whole number"),
        (["load", "--rate", "0"], "above 0"),
        (["load", "--rate", "fast"], "not a number"),
        (["load", "--rate", "1e9"], "at most 100000"),
        (["load", "--rate", "5", "--arrivals", "evn"], "did you mean even"),
        (["up", "--replicas", "0"], "below 1"),
        (["set"], "KEY=VALUE"),
        (["lab"], "ACTION"),
        (["lab", "run"], "NAME"),
        (["--stac", "x", "status"], "--stac"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("replexplorer: ")
    assert err.count("\n") == 1
    assert expected in err


def test_wrong_usage_with_json_is_an_error_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statsu", "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "error": {"code": "usage", "message": "unknown verb 'statsu'", "hint": "did you mean status?"}
    }
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10", 10.0), ("1.5", 1.5), ("10s", 10.0), ("500ms", 0.5), ("2min", 120.0), ("1e1", 10.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse(["load", "--duration", text]).duration == pytest.approx(seconds)


def test_abbreviated_flags_are_refused() -> None:
    with pytest.raises(UsageError):
        parse(["load", "--dur", "5"])


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_verb_is_its_row_and_its_module(verb: Verb) -> None:
    assert callable(verb.function)
    module = sys.modules[verb.function.__module__]
    assert verb.target == f"{module.__name__.rpartition('.')[2]}:{verb.function.__name__}"
    if verb.arguments is not None:
        assert verb.arguments.__module__ == module.__name__


def test_arguments_are_those_of_the_typed_verb_alone() -> None:
    some = build_parser([VERBS[0]])
    assert some.parse_args([VERBS[0].name, "--json"]).json
    with pytest.raises(UsageError):
        some.parse_args(["load", "--clients", "3"])


def test_every_verb_has_help() -> None:
    parser = build_parser()
    for verb in VERBS:
        with pytest.raises(SystemExit) as stopped:
            parser.parse_args([verb.name, "--help"])
        assert stopped.value.code == 0


def test_without_a_terminal_the_dashboard_names_the_tour(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert (
        err == "replexplorer: the dashboard needs a terminal: without one, run `replexplorer lab run tour`\n"
    )


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["load", "--table-size", "1m"], "table_size", 1_000_000),
        (["load", "--clients", "1k"], "clients", 1000),
        (["load", "--rate", "1.5k"], "rate", 1500.0),
    ],
)
def test_counts_may_be_written_in_thousands_and_millions(words: list[str], name: str, value: float) -> None:
    assert getattr(parse(words), name) == value


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["load", "--table-size", "1q"], "as 1000, 1k or 1m"),
        (["load", "--rate", "fast"], "as 500, 1k or 1.5k"),
        (["load", "--duration", "1h"], "as 10, 10s, 500ms or 2min"),
    ],
)
def test_a_wrong_unit_names_those_that_there_are(words: list[str], right: str) -> None:
    with pytest.raises(UsageError, match=right):
        parse(words)
