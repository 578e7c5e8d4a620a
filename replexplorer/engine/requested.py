"""The requested values: what somebody asked for, kept by the stack for everybody.

The document is versioned and written compare-and-set, so two apps never lose each other's knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Final, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.owed import Owed
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import BY_KEY, Backing, Kind, KnobName, Value
from replexplorer.core.link import kept, kept_all, unkept, without
from replexplorer.core.role_change import UnderWay
from replexplorer.core.server.exposure import Alone
from replexplorer.core.topology import Roster
from replexplorer.core.wire import Document
from replexplorer.ports import Keeper

T = TypeVar("T")
Merge = Callable[[dict[str, Any]], None]
"""A change of the document's content, made again where another app has written meanwhile."""

MOST_MARKS: Final = 20
"""The newest ones: whoever comes later has not seen the others' charts."""
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Requested:
    """The document's content, read."""

    version: int = 0
    values: Mapping[KnobName, Value] = field(default_factory=dict)
    """Only what was ever asked; the rest stands at its default."""
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
    owed: Owed | None = None
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
    document: Document | None = field(default=None, compare=False, repr=False)
    """As it came; None where none was read."""
    source: str = field(default="", compare=False)
    """The node that was the source when it was read: names of knobs are said from there."""

    @classmethod
    def read(cls, document: Document, roster: Roster) -> Self:
        """Read a document of a stack with these nodes; what this version does not know, or cannot read, is
        left out, not lost."""
        content = document.content
        values: dict[KnobName, Value] = {}
        for written, value in content.get("knobs", {}).items():
            found = None if value is None else unkept(written, value, roster)
            if found is not None and isinstance(value, str) == (found[0].knob.kind is Kind.CHOICE):
                values[found[0]] = found[1]
        return cls(
            document.version,
            values,
            content.get("yes_tx_at_enabling"),
            content.get("writer", ""),
            content.get("written_s"),
            content.get("enabled_s"),
            _all_of(Fault, content.get("faults")),
            _one_of(UnderWay, content.get("role_change")),
            _one_of(Owed, content.get("owed")),
            _all_of(SharedMark, content.get("marks")),
            _one_of(dict[str, str], content.get("diverged")) or {},
            str(content.get("history", "")),
            _one_of(Alone, content.get("alone")),
            document,
            roster.source,
        )

    def said_from(self, roster: Roster) -> Self:
        """The same document, read again where another node is the source than when it was read."""
        if self.document is None or self.source == roster.source:
            return self
        return self.read(self.document, roster)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _one_of(kind: Callable[..., T], content: object) -> T | None:
    """What was written with `asdict`; None for nothing, and for what cannot be read."""
    try:
        found: T = _adapter(kind).validate_python(content)
    except ValidationError:
        return None
    return found


def _all_of(kind: Callable[..., T], content: object) -> tuple[T, ...]:
    rows = content if isinstance(content, list) else []
    return tuple(found for row in rows if (found := _one_of(kind, row)) is not None)


# -- what is merged into the document


def with_knobs(
    roster: Roster,
    values: Mapping[KnobName, Value],
    *,
    writer: str,
    written_s: float | None = None,
    yes_tx_at_enabling: int | None = None,
) -> Merge:
    """These values are requested. `written_s` is the clock's time; `yes_tx_at_enabling` replaces the kept
    counter when given."""

    def merge(content: dict[str, Any]) -> None:
        before = (_kept_now(key, value, roster) for key, value in content.get("knobs", {}).items())
        asked = {name: value for name, value in values.items() if name.key in BY_KEY}
        content["knobs"] = {**dict(before), **kept_all(asked, roster)}
        content["writer"] = writer
        if written_s is not None:
            content["written_s"] = written_s
        _enabled(content, yes_tx_at_enabling, written_s)

    return merge


def _kept_now(text: str, value: Any, roster: Roster) -> tuple[str, Any]:
    """An entry as this version keeps it; as it is where it is none of this version's."""
    found = None if value is None else unkept(text, value, roster)
    return (text, value) if found is None else kept(*found, roster)


def _enabled(content: dict[str, Any], yes_tx: int | None, written_s: float | None) -> None:
    if yes_tx is not None:
        content |= {"yes_tx_at_enabling": yes_tx, "enabled_s": written_s}


