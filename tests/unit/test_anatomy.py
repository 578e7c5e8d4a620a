"""One commit taken apart: groups, wait points, what is missing, and that nothing is made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.anatomy import (
    Anatomy,
    CommitPath,
    Part,
    Served,
    dissect,
    dissect_at_server,
)
from replexplorer.core.server.counters import CommitGrowth, Source, Total
from tests.known import known


def counted(**totals: tuple[int, float]) -> dict[Source, Total]:
    """How often, and for how many ms together."""
    return {Source[name.upper()]: Total(*total) for name, total in totals.items()}


ONE = counted(
    redo_fsync=(110, 220),
    binlog_write=(100, 1),
    binlog_fsync=(100, 300),
    ack=(100, 400),
    flush_lock=(100, 0),
    sync_lock=(100, 0),
    commit_lock=(100, 0),
    after_commit_lock=(100, 0),
    following=(0, 0),
    commit_stage=(200, 550),
    ack_stage=(100, 400),
    statement=(100, 970),
    idle=(100, 20),
)
"""100 commits of one client within a second: 0.2 ms of idling and 9.7 ms of statement each, of which
9.5 in the commit: 2 redo, 3 binlog, 4 acknowledgement, 0.5 engine. 10 redo fsyncs are the background's."""
SERVED = Served(duration_s=1.0, commits=100, queries=100, mean_ms=10.0, clients=1, is_closed=True)
DURABLE = CommitPath()


def taken(totals: dict[Source, Total], served: Served = SERVED, path: CommitPath = DURABLE) -> Anatomy:
    return known(dissect(CommitGrowth(1.0, totals), served, path))


def without(totals: dict[Source, Total], *sources: Source) -> dict[Source, Total]:
    return {source: total for source, total in totals.items() if source not in sources}


def made_of(**ms: float | None) -> dict[Part, float | None]:
    """Parts of a commit, by name."""
    return {Part(name): each for name, each in ms.items()}


MARIADB = counted(
    binlog_write=(100, 1),
    binlog_fsync=(100, 300),
    commit_stage=(200, 550),
    ack_stage=(100, 400),
    statement=(100, 970),
    idle=(100, 20),
)
"""The same where neither redo log nor queue is in an instrument."""
READS = counted(statement=(100, 970), idle=(100, 20))
UNTOLD = made_of(wire=None, execute=None, engine=None, ack=4)
AFTER_COMMIT = CommitPath("after_commit")
TEN = counted(
    redo_fsync=(10, 20),
    binlog_fsync=(10, 30),
    ack=(10, 40),
    flush_lock=(10, 5),
    sync_lock=(10, 0),
    commit_lock=(10, 0),
    following=(90, 90 * 10.0),
    commit_stage=(200, 5 + 50 + 900 + 10),
    ack_stage=(10, 40),
    statement=(100, 1015),
    idle=(100, 5),
)
"""Ten clients in groups of ten: each fsync is waited for by ten, by nine of them as followers. These slept
9 ms each on the mean: 8.1 for their groups' own, 0.9 for others and the leader."""
BY_TWO = counted(binlog_write=(50, 1), binlog_fsync=(50, 150))


