"""When transactions begin: closed by the reply before, or open by a schedule of intended times.

Law: an open arrival's intended time is the sum of the gaps before it and never "now". A late
generator, a stalled server or a full backlog changes what is measured, not what was intended
(the way of wrk2). What finds no room in the backlog is dropped and counted, never lost silently.
Every arrival is in exactly one place: arrived = taken + waiting + dropped.
Times are seconds on one monotonic clock; random numbers come from the caller's generator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor
from random import Random
from typing import Final

from replexplorer.core.records import frozen

CLOSED: Final = "closed"
"""Each client sends its next transaction when the one before is answered."""
OPEN: Final = "open"
"""Transactions arrive at a rate, whatever the server does."""

POISSON: Final = "poisson"
"""Open arrivals come after exponential gaps."""
EVEN: Final = "even"
"""Open arrivals come after gaps of the same length."""

HIDES: Final[Mapping[str, str]] = {
    CLOSED: "closed loop: even a long stall shows as only one slow commit per client; watch TPS",
    OPEN: "open loop: TPS stays as asked until a backlog builds up; watch response and backlog",
}
"""What each mode hides, in one line for the screen."""

_LEAST_BACKLOG: Final = 1000
_BACKLOG_S: Final = 10.0


def backlog_bound(rate_tps: float) -> int:
    """How many arrivals may wait: 10 s of them, at least 1000."""
    return max(_LEAST_BACKLOG, ceil(_BACKLOG_S * rate_tps))


@frozen
class Pace:
    """How arrivals are to come."""

    rate_tps: float | None = None
    """Arrivals per second; None for the closed loop."""
    spacing: str = POISSON
    bound: int = 0
    """Most arrivals that may wait."""
    phase: float | None = None
    """Even arrivals come at this part of each gap, counted from the clock's zero; None: a gap after now."""

    @classmethod
    def open(
        cls, rate_tps: float, spacing: str = POISSON, share: float = 1.0, phase: float | None = None
    ) -> Pace:
        """An open loop's; of several generators, that of the one with this share of the arrivals.

        Poisson arrivals at parts of a rate are together Poisson at the rate. Even ones are even together
        when the shares are the same and each one's phase is the sum of the shares before it.
        """
        return cls(rate_tps * share, spacing, ceil(backlog_bound(rate_tps) * share), phase)

    @property
    def mode(self) -> str:
        """`closed` or `open`."""
        return CLOSED if self.rate_tps is None else OPEN


class Arrivals:
    """The intended times of one open load, one after the other; it never ends."""

    def __init__(self, rate_tps: float, spacing: str, random: Random, start_s: float) -> None:
        self._gap_s = 1.0 / rate_tps
        self._spacing = spacing
        self._draw = random.expovariate
        self._base_s = start_s
        self._count = 0
        self.next_s = start_s
        """The next intended time."""
        self.advance()

    def advance(self) -> None:
        """Go on to the arrival after the next one."""
        if self._spacing == EVEN:
            # A product and not a sum, so that rounding never adds up.
            self._count += 1
            self.next_s = self._base_s + self._count * self._gap_s
        else:
            self.next_s += self._draw(1.0) * self._gap_s


class Schedule:
    """Arrivals of one generator and those of them that wait for a client."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._arrivals: Arrivals | None = None
        self.pace = Pace()
        """As it is now."""
        self.waiting: deque[float] = deque()
        """Intended times of arrivals that no client has taken yet, oldest first."""
        self.arrived = 0
        """Arrivals since the start."""
        self.dropped = 0
        """Of these, how many found the backlog full or lost their clients."""

    @property
    def next_s(self) -> float | None:
        """When the next arrival is due; None in the closed loop."""
        return None if self._arrivals is None else self._arrivals.next_s

    def change(self, pace: Pace, now_s: float) -> None:
        """Take another pace from now on; waiting clients keep waiting.

        Arrivals until now must have been admitted. What was due next is drawn again: Poisson
        arrivals have no memory, even ones begin a new row.
        """
        if pace == self.pace:
            return
        self.pace = pace
        self._arrivals = None
        if pace.rate_tps is not None:
            start_s = now_s
            if pace.phase is not None and pace.spacing == EVEN:
                start_s = (floor(now_s * pace.rate_tps - pace.phase) + pace.phase) / pace.rate_tps
            self._arrivals = Arrivals(pace.rate_tps, pace.spacing, self._random, start_s)

    def admit(self, now_s: float, note_lateness: Callable[[float], None]) -> None:
        """Take in every arrival that was intended until now.

        Each gets by how many seconds it was noticed late.
        """
        arrivals, waiting, bound = self._arrivals, self.waiting, self.pace.bound
        if arrivals is None:
            return
        while (intended_s := arrivals.next_s) <= now_s:
            self.arrived += 1
            note_lateness(now_s - intended_s)
            if len(waiting) < bound:
                waiting.append(intended_s)
            else:
                self.dropped += 1
            arrivals.advance()

    def drop_waiting(self) -> None:
        """Release the waiting: there are no clients any more."""
        self.dropped += len(self.waiting)
        self.waiting.clear()


CLIENTS_A_PROCESS: Final = 64
"""Most whose replies a process sees soon enough when all come at once, as behind a group commit.

Measured against a peer that answers all at once: 18 us of CPU each (a cloud core, CPython 3.11, uvloop),
so the last of 64 is seen 1.2 ms after the first, of 256 4.9 ms: more than a commit takes.
"""
MOST_PROCESSES: Final = 64
"""Of one load."""
STATEMENTS_A_PROCESS: Final = 8_000
"""Statements per second that leave a process more than half of its core.

Measured: 50 us of CPU each (sysbench: 50) while it sleeps between replies, 14 us when it never does; 8,000
are 40 % of a core at the most, and queueing for it stays below what it measures.
"""


def processes_for(clients: int, statements_per_s: float, cores: int) -> int:
    """How many generator processes a load is worth; at most half the cores, the servers need some."""
    wanted = max(ceil(clients / CLIENTS_A_PROCESS), ceil(statements_per_s / STATEMENTS_A_PROCESS), 1)
    return max(1, min(wanted, cores // 2, clients))


def share_out(clients: int, before: Sequence[int], processes: int) -> list[int]:
    """How many clients each process is to have, when they had `before`.

    Nobody moves from one process to another: what comes goes where there are fewest, what goes
    leaves where there are most. Processes are never fewer than before: one may have no clients.
    """
    shares = [*before, *[0] * (processes - len(before))]
    while sum(shares) < clients:
        shares[shares.index(min(shares))] += 1
    while sum(shares) > clients:
        shares[shares.index(max(shares))] -= 1
    return shares


@frozen
class LoadShare:
    """One process's part of a load; by default all of it."""

    clients: int
    share: float = 1.0
    """Of the clients, and so of the arrivals."""
    phase: float = 0.0
    """Which part of the arrivals comes before its own in an even row (`Pace.phase`)."""
    number: int = 1
    """The process's, from 1."""

    @property
    def leads(self) -> bool:
        """It prepares and truncates the tables."""
        return self.number == 1


def shares_of(clients: Sequence[int]) -> list[LoadShare]:
    """What each process has of a load whose clients are shared out so; the first one leads."""
    total, parts = sum(clients), list[LoadShare]()
    for at, mine in enumerate(clients):
        share, phase = (mine / total, sum(clients[:at]) / total) if total else (float(not at), 0.0)
        parts.append(LoadShare(mine, share, phase, at + 1))
    return parts
