"""Shaping by the kernel: prio, a filter by the peer's address, netem."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netem
from shape import Shape
from tool import Refused, must, run

DRAIN_POLL_S = 0.002
DRAIN_SLACK_S = 0.1
DRAIN_LATER_POLL_S = 0.05
PROBE_ADDRESS = "127.77.0.2"


async def device_to(address: str) -> str:
    """The interface by which packets to an address leave."""
    routes: list[dict[str, Any]] = json.loads(await must(["ip", "-j", "route", "get", address]))
    return str(routes[0]["dev"])


def first_interface() -> str:
    """The container's own interface."""
    names = sorted(entry.name for entry in Path("/sys/class/net").iterdir())
    return next(
        (name for name in names if name.startswith("eth")), next(n for n in [*names, "lo"] if n != "lo")
    )


@dataclass
class Band:
    """A peer's place in the tree of one device."""

    device: str
    slot: int
    shape: Shape
    lost: int = 0
    """Drops under shapes that asked for loss; the kernel counts both kinds as one."""
    seen_drops: int = 0
    """The kernel's figure when the shape changed last."""


class Netem:
    """The kernel holds the packets."""

    name = "netem"
    delays = "sent"
    reason = "kernel netem answers"

    def __init__(self) -> None:
        self._bands: dict[str, Band] = {}
        self._rooted: set[str] = set()
        self._past: dict[str, dict[str, int]] = {}
        self._turn = asyncio.Lock()
        self._ending: dict[str, asyncio.Task[None]] = {}
        """Bands without a shape that go when nothing is held in them."""

    @classmethod
    async def open(cls) -> tuple[Netem, bool]:
        """Try all of it on the container's own interface and take it away again.

        Answers whether an agent before us left its bands there. Raise Refused with the diagnosis.
        """
        device = first_interface()
        _, listing, _ = await run(netem.stats_argv(device))
        left = netem.is_ours(listing)
        try:
            for argv in (
                netem.root_argv(device),
                netem.shape_argv(device, 0, Shape()),
                netem.filter_argv(device, 0, PROBE_ADDRESS),
            ):
                status, _, err = await run(argv)
                if status:
                    last = (err.strip().splitlines() or [f"exit status {status}"])[0].removeprefix("Error: ")
                    meaning = netem.diagnosis(err)
                    words = {netem.NO_NETEM: "kernel has no netem", netem.NO_PERMISSION: "no NET_ADMIN"}
                    raise Refused(f"{words.get(meaning, 'netem does not work')}: {last.rstrip('.')}")
        finally:
            await run(netem.clear_argv(device))
        return cls(), left

    async def shape(self, address: str, shape: Shape | None) -> None:
        """Band, netem and filter for an address; the filter goes last in and, when empty, first out."""
        async with self._turn:
            self._ending.pop(address, None)
            band = self._bands.get(address)
            if shape is not None:
                if band is None:
                    self._bands[address] = await self._install(address, shape)
                else:
                    await self._change(band, shape)
            elif band is not None:
                await self._end(address, band)

    async def _end(self, address: str, band: Band) -> None:
        """Take a band away when it is empty: what is held keeps its due time, and removal would drop it.
        What waits for bandwidth may take long, so that goes on behind the caller's back."""
        polls = round(((band.shape.hold_us + 3 * band.shape.jitter_us) / 1e6 + DRAIN_SLACK_S) / DRAIN_POLL_S)
        await self._change(band, Shape())
        for _ in range(polls):
            if not await self._held(band):
                await self._remove(address)
                return
            await asyncio.sleep(DRAIN_POLL_S)
        self._ending[address] = asyncio.create_task(self._end_later(address))

    async def _end_later(self, address: str) -> None:
        while True:
            await asyncio.sleep(DRAIN_LATER_POLL_S)
            async with self._turn:
                if self._ending.get(address) is not asyncio.current_task():
                    return
                with contextlib.suppress(Refused):
                    if not await self._held(self._bands[address]):
                        await self._remove(address)
                        del self._ending[address]
                        return

    async def _install(self, address: str, shape: Shape) -> Band:
        device = await device_to(address)
        if device not in self._rooted:
            await must(netem.root_argv(device))
            self._rooted.add(device)
        taken = {band.slot for band in self._bands.values() if band.device == device}
        slot = min(set(range(netem.PEERS)) - taken, default=-1)
        if slot < 0:
            raise Refused(f"more than {netem.PEERS} peers")
        await must(netem.shape_argv(device, slot, shape))
        await must(netem.filter_argv(device, slot, address))
        return Band(device, slot, shape)

    async def _change(self, band: Band, shape: Shape) -> None:
        await must(netem.shape_argv(band.device, band.slot, shape))
        drops = (await self._counts(band)).get("dropped", 0)
        if band.shape.cut or band.shape.loss_percent:
            band.lost += drops - band.seen_drops
        band.seen_drops = drops
        band.shape = shape

    async def _remove(self, address: str) -> None:
        band = self._bands[address]
        self._past[address] = await self.stats(address)
        await must(netem.unfilter_argv(band.device, band.slot))
        await must(netem.remove_argv(band.device, band.slot))
        del self._bands[address]
        if not any(other.device == band.device for other in self._bands.values()):
            await must(netem.clear_argv(band.device))
            self._rooted.discard(band.device)

    async def _held(self, band: Band) -> int:
        return (await self._counts(band)).get("held", 0)

    async def _counts(self, band: Band) -> dict[str, int]:
        return netem.stats(await must(netem.stats_argv(band.device))).get(band.slot, {})

    async def stats(self, address: str) -> dict[str, int]:
        """Counts since the agent started; drops while loss is asked count as lost."""
        total = dict.fromkeys(("packets", "dropped", "lost", "held"), 0)
        if (band := self._bands.get(address)) is not None:
            counts = await self._counts(band)
            drops = counts.get("dropped", 0)
            asked = band.shape.cut or band.shape.loss_percent > 0
            lost = band.lost + (drops - band.seen_drops if asked else 0)
            total = {"packets": counts.get("packets", 0), "dropped": drops - lost, "lost": lost,
                     "held": counts.get("held", 0)}  # fmt: skip
        past = self._past.get(address, {})
        return {name: count + (past.get(name, 0) if name != "held" else 0) for name, count in total.items()}

    async def health(self) -> dict[str, Any]:
        """The kernel does the work: nothing to tell."""
        return {}

    async def close(self) -> None:
        """Take everything away."""
        async with self._turn:
            self._ending.clear()
            for device in self._rooted:
                await run(netem.clear_argv(device))
