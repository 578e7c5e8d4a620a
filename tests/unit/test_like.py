"""`up --like`: what is read of other servers, what is asked of a stack, and how sure each row is."""

from __future__ import annotations

from dataclasses import replace

from replexplorer.core.knobs.names import KnobView
from replexplorer.core.like import ClockLook, Figure, Likeness, Sure, Theirs, round_trip, rows_of
from replexplorer.core.link import LinkView
from replexplorer.core.load.captured import CapturedTransaction, CapturedWorkload
from replexplorer.core.server.disk import DiskView
from tests.typed import typed

NEAR = [ClockLook(0.001, 5.0), ClockLook(0.050, 5.02)]
"""A source 1 ms from here whose clock is 5 s ahead; one answer was slow."""
FAR = [ClockLook(0.021, 2.0, -2_985_000 + at) for at in range(21)]
"""A replica 21 ms from here whose clock is 3 s behind the source's: 15 ms after a commit it had it."""


def test_a_round_trip_is_known_by_the_best_there_is(snapshot: object) -> None:
    """By the clocks, where the replica had commits; by the way to both; or not. An fsync takes 5 ms."""
    assert [round_trip(NEAR, replica, 5.0) for replica in (FAR, FAR[:9], [])] == snapshot


LOAD = CapturedWorkload(
    *("", "", 30.0, None, "SELECT 1;", 100, 90, (CapturedTransaction(12.5, 1.0, "seen", False, ()),)),
    *((), (), (), 4, 3.1),
)


def rows(busy: float, there: str) -> dict[str, Likeness]:
    """By setting, on a new stack whose bare disk takes 0.2 ms and whose link was set already."""
    here = (
        "sync_binlog=1 binlog_row_image=full innodb_buffer_pool_size=128m sync_relay_log@db2=10000"
        " workload=insert clients=0 load_mode=open rate=1"
    )
    known, own = (
        {name: KnobView(name, value, value) for name, value in typed(each).items()} for each in (there, here)
    )
    fsyncs = {
        "a": {"redo": Figure(3.0, Sure.MEASURED, ""), "binlog": Figure(None, Sure.UNKNOWN, "hidden")},
        "b": dict.fromkeys(("redo", "binlog"), Figure(0.1, Sure.MEASURED, "")),
    }
    trips, load = {"b": Figure(20.0, Sure.ESTIMATED, "")}, replace(LOAD, busy=busy)
    theirs = Theirs("mysql 8.0.36", "mysql", "async", ("a", "b"), known, trips, fsyncs, load, "")
    link, disks = (
        LinkView("db2", rtt_measured_ms=20.3),
        [DiskView(at, probe_p50_ms=0.2) for at in ("db1", "db2")],
    )
    found = rows_of(
        theirs, "mysql 9.7.4", ("db1", "db2"), own, [link], disks, workload="w.sql", memory_bytes=2**34
    )
    return {row.setting: row for row in found}


def test_what_can_be_theirs_is_asked_and_what_cannot_says_why(snapshot: object) -> None:
    there = "sync_binlog=100 binlog_row_image=full sync_relay_log@b=1 wait_point=after_sync"
    found = rows(3.1, f"{there} innodb_buffer_pool_size=64g")
    told = [
        (row.setting, str(row.name), row.asked, row.here, row.sure.value, row.why) for row in found.values()
    ]
    assert told == snapshot
    assert rows(0.4, "")["load_mode"].asked == "open", "sessions that pause do not wait for answers"
