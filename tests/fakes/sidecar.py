"""A sidecar's agent as a model, and `ports.Agent` over it.

A request is carried out by the sidecar whether or not the caller still waits, as over a real bridge.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from replexplorer.core import wire
from replexplorer.core.errors import MissingPiece, ReplexplorerError, StackUnavailable
from replexplorer.core.link import PLAIN_FIELDS
from replexplorer.core.topology import link_between
from replexplorer.core.wire import (
    DiskProbe,
    DiskState,
    Document,
    Flap,
    Health,
    LinkState,
    SetDisk,
    Shape,
    Volume,
)
from replexplorer.ports import Agent
from tests.fakes.clock import VirtualClock, now_s
from tests.sidecar import load_virtual

if TYPE_CHECKING:
    from tests.fakes.world import World

_CLOCK = SimpleNamespace(monotonic=VirtualClock().monotonic, time=VirtualClock().wall)
SHARED, AGENT = load_virtual("shared", _CLOCK), load_virtual("server", _CLOCK)
"""The agent's own modules, on virtual time: who has which place is for them to say."""
GRACE_S: float = SHARED.GRACE_S

BRIDGE_S = 0.005
CALL_S = 0.0002
PROBE_EVERY_S = 0.1
BASE_MS = 0.1


@dataclass
class StoredDocument:
    """The file on the tools volume; it outlives the sidecar."""

    version: int = 0
    content: dict[str, Any] = field(default_factory=dict)


def link_key(one: str, other: str) -> str:
    """What a world calls the link between two nodes: the other end of one of the first node, else both."""
    ends = [end for end in (one, other) if end != "db1"]
    return ends[0] if len(ends) == 1 else link_between(one, other)


@dataclass
class FakeLink:
    """One link, seen from both ends."""

    changed_s: float = 0.0
    """When a shape of either end changed last."""
    flows_from_s: float | None = 0.0
    """Since when events and heartbeats come through; None while it is cut."""
    heard: int = 0
    """Heartbeats that came before that."""
    retry_s: float = 0.5
    """How long after healing TCP tries again."""
    rules_hold: bool = True
    """Packets obey the rules; somebody may have taken them away behind the agents' backs."""

    def heartbeats(self) -> int:
        """One a second while it flows."""
        flowed_s = 0.0 if self.flows_from_s is None else max(0.0, now_s() - self.flows_from_s)
        return self.heard + int(flowed_s + 1e-9)

    def set_flow(self, flows: bool, after_s: float) -> None:
        """It is cut, or it is not any more and flows a moment later."""
        if flows != (self.flows_from_s is not None):
            self.heard = self.heartbeats()
            self.flows_from_s = now_s() + after_s if flows else None


