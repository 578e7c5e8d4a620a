"""From what was captured of a server to a workload's file, with what the file leaves out.

Laws: every statement that was counted is in the file or in one line of what is left out; no literal of the
server is in the file, for none was read. A table has as many rows as it had, up to a bound, and what draws
keys draws them from these rows.

Which statements make one transaction is seen where the server keeps sessions' last statements. Laws: a
transaction that was seen from its beginning to its end is as it was; weights are those under which the
statements would come as often as they were counted (the likeliest ones, by expectation maximization as of
Richardson and Lucy); what no shape explains becomes a transaction of one statement, so that no statement
comes much less often than it was counted, and says that this is a guess.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from replexplorer.core.dialect.schema import DigestCount, DigestKey, SeenStatement
from replexplorer.core.load.captured import (
    NO_TEXT,
    CapturedLeftOut,
    CapturedTable,
    CapturedTransaction,
    CapturedWorkload,
)
from replexplorer.core.load.script import DATABASE, read_script
from replexplorer.core.records import frozen, replace
from replexplorer.core.tables import PRIMARY, FilledShape, TableName, TableShape, domains_of
from replexplorer.engine.observe.tables import IMITATION, OWN_DATABASE
from replexplorer.engine.workload_capture.digest import (
    BEGIN,
    COMMIT,
    ROLLBACK,
    STATEMENT,
    NotImitated,
    Schema,
    Writer,
    kind_of,
    tables_of,
)
from replexplorer.engine.workload_capture.watch import Captured

MOST_ROWS: Final = 100_000
"""Of a table, where no other number is given."""
NO_DIGEST: Final = "statements without a digest (the digest table was full)"
OTHER_DATABASES: Final = "statements on databases that were not asked for"
RARE: Final = "rare kinds of transactions: the file has the most frequent ones"
_BOUNDARIES: Final = (BEGIN, COMMIT, ROLLBACK)
_EXAMPLES: Final = 3
_MOST_STATEMENTS: Final = 5_000
_MOST_BYTES: Final = 700_000
_LONGEST_NAME: Final = 64
_FEW_ROWS: Final = 100
"""In a smaller table the average bytes of a row say how large a page is."""
_INDEX_ENTRY_BYTES: Final = 12
_MOST_SHAPES: Final = 200
_ROUNDS: Final = 300
_LEAST_TIMES: Final = 0.5
_LEAST_SHARE: Final = 0.01
"""Of a digest's executions: so much may be left over without a transaction of its own."""


@frozen
class TransactionShape:
    """One kind of transaction."""

    statements: tuple[DigestKey, ...]
    is_explicit: bool = False
    """Between BEGIN and COMMIT; else one statement in autocommit."""
    is_rolled_back: bool = False


@frozen
class Weighed:
    """A shape, how many of it came, and whether its boundaries are a guess."""

    shape: TransactionShape
    times: float
    is_guess: bool = False


def seen_whole(
    runs: Iterable[Sequence[SeenStatement]], names: Mapping[str, DigestKey]
) -> Counter[TransactionShape]:
    """The transactions of these stretches that were seen from their beginning to their end, with how often;
    `names` says which digest is which."""
    runs, found = list(runs), Counter[TransactionShape]()
    # Where no session says BEGIN they are without autocommit, and a transaction begins behind the last one.
    has_begins = any(each.kind == BEGIN for run in runs for each in run)
    for run in runs:
        # A history that changes while it is read may lack statements: numbers of transactions show it.
        has_numbers = any(each.transaction is not None for each in run)
        held: list[DigestKey] | None = None
        """Of the transaction that is open; None outside of one."""
        is_whole, number = False, None
        for place, each in enumerate(run):
            key = names.get(each.name)
            kind = each.kind or (kind_of(key.text) if key is not None else "")
            if kind == BEGIN:
                held, is_whole, number = [], True, None
            elif kind in _BOUNDARIES:
                if held and is_whole:
                    found[TransactionShape(tuple(held), True, kind == ROLLBACK)] += 1
                held = None
            else:
                is_outside = has_numbers and each.transaction is None and kind == STATEMENT
                is_other = None not in (number, each.transaction) and each.transaction != number
                if held and (is_outside or is_other):
                    held = None
                if held is None and each.transaction is not None:
                    held, is_whole, number = [], place > 0 and not has_begins, None
                number = number or each.transaction
                if kind == STATEMENT and key is not None:
                    if held is None:
                        found[TransactionShape((key,))] += 1
                    else:
                        held.append(key)
    return found


