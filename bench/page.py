"""The page of `docs/measurements/benchmarks.md`: what runs of the benchmarks wrote down, as Markdown.

`python -m bench.page build/bench.json [FILE...] > docs/measurements/benchmarks.md`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from bench.figure import HOLDS, Figure, by_number

_COLUMNS: Final = 118
"""Of a line of text in the docs."""

_BEGINNING = """# Benchmarks

What `make bench` measured, section by section. Each figure compares two sides that took turns in one run; it
says little about another machine, and absolute figures say nothing. `NO`: the target was missed. `?`: it
could not be decided, since the interval has the target inside it.
"""


def page(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of Markdown. A run is the document that the benchmarks write: when it began, `machine` (facts by
    name), `load_average`, `sections` with their seconds, `figures`."""
    yield from _BEGINNING.splitlines()
    for run in runs:
        yield ""
        yield f"## {', '.join(run['sections'])}"
        yield ""
        load = ", ".join(f"{value:.1f}" for value in run["load_average"])
        facts = "; ".join((*_facts(run["machine"]), run["server"], f"load average before it {load}"))
        yield from wrap(f"Began {run['began']}; {facts}.", _COLUMNS)
        took = ", ".join(f"{name} {seconds:.0f}" for name, seconds in run["sections"].items())
        yield from wrap(f"Seconds: {took}.", _COLUMNS)
        yield ""
        yield "| | what | target | measured: median (range) | holds |"
        yield "|---|---|---|---|---|"
        for figure in by_number(Figure(**document) for document in run["figures"]):
            cells = (figure.number, figure.what, figure.target, figure.measured, HOLDS[figure.holds])
            yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _facts(machine: Mapping[str, Any]) -> tuple[str, ...]:
    memory = f"{machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB"
    return machine["cpu"] or "processor unknown", memory, f"{machine['kernel']} {machine['architecture']}"


if __name__ == "__main__":
    print("\n".join(page([json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:]])))
