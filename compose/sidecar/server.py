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
from dataclasses import asdict
from pathlib import Path
from typing import Any

import wire
from claims import EXPERIMENT, LEASE, LOOK_EVERY_S, TURN, Claim, Claims
from disk import Disk
from document import DocumentFile
from footprint import Footprint
from links import Links
from tool import Refused
from wire import (
    PROTOCOL_VERSION,
    DiskState,
    Document,
    Experiment,
    ExperimentState,
    Health,
    Lease,
    LeaseState,
    LinkState,
    Malformed,
    Request,
    Volume,
)

SOCKET_PATH = Path("/run/replexplorer/agent.sock")
STATE_PATH = Path("/run/replexplorer/links.json")
TOOLS_PATH = Path("/var/lib/replexplorer/tools")
FIRST_NODE = "db1"
"""Its agent counts the tools volume, which belongs to all nodes."""
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
        mine = VOLUMES if node == FIRST_NODE else VOLUMES[:1]
        self._footprint = Footprint(map(Path, mine))
        self._tasks: set[asyncio.Task[None]] = set()
        self._started_s = time.monotonic()
        self._boot = uuid.uuid4().hex
        self._ops: dict[type[Request[Any]], Callable[[Bridge, Any], Awaitable[Any]]] = {
            wire.Hello: self._hello,
            wire.AskLink: self._link,
            wire.SetLink: self._set_link,
            wire.SetFlap: self._set_flap,
            wire.Watch: self._watch,
            wire.AskDisk: self._read_disk,
            wire.SetDisk: self._set_disk,
            wire.AskDocument: self._read_document,
            wire.WriteDocument: self._write_document,
            wire.TakeLease: self._take_lease,
            wire.AskLease: self._lease,
            wire.ReleaseLease: self._release_lease,
            wire.TakeTurn: self._take_turn,
            wire.LeaveTurn: self._leave_turn,
            wire.BeginExperiment: self._begin_experiment,
            wire.EndExperiment: self._end_experiment,
            wire.AskHealth: self._health,
        }
        """What carries out each request."""

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
            kind = wire.REQUESTS.get(str(request.get("op")))
            if kind is None:
                raise Rejected("request", f"unknown op {request.get('op')!r}")
            if kind is wire.Hello:
                _check_version(request.get("version"))
            elif bridge.token is None:
                raise Rejected("version", "say hello first")
            done = await self._ops[kind](bridge, wire.read(kind, request))
            answer = {"id": number, "ok": wire.written(done)}
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

    async def _hello(self, bridge: Bridge, asked: wire.Hello) -> wire.Welcome:
        bridge.token = asked.token
        return wire.Welcome(PROTOCOL_VERSION, self._node)

    async def _link(self, _bridge: Bridge, asked: wire.AskLink) -> LinkState:
        if asked.anew:
            self._links.measure_anew(asked.peer)
        return await self._links.state(asked.peer)

    async def _set_link(self, _bridge: Bridge, asked: wire.SetLink) -> LinkState:
        return await self._links.set(asked.peer, asked.address, asked.shape)

    async def _set_flap(self, _bridge: Bridge, asked: wire.SetFlap) -> LinkState:
        return await self._links.flap(asked.peer, asked.address, asked.flap)

    async def _read_disk(self, _bridge: Bridge, asked: wire.AskDisk) -> DiskState:
        if asked.probe:
            await self._disk.probe()
        return self._disk.state()

    async def _set_disk(self, _bridge: Bridge, asked: wire.SetDisk) -> DiskState:
        return await self._disk.change(asked)

    async def _watch(self, _bridge: Bridge, asked: wire.Watch) -> LinkState:
        return await self._links.watch(asked.peer, asked.address)

    async def _read_document(self, _bridge: Bridge, _asked: wire.AskDocument) -> Document:
        return Document(*await asyncio.to_thread(self._document.read))

    async def _write_document(self, _bridge: Bridge, asked: wire.WriteDocument) -> wire.Written:
        content = dict(asked.content)
        written = await asyncio.to_thread(self._document.write, asked.expect_version, content)
        return wire.Written(None if written is None else Document(*written))

    async def _take_lease(self, bridge: Bridge, asked: wire.TakeLease) -> LeaseState:
        return _lease_of(bridge, await self._hold(bridge, LEASE, asdict(asked.wish)))

    async def _lease(self, bridge: Bridge, _asked: Request[LeaseState]) -> LeaseState:
        return _lease_of(bridge, await self._first(LEASE))

    async def _release_lease(self, bridge: Bridge, asked: wire.ReleaseLease) -> LeaseState:
        await self._leave(bridge, LEASE)
        return await self._lease(bridge, asked)

    async def _take_turn(self, bridge: Bridge, asked: wire.TakeTurn) -> LeaseState:
        if refused := await self._refused_turn(bridge, asked.anyway):
            return refused
        until_s = time.monotonic() + asked.within_s
        first: Claim | None = await self._claim(bridge, TURN, asdict(asked.wish), wait=True)
        while first is not None and first.token != bridge.token:
            if time.monotonic() > until_s:
                await self._leave(bridge, TURN)
                return _lease_of(bridge, first)
            await asyncio.sleep(LOOK_EVERY_S)
            queue = await self._claims.run(lambda: self._claims.queue(TURN))
            waits = bridge in self._bridges and any(claim.token == bridge.token for claim in queue)
            first = queue[0] if waits else None
        # An experiment may have begun meanwhile.
        if first is not None and (refused := await self._refused_turn(bridge, asked.anyway)):
            await self._leave(bridge, TURN)
            return refused
        return _lease_of(bridge, first)

    async def _refused_turn(self, bridge: Bridge, anyway: bool) -> LeaseState | None:
        """The answer to who may turn nothing, because another app's experiment runs."""
        first = None if anyway else await self._first(EXPERIMENT)
        if first is None or first.token == bridge.token:
            return None
        return LeaseState(None, False, Experiment(**first.wish))

    async def _leave_turn(self, bridge: Bridge, _asked: wire.LeaveTurn) -> LeaseState:
        await self._leave(bridge, TURN)
        return LeaseState(None, False)

    async def _begin_experiment(self, bridge: Bridge, asked: wire.BeginExperiment) -> ExperimentState:
        return _experiment_of(bridge, await self._hold(bridge, EXPERIMENT, asdict(asked.wish)))

    async def _end_experiment(self, bridge: Bridge, _asked: wire.EndExperiment) -> ExperimentState:
        await self._leave(bridge, EXPERIMENT)
        return _experiment_of(bridge, await self._first(EXPERIMENT))

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

    async def _health(self, _bridge: Bridge, _asked: wire.AskHealth) -> Health:
        volumes = {}
        for path in VOLUMES:
            with contextlib.suppress(OSError):
                disk = os.statvfs(path)
                total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
                volumes[Path(path).name] = Volume(total, free)
        return Health(
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


def _machine_busy_s() -> float | None:
    """CPU seconds that were not idle on this machine since it booted (proc(5): all but idle and iowait, what
    a hypervisor took included; a guest's time is part of its user's)."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, _idle, _waiting, *other = ticks
    return (user + nice + system + sum(other)) / os.sysconf("SC_CLK_TCK")


def _check_version(spoken: object) -> None:
    """Before anything else of a greeting is looked at: another version's may have other fields."""
    if spoken != PROTOCOL_VERSION:
        raise Rejected("version", f"the agent speaks version {PROTOCOL_VERSION}, the app version {spoken}")


def _lease_of(bridge: Bridge, first: Claim | None) -> LeaseState:
    """Who is first in the queue of the lease or the turn."""
    if first is None:
        return LeaseState(None, False)
    return LeaseState(Lease(**first.wish), first.token == bridge.token)


def _experiment_of(bridge: Bridge, first: Claim | None) -> ExperimentState:
    if first is None:
        return ExperimentState(None, False)
    return ExperimentState(Experiment(**first.wish), first.token == bridge.token)


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
