"""A stack's nodes: `primary`, then `replica`, `replica2`, ... up to as many as a stack may have."""

from __future__ import annotations

from typing import Final

PRIMARY: Final = "primary"
"""The name of the source's node."""
MOST_REPLICAS: Final = 8
"""Of one stack: each is a server with half a gigabyte of memory."""


def replica_name(number: int) -> str:
    """The name of the n-th replica, counted from 1: `replica`, `replica2`, ..."""
    return "replica" if number == 1 else f"replica{number}"


def replica_number(node: str) -> int:
    """The inverse of `replica_name`; 0 for the primary."""
    return 0 if node == PRIMARY else int(node.removeprefix("replica") or 1)


def node_names(replicas: int) -> list[str]:
    """The primary and so many replicas."""
    return [PRIMARY, *(replica_name(number) for number in range(1, replicas + 1))]


ANY_REPLICAS: Final = tuple(node_names(MOST_REPLICAS)[1:])
"""The replicas of a stack that is not known yet."""
