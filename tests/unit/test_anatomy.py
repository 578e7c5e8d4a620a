"""One commit taken apart: groups, wait points, what is missing, and that nothing is made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.anatomy import (
    ACKS,
    FSYNCS,
    Anatomy,
    CommitPath,
    Part,
    Served,
    dissect,
    dissect_at_server,
)
from replexplorer.core.server.counters import CommitGrowth, Source, Total

ONE = {
    Source.REDO_FSYNC: Total(110, 220),
    Source.BINLOG_WRITE: Total(100, 1),
    Source.BINLOG_FSYNC: Total(100, 300),
    Source.ACK: Total(100, 400),
    Source.FLUSH_LOCK: Total(100, 0),
    Source.SYNC_LOCK: Total(100, 0),
    Source.COMMIT_LOCK: Total(100, 0),
    Source.AFTER_COMMIT_LOCK: Total(100, 0),
    Source.FOLLOWING: Total(0, 0),
    Source.COMMIT_STAGE: Total(200, 550),
    Source.ACK_STAGE: Total(100, 400),
    Source.STATEMENT: Total(100, 970),
    Source.IDLE: Total(100, 20),
}
"""100 commits of one client within a second: 0.2 ms of idling and 9.7 ms of statement each, of which
9.5 in the commit: 2 redo, 3 binlog, 4 acknowledgement, 0.5 engine. 10 redo fsyncs are the background's."""
SERVED = Served(duration_s=1.0, commits=100, queries=100, mean_ms=10.0, clients=1, is_closed=True)
DURABLE = CommitPath()


def taken(totals: dict[Source, Total], served: Served = SERVED, path: CommitPath = DURABLE) -> Anatomy:
    found = dissect(CommitGrowth(1.0, totals), served, path)
    assert found is not None
    return found


def without(*sources: Source) -> dict[Source, Total]:
    return {source: total for source, total in ONE.items() if source not in sources}


def test_one_client_waits_for_each_of_its_own() -> None:
    found = taken(ONE)
    assert found.parts == pytest.approx(
        {
            Part.WIRE: 0.2,
            Part.EXECUTE: 0.2,
            Part.FSYNC_QUEUE: 0.0,
            Part.REDO: 2.0,
            Part.BINLOG: 3.0,
            Part.ACK_QUEUE: 0.0,
            Part.ACK: 4.0,
            Part.ENGINE: 0.5,
            Part.OTHER: 0.1,
        }
    )
    assert list(found.parts) == [part for part in Part if part not in (Part.GROUP, Part.QUEUE)]
    assert found.excess_ms == 0


def test_the_wait_for_the_group_is_a_part_of_its_own_and_not_the_engines() -> None:
    alone = without(Source.ACK, Source.ACK_STAGE) | {Source.COMMIT_STAGE: Total(200, 950)}
    member = CommitPath(in_group=True)
    hook = taken(alone | {Source.GROUP: Total(100, 400)}, path=member)
    assert hook.parts[Part.GROUP] == pytest.approx(4.0)
    assert not hook.untimed
    assert hook.parts[Part.ENGINE] == pytest.approx(0.5)
    assert list(hook.parts).index(Part.GROUP) < list(hook.parts).index(Part.REDO)


def test_a_group_that_nobody_times_is_named() -> None:
    assert Part.GROUP in taken(MARIADB, path=CommitPath(in_group=True)).untimed
    assert Part.GROUP not in taken(MARIADB).untimed


MARIADB = {
    Source.BINLOG_WRITE: Total(100, 1),
    Source.BINLOG_FSYNC: Total(100, 300),
    Source.COMMIT_STAGE: Total(200, 550),
    Source.ACK_STAGE: Total(100, 400),
    Source.STATEMENT: Total(100, 970),
    Source.IDLE: Total(100, 20),
}
"""The same where neither redo log nor queue is in an instrument."""


