"""The process that holds packets: one kernel queue (NFQUEUE) a peer, each packet let go at its due time.

Law: packets of a peer leave in the order in which they came; none is dropped here; a delay that falls
lets go at once what is then overdue; a delay that rises holds only later packets. The agent talks to
this process in JSON datagrams on its standard input (a socket); when that ends, all is let go.
Raw netlink instead of a binding: a verdict for many packets is one call, and packets are not copied.
"""

from __future__ import annotations

import contextlib
import gc
import json
import select
import socket
import struct
import sys
import time
from collections import deque
from typing import Any

NETLINK_NETFILTER = 12
SOL_NETLINK = 270
NETLINK_NO_ENOBUFS = 5
SO_RCVBUFFORCE = 33
MSG_PACKET, MSG_VERDICT_BATCH, MSG_CONFIG = 0x300, 0x303, 0x302
NLMSG_ERROR = 2
FLAG_REQUEST, FLAG_ACK = 1, 4
ATTR_CFG_CMD, ATTR_CFG_PARAMS, ATTR_CFG_MAXLEN, ATTR_CFG_MASK, ATTR_CFG_FLAGS = 1, 2, 3, 4, 5
ATTR_VERDICT_HEADER, ATTR_TIMESTAMP = 2, 4
_TIMESTAMP = struct.Struct(">QQ")
_ATTRIBUTE = struct.Struct("=HH")
COPY_PACKET = 2
KEEP_SUPER_PACKETS = 4
"""NFQA_CFG_F_GSO: take a 64 kB segment as one packet; else the kernel cuts it up before it queues it."""
NF_ACCEPT = 1
HEADER_BYTES = 20
"""Of each packet only the IPv4 header is copied: to count packets that are not the peer's."""
FIRST_ATTRIBUTE = 20
LONGEST_INTAKE_NS = 20_000_000
"""A receive stamp older than this comes from a clock that was set, not from a packet that waited."""
LONGEST_QUEUE = 100_000
"""Packets that one peer's queue holds; the kernel drops, and counts, what comes beyond."""
RECEIVE_BUFFER_BYTES = 32 << 20
LATEST_WAKE_NS = 100_000
"""A bound for the learned lateness of the timer: what is beyond is the machine's load."""
EARLY_NS = 30_000
"""What is due so soon goes now: another wake would cost more CPU than the truth is worth here."""


class Held:
    """The packets of one peer that wait for their due time, oldest first; times in ns."""

    def __init__(self) -> None:
        self._packets: deque[tuple[int, int, int]] = deque()
        self._hold_ns = 0

    def __len__(self) -> int:
        """How many packets wait."""
        return len(self._packets)

    def came(self, packet_id: int, now_ns: int) -> None:
        """A packet came: hold it."""
        self._packets.append((now_ns + self._hold_ns, now_ns, packet_id))

    def set_hold(self, hold_ns: int) -> None:
        """How long packets are held from now on; falling, it holds for those that wait as well."""
        if hold_ns < self._hold_ns:
            self._packets = deque(
                (min(due_ns, came_ns + hold_ns), came_ns, packet_id)
                for due_ns, came_ns, packet_id in self._packets
            )
        self._hold_ns = hold_ns

    def next_due_ns(self) -> int | None:
        """When the oldest packet may go; None when none waits."""
        return self._packets[0][0] if self._packets else None

    def release(self, now_ns: int) -> tuple[int, int]:
        """Let go what is due: how many, and the id of the last of them."""
        packets, count, last_id = self._packets, 0, 0
        while packets and packets[0][0] <= now_ns:
            last_id = packets.popleft()[2]
            count += 1
        return count, last_id


def _attribute(kind: int, payload: bytes) -> bytes:
    padding = -len(payload) % 4
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(padding)


def _message(kind: int, flags: int, queue: int, attributes: bytes) -> bytes:
    return (
        struct.pack("=IHHIIBBH", 20 + len(attributes), kind, flags, 0, 0, 0, 0, socket.htons(queue))
        + attributes
    )


