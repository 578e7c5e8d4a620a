"""The agent's server: JSON lines on a Unix socket, many bridges at once.

A request is `{"id": 7, "op": "link", ...}`; its answer `{"id": 7, "ok": {...}}` or
`{"id": 7, "error": {"code", "message"}}`. Document, lease, turn and experiment are the stack's: they lie on
the volume that all agents share (shared.py), so each agent takes and answers them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from disk import Disk
from links import Links
from shared import LOOK_EVERY_S, DocumentFile, Holder, Places
from tool import Refused

from replexplorer.core import wire
from replexplorer.core.wire import (
    PROTOCOL_VERSION,
    Experiment,
    Health,
    Held,
    Lease,
    Request,
    Volume,
)

SOCKET_PATH = Path("/run/replexplorer/agent.sock")
TOOLS_PATH = Path("/var/lib/replexplorer/tools")
FIRST_NODE = "db1"
"""Its agent counts the tools volume, which belongs to all nodes."""
VOLUMES = ("/var/lib/replexplorer/data", "/var/lib/replexplorer/tools")
LONGEST_LINE_BYTES = 4 << 20
ENDS_WITHIN_S = 4.0
"""What an app holds through another agent ends with its bridge there, which may not be seen at once."""


class Rejected(Exception):
    """A request that cannot be answered: a stable code and the reason in words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(eq=False)
class Bridge:
    """One connection."""

    writer: asyncio.StreamWriter
    token: str | None = None
    """Of its app; None until it has greeted."""