@pytest.mark.parametrize(
    ("changed", "served", "path", "parts"),
    [
        (  # one client waits for each of its own
            {}, SERVED, DURABLE,
            made_of(
                wire=0.2, execute=0.2, fsync_queue=0.0, redo=2.0, binlog=3.0,
                ack_queue=0.0, ack=4.0, engine=0.5, other=0.1, queue=None,
                group=None,
            ),
        ),
        (  # a commit waits the whole time of its group
            TEN, replace(SERVED, clients=10, mean_ms=10.2), DURABLE,
            made_of(
                redo=2, binlog=3, ack=4, fsync_queue=0.95, ack_queue=0,
                engine=0.1, execute=0.1, other=0,
            ),
        ),
        (  # background fsyncs are on no commit's path
            counted(redo_fsync=(3, 90), binlog_fsync=(0, 0)), SERVED,
            CommitPath(redo_fsync=False), made_of(redo=None, binlog=None),
        ),
        # a rotated binlog is no part where nothing is synced
        ({}, SERVED, CommitPath(binlog_fsync=False), made_of(binlog=None)),
        (  # the sessions' own redo leaves slow background fsyncs out
            counted(redo_fsync=(110, 520), own_redo=(300, 205)), SERVED, DURABLE,
            made_of(redo=2.05),
        ),
        (  # but not where other threads write it
            counted(redo_fsync=(110, 520), own_redo=(3, 205)), SERVED, DURABLE,
            made_of(redo=520 / 110),
        ),
        # an fsync at every tenth group is a tenth of one
        (counted(binlog_fsync=(10, 30)), SERVED, DURABLE, made_of(binlog=0.3)),
        # a queue's leader waits five times, one after the other, for all five
        (counted(after_commit_lock=(20, 0)), SERVED, AFTER_COMMIT, made_of(ack=20)),
        (counted(after_commit_lock=(20, 0)), SERVED, DURABLE, made_of(ack=4)),
        # without ordered commits the queue is the sync group
        (
            counted(commit_lock=(0, 0), sync_lock=(50, 0)), SERVED, DURABLE, made_of(ack=8),
        ),
        # the sleep for others to come is queueing, of each group once
        ({}, SERVED, CommitPath(sync_delay_ms=0.4), made_of(queue=0.4, engine=0.1)),
        (
            counted(sync_lock=(50, 0), binlog_fsync=(50, 150)), SERVED,
            CommitPath(sync_delay_ms=0.4), made_of(queue=0.2),
        ),
        # statements of somebody else under the account, fewer or more than the load's, say nothing
        (counted(statement=(60, 970)), SERVED, DURABLE, UNTOLD),
        (counted(statement=(140, 1358)), SERVED, DURABLE, UNTOLD),
        (  # but not those that lie across the ends of the stretch
            counted(statement=(140, 1358)), replace(SERVED, queries_open=40), DURABLE,
            made_of(execute=2.914),
        ),
        # a user's session slept for a minute: nobody's wire
        (counted(idle=(101, 60_000)), SERVED, DURABLE, made_of(wire=None, other=0.3)),
        (  # in the open loop connections idle for arrivals
            counted(idle=(100, 49_000)), replace(SERVED, is_closed=False, clients=50), DURABLE,
            made_of(wire=0.3),
        ),
        (  # a transaction of several statements is one
            counted(flush_lock=(20, 0)), replace(SERVED, commits=20), DURABLE,
            made_of(wire=1.0, execute=(970 - 950) / 20),
        ),
        # parts that exceed the mean are told
        ({}, replace(SERVED, mean_ms=9.0), DURABLE, made_of(execute=0.2, ack=4, other=0)),
    ],
)  # fmt: skip
def test_where_a_commit_s_time_goes(
    changed: dict[Source, Total], served: Served, path: CommitPath, parts: dict[Part, float | None]
) -> None:
    """Parts by name in ms, None for one that is not there; with other and excess they make the mean."""
    found = taken(ONE | changed, served, path)
    for part, ms in parts.items():
        assert found.parts.get(part) == (None if ms is None else pytest.approx(ms, rel=1e-3)), part
    assert sum(found.parts.values()) - found.excess_ms == pytest.approx(served.mean_ms)


@pytest.mark.parametrize(
    ("totals", "served", "path", "parts"),
    [
        # what a server does not time is in other
        (
            MARIADB, SERVED, DURABLE,
            made_of(wire=0.2, execute=0.2, binlog=3.0, ack=4.0, other=2.6),
        ),
        # after its commit each waits for itself where no lock says so, before it once a group
        (
            MARIADB | BY_TWO, replace(SERVED, clients=2), AFTER_COMMIT,
            made_of(wire=0.2, execute=0.2, binlog=3.0, ack=4.0, other=2.6),
        ),
        (
            MARIADB | BY_TWO, replace(SERVED, clients=2), DURABLE,
            made_of(wire=0.2, execute=0.2, binlog=3.0, ack=8.0, other=0.0),
        ),
        (  # instruments that are off leave their time to other
            without(ONE, Source.ACK_STAGE, Source.IDLE) | counted(commit_stage=(0, 0)), SERVED, DURABLE,
            made_of(
                fsync_queue=0, redo=2, binlog=3, ack_queue=0, ack=4,
                other=1.0,
            ),
        ),
        (  # only files give only fsyncs by binlog writes
            counted(redo_fsync=(110, 220), binlog_write=(100, 1), binlog_fsync=(100, 300)),
            SERVED, DURABLE, made_of(redo=2.0, binlog=3.0, other=5.0),
        ),
        # reads have no commit, and wait for none of somebody else
        (READS, SERVED, DURABLE, made_of(wire=0.2, execute=9.7, other=0.1)),
        (
            READS | counted(
                binlog_write=(5, 0.1), binlog_fsync=(5, 50), redo_fsync=(9, 90), commit_stage=(100, 1),
            ),
            SERVED, DURABLE, made_of(wire=0.2, execute=9.69, other=0.11),
        ),
    ],
)  # fmt: skip
def test_what_is_left_where_less_is_timed(
    totals: dict[Source, Total], served: Served, path: CommitPath, parts: dict[Part, float | None]
) -> None:
    assert taken(totals, served, path).parts == pytest.approx(parts)


def test_parts_stand_in_the_order_of_a_commit() -> None:
    assert list(taken(ONE).parts) == [part for part in Part if part not in (Part.GROUP, Part.QUEUE)]
    order = list(taken(ONE, path=AFTER_COMMIT).parts)
    assert order[-4:] == [Part.ENGINE, Part.ACK_QUEUE, Part.ACK, Part.OTHER]


def test_the_wait_for_the_group_is_a_part_of_its_own_and_not_the_engines() -> None:
    alone = without(ONE, Source.ACK, Source.ACK_STAGE) | counted(commit_stage=(200, 950))
    hook = taken(alone | counted(group=(100, 400)), path=CommitPath(in_group=True))
    assert (hook.parts[Part.GROUP], hook.parts[Part.ENGINE]) == pytest.approx((4.0, 0.5))
    assert list(hook.parts).index(Part.GROUP) < list(hook.parts).index(Part.REDO)


