"""One thing asked of a server: the statement, and how the rows that answer it are read.

Law: nothing here is sent; who sends a question reads nothing out of the rows by himself.

A variable's value as a server writes it, and as ours.

What a session of the program says first, to a server that is not known yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from replexplorer.core.errors import ServerUnreachable
from replexplorer.core.knobs.catalogue import ON_OFF, Kind, Knob, Value
from replexplorer.core.records import field, frozen
from replexplorer.core.text import one_line

Row = Mapping[str, Any]
"""A result row by column name; text is str, numbers are int, float or Decimal."""
T_co = TypeVar("T_co", covariant=True)
_MOST_SAID: Final = 100


@frozen
class Question(Generic[T_co]):
    """A statement with the reader of its answer."""

    statement: str
    read: Callable[[Sequence[Row]], T_co]
    arguments: tuple[object, ...] = field(default=(), repr=False)
    """For the statement's `%s`, quoted by the driver: what is not to be shown stands here."""
    instead: Question[T_co] | None = None
    """Asked where the server refuses this one: it is older and lacks a table or a column."""

    def answer(self, rows: Sequence[Row], node: str) -> T_co:
        """What a node's rows say; raises ServerUnreachable where its figures are not numbers."""
        try:
            return self.read(rows)
        except ValueError as error:
            raise ServerUnreachable(
                f"{node} does not answer like a MySQL server ({one_line(str(error), _MOST_SAID)})",
                "check what listens at its address",
            ) from error


def listed(names: Iterable[str]) -> str:
    """Names as the inside of a statement's `IN (...)`."""
    return ", ".join(f"'{name}'" for name in names)


def read_pairs(rows: Iterable[Row]) -> dict[str, str]:
    """Rows of `Variable_name`, `Value` as a mapping by lower-case name."""
    return {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}


def from_server(knob: Knob, text: str) -> Value:
    """A server's value as ours: lower-case words, whole numbers; what is neither stays a word."""
    if knob.kind is Kind.CHOICE:
        return knob.word(text)
    number = whole(text)
    return text.strip().lower() if number is None else number


def literal(knob: Knob, value: Value) -> str:
    """Our value as SQL: numbers bare, on and off as keywords, other words quoted in capitals."""
    if not isinstance(value, str):
        return str(int(value))
    return value.upper() if value in ON_OFF else f"'{value.upper()}'"


def whole(value: object) -> int | None:
    """A whole number out of a column that may be text, a number, empty or NULL."""
    match = re.fullmatch(r"\s*(-?\d+)(?:\.0*)?\s*", str(value))
    return int(match[1]) if match else None


def numbers(values: Row, columns: Mapping[str, str]) -> dict[str, Any]:
    """By field the whole number of its column, or of its variable by lower-case name, where there is one."""
    found = {field: whole(values.get(name, values.get(name.lower()))) for field, name in columns.items()}
    return {field: number for field, number in found.items() if number is not None}


def is_on(value: str | None) -> bool | None:
    """Whether a switch is on, as `SHOW VARIABLES` or a status says it; None where it does not."""
    return value.strip().upper() in ("ON", "1", "YES") if value else None


LOOK_AT_ONCE: Final = "SET SESSION autocommit = 1 /*M!100100 , wsrep_sync_wait = 0 */"
"""Who looks at a member of a Galera cluster does not wait until it has applied what the others committed,
whatever its clients are to do: one that is cut off would answer nothing. MariaDB alone reads the comment."""
