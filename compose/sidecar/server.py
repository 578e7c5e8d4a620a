"""The agent's server: JSON lines on a Unix socket, many bridges at once.

A request is `{"id": 7, "op": "link", ...}`; its answer `{"id": 7, "ok": {...}}` or
`{"id": 7, "error": {"code", "message"}}`. Document, lease, turn and experiment are the stack's: they lie on
the volume that all agents share, so each agent takes and answers them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import wire
from claims import EXPERIMENT, LEASE, LOOK_EVERY_S, TURN, Claim, Claims
from disk import Disk
from document import DocumentFile
from footprint import Footprint
from links import Links
from tool import Refused
from wire import PROTOCOL_VERSION, Health, Malformed, Volume

SOCKET_PATH = Path("/run/replexplorer/agent.sock")
STATE_PATH = Path("/run/replexplorer/links.json")
TOOLS_PATH = Path("/var/lib/replexplorer/tools")
VOLUMES = ("/var/lib/replexplorer/data", "/var/lib/replexplorer/tools")
LONGEST_LINE_BYTES = 4 << 20

Fields = dict[str, Any]


class Rejected(Exception):
    """A request that cannot be answered: a stable code and the reason in words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Bridge:
    """One connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.token: str | None = None
        """Of its app; None until it has greeted."""

    def tell(self, message: Fields) -> None:
        """Write a line; one that nobody reads any more is lost."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


