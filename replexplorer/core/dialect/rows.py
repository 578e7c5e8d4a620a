"""Rows of a table as hashes, made by its server, by which two servers are compared without the rows.

A hash is of each column's text or bytes, with a mark for NULL: a FLOAT as the DOUBLE that it is (its
own text has six digits), a TIMESTAMP in seconds since 1970 whatever the session's time zone, a string by its
bytes whatever its character set. What is generated follows from other columns and is left out. SHA2 is on
every server (MD5 and SHA1 are a component since 9.6: manual, "Legacy Hashing Component"), and sums of it tell
apart rows that swapped a value, which those of CRC32, a linear function, may not. A single SELECT reads
InnoDB's rows as of one moment and locks none (manual, "Consistent Nonlocking Reads").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from replexplorer.core.dialect.question import Question, Row
from replexplorer.core.dialect.schema import quoted_name
from replexplorer.core.records import frozen
from replexplorer.core.rows import Key, Rows
from replexplorer.core.tables import Column, TableShape

_PLAIN: Final = "(tiny|small|medium|big)?int|decimal|year|date"
_HASHED: Final = {
    f"{_PLAIN}|time(?!stamp)": "{}",
    "timestamp": "UNIX_TIMESTAMP({})",
    "float|double": "({} + 0e0)",
    r"\w*text|\w*blob|json": "SHA2({}, 256)",
    "": "HEX({})",
}
"""What is hashed of a column, by the first pattern that its type begins with."""
_KEYS: Final = f"{_PLAIN}|(var)?(char|binary)"
"""Types of which a value that was read, and of bytes their digits, can be compared with the column."""


@frozen
class RowRange:
    """Rows of a table by its primary key: those after one key, up to and with another one; None: no limit."""

    table: TableShape
    after: Key | None = None
    upto: Key | None = None

    @property
    def _key(self) -> list[Column]:
        """The columns of the primary key; empty without one, and where a statement cannot say where a range
        ends: by their types, or for a % in a name, which would be the place of an argument."""
        shape = self.table
        key = [shape.column(name) for name in shape.primary.columns] if shape.primary else []
        columns = [each for each in key if each and re.match(_KEYS, each.type)]
        return [] if "%" in str(shape) or len(columns) < len(key) else columns

    def rows(self, most: int | None = None) -> Question[Rows]:
        """Each row's hash by its key, in the order of the keys, of the first `most` rows; of a table
        without such a key the number of all and the sum of their hashes, under the key ()."""
        columns = ", ".join(_hashed(each) for each in self.table.columns if not each.is_generated)
        digits = f"LEFT(SHA2(CONCAT_WS('#', {columns}), 256), 16)"
        of_table = f"FROM {quoted_name(self.table.name)} AS t"
        key, arguments = self._key, list[object]()
        if not key:
            total = f"CONCAT_WS(' ', COUNT(*), SUM(CAST(CONV({digits}, 16, 10) AS UNSIGNED)))"
            return Question(f"SELECT {total} AS total {of_table}", _read)
        values = ", ".join(f"{'HEX' * ('binary' in each.type)}({_name(each)})" for each in key)
        text = f"SELECT {values}, {digits} AS `#` {of_table} FORCE INDEX (PRIMARY) WHERE TRUE"
        # Of (a, b) > (1, 2), and of NOT (a > 1 OR ...), no server looks up more than `a` in the index.
        for sign, bound in ((">", self.after), ("<", self.upto)):
            beyond, same = list[str](), ""
            for each in key:
                value = "UNHEX(%s)" if "binary" in each.type else "%s"
                or_equal = "=" if sign == "<" and each is key[-1] else ""
                beyond.append(f"{same}{_name(each)} {sign}{or_equal} {value}")
                same += f"{_name(each)} = {value} AND "
            if bound is not None:
                text += f" AND ({' OR '.join(beyond)})"
                arguments += [value for last in range(len(bound)) for value in bound[: last + 1]]
        text += f" ORDER BY {', '.join(map(_name, key))}{f' LIMIT {most}' if most else ''}"
        return Question(text, _read, tuple(arguments))


def _read(rows: Sequence[Row]) -> Rows:
    values = (tuple(row.values()) for row in rows)
    return {each[:-1]: each[-1] for each in values}


def _name(column: Column) -> str:
    return quoted_name(("t", column.name))


def _hashed(column: Column) -> str:
    how = next(how for types, how in _HASHED.items() if re.match(types, column.type))
    return (f"COALESCE({how}, 'NULL')" if column.nullable else how).format(_name(column))