def test_what_a_server_does_not_time_is_named_and_in_other() -> None:
    found = taken(MARIADB)
    assert found.parts == pytest.approx(
        {Part.WIRE: 0.2, Part.EXECUTE: 0.2, Part.BINLOG: 3.0, Part.ACK: 4.0, Part.OTHER: 2.6}
    )
    assert found.untimed == (Part.QUEUE, Part.REDO, Part.ENGINE)
    assert found.untimed_words == "queue, redo, engine are not timed here: in other"
    assert taken(ONE).untimed == ()


def test_after_its_commit_each_client_waits_for_itself_where_no_lock_says_so() -> None:
    two = {**MARIADB, Source.BINLOG_WRITE: Total(50, 1), Source.BINLOG_FSYNC: Total(50, 150)}
    served = replace(SERVED, clients=2)
    assert taken(two, served, CommitPath("after_commit")).parts[Part.ACK] == pytest.approx(4.0)
    assert taken(two, served).parts[Part.ACK] == pytest.approx(8.0), "one wait a group before it"


def test_after_commit_the_engine_comes_before_the_acknowledgement() -> None:
    order = list(taken(ONE, path=CommitPath("after_commit")).parts)
    assert order[-4:] == [Part.ENGINE, Part.ACK_QUEUE, Part.ACK, Part.OTHER]


def test_background_fsyncs_are_on_no_commits_path() -> None:
    relaxed = {**ONE, Source.REDO_FSYNC: Total(3, 90), Source.BINLOG_FSYNC: Total(0, 0)}
    found = taken(relaxed, path=CommitPath(redo_fsync=False))
    assert Part.REDO not in found.parts
    assert Part.BINLOG not in found.parts


def test_the_sessions_own_redo_leaves_slow_background_fsyncs_out() -> None:
    mixed = {**ONE, Source.REDO_FSYNC: Total(110, 520), Source.OWN_REDO: Total(300, 205)}
    assert taken(mixed).parts[Part.REDO] == pytest.approx(2.05)
    other_threads = {**mixed, Source.OWN_REDO: Total(3, 205)}
    assert taken(other_threads).parts[Part.REDO] == pytest.approx(520 / 110)


def test_an_fsync_at_every_tenth_group_is_a_tenth_of_one() -> None:
    found = taken({**ONE, Source.BINLOG_FSYNC: Total(10, 30)})
    assert found.parts[Part.BINLOG] == pytest.approx(0.3)


def test_a_commit_waits_the_whole_time_of_its_group() -> None:
    """Ten clients in groups of ten: each fsync is waited for by ten, by nine of them as followers."""
    totals = {
        Source.REDO_FSYNC: Total(10, 20),
        Source.BINLOG_FSYNC: Total(10, 30),
        Source.ACK: Total(10, 40),
        Source.FLUSH_LOCK: Total(10, 5),
        Source.SYNC_LOCK: Total(10, 0),
        Source.COMMIT_LOCK: Total(10, 0),
        Source.FOLLOWING: Total(90, 90 * 10.0),
        Source.COMMIT_STAGE: Total(200, 5 + 50 + 900 + 10),
        Source.ACK_STAGE: Total(10, 40),
        Source.STATEMENT: Total(100, 1015),
        Source.IDLE: Total(100, 5),
    }
    found = taken(totals, replace(SERVED, clients=10, mean_ms=10.2))
    assert [found.parts[part] for part in (Part.REDO, Part.BINLOG, Part.ACK)] == pytest.approx([2, 3, 4])
    # Followers slept 9 ms each on the mean: 8.1 for their groups' own, 0.9 for others and the leader.
    assert found.parts[Part.FSYNC_QUEUE] == pytest.approx(0.95)
    assert found.parts[Part.ACK_QUEUE] == 0
    assert found.parts[Part.ENGINE] == pytest.approx(0.1)
    assert found.parts[Part.EXECUTE] == pytest.approx(0.1)
    assert found.parts[Part.OTHER] == pytest.approx(0.0, abs=1e-9)