def config_messages(queue: int) -> list[bytes]:
    """Netlink messages that bind a queue and size it, in order."""
    bind = _attribute(ATTR_CFG_CMD, struct.pack(">BBH", 1, 0, socket.AF_INET))
    params = (
        _attribute(ATTR_CFG_PARAMS, struct.pack(">IB", HEADER_BYTES, COPY_PACKET))
        + _attribute(ATTR_CFG_MAXLEN, struct.pack(">I", LONGEST_QUEUE))
        + _attribute(ATTR_CFG_FLAGS, struct.pack(">I", KEEP_SUPER_PACKETS))
        + _attribute(ATTR_CFG_MASK, struct.pack(">I", KEEP_SUPER_PACKETS))
    )
    return [_message(MSG_CONFIG, FLAG_REQUEST | FLAG_ACK, queue, part) for part in (bind, params)]


def accept_message(queue: int, last_id: int) -> bytes:
    """The netlink message that lets go every held packet up to and with this one."""
    verdict = _attribute(ATTR_VERDICT_HEADER, struct.pack(">II", NF_ACCEPT, last_id))
    return _message(MSG_VERDICT_BATCH, FLAG_REQUEST, queue, verdict)


class PeerQueue:
    """One kernel queue: the packets from one peer's address."""

    def __init__(self, queue: int, address: str) -> None:
        self.queue = queue
        self._address = socket.inet_aton(address)
        self._held = Held()
        self._buffer = bytearray(1 << 16)
        self._accept = bytearray(accept_message(queue, 0))
        self._stamp_at = FIRST_ATTRIBUTE
        self.packets = 0
        self.strangers = 0
        self._sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        try:
            self._open()
        except OSError:
            self._sock.close()
            raise

    def _open(self) -> None:
        self._sock.bind((0, 0))
        self._sock.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)
        with contextlib.suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        self._sock.settimeout(1.0)
        for message in config_messages(self.queue):
            self._sock.send(message)
            while (error := self._read_one()) is None:
                pass  # a packet of a rule that was left from before
            if error:
                raise OSError(-error, f"queue {self.queue} cannot be bound")
        self._sock.setblocking(False)

    def fileno(self) -> int:
        """For select."""
        return self._sock.fileno()

    def _read_one(self) -> int | None:
        """Read one message: None for a packet, else the answer to a configuration (0 or -errno)."""
        size = self._sock.recv_into(self._buffer)
        kind: int
        (kind,) = struct.unpack_from("=H", self._buffer, 4)
        if kind == NLMSG_ERROR:
            code: int = struct.unpack_from("=i", self._buffer, 16)[0]
            return code
        if kind == MSG_PACKET:
            self._held.came(int.from_bytes(self._buffer[24:28], "big"), self._came_ns(size))
            self.packets += 1
            if self._buffer[size - 8 : size - 4] != self._address:
                self.strangers += 1
        return None

    def _came_ns(self, size: int) -> int:
        """When the packet in the buffer came: by the kernel's stamp where there is one, so that it does
        not matter how late we read it; on the monotonic clock."""
        now_ns = time.monotonic_ns()
        at = self._stamp_at
        if _ATTRIBUTE.unpack_from(self._buffer, at) != (20, ATTR_TIMESTAMP):
            at = FIRST_ATTRIBUTE
            while at < size - 20:
                length, kind = _ATTRIBUTE.unpack_from(self._buffer, at)
                if (length, kind) == (20, ATTR_TIMESTAMP):
                    self._stamp_at = at
                    break
                at += max(4, (length + 3) & ~3)
            else:
                return now_ns
        seconds, microseconds = _TIMESTAMP.unpack_from(self._buffer, at + 4)
        waited_ns = time.time_ns() - (seconds * 1_000_000 + microseconds) * 1000
        return now_ns - waited_ns if 0 <= waited_ns <= LONGEST_INTAKE_NS else now_ns

    def take_in(self) -> None:
        """Take all packets that the kernel has queued for us."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._read_one()

    def let_go(self, now_ns: int) -> None:
        """Give the kernel back what is due."""
        count, last_id = self._held.release(now_ns)
        if count:
            struct.pack_into(">I", self._accept, 28, last_id)
            self._sock.send(self._accept)

    def next_due_ns(self) -> int | None:
        """When the oldest held packet is due."""
        return self._held.next_due_ns()

    def set_hold(self, hold_ns: int) -> None:
        """How long packets are held."""
        self._held.set_hold(hold_ns)
        self.let_go(time.monotonic_ns())

    def stats(self) -> dict[str, int]:
        """Counts since the queue was opened."""
        return {"packets": self.packets, "strangers": self.strangers, "held": len(self._held)}

    def close(self) -> None:
        """Let everything go in order and unbind."""
        with contextlib.suppress(OSError):
            self.take_in()
            self.set_hold(0)
        self._sock.close()


def kernel_drops() -> dict[int, int]:
    """Dropped packets by queue, as the kernel counts them: queue full, or our socket full."""
    drops = {}
    with contextlib.suppress(OSError), open("/proc/net/netfilter/nfnetlink_queue", encoding="ascii") as table:
        for line in table:
            fields = [int(field) for field in line.split()]
            drops[fields[0]] = fields[5] + fields[6]
    return drops


class DelayLoop:
    """The loop over all queues and the agent's commands."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._queues: dict[int, PeerQueue] = {}
        self._late_ns = 50_000
        self.wakes = 0

    def run(self) -> None:
        """Hold and let go until the agent ends."""
        while True:
            due = [due_ns for queue in self._queues.values() if (due_ns := queue.next_due_ns()) is not None]
            wake_ns = min(due) - self._late_ns if due else None
            timeout_s = None if wake_ns is None else max(0.0, (wake_ns - time.monotonic_ns()) / 1e9)
            sources: list[Any] = [self._control, *self._queues.values()]
            readable = select.select(sources, [], [], timeout_s)[0]
            self.wakes += 1
            if wake_ns is not None and timeout_s and not readable:
                self._learn_lateness(time.monotonic_ns() - wake_ns)
            for ready in readable:
                if isinstance(ready, PeerQueue):
                    ready.take_in()
                elif not self._obey():
                    break
            else:
                self._let_go()
                continue
            break
        for queue in self._queues.values():
            queue.close()

    def _learn_lateness(self, late_ns: int) -> None:
        """The timer wakes us late, by an amount that varies: set it earlier by the mean."""
        self._late_ns += (min(max(0, late_ns), LATEST_WAKE_NS) - self._late_ns) // 8

    def _let_go(self) -> None:
        for queue in self._queues.values():
            if queue.next_due_ns() is not None:
                queue.let_go(time.monotonic_ns() + EARLY_NS)

    def _obey(self) -> bool:
        """Carry out one command; False when the agent has gone."""
        datagram = self._control.recv(65536)
        if not datagram:
            return False
        command: dict[str, Any] = json.loads(datagram)
        try:
            answer = self._carry_out(command)
        except OSError as error:
            answer = {"error": error.strerror or str(error)}
        self._control.send(json.dumps(answer).encode())
        return True

    def _carry_out(self, command: dict[str, Any]) -> dict[str, Any]:
        number = command.get("queue", 0)
        if command["op"] == "hold":
            queue = self._queues.get(number) or PeerQueue(number, command["address"])
            self._queues[number] = queue
            queue.set_hold(command["hold_ns"])
        elif command["op"] == "close" and number in self._queues:
            self._queues.pop(number).close()
        drops = kernel_drops()
        return {
            "queues": {n: {**q.stats(), "dropped": drops.get(n, 0)} for n, q in self._queues.items()},
            "cpu_s": time.process_time(),
            "wakes": self.wakes,
            "timer_late_us": self._late_ns / 1000,
        }


def main() -> None:
    """Run on the socket that is our standard input."""
    with contextlib.suppress(OSError), open("/proc/self/timerslack_ns", "w", encoding="ascii") as slack:
        slack.write("1")
    gc.freeze()
    gc.disable()  # nothing here makes cycles, and a collection would delay packets
    DelayLoop(socket.socket(fileno=sys.stdin.fileno())).run()


if __name__ == "__main__":
    main()
