"""What the background load does: tables, statements and the values of one transaction.

Law: the sysbench workloads have the schema, the statements, their order, the defaults and the key
distribution of sysbench 1.0's scripts of the same name (one table, auto-increment keys, ranges of
100, `--rand-type=special`), prepared where sysbench prepares, so that both tools put the same work
on a server. `foo` is the insert of the wan-insert lab (docs/reference/labs.md); `ledger` writes rows that say
who wrote them (core/loss). Random numbers come from the caller's generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from random import Random
from typing import Any, Final

from replexplorer.core.records import frozen, replace

DATABASE: Final = "replexplorer"
"""Where the tables live, on every node."""

READ: Final = 0
WRITE: Final = 1
OTHER: Final = 2
"""How a statement counts in sysbench's `r/w/o`; BEGIN and COMMIT are other."""

Values = tuple[int | bytes, ...]
Transaction = Sequence[tuple[int, Values]]
"""The statements of one transaction in order: an index into the workload's statements and the values
of its parameters."""
Draw = Callable[[], Transaction]
"""Makes the next transaction."""

SPECIAL_SHARE: Final = 0.75
SPECIAL_WIDTH: Final = 0.01
_BELL_DRAWS: Final = 12
_RANGE_SIZE: Final = 100
_POINT_SELECTS: Final = 10
_GROUP_DIGITS: Final = 11
_PAD_GROUPS: Final = 5
_GROUP_POOL: Final = 4096
_FOO_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXY"
_FOO_LENGTH: Final = 8
_FIRST_EMPLOYEE: Final = 10_001
_APART: Final = 2_000_000
_PROCESSES: Final = 1_000
_NAMES: Final = (b"Ada", b"Boris", b"Cecilia", b"Dmitri", b"Elizabeth", b"Fumiko", b"Guilherme", b"Hana")
_SURNAMES: Final = (
    b"Alvarez",
    b"Bjornstad",
    b"Castellanos",
    b"Dvorak",
    b"Eriksson",
    b"Okonkwo",
    b"Vandenberg",
)
_PAYLOAD_POOL_BYTES: Final = 1 << 16
_WRITER_BITS: Final = 62

_NUMBERS: Final = frozenset({"key", "new_key", "same_key", "99_beyond", "number", "client", "seq"})
"""Values that are sent as numbers; the others are texts."""

LEDGER: Final = "ledger"
"""The workload whose clients keep a log of what they do."""
LEDGER_TABLE: Final = f"{DATABASE}.ledger"

PAYLOAD: Final = "payload"
"""The column that a table has only for a load with a payload."""
PAYLOAD_COLUMN: Final = f"{PAYLOAD} MEDIUMTEXT"
"""As a table declares it, behind all others."""


@frozen
class Statement:
    """One statement of a transaction."""

    name: str
    """Its class in the figures: `point_select`, `commit`."""
    text: str
    """With a `?` for each parameter."""
    kind: int = WRITE
    """READ, WRITE or OTHER."""
    parameters: str = ""
    """A letter for each parameter: `i` a number of 4 bytes without a sign, `l` one of 8 bytes with it, `s` a
    text of characters that need no escape."""
    draws: tuple[str, ...] = ()
    """What each parameter's value is, of a built-in workload (`Sources.of_client`)."""
    times: int = 1
    """In each transaction."""
    prepared: bool = True
    """Sent as a prepared statement; else as text with its values written in."""
    commits: bool = False
    """Its reply is the commit's: a connection lost while it is under way leaves the outcome unknown."""
    place: str = ""
    """Where a user's file has it: `file.sql:12`."""
    mark: str = "?"
    """What replaces a parameter in the text."""

    @property
    def format(self) -> bytes:
        """The text as a bytes format that takes the values."""
        spelled = {"i": "%d", "l": "%d", "s": "'%b'"}
        head, *rest = self.text.replace("%", "%%").split(self.mark)
        pairs = zip(self.parameters, rest, strict=True)
        return (head + "".join(spelled[letter] + text for letter, text in pairs)).encode()


