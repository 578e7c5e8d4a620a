"""A sweep's journal as the sweep reads and writes it: which runs were made, which knobs stand turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sighting import Sighting
from replexplorer.core.experiment.sweep_runs import SweptRun
from replexplorer.core.knobs.names import Desired, KnobName, Value, parse_name
from replexplorer.ports import Journal


@dataclass(slots=True)
class SweepNotes:
    """The journal of one sweep."""

    journal: Journal

    async def read(self) -> Sequence[Mapping[str, Any]]:
        """All entries, oldest first."""
        return await self.journal.read()

    async def begin(self, sweep: str, seed: int, seen: Sighting) -> None:
        """Start it over: the sweep as it is typed, its seed, and the server that it is made on."""
        await self.journal.begin(
            {"sweep": sweep, "seed": seed, "server_uuid": seen.source_uuid, "server": seen.server}
        )

    async def keep(self, values: Desired) -> None:
        """These knobs are turned from now on; this is what they were."""
        await self.journal.append({"kept": {str(name): value for name, value in values.items()}})

    async def add(self, run: SweptRun) -> None:
        """A run was made."""
        await self.journal.append({"run": run.to_wire()})

    async def finish(self, at_wall_s: float) -> None:
        """All runs are made."""
        await self.journal.append({"finished_wall_s": at_wall_s})

    async def restored(self) -> None:
        """The knobs are as they were."""
        await self.journal.append({"restored": True})

    async def set_aside(self) -> str | None:
        """Put the finished journal away; answers the file that has it."""
        return await self.journal.set_aside()


_OTHER_VERSION = ("the sweep's journal is of another version", "--fresh starts over")


def seed_of(head: Mapping[str, Any]) -> int:
    """The seed of the sweep by its journal's first entry; raises UsageError for another version's."""
    seed = head.get("seed")
    if not isinstance(seed, int):
        raise UsageError(*_OTHER_VERSION)
    return seed


def kept_of(entries: Sequence[Mapping[str, Any]]) -> dict[KnobName, Value]:
    """What a journal's sweep found of the knobs that it has turned and not restored; what is no value is
    left out. Raises UsageError for another version's."""
    kept: Any = {}
    for entry in entries:
        kept = {} if "restored" in entry else entry.get("kept", kept)
    if not isinstance(kept, Mapping):
        raise UsageError(*_OTHER_VERSION)
    return {
        parse_name(text): value
        for text, value in kept.items()
        if isinstance(value, str) or (isinstance(value, int | float) and isfinite(value))
    }


def runs_of(entries: Sequence[Mapping[str, Any]]) -> list[SweptRun]:
    """The runs that a journal has; raises UsageError for another version's."""
    try:
        return [SweptRun.from_wire(entry["run"]) for entry in entries if "run" in entry]
    except (KeyError, TypeError, ValueError):
        raise UsageError(*_OTHER_VERSION) from None
