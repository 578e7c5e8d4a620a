"""Whether tables have the same rows on two nodes, found while clients write: what looks at both prove.

Laws: a row is alike once a look at the source and one at the other node found the same. It differs when
`SAME_LOOKS` looks in succession found the same two values. At each of them the source was asked first and,
but for the first one, the other node once it had executed all that the source had by then; the next look at
the source shows that nothing changed in between. What changes at each look is never said to differ: it is not
settled. A row that changes and changes back between all of these looks would pass for one that did not
change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

from replexplorer.core.errors import UsageError
from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.tables import TableName

Key = tuple[Any, ...]
"""A row's primary key; () for all rows of a table together."""
Rows = Mapping[Key, str]
"""Keys to hashes of the rows, in the order of the keys."""
SAME_LOOKS: Final = 4
"""The first of them is one that waits for nothing."""

Difference = Literal["changed", "missing", "extra", "unsettled"]
"""On a node: another value, no such row, a row that the source lacks; or not known, for it changed at each
look, or the node is behind."""


class RowLook(NamedTuple):
    """What the last look found of a row that is not alike."""

    source: str | None
    """Its hash there; None without the row."""
    node: str | None
    looks: int
    """That found the same, in succession."""

    @property
    def difference(self) -> Difference:
        """What these looks prove."""
        if self.looks < SAME_LOOKS:
            return "unsettled"
        return "extra" if self.source is None else "missing" if self.node is None else "changed"


Unlike = dict[Key, RowLook]
"""The rows of a range that no look found alike."""


def looked(before: Unlike, source: Rows, node: Rows, *, proves: bool) -> Unlike:
    """What a further look leaves; nothing is `before` the first. It `proves` nothing where the node had not
    executed what the source had, or may have shown what was still to be committed there."""
    left: Unlike = {}
    for key in before or [*source, *node]:
        pair = source.get(key), node.get(key)
        if pair[0] != pair[1]:
            looks = before[key].looks if proves and before and before[key][:2] == pair else 0
            left[key] = RowLook(*pair, looks + 1)
    return left


@frozen
class RowRun:
    """Rows that differ in the same way, with no row between them that the source has too."""

    kind: Difference
    first: str | None = None
    """Primary key, of several columns with commas; None: it is not known which rows of the table."""
    last: str | None = None
    rows: int | None = None
    """None: not known."""


def runs_of(left: Unlike, seen: Iterable[Key]) -> list[RowRun]:
    """What is left, out of all rows that were seen, in their order."""
    runs = []
    for kind, keys in groupby(seen, lambda key: left[key].difference if key in left else None):
        texts = [", ".join(map(str, key)) for key in keys]
        if kind is not None:
            runs.append(RowRun(kind, texts[0], texts[-1], len(texts)) if all(left) else RowRun(kind))
    return runs


@frozen
class TableRows:
    """The rows of a table that are not alike on a node."""

    rows: dict[Difference, int | None] = field(default_factory=dict)
    """How many differ from the source's, by how; None where that is not known."""
    runs: list[RowRun] = field(default_factory=list)
    """The first 20."""

    def add(self, runs: Iterable[RowRun]) -> None:
        """Count these too."""
        for run in runs:
            before = self.rows.get(run.kind, 0)
            self.rows[run.kind] = None if before is None or run.rows is None else before + run.rows
            self.runs.append(run)
        del self.runs[20:]


@json_keys(show="verdict")
@dataclass(slots=True)
class RowsChecked:
    """What `check --rows` found."""

    source: str
    rows: int = 0
    """Of the source that were compared, of tables with a primary key; once for each other node."""
    nodes: dict[str, dict[str, TableRows]] = field(default_factory=dict)
    """Each table that was compared with the source's, by node."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Node or table to why not all of it could be compared."""

    @property
    def verdict(self) -> Literal["alike", "differs", "unknown"]:
        """differs: some rows do, whatever is not known of others."""
        kinds = {kind for tables in self.nodes.values() for each in tables.values() for kind in each.rows}
        if kinds - {"unsettled"}:
            return "differs"
        return "unknown" if kinds or self.unknown else "alike"


def picked(names: Sequence[str], tables: Collection[TableName]) -> list[TableName]:
    """The tables that these names mean, `DATABASE` or `DATABASE.TABLE`; all without any. Raises UsageError
    for one that means none."""
    for name in names:
        if not any(name in (each.database, str(each)) for each in tables):
            raise UsageError(f"no database or table {name!r} on any node", "write DATABASE or DATABASE.TABLE")
    return sorted(each for each in tables if not names or each.database in names or str(each) in names)
