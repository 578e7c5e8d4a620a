"""Delay by the kernel: prio, a filter by the peer's address, netem."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import netem
from tool import Refused, must, run

DRAIN_POLL_S = 0.002
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


class Netem:
    """The kernel holds the packets."""

    name = "netem"
    delays = "sent"
    reason = "kernel netem answers"

    def __init__(self) -> None:
        self._slots: dict[tuple[str, str], int] = {}
        self._holds: dict[str, int] = {}
        self._rooted: set[str] = set()
        self._past: dict[str, dict[str, int]] = {}

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
                netem.delay_argv(device, 0, 0),
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

    async def hold(self, address: str, hold_us: int | None) -> None:
        """Band, netem and filter for an address; the filter goes last in and, when empty, first out."""
        device = await device_to(address)
        key = (device, address)
        if hold_us is not None:
            if device not in self._rooted:
                await must(netem.root_argv(device))
                self._rooted.add(device)
            slot = self._slots.get(key)
            if slot is not None:
                await must(netem.delay_argv(device, slot, hold_us))
            else:
                taken = {s for (d, _), s in self._slots.items() if d == device}
                slot = min(set(range(netem.PEERS)) - taken, default=-1)
                if slot < 0:
                    raise Refused(f"more than {netem.PEERS} peers")
                await must(netem.delay_argv(device, slot, hold_us))
                await must(netem.filter_argv(device, slot, address))
                self._slots[key] = slot
            self._holds[address] = hold_us
        elif key in self._slots:
            slot = self._slots[key]
            await must(netem.delay_argv(device, slot, 0))
            await self._drain(device, slot, self._holds[address])
            self._past[address] = await self.stats(address)
            await must(netem.unfilter_argv(device, slot))
            await must(netem.remove_argv(device, slot))
            del self._slots[key], self._holds[address]
            if not any(d == device for d, _ in self._slots):
                await must(netem.clear_argv(device))
                self._rooted.discard(device)

    async def _drain(self, device: str, slot: int, hold_us: int) -> None:
        """Wait until nothing is held: netem keeps a packet's due time, and removal would drop it."""
        for _ in range(round((hold_us / 1e6 + 0.1) / DRAIN_POLL_S)):
            if not await self._held(device, slot):
                break
            await asyncio.sleep(DRAIN_POLL_S)

    async def _held(self, device: str, slot: int) -> int:
        counts = netem.stats(await must(netem.stats_argv(device)))
        return counts.get(slot, {}).get("held", 0)

    async def stats(self, address: str) -> dict[str, int]:
        """Counts since the agent started."""
        past = self._past.get(address, {})
        now: dict[str, int] = {}
        for (device, peer), slot in self._slots.items():
            if peer == address:
                now = netem.stats(await must(netem.stats_argv(device))).get(slot, {})
        total = {name: past.get(name, 0) + now.get(name, 0) for name in ("packets", "dropped")}
        return {**total, "held": now.get("held", 0)}

    async def health(self) -> dict[str, Any]:
        """The kernel does the work: nothing to tell."""
        return {}

    async def close(self) -> None:
        """Take everything away."""
        for device in self._rooted:
            await run(netem.clear_argv(device))