def weigh(
    counts: Mapping[DigestKey, int], seen: Mapping[TransactionShape, int], reading_share: float = 0.0
) -> list[Weighed]:
    """The kinds of transactions with how many of each came, the most frequent first.

    `counts` are statements on rows alone. What the kinds that were seen leave over of a statement is a
    transaction of its own: a guess, where others are not. The server goes on while it is asked for its
    counts, which takes `reading_share` of the time: they may be off by so much, and of a statement that was
    seen within transactions alone so much may be left over without a transaction.
    """
    found: dict[TransactionShape, float] = defaultdict(float)
    for shape, number in Counter(seen).most_common(_MOST_SHAPES):
        if kept := tuple(key for key in shape.statements if key in counts):
            found[replace(shape, statements=kept)] += number
    parts = {shape: Counter(shape.statements) for shape in found}
    for _ in range(_ROUNDS):
        made = _made(found)
        for shape, keys in parts.items():
            ratio = sum(number * counts[key] / made[key] for key, number in keys.items() if made[key])
            found[shape] *= ratio / keys.total()
    weighed = {shape: Weighed(shape, times) for shape, times in found.items() if times >= _LEAST_TIMES}
    made = _made({shape: each.times for shape, each in weighed.items()})
    within, alone = (
        {key for shape in found if shape.is_explicit is explicit for key in shape.statements}
        for explicit in (True, False)
    )
    has_explicit = any(shape.is_explicit for shape in weighed)
    for key, number in counts.items():
        left, shape = number - made[key], TransactionShape((key,))
        share = _LEAST_SHARE + (reading_share if key in within - alone else 0.0)
        if left >= _LEAST_TIMES and left > share * number:
            before = weighed.get(shape, Weighed(shape, 0.0, has_explicit or not seen))
            weighed[shape] = replace(before, times=before.times + left)
    return sorted(weighed.values(), key=lambda each: -each.times)


def _made(shapes: Mapping[TransactionShape, float]) -> dict[DigestKey, float]:
    """How often each statement comes, by how often each kind of transaction does."""
    found: dict[DigestKey, float] = defaultdict(float)
    for shape, times in shapes.items():
        for key in shape.statements:
            found[key] += times
    return found


def write_workload(captured: Captured, *, most_rows: int = MOST_ROWS) -> CapturedWorkload:
    """Write the file's text."""
    return _WorkloadFile(captured, most_rows).done()


