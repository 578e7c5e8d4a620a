"""Delay by our own process: an iptables rule by the peer's address, a kernel queue, a due time a packet.

What is delayed is what comes *from* the peer. Packets held on their way out still count against their
socket, and TCP then sends no more than about two at a time (small queues, tcp_output.c): measured at
85 ms and 50 messages a second, the median answer took 114 ms, at 500 a second a whole second. Received
packets belong to no socket. Netem disowns what it holds, so it may delay what is sent (sch_netem.c).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

from tool import Refused, must

TABLES = ("iptables-nft", "iptables-legacy", "iptables")
"""In this order: the legacy binary opens a raw socket, which needs NET_RAW; the nft one does not."""
FIRST_QUEUE = 4700
QUEUES = 64
PROBE_ADDRESS = "127.77.0.2"


class QueueProcess:
    """The process that holds packets; started again when it dies, with what it held before."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._sock: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._guard: asyncio.Task[None] | None = None
        self._holds: dict[int, tuple[str, int]] = {}
        self.restarts = 0

    async def start(self) -> None:
        """Start it and keep it alive."""
        await self._spawn()
        self._guard = asyncio.create_task(self._keep_alive())

    async def _spawn(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                str(Path(__file__).with_name("delayqueue.py")),
                stdin=theirs.fileno(),
            )
        ours.setblocking(False)
        self._sock = ours

    async def _keep_alive(self) -> None:
        while self._process is not None:
            await self._process.wait()
            async with self._lock:
                if self._sock is not None:
                    self._sock.close()
                await asyncio.sleep(0.05)
                await self._spawn()
                self.restarts += 1
                for queue, (address, hold_us) in self._holds.items():
                    await self._ask(
                        {"op": "hold", "queue": queue, "address": address, "hold_ns": hold_us * 1000}
                    )

    async def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        if self._sock is None:
            raise Refused("the queue process does not run")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(2.0):
                await loop.sock_sendall(self._sock, json.dumps(command).encode())
                answer = await loop.sock_recv(self._sock, 1 << 16)
        except (OSError, TimeoutError) as error:
            raise Refused("the queue process does not answer") from error
        if not answer:
            raise Refused("the queue process ended")
        parsed: dict[str, Any] = json.loads(answer)
        if "error" in parsed:
            raise Refused(f"NFQUEUE: {parsed['error']}")
        return parsed

    async def hold(self, queue: int, address: str, hold_us: int) -> None:
        """Bind the queue if it is not, and hold its packets for so long."""
        async with self._lock:
            self._holds[queue] = (address, hold_us)
            await self._ask({"op": "hold", "queue": queue, "address": address, "hold_ns": hold_us * 1000})

    async def let_go(self, queue: int) -> None:
        """Let all of a queue go and unbind it."""
        async with self._lock:
            self._holds.pop(queue, None)
            await self._ask({"op": "close", "queue": queue})

    async def stats(self) -> dict[str, Any]:
        """Its counters."""
        async with self._lock:
            return await self._ask({"op": "stats"})

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


def our_rules(listing: str) -> list[tuple[str, int]]:
    """Address and queue of each rule of ours in what `iptables -t mangle -S INPUT` prints."""
    found = re.findall(r"^-A INPUT -s ([\d.]+)/32 -j NFQUEUE --queue-num (\d+) --queue-bypass", listing, re.M)
    return [
        (address, int(queue)) for address, queue in found if FIRST_QUEUE <= int(queue) < FIRST_QUEUE + QUEUES
    ]


class Nfqueue:
    """Packets go to our own process by an iptables rule and come back when they are due."""

    name = "nfqueue"
    delays = "received"

    def __init__(self, table: str, reason: str) -> None:
        self.reason = reason
        self._table = (
            [table, "-t", "mangle"] if table == "iptables-nft" else [table, "-w", "2", "-t", "mangle"]
        )
        self._process = QueueProcess()
        self._queues: dict[str, int] = {}
        self._ruled: set[str] = set()
        self._past: dict[str, dict[str, int]] = {}

    @classmethod
    async def open(cls, reason: str) -> tuple[Nfqueue, list[str]]:
        """Find a binary that works, clear what an agent before us left, start the process.

        Answers the addresses for which rules were left as well. Raise Refused when none works.
        """
        refusals = []
        for table in TABLES:
            backend = cls(table, reason)
            try:
                listing = await must([*backend._table, "-S", "INPUT"])
                probe = rule(PROBE_ADDRESS, FIRST_QUEUE + QUEUES)
                await must([*backend._table, "-A", *probe])
                await must([*backend._table, "-D", *probe])
            except Refused as refusal:
                refusals.append(str(refusal))
                continue
            for address, queue in our_rules(listing):
                await must([*backend._table, "-D", *rule(address, queue)])
            await backend._process.start()
            return backend, [address for address, _ in our_rules(listing)]
        raise Refused(refusals[0])

    def _queue(self, address: str) -> int:
        if address not in self._queues:
            free = set(range(FIRST_QUEUE, FIRST_QUEUE + QUEUES)) - set(self._queues.values())
            if not free:
                raise Refused(f"more than {QUEUES} peers")
            self._queues[address] = min(free)
        return self._queues[address]

    async def hold(self, address: str, hold_us: int | None) -> None:
        """Rule and queue for an address; the queue is bound before the rule and outlives it."""
        if hold_us is not None:
            queue = self._queue(address)
            await self._process.hold(queue, address, hold_us)
            if address not in self._ruled:
                await must([*self._table, "-A", *rule(address, queue)])
                self._ruled.add(address)
        elif address in self._queues:
            queue = self._queues[address]
            await self._process.hold(queue, address, 0)
            if address in self._ruled:
                await must([*self._table, "-D", *rule(address, queue)])
                self._ruled.discard(address)
            self._past[address] = await self.stats(address)
            await self._process.let_go(queue)
            del self._queues[address]

    async def stats(self, address: str) -> dict[str, int]:
        """Counts since the agent started."""
        past = self._past.get(address, {})
        now: dict[str, int] = {}
        if address in self._queues:
            now = (await self._process.stats())["queues"].get(str(self._queues[address]), {})
        total = {name: past.get(name, 0) + now.get(name, 0) for name in ("packets", "strangers", "dropped")}
        return {**total, "held": now.get("held", 0)}

    async def health(self) -> dict[str, Any]:
        """CPU seconds of the queue process, how late its timer is, how often it had to be restarted."""
        stats = await self._process.stats()
        return {
            "queue_cpu_s": stats["cpu_s"],
            "timer_late_us": stats["timer_late_us"],
            "queue_restarts": self._process.restarts,
        }

    async def close(self) -> None:
        """Let all packets go and take all rules away."""
        for address in list(self._queues):
            with contextlib.suppress(Refused):
                await self.hold(address, None)
        await self._process.close()
