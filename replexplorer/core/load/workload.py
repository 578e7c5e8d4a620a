"""What the background load does: tables, statements and the values of one transaction.

Law: the sysbench workloads have the schema, the statements, their order, the defaults and the key
distribution of sysbench 1.0's scripts of the same name (one table, auto-increment keys, ranges of
100, `--rand-type=special`), prepared where sysbench prepares, so that both tools put the same work
on a server. `foo` is the insert of the wan-insert lab (docs/labs.md); `ledger` writes rows that say
who wrote them (core/loss). Random numbers come from the caller's generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Final

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

LEDGER: Final = "ledger"
"""The workload whose clients keep a log of what they do."""
LEDGER_TABLE: Final = f"{DATABASE}.ledger"

PAYLOAD: Final = "payload"
"""The column that a table has only for a load with a payload."""
PAYLOAD_COLUMN: Final = f"{PAYLOAD} MEDIUMTEXT"
"""As a table declares it, behind all others."""


@dataclass(frozen=True, slots=True)
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
    prepared: bool = True
    """Sent as a prepared statement; else as text with its values written in."""
    commits: bool = False
    """Its reply is the commit's: a connection lost while it is under way leaves the outcome unknown."""
    place: str = ""
    """Where a user's file has it: `file.sql:12`."""
    mark: str = "?"
    """What stands for a parameter in the text."""

    @property
    def format(self) -> bytes:
        """The text as a bytes format that takes the values."""
        spelled = {"i": "%d", "l": "%d", "s": "'%b'"}
        head, *rest = self.text.replace("%", "%%").split(self.mark)
        pairs = zip(self.parameters, rest, strict=True)
        return (head + "".join(spelled[letter] + text for letter, text in pairs)).encode()


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a workload needs."""

    name: str
    ddl: str
    """Creates it in the current database."""
    index: str = ""
    """Name and columns of a secondary index, which is made when the rows are there: `k_1 (k)`."""
    grows: bool = False
    """Each commit adds a row: it starts empty and is truncated at a bound. Otherwise it starts with
    table_size rows of sysbench's and keeps their number."""
    size: str = "MAX(id)"
    """An expression that tells the rows of one that grows: counting millions of them would take a second."""


@dataclass(frozen=True, slots=True)
class FilledTable:
    """A table that a user's file makes, with rows of its columns' kinds (core/imitation)."""

    database: str
    """Empty: where the file's sessions are."""
    name: str
    body: str
    """What stands behind its name in CREATE TABLE, from the bracket on."""
    rows: int
    row_bytes: int | None = None
    """On average: what texts without a length of their own are made to fit; None: not known."""
    place: str = ""
    """`file.sql:12`."""

    def within(self, database: str) -> FilledTable:
        """The same in this database."""
        return replace(self, database=database)

    @property
    def quoted(self) -> str:
        """Its whole name, as a statement has it."""
        return f"`{self.database}`.`{self.name}`"


@dataclass(frozen=True, slots=True)
class Workload:
    """What one transaction does."""

    name: str
    """The value of the `workload` knob, or the name of a user's file."""
    title: str
    """One line for people."""
    statements: tuple[Statement, ...]
    table: Table | None = None
    """None for a user's file, whose tables are the user's."""
    database: str = DATABASE
    """Where its sessions are."""
    filled: tuple[FilledTable, ...] = ()
    """Tables that a user's file makes."""
    makes_database: bool = False
    """Where the database is missing, it is made."""

    def with_payload(self) -> Workload:
        """The same with one more column, which every INSERT and UPDATE writes."""
        if self.table is None:
            return self
        ddl = self.table.ddl.replace(", PRIMARY KEY", f", {PAYLOAD_COLUMN}, PRIMARY KEY", 1)
        return replace(
            self,
            table=replace(self.table, ddl=ddl),
            statements=tuple(_with_payload(statement) for statement in self.statements),
        )


def _with_payload(statement: Statement) -> Statement:
    """An INSERT or UPDATE that writes the payload as well: the parameter before the WHERE, else the last."""
    head, where, condition = statement.text.partition(" WHERE ")
    if head.startswith("UPDATE "):
        text = f"{head}, {PAYLOAD}=?{where}{condition}"
        at = len(statement.parameters) - condition.count("?")
        parameters = f"{statement.parameters[:at]}s{statement.parameters[at:]}"
    elif head.startswith("INSERT "):
        columns, _, values = head.partition(") VALUES (")
        text = f"{columns}, {PAYLOAD}) VALUES ({values.removesuffix(')')}, ?)"
        parameters = f"{statement.parameters}s"
    else:
        return statement
    return replace(statement, text=text, parameters=parameters)


def _sbtest(number: int, *, grows: bool = False) -> Table:
    """The table of sysbench 1.0's oltp_common, which makes the index after the rows, too."""
    return Table(
        f"sbtest{number}",
        f"CREATE TABLE sbtest{number} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, "
        "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, "
        "PRIMARY KEY (id)) ENGINE=InnoDB",
        f"k_{number} (k)",
        grows,
    )


