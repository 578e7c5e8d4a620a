"""The agent's pure parts: what crosses to it, netem's answers, probe window, document file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from replexplorer.core import wire
from replexplorer.core.wire import Document
from tests.sidecar import load

netem, probe, queueing = load("netem"), load("probe"), load("queueing")
shared = load("shared")
server = load("server")


PRIO = {"kind": "prio", "handle": "1:", "root": True, "packets": 9, "drops": 3, "qlen": 2}
DELAYED = {"kind": "netem", "handle": "40:", "parent": "1:4", "packets": 7, "drops": 3, "qlen": 2}
CUT = {**DELAYED, "handle": "41:", "parent": "1:5", "packets": 0, "drops": 4, "dropped": 4, "qlen": 0}
FOREIGN = {**DELAYED, "handle": "8001:", "parent": "1:3"}
"""As a Debian kernel lists them."""


def test_drops_that_were_asked_are_told_apart_where_the_kernel_does(snapshot: object) -> None:
    assert netem.stats([PRIO, DELAYED, CUT, FOREIGN]) == snapshot
    assert netem.is_ours([PRIO, DELAYED])
    assert not netem.is_ours([{"kind": "noqueue", "handle": "0:"}])


REFUSALS = (
    "Error: Specified qdisc kind is unknown.\n",
    "Error: TC classifier not found.\nWe have an error talking to the kernel\n",
    "RTNETLINK answers: Operation not permitted\n",
    'Cannot find device "eth9"\n',
    "RTNETLINK answers: Network is unreachable\n",
    "Error: Failed to find specified qdisc.\n",
    "Error: Invalid qdisc name: must match existing qdisc.\n",
    "Segmentation fault\n",
    "",
)


def test_a_refusal_is_one_line_that_begins_with_the_diagnosis(snapshot: object) -> None:
    assert {said: netem.refusal(said) for said in REFUSALS} == snapshot


def answered(window: Any, rtt_ms: float, now_s: float, *, generation: int = 1, peer_ms: float = 0.0) -> bool:
    number = window.send(now_s)
    echo = probe.Echo(number, "172.18.0.3", rtt_ms, generation, peer_ms)
    return bool(window.take(echo, now_s + rtt_ms / 1000, 0.0))


PROBED = """\
9, 1, 2, 3, 4, 5
0.2
0.2, 40.4 2 40, 40.4 2 40
40.3 1 40, 40.3 1 40, 40.3 1 40, 40.3 1 40, 40.3 1 40
"""
"""Round trips, each with the generation and the delay of the peer."""


def test_the_median_is_of_the_last_five_probes_after_the_last_change(snapshot: object) -> None:
    """The base is learned bare and kept while delays are in force; below delays from before it is what they
    leave. A change at the peer begins again."""
    told = {}
    for line in PROBED.splitlines():
        window = probe.Window()
        for at, each in enumerate(line.split(", ")):
            rtt_ms, generation, peer_ms = map(float, f"{each} 1 0".split()[:3])
            answered(window, rtt_ms, at, generation=int(generation), peer_ms=peer_ms)
        told[line] = window.measured_ms(), window.answered, round(window.base_ms, 3), window.peer_delay_ms
    assert told == snapshot


def test_what_was_under_way_at_a_change_does_not_count() -> None:
    """At this end, or at the peer, which may answer it before its change or after."""
    window = probe.Window()
    assert answered(window, 1.0, 1.0, generation=5)
    early, late = window.send(1.5), window.send(1.6)
    assert not window.take(probe.Echo(late, "172.18.0.3", 30.0, 6, 40.0), 2.0, 0.0)
    assert window.measured_ms() is None
    assert not window.take(probe.Echo(early, "172.18.0.3", 1.0, 5, 0.0), 2.0, 0.0)
    assert answered(window, 41.0, 2.1, generation=6, peer_ms=40.0)
    under_way = window.send(2.2)
    window.restart(2.2, 40.0)
    assert window.measured_ms() is None
    assert not window.take(probe.Echo(under_way, "172.18.0.3", 1.0, 6, 0.0), 2.3, 40.0)


def test_a_probe_is_lost_past_its_deadline_once_and_found_again_when_it_was_late() -> None:
    window = probe.Window()
    number = window.send(0.0)
    deadline_s = window.deadline_s(100.0)
    assert deadline_s == pytest.approx(1.2)
    assert [window.lost(now_s, 100.0) for now_s in (1.1, 1.3, 1.4)] == [0, 1, 1]
    assert window.take(probe.Echo(number, "172.18.0.3", 1500.0, 1, 0.0), 1.5, 100.0)
    assert window.lost(1.6, 100.0) == 0
    window.send(2.0)
    assert window.lost(20.0, 100.0) == 1
    window.send(90.0)
    assert window.lost(90.0, 100.0) == 1


def test_the_document_is_compared_and_set_and_one_that_cannot_be_written_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is written as version 3 of the agent's protocol wrote it, which may have made the stack."""
    path = tmp_path / "requested.json"
    file = shared.DocumentFile(path)
    assert file.read() == Document(0, {})
    assert file.write(0, {"rtt@db2": 85}) == Document(1, {"rtt@db2": 85})
    assert file.write(0, {"rtt@db2": 1}) is None
    assert json.loads(path.read_text()) == {"version": 1, "content": {"rtt@db2": 85}}
    monkeypatch.setattr(shared.os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        file.write(1, {"a": 2})
    assert shared.DocumentFile(path).read() == Document(1, {"rtt@db2": 85})
    assert sorted(each.name for each in tmp_path.iterdir()) == [".requested.json.lock", "requested.json"]


def test_a_footprint_is_the_sum_of_all_files_and_unknown_where_one_cannot_look(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "mysql").mkdir(parents=True)
    (data / "mysql" / "ibdata1").write_bytes(b"x" * 150_000)
    (data / "loop").symlink_to(tmp_path)
    first = server.footprint([str(data)])
    assert 150_000 <= first < 300_000
    (data / "more").write_bytes(b"x" * 100_000)
    assert server.footprint([str(data)]) >= first + 100_000
    assert server.footprint([str(data), str(tmp_path / "nowhere")]) is None


# -- what crosses: one declaration for both sides


REQUESTS = """\
{"op": "hello", "token": "a1", "version": 1}
{"op": "set_link", "peer": "db2", "address": "172.18.0.3", "shape": {"delay_ms": 42.5, "jitter_ms": 3.0, \
"cut": true, "loss_percent": 1.0, "bandwidth_bps": 20000}}
{"op": "set_flap", "peer": "db2", "address": "172.18.0.3", "flap": {"down_s": 2.0, "up_s": 0.5, \
"since_wall_s": 1800000000.0}}
{"op": "set_flap", "peer": "db2", "address": "172.18.0.3", "flap": null}
{"op": "set_disk", "delay_ms": 2.5, "undo_journal": null, "full": true, "redo_delay_ms": "auto", \
"binlog_delay_ms": 20.0, "jitter_ms": 1.0, "stall_ms": 200.0}
{"op": "write_document", "content": {"rtt@db2": 85}, "expect_version": 3}
{"op": "take", "place": "lease", "wish": {"holder": "tui", "pid": 7, "host": "box", "load": {"rate": 9.5}, \
"selected": "rtt@db2"}, "within_s": 0.0, "anyway": true}
"""


def test_a_request_is_read_and_written_as_its_line(snapshot: object) -> None:
    told = []
    for text in REQUESTS.splitlines():
        line = json.loads(text)
        told.append(wire.read(wire.REQUESTS[line["op"]], line))
        assert wire.written(told[-1]) == line
    assert told == snapshot


MALFORMED = """\
{"op": "set_link", "peer": "db2", "address": "172.18.0.3", "shape": {"delay_ms": "1"}}
{"op": "set_link", "peer": "db2", "address": "172.18.0.3", "shape": {"cut": 1}}
{"op": "set_link", "peer": "db2", "address": "172.18.0.3", "shape": [1]}
{"op": "set_link", "peer": "db2", "address": "172.18.0.3"}
{"op": "set_disk", "redo_delay_ms": "none"}
{"op": "link", "peer": null}
{"op": "write_document", "expect_version": 1, "content": []}
{"op": "take", "place": "throne", "wish": {"holder": "tui", "pid": 1, "host": "a"}}
"""


def test_what_is_no_request_is_refused(snapshot: object) -> None:
    told = {}
    for text in MALFORMED.splitlines():
        line = json.loads(text)
        with pytest.raises(wire.Malformed) as caught:
            wire.read(wire.REQUESTS[line["op"]], line)
        told[text] = str(caught.value)
    assert told == snapshot


HEALTH = wire.Health("db1", 1.5, volumes={"data": wire.Volume(5, 3)}, packets={"packets": 7})


NO_HEALTH: list[dict[str, Any]] = [
    {"node": 1}, {"uptime_s": None}, {"volumes": {"data": 5}}, {"volumes": None}, {"packets": []},
]  # fmt: skip


def test_an_agent_may_tell_more_than_the_app_knows_and_what_is_no_answer_is_refused() -> None:
    told = json.loads(json.dumps(wire.written(HEALTH)))
    assert wire.answer(wire.AskHealth(), told | {"mood": "good"}) == HEALTH
    for changed in NO_HEALTH:
        with pytest.raises(wire.Malformed):
            wire.answer(wire.AskHealth(), told | changed)
