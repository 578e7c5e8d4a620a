"""What is asked of a server that somebody else made before it is known - what it is, who replicates from
it - and which statements change something.

Law: what is not known to be a read is a change. A statement that sets a global variable is understood to the
letter or refused, because it has to be undone by its variable alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from replexplorer.core.dialect.mysql import in_new_words
from replexplorer.core.dialect.question import Question, Row, whole
from replexplorer.core.records import frozen

_QUOTED: Final = re.compile(r"""'[^'\\]*'|"[^"\\]*"|`[^`\\]*`""")
_PLAIN: Final = re.compile(
    r"[ \t\r\n(]*(SELECT|SHOW)\b[\w \t\r\n@$%.,()=<>!*+/&|'-]*", re.ASCII | re.IGNORECASE
)
"""A look, its quoted parts each a `'`: without what ends a statement, assigns (`:=`) or escapes."""
_CALL: Final = re.compile(r"(\.\s*)?([\w$'.]+)\s*\(", re.ASCII)
_BEFORE_BRACKETS: Final = re.compile(
    r"AND|AS|CAST|COALESCE|CONCAT_WS|CONNECTION_ID|CONVERT_TZ|COUNT|CURRENT_USER|EXISTS|FROM|GROUP_CONCAT"
    r"|GTID_SUBTRACT|IN|INTERVAL|JOIN|LEFT|LOWER|MAX|MIN|NOT|NOW|ON|OR|OVER|ROW_NUMBER|SELECT|SUBSTRING_INDEX|SUM"
    r"|TIMESTAMPDIFF|UNIX_TIMESTAMP|USING|WHERE",
    re.IGNORECASE,
)
"""What this program writes before a bracket: keywords, and functions that change and lock nothing."""
_CLAUSES: Final = re.compile(r"--|/\*|\b(INTO|FOR|LOCK|PROCEDURE|NEXT)\b", re.IGNORECASE)
"""Comments, which a server may execute, and what makes a look write or lock."""
_SETS: Final = re.compile(r"SET GLOBAL ([a-z][a-z0-9_]*) = ('[A-Za-z0-9_-]*'|[A-Za-z_]+|-?\d+(?:\.\d+)?)")
_VARIABLE: Final = re.compile(r"[a-z][a-z0-9_]*")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_DUMP: Final = "binlog dump"
IN_SYNC: Final = "SET STATEMENT wsrep_sync_wait = 1 FOR "
"""Before a look at a member of a Galera cluster: for this statement alone it waits until all that was sent
before is applied there."""


@frozen
class Setting:
    """A statement that sets a global variable."""

    variable: str
    value: str
    """As it is written there, without quotes."""


@frozen
class Identity:
    """What identifies a server."""

    server_id: int
    hostname: str


@frozen
class Followed:
    """Whom a replica was told to follow."""

    host: str
    server_id: int | None
    """None or 0 while it was never connected."""


@frozen
class Whereabouts:
    """Where a replica may be reached, as its source knows it."""

    host: str
    """Empty where the replica does not say (`report_host`)."""
    port: int


def is_read(statement: str) -> bool:
    """Whether a statement is known to change nothing and to lock nothing: a look in the words, and with the
    functions, that this program uses itself."""
    text = _QUOTED.sub("'", statement.removeprefix(IN_SYNC))
    if not _PLAIN.fullmatch(text) or text.count("'") != len(_QUOTED.findall(statement)):
        return False
    return not _CLAUSES.search(text) and all(
        not found[1] and _BEFORE_BRACKETS.fullmatch(found[2]) for found in _CALL.finditer(text)
    )


def setting_of(statement: str) -> Setting | None:
    """The one variable that a statement sets globally; None for any other statement."""
    found = _SETS.fullmatch(statement.strip())
    return None if found is None else Setting(found[1], found[2].strip("'"))


def value_of(variable: str) -> Question[str]:
    """A global variable's value, as `same_setting` compares it; raises ValueError for what is not a name."""
    if not _VARIABLE.fullmatch(variable):
        raise ValueError(f"{variable!r} is not a variable")
    return Question(f"SELECT @@GLOBAL.{variable} AS value", lambda rows: str(rows[0]["value"]))


def set_back(variable: str, value: str) -> str:
    """The statement that gives a variable a value that `value_of` read; raises ValueError for any other."""
    if not _VARIABLE.fullmatch(variable) or not re.fullmatch(r"[\w,.=+/ -]*", value):
        raise ValueError(f"{variable}={value!r} cannot be written")
    return f"SET GLOBAL {variable} = {value if _NUMBER.fullmatch(value) else repr(value)}"


def same_setting(one: str, other: str) -> bool:
    """Whether two texts are one value of a variable: a switch reads as a number and is set by a word."""
    return _plain(one) == _plain(other)


def _plain(value: str) -> str:
    word = {"on": "1", "off": "0", "true": "1", "false": "0"}.get(value.lower(), value.lower())
    return str(float(word)) if _NUMBER.fullmatch(word) else word


def _read_followed(rows: Sequence[Row]) -> Followed | None:
    if not rows:
        return None
    row = in_new_words(rows[0])
    return Followed(str(row.get("source_host") or ""), whole(row.get("source_server_id")))


def read_registered(rows: Sequence[Row]) -> tuple[Whereabouts, ...]:
    """Rows of `Host` and `Port`; no host where the node does not say it."""
    return tuple(Whereabouts(str(row.get("Host") or ""), whole(row.get("Port")) or 3306) for row in rows)


def _read_dumps(rows: Sequence[Row]) -> tuple[str, ...]:
    hosts = (
        str(row.get("Host") or "").rpartition(":")[0].strip("[]")
        for row in rows
        if str(row.get("Command") or "").lower().startswith(_DUMP)
    )
    return tuple(dict.fromkeys(host for host in hosts if host))


WHO: Final = Question(
    "SELECT @@GLOBAL.server_id AS server_id, @@hostname AS hostname",
    lambda rows: Identity(int(rows[0]["server_id"]), str(rows[0]["hostname"])),
)
"""Which server this is."""

FOLLOWED: Final = Question(
    "SHOW REPLICA STATUS",
    _read_followed,
    instead=Question("SHOW SLAVE STATUS", _read_followed),
)
"""The source of a server; None if it has none."""

REGISTERED: Final = Question(
    "SHOW REPLICAS",
    read_registered,
    instead=Question("SHOW SLAVE HOSTS", read_registered),
)
"""Replicas that are connected, and what they say of where they are."""

DUMPED_TO: Final = Question("SHOW PROCESSLIST", _read_dumps)
"""Hosts that binlogs are sent to."""

CLOCK: Final = Question("SELECT UNIX_TIMESTAMP(NOW(6)) AS clock_s", lambda rows: float(rows[0]["clock_s"]))
"""A server's clock, in seconds since 1970."""

ARRIVED: Final = Question(
    "SELECT TIMESTAMPDIFF(MICROSECOND, last_queued_transaction_immediate_commit_timestamp,"
    " last_queued_transaction_start_queue_timestamp) AS us"
    " FROM performance_schema.replication_connection_status WHERE last_queued_transaction <> ''",
    lambda rows: whole(rows[0]["us"]) if rows else None,
)
"""How long after its commit the last transaction arrived at a replica, in microseconds, by the source's clock
there and the replica's here. A source writes the time before its binlog's fsync."""
