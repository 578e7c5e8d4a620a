"""What a sweep or a matrix has found so far, kept so that a kill loses one run at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from replexplorer.core.errors import UsageError
from replexplorer.ports import Journal

T = TypeVar("T")


class RunJournal(Generic[T]):
    """A journal of one kind of runs."""

    def __init__(self, journal: Journal | None, kind: type[T]) -> None:
        """None: nothing is kept."""
        self._journal = journal
        self._runs: TypeAdapter[T] = TypeAdapter(kind)

    async def open(self, head: Mapping[str, Any], *, fresh: bool) -> tuple[Mapping[str, Any] | None, list[T]]:
        """The head and the runs of an earlier try `on` the same; where there are none, or it is to be
        `fresh`, None, and it is begun with this head. Raises UsageError for another version's."""
        entries = await self._journal.read() if self._journal and not fresh else ()
        if entries and entries[0].get("on") == head["on"]:
            try:
                found = [self._runs.validate_python(entry["run"]) for entry in entries[1:]]
            except (KeyError, ValueError):
                raise UsageError("the journal is of another version", "--fresh starts over") from None
            return entries[0], found
        if self._journal:
            await self._journal.begin(head)
        return None, []

    async def add(self, run: T) -> None:
        """Keep a run; on the disk when this returns."""
        if self._journal:
            await self._journal.append({"run": self._runs.dump_python(run, mode="json")})

    async def set_aside(self) -> str | None:
        """It is finished: keep it under another name, which is answered."""
        return await self._journal.set_aside() if self._journal else None
