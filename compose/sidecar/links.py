"""The links of this node to its peers: what our side does to packets, and the probe of the path.

Two ways shape the packets of a peer's address: kernel netem, and our own process behind NFQUEUE. Law: a peer
of which nothing is asked has no rule at all; a shape means the same with both: a packet leaves after its
delay and its jitter, never before the one that came before it, and then takes its size over the bandwidth.
Rules are by the peer's address, so nobody else's packets are touched. Which one it is, is found by trying it
on the real interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace

import probe
from netem import Netem
from queueing import Nfqueue
from tool import Refused

from replexplorer.core.wire import Flap, LinkState, Shape

CALIBRATION_ADDRESS = "127.77.0.1"
CALIBRATION_DELAY_US = 2000
SHORTEST_DELAY_MS = 0.001
"""A delay that the queue's own overhead makes still needs the queue."""
QUICK = (20, 0.005)
"""Probes and interval in s of the first calibration: an answer is wanted at once."""
THOROUGH = (20, 0.08)
"""Of the later ones: idle in between, as the link is between two commits of one client; the wake from
idle is part of what the queue adds."""
LARGEST_OVERHEAD_US = 150.0
"""What is beyond is the load of the machine while it was measured, not the queue."""
CALIBRATE_AGAIN_S = (1.0, 15.0, 60.0)
"""Servers start on the same cores meanwhile; the smallest thorough figure is the queue's own."""
FLAP_AGAIN_S = 0.5
"""When a cut or an opening that was refused is tried again."""
LEAST_REST_S = 0.001
"""A timer may be a little early."""
BARE_PROBES, BARE_INTERVAL_S, BARE_DEADLINE_S = 8, 0.04, 0.6


Backend = Netem | Nfqueue
"""A way to shape packets by address: `shape`, `stats` and `close` are the same of both."""


async def choose_backend() -> Backend:
    """Netem where the kernel has it, else NFQUEUE; raise Refused with both reasons."""
    try:
        return await Netem.open()
    except Refused as no_netem:
        try:
            return await Nfqueue.open(f"{no_netem}")
        except Refused as no_queue:
            raise Refused(f"{no_netem}; no NFQUEUE either: {no_queue}") from no_queue


