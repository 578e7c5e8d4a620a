"""One thing asked of a server: the statement, and how the rows that answer it are read.

Law: nothing here is sent; who sends a question reads nothing out of the rows by himself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from replexplorer.core.errors import ServerUnreachable
from replexplorer.core.printable import one_line

Row = Mapping[str, Any]
"""A result row by column name; text is str, numbers are int, float or Decimal."""
T_co = TypeVar("T_co", covariant=True)
_MOST_SAID: Final = 100


@dataclass(frozen=True, slots=True)
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
                f"{node} answers as no MySQL server does ({one_line(str(error), _MOST_SAID)})",
                "check what listens at its address",
            ) from error


def listed(names: Iterable[str]) -> str:
    """Names as the inside of a statement's `IN (...)`."""
    return ", ".join(f"'{name}'" for name in names)


def read_pairs(rows: Iterable[Row]) -> dict[str, str]:
    """Rows of `Variable_name`, `Value` as a mapping by lower-case name."""
    return {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}
