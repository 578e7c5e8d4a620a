"""`make bench`: targets of TARGETS.md, measured side by side in one run on a stack of its own.

QUICK=1 shortens it. Prints one table; every raw figure goes to build/bench.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from replexplorer.adapters.docker_stack import DockerStack
from replexplorer.cli.wiring import outside_of
from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.session import Session, SessionOptions
from tests.bench import effect, fsync_shim, link_loop, truth_of_the_link
from tests.bench.figure import Figure, table

RESULTS = Path(__file__).parents[2] / "build" / "bench.json"


def packet_loop(seconds: float) -> list[Figure]:
    """Issue's figures of the loop behind NFQUEUE; it is measured where netem is the backend as well."""
    found = link_loop.figures(seconds)
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


async def on_a_stack(quick: bool) -> list[Figure]:
    """What needs servers."""
    stack = DockerStack(f"bench-{os.getpid()}")
    session = Session(outside_of(stack), SessionOptions(holder="bench"))
    sections: list[Callable[[], Awaitable[list[Figure]]]] = [
        lambda: effect.figures(session, 6 if quick else 20),
        lambda: truth_of_the_link.figures(session, 3 if quick else 10),
        lambda: fsync_shim.figures(session, quick=quick),
    ]
    found: list[Figure] = []
    try:
        await session.up(lambda progress: tell(progress.text))
        for section in sections:
            for figure in await section():
                tell(f"{figure.number} {figure.what}: {figure.measured}")
                found.append(figure)
    finally:
        await session.disconnect()
        await stack.down()
        await stack.close()
    return found


def tell(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure, print, write down; 0 whether or not a target is held: a benchmark is no test."""
    quick = bool(os.environ.get("QUICK"))
    try:
        found = [*asyncio.run(on_a_stack(quick)), *packet_loop(2.0 if quick else 4.0)]
    except ReplexplorerError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    print(table(found))
    RESULTS.parent.mkdir(exist_ok=True)
    documents: list[dict[str, Any]] = [figure.document() for figure in found]
    RESULTS.write_text(json.dumps(documents, indent=1), encoding="utf-8")
    tell(f"raw figures: {RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
