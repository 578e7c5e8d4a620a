"""A comparison of the rows of all nodes while clients write. It reads; it stops, locks and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from replexplorer.core.dialect.rows import RowRange
from replexplorer.core.errors import ServerRefused, StackUnavailable
from replexplorer.core.rows import (
    SAME_LOOKS,
    Key,
    RowRun,
    Rows,
    RowsChecked,
    TableRows,
    looked,
    picked,
    runs_of,
)
from replexplorer.core.tables import TableName, TableShape
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.tables import OWN_DATABASE, shapes_of
from replexplorer.ports import Reporter, ask

Tables = Mapping[TableName, TableShape]
RANGE_ROWS: Final = 2_000
"""So few that most ranges do not change between the looks at two nodes."""
_PAUSES_S: Final = tuple(0.05 * 2**number for number in range(8))
"""Between looks; a commit that waits for its acknowledgement has to be over within one."""
_EXECUTED_WITHIN_S: Final = 30.0
_ANSWERED_WITHIN_S: Final = 120.0
"""A table without a primary key is read as a whole."""


class RowComparison:
    """One comparison of the tables of a stack."""

    def __init__(self, fleet: Fleet, report: Reporter) -> None:
        self._fleet, self._source, self._report = fleet, fleet.source, report
        self._found = RowsChecked(source=self._source.name)

    async def run(self, names: Sequence[str]) -> RowsChecked:
        """Compare the tables that these mean (`DATABASE`, `DATABASE.TABLE`); none: all but the program's own.
        Raises UsageError for a name that means none, ServerUnreachable where the source cannot be asked, or a
        node is lost meanwhile."""
        found, there = self._found, dict[str, Tables]()
        before = await self._tables(self._source, names)
        for member in self._fleet.replicas:
            try:
                await self._has_executed(member)
                there[member.name] = await self._tables(member, names)
            except (StackUnavailable, ServerRefused) as error:
                found.unknown[member.name] = error.message
        after = await self._tables(self._source, names)
        for name in picked(names, {*before}.union(*there.values())):
            if (name in before) != (name in after):
                continue  # made or dropped a moment ago
            for node, tables in there.items():
                rows = found.nodes.setdefault(node, {})[str(name)] = TableRows()
                try:
                    if name in before and name in tables:
                        await self._compare(before[name], self._fleet.member(node), rows)
                    else:
                        is_late = node in found.unknown
                        rows.add(
                            [RowRun("unsettled" if is_late else "missing" if name in before else "extra")]
                        )
                except ServerRefused as error:  # dropped or altered meanwhile
                    found.unknown[str(name)] = error.message
        return found

    async def _tables(self, member: Member, names: Sequence[str]) -> Tables:
        databases = await ask(member.control, member.dialect.databases)
        wanted = [name for name in databases if names or name != OWN_DATABASE]
        return {shape.name: shape for shape in await shapes_of(member.control, wanted)}

    async def _has_executed(self, member: Member) -> bool:
        """Wait until a node has executed what the source has now; never again for one that was late."""
        node, unknown = member.name, self._found.unknown
        if node not in unknown:
            reached = member.dialect.reached(await self._source.executed(), _EXECUTED_WITHIN_S)
            if not await ask(member.control, reached, deadline_s=_ANSWERED_WITHIN_S):
                unknown[node] = (
                    f"{node} has not executed within {_EXECUTED_WITHIN_S:.0f} s what the source had"
                )
        return node not in unknown

    async def _compare(self, table: TableShape, member: Member, found: TableRows) -> None:
        """A table on one node, range by range, each as long as the source's next rows."""
        after: Key | None = None
        while True:
            self._report(f"comparing {table.name} on {member.name}: {self._found.rows:,} rows")
            ours = await self._rows(self._source, RowRange(table, after), RANGE_ROWS)
            upto = [*ours][-1] if len(ours) == RANGE_ROWS else None
            found.add(await self._unlike(RowRange(table, after, upto), member, ours))
            self._found.rows += sum(map(bool, ours))  # not the one that stands for all
            if upto is None:
                return
            after = upto

    async def _unlike(self, part: RowRange, member: Member, ours: Rows) -> list[RowRun]:
        """What differs in a range, and what does not settle."""
        theirs = await self._rows(member, part)
        left = looked({}, ours, theirs, proves=False)
        for pause_s in _PAUSES_S:
            if all(each.looks >= SAME_LOOKS for each in left.values()):
                break
            await self._fleet.outside.clock.sleep(pause_s)
            waits = await ask(self._source.control, self._source.dialect.waits)
            ours = await self._rows(self._source, part)
            if not await self._has_executed(member):
                break
            theirs = await self._rows(member, part)
            # What the node showed before the pause may still wait on the source to be shown.
            left = looked(left, ours, theirs, proves=(waits.oldest_commit_s or 0.0) < pause_s)
        return runs_of(left, {**ours, **theirs})

    async def _rows(self, member: Member, part: RowRange, most: int | None = None) -> Rows:
        return await ask(member.control, part.rows(most), deadline_s=_ANSWERED_WITHIN_S)
