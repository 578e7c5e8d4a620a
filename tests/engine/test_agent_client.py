"""The app's side of the agent: answers by id, lost bridges, a cancel at every await."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import asdict
from typing import Any

import pytest

from replexplorer.adapters.agent import BridgedAgent
from replexplorer.core import wire
from replexplorer.core.errors import MissingPiece, StackUnavailable
from replexplorer.core.wire import LinkState, Shape
from replexplorer.ports import Bridge
from tests.fakes.clock import cancelled_in_round, until

SHAPE = Shape(42.4, 3.0, loss_percent=1.5, bandwidth_bps=1_000_000)
LINK = LinkState("db2", "nfqueue", "kernel has no netem", "received", SHAPE, 0.2, 0.03, 85.0, 5, 0, 0)


class FakeSidecar:
    """An agent with a document, behind bridges that can be cut, mute or mad."""

    def __init__(self, node: str = "db1") -> None:
        self.node = node
        self.version = wire.PROTOCOL_VERSION
        self.bridges: list[FakeBridge] = []
        self.refuse_bridges: StackUnavailable | None = None
        self.mute: set[str] = set()
        self.document: tuple[int, dict[str, Any]] = (0, {})

    async def open_bridge(self, _node: str) -> Bridge:
        await asyncio.sleep(0)
        if self.refuse_bridges is not None:
            raise self.refuse_bridges
        bridge = FakeBridge(self)
        self.bridges.append(bridge)
        return bridge

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        op = request["op"]
        if op == "hello":
            if request["version"] != self.version:
                return {"error": {"code": "version", "message": f"the agent speaks version {self.version}"}}
            return {"ok": {"version": self.version, "node": self.node}}
        if op == "set_link" and request["peer"] == "moon":
            return {"error": {"code": "refused", "message": "iptables-nft: no"}}
        if op in ("link", "set_link"):
            return {"ok": asdict(LINK) | {"peer": request["peer"]}}
        if op == "document":
            return {"ok": {"version": self.document[0], "content": self.document[1]}}
        if op == "write_document":
            self.document = (self.document[0] + 1, request["content"])
            return {"ok": {"document": {"version": self.document[0], "content": self.document[1]}}}
        return {"ok": {"holder": None, "ours": op == "take"}}


class FakeBridge:
    """Lines to and from the fake; every send and receive yields to the loop first."""

    def __init__(self, sidecar: FakeSidecar) -> None:
        self._sidecar = sidecar
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self.sent: list[str] = []
        self.closed = False

    def send(self, line: str) -> None:
        if self.closed:
            raise StackUnavailable("the agent is gone")
        self.sent.append(line)
        request = json.loads(line)
        if request["op"] not in self._sidecar.mute:
            self.say({"id": request["id"], **self._sidecar.answer(request)})

    def say(self, message: object) -> None:
        self._lines.put_nowait(message if isinstance(message, str) else json.dumps(message))

    def cut(self) -> None:
        self._lines.put_nowait(None)

    async def lines(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            yield line

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


@pytest.fixture
def sidecar() -> FakeSidecar:
    return FakeSidecar()


async def no_task_is_left() -> None:
    await until(lambda: len(asyncio.all_tasks()) == 1)


@pytest.fixture
async def agent(sidecar: FakeSidecar) -> AsyncIterator[BridgedAgent]:
    """One that leaves nothing behind."""
    agent = BridgedAgent("db1", sidecar.open_bridge)
    yield agent
    await agent.close()
    await no_task_is_left()
    assert all(bridge.closed for bridge in sidecar.bridges)


async def test_calls_share_one_bridge_and_answers_may_overlap(
    sidecar: FakeSidecar, agent: BridgedAgent
) -> None:
    states = await asyncio.gather(*(agent.link(f"replica{n}") for n in range(20)))
    assert [state.peer for state in states] == [f"replica{n}" for n in range(20)]
    assert await agent.set_link("db2", "10.0.0.2", SHAPE) == LINK
    assert len(sidecar.bridges) == 1
    await agent.close()
    assert sidecar.bridges[0].closed
    await no_task_is_left()


async def test_a_bridge_cut_under_a_write_is_an_error_and_not_a_second_write(
    sidecar: FakeSidecar, agent: BridgedAgent
) -> None:
    await agent.document()
    sidecar.mute.add("write_document")
    call = asyncio.create_task(agent.write_document(0, {"a": 1}))
    await until(lambda: len(sidecar.bridges[0].sent) == 3)
    sidecar.bridges[0].cut()
    with pytest.raises(StackUnavailable, match="was lost"):
        await call
    assert len(sidecar.bridges) == 1


@pytest.mark.parametrize("line", [None, "not json", '{"id": "seven"}', "[]", '{"id": 1, "ok": 3}'])
async def test_a_bridge_found_cut_or_in_doubt_is_opened_again(
    sidecar: FakeSidecar, agent: BridgedAgent, line: str | None
) -> None:
    await agent.link("db2")
    sidecar.bridges[0].say(line) if line else sidecar.bridges[0].cut()
    for _ in range(2):
        assert (await agent.link("db2")).peer == "db2"
    assert [bridge.closed for bridge in sidecar.bridges] == [True, False]


async def test_no_agent_behind_the_bridge_is_one_line(sidecar: FakeSidecar, agent: BridgedAgent) -> None:
    sidecar.mute.add("hello")
    call = asyncio.create_task(agent.link("db2"))
    await until(lambda: bool(sidecar.bridges))
    error = {"code": "absent", "message": "the agent does not answer: Connection refused"}
    sidecar.bridges[0].say({"id": None, "error": error})
    with pytest.raises(StackUnavailable, match="no agent on db1, the agent does not answer"):
        await call
    assert sidecar.bridges[0].closed


async def test_errors_have_their_class_and_one_line(sidecar: FakeSidecar, agent: BridgedAgent) -> None:
    with pytest.raises(MissingPiece, match="iptables-nft: no"):
        await agent.set_link("moon", "10.0.0.9", Shape(1))
    await agent.close()
    sidecar.version = wire.PROTOCOL_VERSION + 1
    with pytest.raises(StackUnavailable, match="another version"):
        await agent.link("db2")
    sidecar.version = wire.PROTOCOL_VERSION
    sidecar.refuse_bridges = StackUnavailable("the sidecar of db1 is down", "run `replexplorer up`")
    with pytest.raises(StackUnavailable, match="is down"):
        await agent.link("db2")
    assert all(bridge.closed for bridge in sidecar.bridges)


async def test_a_mute_agent_is_given_up_and_its_bridge_too(
    sidecar: FakeSidecar, agent: BridgedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire.AskHealth, "deadline_s", 0.01)
    sidecar.mute.add("health")
    with pytest.raises(StackUnavailable, match="did not answer within"):
        await agent.health()
    await agent.link("db2")
    assert len(sidecar.bridges) == 2


Call = Callable[[BridgedAgent], Coroutine[Any, Any, object]]
CALLS: dict[str, Call] = {
    "link": lambda agent: agent.link("db2"),
    "write": lambda agent: agent.write_document(0, {"a": 1}),
    "lease": lambda agent: agent.take_lease("tui"),
    "close": lambda agent: agent.close(),
}


async def ended(call: Call, agent: BridgedAgent) -> bool:
    """Whether it came to its end."""
    await call(agent)
    return True


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("connected", [False, True])
async def test_a_cancel_in_every_round_leaves_a_usable_agent_and_no_half_line(
    op: str, connected: bool
) -> None:
    for number in range(1, 60):
        sidecar = FakeSidecar()
        agent = BridgedAgent("db1", sidecar.open_bridge)
        if connected:
            await agent.lease()
        is_done = await cancelled_in_round(ended(CALLS[op], agent), number)
        assert (await agent.link("db2")).peer == "db2"
        document = await agent.document()
        assert document.version in (0, 1)
        assert document.content == ({"a": 1} if document.version else {})
        await agent.close()
        await no_task_is_left()
        for bridge in sidecar.bridges:
            assert bridge.closed
            if len(sidecar.bridges) == 1:
                assert all(json.loads(line) for line in bridge.sent)
        if is_done and number > 2:
            return
    pytest.fail("the call never came to its end")