class _WorkloadFile:
    """One file while it is written."""

    def __init__(self, captured: Captured, most_rows: int) -> None:
        self._captured = captured
        self._left: dict[str, CapturedLeftOut] = {}
        self._guesses: set[str] = set()
        filled = [_filled(shape, most_rows) for _, shape in sorted(captured.tables.items())]
        self._schema = Schema({each.shape.name: each for each in filled}, domains_of(filled))
        self._renamed = {name.database: _renamed(name.database) for name in captured.tables}
        self._home = DATABASE
        """The database that most statements are on."""

    def done(self) -> CapturedWorkload:
        captured = self._captured
        prepared = sum(count.prepared for count in captured.digests.values())
        without_text = max(0, captured.executions - prepared)
        digests = sorted(captured.digests.items(), key=lambda each: -each[1].times)
        rows_of = {key: n for key, n in digests if kind_of(key.text) not in _BOUNDARIES}
        usable = {key: names for key, n in rows_of.items() if (names := self._tables(key, n)) is not None}
        if without_text:
            self._leave(NO_TEXT, "", DigestCount(without_text))
        times = Counter[str]()
        for key, names in usable.items():
            times[names[0].database] += rows_of[key].times
        self._home = max(times, key=lambda name: (times[name], name), default=DATABASE)
        self._renamed.setdefault(self._home, _renamed(self._home))
        seen = seen_whole(captured.runs or (), captured.names)
        counts = {key: rows_of[key].times for key in usable}
        blocks = self._blocks(weigh(counts, seen, captured.reading_s / captured.seconds))
        kept = [each for each, _ in blocks]
        used = {table for each in kept for key in each.shape.statements for table in usable[key]}
        tables = [self._schema.tables[name] for name in sorted(used)]
        left_out = tuple(sorted(self._left.values(), key=lambda left: -left.times))
        notes = self._notes(tables, kept)
        text = self._text(blocks, tables, notes, left_out)
        if blocks:
            read_script(text, "the captured workload")
        total = sum(each.times for each in kept)
        statements = without_text + sum(count.times for count in rows_of.values())
        return CapturedWorkload(
            captured.address,
            captured.server,
            captured.seconds,
            None,
            text,
            statements,
            statements - sum(each.times for each in left_out),
            tuple(
                CapturedTransaction(
                    each.times / captured.seconds,
                    each.times / total,
                    "guessed" if each.is_guess else "seen",
                    each.shape.is_rolled_back,
                    tuple(key.text for key in each.shape.statements),
                )
                for each in kept
            ),
            tuple(CapturedTable(*each.shape.name, each.shape.rows or 0, each.rows) for each in tables),
            left_out,
            notes,
            len(
                {
                    at.session
                    for run in captured.runs or ()
                    for at in run
                    if captured.names.get(at.name) in usable
                }
            ),
            sum(n.ms for key, n in digests if key in usable or key not in rows_of) / captured.seconds / 1000,
        )

    def _leave(self, why: str, text: str, count: DigestCount) -> None:
        left = self._left.setdefault(why, CapturedLeftOut(why))
        left.times += count.times
        left.server_ms += count.ms
        if text and len(left.examples) < _EXAMPLES:
            left.examples.append(text)

    def _tables(self, key: DigestKey, count: DigestCount) -> tuple[TableName, ...] | None:
        """The tables of a digest that can be in the file; None for another, which is left out."""
        asked = self._captured.databases
        try:
            if not key.text:
                raise NotImitated(NO_DIGEST)
            tables = tables_of(key)
            for name in tables:
                is_other = name.database not in asked if asked else name.database.lower() == OWN_DATABASE
                if is_other and name not in self._schema.tables:
                    raise NotImitated(OTHER_DATABASES)
            self._writer().write(key, count)
        except NotImitated as why:
            self._leave(str(why), key.text, count)
            return None
        return tables

    def _writer(self) -> Writer:
        return Writer(self._schema, self._renamed, self._home)

    def _blocks(self, weighed: Sequence[Weighed]) -> list[tuple[Weighed, str]]:
        """The transactions as the file has them, as many as it may have."""
        found = []
        statements = size = 0
        for each in weighed:
            block = self._block(each)
            statements += len(each.shape.statements) + 2
            size += len(block)
            if statements > _MOST_STATEMENTS or size > _MOST_BYTES:
                self._leave(RARE, "", DigestCount(round(each.times * len(each.shape.statements))))
            else:
                found.append((each, block))
        return found

    def _block(self, weighed: Weighed) -> str:
        shape, writer = weighed.shape, self._writer()
        sets: list[str] = []
        statements: list[str] = []
        prepared = executed = 0
        for key in shape.statements:
            count = self._captured.digests[key]
            made = writer.write(key, count)
            sets += made.sets
            statements.append(f"{made.text};")
            self._guesses.update(made.guesses)
            prepared += count.prepared
            executed += count.times
        if shape.is_explicit and (shape.is_rolled_back or len(statements) == 1):
            statements = ["BEGIN;", *statements, "ROLLBACK;" if shape.is_rolled_back else "COMMIT;"]
        return "\n".join([*(["\\prepared"] if 2 * prepared > executed else []), *sets, *statements])

    def _notes(self, tables: Sequence[FilledShape], kept: Sequence[Weighed]) -> tuple[str, ...]:
        """What of the workload is not as it was."""
        captured = self._captured
        notes = []
        smaller = [
            f"{each.shape.name} {each.shape.rows:,} to {each.rows:,}"
            for each in tables
            if (each.shape.rows or 0) > each.rows
        ]
        if smaller:
            more = f" and {len(smaller) - _EXAMPLES} more" if len(smaller) > _EXAMPLES else ""
            notes.append(f"tables with fewer rows than there: {', '.join(smaller[:_EXAMPLES])}{more}")
        if guessed := sum(each.times for each in kept if each.is_guess):
            share = guessed / sum(each.times for each in kept)
            why = "none was seen whole"
            if captured.runs is None:
                why = "the server keeps no history of statements"
            notes.append(f"boundaries of transactions are a guess for {share:.0%} of them: {why}")
        notes.append("which values come often is not known: each is as likely as any other")
        notes += sorted(self._guesses)
        if any(each.shape.foreign_keys for each in tables):
            notes.append("tables are made without their foreign keys")
        if any("PARTITION BY" in captured.ddl.get(each.shape.name, "").upper() for each in tables):
            notes.append("tables are made without their partitions")
        return tuple(notes)

    def _text(
        self,
        blocks: Sequence[tuple[Weighed, str]],
        tables: Sequence[FilledShape],
        notes: Sequence[str],
        left_out: Sequence[CapturedLeftOut],
    ) -> str:
        captured = self._captured
        comments = [
            f"Captured from {captured.address} ({captured.server}) over {captured.seconds:.0f} s.",
            "No literal and no row of that server is in here: values are made up.",
            *(f"Not as it was: {note}." for note in notes),
            *(f"Left out: {left.reason}, {left.times:,} times." for left in left_out),
        ]
        # One line each, whatever a server called its tables.
        lines = [f"-- {' '.join(comment.split())}" for comment in comments]
        lines += [f"\\database {self._renamed[self._home]}", ""]
        writer = self._writer()
        for each in tables:
            size = "" if each.row_bytes is None else f" {each.row_bytes}"
            name = each.shape.name
            ddl = table_body(captured.ddl[name])
            lines += [f"\\rows {each.rows}{size}", f"CREATE TABLE {writer.place(name)} {ddl};", ""]
        for weighed, block in blocks:
            guess = ", boundaries guessed" if weighed.is_guess else ""
            lines += [
                f"-- {weighed.times / max(captured.seconds, 1e-9):.2f} a second{guess}",
                f"\\weight {max(1, round(weighed.times))}",
                block,
                "",
            ]
        return "\n".join(lines) + "\n"


