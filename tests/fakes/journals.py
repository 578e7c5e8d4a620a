"""Journals in memory, as the files of several runs of the program would be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


class FakeJournal:
    """`ports.Journal`; it outlives the session that writes it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.finished: list[list[str]] = []

    async def read(self) -> Sequence[Mapping[str, Any]]:
        """See `ports.Journal`."""
        return [json.loads(line) for line in self.lines]

    async def begin(self, head: Mapping[str, Any]) -> None:
        """See `ports.Journal`."""
        self.lines = [json.dumps(head, allow_nan=False)]

    async def append(self, entry: Mapping[str, Any]) -> None:
        """See `ports.Journal`."""
        self.lines.append(json.dumps(entry, allow_nan=False))

    async def set_aside(self) -> str | None:
        """See `ports.Journal`."""
        self.finished.append(self.lines)
        self.lines = []
        return "finished"


class FakeShelf:
    """The directory of journals."""

    def __init__(self) -> None:
        self.journals: dict[str, FakeJournal] = {}

    def __call__(self, kind: str, identity: str) -> FakeJournal:
        """The journal of this kind and identity."""
        return self.journals.setdefault(f"{kind} {identity}", FakeJournal())

    @property
    def only(self) -> FakeJournal:
        """The one journal that there is."""
        (journal,) = self.journals.values()
        return journal
