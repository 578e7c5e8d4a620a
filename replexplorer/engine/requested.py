"""What the stack keeps for all apps in one document: what somebody asked of knobs, and what is under way.

The document is versioned and written compare-and-set, so two apps never lose each other's knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, Final, Self, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.snapshot import PendingRestore
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import BY_KEY, Kind, KnobName, Value
from replexplorer.core.link import kept_all, moved, unkept, without
from replexplorer.core.preset import DataChange, SavedData
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.role_change import UnderWay
from replexplorer.core.server.exposure import Alone
from replexplorer.core.topology import Roster, is_pair
from replexplorer.core.wire import Document
from replexplorer.ports import SharedPlaces

MOST_MARKS: Final = 20
"""The newest ones: whoever comes later has not seen the others' charts."""
_ATTEMPTS: Final = 5


@frozen
class SharedMark:
    """A mark that somebody put on the charts, or one line of what a failure lost."""

    id: str
    """Drawn by the app that put it: no two are the same."""
    text: str
    by: str
    """Who put it: `tui (pid 4711)`."""
    loss_of: str = ""
    """The node whose loss it tells of; empty for a mark."""
    wall_s: float = 0.0
    """When that was found, in seconds since 1970."""


@frozen
class Requested:
    """The document's content. What this version does not know, or cannot read, is left as it is there."""

    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Only what was ever asked, named as `core.link.kept` does."""
    yes_tx_at_enabling: int | None = None
    """The source's acknowledgement counter when semi-sync was last switched on by us."""
    writer: str = ""
    """Who wrote this version: `name (pid N)`."""
    written_s: float | None = None
    """When, in seconds since 1970: a server that began later has lost what SET GLOBAL had set."""
    enabled_s: float | None = None
    """When the kept counter was written down, in seconds since 1970."""
    faults: tuple[Fault, ...] = ()
    """In force, the oldest first."""
    role_change: UnderWay | None = None
    """A change of roles that has begun and is not over."""
    owed: PendingRestore | None = None
    """What the experiment under way gives back, or one that was killed did not."""
    marks: tuple[SharedMark, ...] = ()
    """The oldest first."""
    diverged: Mapping[str, str] = field(default_factory=dict)
    """By node: why its rows may not be the source's though its GTIDs do not show it, said of the node
    (`wrote 3 GTIDs again`). Only a copy of the source's data ends it."""
    history: str = ""
    """GTID set that the last node which was promoted had when it was opened for writes."""
    alone: Alone | None = None
    """Since when no replica answers, as somebody saw it; None: one does, or it is not known."""
    saved: Mapping[str, SavedData] = field(default_factory=dict)
    """By preset."""
    data_change: DataChange | None = None
    """The last one: what its servers came back without is what was asked for."""
    ledger_run: int | None = None
    """The last number that a run of the `ledger` load was given."""
    version: int = 0
    values: Mapping[KnobName, Value] = field(default_factory=dict)
    """The knobs, said from the node that was the source when it was read."""
    source: str = field(default="", compare=False)
    """That node."""

    @classmethod
    def read(cls, document: Document, roster: Roster) -> Self:
        """Read a document of a stack with these nodes."""
        found = {}
        for key, content in document.content.items():
            if content is not None and (kind := _kept().get(key)) is not None:
                found[key] = _read(kind, content)
        known = {key: value for key, value in found.items() if value is not None}
        return cls(**known, version=document.version).said_from(roster)

    def said_from(self, roster: Roster) -> Self:
        """The same where this node is the source."""
        if self.source == roster.source:
            return self
        found = [unkept(name, value, roster) for name, value in self.knobs.items() if value is not None]
        values = {
            name: value
            for name, value in filter(None, found)
            if isinstance(value, str) == (name.knob.kind is Kind.CHOICE)
        }
        return replace(self, values=values, source=roster.source)

    # -- changes

    def asking(self, values: Mapping[KnobName, Value], roster: Roster, writer: str, at_s: float) -> Self:
        """These values are requested, by this writer at this time, in seconds since 1970."""
        knobs = {**self.knobs, **kept_all(values, roster)}
        return replace(self, knobs=knobs, writer=writer, written_s=at_s)

    def enabling(self, yes_tx: int | None, at_s: float) -> Self:
        """Semi-sync was switched on at this counter; None: it was not."""
        return self if yes_tx is None else replace(self, yes_tx_at_enabling=yes_tx, enabled_s=at_s)

    def differing(self, change: Mapping[str, str | None]) -> Self:
        """These nodes differ from the source, and why; None: this one does not any more."""
        found = {**self.diverged, **change}
        return replace(self, diverged={node: why for node, why in found.items() if why is not None})

    def without_nodes(self, gone: Collection[str]) -> Self:
        """Nothing is asked any more of nodes that the stack has no longer, and no fault is theirs."""
        faults = tuple(fault for fault in self.faults if fault.node not in gone)
        left = self.differing(dict.fromkeys(gone))
        return replace(left, knobs=without(self.knobs, gone), faults=faults)

    def with_marks(self, *marks: SharedMark) -> Self:
        """These marks are for all who watch."""
        others = (mark for mark in self.marks if mark not in marks)
        return replace(self, marks=(*others, *marks)[-MOST_MARKS:])

    def with_roles_moved(self, source: str, before: str) -> Self:
        """What was asked of the node that is the `source` now as a replica is asked of the one that was, and
        what was asked of their links to each other node has changed places; a partition stays where it is."""
        found = {moved(key, source, before): value for key, value in self.knobs.items()}
        left = {
            key: BY_KEY[key.partition("@")[0]].default
            for key in self.knobs.keys() - found.keys()
            if is_pair(key.partition("@")[2])
        }
        return replace(self, knobs={**left, **found})


