"""This machine's copy of what is requested of a stack on several hosts, and its handing over to another host.

The sidecars of one host keep it, by compare-and-set; whoever reads or writes it on this machine leaves a copy
here. When that host is away another one can be told to keep it, from the copy. Law: which host keeps it is
read from the disk each time, so that a program that did not hear of it never goes on with the one before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from replexplorer.adapters.docker import placement
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.wire import Document
from replexplorer.formats import paths
from replexplorer.formats.small_file import read_bytes
from replexplorer.formats.whole_file import keep_record
from replexplorer.ports import Agent

_FILE: Final = "requested.json"
_MOST_BYTES: Final = 1 << 22


class KeptCopy:
    """The copy of one stack (`agent.Witness`)."""

    def __init__(self, stack: str) -> None:
        self._stack = stack
        self._file = paths.stack_directory(stack) / _FILE
        self._last: tuple[str, int] | None = None
        """Host and version of what was written last."""

    def ask(self, node: str) -> None:
        """Raise StackUnavailable where a node's host is no more the one that keeps what is requested."""
        placed = placement.read(self._stack)
        if placed is not None and placed.hosts.get(node) != placed.names[0]:
            raise StackUnavailable(
                f"what is requested is kept by {placed.names[0]} now, and no more on the host of {node}",
                "start this again",
            )

    def hear(self, node: str, document: Document) -> None:
        """Keep a copy of what a node's agent answered, unless there is a newer one."""
        placed = placement.read(self._stack)
        if placed is None or (host := placed.hosts.get(node)) is None or host != placed.names[0]:
            return
        if self._last is None and (found := self._read()) is not None:
            self._last = found[0], found[1].version
        if self._last is not None and self._last[0] == host and self._last[1] >= document.version:
            return
        with suppress(MissingPiece):  # without a copy nothing but the handing over is lost
            self._write(host, document)
        self._last = host, document.version

    async def hand_over(self, host: str, agent: Agent) -> None:
        """Let a host keep it from now on, of which this is a node's agent. Raises StackUnavailable where
        there is no copy, or it does not take it."""
        placed, found = placement.read(self._stack), self._read()
        if placed is None or found is None:
            raise StackUnavailable(
                f"this machine has no copy of what is requested of stack {self._stack}",
                "start the host that keeps it",
            )
        document = await agent.document()
        written = await agent.write_document(document.version, found[1].content)
        if written is None:
            raise StackUnavailable(f"{host} keeps something else meanwhile", "try again")
        self._write(host, written)
        placement.write(self._stack, replace(placed, keeper=host, given_up=placed.names[0]))

    def forget(self) -> None:
        """The stack is gone."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _read(self) -> tuple[str, Document] | None:
        """The host that kept it, and the copy; None where there is none that can be used."""
        try:
            content: Mapping[str, Any] = json.loads(read_bytes(self._file, _MOST_BYTES))
            return str(content["host"]), Document(int(content["version"]), dict(content["content"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write(self, host: str, document: Document) -> None:
        keep_record(
            self._file, {"host": host, "version": document.version, "content": dict(document.content)}
        )


def check_keeper(placed: placement.Placement, host: str, away: Mapping[str, str]) -> None:
    """Raise UsageError for a host that cannot be told to keep what is requested, StackUnavailable where the
    one that keeps it answers: what it has is what counts."""
    if host not in placed.names:
        raise UsageError(f"--keep-on {host}: no host of the stack", f"it is on {', '.join(placed.names)}")
    if host == placed.names[0]:
        raise UsageError(f"--keep-on {host}: it keeps what is requested already", "leave it out")
    if placed.names[0] not in away:
        raise StackUnavailable(
            f"the host {placed.names[0]} is there, and keeps what is requested",
            "--keep-on is for when it is away",
        )
    if host in away:
        raise StackUnavailable(f"the host {placed.words(host)} is away: {away[host]}", "start it")