def test_who_queues_behind_an_acknowledgement_waits_a_round_trip_with_its_own() -> None:
    """Eight clients over a link of 25 ms, two groups in turn: the second one's events are on their way while
    the first one waits, so that of its own wait 5 ms are left after 20 ms behind the first."""
    totals = {
        Source.REDO_FSYNC: Total(20, 40),
        Source.BINLOG_FSYNC: Total(20, 60),
        Source.ACK: Total(20, 10 * 25 + 10 * 5),
        Source.FLUSH_LOCK: Total(20, 20),
        Source.SYNC_LOCK: Total(20, 20),
        Source.COMMIT_LOCK: Total(20, 10 * 20),
        Source.FOLLOWING: Total(60, 60 * 32.0),
        Source.COMMIT_STAGE: Total(160, 20 + 20 + 200 + 100 + 1920 + 16),
        Source.ACK_STAGE: Total(20, 300),
        Source.STATEMENT: Total(80, 2600),
        Source.IDLE: Total(80, 8),
    }
    found = taken(totals, replace(SERVED, commits=80, queries=80, clients=8, mean_ms=32.7))
    queue_ms = found.ms_of(Part.FSYNC_QUEUE, Part.ACK_QUEUE)
    assert found.parts[Part.ACK] == pytest.approx(15)
    assert found.parts[Part.ACK_QUEUE] == pytest.approx(queue_ms * 10 / 12)
    assert found.named[Part.ACK] == pytest.approx(25, rel=0.05)
    assert sum(found.named.values()) == pytest.approx(sum(found.parts.values()))
    assert Part.ACK_QUEUE not in found.named


def test_after_commit_counts_the_queues_behind_the_commit() -> None:
    """Its leader waits for each of its queue in turn: five waits, one after the other, for all five."""
    totals = {**ONE, Source.ACK: Total(100, 400), Source.AFTER_COMMIT_LOCK: Total(20, 0)}
    assert taken(totals, path=CommitPath("after_commit")).parts[Part.ACK] == pytest.approx(20)
    assert taken(totals, path=CommitPath("after_sync")).parts[Part.ACK] == pytest.approx(4)


def test_the_sleep_for_others_to_come_is_queueing() -> None:
    assert taken(ONE, path=CommitPath(sync_delay_ms=0.4)).parts[Part.QUEUE] == pytest.approx(0.4)
    assert taken(ONE, path=CommitPath(sync_delay_ms=0.4)).parts[Part.ENGINE] == pytest.approx(0.1)
    grouped = {**ONE, Source.SYNC_LOCK: Total(50, 0), Source.BINLOG_FSYNC: Total(50, 150)}
    assert taken(grouped, path=CommitPath(sync_delay_ms=0.4)).parts[Part.QUEUE] == pytest.approx(0.2)


def test_without_ordered_commits_the_queue_is_the_sync_group() -> None:
    totals = {**ONE, Source.COMMIT_LOCK: Total(0, 0), Source.SYNC_LOCK: Total(50, 0)}
    assert taken(totals).parts[Part.ACK] == pytest.approx(8)


def test_instruments_that_are_off_leave_their_time_to_other() -> None:
    off = without(Source.COMMIT_STAGE, Source.ACK_STAGE, Source.IDLE)
    found = taken({**off, Source.COMMIT_STAGE: Total(0, 0)})
    assert found.parts.keys() == {*FSYNCS, *ACKS, Part.OTHER}
    assert found.parts[Part.OTHER] == pytest.approx(1.0)


def test_only_files_give_only_fsyncs_by_binlog_writes() -> None:
    files = {source: ONE[source] for source in (Source.REDO_FSYNC, Source.BINLOG_WRITE, Source.BINLOG_FSYNC)}
    assert taken(files).parts == pytest.approx({Part.REDO: 2.0, Part.BINLOG: 3.0, Part.OTHER: 5.0})


