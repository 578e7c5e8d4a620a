"""Command lines of the kernel's own delay (prio + u32 + netem), and what its refusals mean.

Law: pure functions. Delayed packets take an extra band, so that no packet falls into it by its type
of service; a filter by the peer's address is the only way in. A rate far above any link keeps packets
in order when the delay falls: netem sorts by due time, and only with a rate does a later packet queue
behind an earlier one (sch_netem.c, netem_enqueue). Nothing lets a packet that is held go earlier, and
taking its netem away drops it.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from typing import Any

from wire import Shape

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

Argv = list[str]

NO_NETEM = "no netem"
NO_PERMISSION = "no permission"
NO_DEVICE = "no device"
NO_BANDS = "no bands"
LEFTOVER = "leftover"
CLEAN = "already clean"
OTHER = "other"

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
    ("Cannot delete qdisc with handle of zero", CLEAN),
    ("File exists", LEFTOVER),
    ("must match existing qdisc", LEFTOVER),
    ("Exclusivity flag on", LEFTOVER),
    ("Operation not supported", NO_NETEM),
    ("RTNETLINK answers: No such file or directory", NO_NETEM),
)


_WORDS = {
    NO_NETEM: "kernel has no netem",
    NO_PERMISSION: "no NET_ADMIN",
    NO_DEVICE: "no such interface",
    NO_BANDS: "the bands were taken away",
    LEFTOVER: "somebody else's discipline is in the way",
}


def diagnosis(stderr: str) -> str:
    """What a refusal of `tc` or `ip` means: one of the words above."""
    return next((meaning for text, meaning in _REFUSALS if text in stderr), OTHER)


def refusal(stderr: str) -> str:
    """A refusal in one line: what it means, and what the kernel said."""
    said = (stderr.strip().splitlines() or ["it said nothing"])[0].removeprefix("Error: ").rstrip(".")
    return f"{_WORDS.get(diagnosis(stderr), 'netem does not work')}: {said}"


def packet_limit(shape: Shape) -> int:
    """Packets that the queue must hold: twice what comes within the delay, and what waits for bandwidth."""
    least = LIMIT_OF_A_NARROW_LINK if shape.bandwidth_bps else SMALLEST_LIMIT
    return max(least, 2 * PACKETS_PER_S * (shape.delay_us + shape.jitter_us) // 1_000_000)


def band(slot: int) -> str:
    """The class of a peer's band; slots count from 0."""
    if not 0 <= slot < PEERS:
        raise ValueError(f"netem has room for {PEERS} peers")
    return f"1:{FIRST_BAND + slot:x}"


def handle(slot: int) -> str:
    """The handle of a peer's netem."""
    return f"{FIRST_HANDLE + slot:x}:"


def root_argv(device: str) -> Argv:
    """Put the bands in place; over leftovers as well."""
    return ["tc", "qdisc", "replace", "dev", device, "root", "handle", ROOT, "prio", "bands", str(BANDS),
            "priomap", *PRIORITY_MAP.split()]  # fmt: skip


def shape_argv(device: str, slot: int, shape: Shape) -> Argv:
    """Install or change a peer's shape."""
    jitter = [f"{shape.jitter_us}us", "distribution", "normal"] if shape.jitter_us else []
    lost_percent = MOST_LOST_PERCENT if shape.cut else shape.loss_percent
    loss = ["loss", f"{lost_percent:g}%"] if lost_percent else []
    return ["tc", "qdisc", "replace", "dev", device, "parent", band(slot), "handle", handle(slot),
            "netem", "limit", str(packet_limit(shape)), "delay", f"{shape.delay_us}us", *jitter, *loss,
            "rate", f"{shape.bandwidth_bps or ORDER_KEEPING_BPS}bit"]  # fmt: skip