class FakeSidecar:
    """The agent of one node; a restart loses its delays and its probes.

    The agent's own server carries out what is asked of it; links, disk and document are these.
    """

    shim = True
    """The node's server runs with the shim."""
    probed: DiskProbe | None = None
    boots = 0
    """Its health names the run; an agent from before knows none."""
    running = False
    _take = AGENT.Server._take

    def __init__(self, node: str, world: World) -> None:
        self.node = node
        self._world, self._document = world, world.document
        self._links = self._disk = self
        self._places = SHARED.Places(world.places)
        self._waiting: set[FakeAgent] = set()
        """Apps that wait for their turn."""
        self.refusals: dict[str, ReplexplorerError] = {}
        """Op to the error that answers it."""
        self.lost: Counter[str] = Counter()
        """Probes of each peer that nobody answered."""
        self.addresses: dict[str, str] = {}
        self.boot()

    def boot(self) -> None:
        """Start with nothing in force."""
        self.running = True
        self.booted_s = now_s()
        self.boots += 1
        self.slow_s = 0.0
        """How late its bridge answers first."""
        self.free_bytes = 50 << 30
        """Of a disk of 100 GB."""
        self.footprint_bytes: int | None = 100 << 20
        """What its volumes hold."""
        self.machine_share: float | None = 0.4
        """How busy its machine's cores are; None: it does not tell, as an agent from before."""
        self.shapes: dict[str, Shape] = {}
        self.flaps: dict[str, Flap] = {}
        self.fsync_delay_ms = self.stall_ms = self.jitter_ms = 0.0
        self.undo_journal = self.disk_full = False
        self.redo_delay_ms = self.binlog_delay_ms = "auto"
        self.fsynced_from_s: float | None = 0.0
        """Since when an fsync shows the delay; None while nothing fsyncs."""
        self.watched: set[str] = set()
        self._bridges: set[FakeAgent] = set()

    def stop(self) -> None:
        """The container ends."""
        self.running = False
        for agent in [*self._bridges]:
            self.drop(agent)

    def restart(self) -> None:
        """End and come back."""
        self.stop()
        self.boot()

    @property
    def delays(self) -> dict[str, float]:
        """Peer to the one-way delay in force."""
        return {peer: shape.delay_ms for peer, shape in self.shapes.items() if shape.delay_ms}

    def drop(self, agent: FakeAgent) -> None:
        """A bridge ended."""
        self._bridges.discard(agent)
        agent.ended.set()
        self._waiting.discard(agent)
        self._places.lose(agent)

    async def answer(self, agent: FakeAgent, asked: wire.Request[Any]) -> Any:
        """As the agent's server does it, but for links, and what that has done in a thread."""
        match asked:
            case wire.AskLink(peer, anew):
                return self.state(peer, anew=anew)
            case wire.AskDocument():
                return self._read()
            case wire.WriteDocument(content, expected):
                self._change("write document")
                if self._document.version != expected:
                    return wire.Written(None)
                self._document.version += 1
                self._document.content = copy.deepcopy(dict(content))
                return wire.Written(self._read())
        return await AGENT.Server._do(self, agent, asked)

    def _read(self) -> Document:
        return Document(self._document.version, copy.deepcopy(self._document.content))

    async def _health(self, _: bool) -> Health:
        """Of a machine of four cores."""
        return Health(
            node=self.node,
            boot=f"{self.node} {self.boots}",
            uptime_s=now_s() - self.booted_s,
            volumes={"data": Volume(100 << 30, self.free_bytes)},
            footprint_bytes=self.footprint_bytes,
            machine_cores=4,
            machine_busy_s=None if self.machine_share is None else 4 * now_s() * self.machine_share,
        )

    def _change(self, what: str) -> None:
        if (trouble := self._world.changing(self.node, what)) is not None:
            raise StackUnavailable(f"the agent of {self.node} failed, {trouble}")

    # -- its links

    def _link_of(self, peer: str) -> FakeLink:
        return self._world.links[link_key(self.node, peer)]

    def state(self, peer: str, *, anew: bool = False) -> LinkState:
        """This side of the link; measured `anew` from now on."""
        link = self._link_of(peer)
        if anew:
            link.changed_s = now_s()
        delay_ms = self._world.total_delay_ms(link_key(self.node, peer)) if link.rules_hold else 0.0
        since_s, rtt_ms = now_s() - link.changed_s, BASE_MS + delay_ms
        is_answered = peer in self.watched and link.flows_from_s is not None
        answered = max(0, int((since_s - rtt_ms / 1000) / PROBE_EVERY_S)) if is_answered else 0
        return LinkState(
            peer=peer,
            backend="nfqueue",
            backend_reason="kernel has no netem",
            holds="received",
            shape=self.shapes.get(peer, Shape()),
            base_ms=BASE_MS if peer in self.watched else None,
            overhead_ms=0.02,
            measured_ms=rtt_ms if answered else None,
            probes=answered,
            lost=self.lost[peer],
            dropped=0,
            flap=self.flaps.get(peer),
            is_down=peer in self.flaps and self.flaps[peer].phase(VirtualClock().wall())[0],
        )

    def set_link(self, peer: str, shape: Shape) -> None:
        """Put a shape in force."""
        self._change(f"link {peer} {_told(shape)}")
        self.shapes[peer] = shape
        self._world.shaped(self.node, peer)

    async def set(self, peer: str, _: str, shape: Shape) -> LinkState:
        """Put a shape in force, and say so."""
        self.set_link(peer, shape)
        return self.state(peer, anew=True)

    async def flap(self, peer: str, _: str, flap: Flap | None) -> LinkState:
        """Go down and up by the clock."""
        self._change(f"flap {peer}")
        self.flaps.pop(peer, None)
        if flap is not None:
            self.flaps[peer] = flap
        return self.state(peer, anew=True)

    async def watch(self, peer: str, address: str) -> LinkState:
        """Probe a peer from now on."""
        is_new = peer not in self.watched
        self.watched.add(peer)
        self.addresses[peer] = address
        return self.state(peer, anew=is_new)

    # -- its disk

    async def look(self, *, probe: bool = False) -> DiskState:
        """The disk: an fsync takes 0.2 ms and the delay."""
        shows = self.shim and self.fsynced_from_s is not None
        self.probed = DiskProbe(0.1, 0.2, 0.3, 1000) if probe else self.probed
        in_force = {key: getattr(self, _OWN_NAME.get(key, key)) for key in vars(SetDisk())}
        return DiskState(
            attached=self.shim,
            reason=None if self.shim else "the server runs without the fsync shim",
            fsyncs={"redo": 1, "binlog": 1, "relay": 0, "data": 0, "other": 0},
            measured_ms=0.2 + self.fsync_delay_ms + self.stall_ms if shows else None,
            probe=self.probed,
            **(in_force if self.shim else {"delay_ms": None}),
        )

    async def change(self, asked: SetDisk) -> DiskState:
        """Put what is asked in force."""
        if not self.shim:
            raise MissingPiece(f"the sidecar of {self.node} cannot do that, no shim")
        wanted = {_OWN_NAME.get(key, key): value for key, value in vars(asked).items() if value is not None}
        words = (f"{name.removesuffix('_delay_ms')} {_written(value)}" for name, value in wanted.items())
        self._change(", ".join(words))
        vars(self).update(wanted)
        return await self.look()


