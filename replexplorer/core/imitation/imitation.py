"""From what was captured of a server to a workload's file, with what the file leaves out.

Laws: every statement that was counted is in the file or in one line of what is left out; no literal of the
server is in the file, for none was read. A table has as many rows as it had, up to a bound, and what draws
keys draws them from these rows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.imitation.columns import FilledShape, domains_of
from replexplorer.core.imitation.digest import (
    BEGIN,
    COMMIT,
    NO_DIGEST,
    NO_TEXT,
    NOT_THERE,
    OTHER,
    ROLLBACK,
    STATEMENT,
    Means,
    NotImitated,
    Schema,
    Writer,
    kind_of,
    tables_of,
)
from replexplorer.core.imitation.look import DigestCount, DigestKey
from replexplorer.core.imitation.transactions import Boundaries, SeenStatement, Weighed, sort_out, weigh
from replexplorer.core.load.script import DATABASE, read_script
from replexplorer.core.tables.table import TableName, TableShape

MOST_ROWS: Final = 100_000
"""Of a table, unless somebody says otherwise."""
SUFFIX: Final = "_imitation"
"""Behind the name of a database, so that the server's own tables are never touched."""
OTHER_DATABASES: Final = "statements on databases that were not asked for"
RARE: Final = "rare kinds of transactions: the file has the most frequent ones"
EXAMPLES: Final = 3
_MOST_STATEMENTS: Final = 5_000
_MOST_BYTES: Final = 700_000
_LONGEST_NAME: Final = 64
_FEW_ROWS: Final = 100
"""In a smaller table the average bytes of a row say how large a page is."""
_INDEX_ENTRY_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Captured:
    """What was read of a server; no value of any row."""

    server: str
    """Flavour and version, for people."""
    address: str
    seconds: float
    digests: Mapping[DigestKey, DigestCount]
    """What came within the seconds."""
    tables: Mapping[TableName, TableShape]
    ddl: Mapping[TableName, str]
    """As SHOW CREATE TABLE has it."""
    runs: Sequence[Sequence[SeenStatement]] | None = None
    """Sessions' statements in order; None where the server keeps no history of them."""
    names: Mapping[str, DigestKey] = field(default_factory=dict)
    """Digests by what the runs call them."""
    executions: int = 0
    """Of prepared statements."""
    transactions: int | None = None
    """As the server counted them."""
    databases: tuple[str, ...] = ()
    """Only these; empty: all but the server's own and the program's."""


@dataclass(slots=True)
class LeftOut:
    """Statements that are not in the file, for one reason."""

    times: int = 0
    ms: float = 0.0
    examples: list[str] = field(default_factory=list)
    """Digests, the most frequent first."""


@dataclass(frozen=True, slots=True)
class ImitatedTable:
    """A table of the file."""

    name: TableName
    rows: int
    captured_rows: int


@dataclass(frozen=True, slots=True)
class Imitation:
    """A workload's file and what is known of it."""

    text: str
    transactions: tuple[Weighed, ...]
    written: tuple[str, ...]
    """The block of each transaction, its weight aside."""
    tables: tuple[ImitatedTable, ...]
    left_out: Mapping[str, LeftOut]
    notes: tuple[str, ...]
    statements: int
    """That were counted, BEGIN, COMMIT and ROLLBACK aside."""
    imitated: int
    """Of these the ones that are in the file."""
    server_ms: float
    """That the server took for all statements."""

    @property
    def remedy(self) -> str:
        """What to try where hardly anything could be imitated."""
        left = self.left_out.get(NO_TEXT)
        if left is not None and 2 * left.times > self.statements:
            return (
                f"{left.times:,} of {self.statements:,} were prepared statements without a text: let the"
                " clients send plain ones meanwhile (sysbench: --db-ps-mode=disable)"
            )
        return "watch it for longer, or while its clients work"


def imitate(captured: Captured, *, most_rows: int = MOST_ROWS) -> Imitation:
    """Write the file."""
    return _Imitating(captured, most_rows).done()