def filter_argv(device: str, slot: int, address: str) -> Argv:
    """Send what goes to the peer's address, and nothing else, into its band."""
    return ["tc", "filter", "add", "dev", device, "parent", ROOT, "protocol", "ip", "prio", str(10 + slot),
            "u32", "match", "ip", "dst", f"{address}/32", "flowid", band(slot)]  # fmt: skip


def unfilter_argv(device: str, slot: int) -> Argv:
    """Let the peer's packets go undelayed."""
    return ["tc", "filter", "del", "dev", device, "parent", ROOT, "protocol", "ip", "prio", str(10 + slot)]


def remove_argv(device: str, slot: int) -> Argv:
    """Take a peer's netem away; it must be empty, for what it holds is dropped."""
    return ["tc", "qdisc", "del", "dev", device, "parent", band(slot), "handle", handle(slot)]


def clear_argv(device: str) -> Argv:
    """Take everything away; packets then held are dropped."""
    return ["tc", "qdisc", "del", "dev", device, "root"]


def stats_argv(device: str) -> Argv:
    """Ask for the counters."""
    return ["tc", "-s", "-j", "qdisc", "show", "dev", device]


def filters_argv(device: str) -> Argv:
    """Ask for the filters."""
    return ["tc", "-j", "filter", "show", "dev", device, "parent", ROOT]


def stats(text: str) -> dict[int, dict[str, int]]:
    """Packets, dropped and held by slot, from the answer to `stats_argv`.

    `dropped` is all that netem dropped; where the kernel also tells how many of these the shape asked
    for (`lost`), they are taken off.
    """
    found: dict[int, dict[str, int]] = {}
    for slot, row in _netems(text):
        found[slot] = {"packets": row.get("packets", 0), "dropped": row.get("drops", 0),
                       "held": row.get("qlen", 0)}  # fmt: skip
        if "dropped" in row:
            found[slot] |= {"dropped": row.get("drops", 0) - row["dropped"], "lost": row["dropped"]}
    return found


def shapes(text: str) -> dict[int, Shape]:
    """What each slot does, from the answer to `stats_argv`."""
    found: dict[int, Shape] = {}
    for slot, row in _netems(text):
        options = row.get("options", {})
        delay = options.get("delay", {})
        loss_percent = 100 * options.get("loss-random", {}).get("loss", 0.0)
        bandwidth_bps = 8 * options.get("rate", {}).get("rate", 0)
        found[slot] = Shape(
            delay_ms=round(1e3 * delay.get("delay", 0.0), 3),
            jitter_ms=round(1e3 * delay.get("jitter", 0.0), 3),
            loss_percent=loss_percent,
            bandwidth_bps=bandwidth_bps if bandwidth_bps < ORDER_KEEPING_BPS else 0,
            cut=loss_percent >= MOST_LOST_PERCENT,
        )
    return found


def addresses(text: str) -> dict[int, str]:
    """Whose packets go into each slot, from the answer to `filters_argv`."""
    found: dict[int, str] = {}
    rows: list[dict[str, Any]] = json.loads(text or "[]")
    for row in rows:
        options = row.get("options", {})
        major, _, minor = options.get("flowid", "").partition(":")
        match = options.get("match", {})
        if f"{major}:" == ROOT and int(minor, 16) >= FIRST_BAND and match.get("mask") == "ffffffff":
            found[int(minor, 16) - FIRST_BAND] = str(ipaddress.IPv4Address(int(match["value"], 16)))
    return found


def is_ours(text: str) -> bool:
    """Whether the answer to `stats_argv` shows our bands."""
    rows: list[dict[str, Any]] = json.loads(text or "[]")
    return any(row.get("kind") == "prio" and row.get("handle") == ROOT for row in rows)


def _netems(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    rows: list[dict[str, Any]] = json.loads(text or "[]")
    for row in rows:
        if row.get("kind") == "netem" and row.get("handle", "").endswith(":"):
            slot = int(row["handle"][:-1], 16) - FIRST_HANDLE
            if 0 <= slot < PEERS:
                yield slot, row
