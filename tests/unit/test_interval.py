"""A load's intervals merge exactly and at the same cuts; its processes, and what each has of it."""

from __future__ import annotations

import json
from ast import literal_eval
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

from replexplorer.core.load.interval import Cuts, Interval, ProcessWork, processes_that_help
from replexplorer.core.load.pacing import OPEN, share_out, shares_of
from replexplorer.core.server.anatomy import Anatomy, Part, limit_of
from replexplorer.core.stats.histogram import Histogram
from tests.fakes.load import interval_of
from tests.known import known
from tests.typed import fields, table_of

LENGTH_S = 0.5


def an_interval(
    start_s: float, values_us: list[int], number: int = 1, cpu: float = 10.0, **more: Any
) -> Interval:
    """Of a process at this percentage of a core."""
    work = (ProcessWork(number, 2, len(values_us), cpu / 100 * LENGTH_S, LENGTH_S),)
    told = {"errors": 1, "unknown": 1, "reconnects": 2, "clients": 8, "connected": 7, "work": work, **more}
    return interval_of(start_s, values_us, **told)


def test_intervals_one_after_the_other_and_of_several_processes_are_one_load(snapshot: object) -> None:
    """Gauges are the later one's, and a process without clients says nothing of the state."""

    def cut(at: int, number: int, **more: Any) -> Interval:
        return an_interval(
            at * LENGTH_S, [1000 * number] * (at + 1), number, 20.0 * (at + number), mode=OPEN,
            lateness=Histogram.of([at]), rate_asked_tps=10.0, backlog=3, backlog_max=9 - at,
            errors_by_number={"1290": 1, str(number): 1}, **more,
        )  # fmt: skip

    one, other = (
        cut(0, number, fault=fault).followed_by(cut(1, number, clients=3, connected=number))
        for number, fault in ((1, None), (2, "1290 read-only"))
    )
    whole = one.beside(other)
    assert (whole.to_wire(), whole.cpu_percent, whole.cpu_busiest_percent) == snapshot
    assert Interval.from_wire(json.loads(json.dumps(whole.to_wire()))) == whole
    idle, waiting = (an_interval(0.0, [], clients=clients, state="waiting") for clients in (0, 1))
    assert replace(idle, state="running").beside(waiting).state == "waiting"
    assert waiting.beside(whole).state == "running"


OWN_LIMITS = """\
cpu=30.0 late_us=1900
cpu=30.0 late_us=9000
cpu=60.0 late_us=9000
cpu=93.0
log_us=29_100
backlog=1200 under_way=8
backlog=1200 under_way=7"""


def test_a_limit_of_the_load_s_own_is_named(snapshot: object) -> None:
    """Of 8 clients whose commits take 20 ms."""

    def limited(late_us: int = 0, log_us: int = 0, **more: Any) -> str | None:
        more |= {"lateness": Histogram.of([late_us]), "log_wait": Histogram.of([log_us])}
        return an_interval(0.0, [20_000] * 50, **more).limited

    assert {line: limited(**fields(line)) for line in OWN_LIMITS.splitlines()} == snapshot


# -- several generators' intervals are put together at the cuts that all of them made


def a_part(first: int, last: int, commits: int, generator: int = 1) -> Interval:
    """What one generator reports of the intervals first..last, which its outbox merged."""
    seconds = (last + 1 - first) * LENGTH_S
    work = (ProcessWork(generator, 2, commits, 0.1, seconds),)
    return interval_of(100 + first * LENGTH_S, [100] * commits, seconds, work=work)


def test_one_that_was_asleep_is_waited_for_and_a_newcomers_beginning_is_not_lost() -> None:
    """Time is cut the same for all, and what one reports last is in the rest."""
    cuts = Cuts(LENGTH_S)
    cuts.origin_s = 100.0
    [alone] = cuts.add(0, a_part(0, 0, 1))
    assert (alone.processes, alone.commits) == (1, 1)
    assert cuts.add(1, a_part(0, 0, 1, 2)) == []
    assert [cuts.add(0, a_part(number, number, 1)) for number in range(1, 5)] == [[]] * 4
    early, late = [*cuts.add(1, a_part(1, 2, 10, 2)), *cuts.add(1, a_part(3, 4, 10, 2))]
    assert (early.processes, early.commits, early.end_s) == (2, 13, 101.5)
    assert (late.processes, late.commits, late.end_s) == (2, 12, 102.5)
    assert cuts.rest() is None
    assert cuts.add(1, a_part(5, 5, 7, 2)) == []
    assert known(cuts.rest()).commits == 7


# -- how many processes a load has, what each of them has of it, and what they are together


def test_shares_are_the_whole_and_one_leads() -> None:
    for clients, processes in ((1, 1), (8, 3), (1024, 12)):
        parts = shares_of(share_out(clients, [], processes))
        assert [part.leads for part in parts] == [True, *[False] * (processes - 1)]
        assert sum(part.clients for part in parts) == clients
        ends = accumulate(part.share for part in parts)
        assert [*(part.phase for part in parts), 1.0] == pytest.approx([0.0, *ends])


MORE = """\
                                        | 1 8 | None
generator at 93 % of a core             | 1 8 | 2
generator at 93 % of a core             | 3 8 | 6
generator at 93 % of a core             | 3 4 | 4
generator at 93 % of a core             | 1 1 | None
generator at 93 % of a core             | 0 8 | None
all 8 clients busy, 1,200 arrivals wait | 1 8 | None
"""
"""The limit, processes and clients, and how many processes help."""


def test_more_processes_are_named_where_a_core_is_full() -> None:
    for limit, load, more in table_of(MORE):
        assert str(processes_that_help(limit or None, *map(int, load.split()))) == more, (limit, load)


CALM = an_interval(0.0, [20_000] * 50, 2)
TOTALS = {"closed": CALM, "asked": replace(CALM, mode=OPEN), "dropping": replace(CALM, mode=OPEN, dropped=3)}
ANATOMIES = {
    "on the way": Anatomy(5.0, 50, 20.0, {Part.WIRE: 0.5, Part.BINLOG: 2.0, Part.ACK: 17.5}),
    "at the server": Anatomy(5.0, 50, 20.0, {Part.WIRE: 0.5, Part.BINLOG: 17.0, Part.ACK: 2.5}),
    "nothing timed": Anatomy(5.0, 50, 20.0),
}
LIMITS = """\
closed   |                             | 97.0 | on the way
closed   | generator at 93 % of a core | 97.0 |
closed   | generator at 93 % of a core | 60.0 |
closed   | generator 9 ms late         | None |
closed   |                             | 20.0 | on the way
closed   |                             | 20.0 | at the server
asked    |                             | 20.0 | on the way
dropping |                             | 20.0 | on the way
closed   |                             | None |
closed   |                             | 20.0 | nothing timed
"""
"""The load, its own limit, how busy the machine is in percent, and where a commit's time goes."""


def test_the_limit_is_the_first_that_shows_and_unknown_where_none_does(snapshot: object) -> None:
    told = []
    for total, limited, percent, anatomy in table_of(LIMITS):
        more = {"machine_percent": literal_eval(percent), "anatomy": ANATOMIES.get(anatomy)}
        told.append(limit_of(TOTALS[total], limited=limited or None, **more))
    assert told == snapshot