class Server:
    """What the agent of one node answers."""

    def __init__(self, node: str, links: Links, disk: Disk, document: DocumentFile, claims: Claims) -> None:
        self._node = node
        self._links = links
        self._disk = disk
        self._document = document
        self._claims = claims
        self._bridges: set[Bridge] = set()
        # The tools volume belongs to all nodes: one of them counts it.
        mine = VOLUMES if node == "primary" else VOLUMES[:1]
        self._footprint = Footprint(map(Path, mine))
        self._tasks: set[asyncio.Task[None]] = set()
        self._started_s = time.monotonic()
        self._boot = uuid.uuid4().hex
        self._ops: dict[str, Callable[[Bridge, Fields], Awaitable[Fields]]] = {
            "hello": self._hello, "link": self._link, "set_link": self._set_link, "watch": self._watch,
            "disk": self._read_disk, "set_disk": self._set_disk,
            "document": self._read_document, "write_document": self._write_document,
            "take_lease": self._take_lease, "lease": self._lease, "release_lease": self._release_lease,
            "take_turn": self._take_turn, "leave_turn": self._leave_turn, "health": self._health,
            "begin_experiment": self._begin_experiment, "end_experiment": self._end_experiment,
        }  # fmt: skip

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a bridge until it ends. Requests overlap, answers carry ids."""
        bridge = Bridge(writer)
        self._bridges.add(bridge)
        try:
            while line := await reader.readline():
                task = asyncio.create_task(self._answer(bridge, line))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (ConnectionError, ValueError):
            pass  # the bridge broke, or sent a line beyond all bounds: either way it is done
        finally:
            self._bridges.discard(bridge)
            bridge.close()
            await self._claims.run(lambda: self._claims.lose(bridge))

    async def _answer(self, bridge: Bridge, line: bytes) -> None:
        number = None
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise Rejected("request", "a request is a JSON object")
            number = request.get("id")
            op = request.get("op")
            if op not in self._ops:
                raise Rejected("request", f"unknown op {op!r}")
            if op != "hello" and bridge.token is None:
                raise Rejected("version", "say hello first")
            answer = {"id": number, "ok": await self._ops[op](bridge, request)}
        except Rejected as rejected:
            answer = {"id": number, "error": {"code": rejected.code, "message": str(rejected)}}
        except Refused as refused:
            answer = {"id": number, "error": {"code": "refused", "message": str(refused)}}
        except Malformed as malformed:
            answer = {"id": number, "error": {"code": "request", "message": str(malformed)}}
        except (ValueError, KeyError, TypeError) as error:
            answer = {"id": number, "error": {"code": "request", "message": f"malformed request: {error!r}"}}
        except OSError as error:
            answer = {"id": number, "error": {"code": "system", "message": error.strerror or str(error)}}
        bridge.tell(answer)

    async def _hello(self, bridge: Bridge, request: Fields) -> Fields:
        spoken = request.get("version")
        if spoken != PROTOCOL_VERSION:  # another version's greeting may have other fields
            raise Rejected(
                "version", f"the agent speaks version {PROTOCOL_VERSION}, the app version {spoken}"
            )
        bridge.token = wire.read(wire.Hello, request).token
        return wire.written(wire.Welcome(PROTOCOL_VERSION, self._node))

    async def _link(self, _bridge: Bridge, request: Fields) -> Fields:
        asked = wire.read(wire.AskLink, request)
        if asked.anew:
            self._links.measure_anew(asked.peer)
        return wire.written(await self._links.state(asked.peer))

    async def _set_link(self, _bridge: Bridge, request: Fields) -> Fields:
        asked = wire.read(wire.SetLink, request)
        return wire.written(await self._links.set(asked.peer, asked.address, asked.shape))

    async def _read_disk(self, _bridge: Bridge, request: Fields) -> Fields:
        if wire.read(wire.AskDisk, request).probe:
            await self._disk.probe()
        return wire.written(self._disk.state())

    async def _set_disk(self, _bridge: Bridge, request: Fields) -> Fields:
        return wire.written(await self._disk.set_delay(wire.read(wire.SetDisk, request).delay_ms))

    async def _watch(self, _bridge: Bridge, request: Fields) -> Fields:
        asked = wire.read(wire.Watch, request)
        return wire.written(await self._links.watch(asked.peer, asked.address))

    async def _read_document(self, _bridge: Bridge, _request: Fields) -> Fields:
        version, content = await asyncio.to_thread(self._document.read)
        return {"version": version, "content": content}

    async def _write_document(self, _bridge: Bridge, request: Fields) -> Fields:
        expect_version, content = request["expect_version"], request["content"]
        if not isinstance(expect_version, int) or not isinstance(content, dict):
            raise Rejected("request", "expect_version is a number, content an object")
        written = await asyncio.to_thread(self._document.write, expect_version, content)
        return {"document": None if written is None else {"version": written[0], "content": written[1]}}

    async def _take_lease(self, bridge: Bridge, request: Fields) -> Fields:
        first = await self._hold(bridge, LEASE, {**_holder(request), "load": request.get("load")})
        return {"lease": first.wish, "ours": first.token == bridge.token}

    async def _lease(self, bridge: Bridge, _request: Fields) -> Fields:
        first = await self._first(LEASE)
        return {"lease": first and first.wish, "ours": first is not None and first.token == bridge.token}

    async def _release_lease(self, bridge: Bridge, request: Fields) -> Fields:
        await self._leave(bridge, LEASE)
        return await self._lease(bridge, request)

    async def _take_turn(self, bridge: Bridge, request: Fields) -> Fields:
        anyway, within_s = bool(request["anyway"]), _within(request, "within_s", 3600)
        if refused := await self._refused_turn(bridge, anyway):
            return refused
        until_s = time.monotonic() + within_s
        first: Claim | None = await self._claim(bridge, TURN, _holder(request), wait=True)
        while first is not None and first.token != bridge.token:
            if time.monotonic() > until_s:
                await self._leave(bridge, TURN)
                return {"lease": first.wish, "ours": False}
            await asyncio.sleep(LOOK_EVERY_S)
            queue = await self._claims.run(lambda: self._claims.queue(TURN))
            waits = bridge in self._bridges and any(claim.token == bridge.token for claim in queue)
            first = queue[0] if waits else None
        if first is not None and (refused := await self._refused_turn(bridge, anyway)):  # it began meanwhile
            await self._leave(bridge, TURN)
            return refused
        return {"lease": first and first.wish, "ours": first is not None}

    async def _refused_turn(self, bridge: Bridge, anyway: bool) -> Fields | None:
        """The answer to who may turn nothing, because another app's experiment runs."""
        first = None if anyway else await self._first(EXPERIMENT)
        if first is None or first.token == bridge.token:
            return None
        return {"lease": None, "ours": False, "experiment": first.wish}

    async def _leave_turn(self, bridge: Bridge, _request: Fields) -> Fields:
        await self._leave(bridge, TURN)
        return {"lease": None, "ours": False}

    async def _begin_experiment(self, bridge: Bridge, request: Fields) -> Fields:
        wish = {"kind": str(request["kind"]), "name": str(request["name"]), **_holder(request)}
        first = await self._hold(bridge, EXPERIMENT, wish)
        return {"experiment": first.wish, "ours": first.token == bridge.token}

    async def _end_experiment(self, bridge: Bridge, _request: Fields) -> Fields:
        await self._leave(bridge, EXPERIMENT)
        first = await self._first(EXPERIMENT)
        return {"experiment": first and first.wish, "ours": False}

    async def _claim(self, bridge: Bridge, slot: str, wish: Fields, *, wait: bool = False) -> Claim:
        """Claim for the bridge's app; answers the first in the queue."""
        if bridge.token is None or bridge not in self._bridges:
            raise Rejected("absent", "the bridge has ended")
        token = bridge.token
        return await self._claims.run(lambda: self._claims.take(slot, bridge, token, wish, wait=wait))

    async def _hold(self, bridge: Bridge, slot: str, wish: Fields) -> Claim:
        """Claim what is free, or answer who has it. One that is away may come back: that is waited for."""
        while True:
            first = await self._claim(bridge, slot, wish)
            if first.held:
                return first
            await asyncio.sleep(LOOK_EVERY_S)

    async def _first(self, slot: str) -> Claim | None:
        queue = await self._claims.run(lambda: self._claims.queue(slot))
        return queue[0] if queue else None

    async def _leave(self, bridge: Bridge, slot: str) -> None:
        token = str(bridge.token)
        await self._claims.run(lambda: self._claims.leave(slot, token))

    async def _health(self, _bridge: Bridge, request: Fields) -> Fields:
        wire.read(wire.AskHealth, request)
        volumes = {}
        for path in VOLUMES:
            with contextlib.suppress(OSError):
                disk = os.statvfs(path)
                total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
                volumes[Path(path).name] = Volume(total, free)
        health = Health(
            node=self._node,
            boot=self._boot,
            uptime_s=time.monotonic() - self._started_s,
            cpu_s=time.process_time(),
            bridges=len(self._bridges),
            machine_cores=os.cpu_count(),
            machine_busy_s=_machine_busy_s(),
            volumes=volumes,
            footprint_bytes=await self._footprint.bytes(),
            links=await self._links.cost(),
        )
        return wire.written(health)


