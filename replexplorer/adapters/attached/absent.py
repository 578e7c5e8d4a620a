"""What stands in for a sidecar where there is none: no link, no disk, and what this app keeps for itself.

Law: nothing is kept beyond the process, because who ends has undone its changes, and what a killed one left
stands in its journal.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any, NoReturn

from replexplorer.core.errors import MissingPiece
from replexplorer.core.wire import (
    DiskState,
    Document,
    Experiment,
    Flap,
    Health,
    Lease,
    LinkState,
    SetDisk,
    Shape,
)


class OwnKeeping:
    """What one process keeps of servers that no other one changes (`ports.Keeper`)."""

    def __init__(self) -> None:
        self.content = Document(0, {})
        self._experiment: Experiment | None = None

    def write(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """Compare and set."""
        if expect_version != self.content.version:
            return None
        self.content = Document(expect_version + 1, dict(content))
        return self.content


class NoSidecar:
    """`ports.Agent` of a node without a sidecar."""

    def __init__(self, node: str, keeping: OwnKeeping) -> None:
        self.node = node
        self._keeping = keeping

    # -- what is kept

    async def document(self) -> Document:
        """See `ports.Keeper`."""
        return self._keeping.content

    async def write_document(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """See `ports.Keeper`."""
        return self._keeping.write(expect_version, content)

    async def take_lease(
        self,
        holder: str,
        *,
        beside: bool = False,
        load: Mapping[str, int | float | str] | None = None,
        selected: str | None = None,
    ) -> Lease | None:
        """See `ports.Keeper`; these servers take no load."""
        return Lease("the servers' own clients", os.getpid(), socket.gethostname())

    async def lease(self) -> Lease | None:
        """See `ports.Keeper`."""
        return None

    async def release_lease(self) -> None:
        """See `ports.Keeper`."""

    async def take_turn(
        self, holder: str, *, within_s: float, anyway: bool = False
    ) -> Lease | Experiment | None:
        """See `ports.Keeper`; who changes these servers holds their journal."""
        return None

    async def leave_turn(self) -> None:
        """See `ports.Keeper`."""

    async def begin_experiment(self, kind: str, name: str, holder: str) -> Experiment | None:
        """See `ports.Keeper`; raises MissingPiece."""
        raise MissingPiece(
            f"no {kind} runs on servers that `up` did not make", "`replexplorer up` makes a stack"
        )

    async def end_experiment(self) -> None:
        """See `ports.Keeper`."""

    # -- what is absent

    def _lacks(self) -> NoReturn:
        raise MissingPiece(
            f"no sidecar stands beside {self.node}", "links and disks are known in a stack that `up` made"
        )

    async def link(self, peer: str, *, anew: bool = False) -> LinkState:
        """Raises MissingPiece."""
        self._lacks()

    async def set_link(self, peer: str, address: str, shape: Shape) -> LinkState:
        """Raises MissingPiece."""
        self._lacks()

    async def set_flap(self, peer: str, address: str, flap: Flap | None) -> LinkState:
        """Raises MissingPiece."""
        self._lacks()

    async def disk(self, *, probe: bool = False) -> DiskState:
        """Raises MissingPiece."""
        self._lacks()

    async def set_disk(self, asked: SetDisk) -> DiskState:
        """Raises MissingPiece."""
        self._lacks()

    async def watch(self, peer: str, address: str) -> LinkState:
        """Raises MissingPiece."""
        self._lacks()

    async def until_lost(self) -> None:
        """It never is: nothing is reached through it."""
        import asyncio

        await asyncio.Event().wait()

    async def health(self) -> Health:
        """Raises MissingPiece."""
        self._lacks()

    async def close(self) -> None:
        """There is nothing to close."""
