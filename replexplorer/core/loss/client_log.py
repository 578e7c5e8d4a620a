"""The client log: what each client of the `ledger` load was about to do and what it was told, in lines.

| line | says |
|---|---|
| `replexplorer client log 1 RUN` | the first line: the run that the file belongs to |
| `t US` | the lines up to the next one of these were written at this time |
| `i CLIENT SEQ` | the client is about to insert the row |
| `a CLIENT SEQ US` | the server said OK, at this time |
| `f CLIENT SEQ NUMBER` | the server refused it with this error of MySQL's |
| `r US` | the table was emptied: what was intended before is settled and no longer looked for. The file \
begins with it where what stood before was dropped |
| `s NODE CLIENT FIRST LAST` | a session on this node saw these rows, for the first time there |

Times are microseconds of the host's monotonic clock, which all processes of a load share. A client has one
row under way at a time, and its numbers ascend by one. Law: `i` is on the disk before the statement goes
out and `a` or `f` before the client's next one does, so that a file whose writer was killed at any moment,
its last line torn, still tells the class of every row: with neither `a` nor `f` it is unknown.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import BinaryIO, Final

from replexplorer.core.errors import UsageError
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.server.gtid import Spans, common, count, spans_of, together, without

HEAD: Final = "replexplorer client log 1 "
"""How the first line begins; the run follows."""
CLIENTS_A_RUN: Final = 1_000_000_000
"""The rows of run r carry the clients r * CLIENTS_A_RUN + 1 and up: no run writes another's rows again."""
CLIENTS_A_FILE: Final = 1_000_000
"""Within a run, those of its n-th file begin at n * CLIENTS_A_FILE."""

INTENT: Final = b"i %d %d\n"
ACKNOWLEDGED: Final = b"a %d %d %d\n"
FAILED: Final = b"f %d %d %d\n"
TIME: Final = b"t %d\n"
RESET: Final = b"r %d\n"
SEEN: Final = b"s %b %d %d %d\n"

_ALL: Final = 1 << 62
MOST_LINE_BYTES: Final = 256
"""No line of a client log is as long."""
_MOST_DIGITS: Final = 18
_WITH_TIME: Final = frozenset((b"a", b"t", b"r"))
"""Lines whose last word is a time."""

Rows = Mapping[int, Spans]
"""Sequence numbers by client, numbered within the run."""


@dataclass(slots=True)
class LedgerStanding:
    """How many rows there are of each class; under way counts as unknown."""

    attempted: int = 0
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0


def _runs(numbers: Iterable[int]) -> Spans:
    """Numbers that mostly ascend by one."""
    pairs: list[list[int]] = []
    for number in numbers:
        if pairs and pairs[-1][1] + 1 == number:
            pairs[-1][1] = number
        else:
            pairs.append([number, number])
    return spans_of((first, last) for first, last in pairs)


@dataclass(slots=True)
class _Client:
    """What one client wrote down."""

    attempted: array[int] = field(default_factory=lambda: array("q"))
    attempted_us: array[int] = field(default_factory=lambda: array("q"))
    """When each of these intents was written: what a reset compares."""
    acknowledged: array[int] = field(default_factory=lambda: array("q"))
    acknowledged_us: array[int] = field(default_factory=lambda: array("q"))
    failed: list[int] = field(default_factory=list)


@frozen
class Attempts:
    """One client's rows by class: each that was attempted is in exactly one of the next three."""

    attempted: Spans
    acknowledged: Spans
    failed: Spans
    unknown: Spans
    settled: Spans = ()
    """What was attempted before the table was emptied is among these; in none of the others."""
    acknowledged_seqs: Sequence[int] = ()
    """Ascending, also those that are settled."""
    acknowledged_us: Sequence[int] = ()
    """When, in the same order; microseconds of the monotonic clock."""

    def told_us(self, seq: int) -> int | None:
        """When the client was told that this row is committed; None where it never was."""
        at = bisect_left(self.acknowledged_seqs, seq)
        if at == len(self.acknowledged_seqs) or self.acknowledged_seqs[at] != seq:
            return None
        return self.acknowledged_us[at]


@frozen
class RunLog:
    """All that the client logs of one run say."""

    run: int
    clients: Mapping[int, Attempts]
    seen: Mapping[str, Rows]
    """By node."""
    was_reset: bool = False
    """The table was emptied meanwhile: clients of before need not be here."""

    @property
    def standing(self) -> LedgerStanding:
        """The rows of all clients by class."""
        every = self.clients.values()
        return LedgerStanding(
            sum(count(each.attempted) for each in every),
            sum(count(each.acknowledged) for each in every),
            sum(count(each.failed) for each in every),
            sum(count(each.unknown) for each in every),
        )


