"""What an account has to be granted on a server that somebody else made, for what, and what it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from replexplorer.core.dialect.capabilities import Capabilities
from replexplorer.core.dialect.own_schema import SCHEMA

EVERYTHING: Final = "*.*"
_ALL: Final = ("ALL", "ALL PRIVILEGES")
_GRANT: Final = re.compile(r"GRANT (?P<what>.+?) ON (?P<where>\S+\.\S+) TO ", re.IGNORECASE)
_MYSQL_8: Final = (8, 0)


@dataclass(frozen=True, slots=True)
class Need:
    """Privileges on one place, for one purpose."""

    purpose: str
    privileges: tuple[str, ...]
    where: str = EVERYTHING
    instead: str | None = None
    """One that includes all of them."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A need, as SQL, and what of it is lacking."""

    need: Need
    statement: str
    lacking: tuple[str, ...]


SEE: Final = "to see replication"
"""Without these nothing that is said of a source or a replica would be true."""
WATCH: Final = "to find replicas and see what commits wait for"
CHANGE: Final = "to change settings (--allow-changes)"
LOAD: Final = "to run a load (--load)"
_LOADS: Final = Need(
    LOAD,
    ("CREATE", "DROP", "INDEX", "SELECT", "INSERT", "UPDATE", "DELETE"),
    f"{SCHEMA}.*",
)


def needs_of(server: Capabilities) -> tuple[Need, ...]:
    """What a server of this flavour and version wants (manuals of both, "Privileges Provided"; measured on
    MySQL 9.7 and MariaDB 11.8)."""
    sight = Need(WATCH, ("SELECT",), "performance_schema.*")
    if server.flavor == "mariadb":
        see = Need(SEE, ("SLAVE MONITOR", "BINLOG MONITOR"), instead="SUPER")
        watch = ("PROCESS", "REPLICATION MASTER ADMIN")
        change = ("BINLOG ADMIN", "REPLICATION MASTER ADMIN", "REPLICATION SLAVE ADMIN", "SUPER")
        return (see, Need(WATCH, watch), sight, Need(CHANGE, change), _LOADS)
    see = Need(SEE, ("REPLICATION CLIENT",), instead="SUPER")
    finds = Need(WATCH, ("PROCESS", "REPLICATION SLAVE"))
    if server.version < _MYSQL_8:
        return (see, finds, sight, Need(CHANGE, ("SUPER",)), _LOADS)
    return (see, finds, sight, Need(CHANGE, ("SYSTEM_VARIABLES_ADMIN",), instead="SUPER"), _LOADS)


def granted(statements: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Privileges with where they hold, from the answer to SHOW GRANTS, in the words of `needs_of`."""
    found: set[tuple[str, str]] = set()
    for statement in statements:
        match = _GRANT.match(statement)
        if match is None:
            continue
        where = match["where"].replace("`", "").replace('"', "").replace("\\_", "_").lower()
        for each in match["what"].split(","):
            found.add((_word(each), where))
    return frozenset(found)


def _word(privilege: str) -> str:
    word = " ".join(privilege.upper().split()).replace("REPLICA MONITOR", "SLAVE MONITOR")
    return word.replace("REPLICATION REPLICA", "REPLICATION SLAVE")


def needed(server: Capabilities, account: str, statements: Iterable[str]) -> tuple[Needed, ...]:
    """All that is needed on a server, of which this account (`user@host`) has what SHOW GRANTS says."""
    has = granted(statements)
    user, _, host = account.rpartition("@")
    to = "@".join("'" + part.replace("\\", "\\\\").replace("'", "''") + "'" for part in (user, host))
    return tuple(
        Needed(need, f"GRANT {', '.join(need.privileges)} ON {need.where} TO {to};", _lacking(need, has))
        for need in needs_of(server)
    )


def _lacking(need: Need, has: frozenset[tuple[str, str]]) -> tuple[str, ...]:
    places = {EVERYTHING, need.where}
    if any((word, place) in has for word in (*_ALL, need.instead) for place in places if word):
        return ()
    return tuple(each for each in need.privileges if not any((each, place) in has for place in places))
