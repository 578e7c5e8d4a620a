"""The app's side of the agent: answers by id, lost bridges, a cancel at every await."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import pytest

from replexplorer.adapters.agent import BridgedAgent
from replexplorer.core import wire
from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.wire import LinkState, Shape
from replexplorer.ports import Bridge
from tests.fakes.clock import cancelled_in_round, until

SHAPE = Shape(42.4, 3.0, loss_percent=1.5, bandwidth_bps=1_000_000)
LINK = LinkState("db2", "nfqueue", "kernel has no netem", "received", SHAPE, 0.2, 0.03, 85.0, 5, 0, 0)


class FakeSidecar:
    """An agent with a document, behind bridges that can be cut, mute or mad."""

    def __init__(self) -> None:
        self.bridges: list[FakeBridge] = []
        self.refuses: StackUnavailable | None = None
        self.mute: set[str] = set()
        self.hello: dict[str, Any] = {"ok": {"version": wire.PROTOCOL_VERSION, "node": "db1"}}
        self.document: dict[str, Any] = {"version": 0, "content": {}}

    async def open_bridge(self, _node: str) -> Bridge:
        await asyncio.sleep(0)
        if self.refuses is not None:
            raise self.refuses
        self.bridges.append(FakeBridge(self))
        return self.bridges[-1]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["op"]:
            case "hello":
                return self.hello
            case "set_link" if request["peer"] == "moon":
                return {"error": {"code": "refused", "message": "iptables-nft: no"}}
            case "link" | "set_link":
                return {"ok": asdict(LINK) | {"peer": request["peer"]}}
            case "document":
                return {"ok": self.document}
            case "write_document":
                self.document = {"version": self.document["version"] + 1, "content": request["content"]}
                return {"ok": {"document": self.document}}
        return {"ok": {"holder": None, "ours": request["op"] == "take"}}


class FakeBridge:
    """Lines to and from the fake; every send and receive yields to the loop first."""

    def __init__(self, sidecar: FakeSidecar) -> None:
        self._sidecar = sidecar
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self.sent: list[str] = []
        self.closed = False

    def send(self, line: str) -> None:
        assert not self.closed
        self.sent.append(line)
        request = json.loads(line)
        if request["op"] not in self._sidecar.mute:
            self.say(json.dumps({"id": request["id"], **self._sidecar.answer(request)}))

    def say(self, line: str) -> None:
        """An answer, or nothing: it is cut."""
        self._lines.put_nowait(line)

    async def lines(self) -> AsyncIterator[str]:
        while line := await self._lines.get():
            yield line

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


@asynccontextmanager
async def agent_of(sidecar: FakeSidecar) -> AsyncIterator[BridgedAgent]:
    """One that leaves nothing behind."""
    agent = BridgedAgent("db1", sidecar.open_bridge)
    yield agent
    await agent.close()
    await until(lambda: len(asyncio.all_tasks()) == 1)
    assert all(bridge.closed for bridge in sidecar.bridges)


@pytest.fixture
def sidecar() -> FakeSidecar:
    return FakeSidecar()


@pytest.fixture
async def agent(sidecar: FakeSidecar) -> AsyncIterator[BridgedAgent]:
    async with agent_of(sidecar) as agent:
        yield agent


async def test_calls_share_one_bridge_and_answers_may_overlap(
    sidecar: FakeSidecar, agent: BridgedAgent
) -> None:
    states = await asyncio.gather(*(agent.link(f"replica{n}") for n in range(20)))
    assert [state.peer for state in states] == [f"replica{n}" for n in range(20)]
    assert await agent.set_link("db2", "10.0.0.2", SHAPE) == LINK
    assert len(sidecar.bridges) == 1


async def test_a_bridge_cut_under_a_write_is_an_error_and_not_a_second_write(
    sidecar: FakeSidecar, agent: BridgedAgent
) -> None:
    await agent.document()
    sidecar.mute.add("write_document")
    call = asyncio.create_task(agent.write_document(0, {"a": 1}))
    await until(lambda: len(sidecar.bridges[0].sent) == 3)
    sidecar.bridges[0].say("")
    with pytest.raises(StackUnavailable, match="was lost"):
        await call
    assert len(sidecar.bridges) == 1


@pytest.mark.parametrize("line", ["", "not json", '{"id": "seven"}', "[]", '{"id": 1, "ok": 3}'])
async def test_a_bridge_found_cut_or_in_doubt_is_opened_again(
    sidecar: FakeSidecar, agent: BridgedAgent, line: str
) -> None:
    await agent.link("db2")
    sidecar.bridges[0].say(line)
    for _ in range(2):
        assert (await agent.link("db2")).peer == "db2"
    assert [bridge.closed for bridge in sidecar.bridges] == [True, False]


HELLOS = """\
{"error": {"code": "version", "message": "the agent speaks version 0"}}
{"id": null, "error": {"code": "absent", "message": "the agent does not answer: Connection refused"}}"""


async def test_what_is_wrong_is_one_line_and_its_bridge_is_given_up(
    sidecar: FakeSidecar, agent: BridgedAgent, monkeypatch: pytest.MonkeyPatch, snapshot: object
) -> None:
    monkeypatch.setattr(wire.AskHealth, "deadline_s", 0.01)
    sidecar.mute.add("health")
    said: list[str] = []

    async def fails(call: Awaitable[object]) -> None:
        with pytest.raises(ReplexplorerError) as caught:
            await call
        said.append(f"{type(caught.value).__name__}: {caught.value}")

    await fails(agent.set_link("moon", "10.0.0.9", SHAPE))
    assert not sidecar.bridges[0].closed
    await fails(agent.health())
    for line in HELLOS.splitlines():
        sidecar.hello = json.loads(line)
        await fails(agent.link("db2"))
        assert sidecar.bridges[-1].closed
    sidecar.refuses = StackUnavailable("the sidecar of db1 is down", "run `replexplorer up`")
    await fails(agent.link("db2"))
    assert (said, len(sidecar.bridges)) == (snapshot, 3)


Call = Callable[[BridgedAgent], Awaitable[object]]
CALLS: dict[str, Call] = {
    "link": lambda agent: agent.link("db2"),
    "write": lambda agent: agent.write_document(0, {"a": 1}),
    "lease": lambda agent: agent.take_lease("tui"),
    "close": BridgedAgent.close,
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
        async with agent_of(sidecar) as agent:
            if connected:
                await agent.lease()
            is_done = await cancelled_in_round(ended(CALLS[op], agent), number)
            assert (await agent.link("db2")).peer == "db2"
            document = await agent.document()
            assert (document.version, document.content) in ((0, {}), (1, {"a": 1}))
        if len(sidecar.bridges) == 1:
            assert all(json.loads(line) for line in sidecar.bridges[0].sent)
        if is_done and number > 2:
            return
    pytest.fail("the call never came to its end")
