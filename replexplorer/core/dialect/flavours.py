"""The flavours and systems there are, and which a server is: a new one is its module and one row here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replexplorer.core.dialect.dialect import IDENTIFYING, KNOB_VARIABLES, flavor_name
from replexplorer.core.dialect.group import GroupMySql
from replexplorer.core.dialect.mariadb import Galera, MariaDb
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import Question, listed, read_pairs

Dialect = MySql
"""What every server's dialect is: the one of MySQL, or one that inherits from it."""

FLAVOURS: Final[Mapping[str, type[Dialect]]] = {"mysql": MySql, "percona": MySql, "mariadb": MariaDb}
MemberDialect = GroupMySql | Galera
"""Members of a group are asked otherwise: a dialect for each such system."""
_MEMBERS: Final[tuple[type[MemberDialect], ...]] = (GroupMySql, Galera)
_OF_DIALECTS: Final = (name for dialect in (*FLAVOURS.values(), *_MEMBERS) for name in dialect.probed)
_PROBED: Final = tuple(dict.fromkeys((*IDENTIFYING, *_OF_DIALECTS, *KNOB_VARIABLES)))

IDENTITY: Final = Question(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed(_PROBED)})", read_pairs)
"""The first question to any server, in words that all flavours understand: it leaves out what it does
not have."""
ALIVE: Final = Question("SELECT 1", lambda _: None)
"""Whether it answers at all, before it is known what it is."""


def member_of(variables: Mapping[str, str]) -> type[MemberDialect] | None:
    """By the answer to `IDENTITY`, the dialect of a member of a group; None where the server is of none."""
    return next((dialect for dialect in _MEMBERS if dialect.is_for(variables)), None)


def flavour_of(variables: Mapping[str, str]) -> type[Dialect]:
    """By the answer to `IDENTITY`."""
    return member_of(variables) or FLAVOURS[flavor_name(variables)]
