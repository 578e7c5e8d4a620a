"""What the background load writes: tables, rows and statements.

Law: `update_index` and `insert` have the schema, the values and the key distribution of sysbench
1.0's oltp_update_index and oltp_insert (one table, auto-increment keys, `--rand-type=special`), so
that both tools put the same work on a server; `foo` is the insert of the wan-insert lab (LABS.md).
Random numbers come from the caller's generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

DATABASE: Final = "replexplorer"
"""Where the tables live, on every node."""

_SPECIAL_SHARE: Final = 0.75
_SPECIAL_WIDTH: Final = 0.01
_BELL_DRAWS: Final = 12
_GROUP_DIGITS: Final = 11
_C_GROUPS: Final = 10
_PAD_GROUPS: Final = 5
_GROUP_POOL: Final = 1024
_FOO_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXY"
_FOO_LENGTH: Final = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """What one commit does."""

    name: str
    """The value of the `workload` knob."""
    table: str
    ddl: str
    """Creates the table in the current database."""
    prepared: str | None = None
    """A statement with one `?` for a drawn key, sent as a prepared statement; None for one that is
    sent as text, each time with its own values."""
    grows: bool = False
    """Each commit adds a row: the table starts empty and is truncated at a bound. Otherwise it
    starts with table_size rows and keeps them."""


def _sbtest(number: int) -> str:
    """The table of sysbench 1.0's oltp_common; the index stands in the same statement."""
    return (
        f"CREATE TABLE sbtest{number} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, "
        "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, "
        f"PRIMARY KEY (id), KEY k_{number} (k)) ENGINE=InnoDB"
    )


WORKLOADS: Final[Mapping[str, Workload]] = {
    workload.name: workload
    for workload in (
        Workload("update_index", "sbtest1", _sbtest(1), prepared="UPDATE sbtest1 SET k=k+1 WHERE id=?"),
        Workload("insert", "sbtest2", _sbtest(2), grows=True),
        Workload(
            "foo",
            "foo",
            "CREATE TABLE foo (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, text VARCHAR(8)) ENGINE=InnoDB",
            grows=True,
        ),
    )
}
"""Workloads by name. `insert` has a table of its own, so that truncating it at its bound does not
take the rows that `update_index` needs."""


def key_source(table_size: int, random: Random) -> Callable[[], int]:
    """Draws keys in 1..table_size as sysbench 1.0's `special` distribution does.

    A quarter of the draws is the mean of twelve uniform ones over the whole range (a bell); the
    rest falls evenly into the upper three quarters of the middle one percent.
    """
    uniform = random.random
    span = table_size - 1
    width = span * _SPECIAL_WIDTH
    low = 1 + span / 2 - width / 2
    bell_share = 1 - _SPECIAL_SHARE

    def draw() -> int:
        point = uniform()
        if point < bell_share:
            return 1 + int(sum(uniform() for _ in range(_BELL_DRAWS)) * span / _BELL_DRAWS)
        return min(int(low + point * (width + 1)), table_size)

    return draw


def statement_source(workload: Workload, table_size: int, random: Random) -> Callable[[], bytes]:
    """Builds one text statement a call for a workload that is not prepared.

    Raises ValueError for a prepared one.
    """
    if workload.prepared is not None:
        raise ValueError(f"{workload.name} is a prepared statement")
    if workload.name == "foo":
        letters = random.choices

        def foo() -> bytes:
            return (
                f"INSERT INTO foo (text) VALUES ('{''.join(letters(_FOO_LETTERS, k=_FOO_LENGTH))}')".encode()
            )

        return foo
    key = key_source(table_size, random)
    texts = _text_source(random)
    head = f"INSERT INTO {workload.table} (id, k, c, pad) VALUES (0, "

    def insert() -> bytes:
        c, pad = texts()
        return f"{head}{key()}, '{c}', '{pad}')".encode()

    return insert


def fill_statement(table: str, first: int, last: int, table_size: int, random: Random) -> str:
    """One multi-row insert of the rows with ids first..last into a sysbench table."""
    key = key_source(table_size, random)
    texts = _text_source(random)
    rows = []
    for number in range(first, last + 1):
        c, pad = texts()
        rows.append(f"({number}, {key()}, '{c}', '{pad}')")
    return f"INSERT INTO {table} (id, k, c, pad) VALUES {', '.join(rows)}"


def _text_source(random: Random) -> Callable[[], tuple[str, str]]:
    """Draws values of `c` and `pad`: groups of eleven digits joined by dashes.

    Groups come from a pool that is drawn once, since making digits costs more than sending them.
    """
    pool = [f"{random.randrange(10**_GROUP_DIGITS):0{_GROUP_DIGITS}d}" for _ in range(_GROUP_POOL)]
    choices = random.choices

    def draw() -> tuple[str, str]:
        groups = choices(pool, k=_C_GROUPS + _PAD_GROUPS)
        return "-".join(groups[:_C_GROUPS]), "-".join(groups[_C_GROUPS:])

    return draw