Merge = Callable[[Requested], Requested]
"""A change of the document, made again where another app has written meanwhile."""


@cache
def _kept() -> dict[str, Any]:
    """The types of what the document itself has, by key."""
    hints = get_type_hints(Requested)
    return {key: hints[key] for key in hints if key not in ("version", "values", "source")}


_adapter: Final = cache(TypeAdapter[Any])


def _read(kind: Any, content: object) -> Any:
    """What was written so; None for what cannot be read, and of many rows those that can."""
    if get_origin(kind) is tuple:
        rows = content if isinstance(content, list) else []
        return tuple(found for row in rows if (found := _read(get_args(kind)[0], row)) is not None)
    try:
        return _adapter(kind).validate_python(content)
    except ValidationError:
        return None


async def claim_run(keeper: SharedPlaces, roster: Roster, least: int) -> int:
    """A number for a run of the `ledger` load, `least` or later, that no other load of this stack ever gets:
    its rows are told from those of all others by it. Raises StackUnavailable."""

    def merge(now: Requested) -> Requested:
        return replace(now, ledger_run=max(least, (now.ledger_run or 0) + 1))

    return (await write_document(keeper, roster, merge)).ledger_run or least


async def write_document(keeper: SharedPlaces, roster: Roster, merge: Merge) -> Requested:
    """Write what `merge` makes of the document. A write whose answer was lost may have been done: it is
    made again, which merges to the same. Raises StackUnavailable when the document changes faster than it can
    be written, or when no agent answers."""
    lost: StackUnavailable | None = None
    for _ in range(_ATTEMPTS):
        document = await keeper.document()
        before = Requested.read(document, roster)
        after = merge(before)
        changed = {
            key: _adapter(kind).dump_python(getattr(after, key), mode="json")
            for key, kind in _kept().items()
            if getattr(after, key) != getattr(before, key)
        }
        try:
            written = await keeper.write_document(document.version, {**document.content, **changed})
        except StackUnavailable as error:
            if lost is not None:
                raise
            lost = error
            continue
        if written is not None:
            return Requested.read(written, roster)
    raise StackUnavailable("the requested values are being written by another app", "try again")
