"""Labs on servers that lack some of their knobs: left out, by other knobs, or refused by name."""

from __future__ import annotations

import re

import pytest

from replexplorer.cli.experiment import LABS
from replexplorer.core.dialect.flavours import flavour_of
from replexplorer.core.dialect.mariadb import MariaDb
from replexplorer.core.errors import UsageError
from replexplorer.engine.experiment.lab import fitting
from tests.fakes.servers import GALERA_11, GROUP_9, MARIADB, mysql_9

DOUBLEWRITE = {"name": "INNODB_DOUBLEWRITE", "low": None, "high": None}
MARIA, OLDER = (
    MariaDb.of(MARIADB, MariaDb.ranges.read([{**DOUBLEWRITE, "fixed": fixed, "words": words}])).capabilities
    for fixed, words in (("NO", "OFF,ON,FAST"), ("YES", "OFF,ON"))
)
"""As of 11.8 and of 10.11."""
MYSQL = mysql_9().capabilities
ON_A_STACK = sorted(name for name, lab in LABS.shipped().items() if not lab.systems)


def test_a_lab_is_whole_on_its_own_server_and_turns_nothing_that_another_lacks() -> None:
    for name in ON_A_STACK:
        lab = LABS.shipped()[name]
        assert fitting(lab, MYSQL).phases == lab.phases, name
        for server in (MARIA, OLDER) if name != "quorum-of-n" else ():
            settings = {text for phase in fitting(lab, server).phases for text in phase.settings}
            assert all(server.has(re.split("[@=]", text)[0]) for text in settings), name
            assert "innodb_doublewrite=detect_only" not in settings, name


def test_one_that_needs_more_acknowledgements_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"quorum-of-n .*semi_sync_replicas, which mariadb 10.11.19 lacks"):
        fitting(LABS.shipped()["quorum-of-n"], MARIA)


def test_waiting_for_company_goes_by_the_server_s_own_knobs() -> None:
    fitted = fitting(LABS.shipped()["group-delay"], MARIA)
    assert {"binlog_commit_wait_usec", "binlog_commit_wait_count"} <= set(fitted.turns)
    counts = {phase.name: phase.settings for phase in fitted.phases}
    for name, count in (
        ("no delay, 32 clients", 0),
        ("delay until all are there, 32 clients", 32),
        ("delay, 1 client", 320),
    ):
        assert f"binlog_commit_wait_count={count}" in counts[name]


def test_phases_that_the_relations_do_not_need_are_left_out() -> None:
    for server in (MARIA, OLDER):
        names = [phase.name for phase in fitting(LABS.shipped()["durability-modes"], server).phases]
        assert "both, 32 clients" in names
        assert not [name for name in names if "detect only" in name]


SERVERS = {"async": MYSQL} | {
    name: flavour_of(variables).of({**variables, "innodb_flush_log_at_trx_commit": "1"}, {}).capabilities
    for name, variables in (("group", GROUP_9), ("galera", GALERA_11))
}


def test_a_lab_with_semi_sync_says_where_a_commit_waits() -> None:
    """Each flavour comes with a wait point of its own, which would be measured without a word."""
    for name in ON_A_STACK:
        phases = LABS.shipped()[name].phases
        if any("semi_sync=on" in phase.settings for phase in phases):
            assert any(text.startswith("wait_point=") for text in phases[0].settings), name


def test_a_lab_on_several_systems_turns_what_each_of_them_has() -> None:
    lab = LABS.shipped()["systems-78ms"]
    assert lab.systems == tuple(SERVERS)
    for system, server in SERVERS.items():
        part = lab.on(system)
        assert fitting(part, server).phases == part.phases
        assert {phase.system for phase in part.phases} == {None}
        assert len(part.phases) == sum(phase.system == system for phase in lab.phases) >= 3
