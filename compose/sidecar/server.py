"""The agent's server: JSON lines on a Unix socket, many bridges at once, one driver's lease,
one experiment.

A request is `{"id": 7, "op": "link", ...}`; its answer `{"id": 7, "ok": {...}}` or
`{"id": 7, "error": {"code", "message"}}`; an event `{"event": "document", ...}` answers nobody.
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
from disk import Disk
from document import DocumentFile
from footprint import Footprint
from links import Links
from tool import Refused
from turns import Turns
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
        self.greeted = False

    def tell(self, message: Fields) -> None:
        """Write a line; one that nobody reads any more is lost."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


class Server:
    """What the agent of one node answers."""

    def __init__(self, node: str, links: Links, disk: Disk, document: DocumentFile) -> None:
        self._node = node
        self._links = links
        self._disk = disk
        self._document = document
        self._bridges: set[Bridge] = set()
        self._driver: tuple[Bridge, Fields] | None = None
        self._experiment: tuple[Bridge, Fields] | None = None
        self._turns = Turns()
        # The tools volume belongs to all nodes: one of them counts it.
        mine = VOLUMES if node == "primary" else VOLUMES[:1]
        self._footprint = Footprint(map(Path, mine))
        self._writing = asyncio.Lock()
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
        """Answer a bridge until it ends; what it holds ends with it. Requests overlap, answers carry ids."""
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
            self._drop_lease(bridge)
            self._drop_experiment(bridge)
            self._turns.leave(bridge)
            bridge.close()

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
            if op != "hello" and not bridge.greeted:
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

    def _push(self, event: Fields) -> None:
        for bridge in self._bridges:
            if bridge.greeted:
                bridge.tell(event)

    async def _hello(self, bridge: Bridge, request: Fields) -> Fields:
        spoken = wire.read(wire.Hello, request).version
        if spoken != PROTOCOL_VERSION:
            raise Rejected(
                "version", f"the agent speaks version {PROTOCOL_VERSION}, the app version {spoken}"
            )
        bridge.greeted = True
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

    def _keep_document(self) -> DocumentFile:
        if self._node != "primary":
            raise Rejected("node", "the primary's agent keeps the document and the lease")
        return self._document

    async def _read_document(self, _bridge: Bridge, _request: Fields) -> Fields:
        async with self._writing:
            version, content = await asyncio.to_thread(self._keep_document().read)
        return {"version": version, "content": content}

    async def _write_document(self, _bridge: Bridge, request: Fields) -> Fields:
        expect_version, content = request["expect_version"], request["content"]
        if not isinstance(expect_version, int) or not isinstance(content, dict):
            raise Rejected("request", "expect_version is a number, content an object")
        async with self._writing:
            written = await asyncio.to_thread(self._keep_document().write, expect_version, content)
        if written is None:
            return {"document": None}
        self._push({"event": "document", "version": written[0]})
        return {"document": {"version": written[0], "content": written[1]}}

    async def _take_lease(self, bridge: Bridge, request: Fields) -> Fields:
        self._keep_document()
        wish = {**_holder(request), "load": request.get("load")}
        if self._driver is not None and self._driver[0] is not bridge:
            return {"lease": self._driver[1], "ours": False}
        changed = self._driver is None or self._driver[1] != wish
        self._driver = (bridge, wish)
        if changed:
            self._push({"event": "lease", "lease": wish})
        return {"lease": wish, "ours": True}

    async def _lease(self, bridge: Bridge, _request: Fields) -> Fields:
        self._keep_document()
        if self._driver is None:
            return {"lease": None, "ours": False}
        return {"lease": self._driver[1], "ours": self._driver[0] is bridge}

    async def _release_lease(self, bridge: Bridge, _request: Fields) -> Fields:
        self._drop_lease(bridge)
        return {"lease": None if self._driver is None else self._driver[1], "ours": False}

    async def _take_turn(self, bridge: Bridge, request: Fields) -> Fields:
        self._keep_document()
        wish, anyway = _holder(request), bool(request["anyway"])
        if refused := self._refused_turn(bridge, anyway):
            return refused
        turn = self._turns.ask(bridge, wish)
        holder = await self._turns.wait(turn, _within(request, "within_s", 3600))
        if holder is None and (refused := self._refused_turn(bridge, anyway)):  # it began meanwhile
            self._turns.leave(bridge)
            return refused
        return {"lease": holder or wish, "ours": holder is None}

    def _refused_turn(self, bridge: Bridge, anyway: bool) -> Fields | None:
        """The answer to who may turn nothing, because another bridge's experiment runs."""
        if anyway or self._experiment is None or self._experiment[0] is bridge:
            return None
        return {"lease": None, "ours": False, "experiment": self._experiment[1]}

    async def _leave_turn(self, bridge: Bridge, _request: Fields) -> Fields:
        self._turns.leave(bridge)
        return {"lease": None, "ours": False}

    async def _begin_experiment(self, bridge: Bridge, request: Fields) -> Fields:
        self._keep_document()
        if self._experiment is None or self._experiment[0] is bridge:
            wish = {"kind": str(request["kind"]), "name": str(request["name"]), **_holder(request)}
            self._experiment = (bridge, wish)
        holder, experiment = self._experiment
        return {"experiment": experiment, "ours": holder is bridge}

    async def _end_experiment(self, bridge: Bridge, _request: Fields) -> Fields:
        self._drop_experiment(bridge)
        return {"experiment": None if self._experiment is None else self._experiment[1], "ours": False}

    def _drop_experiment(self, bridge: Bridge) -> None:
        if self._experiment is not None and self._experiment[0] is bridge:
            self._experiment = None

    def _drop_lease(self, bridge: Bridge) -> None:
        if self._driver is not None and self._driver[0] is bridge:
            self._driver = None
            self._push({"event": "lease", "lease": None})

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


async def _until_told(links: Links, disk: Disk, server: Server) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    links.start()
    disk.start()
    listener = await asyncio.start_unix_server(server.serve, SOCKET_PATH, limit=LONGEST_LINE_BYTES)
    await stop.wait()
    listener.close()
    await disk.close()
    await links.close()


def run(node: str) -> None:
    """Serve until SIGTERM; then take the rules away."""
    SOCKET_PATH.parent.mkdir(parents=True, exist_ok=True)
    SOCKET_PATH.unlink(missing_ok=True)
    os.umask(0o077)
    asyncio.run(_main(node))


async def _main(node: str) -> None:
    links, disk = Links(STATE_PATH), Disk()
    await _until_told(links, disk, Server(node, links, disk, DocumentFile(TOOLS_PATH / "requested.json")))
