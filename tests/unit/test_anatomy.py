"""One commit taken apart: groups, wait points, what is missing, and that nothing is made up."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

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


ONE = (
    "redo_fsync=110/220 binlog_write=100/1 binlog_fsync=100/300 ack=100/400 "
    "flush_lock=100/0 sync_lock=100/0 commit_lock=100/0 after_commit_lock=100/0 "
    "following=0/0 commit_stage=200/550 ack_stage=100/400 statement=100/970 idle=100/20 "
)
"""100 commits of one client within a second: 0.2 ms of idling and 9.7 ms of statement each, of which
9.5 in the commit: 2 redo, 3 binlog, 4 acknowledgement, 0.5 engine. 10 redo fsyncs are the background's."""
SERVED = Served(duration_s=1.0, commits=100, queries=100, mean_ms=10.0, clients=1, is_closed=True)
DURABLE = CommitPath()


def taken(totals: str, served: Served = SERVED, path: CommitPath = DURABLE) -> Anatomy:
    return known(dissect(CommitGrowth(1.0, counted(totals)), served, path))


def without(totals: str, *sources: str) -> str:
    return " ".join(each for each in totals.split() if each.partition("=")[0] not in sources)


MARIADB = (
    "binlog_write=100/1 binlog_fsync=100/300 commit_stage=200/550 ack_stage=100/400 "
    "statement=100/970 idle=100/20 "
)
"""The same where neither redo log nor queue is in an instrument."""
READS = "statement=100/970 idle=100/20 "
AFTER_COMMIT = CommitPath("after_commit")
TEN = (
    "redo_fsync=10/20 binlog_fsync=10/30 ack=10/40 flush_lock=10/5 sync_lock=10/0 "
    "commit_lock=10/0 following=90/900 commit_stage=200/965 ack_stage=10/40 "
    "statement=100/1015 idle=100/5"
)
"""Ten clients in groups of ten: each fsync is waited for by ten, by nine of them as followers. These slept
9 ms each on the mean: 8.1 for their groups' own, 0.9 for others and the leader."""
BY_TWO = "binlog_write=50/1 binlog_fsync=50/150"
# Eight clients over a link of 25 ms, two groups in turn: the second one's events are on their way while
# the first one waits, so that of its own wait 5 ms are left after 20 ms behind the first.
QUEUED = taken(
    "redo_fsync=20/40 binlog_fsync=20/60 ack=20/300 flush_lock=20/20 sync_lock=20/20 "
    "commit_lock=20/200 following=60/1920 commit_stage=160/2276 ack_stage=20/300 "
    "statement=80/2600 idle=80/8",
    replace(SERVED, commits=80, queries=80, clients=8, mean_ms=32.7),
)


TIMED = {
    "one client waits for each of its own": taken(ONE),
    "a commit waits the whole time of its group": taken(ONE + TEN, replace(SERVED, clients=10, mean_ms=10.2)),
    "background fsyncs are on no commit's path": taken(
        f"{ONE} redo_fsync=3/90 binlog_fsync=0/0", path=CommitPath(redo_fsync=False)
    ),
    "a rotated binlog is no part where nothing is synced": taken(ONE, path=CommitPath(binlog_fsync=False)),
    "the sessions' own redo leaves slow background fsyncs out": taken(
        f"{ONE} redo_fsync=110/520 own_redo=300/205"
    ),
    "but not where other threads write it": taken(f"{ONE} redo_fsync=110/520 own_redo=3/205"),
    "an fsync at every tenth group is a tenth of one": taken(f"{ONE} binlog_fsync=10/30"),
    "a queue's leader waits five times, one after the other, for all five": taken(
        f"{ONE} after_commit_lock=20/0", path=AFTER_COMMIT
    ),
    "without ordered commits the queue is the sync group": taken(f"{ONE} commit_lock=0/0 sync_lock=50/0"),
    "the sleep for others to come is queueing": taken(ONE, path=CommitPath(sync_delay_ms=0.4)),
    "of each group once": taken(
        f"{ONE} sync_lock=50/0 binlog_fsync=50/150", path=CommitPath(sync_delay_ms=0.4)
    ),
    "statements of somebody else under the account, fewer than the load's, say nothing": taken(
        f"{ONE} statement=60/970"
    ),
    "more than the load's neither": taken(f"{ONE} statement=140/1358"),
    "but not those that lie across the ends of the stretch": taken(
        f"{ONE} statement=140/1358", replace(SERVED, queries_open=40)
    ),
    "a user's session slept for a minute: nobody's wire": taken(f"{ONE} idle=101/60000"),
    "in the open loop connections idle for arrivals": taken(
        f"{ONE} idle=100/49000", replace(SERVED, is_closed=False, clients=50)
    ),
    "a transaction of several statements is one": taken(
        f"{ONE} flush_lock=20/0", replace(SERVED, commits=20)
    ),
    "parts that exceed the mean are told": taken(ONE, replace(SERVED, mean_ms=9.0)),
    "what a server does not time is in other": taken(MARIADB),
    "after its commit each waits for itself where no lock says so": taken(
        MARIADB + BY_TWO, replace(SERVED, clients=2), AFTER_COMMIT
    ),
    "before it once a group": taken(MARIADB + BY_TWO, replace(SERVED, clients=2)),
    "instruments that are off leave their time to other": taken(
        without(f"{ONE} commit_stage=0/0", "ack_stage", "idle")
    ),
    "only files give only fsyncs by binlog writes": taken(
        "redo_fsync=110/220 binlog_write=100/1 binlog_fsync=100/300"
    ),
    "the wait for the group is a part of its own and not the engine's": taken(
        without(f"{ONE} commit_stage=200/950 group=100/400", "ack", "ack_stage"),
        path=CommitPath(in_group=True),
    ),
    "nor is it always timed": taken(MARIADB, path=CommitPath(in_group=True)),
    "who queues behind an acknowledgement waits a round trip with its own": QUEUED,
    "reads have no commit": taken(READS),
    "and wait for none of somebody else": taken(
        f"{READS} binlog_write=5/0.1 binlog_fsync=5/50 redo_fsync=9/90 commit_stage=100/1"
    ),
}


