"""The requested values: what somebody asked for, kept by the stack for everybody.

The document is versioned and written compare-and-set, so two apps never lose each other's knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.owed import Owed, owed_from_record, owed_to_record
from replexplorer.core.fault import Fault, from_record, to_record
from replexplorer.core.history.kept_mark import KeptMark, marks_from_record, marks_to_record
from replexplorer.core.kept import kept, kept_all, unkept, without
from replexplorer.core.knobs.common import KeptChange, changed
from replexplorer.core.knobs.names import BY_KEY, Backing, Kind, KnobName, Value
from replexplorer.core.role_change import UnderWay
from replexplorer.core.role_change import from_record as role_change_from_record
from replexplorer.core.role_change import to_record as role_change_to_record
from replexplorer.core.topology import Roster
from replexplorer.core.wire import Document
from replexplorer.ports import Keeper

_ATTEMPTS = 5


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
    marks: tuple[KeptMark, ...] = ()
    """Those that people put on the charts, the oldest first."""
    everywhere: Mapping[str, Value] = field(default_factory=dict)
    """By key: what was asked of every node or link alike, so that one which joins is asked the same."""
    diverged: Mapping[str, str] = field(default_factory=dict)
    """By node: why its rows may not be the source's though its GTIDs do not show it, said of the node
    (`wrote 3 GTIDs again`). Only a copy of the source's data ends it."""
    history: str = ""
    """GTID set that the last node which was promoted had when it was opened for writes."""
    document: Document | None = field(default=None, compare=False, repr=False)
    """As it came; None where none was read."""
    source: str = field(default="", compare=False)
    """The node that was the source when it was read: names of knobs are said from there."""

    @classmethod
    def read(cls, document: Document, roster: Roster) -> Self:
        """Read a document of a stack with these nodes; knobs that this version does not know are left
        out, not lost."""
        values: dict[KnobName, Value] = {}
        for written, value in document.content.get("knobs", {}).items():
            found = None if value is None else unkept(written, value, roster)
            if found is not None and isinstance(value, str) == (found[0].knob.kind is Kind.CHOICE):
                values[found[0]] = found[1]
        return cls(
            document.version,
            values,
            document.content.get("yes_tx_at_enabling"),
            document.content.get("writer", ""),
            document.content.get("written_s"),
            document.content.get("enabled_s"),
            from_record(document.content.get("faults")),
            role_change_from_record(document.content.get("role_change")),
            owed_from_record(document.content.get("owed"), roster),
            marks_from_record(document.content.get("marks")),
            _everywhere(document.content),
            _words(document.content.get("diverged")),
            str(document.content.get("history", "")),
            document,
            roster.source,
        )

    def said_from(self, roster: Roster) -> Self:
        """The same document, read again where another node is the source than when it was read."""
        if self.document is None or self.source == roster.source:
            return self
        return self.read(self.document, roster)


