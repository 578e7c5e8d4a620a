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
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from disk import Disk
from links import Links
from shared import EXPERIMENT, LEASE, LOOK_EVERY_S, TURN, DocumentFile, Holder, Places
from tool import Refused

from replexplorer.core import wire
from replexplorer.core.wire import (
    PROTOCOL_VERSION,
    Document,
    Experiment,
    ExperimentState,
    Health,
    Lease,
    LeaseState,
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
FOOTPRINT_KEPT_S = 5.0
ENDS_WITHIN_S = 4.0
"""What an app holds through another agent ends with its bridge there, which may not be seen at once."""

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

    def __init__(self, node: str, links: Links, disk: Disk, document: DocumentFile, places: Places) -> None:
        self._node = node
        self._links = links
        self._disk = disk
        self._document = document
        self._places = places
        self._bridges: set[Bridge] = set()
        self._waiting: set[Bridge] = set()
        """Whose app waits for its turn."""
        self._counting = asyncio.Lock()
        self._footprint: tuple[float, int | None] | None = None
        """When the bytes of this node's volumes were counted, and what was found."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._started_s = time.monotonic()
        self._boot = uuid.uuid4().hex
        self._ops: dict[type[Request[Any]], Callable[[Bridge, Any], Awaitable[Any]]] = {
            wire.Hello: self._hello,
            wire.AskLink: lambda _, asked: links.state(asked.peer, anew=asked.anew),
            wire.SetLink: lambda _, asked: links.set(asked.peer, asked.address, asked.shape),
            wire.SetFlap: lambda _, asked: links.flap(asked.peer, asked.address, asked.flap),
            wire.Watch: lambda _, asked: links.watch(asked.peer, asked.address),
            wire.AskDisk: lambda _, asked: disk.look(probe=asked.probe),
            wire.SetDisk: lambda _, asked: disk.change(asked),
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
            self._waiting.discard(bridge)
            bridge.close()
            self._places.lose(bridge)

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

    async def _read_document(self, _bridge: Bridge, _asked: wire.AskDocument) -> Document:
        return Document(*await asyncio.to_thread(self._document.read))

    async def _write_document(self, _bridge: Bridge, asked: wire.WriteDocument) -> wire.Written:
        content = dict(asked.content)
        written = await asyncio.to_thread(self._document.write, asked.expect_version, content)
        return wire.Written(None if written is None else Document(*written))

    async def _take_lease(self, bridge: Bridge, asked: wire.TakeLease) -> LeaseState:
        return _lease_of(bridge, await self._hold(bridge, LEASE, asdict(asked.wish)))

    async def _lease(self, bridge: Bridge, _asked: Request[LeaseState]) -> LeaseState:
        return _lease_of(bridge, self._places.holder(LEASE))

    async def _release_lease(self, bridge: Bridge, asked: wire.ReleaseLease) -> LeaseState:
        self._places.leave(LEASE, str(bridge.token))
        return await self._lease(bridge, asked)

    async def _take_turn(self, bridge: Bridge, asked: wire.TakeTurn) -> LeaseState:
        began_s, found = time.monotonic(), None
        self._waiting.add(bridge)
        while bridge in self._waiting:
            if refused := self._refused_turn(bridge, asked.anyway):
                return refused
            found = self._take(bridge, TURN, asdict(asked.wish), since_s=began_s)
            is_late = time.monotonic() - began_s >= asked.within_s
            if self._has(bridge, TURN) or (is_late and found is not None and found.token != bridge.token):
                break
            await asyncio.sleep(LOOK_EVERY_S)
        self._waiting.discard(bridge)
        return _lease_of(bridge, found)

    def _refused_turn(self, bridge: Bridge, anyway: bool) -> LeaseState | None:
        """The answer to who may turn nothing, because another app's experiment runs."""
        found = None if anyway else self._places.holder(EXPERIMENT)
        if found is None or found.token == bridge.token:
            return None
        return LeaseState(None, False, Experiment(**found.wish))

    async def _leave_turn(self, bridge: Bridge, _asked: wire.LeaveTurn) -> LeaseState:
        self._waiting.discard(bridge)
        self._places.leave(TURN, str(bridge.token))
        return LeaseState(None, False)

    async def _begin_experiment(self, bridge: Bridge, asked: wire.BeginExperiment) -> ExperimentState:
        return _experiment_of(bridge, await self._hold(bridge, EXPERIMENT, asdict(asked.wish)))

    async def _end_experiment(self, bridge: Bridge, _asked: wire.EndExperiment) -> ExperimentState:
        self._places.leave(EXPERIMENT, str(bridge.token))
        return _experiment_of(bridge, self._places.holder(EXPERIMENT))

    def _has(self, bridge: Bridge, slot: str) -> bool:
        return self._places.has(slot, str(bridge.token))

    def _take(self, bridge: Bridge, slot: str, wish: Fields, *, since_s: float) -> Holder | None:
        """Have a place for the bridge's app, or say who has it; None: look again."""
        if bridge.token is None or bridge not in self._bridges:
            raise Rejected("absent", "the bridge has ended")
        found = self._places.take(slot, bridge, bridge.token, wish)
        is_own = found is not None and found.token == bridge.token and not self._has(bridge, slot)
        if is_own and time.monotonic() - since_s > ENDS_WITHIN_S:
            raise Rejected("absent", "it is held through another agent, which hangs")
        return found

    async def _hold(self, bridge: Bridge, slot: str, wish: Fields) -> Holder:
        """Have what is free, or say who has it. One that is away may come back: that is waited for."""
        began_s = time.monotonic()
        while True:
            found = self._take(bridge, slot, wish, since_s=began_s)
            if found is not None and (
                self._has(bridge, slot) or (found.held and found.token != bridge.token)
            ):
                return found
            await asyncio.sleep(LOOK_EVERY_S)

    async def _count(self) -> int | None:
        """The footprint, counted at most once in FOOTPRINT_KEPT_S, whoever asks, in a thread of its own."""
        async with self._counting:
            if self._footprint is None or time.monotonic() - self._footprint[0] > FOOTPRINT_KEPT_S:
                # The tools volume belongs to all nodes: one of them counts it.
                mine = VOLUMES if self._node == FIRST_NODE else VOLUMES[:1]
                self._footprint = time.monotonic(), await asyncio.to_thread(footprint, mine)
            return self._footprint[1]

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
            footprint_bytes=await self._count(),
            links=await self._links.cost(),
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


def _check_version(spoken: object) -> None:
    """Before anything else of a greeting is looked at: another version's may have other fields."""
    if spoken != PROTOCOL_VERSION:
        raise Rejected("version", f"the agent speaks version {PROTOCOL_VERSION}, the app version {spoken}")


def _lease_of(bridge: Bridge, found: Holder | None) -> LeaseState:
    """Who has the lease or the turn."""
    if found is None:
        return LeaseState(None, False)
    return LeaseState(Lease(**found.wish), found.token == bridge.token)


def _experiment_of(bridge: Bridge, found: Holder | None) -> ExperimentState:
    if found is None:
        return ExperimentState(None, False)
    return ExperimentState(Experiment(**found.wish), found.token == bridge.token)


async def _main(node: str) -> None:
    links, disk, places = Links(STATE_PATH), Disk(), Places(TOOLS_PATH / "claims")
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
