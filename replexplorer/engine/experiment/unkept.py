"""The journal of an experiment that nobody keeps one of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Unkept:
    """See `ports.Journal`."""

    async def read(self) -> Sequence[Mapping[str, Any]]:
        """Nothing."""
        return ()

    async def begin(self, head: Mapping[str, Any]) -> None:
        """Keep no head."""

    async def append(self, entry: Mapping[str, Any]) -> None:
        """Keep no entry."""

    async def set_aside(self) -> str | None:
        """There is nothing."""
        return None