def _words(found: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _everywhere(content: Mapping[str, Any]) -> dict[str, Value]:
    found: Mapping[str, Any] = content.get("everywhere", {})
    return {
        key: value
        for key, value in found.items()
        if key in BY_KEY and isinstance(value, str) == (BY_KEY[key].kind is Kind.CHOICE)
    }


def _kept_now(text: str, value: Any, roster: Roster) -> tuple[str, Any]:
    """An entry as this version keeps it; as it is where it is none of this version's."""
    found = None if value is None else unkept(text, value, roster)
    return (text, value) if found is None else kept(*found, roster)


async def read_requested(keeper: Keeper, roster: Roster) -> Requested:
    """The document of a stack with these nodes as it stands."""
    return Requested.read(await keeper.document(), roster)


async def write_requested(
    keeper: Keeper,
    roster: Roster,
    values: Mapping[KnobName, Value],
    *,
    writer: str,
    written_s: float | None = None,
    yes_tx_at_enabling: int | None = None,
    everywhere: KeptChange | None = None,
) -> Requested:
    """Merge these values into the document, whoever writes meanwhile.

    `everywhere` is the change of what was asked of all nodes; restored values say nothing of it.

    `written_s` is the clock's time; `yes_tx_at_enabling` replaces the kept counter when given.
    Raises StackUnavailable when the document changes faster than it can be written, or when no
    agent answers.
    """

    def merge(content: dict[str, Any]) -> None:
        before = (_kept_now(key, value, roster) for key, value in content.get("knobs", {}).items())
        asked = {name: value for name, value in values.items() if name.key in BY_KEY}
        content["knobs"] = {**dict(before), **kept_all(asked, roster)}
        if everywhere:
            content["everywhere"] = changed(_everywhere(content), everywhere)
        content["writer"] = writer
        if written_s is not None:
            content["written_s"] = written_s
        if yes_tx_at_enabling is not None:
            content["yes_tx_at_enabling"] = yes_tx_at_enabling
            content["enabled_s"] = written_s

    return await _write(keeper, roster, merge)


async def forget_nodes(keeper: Keeper, roster: Roster, gone: Collection[str]) -> Requested:
    """Drop what was asked of nodes that the stack has no longer. Raises StackUnavailable."""

    def merge(content: dict[str, Any]) -> None:
        content["knobs"] = without(content.get("knobs", {}), gone)
        kept_diverged = _words(content.get("diverged")).items()
        content["diverged"] = {node: why for node, why in kept_diverged if node not in gone}

    return await _write(keeper, roster, merge)


async def write_faults(
    keeper: Keeper, roster: Roster, change: Callable[[Sequence[Fault]], Sequence[Fault]]
) -> Requested:
    """Change which faults are in force, whoever writes meanwhile. Raises StackUnavailable."""

    def merge(content: dict[str, Any]) -> None:
        content["faults"] = to_record(change(from_record(content.get("faults"))))

    return await _write(keeper, roster, merge)


async def write_owed(keeper: Keeper, roster: Roster, owed: Owed | None) -> Requested:
    """Keep what an experiment owes the stack, or None: nothing any more. Raises StackUnavailable."""

    def merge(content: dict[str, Any]) -> None:
        content["owed"] = owed_to_record(owed, roster)

    return await _write(keeper, roster, merge)


async def write_mark(keeper: Keeper, roster: Roster, mark: KeptMark) -> Requested:
    """Keep a mark for all who watch, whoever writes meanwhile. Raises StackUnavailable."""

    def merge(content: dict[str, Any]) -> None:
        known = [each for each in marks_from_record(content.get("marks")) if each.id != mark.id]
        content["marks"] = marks_to_record([*known, mark])

    return await _write(keeper, roster, merge)


async def write_diverged(keeper: Keeper, roster: Roster, change: Mapping[str, str | None]) -> Requested:
    """Keep which nodes differ from the source, and why; None: this one does not any more. Raises
    StackUnavailable."""

    def merge(content: dict[str, Any]) -> None:
        found = {**_words(content.get("diverged")), **change}
        content["diverged"] = {node: why for node, why in found.items() if why is not None}

    return await _write(keeper, roster, merge)


async def claim_run(keeper: Keeper, roster: Roster, least: int) -> int:
    """A number for a run of the `ledger` load, `least` or later, that no other load of this stack ever gets:
    its rows are told from those of all others by it. Raises StackUnavailable."""
    claimed = least

    def merge(content: dict[str, Any]) -> None:
        nonlocal claimed
        last = content.get("ledger_run")
        claimed = max(least, last + 1) if isinstance(last, int) else least
        content["ledger_run"] = claimed

    await _write(keeper, roster, merge)
    return claimed


async def write_role_change(
    keeper: Keeper,
    roster: Roster,
    change: UnderWay | None,
    *,
    moved: tuple[str, str] | None = None,
    written_s: float | None = None,
    yes_tx_at_enabling: int | None = None,
    history: str | None = None,
) -> Requested:
    """Keep the change of roles that is under way, or None: there is none. With `moved`, the node that is the
    source now and the one that was, what was asked of the first as a replica is asked of the second;
    `yes_tx_at_enabling` and `history` replace what is kept when given. Raises StackUnavailable."""

    def merge(content: dict[str, Any]) -> None:
        content["role_change"] = role_change_to_record(change)
        if history is not None:
            content["history"] = history
        if moved is not None:
            knobs: Mapping[str, Any] = content.get("knobs", {})
            content["knobs"] = {_moved(key, *moved): value for key, value in knobs.items()}
        if yes_tx_at_enabling is not None:
            content["yes_tx_at_enabling"] = yes_tx_at_enabling
            content["enabled_s"] = written_s

    return await _write(keeper, roster, merge)


def _moved(written: str, source: str, before: str) -> str:
    """The key of what is asked of one node's server or disk, after these two have changed places."""
    key, at, node = written.partition("@")
    knob = BY_KEY.get(key)
    is_of_node = knob is not None and knob.backing in (Backing.SERVER, Backing.DISK)
    return f"{key}{at}{before}" if is_of_node and node == source else written


async def _write(keeper: Keeper, roster: Roster, merge: Callable[[dict[str, Any]], None]) -> Requested:
    """Write what `merge` makes of the document. A write whose answer was lost may have been done: it is
    made again, which merges to the same."""
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
