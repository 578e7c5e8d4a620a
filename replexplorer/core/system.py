"""The systems that a stack can be: how its nodes keep the same rows, and what follows from that.

Law: who needs to know what differs between systems asks a row of `SYSTEMS`; nothing compares names. Which
knobs a system's servers have is probed (core/dialect/dialect.py); the rows here only say in words who
has what another lacks.

What a figure was measured under, so that it can be judged and run again elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.catalogue import Group, Knob, Restart, Value
from replexplorer.core.records import field, frozen, printed
from replexplorer.core.topology import MOST_REPLICAS

SystemName = Literal["async", "group", "galera"]
"""A system as it is typed: `up --system group`."""
DEFAULT: Final = "async"
"""The system of a stack that says nothing of it."""


class SafeBy(StrEnum):
    """What makes the next commit safe."""

    ACKNOWLEDGED = "acknowledged"
    """Replicas that acknowledge, as many as are asked for (core/server/protection.py)."""
    MAJORITY = "majority"
    """A majority of the members answers (core/server/node_view.py)."""


class WaitsFor(StrEnum):
    """For whom a commit waits before a client is told of it."""

    ASKED = "asked"
    """For as many replicas as the knobs say, or none."""
    MAJORITY = "majority"
    """Until most members have it: the nearest ones that make a majority with its own."""
    ALL = "all"
    """Until all members have it: the farthest."""


@frozen
class System:
    """One way to keep several servers the same."""

    name: str
    """As it is typed: `up --system group`."""
    title: str
    """For people: `Group Replication`."""
    flavors: tuple[str, ...]
    """Servers that have it; the first is what a new stack gets."""
    nodes: int
    """Of a new stack, unless more or fewer are asked for."""
    least_nodes: int
    rule: SafeBy
    waits: WaitsFor
    mesh: bool
    """Commits cross the link of any two nodes, so a link's knob without a node turns all of them."""
    own: frozenset[Group] = frozenset()
    """The panel's headings that no other system has."""
    lacks: frozenset[Group] = frozenset()
    """Those of others that mean nothing here."""
    takes_turns: bool = False
    """Places in the order of commits belong to the members in turn, and a lone commit waits until those that
    have nothing to say have passed theirs: a round trip to the farthest more
    (docs/explanation/groups.md, measured)."""
    counts_alike: bool = False
    """Each member certifies, and counts, the transactions of all; else it counts its own."""
    numbers_alike: bool = True
    """Each node gives a transaction the same GTID; else GTIDs do not say what one has and another lacks."""
    applies_itself: bool = False
    """Its applier is part of the membership: a knob that restarts a replica's applier is absent."""
    elects: bool = False
    """Its members agree on who takes writes; else each of them does, or roles are changed from outside."""
    starts_together: bool = False
    """Nodes that ended together answer only once all of them run."""

    @property
    def is_group(self) -> bool:
        """Its nodes are members that agree on each commit; else a source and those that follow it."""
        return self.rule is SafeBy.MAJORITY

    @property
    def each_writes(self) -> bool:
        """Every member takes writes: none has to be made the source, and none is copied on demand."""
        return self.is_group and not self.elects

    def others_needed(self, nodes: int) -> int | None:
        """How many of the other nodes must have a commit, of this many in all; None: the knobs say."""
        match self.waits:
            case WaitsFor.ASKED:
                return None
            case WaitsFor.MAJORITY:
                return nodes // 2
            case WaitsFor.ALL:
                return max(0, nodes - 1)

    def has(self, knob: Knob) -> bool:
        """Whether its servers can have a knob."""
        if self.applies_itself and knob.restart is Restart.APPLIER:
            return False
        owners = [system for system in SYSTEMS.values() if knob.group in system.own]
        return knob.group not in self.lacks and (not owners or self in owners)


ASYNC: Final = System(
    DEFAULT,
    "asynchronous replication",
    ("mysql", "mariadb"),
    2,
    2,
    SafeBy.ACKNOWLEDGED,
    WaitsFor.ASKED,
    mesh=False,
)
GROUP: Final = System(
    "group",
    "Group Replication",
    ("mysql",),
    3,
    2,
    SafeBy.MAJORITY,
    WaitsFor.MAJORITY,
    mesh=True,
    own=frozenset({Group.GROUP}),
    lacks=frozenset({Group.SEMI_SYNC}),
    takes_turns=True,
    counts_alike=True,
    applies_itself=True,
    elects=True,
)
GALERA: Final = System(
    "galera",
    "Galera",
    ("mariadb",),
    3,
    2,
    SafeBy.MAJORITY,
    WaitsFor.ALL,
    mesh=True,
    own=frozenset({Group.GALERA}),
    lacks=frozenset({Group.SEMI_SYNC}),
    numbers_alike=False,
    applies_itself=True,
    starts_together=True,
)
SYSTEMS: Final[Mapping[str, System]] = {each.name: each for each in (ASYNC, GROUP, GALERA)}


def system_of(name: str | None) -> System:
    """The system of this name; None is the default one. Raises UsageError."""
    found = SYSTEMS.get(DEFAULT if name is None else name)
    if found is None:
        raise UsageError(f"no system {name!r}", f"use one of {', '.join(SYSTEMS)}")
    return found


def who_has(knob: Knob) -> str:
    """The systems that can have a knob, in words, with how to bring one up; empty where all can."""
    having = [system for system in SYSTEMS.values() if system.has(knob)]
    if len(having) == len(SYSTEMS):
        return ""
    named = " and ".join(f"{each.title} (`up --system {each.name}`)" for each in having)
    return f"{named} {'has' if len(having) == 1 else 'have'} it"


def new_stack(name: str | None, flavor: str | None, replicas: int | None) -> tuple[System, str, int]:
    """What a new stack is: its system, its server's flavour, and how many nodes it has besides the first.

    Raises UsageError for a flavour that has no such system, and for too few or too many nodes.
    """
    system = system_of(name)
    if flavor is not None and flavor not in system.flavors:
        raise UsageError(
            f"{flavor} has no {system.title}", f"--flavor {' or '.join(system.flavors)}, or another --system"
        )
    wanted = system.nodes - 1 if replicas is None else replicas
    if not system.least_nodes - 1 <= wanted <= MOST_REPLICAS:
        raise UsageError(
            f"a stack of {system.title} cannot have {wanted + 1} nodes",
            f"give {system.least_nodes} to {MOST_REPLICAS + 1}",
        )
    return system, flavor or system.flavors[0], wanted


@printed
class SettingValues:
    """A knob while something was measured."""

    requested: Value | None
    effective: Value | None


@printed
class MachineFacts:
    """The host, which the stack and the load share."""

    words: str
    """In short."""
    cores: int
    memory_bytes: int
    kernel: str
    architecture: str
    cpu: str | None


@printed
class Conditions:
    """What was measured under, so that it can be judged and run again elsewhere."""

    program: str
    """Version of replexplorer."""
    server: str | None
    replicas: int
    system: str = DEFAULT
    """What the stack was."""
    systems: list[str] = field(default_factory=list)
    """That had a stack each, one after the other; empty: one stack with `replicas`."""
    machine: MachineFacts
    settings: dict[str, SettingValues]
    """By key@node."""
    workload_files: dict[str, str] = field(default_factory=dict)
    """The text of each file of SQL by its path."""
    other_driver: str | None = None
    """Who drove another load on the same stack meanwhile (`--share-load`), as `tui (pid 12)`."""
