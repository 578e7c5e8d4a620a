"""The protocol's shapes, and that the agent's own code speaks them."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from replexplorer.formats import agent_protocol as protocol
from tests.sidecar import load

SET_LINK = {"op": "set_link", "peer": "replica", "address": "172.18.0.3", "delay_ms": 42.5, "jitter_ms": 3.0,
            "loss_percent": 1.0, "bandwidth_bps": 20_000_000, "cut": True}  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        {"op": "hello", "version": 1},
        SET_LINK,
        {"op": "link", "peer": "replica", "anew": True},
        {"op": "disk", "probe": True},
        {"op": "set_disk", "delay_ms": 2.5},
        {"op": "watch", "peer": "replica", "address": "172.18.0.3"},
        {"op": "write_document", "expect_version": 3, "content": {"rtt@replica": 85}},
        {"op": "take_lease", "holder": "tui", "pid": 7, "host": "box", "load": {"clients": 3, "rate": 9.5}},
        {"op": "health"},
    ],
)
def test_a_request_survives_its_line(line: dict[str, object]) -> None:
    request = protocol.REQUEST.validate_json(json.dumps(line))
    assert json.loads(protocol.REQUEST.dump_json(request)) == line


@pytest.mark.parametrize(
    "line",
    [
        {"op": "reboot"},
        SET_LINK | {"delay_ms": -1},
        SET_LINK | {"colour": "red"},
        {"op": "set_link", "peer": "replica", "delay_ms": 1},
        {"op": "set_disk", "delay_ms": -1},
        {"op": "link", "peer": "replica", "jitter_ms": 3},
        {"op": "write_document", "expect_version": -1, "content": {}},
    ],
)
def test_what_is_no_request_is_refused(line: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        protocol.REQUEST.validate_python(line)


def test_an_agent_may_tell_more_than_the_app_knows() -> None:
    answer = protocol.Answer.model_validate(
        {"id": 1, "ok": {"version": 1, "node": "primary", "mood": "good"}}
    )
    assert protocol.Welcome.model_validate(answer.ok).node == "primary"


def test_both_sides_have_one_version_and_the_same_requests() -> None:
    server = load("server")
    assert server.PROTOCOL_VERSION == protocol.PROTOCOL_VERSION
    ops = set(server.Server("primary", None, None, None)._ops)
    schema = protocol.REQUEST.json_schema()
    assert ops == set(schema["discriminator"]["mapping"])
