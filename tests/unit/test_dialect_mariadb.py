"""MariaDB's dialect: positions as sets, and what is read out of rows as 11.8 was seen to answer."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.dialect.dialect import Position, Range, SourceAddress, Waits
from replexplorer.core.dialect.mariadb import MariaDb, gtids_of, position_of
from replexplorer.core.dialect.question import Question
from replexplorer.core.server.counters import Sent, ServerStatus
from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.core.server.truth import Behind
from tests.fakes.servers import MARIADB, rows

SERVER = MariaDb.of(MARIADB, {})


# -- positions


@pytest.mark.parametrize(
    ("position", "gtids", "again"),
    [
        ("", "", ""),
        (None, "", ""),
        ("0-1-57", "0-1:1-57", "0-1-57"),
        ("0-1-57,0-2-60", "0-1:1-57, 0-2:1-60", "0-2-60"),
        ("0-1-5,7-3-9,0-1-6", "0-1:1-6, 7-3:1-9", "0-1-6,7-3-9"),
    ],
)
def test_a_position_is_a_set_a_domain_and_server(position: object, gtids: str, again: str) -> None:
    assert gtids_of(position) == gtids
    assert position_of(gtids) == again


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=12), st.integers(0, 11))
def test_a_replica_of_the_same_history_has_nothing_of_its_own(
    turns: list[tuple[int, int]], seen: int
) -> None:
    """Whoever was the source in between: what a replica has is within what its source has."""
    history = [server for server, commits in turns for _ in range(commits)]

    def state(commits: int) -> str:
        last = {server: number for number, server in enumerate(history[:commits], start=1)}
        return gtids_of(",".join(f"0-{server}-{number}" for server, number in last.items()))

    assert subtract_gtids(state(min(seen, len(history))), state(len(history))) == ""


def test_what_only_a_lost_source_committed_is_found_though_its_numbers_were_used_again() -> None:
    lost, promoted = gtids_of("0-1-60"), gtids_of("0-1-57,0-2-90")
    assert subtract_gtids(lost, promoted) == "0-1:58-60"


# -- rows


BEHIND = {"gtid_io_pos": "0-1-9", "gtid_slave_pos": "0-1-7", "executed": "0-1-7,0-1-7", "applied_us": 1500}


@pytest.mark.parametrize(
    ("question", "answer", "value"),
    [
        (SERVER.waits(), {"oldest_wait_s": Decimal("0.07"), "waiting": 3}, Waits(0.07, 3)),
        (SERVER.timeouts(), {"timeouts": None}, None),
        (SERVER.executed(), {"executed": "0-1-57,0-2-60,0-2-60"}, "0-1:1-57, 0-2:1-60"),
        (SERVER.purged(), {"Event_type": "Gtid_list", "Info": "[0-1-57,\n0-2-60]"}, "0-1:1-57, 0-2:1-60"),
        (SERVER.purged(), {"Event_type": "Gtid_list", "Info": "[]"}, ""),
        (SERVER.position(), {"executed": "0-1-57,"}, Position("", "0-1:1-57")),
        (
            SERVER.sent("10.9.0.3"),
            {"executed": "0-1-2", "dump_thread": 41, "sent": "99"},
            Sent("0-1:1-2", 41, 99),
        ),
        (SERVER.sent("10.9.0.3"), {"executed": "", "dump_thread": None, "sent": None}, Sent("", None, None)),
        (
            SERVER.behind("0-1:1-12"),
            BEHIND,
            Behind("0-1:8-9", "0-1:8-12", applied_us=1500, by_heartbeat=True),
        ),
        (SERVER.received_gtids(), {"executed": "0-1-7,", "received": "0-1-9"}, "0-1:1-9"),
        (SERVER.received_gtids(), {"executed": "0-1-7", "received": None}, "0-1:1-7"),
        (SERVER.received(), {"Slave_received_heartbeats": 2, "Gtid_IO_Pos": "0-1-1"}, ((2, "0-1-1"),)),
        (SERVER.reached("0-1:1-5", 2.5), {"late": 0}, True),
        (SERVER.reached("0-1:1-5", 2.5), {"late": -1}, False),
        (SERVER.table_bytes("sandbox", "title"), {"bytes": 4096}, 4096),
    ],
)
def test_a_row_and_what_it_says(question: Question[Any], answer: Mapping[str, Any], value: object) -> None:
    assert question.read([answer]) == value


def test_a_server_before_11_6_says_what_it_lacks_without_ages() -> None:
    question = SERVER.behind("0-1:1-12")
    assert question.instead is not None
    assert question.instead.statement == "SHOW ALL SLAVES STATUS"
    older = {"Gtid_IO_Pos": "0-1-9", "Gtid_Slave_Pos": "0-1-7"}
    assert question.instead.read([older]) == Behind("0-1:8-9", "0-1:8-12", by_heartbeat=True)
    assert question.read([]) is None


def test_a_position_is_waited_for_by_its_number() -> None:
    assert SERVER.reached("0-1:1-5, 0-2:1-9", 2.5).arguments == ("0-2-9",)


def test_counters_are_read_from_where_they_are_without_the_performance_schema() -> None:
    question = SERVER.status()
    assert "information_schema.global_status" in question.statement
    answer = {"Uptime": "5", "Rpl_semi_sync_master_clients": "1", "Rpl_semi_sync_slave_status": "OFF"}
    assert question.read(rows(answer)) == ServerStatus(uptime_s=5, clients=1, replica_registered=False)


def test_how_far_redo_is_flushed_has_other_names() -> None:
    row = {"flush_at_commit": 1, "sync_binlog": 1}
    question = SERVER.log_state()
    assert "'Innodb_lsn_current', 'Innodb_lsn_flushed'" in question.statement
    answer = [{**each, **row} for each in rows({"Innodb_lsn_current": "9", "Innodb_lsn_flushed": "7"})]
    found = question.read(answer)
    assert (found.current_lsn, found.flushed_lsn, found.is_strict) == (9, 7, True)


def test_ranges_say_what_cannot_change() -> None:
    answer: list[dict[str, object]] = [
        {"name": "INNODB_FLUSH_LOG_AT_TRX_COMMIT", "low": "0", "high": "3", "fixed": "NO", "words": None},
        {"name": "INNODB_DOUBLEWRITE", "low": None, "high": None, "fixed": "YES", "words": "OFF,ON,FAST"},
    ]
    assert MariaDb.ranges().read(answer) == {
        "innodb_flush_log_at_trx_commit": Range(0, 3),
        "innodb_doublewrite": Range(None, None, is_fixed=True, words=("off", "on", "fast")),
    }


# -- statements


def test_who_was_a_source_follows_from_what_it_has() -> None:
    question = SERVER.follow(SourceAddress("db2", "replication", "it's"))
    assert "MASTER_DEMOTE_TO_SLAVE=1" in question.statement
    assert question.arguments == ("it's",)
    assert "it's" not in question.statement


def test_a_server_that_cannot_be_copied_is_emptied_with_its_positions() -> None:
    assert not SERVER.copies
    statements = SERVER.empty(("sandbox", "my`own"))
    assert statements[:3] == (
        "SET SESSION sql_log_bin = 0, foreign_key_checks = 0",
        "DROP DATABASE `sandbox`",
        "DROP DATABASE `my``own`",
    )
    assert statements[-2:] == ("RESET MASTER", "SET GLOBAL gtid_slave_pos = ''")


def test_one_switch_refuses_writes() -> None:
    assert SERVER.refuse_writes() == SERVER.refuse_clients() == ("SET GLOBAL read_only = ON",)
    assert SERVER.open_for_writes() == ("SET GLOBAL read_only = OFF",)
    read = SERVER.settings().read(rows({**MARIADB, "read_only": "ON"}))
    assert read.refuses_writes is True
    assert read.registers is False


def test_threads_are_asked_for_in_the_old_words() -> None:
    assert SERVER.start_threads() == "START SLAVE"
    assert SERVER.register() == ("SET GLOBAL rpl_semi_sync_slave_enabled = ON",)
    assert SERVER.set("semi_sync", "on") == "SET GLOBAL rpl_semi_sync_master_enabled = ON"
