"""What is wrong on any stack is refused in one line before one is looked for."""

from __future__ import annotations

import json

import pytest

from replexplorer.cli import main
from replexplorer.core.errors import UsageError


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("statsu", "unknown verb 'statsu': did you mean status?"),
        ("frobnicate", "known: up, down"),
        ("scene aply x", "did you mean apply?"),
        ("set", "KEY=VALUE"),
        ("set rt=5", "unknown knob 'rt'"),
        ("predict rt=5", "unknown knob 'rt'"),
        ("load --duration 0", "--duration"),
        ("load --duration nan", "--duration"),
        ("load --clients 0", "at least 1 and at most 1024"),
        ("load --clients -1", "-1"),
        ("load --clients 1.5", "not a whole number"),
        ("load --rate 0", "above 0"),
        ("load --rate fast", "not a number"),
        ("load --rate 1e9", "at most 100000"),
        ("load --rate 1e-5", "rate=0.000010 is out of range"),
        ("load --rate 5 --arrivals evn", "did you mean even"),
        ("load --workload nope", "workload=nope is not known"),
        ("load --table-size 999999999999", "must be at least 1 and at most 100000000"),
        ("up --replicas 0", "at least 1"),
        ("up --image x\udc9b", r"'x\udc9b' is not UTF-8 text: arguments are text in UTF-8"),
        ("fault inject kill=3", "kill takes no value, and got '3': kill"),
        ("fault inject flap=0/0@db2", "flap: '0/0' is out of range"),
        ("fault clear bogus@db1", "unknown fault 'bogus'"),
        ("sweep rt=0,10", "unknown knob 'rt': did you mean rtt?"),
        ("sweep rtt=0,99999", "rtt=99999 is out of range"),
        ("sweep rtt", "'rtt' is not KEY=V1,V2,..."),
        ("sweep scene=none,bth", "unknown scene 'bth': did you mean both?"),
        ("sweep rtt@replca=0,10", "no node 'replca' in this stack: did you mean rtt@replica?"),
        ("sweep rtt=0,10 foo=1", "unknown knob 'foo'"),
        ("sweep rtt=0,10 --report /proc", "cannot write /proc"),
        ("lab", "ACTION"),
        ("lab run", "NAME"),
        ("lab run wan-isert", "unknown lab 'wan-isert': did you mean wan-insert"),
        ("lab run tour --report /proc", "cannot write /proc"),
        ("lab run systems-78ms --beside", "--beside: systems-78ms makes stacks of its own"),
        ("compare x x", "x is named twice"),
        ("compare x b.rxs", "x and b.rxs are a stack and a recording"),
        ("compare a.rxs b.rxs --turns 2", "a recording is compared as it is"),
        ("compare a.rxs b.rxs", "no recording a.rxs"),
        ("compare x y --turns 0", "0"),
        ("compare x y --duration 0", "0"),
    ],
)
def test_wrong_words_need_no_stack(capsys: pytest.CaptureFixture[str], words: str, told: str) -> None:
    assert main(["--stack", "never-was", *words.split(), "--json"]) == UsageError.exit_code
    out, err = capsys.readouterr()
    assert err.startswith("replexplorer: ")
    assert (err.count("\n"), told in err) == (1, True), err
    assert json.loads(out)["error"]["code"] == "usage"
