"""One commit taken apart: groups, wait points, what is missing, and that nothing is made up."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from replexplorer.core.server.anatomy import Anatomy, CommitPath, Part, Served, dissect, dissect_at_server
from replexplorer.core.server.counters import CommitGrowth, Source, Total
from tests.known import known
from tests.typed import fields, table_of


def counted(text: str) -> dict[Source, Total]:
    """`redo_fsync=110/220 -ack`: how often, and for how many ms together; later words change those of a name
    (`ONE`), or leave one out."""
    found = dict[Source, Total]()
    for each in " ".join(NAMED.get(word, word) for word in text.split()).split():
        if each.startswith("-"):
            del found[Source[each[1:].upper()]]
            continue
        name, times, ms = re.split("[=/]", each)
        found[Source[name.upper()]] = Total(int(times), float(ms))
    return found


NAMED = {
    # 100 commits of one client within a second: 0.2 ms of idling and 9.7 ms of statement each, of which 9.5
    # in the commit: 2 redo, 3 binlog, 4 acknowledgement, 0.5 engine. 10 redo fsyncs are the background's.
    "ONE": "redo_fsync=110/220 binlog_write=100/1 binlog_fsync=100/300 ack=100/400 "
    "flush_lock=100/0 sync_lock=100/0 commit_lock=100/0 after_commit_lock=100/0 "
    "following=0/0 commit_stage=200/550 ack_stage=100/400 statement=100/970 idle=100/20",
    # The same where neither redo log nor queue is in an instrument.
    "MARIADB": "binlog_write=100/1 binlog_fsync=100/300 commit_stage=200/550 ack_stage=100/400 "
    "statement=100/970 idle=100/20",
    "READS": "statement=100/970 idle=100/20",
    # Ten clients in groups of ten: each fsync is waited for by ten, by nine of them as followers. These slept
    # 9 ms each on the mean: 8.1 for their groups' own, 0.9 for others and the leader.
    "TEN": "redo_fsync=10/20 binlog_fsync=10/30 ack=10/40 flush_lock=10/5 sync_lock=10/0 commit_lock=10/0 "
    "following=90/900 commit_stage=200/965 ack_stage=10/40 statement=100/1015 idle=100/5",
    "BY_TWO": "binlog_write=50/1 binlog_fsync=50/150",
    # Eight clients over a link of 25 ms, two groups in turn: the second one's events are on their way while
    # the first one waits, so that of its own wait 5 ms are left after 20 ms behind the first.
    "QUEUED": "redo_fsync=20/40 binlog_fsync=20/60 ack=20/300 flush_lock=20/20 sync_lock=20/20 "
    "commit_lock=20/200 following=60/1920 commit_stage=160/2276 ack_stage=20/300 "
    "statement=80/2600 idle=80/8",
    # 100 COMMITs of 10 ms on a server whose instruments of locks and stages are off, as it comes.
    "ALL": "commit_statement=100/1000 redo_fsync=110/220 binlog_write=100/1 binlog_fsync=100/300 "
    "flush_lock=0/0",
}
SERVED = Served(duration_s=1.0, commits=100, queries=100, mean_ms=10.0, clients=1, is_closed=True)


# Eight clients over a link of 25 ms, two groups in turn: the second one's events are on their way while
# the first one waits, so that of its own wait 5 ms are left after 20 ms behind the first.


TIMED = """\
one client waits for each of its own | ONE |  |
a commit waits the whole time of its group | ONE TEN | clients=10 mean_ms=10.2 |
background fsyncs are on no commit's path | ONE redo_fsync=3/90 binlog_fsync=0/0 |  | redo_fsync=False
a rotated binlog is no part where nothing is synced | ONE |  | binlog_fsync=False
the sessions' own redo leaves slow background ones out | ONE redo_fsync=110/520 own_redo=300/205 |  |
but not where other threads write it | ONE redo_fsync=110/520 own_redo=3/205 |  |
an fsync at every tenth group is a tenth of one | ONE binlog_fsync=10/30 |  |
a queue's leader waits for all five, one by one | ONE after_commit_lock=20/0 |  | wait_point='after_commit'
without ordered commits the queue is the sync group | ONE commit_lock=0/0 sync_lock=50/0 |  |
the sleep for others to come is queueing | ONE |  | sync_delay_ms=0.4
of each group once | ONE sync_lock=50/0 binlog_fsync=50/150 |  | sync_delay_ms=0.4
statements of somebody else say nothing: fewer | ONE statement=60/970 |  |
or more than the load's | ONE statement=140/1358 |  |
but not those that lie across the ends of the stretch | ONE statement=140/1358 | queries_open=40 |
a user's session slept for a minute: no client's wire | ONE idle=101/60000 |  |
in the open loop connections idle for arrivals | ONE idle=100/49000 | is_closed=False clients=50 |
a transaction of several statements is one | ONE flush_lock=20/0 | commits=20 |
parts that exceed the mean are named | ONE | mean_ms=9.0 |
what a server does not time is in other | MARIADB |  |
after its commit each waits for itself without a lock | MARIADB BY_TWO | clients=2 | wait_point='after_commit'
before it once a group | MARIADB BY_TWO | clients=2 |
instruments that are off leave their time to other | ONE commit_stage=0/0 -ack_stage -idle |  |
only fsyncs by binlog writes | redo_fsync=110/220 binlog_write=100/1 binlog_fsync=100/300 |  |
the group's is not the engine's | ONE commit_stage=200/950 group=100/400 -ack -ack_stage | | in_group=True
nor is it always timed | MARIADB |  | in_group=True
behind an acknowledgement one waits a round trip | QUEUED | commits=80 queries=80 clients=8 mean_ms=32.7 |
reads have no commit | READS |  |
nor of others | READS binlog_write=5/0.1 binlog_fsync=5/50 redo_fsync=9/90 commit_stage=100/1 | |
"""
"""What was counted, what the load's clients saw, and what a commit waits for."""


