"""What the packet loop of the NFQUEUE backend costs and how true it is: two containers, one sends datagrams.

`python -m bench.link_loop` prints the figures as JSON; `figures()` answers them. The containers run
the sidecar's image without its agent, so nothing else is in the way.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replexplorer.adapters.docker import images

COMPOSE = Path(__file__).parent.parent / "compose"
PORT = 5600
HOLD_MS = 85.0
PACES_PER_S, MIDDLE_PER_S = (50, 5_000), (20_000,)
TARGET_PER_S = 50_000
FLOODS_PER_S = (TARGET_PER_S, 70_000, 90_000)
SECONDS, ROUNDS = 2.0, 3

SENDER = """
import json, socket, struct, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", PORT))
head = struct.Struct("=Qq")
while True:
    text, peer = sock.recvfrom(2000)
    wish = json.loads(text)
    rate, count, fill = wish["per_s"], wish["packets"], bytes(max(0, wish["bytes"] - head.size))
    sent, pack, send, clock = 0, head.pack, sock.sendto, time.monotonic_ns
    started_ns = clock()
    while sent < count:
        now_ns = clock()
        allowed = min(count, (now_ns - started_ns) * rate // 1_000_000_000 + 1)
        if sent >= allowed:
            time.sleep(max(0.0, (started_ns + sent * 1_000_000_000 // rate - now_ns) / 1e9))
            continue
        for number in range(sent, allowed):
            send(pack(number, clock()) + fill, peer)
        sent = allowed
    took_s = (clock() - started_ns) / 1e9
    time.sleep(wish["quiet_s"])
    for _ in range(3):
        sock.sendto(b"end" + json.dumps({"sent": sent, "per_s": sent / took_s}).encode(), peer)
"""
"""Sends what a datagram asks for, evenly, each packet with its number and the time; then says so."""

RECEIVER = """
import asyncio, json, socket, statistics, struct, sys, time
sys.path.insert(0, "/opt/replexplorer")
import queueing
from replexplorer.core.wire import Shape

HEAD = struct.Struct("=Qq")

def receive(peer, wish, hold_ns):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
    sock.bind(("0.0.0.0", 0))
    sock.settimeout(wish["patience_s"])
    sock.sendto(json.dumps(wish).encode(), (peer, PORT))
    unpack, take, clock, buffer = HEAD.unpack_from, sock.recv_into, time.monotonic_ns, bytearray(2000)
    received = disorder = first_ns = last_ns = 0
    last, errors_us, end = -1, [], None
    while True:
        try:
            size = take(buffer)
        except TimeoutError:
            break
        if buffer[:3] == b"end":
            end = json.loads(bytes(buffer[3:size]))
            break
        last_ns = clock()
        number, sent_ns = unpack(buffer)
        first_ns = first_ns or last_ns
        received += 1
        disorder += number <= last
        last = number
        errors_us.append((last_ns - sent_ns - hold_ns) / 1000)
    errors_us.sort()
    def at(share):
        return round(errors_us[int(share * (received - 1))], 1) if received else None
    return {
        "received": received, "disorder": disorder, "sender": end,
        "arrival_us": {"min": at(0), "p50": at(0.5), "p99": at(0.99), "max": at(1)},
        "arrival_sd_us": round(statistics.pstdev(errors_us), 1) if errors_us else None,
        "took_s": (last_ns - first_ns) / 1e9 if received else None,
    }

async def change(backend, peer, changes):
    for after_s, shape in changes:
        await asyncio.sleep(after_s)
        await backend.shape(peer, Shape(**shape))

async def main(peer, runs):
    figures = []
    for run in runs:
        backend = await queueing.Nfqueue.open("bench")
        shape = Shape(**run["shape"])
        await backend.shape(peer, shape)
        before, counts = await backend._process.stats(), await backend.stats(peer)
        wish = {name: run[name] for name in ("per_s", "packets", "bytes", "quiet_s", "patience_s")}
        changing = asyncio.create_task(change(backend, peer, run["changes"]))
        seen = await asyncio.to_thread(receive, peer, wish, shape.delay_us * 1000)
        await changing
        after, now = await backend._process.stats(), await backend.stats(peer)
        packets = after.all_packets - before.all_packets
        cost_us = (after.cpu_ns - before.cpu_ns) / 1e3
        figures.append({"per_s": run["per_s"], "packets_asked": run["packets"], **seen,
            "cpu_us_per_packet": round(cost_us / packets, 2) if packets else None,
            "delay_error_p99_us": after.error_p99_ns / 1000 if after.error_packets else None,
            "timer_late_us": after.timer_late_ns / 1000,
            **{name: now.get(name, 0) - counts.get(name, 0)
               for name in ("packets", "strangers", "lost", "dropped")}})
        await backend.close()
    print(json.dumps(figures))

asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
"""
"""Shapes what comes from the sender, run by run, and prints what it saw and what the process told."""


@dataclass
class Pair:
    """Two containers on a network of their own; the first sends when it is asked."""

    sender: Any
    receiver: Any

    def address(self) -> str:
        """The sender's."""
        self.sender.reload()
        [network] = self.sender.attrs["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    def run(self, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Carry out runs as `pace` makes them; raises RuntimeError with what the driver said."""
        script = RECEIVER.replace("PORT", str(PORT))
        status, output = self.receiver.exec_run(
            ["python3", "-c", script, self.address(), json.dumps(runs)], demux=True
        )
        out, err = output
        if status != 0:
            raise RuntimeError((err or b"").decode(errors="replace"))
        answer: list[dict[str, Any]] = json.loads(out)
        return answer


@contextlib.contextmanager
def pair() -> Iterator[Pair]:
    """Two containers of the sidecar's image with nothing but the drivers; removed afterwards."""
    import docker

    image = images.ensure([images.SIDECAR], COMPOSE, lambda *_: None)["sidecar"]
    client = docker.from_env(version="auto")
    labels = {"dev.replexplorer.stack": f"bench-link-{os.getpid()}"}
    network = client.networks.create(f"rx-{labels['dev.replexplorer.stack']}", labels=labels)
    containers: list[Any] = []
    try:
        for _ in range(2):
            containers.append(
                client.containers.run(
                    image,
                    detach=True,
                    init=True,
                    entrypoint=["sleep", "infinity"],
                    network=network.name,
                    labels=labels,
                    cap_drop=["ALL"],
                    cap_add=["NET_ADMIN"],
                    security_opt=["no-new-privileges:true"],
                )
            )
        containers[0].exec_run(["python3", "-c", SENDER.replace("PORT", str(PORT))], detach=True)
        yield Pair(*containers)
    finally:
        for container in containers:
            container.remove(force=True, v=True)
        network.remove()
        client.close()


def pace(
    per_s: int, seconds: float, *, size: int = 16, changes: list[Any] | None = None, **shape: Any
) -> dict[str, Any]:
    """One run with a queue process of its own: so many datagrams a second, of so many bytes, under a shape.

    `changes` are pairs of seconds to wait and the fields of the next shape. The sender says that it is at
    its end when the hold is over; the receiver waits for that a second longer than it should take.
    """
    wish = {"delay_ms": HOLD_MS, **shape}
    quiet_s = 0.3 + wish["delay_ms"] / 1e3
    return {
        "per_s": per_s,
        "packets": max(1, round(per_s * seconds)),
        "bytes": size,
        "quiet_s": quiet_s,
        "patience_s": seconds + quiet_s + 1.0,
        "shape": wish,
        "changes": changes or [],
    }


def figures(seconds: float = SECONDS, rounds: int = ROUNDS) -> dict[str, Any]:
    """CPU a packet and the delay's error by packets a second, and the highest rate without a drop.

    Medians over the rounds. `cpu_us_per_packet` is that of TARGET_PER_S; a packet costs more the fewer
    there are, for what is dear is to be woken: `cpu_us_by_rate`. The highest rate is one at which every
    round was sent and received whole.
    """
    rates = (*PACES_PER_S, *MIDDLE_PER_S, *FLOODS_PER_S)
    with pair() as both:
        runs = [run for _ in range(rounds) for run in both.run([pace(rate, seconds) for rate in rates])]
    of_rate = {rate: [run for run in runs if run["per_s"] == rate] for rate in rates}
    clean_per_s = [
        min(run["sender"]["per_s"] for run in of_rate[rate])
        for rate in rates
        if all(
            run["received"] == run["packets_asked"] and not run["dropped"] and not run["disorder"]
            for run in of_rate[rate]
        )
    ]

    def medians(read: Callable[[dict[str, Any]], float]) -> dict[str, float]:
        return {str(rate): statistics.median(map(read, of_rate[rate])) for rate in rates}

    cpu_us = medians(lambda run: run["cpu_us_per_packet"])
    return {
        "hold_ms": HOLD_MS,
        "cpu_us_per_packet": cpu_us[str(TARGET_PER_S)],
        "cpu_us_by_rate": cpu_us,
        "packets_per_s_without_drops": round(max(clean_per_s, default=0)),
        "delay_error_p99_us": medians(lambda run: run["delay_error_p99_us"]),
        "arrival_error_p50_us": medians(lambda run: run["arrival_us"]["p50"]),
        "strangers": sum(run["strangers"] for run in runs),
        "runs": runs,
    }


def main() -> None:
    """Print the figures as JSON; arguments are the seconds of a run and the number of rounds."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    print(json.dumps(figures(seconds, rounds), indent=1))


if __name__ == "__main__":
    main()
