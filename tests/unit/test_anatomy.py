"""One commit taken apart: groups, wait points, what is missing, and that nothing is made up."""

from __future__ import annotations

import re
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


def counted(text: str) -> dict[Source, Total]:
    """`redo_fsync=110/220`: how often, and for how many ms together."""
    found = {}
    for each in text.split():
        name, times, ms = re.split("[=/]", each)
        found[Source[name.upper()]] = Total(int(times), float(ms))
    return found


ONE = counted(
    "redo_fsync=110/220 binlog_write=100/1 binlog_fsync=100/300 ack=100/400 "
    "flush_lock=100/0 sync_lock=100/0 commit_lock=100/0 after_commit_lock=100/0 "
    "following=0/0 commit_stage=200/550 ack_stage=100/400 statement=100/970 idle=100/20"
)
"""100 commits of one client within a second: 0.2 ms of idling and 9.7 ms of statement each, of which
9.5 in the commit: 2 redo, 3 binlog, 4 acknowledgement, 0.5 engine. 10 redo fsyncs are the background's."""
SERVED = Served(duration_s=1.0, commits=100, queries=100, mean_ms=10.0, clients=1, is_closed=True)
DURABLE = CommitPath()


def taken(totals: dict[Source, Total], served: Served = SERVED, path: CommitPath = DURABLE) -> Anatomy:
    return known(dissect(CommitGrowth(1.0, totals), served, path))


def without(totals: dict[Source, Total], *sources: Source) -> dict[Source, Total]:
    return {source: total for source, total in totals.items() if source not in sources}


MARIADB = counted(
    "binlog_write=100/1 binlog_fsync=100/300 commit_stage=200/550 ack_stage=100/400 "
    "statement=100/970 idle=100/20"
)
"""The same where neither redo log nor queue is in an instrument."""
READS = counted("statement=100/970 idle=100/20")
AFTER_COMMIT = CommitPath("after_commit")
TEN = counted(
    "redo_fsync=10/20 binlog_fsync=10/30 ack=10/40 flush_lock=10/5 sync_lock=10/0 "
    "commit_lock=10/0 following=90/900 commit_stage=200/965 ack_stage=10/40 "
    "statement=100/1015 idle=100/5"
)
"""Ten clients in groups of ten: each fsync is waited for by ten, by nine of them as followers. These slept
9 ms each on the mean: 8.1 for their groups' own, 0.9 for others and the leader."""
BY_TWO = counted("binlog_write=50/1 binlog_fsync=50/150")


TIMED = {
    "one client waits for each of its own": (ONE, SERVED, DURABLE),
    "a commit waits the whole time of its group": (
        ONE | TEN, replace(SERVED, clients=10, mean_ms=10.2), DURABLE,
    ),
    "background fsyncs are on no commit's path": (
        ONE | counted("redo_fsync=3/90 binlog_fsync=0/0"), SERVED, CommitPath(redo_fsync=False),
    ),
    "a rotated binlog is no part where nothing is synced": (ONE, SERVED, CommitPath(binlog_fsync=False)),
    "the sessions' own redo leaves slow background fsyncs out": (
        ONE | counted("redo_fsync=110/520 own_redo=300/205"), SERVED, DURABLE,
    ),
    "but not where other threads write it": (
        ONE | counted("redo_fsync=110/520 own_redo=3/205"), SERVED, DURABLE,
    ),
    "an fsync at every tenth group is a tenth of one": (
        ONE | counted("binlog_fsync=10/30"), SERVED, DURABLE,
    ),
    "a queue's leader waits five times, one after the other, for all five": (
        ONE | counted("after_commit_lock=20/0"), SERVED, AFTER_COMMIT,
    ),
    "without ordered commits the queue is the sync group": (
        ONE | counted("commit_lock=0/0 sync_lock=50/0"), SERVED, DURABLE,
    ),
    "the sleep for others to come is queueing": (ONE, SERVED, CommitPath(sync_delay_ms=0.4)),
    "of each group once": (
        ONE | counted("sync_lock=50/0 binlog_fsync=50/150"), SERVED, CommitPath(sync_delay_ms=0.4),
    ),
    "statements of somebody else under the account, fewer than the load's, say nothing": (
        ONE | counted("statement=60/970"), SERVED, DURABLE,
    ),
    "more than the load's neither": (ONE | counted("statement=140/1358"), SERVED, DURABLE),
    "but not those that lie across the ends of the stretch": (
        ONE | counted("statement=140/1358"), replace(SERVED, queries_open=40), DURABLE,
    ),
    "a user's session slept for a minute: nobody's wire": (
        ONE | counted("idle=101/60000"), SERVED, DURABLE,
    ),
    "in the open loop connections idle for arrivals": (
        ONE | counted("idle=100/49000"), replace(SERVED, is_closed=False, clients=50), DURABLE,
    ),
    "a transaction of several statements is one": (
        ONE | counted("flush_lock=20/0"), replace(SERVED, commits=20), DURABLE,
    ),
    "parts that exceed the mean are told": (ONE, replace(SERVED, mean_ms=9.0), DURABLE),
    "what a server does not time is in other": (MARIADB, SERVED, DURABLE),
    "after its commit each waits for itself where no lock says so": (
        MARIADB | BY_TWO, replace(SERVED, clients=2), AFTER_COMMIT,
    ),
    "before it once a group": (MARIADB | BY_TWO, replace(SERVED, clients=2), DURABLE),
    "instruments that are off leave their time to other": (
        without(ONE, Source.ACK_STAGE, Source.IDLE) | counted("commit_stage=0/0"), SERVED, DURABLE,
    ),
    "only files give only fsyncs by binlog writes": (
        counted("redo_fsync=110/220 binlog_write=100/1 binlog_fsync=100/300"), SERVED, DURABLE,
    ),
    "the wait for the group is a part of its own and not the engine's": (
        without(ONE, Source.ACK, Source.ACK_STAGE) | counted("commit_stage=200/950 group=100/400"),
        SERVED, CommitPath(in_group=True),
    ),
    "nor is it always timed": (MARIADB, SERVED, CommitPath(in_group=True)),
    # Eight clients over a link of 25 ms, two groups in turn: the second one's events are on their way while
    # the first one waits, so that of its own wait 5 ms are left after 20 ms behind the first.
    "who queues behind an acknowledgement waits a round trip with its own": (
        counted(
    "redo_fsync=20/40 binlog_fsync=20/60 ack=20/300 flush_lock=20/20 sync_lock=20/20 "
    "commit_lock=20/200 following=60/1920 commit_stage=160/2276 ack_stage=20/300 "
    "statement=80/2600 idle=80/8"
),
        replace(SERVED, commits=80, queries=80, clients=8, mean_ms=32.7), DURABLE,
    ),
    "reads have no commit": (READS, SERVED, DURABLE),
    "and wait for none of somebody else": (
        READS | counted(
    "binlog_write=5/0.1 binlog_fsync=5/50 redo_fsync=9/90 commit_stage=100/1"
),
        SERVED, DURABLE,
    ),
}  # fmt: skip