def test_what_a_server_does_not_time_is_named() -> None:
    assert taken(ONE).untimed == ()
    assert taken(MARIADB).untimed == (Part.QUEUE, Part.REDO, Part.ENGINE)
    assert taken(MARIADB).untimed_words == "queue, redo, engine are not timed here: in other"
    assert Part.GROUP in taken(MARIADB, path=CommitPath(in_group=True)).untimed


def test_who_queues_behind_an_acknowledgement_waits_a_round_trip_with_its_own() -> None:
    """Eight clients over a link of 25 ms, two groups in turn: the second one's events are on their way while
    the first one waits, so that of its own wait 5 ms are left after 20 ms behind the first."""
    totals = counted(
        redo_fsync=(20, 40),
        binlog_fsync=(20, 60),
        ack=(20, 10 * 25 + 10 * 5),
        flush_lock=(20, 20),
        sync_lock=(20, 20),
        commit_lock=(20, 10 * 20),
        following=(60, 60 * 32.0),
        commit_stage=(160, 20 + 20 + 200 + 100 + 1920 + 16),
        ack_stage=(20, 300),
        statement=(80, 2600),
        idle=(80, 8),
    )
    found = taken(totals, replace(SERVED, commits=80, queries=80, clients=8, mean_ms=32.7))
    queue_ms = found.ms_of(Part.FSYNC_QUEUE, Part.ACK_QUEUE)
    assert found.parts[Part.ACK] == pytest.approx(15)
    assert found.parts[Part.ACK_QUEUE] == pytest.approx(queue_ms * 10 / 12)
    assert found.named[Part.ACK] == pytest.approx(25, rel=0.05)
    assert Part.ACK_QUEUE not in found.named


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
    served = Served(5.0, commits, commits * each, mean_ms, clients, closed)
    found = taken(totals, served, CommitPath(point))
    assert all(ms >= 0 for ms in found.parts.values())
    assert list(found.parts)[-1] is Part.OTHER
    assert sum(found.parts.values()) - found.excess_ms == pytest.approx(mean_ms)
    assert not (found.parts[Part.OTHER] and found.excess_ms)
    assert sum(found.named.values()) == pytest.approx(sum(found.parts.values()))


# -- by the server's counters alone

OF_ALL = counted(
    commit_statement=(100, 1000),
    redo_fsync=(110, 220),
    binlog_write=(100, 1),
    binlog_fsync=(100, 300),
    flush_lock=(0, 0),
)
"""100 COMMITs of 10 ms on a server whose instruments of locks and stages are off, as it comes."""


NEVER = (Part.QUEUE, Part.ENGINE)
"""What no server times by itself."""


@pytest.mark.parametrize(
    ("totals", "ack_ms", "path", "parts", "untimed"),
    [
        (OF_ALL, None, DURABLE, made_of(redo=2, binlog=3, other=5), NEVER),
        (OF_ALL, 4.0, DURABLE, made_of(redo=2, binlog=3, ack=4, other=1), NEVER),
        # more than the mean is told
        (OF_ALL, 8.0, DURABLE, made_of(redo=2, binlog=3, ack=8, other=0), NEVER),
        (OF_ALL, None, CommitPath(redo_fsync=False, binlog_fsync=False), made_of(other=10), NEVER),
        (  # no redo log in any instrument
            without(OF_ALL, Source.REDO_FSYNC), None, DURABLE, made_of(binlog=3, other=7),
            (Part.QUEUE, Part.REDO, Part.ENGINE),
        ),
    ],
)  # fmt: skip
def test_a_commit_of_other_people_s_clients_is_the_server_s_own_time(
    totals: dict[Source, Total],
    ack_ms: float | None,
    path: CommitPath,
    parts: dict[Part, float | None],
    untimed: tuple[Part, ...],
) -> None:
    found = known(dissect_at_server(CommitGrowth(5.0, totals), path, ack_ms=ack_ms))
    assert (found.commits, found.mean_ms, found.untimed) == (100, 10.0, untimed)
    assert found.parts == pytest.approx(parts)
    assert found.excess_ms == pytest.approx(sum(found.parts.values()) - 10)


def test_where_no_commit_statement_was_timed_nothing_is_taken_apart() -> None:
    silent = without(OF_ALL, Source.COMMIT_STATEMENT)
    for totals in ({}, silent, silent | counted(commit_statement=(0, 0))):
        assert dissect_at_server(CommitGrowth(5.0, totals), DURABLE) is None


def test_where_the_commit_s_stage_is_timed_autocommit_is_in_the_mean() -> None:
    totals = OF_ALL | counted(commit_stage=(400, 550), ack_stage=(200, 400))
    found = known(dissect_at_server(CommitGrowth(5.0, totals), DURABLE, commits=200))
    assert (found.commits, found.mean_ms) == pytest.approx((200, 4.75))
