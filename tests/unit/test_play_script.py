"""A play is read as a whole: what each line means, each mistake in one line, and when a condition holds."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from replexplorer.core.fault import Fault
from replexplorer.core.history.series import Recent
from replexplorer.core.knobs.names import KnobName, KnobView
from replexplorer.core.server.protection import ProtectionState
from replexplorer.formats.play_script import PlayMoment, parse_conditions, read_play
from tests.known import refused
from tests.ticks import make_tick

PLAY = """\
# What an acknowledgement across 85 ms costs.
title Semi-sync across an ocean

caption Nobody waits for the replica yet
wait 1.5s
key s
until protected within 20s
mark semi-sync is on
key slash
type r t
key enter shift+right ? s S / 5 space Enter shift+ctrl+p f12
until tps < 20 and not blocked
caption
"""


def test_each_line_is_one_step_in_the_order_of_the_file(snapshot: object) -> None:
    script = read_play(PLAY, "ocean.play")
    steps = [(line.number, line.word, line.rest, line.length_s, line.keys) for line in script.lines]
    assert [script.title, *steps] == snapshot


MISTAKES = """\
kye s
frobnicate
key
key ennter
key ctrl+ctrl+p
type
wait
wait long
wait 2 weeks
until
until within 3s
until protected within soon
until protectd
until tsp < 20
until tps < fast
until tps < 20ms
until p99 < 20 rows
until semi_sync > on
until semi_sync = maybe
until protected and
until at noon
mark
start
set
set rtt
set rtd=85ms
set rtt=much
fault killl
clear nothing@db1
reset now
title too late
"""


def test_a_mistake_is_one_line_with_file_line_what_was_read_and_what_is_right(snapshot: object) -> None:
    mistakes = [*MISTAKES.splitlines(), f"caption {'x' * 201}"]
    assert {each: refused(read_play, f"key s\n\n{each}\n", "ocean.play") for each in mistakes} == snapshot


def test_a_file_without_a_step_is_refused() -> None:
    for text in ("", "\n\n", "# nothing but words\n", "title A play without a step\n"):
        assert "no step in it" in refused(read_play, text, "empty.play")


def test_what_a_terminal_obeys_is_shown_and_not_sent() -> None:
    assert "\x1b" not in refused(read_play, "key \x1b[2J\n", "evil.play")
    assert "a text with control characters" in refused(read_play, "type a\x1bb\n", "evil.play")


RECORDED_ONLY = ("until end", "until not end", "until protected and end")
LIVE_ONLY = ("set rtt=1ms", "fault kill", "clear", "reset", "lab wan-insert quick", "drill kill-primary")


def test_the_line_that_only_a_recording_or_only_live_servers_can_do_is_known() -> None:
    for line in (*RECORDED_ONLY, *LIVE_ONLY, "until off"):
        script = read_play(f"wait 1s\n{line}\n", "x.play")
        assert script.unfit(live=True) == (script.lines[1] if line in RECORDED_ONLY else None)
        assert script.unfit(live=False) == (script.lines[1] if line in LIVE_ONLY else None)


def test_the_play_in_the_documentation_is_one_and_its_failure_is_of_its_own_line() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "plays.md").read_text(encoding="utf-8")
    script = read_play(page.split("```")[1], "ocean.play")
    assert script.title == "Semi-sync across an ocean"
    shown = re.search(r"ocean.play, line (\d+): `(until tps.*?)`", page)
    assert shown is not None
    [line] = [each for each in script.lines if each.text == shown[2]]
    assert line.number == int(shown[1]) + 1, "the block begins behind its fence"


RTT = KnobName("rtt", "db2")


def seen(text: str, at: PlayMoment) -> str:
    """`so`, or what is so instead."""
    return "; ".join(each.seen(at) for each in parse_conditions(text) if not each.holds(at)) or "so"


RECENT = Recent(length_s=1.0, n=528, tps=528.0, p50_ms=2.0, p95_ms=5.0, p99_ms=9.0, max_ms=20.0)
PROTECTED = PlayMoment(make_tick(12.0), RECENT, 12.0, newest_mark=1, marks_since=0)
"""A protected stack at 85 ms and 528 TPS, 12 s after its first tick, one mark so far."""


CONDITIONS = """\
protected
not protected
not blocked
blocked
OFF
tps > 500
tps >= 528 tps
tps < 20
p99 < 10ms
p99 > 80ms
max >= 20
max > 500us
max > 1s
rtt > 85
rtt != 85
rtt = 85ms
rtt@db2 = 85
rtt@replica = 85
rtt@db9 = 85
not rtt@db9 = 1
process_dies = 0
power_cut > 300
power-cut > 300
source_lost < 8
faults = 0
settled
mark
mark 1
mark 2
at 12s
at 13s
at 0.5min
end
protected and tps > 500
protected and tps < 500
blocked and rtt@db9 = 1
"""


def test_a_condition_is_judged_by_the_moment_and_what_is_so_instead_is_said(snapshot: object) -> None:
    assert {each: seen(each, PROTECTED) for each in CONDITIONS.splitlines()} == snapshot
    for state in ProtectionState:
        assert seen(str(state), replace(PROTECTED, tick=make_tick(1.0, state=state))) == "so"


TURNING = {**make_tick(12.0).knobs, RTT: KnobView(RTT, 85.0, 20.0)}
FAULT = Fault(1, "kill", None, "db1", 0.0, None, "tui (pid 7)", {})
MOMENTS = {
    "nothing is known": replace(PROTECTED, recent=Recent()),
    "a mark is among the commits": replace(PROTECTED, recent=replace(RECENT, is_mixed=True)),
    "few commits": replace(PROTECTED, recent=replace(RECENT, n=30)),
    "a knob is not in effect yet": replace(PROTECTED, tick=replace(make_tick(12.0), knobs=TURNING)),
    "a fault is in force": replace(PROTECTED, tick=replace(make_tick(12.0), faults=(FAULT,))),
}
ASKED = "tps < 600, tps > 600, not tps < 600, p95 < 10, p99 < 10, not p99 < 10, settled, rtt = 85, faults > 0"


def test_what_is_not_known_holds_neither_a_condition_nor_its_opposite(snapshot: object) -> None:
    """A percentile with too few commits behind it holds nothing."""
    told = {}
    for case, moment in MOMENTS.items():
        told[case] = {each: seen(each, moment) for each in ASKED.split(", ")}
    assert told == snapshot
