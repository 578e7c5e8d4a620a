"""Shaping by our own process: an iptables rule by the peer's address, a kernel queue, a due time a packet.

What is delayed is what comes *from* the peer. Packets held on their way out still count against their
socket, and TCP then sends no more than about two at a time (small queues, tcp_output.c): measured at
85 ms and 50 messages a second, the median answer took 114 ms, at 500 a second a whole second. Received
packets belong to no socket. Netem disowns what it holds, so it may delay what is sent (sch_netem.c).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tool import Refused, must

from replexplorer.core.wire import Shape

TABLES = ("iptables-nft", "iptables-legacy", "iptables")
"""In this order: the legacy binary opens a raw socket, which needs NET_RAW; the nft one does not."""
FIRST_QUEUE = 4700
QUEUES = 64
PROBE_ADDRESS = "127.77.0.2"
PLAIN = Shape()
PROGRAM = Path(__file__).with_name("delayqueue")
RESTART_S = 0.03
"""Between the end of the queue process and the next one."""
ASKED_AGAIN = 5
"""How often a question is put to the next process when the one that was asked ended."""

OP_SHAPE, OP_CLOSE, OP_STATS = 1, 2, 3
_ASK = struct.Struct("=III4sQQdQII")
"""`struct ask` of delayqueue.c in native byte order: serial, op, queue, address, hold and jitter in ns,
loss as a share, bandwidth in bit/s, cut, a number without use."""
_ANSWER = struct.Struct("=Ii11Q")
"""`struct answer` of delayqueue.c in native byte order."""


class Answer(NamedTuple):
    """What the queue process says about the queue that was asked about, and about itself."""

    serial: int
    error: int
    packets: int
    """Of the queue; its figures are 0 when it is not bound."""
    strangers: int
    """Packets that are not from the peer's address."""
    lost: int
    """Dropped because a loss or a cut was asked for."""
    dropped: int
    """Dropped though nobody asked for it."""
    held: int
    cpu_ns: int
    """Of the process, since it started, as all that follows."""
    wakes: int
    all_packets: int
    timer_late_ns: int
    """How much earlier than due the timer is set, as learned."""
    error_p99_ns: int
    """Between due time and release, early or late; of the last 200 packets or 10 s at least."""
    error_packets: int
    """How many packets that is of."""


def ask_message(
    serial: int, op: int, queue: int, address: str = PROBE_ADDRESS, shape: Shape = PLAIN
) -> bytes:
    """A question to the queue process; address and shape are for OP_SHAPE."""
    return _ASK.pack(
        serial,
        op,
        queue,
        socket.inet_aton(address),
        shape.delay_us * 1000,
        shape.jitter_us * 1000,
        shape.loss_percent / 100,
        shape.bandwidth_bps,
        shape.cut,
        0,
    )


class _Ended(Refused):
    """The queue process ended before it answered."""