_OWN_NAME = {"delay_ms": "fsync_delay_ms", "full": "disk_full"}
"""What a sidecar calls what is asked of its disk, where it has another name for it."""


class FakeAgent(Agent):
    """One app's bridge to one sidecar (`ports.Agent`)."""

    def __init__(self, sidecar: FakeSidecar, pid: int) -> None:
        self.node = sidecar.node
        self.sidecar = sidecar
        self.pid = pid
        self.token = str(pid)
        self.ended = asyncio.Event()
        self.ended.set()

    async def ask(self, request: wire.Request[Any]) -> Any:
        """See `ports.Agent`."""
        assert getattr(request, "address", "none is asked for"), "a rule needs the peer's address"
        if isinstance(request, wire.Take):
            request = replace(request, wish=replace(request.wish, pid=self.pid, host="here"))
        if not self.sidecar.running:
            await asyncio.sleep(BRIDGE_S)
            raise StackUnavailable(f"no agent on {self.node}", "run `replexplorer up` to repair the stack")
        if self not in self.sidecar._bridges:
            await asyncio.sleep(BRIDGE_S + self.sidecar.slow_s)
            self.sidecar._bridges.add(self)
            self.ended.clear()
        return await asyncio.shield(asyncio.create_task(self._serve(request), name="server call"))

    async def _serve(self, request: wire.Request[Any]) -> Any:
        await asyncio.sleep(CALL_S / 2)
        if not self.sidecar.running:
            raise StackUnavailable(f"the bridge to {self.node} was lost")
        if request.op in self.sidecar.refusals:
            raise self.sidecar.refusals[request.op]
        try:
            told = await self.sidecar.answer(self, request)
        except AGENT.Rejected:
            raise StackUnavailable(f"the bridge to {self.node} was lost") from None
        await asyncio.sleep(CALL_S / 2)
        return told

    async def until_lost(self) -> None:
        """See `ports.Agent`."""
        await self.ended.wait()

    async def close(self) -> None:
        """End the bridge."""
        self.sidecar.drop(self)
        await asyncio.sleep(0)


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _told(shape: Shape) -> str:
    """A shape as tests read it: the delay, and what else is asked."""
    asked = {"jitter": shape.jitter_ms}
    asked |= {key: getattr(shape, name) for key, name in PLAIN_FIELDS.items()}
    more = [f"{name} {value:g}" for name, value in asked.items() if value]
    return " ".join([f"{shape.delay_ms:.3f}", *more, *(["cut"] if shape.cut else [])])