def in_words(found: Anatomy) -> str:
    """In the order of a commit: `wire 0.2, execute 0.2, other 9.6; 0.5 too much; queue not timed`."""
    parts = ", ".join(f"{part} {ms:.4g}" for part, ms in found.parts.items())
    excess = f"{found.excess_ms:.4g} too much" * (found.excess_ms > 1e-9)
    return "; ".join(filter(None, (parts, excess, found.untimed_words)))


def test_where_a_commit_s_time_goes(snapshot: object) -> None:
    """Parts in ms; with other and excess they make the mean, as the law below has it."""
    assert {case: in_words(timed) for case, timed in TIMED.items()} == snapshot


def test_behind_another_acknowledgement_and_one_s_own_are_named_as_one_wait() -> None:
    assert QUEUED.named[Part.ACK] == pytest.approx(25)
    assert Part.ACK_QUEUE not in QUEUED.named


def test_no_commits_have_no_anatomy() -> None:
    assert dissect(CommitGrowth(1.0, counted(ONE)), replace(SERVED, commits=0), DURABLE) is None


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
    found = known(dissect(CommitGrowth(1.0, totals), served, CommitPath(point)))
    assert all(ms >= 0 for ms in found.parts.values())
    assert list(found.parts)[-1] is Part.OTHER
    assert sum(found.parts.values()) - found.excess_ms == pytest.approx(mean_ms)
    assert not (found.parts[Part.OTHER] and found.excess_ms)
    assert sum(found.named.values()) == pytest.approx(sum(found.parts.values()))
    assert found.named.get(Part.ACK, 0.0) == pytest.approx(found.ms_of(Part.ACK, Part.ACK_QUEUE))


# -- by the server's counters alone

OF_ALL = "commit_statement=100/1000 redo_fsync=110/220 binlog_write=100/1 binlog_fsync=100/300 flush_lock=0/0"
"""100 COMMITs of 10 ms on a server whose instruments of locks and stages are off, as it comes."""


def at_server(totals: str, path: CommitPath = DURABLE, **more: Any) -> Anatomy | None:
    return dissect_at_server(CommitGrowth(5.0, counted(totals)), path, **more)


AT_SERVER = {
    "fsyncs": known(at_server(OF_ALL)),
    "an acknowledgement": known(at_server(OF_ALL, ack_ms=4.0)),
    "more than the mean": known(at_server(OF_ALL, ack_ms=8.0)),
    "no fsync": known(at_server(OF_ALL, CommitPath(redo_fsync=False, binlog_fsync=False))),
    "no redo log in any instrument": known(at_server(without(OF_ALL, "redo_fsync"))),
}


def test_a_commit_of_other_people_s_clients_is_the_server_s_own_time(snapshot: object) -> None:
    told = {}
    for case, found in AT_SERVER.items():
        assert found.commits == 100
        assert found.mean_ms == 10.0
        told[case] = in_words(found)
    assert told == snapshot


def test_where_no_commit_statement_was_timed_nothing_is_taken_apart() -> None:
    silent = without(OF_ALL, "commit_statement")
    for totals in ("", silent, f"{silent} commit_statement=0/0"):
        assert at_server(totals) is None


def test_where_the_commit_s_stage_is_timed_autocommit_is_in_the_mean() -> None:
    found = known(at_server(f"{OF_ALL} commit_stage=400/550 ack_stage=200/400", commits=200))
    assert (found.commits, found.mean_ms) == pytest.approx((200, 4.75))
