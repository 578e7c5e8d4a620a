"""The flavours there are, and which one a server is: a new one is its module and one row here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replexplorer.core.dialect.dialect import (
    IDENTIFYING,
    KNOB_VARIABLES,
    flavor_name,
    system_of_server,
)
from replexplorer.core.dialect.group import GroupMySql
from replexplorer.core.dialect.mariadb import Galera, MariaDb, transfer_in
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import Question, listed, read_pairs
from replexplorer.core.system import GALERA, GROUP

Dialect = MySql
"""What every server's dialect is: the one of MySQL, or one that inherits from it."""

FLAVOURS: Final[Mapping[str, type[Dialect]]] = {"mysql": MySql, "percona": MySql, "mariadb": MariaDb}
_OF_FLAVOURS: Final = (name for flavour in FLAVOURS.values() for name in flavour.probed)
_PROBED: Final = tuple(dict.fromkeys((*IDENTIFYING, *_OF_FLAVOURS, *KNOB_VARIABLES)))

IDENTITY: Final = Question(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed(_PROBED)})", read_pairs)
"""The first question to any server, in words that all flavours understand: it leaves out what it does
not have."""
ALIVE: Final = Question("SELECT 1", lambda _: None)
"""Whether it answers at all, before it is known what it is."""


TRANSFERS: Final = {GALERA.name: transfer_in}
"""By system whose members accept no login until they have a whole copy: what a server's log says of it."""
_OF_SYSTEMS: Final[Mapping[str, type[Dialect]]] = {GROUP.name: GroupMySql, GALERA.name: Galera}
"""Servers that are asked otherwise in a system."""


def flavour_of(variables: Mapping[str, str]) -> type[Dialect]:
    """By the answer to `IDENTITY`."""
    of_system = _OF_SYSTEMS.get(system_of_server(variables).name)
    return of_system or FLAVOURS[flavor_name(variables)]
