"""What kept a load from more transactions: its generator, the machine, the link, the server, or the rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.load.places import processes_that_help
from replexplorer.core.machine import short_of_cpu
from replexplorer.core.server.anatomy import ACKS, Anatomy, Part

LimitedBy = Literal["generator", "host", "link", "server", "rate"]

_LINK: Final = (Part.WIRE, *ACKS)
"""Parts of a commit that are waited for on the way, to the clients and to the replicas."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One of them, and what says so."""

    by: LimitedBy
    words: str


def limit_of(
    total: Interval, *, limited: str | None, machine_percent: float | None, anatomy: Anatomy | None
) -> Limit | None:
    """What was the limit of a load over all of `total`: the first that shows; None where nothing does.

    `limited` is what the load's own intervals say (`Interval.limited`), `machine_percent` the CPU of all
    cores of the source's machine. A machine that has no CPU left comes first: more generator processes would
    take theirs from the server.
    """
    if (short := short_of_cpu(machine_percent)) is not None:
        return Limit("host", f"{short}; the generator has {total.cpu_percent:.0f} % of a core of it")
    if limited is not None:
        more = processes_that_help(limited, total.processes, total.clients)
        return Limit(
            "generator", limited if more is None else f"{limited}; `--processes {more}` shares it out"
        )
    if total.mode == OPEN and not total.backlog and not total.dropped:
        return Limit("rate", "the rate that was asked for, and no arrival waits")
    if anatomy is None or not anatomy.mean_ms:
        return None
    whole_ms = sum(anatomy.parts.values())
    is_link = anatomy.ms_of(*_LINK) > whole_ms / 2
    parts = {part: ms for part, ms in anatomy.named.items() if (part in _LINK) is is_link and ms > 0}
    if not parts:
        return None
    share = 100 * sum(parts.values()) / whole_ms
    named = ", ".join(
        f"{part.words} {ms:.2f} ms" for part, ms in sorted(parts.items(), key=lambda each: -each[1])[:3]
    )
    return Limit("link" if is_link else "server", f"{share:.0f} % of a commit's time: {named}")
