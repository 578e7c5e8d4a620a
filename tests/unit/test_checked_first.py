"""What is wrong on any stack is refused before one is looked for."""

from __future__ import annotations

import pytest

from replexplorer.cli import main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sweep", "rt=0,10"), "unknown knob 'rt': did you mean rtt?"),
        (("sweep", "rtt=0,99999"), "rtt=99999 is out of range"),
        (("sweep", "rtt"), "'rtt' is not KEY=V1,V2,..."),
        (("sweep", "scene=none,bth"), "unknown scene 'bth': did you mean both?"),
        (("sweep", "rtt@replca=0,10"), "no node 'replca' in this stack: did you mean rtt@replica?"),
        (("sweep", "rtt=0,10", "foo=1"), "unknown knob 'foo'"),
        (("sweep", "rtt=0,10", "--report", "/proc"), "cannot write /proc"),
        (("lab", "run", "wan-isert"), "unknown lab 'wan-isert': did you mean wan-insert"),
        (("lab", "run", "tour", "--report", "/proc"), "cannot write /proc"),
        (("lab", "run", "systems-78ms", "--beside"), "--beside: systems-78ms makes stacks of its own"),
        (("set", "rt=5"), "unknown knob 'rt'"),
        (("predict", "rt=5"), "unknown knob 'rt'"),
        (("load", "--workload", "nope"), "workload=nope is not known"),
        (("load", "--table-size", "999999999999"), "must be at least 1 and at most 100000000"),
        (("load", "--rate", "1e-5"), "rate=0.000010 is out of range"),
    ],
)
def test_wrong_words_need_no_stack(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert main(["--stack", "never-was", *words]) == 2
    assert told in capsys.readouterr().err
