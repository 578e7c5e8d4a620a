"""Shaping by the kernel: prio, a filter by the peer's address, netem.

Law: no packet is dropped that nobody asked to drop. So the bands stay in place as long as the agent
lives, for another discipline at an interface's root drops what is sent meanwhile; a netem goes when it
is empty and its filter is gone; and what an agent before us left is taken over as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import netem
from tool import Refused, run
from wire import Shape

DRAIN_POLLS, SHORTEST_POLL_S = 10, 0.002
"""A release is waited for with about this many looks at the counters."""
DRAIN_SLACK_S = 0.1
DRAIN_LATER_POLL_S = 0.05
MOST_DEVIATIONS = 4
"""Of jitter in the table of the normal distribution."""
CLAIM_S = 3.0
"""An agent asks at once for all that it remembers. What nobody has asked for by then, nobody asks for."""
PROBE_ADDRESS = "127.77.0.2"
PROBE_SLOT = netem.PEERS - 1


async def _must(argv: list[str]) -> str:
    """Run `tc` or `ip`; raise Refused with the diagnosis."""
    status, out, err = await run(argv)
    if status:
        raise Refused(netem.refusal(err or out))
    return out


async def device_to(address: str) -> str:
    """The interface by which packets to an address leave; raise Refused."""
    routes: list[dict[str, Any]] = json.loads(await _must(["ip", "-j", "route", "get", address]))
    return str(routes[0]["dev"])


def first_interface() -> str:
    """The container's own interface; raise Refused when there is none."""
    names = sorted(entry.name for entry in Path("/sys/class/net").iterdir() if entry.name != "lo")
    if not names:
        raise Refused("no such interface: the container has none but the loopback")
    return next((name for name in names if name.startswith("eth")), names[0])


@dataclass
class Band:
    """A peer's place in the tree of one device."""

    device: str
    slot: int
    shape: Shape
    lost: int = 0
    """Drops under shapes that asked for loss, for kernels that count both kinds as one."""
    seen_drops: int = 0
    """The kernel's figure when the shape changed last."""
    before: dict[str, int] = field(default_factory=dict)
    """The kernel's counters when we took over an older agent's band."""


