"""What an agent reads from `tc` about the bands that are there; the texts are a Debian kernel's own."""

from __future__ import annotations

import pytest

from tests.sidecar import load

netem = load("netem")

PRIO = {"kind": "prio", "handle": "1:", "root": True, "packets": 9, "drops": 3, "qlen": 2}
DELAYED = {
    "kind": "netem", "handle": "40:", "parent": "1:4", "packets": 7, "drops": 3, "qlen": 2,
    "options": {
        "limit": 1698, "delay": {"delay": 0.04245, "jitter": 0.007071, "correlation": 0},
        "loss-random": {"loss": 0.015, "correlation": 0}, "rate": {"rate": 12500000000, "packetoverhead": 0},
    },
}  # fmt: skip
CUT = {
    "kind": "netem", "handle": "41:", "parent": "1:5", "packets": 0, "drops": 4, "dropped": 4, "qlen": 0,
    "options": {"limit": 10000, "loss-random": {"loss": 1, "correlation": 0}, "rate": {"rate": 250000}},
}  # fmt: skip
FOREIGN = {"kind": "netem", "handle": "8001:", "parent": "1:3"}


def test_drops_that_were_asked_are_told_apart_where_the_kernel_does() -> None:
    text = [PRIO, DELAYED, CUT]
    assert netem.stats(text) == {
        0: {"packets": 7, "dropped": 3, "held": 2},
        1: {"packets": 0, "dropped": 0, "held": 0, "lost": 4},
    }


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("Error: Specified qdisc kind is unknown.\n", "kernel has no netem: Specified qdisc kind is unknown"),
        (
            "Error: TC classifier not found.\nWe have an error talking to the kernel\n",
            "kernel has no netem: TC classifier not found",
        ),
        (
            "RTNETLINK answers: Operation not permitted\n",
            "no NET_ADMIN: RTNETLINK answers: Operation not permitted",
        ),
        ('Cannot find device "eth9"\n', 'no such interface: Cannot find device "eth9"'),
        (
            "RTNETLINK answers: Network is unreachable\n",
            "no such interface: RTNETLINK answers: Network is unreachable",
        ),
        (
            "Error: Failed to find specified qdisc.\n",
            "the bands were taken away: Failed to find specified qdisc",
        ),
        (
            "Error: Invalid qdisc name: must match existing qdisc.\n",
            "somebody else's discipline is in the way: Invalid qdisc name: must match existing qdisc",
        ),
        ("Segmentation fault\n", "netem does not work: Segmentation fault"),
        ("", "netem does not work: it said nothing"),
    ],
)
def test_a_refusal_is_one_line_that_begins_with_the_diagnosis(said: str, line: str) -> None:
    assert netem.refusal(said) == line
