"""Lease, turn and experiment with real agents: processes on one directory, killed and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from replexplorer.adapters.agent import BridgedAgent
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.wire import COMING_BACK_S, Document
from replexplorer.ports import Bridge
from tests.known import known
from tests.sidecar import DIRECTORY, load
from tests.waiting import until

shared = load("shared")

GRACE_S = 1.0
"""The agents' in these tests."""
AGENT = """
import asyncio, pathlib, sys
sys.path.insert(0, sys.argv[1])
import server, shared
shared.GRACE_S = float(sys.argv[4])
async def main(node, directory):
    places, document = shared.Places(directory / "claims"), shared.DocumentFile(directory / "requested.json")
    agent = server.Server(node, None, None, document, places)
    await asyncio.start_unix_server(agent.serve, directory / node)
    print(flush=True)
    await asyncio.Event().wait()
asyncio.run(main(sys.argv[2], pathlib.Path(sys.argv[3])))
"""


class SocketBridge:
    """`ports.Bridge` straight to an agent's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, line: str) -> None:
        if self._writer.is_closing():
            raise StackUnavailable("the agent is gone")
        self._writer.write(line.encode() + b"\n")

    async def lines(self) -> AsyncIterator[str]:
        with contextlib.suppress(OSError):
            while line := await self._reader.readline():
                yield line.decode()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Agents:
    """Agents of one stack, and apps that reach them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self._bridged: list[BridgedAgent] = []

    async def start(self, node: str) -> None:
        arguments = (str(DIRECTORY), node, str(self.directory), str(GRACE_S))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", AGENT, *arguments, stdout=asyncio.subprocess.PIPE
        )
        self.processes[node] = process
        assert process.stdout is not None
        assert await process.stdout.readline() == b"\n"

    async def open_bridge(self, node: str) -> Bridge:
        try:
            return SocketBridge(*await asyncio.open_unix_connection(self.directory / node))
        except OSError:
            raise StackUnavailable(f"the sidecar of {node} is down") from None

    def app(self, node: str, token: str) -> BridgedAgent:
        agent = BridgedAgent(node, self.open_bridge, token=token)
        self._bridged.append(agent)
        return agent

    async def kill(self, node: str) -> None:
        self.processes[node].kill()
        await self.processes[node].wait()

    async def close(self) -> None:
        for agent in self._bridged:
            await agent.close()
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@pytest.fixture
async def agents(tmp_path: Path) -> AsyncIterator[Agents]:
    stack = Agents(tmp_path)
    try:
        await asyncio.gather(stack.start("a"), stack.start("b"))
        yield stack
    finally:
        await stack.close()


async def test_what_one_app_has_no_other_gets_whichever_agent_it_asks(agents: Agents) -> None:
    mine, mine_too = agents.app("a", "mine"), agents.app("b", "mine")
    others = agents.app("b", "other"), agents.app("a", "other")
    assert await mine.take_lease("tui", load={"clients": 3}) is None
    assert await mine.begin_experiment("lab", "tour", "tui") is None
    for other in others:
        holder = known(await other.take_lease("load"))
        assert (holder.holder, holder.pid, holder.load) == ("tui", os.getpid(), {"clients": 3})
        assert await other.lease() == holder
        assert await other.take_turn("set", within_s=1) is not None
        assert await other.begin_experiment("sweep", "rtt=1", "sweep") is not None
        assert await other.take_turn("set", within_s=1, anyway=True) is None
        await other.leave("turn")
    assert await mine_too.take_turn("tui", within_s=1) is None
    assert await mine.take_lease("tui", load={"clients": 4}) is None
    assert known(await others[0].lease()).load == {"clients": 4}
    await mine_too.leave("turn")
    await mine.leave("lease")
    await mine.leave("experiment")
    assert await others[0].take_lease("load") is None
    assert await others[1].take_turn("load", within_s=1) is None


async def test_two_never_have_the_turn_at_once_and_no_value_that_is_written_is_lost(agents: Agents) -> None:
    inside = 0

    async def use(number: int) -> None:
        nonlocal inside
        app = agents.app("ab"[number % 2], str(number))
        for at in range(6):
            assert await app.take_turn(str(number), within_s=30) is None
            inside += 1
            await asyncio.sleep(0.001)
            assert inside == 1
            inside -= 1
            await app.leave("turn")
            document, written = await app.document(), None
            while written is None:
                content = {**document.content, f"{number}.{at}": at}
                written = await app.write_document(document.version, content)
                document = await app.document()

    await asyncio.gather(*(use(number) for number in range(6)))
    document: Document = await agents.app("a", "reader").document()
    assert document.version == len(document.content) == 36


async def test_who_waits_for_a_turn_and_goes_leaves_its_place_and_a_lease_ends_no_waiting(
    agents: Agents,
) -> None:
    first, gone, waits = agents.app("a", "first"), agents.app("b", "gone"), agents.app("b", "waits")
    assert await first.take_turn("first", within_s=1) is None
    waiting = [asyncio.create_task(app.take_turn("waits", within_s=60)) for app in (gone, waits)]
    await asyncio.sleep(0.2)
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    await gone.leave("turn")
    assert await waits.take_lease("tui") is None
    await asyncio.sleep(0.2)
    await first.leave("turn")
    assert await waiting[1] is None


async def test_who_holds_something_through_an_agent_that_is_killed_takes_it_through_another(
    agents: Agents,
) -> None:
    mine, mine_too, other = agents.app("a", "mine"), agents.app("b", "mine"), agents.app("b", "other")
    assert await mine.take_lease("tui") is None
    assert await mine.take_turn("tui", within_s=1) is None
    await agents.kill("a")
    sneaking = asyncio.create_task(other.take_lease("load"))
    await asyncio.sleep(GRACE_S / 3)
    assert await mine_too.take_lease("tui") is None
    assert await mine_too.take_turn("tui", within_s=0) is None
    holder = known(await sneaking)
    assert holder.holder == "tui"
    await asyncio.sleep(GRACE_S * 1.5)
    assert await other.lease() == holder
    assert await other.take_turn("load", within_s=0) is not None


@pytest.mark.parametrize("killed", ["app", "agent"])
async def test_what_a_dead_app_held_is_free_after_the_grace_and_not_before(
    agents: Agents, killed: str
) -> None:
    assert shared.GRACE_S < COMING_BACK_S, "a taker waits longer than an app has to come back"
    dead, other = agents.app("a", "dead"), agents.app("b", "other")
    assert await dead.take_lease("load") is None
    assert await dead.begin_experiment("lab", "tour", "lab tour") is None
    await (dead.close() if killed == "app" else agents.kill("a"))
    began_s = time.monotonic()
    assert await other.lease() is not None
    assert await other.take_turn("set", within_s=0) is not None
    await until(lambda: other.take_lease("load"), "the lease is free", holds=lambda holder: holder is None)
    assert time.monotonic() - began_s > GRACE_S * 0.7
    assert await other.begin_experiment("lab", "tour", "lab tour") is None


def test_what_is_no_holder_or_from_a_machine_that_went_down_or_cannot_be_written_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = shared.Places(tmp_path)
    for written in (None, "{", json.dumps({"token": "t", "wish": {}, "lost_s": 1.0})):
        if written is not None:
            (tmp_path / "lease").write_text(written)
        assert mine.holder("lease") is None
    with monkeypatch.context() as patched:
        patched.setattr(shared.os, "pwrite", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            mine.take("lease", object(), "mine", {})
    mine.take("lease", object(), "mine", {"holder": "tui"})
    assert shared.Places(tmp_path).holder("lease") == shared.Holder("mine", {"holder": "tui"})
