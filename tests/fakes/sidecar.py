"""A sidecar's agent as a model, and `ports.Agent` over it.

A request is carried out by the sidecar whether or not the caller still waits, as over a real bridge.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

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
from tests.fakes.clock import VirtualClock
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

T = TypeVar("T")


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
        now_s = asyncio.get_running_loop().time()
        flowed_s = 0.0 if self.flows_from_s is None else max(0.0, now_s - self.flows_from_s)
        return self.heard + int(flowed_s + 1e-9)

    def set_flow(self, flows: bool, after_s: float) -> None:
        """It is cut, or it is not any more and flows a moment later."""
        if flows == (self.flows_from_s is not None):
            return
        self.heard = self.heartbeats()
        self.flows_from_s = asyncio.get_running_loop().time() + after_s if flows else None


class FakeSidecar:
    """The agent of one node; a restart loses its delays and its probes."""

    shim = True
    """The node's server runs with the shim."""
    probed: DiskProbe | None = None
    boots = 0
    """Its health names the run; an agent from before knows none."""
    answers_late_s = 0.0
    """Between the reading of its health and the answer's arrival: a busy machine."""

    def __init__(self, node: str, world: World) -> None:
        self.node = node
        self._world, self._links, self._document = world, world.links, world.document
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
        self.booted_s = asyncio.get_running_loop().time()
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
        self.fsync_delay_ms = self.stall_ms = 0.0
        self.undo_journal = self.disk_full = False
        self.own_delays_ms: dict[str, float | Literal["auto"]] = dict.fromkeys(("redo", "binlog"), "auto")
        self.fsync_jitter_ms = 0.0
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

    def health(self) -> Health:
        """Of a machine of four cores."""
        now_s = asyncio.get_running_loop().time()
        return Health(
            node=self.node,
            boot=f"{self.node} {self.boots}",
            uptime_s=now_s - self.booted_s,
            volumes={"data": Volume(100 << 30, self.free_bytes)},
            footprint_bytes=self.footprint_bytes,
            machine_cores=4,
            machine_busy_s=None if self.machine_share is None else 4 * now_s * self.machine_share,
        )

    @property
    def delays(self) -> dict[str, float]:
        """Peer to the one-way delay in force."""
        return {peer: shape.delay_ms for peer, shape in self.shapes.items() if shape.delay_ms}

    def _link_of(self, peer: str) -> FakeLink:
        return self._links[link_key(self.node, peer)]

    def state(self, peer: str) -> LinkState:
        """This side of the link."""
        rtt_ms = BASE_MS + (
            self._world.total_delay_ms(link_key(self.node, peer)) if self._link_of(peer).rules_hold else 0.0
        )
        since_s = asyncio.get_running_loop().time() - self._link_of(peer).changed_s
        answered = max(0, int((since_s - rtt_ms / 1000) / PROBE_EVERY_S)) if peer in self.watched else 0
        if self._link_of(peer).flows_from_s is None:
            answered = 0
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

    def _change(self, what: str) -> None:
        if (trouble := self._world.changing(self.node, what)) is not None:
            raise StackUnavailable(f"the agent of {self.node} failed, {trouble}")

    def set_link(self, peer: str, shape: Shape) -> LinkState:
        """Put a shape in force."""
        self._change(f"link {peer} {_told(shape)}")
        self.shapes[peer] = shape
        self._link_of(peer).changed_s = asyncio.get_running_loop().time()
        self._world.shaped(self.node, peer)
        return self.state(peer)

    def set_flap(self, peer: str, flap: Flap | None) -> LinkState:
        """Go down and up by the clock."""
        self._change(f"flap {peer}")
        self.flaps.pop(peer, None)
        if flap is not None:
            self.flaps[peer] = flap
        self._link_of(peer).changed_s = asyncio.get_running_loop().time()
        return self.state(peer)

    def disk(self) -> DiskState:
        """The disk: an fsync takes 0.2 ms and the delay."""
        shows = self.shim and self.fsynced_from_s is not None
        return DiskState(
            attached=self.shim,
            reason=None if self.shim else "the server runs without the fsync shim",
            delay_ms=self.fsync_delay_ms if self.shim else None,
            stall_ms=self.stall_ms if self.shim else None,
            undo_journal=self.undo_journal if self.shim else None,
            full=self.disk_full if self.shim else None,
            fsyncs={"redo": 1, "binlog": 1, "relay": 0, "data": 0, "other": 0},
            measured_ms=0.2 + self.fsync_delay_ms + self.stall_ms if shows else None,
            probe=self.probed,
            redo_delay_ms=self.own_delays_ms["redo"] if self.shim else None,
            binlog_delay_ms=self.own_delays_ms["binlog"] if self.shim else None,
            jitter_ms=self.fsync_jitter_ms if self.shim else None,
        )

    def set_disk(self, asked: SetDisk) -> DiskState:
        """Put what is asked in force."""
        if not self.shim:
            raise MissingPiece(f"the sidecar of {self.node} cannot do that, no shim")
        own = {"redo": asked.redo_delay_ms, "binlog": asked.binlog_delay_ms}
        kept: dict[str, tuple[str, float | None]] = {
            "fsync_delay_ms": ("fsync", asked.delay_ms),
            "fsync_jitter_ms": ("fsync jitter", asked.jitter_ms),
            "undo_journal": ("journal", asked.undo_journal),
            "disk_full": ("full", asked.full),
            "stall_ms": ("stall", asked.stall_ms),
        }
        words = [
            *(f"{kind} fsync {own_ms}" for kind, own_ms in own.items() if own_ms is not None),
            *(f"{word} {_written(value)}" for word, value in kept.values() if value is not None),
        ]
        self._change(", ".join(words))
        self.own_delays_ms |= {kind: own_ms for kind, own_ms in own.items() if own_ms is not None}
        for name, (_, value) in kept.items():
            if value is not None:
                setattr(self, name, value)
        return self.disk()

    def read(self) -> Document:
        """The document."""
        return Document(self._document.version, copy.deepcopy(self._document.content))

    def write(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """Compare and set."""
        self._change("write document")
        if self._document.version != expect_version:
            return None
        self._document.version += 1
        self._document.content = copy.deepcopy(dict(content))
        return self.read()

    def drop(self, agent: FakeAgent) -> None:
        """A bridge ended."""
        self._bridges.discard(agent)
        agent.ended.set()
        self._waiting.discard(agent)
        self._places.lose(agent)

    def answer(self, agent: FakeAgent, request: wire.Request[Any]) -> Any:
        """What it does at once."""
        match request:
            case wire.AskLink(peer, anew):
                if anew:  # it begins to measure now
                    self._link_of(peer).changed_s = asyncio.get_running_loop().time()
                return self.state(peer)
            case wire.SetLink(peer, _, shape):
                return self.set_link(peer, shape)
            case wire.SetFlap(peer, _, flap):
                return self.set_flap(peer, flap)
            case wire.AskDisk(probe):
                self.probed = DiskProbe(0.1, 0.2, 0.3, 1000) if probe else self.probed
                return self.disk()
            case wire.SetDisk():
                return self.set_disk(request)
            case wire.Watch(peer, address):
                if peer not in self.watched:
                    self.watched.add(peer)
                    self._link_of(peer).changed_s = asyncio.get_running_loop().time()
                self.addresses[peer] = address
                return self.state(peer)
            case wire.AskDocument():
                return self.read()
            case wire.WriteDocument(content, expected):
                return wire.Written(self.write(expected, content))
            case wire.AskHolder(place):
                return AGENT._held(agent, place, self._places.holder(place))
            case wire.Leave(place):
                if place == wire.TURN:
                    self._waiting.discard(agent)
                return self._places.leave(place, agent.token)
        return self.health()

    async def take(self, agent: FakeAgent, asked: wire.Take) -> wire.Held:
        """As the agent does it."""
        return cast(wire.Held, await AGENT.Server._take(self, agent, asked))


class FakeAgent(Agent):
    """One app's bridge to one sidecar (`ports.Agent`)."""

    def __init__(self, sidecar: FakeSidecar, pid: int) -> None:
        self.node = sidecar.node
        self.sidecar = sidecar
        self.pid = pid
        self.token = str(pid)
        self.ended = asyncio.Event()
        self.ended.set()

    async def _call(self, op: str, act: Callable[[], T]) -> T:
        if not self.sidecar.running:
            await asyncio.sleep(BRIDGE_S)
            raise StackUnavailable(f"no agent on {self.node}", "run `replexplorer up` to repair the stack")
        if self not in self.sidecar._bridges:
            await asyncio.sleep(BRIDGE_S + self.sidecar.slow_s)
            self.sidecar._bridges.add(self)
            self.ended.clear()
        return await asyncio.shield(asyncio.create_task(self._serve(op, act), name="server call"))

    async def _serve(self, op: str, act: Callable[[], T]) -> T:
        await asyncio.sleep(CALL_S / 2)
        if not self.sidecar.running:
            raise StackUnavailable(f"the bridge to {self.node} was lost")
        if op in self.sidecar.refusals:
            raise self.sidecar.refusals[op]
        told = act()
        await asyncio.sleep(CALL_S / 2)
        return told

    async def ask(self, request: wire.Request[Any]) -> Any:
        """See `ports.Agent`."""
        assert getattr(request, "address", "none is asked for"), "a rule needs the peer's address"
        if isinstance(request, wire.Take):
            return await self._ask_for_place(request)
        told = await self._call(request.op, lambda: self.sidecar.answer(self, request))
        if isinstance(request, wire.AskHealth):
            await asyncio.sleep(self.sidecar.answers_late_s)
        return told

    async def _ask_for_place(self, asked: wire.Take) -> wire.Held:
        asked = replace(asked, wish=replace(asked.wish, pid=self.pid, host="here"))
        taking = await self._call(
            asked.op, lambda: asyncio.create_task(self.sidecar.take(self, asked), name="server take")
        )
        try:
            return await asyncio.shield(taking)
        except AGENT.Rejected:
            raise StackUnavailable(f"the bridge to {self.node} was lost") from None

    async def until_lost(self) -> None:
        """See `ports.Agent`."""
        await self.ended.wait()

    async def close(self) -> None:
        """End the bridge."""
        self.sidecar.drop(self)
        await asyncio.sleep(0)


def _written(value: float) -> str:
    return str(value) if isinstance(value, bool) else f"{value:g}"


def _told(shape: Shape) -> str:
    """A shape as tests read it: the delay, and what else is asked."""
    asked = {"jitter": shape.jitter_ms}
    asked |= {key: getattr(shape, name) for key, name in PLAIN_FIELDS.items()}
    more = [f"{name} {value:g}" for name, value in asked.items() if value]
    return " ".join([f"{shape.delay_ms:.3f}", *more, *(["cut"] if shape.cut else [])])
