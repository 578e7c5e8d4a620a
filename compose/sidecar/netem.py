"""Shaping by the kernel: prio, a filter by the peer's address (u32), netem; and what its refusals mean.

Law: no packet is dropped that nobody asked to drop. So the bands stay in place as long as the agent lives,
for another discipline at an interface's root drops what is sent meanwhile; a netem goes when it is empty and
its filter is gone. Delayed packets take an extra band, so that no packet falls into it by its type of
service; a filter by the peer's address is the only way in. A rate far above any link keeps packets in order
when the delay falls: netem sorts by due time, and only with a rate does a later packet queue behind an
earlier one (sch_netem.c, netem_enqueue). Nothing lets a packet that is held go earlier, and taking its netem
away drops it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tool import Refused, run

from replexplorer.core.wire import Shape

DRAIN_POLLS, SHORTEST_POLL_S = 10, 0.002
"""A release is waited for with about this many looks at the counters."""
DRAIN_SLACK_S = 0.1
DRAIN_LATER_POLL_S = 0.05
MOST_DEVIATIONS = 4
"""Of jitter in the table of the normal distribution."""
BANDS = 16
FIRST_BAND = 4
"""Bands 1..3 are the ordinary ones of prio."""
PEERS = BANDS - FIRST_BAND + 1
FIRST_HANDLE = 0x40
PRIORITY_MAP = "1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"
"""The kernel's default: packets that no filter takes keep their ordinary bands."""
ORDER_KEEPING_BPS = 100_000_000_000
ROOT = "1:"
PACKETS_PER_S = 20_000
"""For the size of the queue: with too small a limit a delay becomes a bandwidth cap with silent drops."""
SMALLEST_LIMIT = 1000
LIMIT_OF_A_NARROW_LINK = 10_000
"""Packets that wait for bandwidth are bounded by TCP's windows, not by the delay."""
MOST_LOST_PERCENT = 100.0
PROBE_ADDRESS = "127.77.0.2"
PROBE_SLOT = PEERS - 1

NO_DEVICE, NO_BANDS, LEFTOVER = (
    "no such interface",
    "the bands were taken away",
    "somebody else's discipline is in the way",
)
NO_NETEM, NO_PERMISSION, OTHER = "kernel has no netem", "no NET_ADMIN", "netem does not work"

_REFUSALS = (
    ("Specified qdisc kind is unknown", NO_NETEM),
    ("Specified qdisc not found", NO_NETEM),
    ("Specified filter kind", NO_NETEM),
    ("TC classifier not found", NO_NETEM),
    ("Cannot find device", NO_DEVICE),
    ("Network is unreachable", NO_DEVICE),
    ("Failed to find specified qdisc", NO_BANDS),
    ("Failed to find qdisc", NO_BANDS),
    ("Parent Qdisc doesn't exist", NO_BANDS),
    ("Operation not permitted", NO_PERMISSION),
    ("File exists", LEFTOVER),
    ("must match existing qdisc", LEFTOVER),
    ("Exclusivity flag on", LEFTOVER),
    ("Operation not supported", NO_NETEM),
    ("RTNETLINK answers: No such file or directory", NO_NETEM),
)


Rows = list[dict[str, Any]]


def diagnosis(stderr: str) -> str:
    """What a refusal of `tc` or `ip` means, in words."""
    return next((meaning for text, meaning in _REFUSALS if text in stderr), OTHER)


def refusal(stderr: str) -> str:
    """A refusal in one line: what it means, and what the kernel said."""
    said = (stderr.strip().splitlines() or ["it said nothing"])[0].removeprefix("Error: ").rstrip(".")
    return f"{diagnosis(stderr)}: {said}"


async def _must(*argv: str) -> str:
    """Run `tc` or `ip`; raise Refused with the diagnosis."""
    status, out, err = await run([*argv])
    if status:
        raise Refused(refusal(err or out))
    return out


async def _qdisc(verb: str, device: str, *words: str) -> None:
    await _must("tc", "qdisc", verb, "dev", device, *words)