class _Imitating:
    """One file while it is written."""

    def __init__(self, captured: Captured, most_rows: int) -> None:
        self._captured = captured
        self._most_rows = most_rows
        self._left: dict[str, LeftOut] = defaultdict(LeftOut)
        self._guesses: set[str] = set()
        self._statements = 0

    def done(self) -> Imitation:
        captured = self._captured
        bounds = {BEGIN: 0, COMMIT: 0, ROLLBACK: 0}
        usable: dict[DigestKey, tuple[TableName, ...]] = {}
        without_text = captured.executions - sum(count.prepared for count in captured.digests.values())
        for key, count in sorted(captured.digests.items(), key=lambda each: -each[1].times):
            kind = kind_of(key.text) if key.text else ""
            if kind in bounds:
                bounds[kind] += count.times
            elif kind in (STATEMENT, OTHER):
                self._statements += count.times
                self._sort(key, count, usable)
            elif not kind:
                self._statements += count.times
                self._leave(NO_DIGEST, "", count)
        if without_text > 0:
            self._statements += without_text
            self._leave(NO_TEXT, "", DigestCount(without_text))
        schema = self._schema({table for tables in usable.values() for table in tables})
        home = self._home(usable)
        renamed = {name.database: _renamed(name.database) for name in schema.tables}
        for key in list(usable):
            self._try(key, schema, renamed, home, usable)
        counts = {key: captured.digests[key].times for key in usable}
        first_seen = {key: captured.digests[key].first_seen for key in usable}
        seen = None if captured.runs is None else sort_out(captured.runs, captured.names)
        weighed = weigh(counts, first_seen, Boundaries(bounds[BEGIN], bounds[COMMIT], bounds[ROLLBACK]), seen)
        kept, written = self._blocks(weighed, schema, renamed, home)
        used = {table for each in kept for key in each.shape.statements for table in usable[key]}
        tables = [schema.tables[name] for name in sorted(used)]
        notes = self._notes(tables, kept, seen is not None)
        text = self._text(kept, written, tables, renamed, home, notes)
        if written:
            read_script(text, "the captured workload")
        return Imitation(
            text,
            tuple(kept),
            tuple(written),
            tuple(
                ImitatedTable(each.shape.name, each.rows, captured.tables[each.shape.name].rows or 0)
                for each in tables
            ),
            dict(sorted(self._left.items(), key=lambda each: -each[1].times)),
            notes,
            self._statements,
            self._statements - sum(each.times for each in self._left.values()),
            sum(count.ms for count in captured.digests.values()),
        )

    def _leave(self, why: str, text: str, count: DigestCount) -> None:
        left = self._left[why]
        left.times += count.times
        left.ms += count.ms
        if text and len(left.examples) < EXAMPLES:
            left.examples.append(text)

    def _sort(
        self, key: DigestKey, count: DigestCount, usable: dict[DigestKey, tuple[TableName, ...]]
    ) -> None:
        """Take a digest, or leave it out with the reason."""
        captured = self._captured
        try:
            tables = tables_of(key.text, key.database or None)
            if any(table not in captured.tables for table in tables):
                is_other = any(not self._is_asked_for(table.database) for table in tables)
                raise NotImitated(OTHER_DATABASES if is_other else NOT_THERE)
        except NotImitated as why:
            self._leave(str(why), key.text, count)
        else:
            usable[key] = tables

    def _is_asked_for(self, database: str) -> bool:
        if self._captured.databases:
            return database in self._captured.databases
        return database.lower() != "replexplorer"

    def _schema(self, names: set[TableName]) -> Schema:
        tables = {}
        for name in sorted(names):
            shape = self._captured.tables[name]
            rows = max(0, shape.rows or 0)
            row_bytes = None
            if shape.size_bytes and rows >= _FEW_ROWS:
                indexes = sum(len(index.parts) for index in shape.indexes if index.name != "PRIMARY")
                row_bytes = max(1, shape.size_bytes // rows - _INDEX_ENTRY_BYTES * indexes)
            tables[name] = FilledShape(shape, max(1, min(rows, self._most_rows)), row_bytes)
        return Schema(tables, domains_of(list(tables.values())))

    def _home(self, usable: Mapping[DigestKey, tuple[TableName, ...]]) -> str:
        """The database that most statements are on."""
        times: dict[str, int] = defaultdict(int)
        for key, tables in usable.items():
            for table in tables[:1]:
                times[table.database] += self._captured.digests[key].times
        return max(times, key=lambda name: (times[name], name), default=DATABASE)

    def _try(
        self,
        key: DigestKey,
        schema: Schema,
        renamed: Mapping[str, str],
        home: str,
        usable: dict[DigestKey, tuple[TableName, ...]],
    ) -> None:
        """See whether a digest can be written as a statement."""
        count = self._captured.digests[key]
        try:
            Writer(schema, renamed, home).write(key.text, key.database or None, _means(count))
        except NotImitated as why:
            self._leave(str(why), key.text, count)
            del usable[key]

    def _blocks(
        self, weighed: Sequence[Weighed], schema: Schema, renamed: Mapping[str, str], home: str
    ) -> tuple[list[Weighed], list[str]]:
        """The transactions as the file has them, as many as it may have."""
        kept: list[Weighed] = []
        written: list[str] = []
        statements = size = 0
        for each in weighed:
            block = self._block(each, schema, renamed, home)
            statements += len(each.shape.statements) + 2
            size += len(block)
            if statements > _MOST_STATEMENTS or size > _MOST_BYTES:
                self._leave(RARE, "", DigestCount(round(each.times * len(each.shape.statements))))
                continue
            kept.append(each)
            written.append(block)
        return kept, written

    def _block(self, weighed: Weighed, schema: Schema, renamed: Mapping[str, str], home: str) -> str:
        shape = weighed.shape
        writer = Writer(schema, renamed, home)
        sets: list[str] = []
        statements: list[str] = []
        prepared = executed = 0
        for key in shape.statements:
            count = self._captured.digests[key]
            made = writer.write(key.text, key.database or None, _means(count))
            sets += made.sets
            statements.append(f"{made.text};")
            self._guesses.update(made.guesses)
            prepared += count.prepared
            executed += count.times
        if shape.is_explicit and (shape.is_rolled_back or len(statements) == 1):
            end = "ROLLBACK" if shape.is_rolled_back else "COMMIT"
            statements = ["BEGIN;", *statements, f"{end};"]
        head = ["\\prepared"] if 2 * prepared > executed else []
        return "\n".join([*head, *sets, *statements])

    def _notes(
        self, tables: Sequence[FilledShape], kept: Sequence[Weighed], has_history: bool
    ) -> tuple[str, ...]:
        """What of the imitation is not as it was."""
        captured = self._captured
        notes = []
        smaller = [each for each in tables if (captured.tables[each.shape.name].rows or 0) > each.rows]
        if smaller:
            shown = ", ".join(
                f"{each.shape.name} {captured.tables[each.shape.name].rows:,} to {each.rows:,}"
                for each in smaller[:EXAMPLES]
            )
            more = f" and {len(smaller) - EXAMPLES} more" if len(smaller) > EXAMPLES else ""
            notes.append(f"tables with fewer rows than there: {shown}{more}")
        guessed = sum(each.times for each in kept if each.is_guess)
        total = sum(each.times for each in kept)
        if guessed:
            how = (
                "only parts of them were seen" if has_history else "the server keeps no history of statements"
            )
            notes.append(f"boundaries of transactions are a guess for {guessed / total:.0%} of them: {how}")
        early = sum(each.times for each in kept if each.is_guess and each.shape.is_rolled_back)
        if early:
            notes.append(
                f"{early / total:.0%} of transactions had no end of their own, as after a deadlock or where a"
                " row had changed: here they end with ROLLBACK, where the counts say"
            )
        notes.append("which values come often is not known: each is as likely as any other")
        notes += sorted(self._guesses)
        if any(index for each in tables for index in each.shape.foreign_keys):
            notes.append("tables are made without their foreign keys")
        if any("PARTITION BY" in captured.ddl.get(each.shape.name, "").upper() for each in tables):
            notes.append("tables are made without their partitions")
        return tuple(notes)

    def _text(
        self,
        kept: Sequence[Weighed],
        written: Sequence[str],
        tables: Sequence[FilledShape],
        renamed: Mapping[str, str],
        home: str,
        notes: Sequence[str],
    ) -> str:
        captured = self._captured
        seconds = max(captured.seconds, 1e-9)
        lines = [
            f"-- Captured from {captured.address} ({captured.server}) over {captured.seconds:.0f} s.",
            "-- No literal and no row of that server is in here: values are made up.",
            *(f"-- Not as it was: {note}." for note in notes),
            *(
                f"-- Left out: {why}, {left.times:,} times."
                for why, left in sorted(self._left.items(), key=lambda each: -each[1].times)
            ),
            f"\\database {renamed.get(home, _renamed(home))}",
            "",
        ]
        for each in tables:
            size = "" if each.row_bytes is None else f" {each.row_bytes}"
            name = each.shape.name
            database = "" if name.database == home else f"`{renamed[name.database]}`."
            lines += [
                f"\\rows {each.rows}{size}",
                f"CREATE TABLE {database}`{name.table}` {table_body(captured.ddl[name])};",
                "",
            ]
        for weighed, block in zip(kept, written, strict=True):
            guess = ", boundaries guessed" if weighed.is_guess else ""
            lines += [
                f"-- {weighed.times / seconds:.2f} a second{guess}",
                f"\\weight {max(1, round(weighed.times))}",
                block,
                "",
            ]
        return "\n".join(one_line_each(lines)) + "\n"


def one_line_each(lines: Sequence[str]) -> list[str]:
    """Comments that stay comments, whatever a server called its tables."""
    return [" ".join(line.split()) if line.startswith("--") else line for line in lines]


def _means(count: DigestCount) -> Means:
    times = max(1, count.times)
    return Means(count.examined / times, count.sent / times, count.affected / times)


def _renamed(database: str) -> str:
    plain = re.sub(r"[^\w$]", "_", database, flags=re.ASCII)
    if not re.match(r"[A-Za-z_$]", plain):
        plain = f"_{plain}"
    return plain[: _LONGEST_NAME - len(SUFFIX)] + SUFFIX


_TEXT: Final = r"'(?:[^'\\]|\\.|'')*'"
_CONSTRAINT: Final = re.compile(r"^\s*(CONSTRAINT|FOREIGN KEY|CHECK)\b", re.IGNORECASE)
_COLUMN_COMMENT: Final = re.compile(rf" COMMENT {_TEXT}")
_COLUMN_CHECK: Final = re.compile(r" CHECK \(.*\)(?=,?$)")
_NEW_COLLATION: Final = re.compile(r" COLLATE[ =]\w*(?:0900|uca1400)\w*", re.IGNORECASE)
_OPTION: Final = re.compile(
    rf" (?:AUTO_INCREMENT=\d+|COMMENT={_TEXT}|(?:DATA|INDEX) DIRECTORY={_TEXT}|ENCRYPTION={_TEXT}"
    rf"|CONNECTION={_TEXT}|/\*!\d+ TABLESPACE [^*]*\*/)",
    re.IGNORECASE,
)


def table_body(ddl: str) -> str:
    """What stands behind a table's name in SHOW CREATE TABLE, without what another server cannot have or
    made-up rows would break: foreign keys, checks, partitions, files, and the newest collations, which the
    two flavours do not share."""
    body = ddl[ddl.index("(") :] if "(" in ddl else "(id INT)"
    lines = body.split("\n")
    end = max((at for at, line in enumerate(lines) if line.startswith(")")), default=len(lines) - 1)
    columns = [
        _NEW_COLLATION.sub("", _COLUMN_CHECK.sub("", _COLUMN_COMMENT.sub("", line))).rstrip().rstrip(",")
        for line in lines[1:end]
        if not _CONSTRAINT.match(line)
    ]
    options = _NEW_COLLATION.sub("", _OPTION.sub("", lines[end]))
    return "\n".join(["(", ",\n".join(columns), options.rstrip()])