@pytest.mark.parametrize("statements", [60, 140])
def test_somebody_elses_statements_under_the_account_make_its_counters_say_nothing(statements: int) -> None:
    found = taken({**ONE, Source.STATEMENT: Total(statements, 970)})
    assert found.parts.keys() == {Part.REDO, Part.BINLOG, Part.ACK, Part.OTHER}


def test_somebody_elses_idling_is_nobodys_wire() -> None:
    """A user's session slept for a minute and then sent one statement."""
    found = taken({**ONE, Source.IDLE: Total(101, 60_000)})
    assert Part.WIRE not in found.parts
    assert found.parts[Part.OTHER] == pytest.approx(0.3)


def test_in_the_open_loop_connections_idle_for_arrivals() -> None:
    served = replace(SERVED, is_closed=False, clients=50)
    found = taken({**ONE, Source.IDLE: Total(100, 49_000)}, served)
    assert found.parts[Part.WIRE] == pytest.approx(0.3)


def test_a_transaction_of_several_statements_is_one() -> None:
    served = replace(SERVED, commits=20)
    found = taken({**ONE, Source.FLUSH_LOCK: Total(20, 0)}, served)
    assert found.parts[Part.WIRE] == pytest.approx(1.0)
    assert found.parts[Part.EXECUTE] == pytest.approx((970 - 950) / 20)


def test_reads_have_no_commit() -> None:
    found = taken({Source.STATEMENT: Total(100, 970), Source.IDLE: Total(100, 20)})
    assert found.parts == pytest.approx({Part.WIRE: 0.2, Part.EXECUTE: 9.7, Part.OTHER: 0.1})


def test_reads_do_not_wait_for_somebody_elses_commits() -> None:
    """Our heartbeats, or a user's own work."""
    few = {
        Source.BINLOG_WRITE: Total(5, 0.1),
        Source.BINLOG_FSYNC: Total(5, 50),
        Source.REDO_FSYNC: Total(9, 90),
        Source.COMMIT_STAGE: Total(100, 1),
    }
    found = taken({**few, Source.STATEMENT: Total(100, 970), Source.IDLE: Total(100, 20)})
    assert found.parts == pytest.approx({Part.WIRE: 0.2, Part.EXECUTE: 9.69, Part.OTHER: 0.11})


def test_a_rotated_binlog_is_no_part_where_nothing_is_synced() -> None:
    assert Part.BINLOG not in taken(ONE, path=CommitPath(binlog_fsync=False)).parts


def test_what_lies_across_the_ends_of_the_stretch_is_not_somebody_elses() -> None:
    totals = {**ONE, Source.STATEMENT: Total(140, 1358)}
    assert Part.EXECUTE not in taken(totals).parts
    assert Part.EXECUTE in taken(totals, replace(SERVED, queries_open=40)).parts


def test_parts_that_exceed_the_mean_are_told() -> None:
    found = taken(ONE, replace(SERVED, mean_ms=9.0))
    assert found.parts[Part.OTHER] == 0
    assert found.excess_ms == pytest.approx(0.9)


def test_no_commits_have_no_anatomy() -> None:
    assert dissect(CommitGrowth(1.0, ONE), replace(SERVED, commits=0), DURABLE) is None


TOTALS = st.dictionaries(
    st.sampled_from(Source),
    st.builds(Total, st.integers(0, 2000), st.floats(0, 1e5, allow_nan=False)),
)