class QueueProcess:
    """The process that holds packets; started again when it dies, with the shapes it had before."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._sock: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._guard: asyncio.Task[None] | None = None
        self._shapes: dict[int, tuple[str, Shape]] = {}
        self._serial = 0

    async def start(self) -> None:
        """Start it and keep it alive."""
        await self._spawn()
        self._guard = asyncio.create_task(self._keep_alive())

    async def _spawn(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = await asyncio.create_subprocess_exec(str(PROGRAM), stdin=theirs.fileno())
        except OSError as error:
            ours.close()
            raise Refused(f"the queue process does not start: {error.strerror}") from error
        ours.setblocking(False)
        self._sock = ours

    async def _keep_alive(self) -> None:
        while self._process is not None:
            await self._process.wait()
            async with self._lock:
                if self._sock is not None:
                    self._sock.close()
                    self._sock = None
                await asyncio.sleep(RESTART_S)
                try:
                    await self._spawn()
                    for queue, (address, shape) in self._shapes.items():
                        await self._ask(OP_SHAPE, queue, address, shape)
                except Refused as refusal:  # mostly it has ended again, and is started again
                    sys.stderr.write(f"agent: {refusal}\n")

    async def _ask(self, op: int, queue: int, *wish: Any) -> Answer:
        """Ask the process that runs; raise _Ended when there is none, Refused when it refuses."""
        if self._sock is None:
            raise _Ended("the queue process does not run")
        self._serial += 1
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(2.0):
                await loop.sock_sendall(self._sock, ask_message(self._serial, op, queue, *wish))
                while text := await loop.sock_recv(self._sock, _ANSWER.size):
                    answer = Answer._make(_ANSWER.unpack(text))
                    if answer.serial == self._serial:  # else it is late, and whoever asked has given up
                        break
        except TimeoutError as error:
            raise Refused("the queue process does not answer") from error
        except OSError as error:
            raise _Ended("the queue process ended") from error
        if not text:
            raise _Ended("the queue process ended")
        if answer.error:
            raise Refused(f"NFQUEUE: queue {queue} cannot be bound: {os.strerror(answer.error)}")
        return answer

    async def _persist(self, op: int, queue: int, *wish: Any) -> Answer:
        """Ask; the next process when the one that runs ends meanwhile."""
        for _ in range(ASKED_AGAIN):
            async with self._lock:
                with contextlib.suppress(_Ended):
                    return await self._ask(op, queue, *wish)
            await asyncio.sleep(RESTART_S)
        async with self._lock:
            return await self._ask(op, queue, *wish)

    async def shape(self, queue: int, address: str, shape: Shape) -> None:
        """Bind the queue if it is not, and shape its packets so."""
        before = self._shapes.get(queue)
        self._shapes[queue] = (address, shape)
        try:
            await self._persist(OP_SHAPE, queue, address, shape)
        except Refused:
            if before is None:
                del self._shapes[queue]
            raise

    async def let_go(self, queue: int) -> None:
        """Let all of a queue go and unbind it; its counters start again at 0."""
        self._shapes.pop(queue, None)
        await self._persist(OP_CLOSE, queue)

    async def stats(self, queue: int = 0) -> Answer:
        """What it says of itself, and of a queue since this process bound it."""
        return await self._persist(OP_STATS, queue)

    async def close(self) -> None:
        """End it; it lets everything go first."""
        if self._guard is not None:
            self._guard.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._guard
        if self._sock is not None:
            self._sock.close()
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._process.wait()


def rule(address: str, queue: int) -> list[str]:
    """The rule that sends what comes from an address into a queue; passed when nobody reads the queue."""
    return ["INPUT", "-s", f"{address}/32", "-j", "NFQUEUE", "--queue-num", str(queue), "--queue-bypass"]


class Nfqueue:
    """Packets go to our own process by an iptables rule and come back when they are due."""

    name = "nfqueue"
    holds: Literal["sent", "received"] = "received"

    def __init__(self, table: str, reason: str) -> None:
        self.reason = reason
        self._table = (
            [table, "-t", "mangle"] if table == "iptables-nft" else [table, "-w", "2", "-t", "mangle"]
        )
        self._process = QueueProcess()
        self._queues: dict[str, int] = {}
        self._ruled: set[str] = set()

    @classmethod
    async def open(cls, reason: str) -> Nfqueue:
        """Find a binary that works, take away the rules of an agent before us, start the process. Raise
        Refused when none works."""
        refusals = []
        for table in TABLES:
            backend = cls(table, reason)
            try:
                await must([*backend._table, "-F", "INPUT"])
                probe = rule(PROBE_ADDRESS, FIRST_QUEUE + QUEUES)
                await must([*backend._table, "-A", *probe])
                await must([*backend._table, "-D", *probe])
            except Refused as refusal:
                refusals.append(str(refusal))
                continue
            await backend._process.start()
            return backend
        raise Refused(refusals[0])

    def _queue(self, address: str) -> int:
        if address not in self._queues:
            free = set(range(FIRST_QUEUE, FIRST_QUEUE + QUEUES)) - set(self._queues.values())
            if not free:
                raise Refused(f"more than {QUEUES} peers")
            self._queues[address] = min(free)
        return self._queues[address]

    async def shape(self, address: str, shape: Shape | None) -> None:
        """Rule and queue for an address; the queue is bound before the rule and outlives it.

        None, or a shape that does nothing, takes both away. Raise Refused.
        """
        if shape is not None and not shape.is_plain:
            queue = self._queue(address)
            await self._process.shape(queue, address, shape)
            if address not in self._ruled:
                await must([*self._table, "-A", *rule(address, queue)])
                self._ruled.add(address)
        elif address in self._queues:
            queue = self._queues[address]
            await self._process.shape(queue, address, PLAIN)
            await self._unrule(address)
            await self._process.let_go(queue)
            del self._queues[address]

    async def _unrule(self, address: str) -> None:
        if address in self._ruled:
            await must([*self._table, "-D", *rule(address, self._queues[address])])
            self._ruled.discard(address)

    async def stats(self, address: str) -> dict[str, int]:
        """Counts since the process that runs has the address's queue: `packets`, `strangers` (from another
        address), `lost` (as asked), `dropped` (by us, unasked); and `held`, which wait now. Raise Refused."""
        if address not in self._queues:
            return {}
        found = await self._process.stats(self._queues[address])
        return {name: getattr(found, name) for name in ("packets", "strangers", "lost", "dropped", "held")}

    async def close(self) -> None:
        """Let all packets go and take all rules away."""
        for address in list(self._queues):
            try:
                await self.shape(address, None)
            except Refused:  # the process is past saving; without the rule no packet waits for it
                with contextlib.suppress(Refused):
                    await self._unrule(address)
        await self._process.close()