@frozen
class Table:
    """A table that a workload needs, and has made where it is missing."""

    database: str
    """Of a user's file empty until all of it is read: where the file's sessions are."""
    name: str
    body: str
    """What stands behind its name in CREATE TABLE, from the bracket on."""
    rows: int | None = None
    """That it starts with, of its columns' kinds (core/tables.py); None: the load's `table_size` rows of
    sysbench's."""
    row_bytes: int | None = None
    """On average: what texts without a length of their own are made to fit; None: not known."""
    place: str = ""
    """Where a user's file has it: `file.sql:12`."""
    index: str = ""
    """Name and columns of a secondary index, which is made when the rows are there: `k_1 (k)`."""
    grows: bool = False
    """Each commit adds a row: it starts empty and is truncated at a bound."""
    size: str = "MAX(id)"
    """An expression that tells the rows of one that grows: counting millions of them would take a second."""

    @property
    def quoted(self) -> str:
        """Its whole name, as a statement has it."""
        return f"`{self.database}`.`{self.name}`"

    @property
    def drop(self) -> str:
        """The statement that drops it."""
        return f"DROP TABLE IF EXISTS {self.quoted}"

    def with_payload(self) -> Table:
        """The same with one more column."""
        return replace(self, body=self.body.replace(", PRIMARY KEY", f", {PAYLOAD_COLUMN}, PRIMARY KEY", 1))

    def without_payload(self) -> Table:
        """The same as it was before `with_payload`."""
        return replace(self, body=self.body.replace(f", {PAYLOAD_COLUMN}", "", 1))


@frozen
class Workload:
    """What one transaction does."""

    name: str
    """The value of the `workload` knob, or the name of a user's file."""
    title: str
    """One line for people."""
    statements: tuple[Statement, ...]
    tables: tuple[Table, ...] = ()
    """Those that are made for it."""
    database: str = DATABASE
    """Where its sessions are; made where it is missing."""

    @property
    def grown(self) -> Table | None:
        """The table to which each commit adds a row; None for a workload without one."""
        return next((each for each in self.tables if each.grows), None)

    def with_payload(self) -> Workload:
        """The same with one more column, which every INSERT and UPDATE writes."""
        return replace(
            self,
            tables=tuple(each.with_payload() for each in self.tables),
            statements=tuple(_with_payload(statement) for statement in self.statements),
        )


def _statement(name: str, text: str, kind: int, draws: str, **more: Any) -> Statement:
    """A statement with these values, by name."""
    words = tuple(draws.split())
    letters = "".join("i" if word in _NUMBERS else "s" for word in words)
    return Statement(name, text, kind, letters, words, **more)


def _with_payload(statement: Statement) -> Statement:
    """An INSERT or UPDATE that writes the payload as well: the parameter before the WHERE, else the last."""
    head, where, condition = statement.text.partition(" WHERE ")
    at = len(statement.draws) - condition.count("?")
    if head.startswith("UPDATE "):
        text = f"{head}, {PAYLOAD}=?{where}{condition}"
    elif head.startswith("INSERT "):
        columns, _, values = head.partition(") VALUES (")
        text = f"{columns}, {PAYLOAD}) VALUES ({values.removesuffix(')')}, ?)"
    else:
        return statement
    parameters = f"{statement.parameters[:at]}s{statement.parameters[at:]}"
    draws = (*statement.draws[:at], PAYLOAD, *statement.draws[at:])
    return replace(statement, text=text, parameters=parameters, draws=draws)


def _sbtest(number: int, *, grows: bool = False) -> tuple[Table, ...]:
    """The table of sysbench 1.0's oltp_common, which makes the index after the rows, too."""
    return (
        Table(
            DATABASE,
            f"sbtest{number}",
            "(id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, "
            "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, "
            "PRIMARY KEY (id)) ENGINE=InnoDB",
            rows=0 if grows else None,
            index=f"k_{number} (k)",
            grows=grows,
        ),
    )


def _grown(name: str, body: str, size: str = "COUNT(*)") -> tuple[Table, ...]:
    """A table that starts empty and grows."""
    return (Table(DATABASE, name, f"{body} ENGINE=InnoDB", rows=0, grows=True, size=size),)


_ROWS: Final = _sbtest(1)
_POINT: Final = _statement("point_select", "SELECT c FROM sbtest1 WHERE id=?", READ, "key")
_BETWEEN: Final = "FROM sbtest1 WHERE id BETWEEN ? AND ?"
_RANGES: Final = tuple(
    _statement(f"{name}_range", text, READ, "new_key 99_beyond")
    for name, text in (
        ("simple", f"SELECT c {_BETWEEN}"),
        ("sum", f"SELECT SUM(k) {_BETWEEN}"),
        ("order", f"SELECT c {_BETWEEN} ORDER BY c"),
        ("distinct", f"SELECT DISTINCT c {_BETWEEN} ORDER BY c"),
    )
)
_INDEX: Final = _statement("index_update", "UPDATE sbtest1 SET k=k+1 WHERE id=?", WRITE, "key")
_NON_INDEX: Final = _statement("non_index_update", "UPDATE sbtest1 SET c=? WHERE id=?", WRITE, "c key")
_DELETE: Final = _statement("delete", "DELETE FROM sbtest1 WHERE id=?", WRITE, "new_key")
_INSERT: Final = _statement(
    "insert", "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)", WRITE, "same_key key c pad"
)
_BEGIN: Final = Statement("begin", "BEGIN", OTHER, prepared=False)
_COMMIT: Final = Statement("commit", "COMMIT", OTHER, commits=True)
_WRITES: Final = (_INDEX, _NON_INDEX, _DELETE, _INSERT)


