"""Which dialect a server gets, from its answer to the first question."""

from __future__ import annotations

import pytest

from replexplorer.core.dialect.flavours import IDENTITY, Dialect, flavour_of
from replexplorer.core.dialect.mariadb import MariaDb
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.knobs.names import CATALOGUE
from tests.fakes.servers import MARIADB, MYSQL_9, MYSQL_57, RANGES_9, rows


def dialect_of(variables: dict[str, str]) -> Dialect:
    read = IDENTITY.read(rows(variables))
    return flavour_of(read).of(read, {})


@pytest.mark.parametrize("variables", [MYSQL_9, MYSQL_57, {**MYSQL_9, "version_comment": "Percona Server"}])
def test_mysql_and_percona_speak_one_dialect(variables: dict[str, str]) -> None:
    assert isinstance(dialect_of(dict(variables)), MySql)


def test_mariadb_speaks_its_own() -> None:
    assert isinstance(dialect_of(dict(MARIADB)), MariaDb)


def test_the_first_question_is_for_every_name_of_every_knob() -> None:
    for knob in CATALOGUE:
        assert all(f"'{name}'" in IDENTITY.statement for name in knob.variables)


def test_ranges_are_by_variable() -> None:
    ranges = MySql.ranges().read(RANGES_9)
    workers, doublewrite = ranges["replica_parallel_workers"], ranges["innodb_doublewrite"]
    assert (workers.low, workers.high, workers.is_fixed) == (1, 1024, False)
    assert (doublewrite.low, doublewrite.high) == (None, None)