@dataclass(eq=False)
class Server:
    """What the agent of one node answers."""

    _node: str
    _links: Links
    _disk: Disk
    _document: DocumentFile
    _places: Places
    _bridges: set[Bridge] = field(default_factory=set)
    _waiting: set[Bridge] = field(default_factory=set)
    """Whose app waits for its turn."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _started_s: float = field(default_factory=time.monotonic)
    _boot: str = field(default_factory=lambda: uuid.uuid4().hex)

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
            self._waiting.discard(bridge)
            writer.close()
            self._places.lose(bridge)

    async def _answer(self, bridge: Bridge, line: bytes) -> None:
        number = None
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("a request is a JSON object")
            number = request.get("id")
            kind = wire.REQUESTS.get(str(request.get("op")))
            if kind is None:
                raise ValueError(f"unknown op {request.get('op')!r}")
            if kind is wire.Hello and request.get("version") != PROTOCOL_VERSION:
                # Before anything else of a greeting is looked at: another version's may have other fields.
                raise Rejected(
                    "version",
                    f"the agent speaks version {PROTOCOL_VERSION}, the app version {request.get('version')}",
                )
            if kind is not wire.Hello and bridge.token is None:
                raise Rejected("version", "say hello first")
            done = await self._do(bridge, wire.read(kind, request))
            answer = {"ok": wire.written(done)}
        except (Rejected, Refused, ValueError, KeyError, TypeError, OSError) as error:
            answer = {"error": {"code": _code_of(error), "message": str(error)}}
        if not bridge.writer.is_closing():
            bridge.writer.write(json.dumps({"id": number, **answer}).encode() + b"\n")

    async def _do(self, bridge: Bridge, asked: Request[Any]) -> Any:
        """Carry out a request; answers what it is answered by."""
        match asked:
            case wire.Hello(token):
                bridge.token = token
                return wire.Welcome(PROTOCOL_VERSION, self._node)
            case wire.AskLink(peer, anew):
                return await self._links.state(peer, anew=anew)
            case wire.SetLink(peer, address, shape):
                return await self._links.set(peer, address, shape)
            case wire.SetFlap(peer, address, flap):
                return await self._links.flap(peer, address, flap)
            case wire.Watch(peer, address):
                return await self._links.watch(peer, address)
            case wire.AskDisk(probe):
                return await self._disk.look(probe=probe)
            case wire.SetDisk():
                return await self._disk.change(asked)
            case wire.AskDocument():
                return await asyncio.to_thread(self._document.read)
            case wire.WriteDocument(content, expected):
                return wire.Written(await asyncio.to_thread(self._document.write, expected, dict(content)))
            case wire.Take():
                return await self._take(bridge, asked)
            case wire.AskHolder(place):
                return _held(bridge, place, self._places.holder(place))
            case wire.Leave(place):
                if place == wire.TURN:
                    self._waiting.discard(bridge)
                self._places.leave(place, str(bridge.token))
                return Held(None, ours=False)
            case wire.AskHealth(with_footprint):
                return await self._health(with_footprint)
        raise ValueError(f"no answer to {asked.op}")

    async def _take(self, bridge: Bridge, asked: wire.Take) -> Held:
        """Have what is free, or say who has it. One that is away may come back: that is waited for, and a
        turn as long as is asked."""
        place, token, began_s, found = asked.place, str(bridge.token), time.monotonic(), None
        is_turn = place == wire.TURN
        if is_turn:
            self._waiting.add(bridge)
        while not is_turn or bridge in self._waiting:
            if bridge not in self._bridges:
                raise Rejected("absent", "the bridge has ended")
            if is_turn and not asked.anyway:
                running = self._places.holder(wire.EXPERIMENT)
                if running is not None and running.token != token:
                    place, found = wire.EXPERIMENT, running
                    break
            found = self._places.take(place, bridge, token, asdict(asked.wish))
            waited_s = time.monotonic() - began_s
            if self._places.has(place, token):
                break
            if (
                found is not None
                and found.token != token
                and (waited_s >= asked.within_s if is_turn else found.held)
            ):
                break
            if found is not None and found.token == token and waited_s > ENDS_WITHIN_S:
                raise Rejected("absent", "it is held through another agent, which hangs")
            await asyncio.sleep(LOOK_EVERY_S)
        if is_turn:
            self._waiting.discard(bridge)
        return _held(bridge, place, found)

    async def _health(self, with_footprint: bool) -> Health:
        volumes = {}
        for path in VOLUMES:
            with contextlib.suppress(OSError):
                disk = os.statvfs(path)
                total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
                volumes[Path(path).name] = Volume(total, free)
        mine = VOLUMES if self._node == FIRST_NODE else VOLUMES[:1]
        return Health(
            node=self._node,
            boot=self._boot,
            uptime_s=time.monotonic() - self._started_s,
            machine_cores=os.cpu_count(),
            machine_busy_s=_machine_busy_s(),
            volumes=volumes,
            footprint_bytes=await asyncio.to_thread(footprint, mine) if with_footprint else None,
            packets=await self._links.packets(),
        )


def footprint(directories: Iterable[str]) -> int | None:
    """Bytes of all files below, as they lie on the disk; those that go while it looks are gone. None where a
    directory cannot be read: the sum is unknown, never smaller."""
    total, waiting = 0, [*directories]
    try:
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        else:
                            total += entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:
        return None
    return total


def _machine_busy_s() -> float | None:
    """CPU seconds that were not idle on this machine since it booted (proc(5): all but idle and iowait, what
    a hypervisor took included; a guest's time is part of its user's)."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, _idle, _waiting, *other = ticks
    return (user + nice + system + sum(other)) / os.sysconf("SC_CLK_TCK")


def _code_of(error: Exception) -> str:
    """What `wire.Failure` calls it."""
    if isinstance(error, Rejected):
        return error.code
    return "refused" if isinstance(error, Refused) else "system" if isinstance(error, OSError) else "request"


def _held(bridge: Bridge, place: wire.Place, found: Holder | None) -> Held:
    """Who has it."""
    if found is None:
        return Held(None, ours=False)
    kind = Experiment if place == wire.EXPERIMENT else Lease
    return Held(kind(**found.wish), found.token == bridge.token)


async def _main(node: str) -> None:
    links, disk, places = Links(), Disk(), Places(TOOLS_PATH / "claims")
    server = Server(node, links, disk, DocumentFile(TOOLS_PATH / "requested.json"), places)
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
