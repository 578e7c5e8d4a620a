"""The UDP probe: its wire format, and the window of round trips since the last change of a link.

Law: an answer counts for the link as it is now, or not at all: its probe must have been sent after the
last change here, and after we learned of the last change there, whose number every answer carries.
Round trips are what a process sees, wakes included; only what the peer's agent spent on its answer is
taken off.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import struct
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

PORT = 47017
"""UDP, on the node's own address; not published."""
LAYOUT = struct.Struct("!4sBxxxIQqqQI")
_MAGIC = b"RXP1"
_ASKS, _ANSWERS = 0, 1
_SO_TIMESTAMPNS = 35
WINDOW = 5
"""Answered probes that the measured figure is the median of."""
KEPT_S = 60.0
"""How long an unanswered probe is remembered: a late answer takes it off the lost ones."""
BARE_SAMPLES = 10
IDLE_INTERVAL_S, SETTLING_INTERVAL_S = 0.5, 0.1


@dataclass(frozen=True)
class Echo:
    """A peer's answer."""

    number: int
    address: str
    rtt_ms: float
    peer_generation: int
    """Which change of the peer's rules towards us was the last when it answered."""
    peer_delay_ms: float
    """What the peer's agent holds packets to us for."""


def stamped_socket(address: str, port: int) -> socket.socket:
    """A UDP socket for probes. The option makes the kernel stamp every packet when it comes, which the
    queue process relies on; the stamp itself is of no use here, for a held packet's is from before."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.bind((address, port))
    sock.setblocking(False)
    return sock


class Packet(NamedTuple):
    """A probe, or its answer, which has all of the probe."""

    asks: bool
    number: int
    instance: int
    """Of the socket that asked."""
    sent_ns: int
    spent_ns: int
    """From the arrival of the probe until its answer."""
    generation: int
    delay_us: int
    sender: tuple[str, int]
    arrived_ns: int
    """When we got it, since 1970."""


class Socket:
    """The one UDP socket that probes and answers probes."""

    def __init__(self, port: int = PORT) -> None:
        self._sock = stamped_socket("0.0.0.0", port)  # noqa: S104 - a container's own network
        self._port = port
        self._instance = int.from_bytes(os.urandom(8), "big")

    def fileno(self) -> int:
        """For the event loop."""
        return self._sock.fileno()

    def ask(self, number: int, address: str) -> None:
        """Send a probe; one that cannot be sent is a lost one."""
        self._send((address, self._port), _ASKS, number, self._instance, time.time_ns(), 0, 0, 0)

    def _send(self, receiver: tuple[str, int], *figures: int) -> None:
        with contextlib.suppress(OSError):
            self._sock.sendto(LAYOUT.pack(_MAGIC, *figures), receiver)

    def received(self) -> Iterator[Packet]:
        """The probes and answers that wait."""
        while True:
            try:
                text, sender = self._sock.recvfrom(256)
            except OSError:
                return
            if len(text) == LAYOUT.size and text.startswith(_MAGIC):
                arrived_ns = time.time_ns()
                _, kind, *figures = LAYOUT.unpack(text)
                yield Packet._make((kind == _ASKS, *figures, sender, arrived_ns))

    def answer(self, probe: Packet, *, generation: int, delay_ms: float) -> None:
        """Echo a probe."""
        spent_ns = max(0, time.time_ns() - probe.arrived_ns)
        asked = (probe.number, probe.instance, probe.sent_ns)
        self._send(probe.sender, _ANSWERS, *asked, spent_ns, generation, round(delay_ms * 1000))

    def echo(self, answer: Packet) -> Echo | None:
        """Read an answer; None when it is none to our probes."""
        if answer.instance != self._instance:
            return None
        rtt_ms = (answer.arrived_ns - answer.sent_ns - answer.spent_ns) / 1e6
        return Echo(answer.number, answer.sender[0], rtt_ms, answer.generation, answer.delay_us / 1000)

    def close(self) -> None:
        """Stop answering."""
        self._sock.close()


@dataclass
class Window:
    """The probes of one link since its last change; times are seconds on the monotonic clock."""

    base_ms: float | None = None
    """Round trip of the path without delays; None until known."""
    peer_generation: int = 0
    peer_delay_ms: float = 0.0
    answered: int = 0
    settling_until_s: float = 0.0
    _number: int = 0
    _pending: dict[int, float] = field(default_factory=dict)
    """When each unanswered probe was sent, by number."""
    _given_up: int = 0
    """Unanswered for so long that they are forgotten."""
    _recent_ms: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _bare_ms: deque[float] = field(default_factory=lambda: deque(maxlen=BARE_SAMPLES))

    def expected_ms(self, own_delay_ms: float) -> float:
        """The round trip that the rules of both sides should give."""
        return (self.base_ms or 0.0) + own_delay_ms + self.peer_delay_ms

    def deadline_s(self, own_delay_ms: float) -> float:
        """The age at which an unanswered probe counts as lost."""
        return 1.0 + 2 * self.expected_ms(own_delay_ms) / 1000

    def restart(self, now_s: float, own_delay_ms: float) -> None:
        """A rule changed: forget what was measured; probes under way no longer count."""
        self._pending.clear()
        self._recent_ms.clear()
        self.answered = self._given_up = 0
        self.settling_until_s = now_s + 2.0 + self.deadline_s(own_delay_ms)

    def send(self, now_s: float) -> int:
        """A probe goes out now: its number."""
        self._number = (self._number + 1) & 0xFFFFFFFF
        self._pending[self._number] = now_s
        for number, sent_s in [*self._pending.items()]:
            if now_s - sent_s > KEPT_S:
                del self._pending[number]
                self._given_up += 1
        return self._number

    def lost(self, now_s: float, own_delay_ms: float) -> int:
        """How many probes are overdue; a rise of the peer's that we know nothing of yet makes some of them
        late, not lost: their answers take them off again."""
        deadline_s = self.deadline_s(own_delay_ms)
        return self._given_up + sum(now_s - sent_s > deadline_s for sent_s in self._pending.values())

    def take(self, echo: Echo, now_s: float, own_delay_ms: float) -> bool:
        """Take an answer in; False when it does not count for the link as it is now."""
        if echo.peer_generation > self.peer_generation:
            changed = self.peer_generation != 0
            self.peer_generation, self.peer_delay_ms = echo.peer_generation, echo.peer_delay_ms
            if changed:
                # This probe, and those under way, may have been held by the rule from before.
                self.restart(now_s, own_delay_ms)
                return False
        elif echo.peer_generation < self.peer_generation:
            return False
        if self._pending.pop(echo.number, None) is None:
            return False
        self.answered += 1
        self._recent_ms.append(echo.rtt_ms)
        self._learn_base(echo.rtt_ms, own_delay_ms)
        return True

    def _learn_base(self, rtt_ms: float, own_delay_ms: float) -> None:
        delays_ms = own_delay_ms + self.peer_delay_ms
        if delays_ms == 0:
            # The least: what else runs on the machine (servers that start) only adds to the path.
            self._bare_ms.append(rtt_ms)
            self.base_ms = min(self._bare_ms)
        elif self.base_ms is None and len(self._recent_ms) == WINDOW:
            # Delays were in force before the first probe: the rest is the best that can be known.
            self.base_ms = max(0.0, statistics.median(self._recent_ms) - delays_ms)

    def measured_ms(self) -> float | None:
        """The median of the last answered probes; None when none answered."""
        return statistics.median(self._recent_ms) if self._recent_ms else None

    def interval_s(self, now_s: float) -> float:
        """How long to wait until the next probe."""
        settled = self.answered >= WINDOW or now_s >= self.settling_until_s
        return IDLE_INTERVAL_S if settled else SETTLING_INTERVAL_S