def _alone(statement: Statement) -> tuple[Statement, ...]:
    """A writing statement in autocommit."""
    return (replace(statement, commits=True),)


def _inserts(into: str, values: str, draws: str) -> tuple[Statement, ...]:
    """An INSERT in autocommit, sent as text."""
    text = f"INSERT INTO {into} VALUES ({values})"
    return _alone(_statement("insert", text, WRITE, draws, prepared=False))


WORKLOADS: Final[Mapping[str, Workload]] = {
    workload.name: workload
    for workload in (
        Workload("update_index", "sysbench oltp_update_index: one indexed column", _alone(_INDEX), _ROWS),
        Workload(
            "update_non_index", "sysbench oltp_update_non_index: 119 characters", _alone(_NON_INDEX), _ROWS
        ),
        Workload(
            "insert",
            "sysbench oltp_insert: one row",
            _inserts("sbtest2 (id, k, c, pad)", "0, ?, ?, ?", "key c pad"),
            # A table of its own, so that truncating it does not take the rows that updates need.
            _sbtest(2, grows=True),
        ),
        Workload(
            "write_only",
            "sysbench oltp_write_only: two updates, a delete and an insert",
            (_BEGIN, *_WRITES, _COMMIT),
            _ROWS,
        ),
        Workload(
            "read_write",
            "sysbench oltp_read_write: fourteen reads, then the writes of write_only",
            (_BEGIN, replace(_POINT, times=_POINT_SELECTS), *_RANGES, *_WRITES, _COMMIT),
            _ROWS,
        ),
        Workload("point_select", "sysbench oltp_point_select: one row by its key", (_POINT,), _ROWS),
        Workload(
            "foo",
            "wan-insert's row of eight letters",
            _inserts("foo (text)", "?", "letters"),
            _grown("foo", "(id INT UNSIGNED AUTO_INCREMENT, text VARCHAR(8), PRIMARY KEY (id))", "MAX(id)"),
        ),
        Workload(
            "employees",
            "bulk-load's row: one of the employees test database",
            _inserts(
                "employees (emp_no, birth_date, first_name, last_name, gender, hire_date)",
                "?, ?, ?, ?, ?, ?",
                "number birth_date first_name last_name gender hire_date",
            ),
            _grown(
                "employees",
                "(emp_no INT NOT NULL, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL, "
                "last_name VARCHAR(16) NOT NULL, gender ENUM('M','F') NOT NULL, hire_date DATE NOT NULL, "
                "PRIMARY KEY (emp_no))",
            ),
        ),
        Workload(
            LEDGER,
            "numbered rows of each client, which it also notes on its own disk: a lost one can be named",
            _inserts("ledger (client, seq)", "?, ?", "client seq"),
            _grown(
                "ledger",
                "(client BIGINT UNSIGNED NOT NULL, seq BIGINT UNSIGNED NOT NULL, "
                "noted TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), PRIMARY KEY (client, seq))",
            ),
        ),
    )
}
"""Workloads by name."""


def key_source(table_size: int, random: Random, spread: int = 0) -> Callable[[], int]:
    """Draws keys in 1..table_size as sysbench 1.0's `special` distribution does.

    A quarter of the draws is the mean of twelve uniform ones over the whole range (a bell); the
    rest falls evenly into the upper three quarters of the middle one percent. With a `spread`
    below the table's size the keys are 1..spread instead, all equally likely.
    """
    uniform = random.random
    if 0 < spread < table_size:
        return lambda: 1 + int(uniform() * spread)
    span = table_size - 1
    width = span * SPECIAL_WIDTH
    low = 1 + span / 2 - width / 2
    bell_share = 1 - SPECIAL_SHARE

    def draw() -> int:
        point = uniform()
        if point < bell_share:
            return 1 + int(sum(uniform() for _ in range(_BELL_DRAWS)) * span / _BELL_DRAWS)
        return min(int(low + point * (width + 1)), table_size)

    return draw