def in_words(found: Anatomy) -> str:
    """In the order of a commit: `wire 0.2, execute 0.2, other 9.6; 0.5 too much; queue not timed`."""
    parts = ", ".join(f"{part} {ms:.4g}" for part, ms in found.parts.items())
    excess = f"{found.excess_ms:.4g} too much" * (found.excess_ms > 1e-9)
    return "; ".join(filter(None, (parts, excess, found.untimed_words)))


def test_where_a_commit_s_time_goes(snapshot: object) -> None:
    """Parts in ms; with other and excess they make the mean, as the law below has it."""
    assert {case: in_words(taken(*timed)) for case, timed in TIMED.items()} == snapshot


def test_behind_another_acknowledgement_and_one_s_own_are_named_as_one_wait() -> None:
    named = taken(*TIMED["who queues behind an acknowledgement waits a round trip with its own"]).named
    assert named[Part.ACK] == pytest.approx(25)
    assert Part.ACK_QUEUE not in named


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
    assert found.named.get(Part.ACK, 0.0) == pytest.approx(found.ms_of(Part.ACK, Part.ACK_QUEUE))


# -- by the server's counters alone

OF_ALL = counted(
    "commit_statement=100/1000 redo_fsync=110/220 binlog_write=100/1 binlog_fsync=100/300 flush_lock=0/0"
)
"""100 COMMITs of 10 ms on a server whose instruments of locks and stages are off, as it comes."""


AT_SERVER: dict[str, tuple[dict[Source, Total], float | None, CommitPath]] = {
    "fsyncs": (OF_ALL, None, DURABLE),
    "an acknowledgement": (OF_ALL, 4.0, DURABLE),
    "more than the mean": (OF_ALL, 8.0, DURABLE),
    "no fsync": (OF_ALL, None, CommitPath(redo_fsync=False, binlog_fsync=False)),
    "no redo log in any instrument": (without(OF_ALL, Source.REDO_FSYNC), None, DURABLE),
}


def test_a_commit_of_other_people_s_clients_is_the_server_s_own_time(snapshot: object) -> None:
    told = {}
    for case, (totals, ack_ms, path) in AT_SERVER.items():
        found = known(dissect_at_server(CommitGrowth(5.0, totals), path, ack_ms=ack_ms))
        assert (found.commits, found.mean_ms) == (100, 10.0)
        told[case] = in_words(found)
    assert told == snapshot


def test_where_no_commit_statement_was_timed_nothing_is_taken_apart() -> None:
    silent = without(OF_ALL, Source.COMMIT_STATEMENT)
    for totals in ({}, silent, silent | counted("commit_statement=0/0")):
        assert dissect_at_server(CommitGrowth(5.0, totals), DURABLE) is None


def test_where_the_commit_s_stage_is_timed_autocommit_is_in_the_mean() -> None:
    totals = OF_ALL | counted("commit_stage=400/550 ack_stage=200/400")
    found = known(dissect_at_server(CommitGrowth(5.0, totals), DURABLE, commits=200))
    assert (found.commits, found.mean_ms) == pytest.approx((200, 4.75))