def without_nodes(gone: Collection[str]) -> Merge:
    """Nothing is asked any more of nodes that the stack has no longer."""

    def merge(content: dict[str, Any]) -> None:
        content["knobs"] = without(content.get("knobs", {}), gone)
        with_diverged(dict.fromkeys(gone))(content)

    return merge


def with_faults(change: Callable[[Sequence[Fault]], Iterable[Fault]]) -> Merge:
    """Other faults are in force."""

    def merge(content: dict[str, Any]) -> None:
        content["faults"] = [asdict(each) for each in change(_all_of(Fault, content.get("faults")))]

    return merge


def with_marks(marks: Sequence[SharedMark], *, unless_since_s: float | None = None) -> Merge:
    """These marks are for all who watch; losses of a node not where another app has kept some of it since
    this moment, in seconds since 1970."""

    def merge(content: dict[str, Any]) -> None:
        ids, nodes = {mark.id for mark in marks}, {mark.loss_of for mark in marks}
        known = [each for each in _all_of(SharedMark, content.get("marks")) if each.id not in ids]
        if unless_since_s is None or not any(
            each.loss_of in nodes and each.wall_s >= unless_since_s for each in known
        ):
            content["marks"] = [asdict(mark) for mark in (*known, *marks)][-MOST_MARKS:]

    return merge


def with_diverged(change: Mapping[str, str | None]) -> Merge:
    """These nodes differ from the source, and why; None: this one does not any more."""

    def merge(content: dict[str, Any]) -> None:
        found = {**(_one_of(dict[str, str], content.get("diverged")) or {}), **change}
        content["diverged"] = {node: why for node, why in found.items() if why is not None}

    return merge


def with_record(key: str, record: Owed | UnderWay | Alone | None) -> Merge:
    """What stands under `owed`, `role_change` or `alone`; None: nothing any more."""

    def merge(content: dict[str, Any]) -> None:
        content[key] = None if record is None else asdict(record)

    return merge


def with_roles_moved(
    change: UnderWay,
    moved: tuple[str, str],
    *,
    written_s: float,
    yes_tx_at_enabling: int | None,
    history: str | None,
) -> Merge:
    """The roles have `moved`: of the node that is the source now and the one that was, what was asked of the
    first as a replica is asked of the second. `yes_tx_at_enabling` and `history` replace what is kept when
    given."""

    def merge(content: dict[str, Any]) -> None:
        with_record("role_change", change)(content)
        if history is not None:
            content["history"] = history
        content["knobs"] = {_moved(key, *moved): value for key, value in content.get("knobs", {}).items()}
        _enabled(content, yes_tx_at_enabling, written_s)

    return merge


def _moved(written: str, source: str, before: str) -> str:
    """The key of what is asked of one node's server or disk, after these two have changed places."""
    key, at, node = written.partition("@")
    knob = BY_KEY.get(key)
    is_of_node = knob is not None and knob.backing in (Backing.SERVER, Backing.DISK)
    return f"{key}{at}{before}" if is_of_node and node == source else written


async def claim_run(keeper: Keeper, roster: Roster, least: int) -> int:
    """A number for a run of the `ledger` load, `least` or later, that no other load of this stack ever gets:
    its rows are told from those of all others by it. Raises StackUnavailable."""
    claimed = least

    def merge(content: dict[str, Any]) -> None:
        nonlocal claimed
        last = content.get("ledger_run")
        claimed = max(least, last + 1) if isinstance(last, int) else least
        content["ledger_run"] = claimed

    await write_document(keeper, roster, merge)
    return claimed


async def write_document(keeper: Keeper, roster: Roster, merge: Merge) -> Requested:
    """Write what `merge` makes of the document. A write whose answer was lost may have been done: it is
    made again, which merges to the same. Raises StackUnavailable when the document changes faster than it can
    be written, or when no agent answers."""
    lost: StackUnavailable | None = None
    for _ in range(_ATTEMPTS):
        document = await keeper.document()
        content: dict[str, Any] = dict(document.content)
        merge(content)
        try:
            written = await keeper.write_document(document.version, content)
        except StackUnavailable as error:
            if lost is not None:
                raise
            lost = error
            continue
        if written is not None:
            return Requested.read(written, roster)
    raise StackUnavailable("the requested values are being written by another app", "try again")