async def _filter(verb: str, device: str, slot: int, *words: str) -> None:
    """A peer's filter: it sends what goes to its address, and nothing else, into its band."""
    place = ("parent", ROOT, "protocol", "ip", "prio", str(10 + slot))
    await _must("tc", "filter", verb, "dev", device, *place, *words)


async def _clear(device: str) -> None:
    """Take everything away; packets then held are dropped."""
    with contextlib.suppress(Refused):
        await _qdisc("del", device, "root")


async def _listing(device: str) -> Rows:
    """All disciplines of a device with their counters."""
    return await _rows("tc", "-s", "-j", "qdisc", "show", "dev", device)


async def _rows(*argv: str) -> Rows:
    """What `tc` or `ip` print as JSON."""
    found: Rows = json.loads(await _must(*argv) or "[]")
    return found


def _place(slot: int) -> tuple[str, ...]:
    """Where a peer's netem is; slots count from 0."""
    return "parent", f"1:{FIRST_BAND + slot:x}", "handle", f"{FIRST_HANDLE + slot:x}:"


async def _install(device: str, slot: int, shape: Shape) -> None:
    """Install or change a peer's shape."""
    jitter = (f"{shape.jitter_us}us", "distribution", "normal") if shape.jitter_us else ()
    lost_percent = MOST_LOST_PERCENT if shape.cut else shape.loss_percent
    loss = ("loss", f"{lost_percent:g}%") if lost_percent else ()
    least = LIMIT_OF_A_NARROW_LINK if shape.bandwidth_bps else SMALLEST_LIMIT
    # Twice what comes within the delay, and what waits for bandwidth.
    limit = max(least, 2 * PACKETS_PER_S * (shape.delay_us + shape.jitter_us) // 1_000_000)
    await _qdisc(
        "replace", device, *_place(slot), "netem", "limit", str(limit), "delay", f"{shape.delay_us}us",
        *jitter, *loss, "rate", f"{shape.bandwidth_bps or ORDER_KEEPING_BPS}bit",
    )  # fmt: skip


async def _take_in(device: str, slot: int, address: str) -> None:
    await _filter(
        "add", device, slot, "u32", "match", "ip", "dst", f"{address}/32",
        "flowid", f"1:{FIRST_BAND + slot:x}",
    )  # fmt: skip


def stats(rows: Rows) -> dict[int, dict[str, int]]:
    """Packets, dropped and held by slot, of a listing.

    `dropped` is all that netem dropped; where the kernel also tells how many of these the shape asked
    for (`lost`), they are taken off.
    """
    found: dict[int, dict[str, int]] = {}
    for slot, row in _netems(rows):
        found[slot] = {"packets": row.get("packets", 0), "dropped": row.get("drops", 0),
                       "held": row.get("qlen", 0)}  # fmt: skip
        if "dropped" in row:
            found[slot] |= {"dropped": row.get("drops", 0) - row["dropped"], "lost": row["dropped"]}
    return found


def is_ours(rows: Rows) -> bool:
    """Whether a listing shows our bands."""
    return any(row.get("kind") == "prio" and row.get("handle") == ROOT for row in rows)


def _netems(rows: Rows) -> Iterator[tuple[int, dict[str, Any]]]:
    for row in rows:
        if row.get("kind") == "netem" and row.get("handle", "").endswith(":"):
            slot = int(row["handle"][:-1], 16) - FIRST_HANDLE
            if 0 <= slot < PEERS:
                yield slot, row


async def _has_bands(device: str) -> bool:
    """Whether our bands are there; not where the device is gone."""
    with contextlib.suppress(Refused):
        return is_ours(await _listing(device))
    return False


async def device_to(address: str) -> str:
    """The interface by which packets to an address leave; raise Refused."""
    return str((await _rows("ip", "-j", "route", "get", address))[0]["dev"])


def first_interface() -> str:
    """The container's own interface; raise Refused when there is none."""
    names = sorted(entry.name for entry in Path("/sys/class/net").iterdir() if entry.name.startswith("eth"))
    if not names:
        raise Refused("no such interface: the container has none but the loopback")
    return names[0]


@dataclass
class Band:
    """A peer's place in the tree of one device."""

    device: str
    slot: int
    shape: Shape


class Netem:
    """The kernel holds the packets."""

    name = "netem"
    holds: Literal["sent", "received"] = "sent"
    reason = "kernel netem answers"

    def __init__(self) -> None:
        self._bands: dict[str, Band] = {}
        self._rooted: set[str] = set()
        self._turn = asyncio.Lock()
        self._ending: dict[str, asyncio.Task[None]] = {}
        """Bands without a shape that go when nothing is held in them."""

    @classmethod
    async def open(cls) -> Netem:
        """Put the bands in place, those of an agent before us taken away, and try all of it once on the
        container's own interface. Raise Refused with the diagnosis."""
        kernel, device = cls(), first_interface()
        await _clear(device)
        try:
            await kernel._root(device)
            await _install(device, PROBE_SLOT, Shape())
            await _take_in(device, PROBE_SLOT, PROBE_ADDRESS)
            await _filter("del", device, PROBE_SLOT)
            await _qdisc("del", device, *_place(PROBE_SLOT))
        except Refused:
            await _clear(device)
            raise
        return kernel

    async def _root(self, device: str) -> None:
        """Put the bands in place; where they are, nothing happens, and what is in the way goes."""
        bands = ("root", "handle", ROOT, "prio", "bands", str(BANDS), "priomap", *PRIORITY_MAP.split())
        try:
            await _qdisc("replace", device, *bands)
        except Refused as refused:
            if not str(refused).startswith(LEFTOVER):
                raise
            await _qdisc("del", device, "root")
            await _qdisc("replace", device, *bands)
        self._rooted.add(device)

    async def shape(self, address: str, shape: Shape | None) -> None:
        """Band, netem and filter for an address; None takes them away.

        Returns when the shape is in force: a packet that is held keeps its due time, and those that are
        sent after a fall of the delay wait behind it.
        """
        async with self._turn:
            self._ending.pop(address, None)
            if (band := self._bands.get(address)) is None:
                if shape is not None:
                    self._bands[address] = await self._add(address, shape)
                return
            old, new = band.shape, shape or Shape()
            try:
                await _install(band.device, band.slot, new)
                band.shape = new
            except Refused:
                if await _has_bands(band.device):
                    raise
                # The interface is another one now, with none of our bands.
                self._bands = {a: b for a, b in self._bands.items() if b.device != band.device}
                if shape is not None:
                    self._bands[address] = await self._add(address, shape)
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

    async def _add(self, address: str, shape: Shape) -> Band:
        device = await device_to(address)
        await self._root(device)
        taken = {band.slot for band in self._bands.values() if band.device == device}
        slot = min(set(range(PEERS)) - taken, default=-1)
        if slot < 0:
            raise Refused(f"more than {PEERS} peers")
        await _install(device, slot, shape)
        await _take_in(device, slot, address)
        return Band(device, slot, shape)

    async def _remove(self, address: str, band: Band, ended: Shape) -> bool:
        """Filter first, then the netem, which must be empty; whether they are gone, or ours no more."""
        async with self._turn:
            if self._bands.get(address) is not band or band.shape is not ended:
                return True
            if await self._held(band):
                return False
            await _filter("del", band.device, band.slot)
            del self._bands[address]
            await self._released(band, DRAIN_SLACK_S)
            await _qdisc("del", band.device, *_place(band.slot))
            return True

    async def _held(self, band: Band) -> int:
        return (await self._counts(band)).get("held", 0)

    async def _counts(self, band: Band) -> dict[str, int]:
        return stats(await _listing(band.device)).get(band.slot, {})

    async def stats(self, address: str) -> dict[str, int]:
        """Counts since the address has its netem: `packets`, `dropped`, `held`, and `lost` where the kernel
        tells which drops were asked for, else all are `dropped`."""
        band = self._bands.get(address)
        return {} if band is None else await self._counts(band)

    async def close(self) -> None:
        """Take everything away."""
        async with self._turn:
            self._ending.clear()
            for device in self._rooted:
                await _clear(device)