def in_words(found: Anatomy) -> str:
    """In the order of a commit: `wire 0.2, execute 0.2, other 9.6; 0.5 too much; queue not timed`."""
    parts = ", ".join(f"{part} {ms:.4g}" for part, ms in found.parts.items())
    excess = f"{found.excess_ms:.4g} too much" * (found.excess_ms > 1e-9)
    return "; ".join(filter(None, (parts, excess, found.untimed_words)))


def test_where_a_commit_s_time_goes(snapshot: object) -> None:
    """Parts in ms: with other, which is the last, and without the excess they make the mean. A wait behind
    another acknowledgement and for one's own are named as one."""
    told = {}
    for case, totals, served, path in table_of(TIMED):
        growth, seen = CommitGrowth(1.0, counted(totals)), replace(SERVED, **fields(served))
        found = known(dissect(growth, seen, CommitPath(**fields(path))))
        assert [*found.parts][-1] is Part.OTHER
        assert min(found.parts.values()) >= 0
        assert sum(found.parts.values()) - found.excess_ms == pytest.approx(seen.mean_ms)
        assert sum(found.named.values()) == pytest.approx(sum(found.parts.values()))
        assert found.named.get(Part.ACK, 0.0) == pytest.approx(found.ms_of(Part.ACK, Part.ACK_QUEUE))
        told[case] = in_words(found)
    assert told == snapshot


def test_no_commits_have_no_anatomy() -> None:
    growth = CommitGrowth(1.0, counted("ONE"))
    assert dissect(growth, replace(SERVED, commits=0), CommitPath()) is None


# -- by the server's counters alone

AT_SERVER = """\
fsyncs | ALL |
an acknowledgement | ALL | ack_ms=4.0
more than the mean | ALL | ack_ms=8.0
no redo log in any instrument | ALL -redo_fsync |
autocommit is in the mean where the stage is timed | ALL commit_stage=400/550 ack_stage=200/400 | commits=200
where no commit statement was timed | ALL -commit_statement |
or none came | ALL commit_statement=0/0 |
"""


def test_a_commit_of_other_people_s_clients_is_the_server_s_own_time(snapshot: object) -> None:
    told = {}
    for case, totals, more in table_of(AT_SERVER):
        found = dissect_at_server(CommitGrowth(5.0, counted(totals)), CommitPath(), **fields(more))
        told[case] = found and (found.commits, found.mean_ms, in_words(found))
    assert told == snapshot