def _machine_busy_s() -> float | None:
    """CPU seconds that were not idle on this machine since it booted (proc(5): all but idle and iowait, what
    a hypervisor took included; a guest's time is part of its user's)."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, _idle, _waiting, *other = ticks
    return (user + nice + system + sum(other)) / os.sysconf("SC_CLK_TCK")


def _holder(request: Fields) -> Fields:
    """Who asks."""
    return {"holder": str(request["holder"]), "pid": int(request["pid"]), "host": str(request["host"])}


def _within(request: Fields, name: str, most: float) -> float:
    """A figure of a request; raises Rejected when it is out of range."""
    value = float(request[name])
    if not 0 <= value <= most:
        raise Rejected("request", f"{name} must be within 0..{most:g}")
    return value


async def _until_told(links: Links, disk: Disk, claims: Claims, server: Server) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    links.start()
    disk.start()
    staying = asyncio.create_task(claims.stay_alive())
    listener = await asyncio.start_unix_server(server.serve, SOCKET_PATH, limit=LONGEST_LINE_BYTES)
    await stop.wait()
    listener.close()
    staying.cancel()
    await disk.close()
    await links.close()


def run(node: str) -> None:
    """Serve until SIGTERM; then take the rules away."""
    SOCKET_PATH.parent.mkdir(parents=True, exist_ok=True)
    SOCKET_PATH.unlink(missing_ok=True)
    os.umask(0o077)
    asyncio.run(_main(node))


async def _main(node: str) -> None:
    links, disk, claims = Links(STATE_PATH), Disk(), Claims(TOOLS_PATH / "claims")
    document = DocumentFile(TOOLS_PATH / "requested.json")
    await _until_told(links, disk, claims, Server(node, links, disk, document, claims))
