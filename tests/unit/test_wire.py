"""What crosses to the sidecar: one declaration for both sides."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from replexplorer.core import wire

SET_LINK: dict[str, object] = {
    "op": "set_link", "peer": "db2", "address": "172.18.0.3",
    "shape": asdict(wire.Shape(42.5, 3.0, cut=True, loss_percent=1.0, bandwidth_bps=20_000)),
}  # fmt: skip


LEASE = wire.Lease("tui", 7, "box", {"rate": 9.5}, "rtt@db2")


def test_a_request_survives_its_line() -> None:
    for asked in (
        wire.Hello("a1", 1),
        wire.SetLink("db2", "172.18.0.3", wire.Shape(42.5, 3.0, True, 1.0, 20_000)),
        wire.SetFlap("db2", "172.18.0.3", wire.Flap(2.0, 0.5, 1.8e9)),
        wire.SetFlap("db2", "172.18.0.3", None),
        wire.SetDisk(2.5, None, True, "auto", 20.0, 1.0, 200.0),
        wire.WriteDocument({"rtt@db2": 85}, 3),
        wire.Take("lease", LEASE, 0.0, True),
    ):
        line = json.loads(json.dumps(wire.written(asked)))
        assert wire.read(wire.REQUESTS[line["op"]], line) == asked


def test_what_is_not_named_of_a_shape_is_plain() -> None:
    line = {"peer": "db2", "address": "172.18.0.3", "shape": {"loss_percent": 5}}
    assert wire.read(wire.SetLink, line).shape == wire.Shape(loss_percent=5.0)


MALFORMED: list[tuple[dict[str, object], str]] = [
    (SET_LINK | {"shape": {"delay_ms": "1"}}, "'1' is no float"),
    (SET_LINK | {"shape": {"cut": 1}}, "1 is no bool"),
    (SET_LINK | {"shape": [1]}, r"\[1\] is no Shape"),
    ({"op": "set_link", "peer": "db2", "address": "172.18.0.3"}, "'shape'"),
    ({"op": "set_disk", "redo_delay_ms": "none"}, "'none' is no"),
    ({"op": "link", "peer": None}, "None is no str"),
    ({"op": "write_document", "expect_version": 1, "content": []}, r"\[\] is no Mapping"),
    ({"op": "take", "place": "throne", "wish": {"holder": "tui", "pid": 1, "host": "a"}}, "'throne' is no"),
]


def test_what_is_no_request_is_refused() -> None:
    for line, why in MALFORMED:
        with pytest.raises(wire.Malformed, match=why):
            wire.read(wire.REQUESTS[str(line["op"])], line)


HEALTH = wire.Health("db1", 1.5, volumes={"data": wire.Volume(5, 3)}, packets={"packets": 7})


def test_an_agent_may_tell_more_than_the_app_knows() -> None:
    told = json.loads(json.dumps(wire.written(HEALTH))) | {"mood": "good"}
    assert wire.answer(wire.AskHealth(), told) == HEALTH


def test_what_is_no_answer_is_refused() -> None:
    for name, value in (
        ("node", 1), ("uptime_s", None), ("volumes", {"data": 5}), ("volumes", None), ("packets", []),
    ):  # fmt: skip
        with pytest.raises(wire.Malformed):
            wire.answer(wire.AskHealth(), wire.written(HEALTH) | {name: value})