class _Reading:
    """Files read one after the other."""

    def __init__(self) -> None:
        self.run: int | None = None
        self.clients: defaultdict[int, _Client] = defaultdict(_Client)
        self.seen: dict[str, dict[int, list[tuple[int, int]]]] = {}
        self.reset_us = 0
        self.was_reset = False

    def read(self, name: str, content: bytes | BinaryIO) -> None:
        """One file; a last line without its end was never finished and says nothing."""
        now_us = 0
        stream = BytesIO(content) if isinstance(content, bytes) else content
        for number, line in enumerate(iter(partial(stream.readline, MOST_LINE_BYTES), b""), 1):
            if not line.endswith(b"\n"):
                if len(line) < MOST_LINE_BYTES:
                    return
                raise UsageError(f"{name}:{number}: not a line of a client log", "choose another run")
            if number == 1:
                self._head(name, line.rstrip())
                continue
            kind, *values = line.split()
            try:
                if kind == b"i":
                    client, seq = values
                    of = self.clients[int(client)]
                    of.attempted.append(int(seq))
                    of.attempted_us.append(now_us)
                elif kind == b"a":
                    client, seq, told_us = values
                    of = self.clients[int(client)]
                    of.acknowledged.append(int(seq))
                    of.acknowledged_us.append(int(told_us))
                elif kind == b"t":
                    [time_us] = values
                    now_us = int(time_us)
                elif kind == b"f":
                    client, seq, _ = values
                    self.clients[int(client)].failed.append(int(seq))
                elif kind == b"s":
                    node, client, first, last = values
                    rows = self.seen.setdefault(node.decode(), {})
                    if not 0 <= int(first) <= int(last) <= _ALL:
                        raise ValueError
                    rows.setdefault(int(client), []).append((int(first), int(last)))
                elif kind == b"r":
                    [time_us] = values
                    self.was_reset, self.reset_us = True, max(self.reset_us, int(time_us))
                else:
                    raise ValueError
            except (ValueError, OverflowError):
                raise UsageError(
                    f"{name}:{number}: not a line of a client log", "choose another run"
                ) from None

    def _head(self, name: str, line: bytes) -> None:
        head, run = line[: len(HEAD)], line[len(HEAD) :]
        is_number = run.isdigit() and len(run) <= _MOST_DIGITS
        if head != HEAD.encode() or not is_number or (self.run is not None and int(run) != self.run):
            raise UsageError(f"{name}: not a client log of this run", "choose another run")
        self.run = int(run)

    def attempts(self, client: _Client) -> Attempts:
        """One client's rows by class."""
        settled: Spans = ()
        attempted = _runs(client.attempted)
        if self.was_reset:
            first = bisect_left(client.attempted_us, self.reset_us + 1)
            has_one = first < len(client.attempted)
            settled = ((0, client.attempted[first] - 1 if has_one else _ALL),)
            attempted = without(attempted, settled)
        # What was told of a row whose intent was dropped is about one that is settled.
        acknowledged = common(_runs(client.acknowledged), attempted)
        # Who was told OK was not refused, whatever the file says.
        failed = without(common(_runs(client.failed), attempted), acknowledged)
        told = together(acknowledged, failed)
        return Attempts(
            attempted,
            acknowledged,
            failed,
            without(attempted, told),
            settled,
            client.acknowledged,
            client.acknowledged_us,
        )


def at_another_clock(line: bytes, ahead_us: int) -> bytes:
    """A line whose times are by a clock that is `ahead_us` ahead of ours, with its times by ours; a
    line that has none, or is none of a client log, as it is."""
    kind, *values = line.split() or [b""]
    if kind not in _WITH_TIME or not line.endswith(b"\n") or not values or not values[-1].isdigit():
        return line
    # Our clock began with our machine's start: the other's may have begun before, and no line is negative.
    values[-1] = b"%d" % max(0, int(values[-1][:_MOST_DIGITS]) - ahead_us)
    return b" ".join((kind, *values)) + b"\n"


def read_run(files: Iterable[tuple[str, bytes | BinaryIO]]) -> RunLog:
    """The client logs of one run, each with its name for what is said of it; of a stream no more than a line
    is held at a time.

    Raises UsageError naming file and line for what no client log has.
    """
    reading = _Reading()
    for name, content in files:
        reading.read(name, content)
    clients = {number: reading.attempts(client) for number, client in sorted(reading.clients.items())}
    seen = {
        node: {client: spans_of(pairs) for client, pairs in rows.items()}
        for node, rows in reading.seen.items()
    }
    return RunLog(reading.run or 0, clients, seen, reading.was_reset)
