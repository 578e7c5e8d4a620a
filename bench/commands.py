"""P20: what a command takes of the processor, as a multiple of `import textual.app` in the same turns."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.figure import Figure
from bench.terminal import PROGRAM
from replexplorer.engine.session import Session

ROUNDS, QUICK_ROUNDS = 9, 3
_YARDSTICK: Final = (sys.executable, "-c", "import textual.app")
_COMMANDS: Final = {
    "--help": 0.4,
    "keys": 1.5,
    "lab list": 1.5,
    "predict rtt=85ms": 1.5,
    "export tour --format csv": 1.5,
    "status": 2.0,
    "get rtt": 2.0,
    "set rtt=0": 2.0,
}
"""With the most that each may take."""
_OF_A_STACK: Final = ("status", "get", "set")
"""The others are run where there is none."""


def figures(session: Session, *, quick: bool = False) -> list[Figure]:
    """Each command in turns with the yardstick, on a stack that runs."""
    there = session.fleet.outside.provider.name
    found = []
    for text, most in _COMMANDS.items():
        stack = ("--stack", there if text.startswith(_OF_A_STACK) else f"{there}-none")
        ratios = []
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            yardstick_s = cpu_s(_YARDSTICK)
            ratios.append(cpu_s((*PROGRAM, *stack, *text.split())) / yardstick_s)
        ratio = statistics.median(ratios)
        measured = f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        found.append(
            Figure(
                "P20", f"`{text}`, times `import textual.app`", f"<= {most:g}", measured, ratio <= most,
                {"ratios": ratios},
            )
        )  # fmt: skip
    return found


def cpu_s(command: Sequence[str]) -> float:
    """Processor time of one run, user's and system's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=Path(__file__).parents[1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