class Netem:
    """The kernel holds the packets."""

    name = "netem"
    holds: Literal["sent", "received"] = "sent"
    reason = "kernel netem answers"

    def __init__(self) -> None:
        self._bands: dict[str, Band] = {}
        self._rooted: set[str] = set()
        self._past: dict[str, dict[str, int]] = {}
        self._turn = asyncio.Lock()
        self._unclaimed: set[str] = set()
        """Whose bands an agent before us left and nobody has asked for since."""
        self._claims: asyncio.Task[None] | None = None
        self._ending: dict[str, asyncio.Task[None]] = {}
        """Bands without a shape that go when nothing is held in them."""

    @classmethod
    async def open(cls) -> tuple[Netem, bool]:
        """Put the bands in place and try all of it once on the container's own interface.

        Answers whether an agent before us left its bands there. Raise Refused with the diagnosis.
        """
        kernel = cls()
        device = first_interface()
        listing = await _must(netem.stats_argv(device))
        left = netem.is_ours(listing)
        try:
            await kernel._root(device)
            await _must(netem.shape_argv(device, PROBE_SLOT, Shape()))
            await _must(netem.filter_argv(device, PROBE_SLOT, PROBE_ADDRESS))
            await _must(netem.unfilter_argv(device, PROBE_SLOT))
            await _must(netem.remove_argv(device, PROBE_SLOT))
            if left:
                await kernel._take_over(device, listing)
        except Refused:
            await run(netem.clear_argv(device))
            raise
        return kernel, left

    async def _root(self, device: str) -> None:
        """Put the bands in place; where they are, nothing happens, and what is in the way goes."""
        status, _, err = await run(netem.root_argv(device))
        if status and netem.diagnosis(err) == netem.LEFTOVER:
            await _must(netem.clear_argv(device))
            await _must(netem.root_argv(device))
        elif status:
            raise Refused(netem.refusal(err))
        self._rooted.add(device)

    async def _take_over(self, device: str, listing: str) -> None:
        """Know the bands that are there; those that nobody claims are taken away later."""
        addresses = netem.addresses(await _must(netem.filters_argv(device)))
        shapes, counts = netem.shapes(listing), netem.stats(listing)
        for slot, address in addresses.items():
            if slot in shapes and address != PROBE_ADDRESS:
                self._bands[address] = Band(device, slot, shapes[slot], before=counts[slot])
        self._unclaimed = set(self._bands)
        self._claims = asyncio.create_task(self._end_unclaimed())

    async def _end_unclaimed(self) -> None:
        await asyncio.sleep(CLAIM_S)
        while self._unclaimed:
            with contextlib.suppress(Refused):
                await self.shape(self._unclaimed.pop(), None)

    async def shape(self, address: str, shape: Shape | None) -> None:
        """Band, netem and filter for an address; None takes them away.

        Returns when the shape is in force: a packet that is held keeps its due time, and those that are
        sent after a fall of the delay wait behind it.
        """
        async with self._turn:
            self._unclaimed.discard(address)
            self._ending.pop(address, None)
            if (band := self._bands.get(address)) is None:
                if shape is not None:
                    self._bands[address] = await self._install(address, shape)
                return
            old, new = band.shape, shape or Shape()
            try:
                await self._change(band, new)
            except Refused:
                if netem.is_ours((await run(netem.stats_argv(band.device)))[1]):
                    raise
                # The interface is another one now, with none of our bands.
                self._bands = {a: b for a, b in self._bands.items() if b.device != band.device}
                if shape is not None:
                    self._bands[address] = await self._install(address, shape)
                return
        if new.cut:
            return
        fall_s = (old.delay_us + MOST_DEVIATIONS * old.jitter_us - new.delay_us) / 1e6
        empty = fall_s <= 0 or await self._released(band, fall_s + (DRAIN_SLACK_S if shape is None else 0))
        if shape is None and not (empty and await self._remove(address, band, new)):
            # What waits for bandwidth may take long.
            self._ending[address] = asyncio.create_task(self._remove_later(address, band, new))

    async def _released(self, band: Band, within_s: float) -> bool:
        """Wait until nothing is held, at most so long; whether nothing is."""
        poll_s = max(SHORTEST_POLL_S, within_s / DRAIN_POLLS)
        ends_s = asyncio.get_running_loop().time() + within_s
        while held := await self._held(band):
            if asyncio.get_running_loop().time() >= ends_s:
                break
            await asyncio.sleep(poll_s)
        return not held

    async def _remove_later(self, address: str, band: Band, ended: Shape) -> None:
        while self._ending.get(address) is asyncio.current_task():
            with contextlib.suppress(Refused):
                if await self._remove(address, band, ended):
                    self._ending.pop(address, None)
            await asyncio.sleep(DRAIN_LATER_POLL_S)

    async def _install(self, address: str, shape: Shape) -> Band:
        device = await device_to(address)
        await self._root(device)
        taken = {band.slot for band in self._bands.values() if band.device == device}
        slot = min(set(range(netem.PEERS)) - taken, default=-1)
        if slot < 0:
            raise Refused(f"more than {netem.PEERS} peers")
        await _must(netem.shape_argv(device, slot, shape))
        await _must(netem.filter_argv(device, slot, address))
        return Band(device, slot, shape)

    async def _change(self, band: Band, shape: Shape) -> None:
        # Read while nothing is lost on purpose: what a cut takes at once is no drop of ours.
        drops = 0 if band.shape.loses else (await self._counts(band)).get("dropped", 0)
        await _must(netem.shape_argv(band.device, band.slot, shape))
        if band.shape.loses:
            drops = (await self._counts(band)).get("dropped", 0)
            band.lost += drops - band.seen_drops
        band.seen_drops = drops
        band.shape = shape

    async def _remove(self, address: str, band: Band, ended: Shape) -> bool:
        """Filter first, then the netem, which must be empty; whether they are gone, or ours no more."""
        async with self._turn:
            if self._bands.get(address) is not band or band.shape is not ended:
                return True
            if await self._held(band):
                return False
            past = await self.stats(address)
            await _must(netem.unfilter_argv(band.device, band.slot))
            self._past[address] = past
            del self._bands[address]
            await self._released(band, DRAIN_SLACK_S)
            await _must(netem.remove_argv(band.device, band.slot))
            return True

    async def _held(self, band: Band) -> int:
        return (await self._counts(band)).get("held", 0)

    async def _counts(self, band: Band) -> dict[str, int]:
        counts = netem.stats(await _must(netem.stats_argv(band.device))).get(band.slot, {})
        return {
            name: count - (band.before.get(name, 0) if name != "held" else 0)
            for name, count in counts.items()
        }

    async def stats(self, address: str) -> dict[str, int]:
        """Counts since the agent started. Where the kernel does not tell which drops were asked for, all
        those under a shape that asks for loss are."""
        total = dict.fromkeys(("packets", "dropped", "lost", "held"), 0)
        if (band := self._bands.get(address)) is not None:
            counts = await self._counts(band)
            if "lost" not in counts:
                lost = band.lost + (counts.get("dropped", 0) - band.seen_drops if band.shape.loses else 0)
                counts |= {"lost": lost, "dropped": counts.get("dropped", 0) - lost}
            total |= counts
        past = self._past.get(address, {})
        return {name: count + (past.get(name, 0) if name != "held" else 0) for name, count in total.items()}

    async def health(self) -> dict[str, Any]:
        """The kernel does the work: nothing to tell."""
        return {}

    async def close(self) -> None:
        """Take everything away."""
        if self._claims is not None:
            self._claims.cancel()
        async with self._turn:
            self._ending.clear()
            for device in self._rooted:
                await run(netem.clear_argv(device))
