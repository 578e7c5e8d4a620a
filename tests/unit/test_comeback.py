"""A server that runs again, against what it and the others had, and what commits waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replexplorer.core.fault import Had
from replexplorer.core.server.comeback import (
    Comeback,
    Replication,
    compare,
    loses_rows,
    redo_fsyncs,
    waits_for_both,
)
from replexplorer.core.server.exposure import LogState
from replexplorer.core.server.gtid import gtid_count
from tests.typed import table_of, values_of

A, B = "u", "v"
"""Servers, as their GTIDs name them."""
WHOLE, DIVERGED = Replication.WHOLE, Replication.DIVERGED
NONE = ((0, 0), WHOLE)
"""No row is gone."""


def back(
    at_start: str, others: Mapping[str, str], purged: str = "", answered: str = "", **had: Any
) -> Comeback:
    """What db1 comes to, a source that had 100 transactions."""
    all_had = Had({"db1": f"{A}:1-100"}, "", **had)
    return compare("db1", A, all_had, others, at_start, purged, answered, is_source=True)


COMEBACKS = """\
u:1-100 |         | u:1-60          |  0 0   0 | whole
u:1-90  |         | u:1-90          | 10 0   0 | whole
u:1-90  |         | u:1-96          | 10 6   0 | diverged
u:1-100 |         | u:1-102,v:1-5   |  2 2   0 | diverged
u:1-100 | u:1-100 | u:1-58          |  0 0 100 | broken 1236
u:1-100 | u:1-100 | u:1-100         |  0 0 100 | whole
u:1-95  | u:1-95  | u:1-98          |  5 3  95 | diverged
"""
"""What the source has at its start and in no binlog, what its replica has; then how many transactions are
lost, on the replica alone and lost by the binlog, and what becomes of the replica."""


def test_what_a_source_lost_and_what_becomes_of_its_replica() -> None:
    for at_start, purged, replica, counts, after in table_of(COMEBACKS):
        found = back(at_start, {"db2": replica}, purged)
        gone = (found.lost, ",".join(found.only_on.values()), found.binlog_lost or "")
        assert [gtid_count(gtids) for gtids in gone] == [*map(int, counts.split())]
        assert found.replication == {"db2": after}
        assert set(found.differs) == (set() if after == "whole" else {"db2"})
        assert bool(found.words("demo")) is bool(found.lost or found.binlog_lost), at_start


def test_the_words_say_how_many_are_where_and_the_remedy(snapshot: object) -> None:
    others = {"db2": f"{A}:1-98", "db3": f"{A}:1-94"}
    assert back(f"{A}:1-95", others, f"{A}:1-95", binlog_bytes=2048).words("demo") == snapshot


def test_what_clients_were_answered_is_counted_exactly(snapshot: object) -> None:
    """Where that is not known, a source that committed until it ended may have lost more than was seen."""
    others, first, told = {"db2": f"{A}:1-98"}, f"{A}:1-95", {}
    for answered in ("", f"{A}:1-105", f"{A}:1-97", f"{A}:1-95", f"{B}:1-500"):
        told[answered] = back(f"{A}:1-95", others, answered=answered, first=first).words("demo")
        told[f"{answered} whole"] = back(f"{A}:1-105", others, answered=answered, first=first).words("demo")
    assert told == snapshot


def test_of_mariadb_the_sets_say_what_the_binlog_lost_and_nothing_of_the_rows(snapshot: object) -> None:
    """Measured: 5,614 transactions were in no binlog any more, and 91 rows were gone."""
    had = Had({"db1": "0-1:1-100"}, "", loses_rows=True)
    told = []
    for answered in ("", "0-1:7, 0-1:97-103"):
        found = compare(
            "db1", None, had, {"db2": "0-1:1-98"}, "0-1:1-95", "", answered, is_source=True, rows_apart=True
        )
        told.append(found.losses)
        assert found.rows is None
        assert found.after == DIVERGED
    assert told == snapshot


def test_what_the_binlog_lost_is_not_known_where_it_was_not_asked() -> None:
    found = compare("db1", A, Had(), {"db2": f"{A}:1-9"}, f"{A}:1-9", f"{A}:1-9", is_source=True)
    assert found.binlog_lost is None
    assert found.after is WHOLE


def test_rows_can_be_gone_though_their_gtids_are_there() -> None:
    """Not where InnoDB had more than the binlog: it keeps rows and GTIDs together."""
    whole = f"{A}:1-100"
    for loses, purged, gone in ((True, "", (None, DIVERGED)), (False, "", NONE), (True, whole, NONE)):
        found = back(whole, {"db2": whole}, purged, loses_rows=loses)
        assert (found.rows, found.after) == gone


def test_a_replica_that_comes_back_gets_what_it_lost_from_its_source() -> None:
    had = Had({"db2": f"{A}:1-100", "db1": f"{A}:1-100"}, "")
    found = compare("db2", B, had, {"db1": f"{A}:1-120"}, f"{A}:1-80", "", is_source=False)
    assert not found.words("demo")
    assert found.replication == {}


# -- which settings make a commit wait for its fsyncs: the meter, the model and the drills ask the same


FSYNCS = """\
1    1    1 True  False False
1    3    2 True  False False
1    2    0 False False True
1    0    0 False True  True
0    3    2 False False False
100  1    1 False False False
None 1    1 False False False
1    None 0 False False True
"""
"""sync_binlog, the flush at a commit, fsyncs of the redo log, whether a commit waits for both logs, and
whether a kill and a power cut lose what was acknowledged."""


def test_fsyncs_that_a_commit_waits_for_and_which_settings_lose_redo_of_what_was_acknowledged() -> None:
    for sync_binlog, flush, fsyncs, both, *lost in values_of(FSYNCS):
        assert redo_fsyncs(flush) == fsyncs
        assert waits_for_both(sync_binlog, flush) is both, (sync_binlog, flush)
        assert LogState(0, 0, 0, flush, sync_binlog).is_strict is both
        settings = {"innodb_flush_log_at_trx_commit": flush}
        assert [loses_rows(fault, settings) for fault in ("kill", "power_cut")] == lost, flush
