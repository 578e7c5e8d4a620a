"""`make bench`: the targets, measured side by side in one run on stacks of its own.

QUICK=1 shortens it and leaves the failures out, HOUR=1 adds the hour of P12, WHOLE=1 makes every power cut
and failure; `python -m bench NAME...` measures these only, `NAME:PATTERN` those failures of a section
whose titles are like that (`exposure:power_cut 0/* 85`, `power_cut:1/2 *`, `lossless:failover`), and
`faults:50` so many rounds of failures drawn at random. Prints one table; every raw figure goes to
build/bench.json, those of a part to build/bench-NAME-PATTERN.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from bench import (
    anatomy_cost,
    commands,
    dashboard,
    effect,
    exposure,
    fsync_shim,
    imitation,
    lag,
    ledger_cost,
    link_loop,
    load_parity,
    lossless,
    power_cut,
    random_faults,
    roles,
    semi_sync,
    truth_of_the_link,
)
from bench.figure import Figure, Wanted, by_number, table, tell
from bench.given_stack import new_stack
from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.session import Session
from replexplorer.formats.documents import plain
from replexplorer.reports.conditions import machine

RESULTS = Path(__file__).parents[1] / "build" / "bench.json"

_BUSY_A_CORE = 0.5
"""Load average a core above which a comparison in turns is mostly noise."""

Section = Callable[[Session, Wanted], Awaitable[list[Figure]]]
"""Takes an attached session whose load is not running, and what of it is wanted."""


def packet_loop(seconds: float, rounds: int) -> list[Figure]:
    """Figures of the loop behind NFQUEUE; it is measured where netem is the backend as well."""
    found = link_loop.figures(seconds, rounds)
    errors_us = {rate: error for rate, error in found["delay_error_p99_us"].items() if error is not None}
    worst_us = max(errors_us.get(str(rate), 0.0) for rate in link_loop.PACES_PER_S)
    cost_us, most = found["cpu_us_per_packet"], found["packets_per_s_without_drops"]
    return [
        Figure("link", "NFQUEUE loop, CPU a packet, us", "<= 8", f"{cost_us:.1f}", cost_us <= 8, found),
        Figure(
            "link",
            "NFQUEUE loop at 85 ms, packets/s without a drop",
            ">= 50,000",
            f"{most:,}",
            most >= 50_000,
        ),
        Figure(
            "link", "NFQUEUE loop, p99 of the delay's error, us", "<= 300", f"{worst_us:.0f}", worst_us <= 300
        ),
    ]


async def _commands(session: Session, wanted: Wanted) -> list[Figure]:
    return await asyncio.to_thread(commands.figures, session, quick=wanted.quick)


async def _packet_loop(session: Session, wanted: Wanted) -> list[Figure]:
    return await asyncio.to_thread(packet_loop, 2.0 if wanted.quick else 4.0, 1 if wanted.quick else 3)


SECTIONS: Mapping[str, Section] = {
    "parity": lambda session, wanted: load_parity.closed_figures(session, quick=wanted.quick),
    "open_loop": lambda session, wanted: load_parity.open_figures(session, quick=wanted.quick),
    "semi_sync": lambda session, wanted: semi_sync.figures(session, quick=wanted.quick),
    "dashboard": lambda session, wanted: dashboard.figures(session, quick=wanted.quick),
    "commands": _commands,
    "anatomy": lambda session, wanted: anatomy_cost.figures(session, quick=wanted.quick),
    "imitation": lambda session, wanted: imitation.figures(session, quick=wanted.quick),
    "effect": lambda session, wanted: effect.figures(session, 3 if wanted.quick else 20),
    "link": lambda session, wanted: truth_of_the_link.figures(session, 2 if wanted.quick else 10),
    "shim": lambda session, wanted: fsync_shim.figures(session, quick=wanted.quick),
    "packets": _packet_loop,
    "hour": lambda session, _: dashboard.hour(session),
    "ledger": lambda session, wanted: ledger_cost.figures(session, quick=wanted.quick),
    "lag": lambda session, wanted: lag.figures(session, quick=wanted.quick),
    "roles": lambda session, wanted: roles.figures(session, quick=wanted.quick),
    "lossless": lossless.figures,
    "faults": random_faults.figures,
    "power_cut": power_cut.figures,
    "exposure": exposure.figures,
}
"""What can be measured, in order; `hour` only where it is asked for."""

_IN_PARTS = ("lossless", "power_cut", "exposure", "faults")
_FAILURES = (*_IN_PARTS, "roles")
"""What kills servers; not with QUICK=1, unless it is named."""
_ALONE = ("parity", "roles", "faults", "power_cut", "exposure")
"""On a stack of its own: its replicas apply nothing; it needs a third node; any node may be the source
afterwards; or a relaxed source that lost commits in a power cut uses their GTIDs again, and its replica
differs from then on."""
_AT_REST_WITHIN_S = 600.0


@dataclass
class Measured:
    """What a run found."""

    figures: list[Figure] = field(default_factory=list)
    sections: dict[str, float] = field(default_factory=dict)
    """Seconds of each, by its name."""
    server: str = ""


async def measured(names: list[str], *, quick: bool) -> Measured:
    """All figures of these sections, or of their parts; what one of them lacks is told in its place."""
    found = Measured()
    for _, together in groupby(names, lambda text: text if text.partition(":")[0] in _ALONE else ""):
        async with new_stack() as session:
            found.server = session.rig.seen.server
            for text in together:
                await _measure(session, text, found, quick=quick)
    return found


async def _measure(session: Session, text: str, found: Measured, *, quick: bool) -> None:
    """One section, or its part."""
    name, _, part = text.partition(":")
    began_s = time.monotonic()
    try:
        # On few cores a replica that is behind is half of the machine's work. After failures it may never be
        # whole, and nothing is compared.
        if name not in _IN_PARTS and not await session.rig.caught_up(_AT_REST_WITHIN_S):
            within = f"within {_AT_REST_WITHIN_S:g} s"
            raise RuntimeError(f"the replica has not applied what came before {within}")
        figures = await SECTIONS[name](session, Wanted(quick, part))
    except (ReplexplorerError, RuntimeError, AssertionError, OSError) as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        figures = [Figure("?", name, "", f"not measured: {told}", None)]
    for figure in figures:
        tell(f"{figure.number} {figure.what}: {figure.measured}")
    found.sections[text] = time.monotonic() - began_s
    tell(f"{name}: {found.sections[text]:.0f} s")
    found.figures += figures


def main() -> int:
    """Measure, print, write down; 0 whether or not a target is held: a benchmark is no test."""
    quick = bool(os.environ.get("QUICK"))
    left_out = {*(_FAILURES if quick else ()), *(() if os.environ.get("HOUR") else ("hour",))}
    names = sys.argv[1:] or [name for name in SECTIONS if name not in left_out]
    asked = [text.partition(":") for text in names]
    if unknown := {name for name, _, _ in asked} - set(SECTIONS):
        print(f"bench: no section {', '.join(sorted(unknown))}: {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    if whole := {name for name, _, part in asked if part} - set(_IN_PARTS):
        print(f"bench: no parts of {', '.join(sorted(whole))}: {', '.join(_IN_PARTS)}", file=sys.stderr)
        return 2
    about = {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "machine": plain(machine()),
        "load_average": os.getloadavg(),
    }
    if (busy := os.getloadavg()[0]) > _BUSY_A_CORE * (os.cpu_count() or 1):
        tell(f"bench: this machine does other work (load average {busy:.1f}): the figures say little")
    # A terminated one takes its stack down as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began_s = time.monotonic()
    try:
        found = asyncio.run(measured(names, quick=quick))
    except ReplexplorerError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    print(table(by_number(found.figures)))
    tell(f"{time.monotonic() - began_s:.0f} s on {machine().words}, load average {os.getloadavg()[1]:.1f}")
    parts = [re.sub(r"[^\w]+", "-", text).strip("-") for text in names if ":" in text]
    results = RESULTS.with_stem("-".join((RESULTS.stem, *parts)))
    results.parent.mkdir(exist_ok=True)
    document = {
        **about,
        "server": found.server,
        "sections": found.sections,
        "figures": [figure.document() for figure in found.figures],
    }
    results.write_text(json.dumps(document, indent=1), encoding="utf-8")
    tell(f"raw figures: {results}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