class Sources:
    """Where the values of a load's transactions come from, one set for all clients of a process."""

    def __init__(
        self,
        table_size: int,
        random: Random,
        *,
        key_spread: int = 0,
        payload_bytes: int = 0,
        writer: Callable[[], tuple[int, Callable[[], int]]] | None = None,
    ) -> None:
        """`writer` makes another client of `ledger`: the number that its rows carry, and what counts them;
        None, without a client log: a drawn number."""
        self._random = random
        self._key = key_source(table_size, random, key_spread)
        self._texts = _text_source(random)
        self._payload = _payload_source(payload_bytes, random)
        self._number = count(_FIRST_EMPLOYEE + _APART * random.randrange(_PROCESSES)).__next__
        """Numbers that no other draw of this process answers; another process begins elsewhere."""
        self._writer = writer or (lambda: (random.getrandbits(_WRITER_BITS), count(1).__next__))

    def of_client(self) -> Mapping[str, Callable[[], int | bytes]]:
        """What makes the values of one client's parameters, by name; each client of each run of `ledger`
        writes under a number of its own, its rows counted from 1."""
        random, new_key, new_text, writer = self._random, self._key, self._texts, cache(self._writer)
        held, text = 0, (b"", b"")

        def hold_key() -> int:
            nonlocal held
            held = new_key()
            return held

        def hold_text() -> bytes:
            nonlocal text
            text = new_text()
            return text[0]

        def date(first: int, last: int) -> bytes:
            day = random.randint(first, last), random.randint(1, 12), random.randint(1, 28)
            return b"%d-%02d-%02d" % day

        return {
            "key": new_key,
            "new_key": hold_key,
            "same_key": lambda: held,
            "99_beyond": lambda: held + _RANGE_SIZE - 1,
            "c": hold_text,
            "pad": lambda: text[1],
            PAYLOAD: self._payload,
            "letters": lambda: "".join(random.choices(_FOO_LETTERS, k=_FOO_LENGTH)).encode(),
            "number": self._number,
            "birth_date": lambda: date(1952, 1964),
            "first_name": lambda: random.choice(_NAMES),
            "last_name": lambda: random.choice(_SURNAMES),
            "gender": lambda: random.choice((b"M", b"F")),
            "hire_date": lambda: date(1985, 1999),
            "client": lambda: writer()[0],
            "seq": lambda: writer()[1](),
        }


def draw_of(workload: Workload, sources: Sources) -> Draw:
    """Makes the transactions of one client of a built-in workload."""
    draws = sources.of_client()
    plan = [
        (index, [draws[word] for word in statement.draws])
        for index, statement in enumerate(workload.statements)
        for _ in range(statement.times)
    ]
    return lambda: [(index, tuple([draw() for draw in row])) for index, row in plan]


def statements_in(name: str) -> int:
    """Statements of one transaction of a workload; 1 for a user's file."""
    return sum(each.times for each in WORKLOADS[name].statements) if name in WORKLOADS else 1


def fill_source(table: Table, table_size: int, random: Random) -> Callable[[int, int], str]:
    """Makes multi-row inserts into a sysbench table, each of the rows with ids first..last."""
    key = key_source(table_size, random)
    texts = _text_source(random)
    head, row = f"INSERT INTO {table.quoted} (id, k, c, pad) VALUES ".encode(), b"(%d,%d,'%b','%b')"

    def fill(first: int, last: int) -> str:
        return (head + b",".join(row % (id, key(), *texts()) for id in range(first, last + 1))).decode()

    return fill


def _text_source(random: Random) -> Callable[[], tuple[bytes, bytes]]:
    """Draws values of `c` and `pad`: ten and five groups of eleven digits joined by dashes.

    A value is made of halves of five groups, each from another place of one long text that is drawn
    once: making digits costs a generator more than sending them.
    """
    step = _GROUP_DIGITS + 1
    half = _PAD_GROUPS * step - 1
    groups = (b"%0*d" % (_GROUP_DIGITS, random.randrange(10**_GROUP_DIGITS)) for _ in range(_GROUP_POOL))
    pool = b"-".join(groups)
    uniform, places = random.random, _GROUP_POOL - _PAD_GROUPS + 1

    def draw() -> tuple[bytes, bytes]:
        one, other, last = (
            step * int(uniform() * places),
            step * int(uniform() * places),
            step * int(uniform() * places),
        )
        return pool[one : one + half] + b"-" + pool[other : other + half], pool[last : last + half]

    return draw


def _payload_source(size: int, random: Random) -> Callable[[], bytes]:
    """Draws a payload of this many digits: another place of one drawn text each time."""
    digits = b"%0*d" % (_GROUP_DIGITS, 0)
    pool = b"".join(
        b"%0*d" % (len(digits), random.randrange(10 ** len(digits)))
        for _ in range(_PAYLOAD_POOL_BYTES // len(digits) + 1)
    )
    pool = pool[:_PAYLOAD_POOL_BYTES]
    long = pool * (2 + size // len(pool))
    uniform, places = random.random, len(pool)

    def draw() -> bytes:
        at = int(uniform() * places)
        return long[at : at + size]

    return draw
