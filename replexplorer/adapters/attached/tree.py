"""A source with those that follow it, and those that follow these, as they are met."""

from __future__ import annotations

from dataclasses import dataclass

from replexplorer.core.dialect.attaching import Followed
from replexplorer.formats.server_url import ServerUrl


@dataclass(frozen=True, slots=True)
class Met:
    """A server that answered."""

    server_id: int
    followed: Followed | None
    """Whom it follows; None where it follows nobody."""


class Tree:
    """Servers by their addresses, each once, whatever addresses lead to it."""

    def __init__(self, source_id: int, source: ServerUrl) -> None:
        self.places: dict[ServerUrl, set[str]] = {source: set()}
        """In the order found, with the hosts by which its replicas were told to reach each."""
        self._by_id = {source_id: source}
        self._source = source

    def knows(self, met: Met) -> bool:
        """Whether it is one of those that are in it, at this or another address."""
        return met.server_id in self._by_id

    def would_take(self, met: Met) -> bool:
        """Whether it is another server, which follows one of those that are in it."""
        return not self.knows(met) and self._parent(met) is not None

    def take(self, url: ServerUrl, met: Met) -> bool:
        """Take a server that follows one of those that are in it; answers whether it does."""
        parent = self._parent(met)
        if parent is None or met.followed is None or self.knows(met):
            return False
        self.places[parent].add(met.followed.host)
        self.places.setdefault(url, set())
        self._by_id[met.server_id] = url
        return True

    def _parent(self, met: Met) -> ServerUrl | None:
        """Whom a server follows, if that is known here. One that was never connected does not know the number
        of its source, and is taken for a replica of the first one."""
        if met.followed is None:
            return None
        return self._by_id.get(met.followed.server_id) if met.followed.server_id else self._source
