"""A stack's nodes, what each of them is now, and the links between them.

A link is named by both its nodes in order of name, `db2:db3`. Its knobs stand under the far node where
the source is one of them, so that `rtt@db2` says what it says on any stack, else under the link's name.

Laws: a name (`db1`, `db2`, ... in the order of making) says nothing about a role; a role is observed
and may be another one at the next look. `primary`, `replica`, `replica2`, ... are read as aliases:
the node that is the source now, and the other nodes in order of name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from typing import Final, cast

from replexplorer.core.records import frozen

SOURCE: Final = "primary"
"""The alias of the node that is the source now; a knob that is set on the source carries it for a
node, so what is asked of the source goes with the role."""
MOST_REPLICAS: Final = 8
"""Of one stack: each is a server with half a gigabyte of memory."""

_PREFIX: Final = "db"
_OTHER: Final = "replica"
_PAIR: Final = ":"
_NAME: Final = re.compile(rf"{_PREFIX}([1-9][0-9]*)")
_NUMBERED: Final = re.compile(r"(.*?)([0-9]*)")


class Role(StrEnum):
    """What a node is at this look."""

    PRIMARY = "primary"
    """It takes writes; others follow it, or none do."""
    REPLICA = "replica"
    """It follows another node, whether its threads run or not."""
    SECONDARY = "secondary"
    """Of a group."""
    JOINING = "joining"
    """It copies what the others have."""
    DETACHED = "detached"
    """It runs, follows no source and refuses writes."""
    DOWN = "down"
    """No login succeeds."""


class Belonging(StrEnum):
    """How a node stands to the group that it is to be a member of."""

    MEMBER = "member"
    """It takes part, and a majority of the members that it knows answers it."""
    CUT_OFF = "cut off"
    """It takes part, and no majority answers it: nothing can be committed there."""
    JOINING = "joining"
    """It copies what the others have."""
    OUTSIDE = "outside"
    """It runs and is not a member."""


@frozen
class Standing:
    """What one look has seen of a node that its role follows from."""

    name: str
    reachable: bool
    follows: str | None = None
    """The host that it replicates from, as it was configured; None: from none, or it is not known."""
    refuses_writes: bool | None = None
    """`super_read_only` is on; None while it is not known."""
    belongs: Belonging | None = None
    """How it stands to its group; None where there is none, or while it is not known."""


def node_name(number: int) -> str:
    """The name of the n-th node that was made, counted from 1: `db1`, `db2`, ..."""
    return f"{_PREFIX}{number}"


def node_number(node: str) -> int | None:
    """The inverse of `node_name`; None for a name of another kind."""
    found = _NAME.fullmatch(node)
    return int(found[1]) if found else None


def node_names(replicas: int) -> list[str]:
    """The nodes of a new stack: its source and its replicas."""
    return [node_name(number) for number in range(1, replicas + 2)]


def in_order(nodes: Iterable[str]) -> list[str]:
    """Nodes in the order of their names, `db10` behind `db9`."""
    return sorted(nodes, key=_order)


def _order(node: str) -> tuple[str, int]:
    word, number = cast(re.Match[str], _NUMBERED.fullmatch(node)).groups()
    return word, int(number or 0)


def link_between(one: str, other: str) -> str:
    """The name of the link between two nodes, whichever is the source: `db2:db3`."""
    return _PAIR.join(in_order((one, other)))


def is_pair(text: str) -> bool:
    """Whether a link is written with both its ends."""
    return _PAIR in text


def ends_of(link: str) -> tuple[str, str]:
    """The nodes of a link that is written with both, as they are written."""
    one, _, other = link.partition(_PAIR)
    return one, other


def source_of(standings: Sequence[Standing], before: str | None) -> str | None:
    """The node that is the source now; None where there are no nodes.

    It follows no source of the stack and takes writes, or others follow it. Where more than one could
    be, or nobody can tell, it is the one that has followers, then the one `before`, then the first. Of a
    group it is the member that takes writes, of several the one `before`; a member that a majority
    answers before one that is cut off from it.
    """
    names = [each.name for each in standings]
    if any(each.belongs is not None for each in standings):
        return _writer_of(standings, before)
    hosts = [each.follows for each in standings]
    free = [each for each in standings if each.reachable and each.follows not in names]
    takers = [each.name for each in free if each.refuses_writes is False]
    if len(takers) == 1:
        return takers[0]
    candidates = takers or [name for name in names if name in hosts] or names
    most = max((hosts.count(name) for name in candidates), default=0)
    followed = [name for name in candidates if hosts.count(name) == most]
    return before if before in followed else next(iter(followed), None)


def _writer_of(standings: Sequence[Standing], before: str | None) -> str | None:
    """The member of a group that takes writes."""
    for belongs in (Belonging.MEMBER, Belonging.CUT_OFF):
        takers = [
            each.name
            for each in standings
            if each.reachable and each.belongs is belongs and each.refuses_writes is False
        ]
        if takers:
            return before if before in takers else takers[0]
    names = [each.name for each in standings]
    return before if before in names else names[0]


def role_of(standing: Standing, source: str | None) -> Role:
    """What a node is, in a stack with this source."""
    if not standing.reachable:
        return Role.DOWN
    match standing.belongs:
        case Belonging.JOINING:
            return Role.JOINING
        case Belonging.OUTSIDE:
            return Role.DETACHED
        case Belonging():
            return Role.PRIMARY if standing.refuses_writes is False else Role.SECONDARY
    if standing.name == source:
        return Role.PRIMARY
    if standing.follows is not None or standing.refuses_writes is None:
        return Role.REPLICA
    return Role.DETACHED if standing.refuses_writes else Role.PRIMARY


@frozen
class Roster:
    """The names of a stack's nodes in order, and which of them is the source now."""

    names: tuple[str, ...]
    source: str
    mesh: bool = False
    """Commits cross the links of all pairs, so a link's knob without a node is meant for all of them."""

    @property
    def others(self) -> tuple[str, ...]:
        """All but the source."""
        return tuple(name for name in self.names if name != self.source)

    @property
    def pairs(self) -> tuple[str, ...]:
        """The links between two nodes that are not the source."""
        return tuple(link_between(*ends) for ends in combinations(in_order(self.others), 2))

    @property
    def aliases(self) -> Mapping[str, str]:
        """Alias to node."""
        others = (
            (f"{_OTHER}{number if number > 1 else ''}", node) for number, node in enumerate(self.others, 1)
        )
        return {SOURCE: self.source, **dict(others)}

    def find(self, text: str) -> str | None:
        """The node of this name or alias; None when there is none."""
        return text if text in self.names else self.aliases.get(text)

    def placed(self, node: str) -> str:
        """Where a knob's value stands that is asked of this node or link: `SOURCE` for the source, the
        other end for a link of the source, else as it is written. The inverse of `written`."""
        ends = node.split(_PAIR)
        found = [self.find(end) or end for end in ends]
        if len(ends) == 1:
            return SOURCE if found[0] == self.source else found[0]
        far = [end for end in found if end != self.source]
        return far[0] if len(far) == 1 else _PAIR.join(in_order(found))

    def link(self, placed: str) -> str:
        """The link whose knobs stand here, by both its nodes: `db1:db2`. The inverse of `placed`."""
        return placed if is_pair(placed) else link_between(self.source, placed)

    def begins(self, link: str) -> str:
        """The end of a link that its knobs take for the primary: the source, else the first by name."""
        ends = ends_of(link)
        return self.source if self.source in ends else ends[0]


def new_roster(replicas: int = MOST_REPLICAS, *, mesh: bool = False) -> Roster:
    """The nodes of a stack that is not made or not known yet."""
    names = node_names(replicas)
    return Roster(tuple(names), names[0], mesh=mesh)