def _filled(shape: TableShape, most_rows: int) -> FilledShape:
    """A table as the file has it, with no more rows than that."""
    rows, row_bytes = max(0, shape.rows or 0), None
    if shape.size_bytes and rows >= _FEW_ROWS:
        entries = sum(len(index.columns) for index in shape.indexes if index.name != PRIMARY)
        row_bytes = max(1, shape.size_bytes // rows - _INDEX_ENTRY_BYTES * entries)
    return FilledShape(shape, max(1, min(rows, most_rows)), row_bytes)


def _renamed(database: str) -> str:
    """Another name, so that the server's own tables are never touched."""
    plain = re.sub(r"[^\w$]", "_", database, flags=re.ASCII)
    if not re.match(r"[A-Za-z_$]", plain):
        plain = f"_{plain}"
    return plain[: _LONGEST_NAME - len(IMITATION)] + IMITATION


_QUOTED: Final = r"'(?:[^'\\]|\\.|'')*'"
_CONSTRAINT: Final = re.compile(r"^\s*(CONSTRAINT|FOREIGN KEY|CHECK)\b", re.IGNORECASE)
_COLUMN_COMMENT: Final = re.compile(rf" COMMENT {_QUOTED}")
_COLUMN_CHECK: Final = re.compile(r" CHECK \(.*\)(?=,?$)")
_NEW_COLLATION: Final = re.compile(r" COLLATE[ =]\w*(?:0900|uca1400)\w*", re.IGNORECASE)
_OPTION: Final = re.compile(
    rf" (?:AUTO_INCREMENT=\d+|COMMENT={_QUOTED}|(?:DATA|INDEX) DIRECTORY={_QUOTED}|ENCRYPTION={_QUOTED}"
    rf"|CONNECTION={_QUOTED}|/\*!\d+ TABLESPACE [^*]*\*/)",
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