@given(
    TOTALS,
    st.integers(1, 5000),
    st.integers(1, 5),
    st.floats(0.01, 1e4),
    st.integers(1, 64),
    st.booleans(),
    st.sampled_from(("after_sync", "after_commit")),
)
def test_whatever_was_counted_the_named_parts_other_and_excess_make_the_mean(
    totals: dict[Source, Total],
    commits: int,
    each: int,
    mean_ms: float,
    clients: int,
    closed: bool,
    point: str,
) -> None:
    found = dissect(
        CommitGrowth(5.0, totals),
        Served(5.0, commits, commits * each, mean_ms, clients, closed),
        CommitPath(point),
    )
    assert found is not None
    assert all(ms >= 0 for ms in found.parts.values())
    assert list(found.parts)[-1] is Part.OTHER
    assert sum(found.parts.values()) - found.excess_ms == pytest.approx(mean_ms)
    assert not (found.parts[Part.OTHER] and found.excess_ms)
    assert sum(found.named.values()) == pytest.approx(sum(found.parts.values()))


# -- by the server's counters alone

OF_ALL: dict[Source, Total] = {
    Source.COMMIT_STATEMENT: Total(100, 1000),
    Source.REDO_FSYNC: Total(110, 220),
    Source.BINLOG_WRITE: Total(100, 1),
    Source.BINLOG_FSYNC: Total(100, 300),
    Source.FLUSH_LOCK: Total(0, 0),
}
"""100 COMMITs of 10 ms on a server whose instruments of locks and stages are off, as it comes."""


@pytest.mark.parametrize(
    ("totals", "ack_ms", "path", "parts", "untimed"),
    [
        (OF_ALL, None, DURABLE, {Part.REDO: 2, Part.BINLOG: 3, Part.OTHER: 5}, (Part.QUEUE, Part.ENGINE)),
        (
            OF_ALL, 4.0, DURABLE,
            {Part.REDO: 2, Part.BINLOG: 3, Part.ACK: 4, Part.OTHER: 1}, (Part.QUEUE, Part.ENGINE),
        ),
        (
            OF_ALL, None, CommitPath(redo_fsync=False, binlog_fsync=False),
            {Part.OTHER: 10}, (Part.QUEUE, Part.ENGINE),
        ),
        (
            {source: total for source, total in OF_ALL.items() if source is not Source.REDO_FSYNC},
            None, DURABLE, {Part.BINLOG: 3, Part.OTHER: 7}, (Part.QUEUE, Part.REDO, Part.ENGINE),
        ),
    ],
    ids=["async", "semi-sync", "not durable", "no redo log in any instrument"],
)  # fmt: skip
def test_a_commit_of_other_people_s_clients_is_the_server_s_own_time(
    totals: dict[Source, Total],
    ack_ms: float | None,
    path: CommitPath,
    parts: dict[Part, float],
    untimed: tuple[Part, ...],
) -> None:
    found = dissect_at_server(CommitGrowth(5.0, totals), path, ack_ms=ack_ms)
    assert found is not None
    assert (found.commits, found.mean_ms, found.untimed) == (100, 10.0, untimed)
    assert found.parts == pytest.approx(parts)


def test_where_no_commit_statement_was_timed_nothing_is_taken_apart() -> None:
    silent = dict(OF_ALL)
    del silent[Source.COMMIT_STATEMENT]
    looks: list[dict[Source, Total]] = [{}, silent, {**silent, Source.COMMIT_STATEMENT: Total(0, 0)}]
    for totals in looks:
        assert dissect_at_server(CommitGrowth(5.0, totals), DURABLE) is None


def test_parts_that_are_more_than_the_server_s_mean_are_told() -> None:
    found = dissect_at_server(CommitGrowth(5.0, OF_ALL), DURABLE, ack_ms=8.0)
    assert found is not None
    assert found.excess_ms == pytest.approx(3.0)
    assert found.parts[Part.OTHER] == 0.0


def test_where_the_commit_s_stage_is_timed_autocommit_is_in_the_mean() -> None:
    totals = {**OF_ALL, Source.COMMIT_STAGE: Total(400, 550), Source.ACK_STAGE: Total(200, 400)}
    found = dissect_at_server(CommitGrowth(5.0, totals), DURABLE, commits=200)
    assert found is not None
    assert found.commits == 200
    assert found.mean_ms == pytest.approx(4.75)