class Counts:
    """Packets of a link since the agent started, over rules and queue processes that come and go: each of
    these counts from 0."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter(packets=0, dropped=0, lost=0)
        self._last: dict[str, int] = {}

    def take(self, found: dict[str, int], *, loses: bool) -> None:
        """Count on; where the kernel does not tell which drops were asked for, all are while the shape
        `loses`."""
        now = {name: count for name, count in found.items() if name != "held"}
        if any(now.get(name, 0) < count for name, count in self._last.items()):
            self._last = {}
        since = {name: count - self._last.get(name, 0) for name, count in now.items()}
        if loses and "lost" not in since and "dropped" in since:
            since["lost"] = since.pop("dropped")
        self.total.update(since)
        self._last = now


@dataclass
class Link:
    """Our side of the link to one peer."""

    peer: str
    address: str = ""
    """IPv4; empty until somebody told it."""
    delay_ms: float = 0.0
    """In force; the overhead of the backend is within it, not on top."""
    asked: Shape = field(default_factory=Shape)
    generation: int = field(default_factory=time.time_ns)
    """Grows with each change; told to the peer with each echo."""
    counts: Counts = field(default_factory=Counts)
    counting: asyncio.Lock = field(default_factory=asyncio.Lock)
    loses: bool = False
    """What is in force drops packets because it was asked."""
    window: probe.Window = field(default_factory=probe.Window)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    prober: asyncio.Task[None] | None = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    """The prober is to go on at once."""
    flap: Flap | None = None
    is_down: bool = False
    """The flap cuts it now."""
    flapper: asyncio.Task[None] | None = None
    """Cuts it and opens it."""

    @property
    def is_untouched(self) -> bool:
        """Nothing is asked of it, now or later: no rule is to be there."""
        return self.asked.is_plain and self.flap is None

    @property
    def wanted(self) -> Shape:
        """What is to be in force now."""
        return replace(self.asked, cut=True) if self.is_down else self.asked


class Links:
    """All links of this node."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._backend: Backend | None = None
        self._reason = "not tried yet"
        self._ready = asyncio.Event()
        self._overhead_us = 0.0
        self._socket = probe.Socket()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Answer probes from now on; find the backend meanwhile."""
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._receive)
        task = asyncio.create_task(self._prepare())
        self._tasks.add(task)

    async def _prepare(self) -> None:
        try:
            self._backend = await choose_backend()
            self._reason = self._backend.reason
            self._overhead_us = await self._calibrate(*QUICK)
        except Refused as refusal:
            self._reason = str(refusal)
        finally:
            self._ready.set()
        if self._backend is not None:
            await self._calibrate_again()

    async def _calibrate_again(self) -> None:
        started_s, smallest_us = time.monotonic(), None
        for at_s in CALIBRATE_AGAIN_S:
            await asyncio.sleep(started_s + at_s - time.monotonic())
            with contextlib.suppress(Refused):
                overhead_us = await self._calibrate(*THOROUGH)
                smallest_us = min(overhead_us, smallest_us or overhead_us)
                self._overhead_us = smallest_us
                await self._reinstall()

    @property
    def backend_name(self) -> str | None:
        """`netem`, `nfqueue`, or None when neither works."""
        return self._backend.name if self._backend is not None else None

    async def _calibrate(self, probes: int, interval_s: float) -> float:
        """What the backend itself adds to a delayed packet, one way, in us, measured on the loopback."""
        backend = self._need_backend()
        bare_us = await _loopback_us(probes // 2, interval_s)
        try:
            await backend.shape(CALIBRATION_ADDRESS, Shape(CALIBRATION_DELAY_US / 1000))
            delayed_us = await _loopback_us(probes, interval_s)
        finally:
            await backend.shape(CALIBRATION_ADDRESS, None)
        return min(max(0.0, delayed_us - bare_us - CALIBRATION_DELAY_US), LARGEST_OVERHEAD_US)

    def _need_backend(self) -> Backend:
        if self._backend is None:
            raise Refused(self._reason)
        return self._backend

    async def _reinstall(self) -> None:
        for link in self._links.values():
            async with link.turn:
                if link.delay_ms and link.address:
                    await self._shape(link, link.wanted)

    def _link(self, peer: str) -> Link:
        return self._links.setdefault(peer, Link(peer))

    async def _shape(self, link: Link, wanted: Shape) -> float:
        """Install a shape, the delay less our own overhead; answers the delay in force."""
        overhead_ms = self._overhead_us / 1000 if wanted.delay_ms > 0 else 0.0
        held: Shape | None = wanted
        if wanted.delay_ms > 0:
            held = replace(wanted, delay_ms=max(SHORTEST_DELAY_MS, wanted.delay_ms - overhead_ms))
        elif wanted.is_plain and link.flap is None:
            # The band of a link that flaps stays, for netem drops what it holds when it goes.
            held = None
        await self._count(link)
        await self._need_backend().shape(link.address, held)
        if link.loses:
            await self._count(link)  # what was lost until just now was asked for
        link.loses = wanted.loses
        return max(wanted.delay_ms, round(overhead_ms, 3))

    async def _count(self, link: Link) -> None:
        """Count the link's packets on."""
        if self._backend is None or not link.address:
            return
        async with link.counting:  # an answer that another overtook would look like a fresh start
            try:
                found = await self._backend.stats(link.address)
            except Refused:
                return
            link.counts.take(found, loses=link.loses)

    async def _install(self, link: Link, asked: Shape) -> None:
        before, link.asked = link.asked, asked
        try:
            link.delay_ms = await self._shape(link, link.wanted)
        except Refused:
            link.asked = before
            raise
        link.generation = max(link.generation + 1, time.time_ns())
        self.measure_anew(link.peer)

    async def _move(self, link: Link, address: str) -> None:
        """The peer has another address now: the rule goes with it, and the path is unknown."""
        if link.address in ("", address):
            link.address = address
            return
        old, link.address = link.address, address
        link.window = probe.Window()
        if not link.is_untouched and self._backend is not None:
            await self._backend.shape(old, None)
            await self._install(link, link.asked)

    async def set(self, peer: str, address: str, asked: Shape) -> LinkState:
        """Put in force what is asked of our side and answer the link's state."""
        await self._ready.wait()
        link = self._link(peer)
        async with link.turn:
            await self._move(link, address)
            await self._install(link, asked)
        return await self.state(peer)

    async def flap(self, peer: str, address: str, flap: Flap | None) -> LinkState:
        """Let our side go down and up by the clock from now on, or no more; answers the link's state."""
        await self._ready.wait()
        link = self._link(peer)
        async with link.turn:
            await self._move(link, address)
            before = link.flap
            self._begin_flap(link, flap)
            try:
                await self._install(link, link.asked)
            except Refused:
                self._begin_flap(link, before)
                raise
        return await self.state(peer)

    def _begin_flap(self, link: Link, flap: Flap | None) -> None:
        """Go on with this flap, or none, in the link's turn; nothing is installed."""
        if link.flapper is not None:
            link.flapper.cancel()  # it waits, or sleeps: the turn is ours
            link.flapper = None
        link.flap, link.is_down = flap, flap is not None and flap.phase(time.time())[0]
        if flap is not None:
            link.flapper = asyncio.create_task(self._keep_flapping(link, flap))
            self._tasks.add(link.flapper)
            link.flapper.add_done_callback(self._tasks.discard)

    async def _keep_flapping(self, link: Link, flap: Flap) -> None:
        """Cut and open when it is time; what was refused is tried again."""
        while True:
            is_down, rest_s = flap.phase(time.time())
            if is_down != link.is_down:
                async with link.turn:
                    link.is_down = is_down
                    try:
                        await self._shape(link, link.wanted)
                        continue  # which took a while
                    except Refused as refusal:
                        link.is_down = not is_down
                        sys.stderr.write(f"agent: the link to {link.peer} does not flap: {refusal}\n")
                rest_s = min(rest_s, FLAP_AGAIN_S)
            await asyncio.sleep(max(rest_s, LEAST_REST_S))

    async def watch(self, peer: str, address: str) -> LinkState:
        """Probe the peer from now on, the bare path first; answers when that is known or in time."""
        await self._ready.wait()
        link = self._link(peer)
        async with link.turn:
            await self._move(link, address)
            if link.prober is None:
                if link.asked.is_plain:
                    await self._probe_bare(link)
                link.prober = asyncio.create_task(self._probe(link))
                self._tasks.add(link.prober)
        return await self.state(peer)

    async def _probe_bare(self, link: Link) -> None:
        """A burst at an idle link's pace, until half of it is answered."""
        link.window.restart(time.monotonic(), 0.0)
        for _ in range(BARE_PROBES):
            self._socket.ask(link.window.send(time.monotonic()), link.address)
            await asyncio.sleep(BARE_INTERVAL_S)
        for _ in range(round(BARE_DEADLINE_S / BARE_INTERVAL_S)):
            if link.window.answered >= BARE_PROBES // 2:
                break
            await asyncio.sleep(BARE_INTERVAL_S)

    async def _probe(self, link: Link) -> None:
        while True:
            now_s = time.monotonic()
            self._socket.ask(link.window.send(now_s), link.address)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(link.window.interval_s(now_s)):
                    await link.woken.wait()
            link.woken.clear()

    def measure_anew(self, peer: str) -> None:
        """Forget what was measured: a probe from before both ends changed says nothing."""
        link = self._link(peer)
        link.window.restart(time.monotonic(), link.delay_ms)
        link.woken.set()

    def _receive(self) -> None:
        for packet in self._socket.received():
            link = next((link for link in self._links.values() if link.address == packet.sender[0]), None)
            if packet.asks:
                delay_ms = link.delay_ms if link else 0.0
                self._socket.answer(packet, generation=link.generation if link else 0, delay_ms=delay_ms)
            elif link is not None and (echo := self._socket.echo(packet)) is not None:
                generation = link.window.peer_generation
                link.window.take(echo, time.monotonic(), link.delay_ms)
                if generation != link.window.peer_generation:
                    link.woken.set()

    async def state(self, peer: str, *, anew: bool = False) -> LinkState:
        """What is in force on our side and what the probe of the peer has measured; `anew` forgets that."""
        if anew:
            self.measure_anew(peer)
        await self._ready.wait()
        link = self._links.get(peer, Link(peer))
        await self._count(link)
        window = link.window
        return LinkState(
            peer=peer,
            backend=self.backend_name,
            backend_reason=self._reason,
            holds=self._backend.holds if self._backend is not None else None,
            shape=replace(link.asked, delay_ms=link.delay_ms),
            base_ms=_rounded(window.base_ms),
            overhead_ms=round(self._overhead_us / 1000, 4),
            measured_ms=_rounded(window.measured_ms()),
            probes=window.answered,
            lost=window.lost(time.monotonic(), link.delay_ms),
            dropped=link.counts.total["dropped"],
            flap=link.flap,
            is_down=link.is_down,
        )

    async def packets(self) -> dict[str, int]:
        """Counts over all links (`wire.Health`)."""
        await self._ready.wait()
        counts: Counter[str] = Counter(packets=0, dropped=0, lost=0)
        for link in self._links.values():
            await self._count(link)
            counts.update(link.counts.total)
        return dict(counts)

    async def close(self) -> None:
        """Stop probing and take all rules away."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        if self._backend is not None:
            with contextlib.suppress(Refused):
                await self._backend.close()


def _rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, 4)


async def _loopback_us(probes: int, interval_s: float) -> float:
    """One-way time of a datagram to the calibration address, in us: the lower quartile, for what else
    runs on the machine only adds."""
    times_us = []
    with probe.stamped_socket(CALIBRATION_ADDRESS, 0) as sock:
        try:
            for number in range(probes):
                sent_ns = time.time_ns()
                sock.sendto(number.to_bytes(4, "big"), sock.getsockname())
                async with asyncio.timeout(1.0):
                    await asyncio.get_running_loop().sock_recv(sock, 256)
                times_us.append((time.time_ns() - sent_ns) / 1000)
                await asyncio.sleep(interval_s)
        except (TimeoutError, OSError) as error:
            raise Refused("a delayed packet did not come back on the loopback") from error
    return statistics.quantiles(times_us)[0]