_ROWS: Final = _sbtest(1)
_POINT: Final = Statement("point_select", "SELECT c FROM sbtest1 WHERE id=?", READ, "i")
_RANGES: Final = (
    Statement("simple_range", "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?", READ, "ii"),
    Statement("sum_range", "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?", READ, "ii"),
    Statement("order_range", "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c", READ, "ii"),
    Statement(
        "distinct_range", "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c", READ, "ii"
    ),
)
_INDEX: Final = Statement("index_update", "UPDATE sbtest1 SET k=k+1 WHERE id=?", WRITE, "i")
_NON_INDEX: Final = Statement("non_index_update", "UPDATE sbtest1 SET c=? WHERE id=?", WRITE, "si")
_DELETE: Final = Statement("delete", "DELETE FROM sbtest1 WHERE id=?", WRITE, "i")
_INSERT: Final = Statement("insert", "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)", WRITE, "iiss")
_BEGIN: Final = Statement("begin", "BEGIN", OTHER, prepared=False)
_COMMIT: Final = Statement("commit", "COMMIT", OTHER, commits=True)
_WRITES: Final = (_INDEX, _NON_INDEX, _DELETE, _INSERT)


def _alone(statement: Statement) -> tuple[Statement, ...]:
    """A writing statement in autocommit."""
    return (replace(statement, commits=True),)


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
            (
                Statement(
                    "insert",
                    "INSERT INTO sbtest2 (id, k, c, pad) VALUES (0, ?, ?, ?)",
                    WRITE,
                    "iss",
                    prepared=False,
                    commits=True,
                ),
            ),
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
            (_BEGIN, _POINT, *_RANGES, *_WRITES, _COMMIT),
            _ROWS,
        ),
        Workload("point_select", "sysbench oltp_point_select: one row by its key", (_POINT,), _ROWS),
        Workload(
            "foo",
            "wan-insert's row of eight letters",
            (
                Statement(
                    "insert",
                    "INSERT INTO foo (text) VALUES (?)",
                    WRITE,
                    "s",
                    prepared=False,
                    commits=True,
                ),
            ),
            Table(
                "foo",
                "CREATE TABLE foo (id INT UNSIGNED AUTO_INCREMENT, text VARCHAR(8), PRIMARY KEY (id)) "
                "ENGINE=InnoDB",
                grows=True,
            ),
        ),
        Workload(
            "employees",
            "bulk-load's row: one of the employees test database",
            (
                Statement(
                    "insert",
                    "INSERT INTO employees (emp_no, birth_date, first_name, last_name, gender, hire_date) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    WRITE,
                    "isssss",
                    prepared=False,
                    commits=True,
                ),
            ),
            Table(
                "employees",
                "CREATE TABLE employees (emp_no INT NOT NULL, birth_date DATE NOT NULL, "
                "first_name VARCHAR(14) NOT NULL, last_name VARCHAR(16) NOT NULL, "
                "gender ENUM('M','F') NOT NULL, hire_date DATE NOT NULL, PRIMARY KEY (emp_no)) ENGINE=InnoDB",
                grows=True,
                size="COUNT(*)",
            ),
        ),
        Workload(
            LEDGER,
            "numbered rows of each client, which it also notes on its own disk: a lost one can be named",
            (
                Statement(
                    "insert",
                    "INSERT INTO ledger (client, seq) VALUES (?, ?)",
                    WRITE,
                    "ii",
                    prepared=False,
                    commits=True,
                ),
            ),
            Table(
                "ledger",
                "CREATE TABLE ledger (client BIGINT UNSIGNED NOT NULL, seq BIGINT UNSIGNED NOT NULL, "
                "noted TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), "
                "PRIMARY KEY (client, seq)) ENGINE=InnoDB",
                grows=True,
                size="COUNT(*)",
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


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the values of a load's transactions come from."""

    key: Callable[[], int]
    texts: Callable[[], tuple[bytes, bytes]]
    """Values of `c` and `pad`."""
    payload: Callable[[], Values]
    """A value for the payload's parameter; nothing without one."""
    random: Random
    number: Callable[[], int]
    """Numbers that no other draw of this process answers; another process begins elsewhere."""
    writer: Callable[[], tuple[int, Callable[[], int]]]
    """Another client of `ledger`: the number that its rows carry, and what counts them."""

    @classmethod
    def of(
        cls,
        table_size: int,
        random: Random,
        *,
        key_spread: int = 0,
        payload_bytes: int = 0,
        writer: Callable[[], tuple[int, Callable[[], int]]] | None = None,
    ) -> Sources:
        """One set for all clients of a process; without a client log a `writer` has a drawn number."""
        return cls(
            key_source(table_size, random, key_spread),
            _text_source(random),
            _payload_source(payload_bytes, random),
            random,
            count(_FIRST_EMPLOYEE + _APART * random.randrange(_PROCESSES)).__next__,
            writer or (lambda: (random.getrandbits(_WRITER_BITS), count(1).__next__)),
        )


def draw_of(workload: Workload, sources: Sources) -> Draw:
    """Makes the transactions of one client of a built-in workload; raises KeyError for another."""
    return _DRAWS[workload.name](sources)


def statements_in(name: str) -> int:
    """Statements of one transaction of a workload; 1 for a user's file."""
    if name not in WORKLOADS:
        return 1
    return len(draw_of(WORKLOADS[name], Sources.of(1, Random(0)))())


def _update_index(sources: Sources) -> Draw:
    key, payload = sources.key, sources.payload
    return lambda: ((0, (*payload(), key())),)


def _update_non_index(sources: Sources) -> Draw:
    key, texts, payload = sources.key, sources.texts, sources.payload
    return lambda: ((0, (texts()[0], *payload(), key())),)


def _insert(sources: Sources) -> Draw:
    key, texts, payload = sources.key, sources.texts, sources.payload
    return lambda: ((0, (key(), *texts(), *payload())),)


def _writes(sources: Sources, first: int) -> Callable[[], tuple[tuple[int, Values], ...]]:
    """The four writes whose first has this index, and the commit after them."""
    key, texts, payload = sources.key, sources.texts, sources.payload

    def draw() -> tuple[tuple[int, Values], ...]:
        renewed = key()
        return (
            (first, (*payload(), key())),
            (first + 1, (texts()[0], *payload(), key())),
            (first + 2, (renewed,)),
            (first + 3, (renewed, key(), *texts(), *payload())),
            (first + 4, ()),
        )

    return draw


def _write_only(sources: Sources) -> Draw:
    writes = _writes(sources, 1)
    return lambda: ((0, ()), *writes())


def _read_write(sources: Sources) -> Draw:
    key, ranges = sources.key, range(2, 2 + len(_RANGES))
    writes = _writes(sources, ranges.stop)

    def between(index: int) -> tuple[int, Values]:
        low = key()
        return index, (low, low + _RANGE_SIZE - 1)

    return lambda: (
        (0, ()),
        *[(1, (key(),)) for _ in range(_POINT_SELECTS)],
        *[between(index) for index in ranges],
        *writes(),
    )


def _point_select(sources: Sources) -> Draw:
    key = sources.key
    return lambda: ((0, (key(),)),)


def _foo(sources: Sources) -> Draw:
    letters, payload = sources.random.choices, sources.payload
    return lambda: ((0, ("".join(letters(_FOO_LETTERS, k=_FOO_LENGTH)).encode(), *payload())),)


def _employees(sources: Sources) -> Draw:
    random, number, payload = sources.random, sources.number, sources.payload

    def date(first: int, last: int) -> bytes:
        return b"%d-%02d-%02d" % (random.randint(first, last), random.randint(1, 12), random.randint(1, 28))

    def draw() -> Transaction:
        name, surname = random.choice(_NAMES), random.choice(_SURNAMES)
        row = (number(), date(1952, 1964), name, surname, random.choice((b"M", b"F")), date(1985, 1999))
        return ((0, (*row, *payload())),)

    return draw


def _ledger(sources: Sources) -> Draw:
    """Each client of each run writes under a number of its own, its rows counted from 1."""
    (client, number), payload = sources.writer(), sources.payload
    return lambda: ((0, (client, number(), *payload())),)


_DRAWS: Final[Mapping[str, Callable[[Sources], Draw]]] = {
    "update_index": _update_index,
    "update_non_index": _update_non_index,
    "insert": _insert,
    "write_only": _write_only,
    "read_write": _read_write,
    "point_select": _point_select,
    "foo": _foo,
    "employees": _employees,
    LEDGER: _ledger,
}


def fill_source(table: str, table_size: int, random: Random) -> Callable[[int, int], str]:
    """Makes multi-row inserts into a sysbench table, each of the rows with ids first..last."""
    key = key_source(table_size, random)
    texts = _text_source(random)
    head, row = f"INSERT INTO {table} (id, k, c, pad) VALUES ".encode(), b"(%d,%d,'%b','%b')"

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


def _payload_source(size: int, random: Random) -> Callable[[], Values]:
    """Draws a payload of this many digits: another place of one drawn text each time."""
    if not size:
        return tuple
    digits = b"%0*d" % (_GROUP_DIGITS, 0)
    pool = b"".join(
        b"%0*d" % (len(digits), random.randrange(10 ** len(digits)))
        for _ in range(_PAYLOAD_POOL_BYTES // len(digits) + 1)
    )
    pool = pool[:_PAYLOAD_POOL_BYTES]
    long = pool * (2 + size // len(pool))
    uniform, places = random.random, len(pool)

    def draw() -> Values:
        at = int(uniform() * places)
        return (long[at : at + size],)

    return draw
