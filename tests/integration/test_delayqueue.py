"""The packet loop on a real kernel queue, between two containers: gross bounds; the law is unit-tested."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bench.link_loop import PORT, Pair, pace, pair

pytestmark = pytest.mark.docker

PRELUDE = """
import asyncio, json, os, signal, socket, struct, sys, time
sys.path.insert(0, "/opt/replexplorer")
import queueing
from replexplorer.core.wire import Shape
peer = sys.argv[1]

def ask(per_s, packets, quiet_s):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
    sock.bind(("0.0.0.0", 0))
    sock.settimeout(5)
    wish = {"per_s": per_s, "packets": packets, "bytes": 16, "quiet_s": quiet_s}
    sock.sendto(json.dumps(wish).encode(), (peer, PORT))
    return sock

def receive(sock):
    numbers, delays_ms = [], []
    while not (text := sock.recv(2000)).startswith(b"end"):
        number, sent_ns = struct.unpack_from("=Qq", text)
        numbers.append(number)
        delays_ms.append((time.monotonic_ns() - sent_ns) / 1e6)
    return numbers, delays_ms

async def open_backend():
    return await queueing.Nfqueue.open("test")
"""

END = """
async def main():
    backend = await open_backend()
    await backend.shape(peer, Shape(delay_ms=2000))
    sock = ask(20_000, 20_000, 0.5)
    await asyncio.sleep(0.5)
    held = (await backend.stats(peer))["held"]
    process = backend._process
    process._guard.cancel()
    process._sock.close()
    numbers, delays_ms = await asyncio.to_thread(receive, sock)
    status = await process._process.wait()
    await backend._unrule(peer)
    print(json.dumps({"held": held, "status": status, "numbers": numbers, "longest_ms": max(delays_ms)}))
asyncio.run(main())
"""

REMOVE = """
async def main():
    backend = await open_backend()
    receiving = asyncio.create_task(asyncio.to_thread(receive, ask(20_000, 30_000, 0.5)))
    changes = 0
    while not receiving.done():
        await backend.shape(peer, Shape(delay_ms=50) if changes % 2 == 0 else None)
        changes += 1
        await asyncio.wait({receiving}, timeout=0.1)
    numbers, _ = await receiving
    deadline_s = time.monotonic() + 10  # "end" is sent three times: the later ones may still be held
    while (stats := await backend.stats(peer)).get("held") and time.monotonic() < deadline_s:
        await asyncio.sleep(0.02)
    await backend.close()
    print(json.dumps({"changes": changes, "received": len(numbers), "different": len(set(numbers)), **stats}))
asyncio.run(main())
"""

SERVE_TCP = """
import socket
listener = socket.create_server(("0.0.0.0", 5601))
while True:
    stream, _ = listener.accept()
    with stream:
        stream.sendall(bytes(range(250)) * 8000)
        stream.shutdown(socket.SHUT_WR)
        stream.recv(1)
"""

READ_TCP = """
def read():
    started_s, came = time.monotonic(), bytearray()
    with socket.create_connection((peer, 5601)) as stream:
        while text := stream.recv(1 << 16):
            came += text
        return came == bytes(range(250)) * 8000, time.monotonic() - started_s

async def main():
    backend, answers = await open_backend(), {}
    for name, bandwidth_bps in (("held", 0), ("narrow", 20_000_000)):
        await backend.shape(peer, Shape(delay_ms=1, bandwidth_bps=bandwidth_bps))
        before = (await backend.stats(peer))["packets"]
        whole, took_s = await asyncio.to_thread(read)
        stats = await backend.stats(peer)
        answers[name] = {"whole": whole, "took_s": took_s, **stats, "packets": stats["packets"] - before}
    await backend.close()
    print(json.dumps(answers))
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def both(docker_client: Any) -> Iterator[Pair]:
    with pair() as made:
        yield made


def drive(both: Pair, script: str) -> dict[str, Any]:
    """Run a driver in the receiver and read what it prints."""
    script = (PRELUDE + script).replace("PORT", str(PORT))
    status, (out, err) = both.receiver.exec_run(["python3", "-c", script, both.address()], demux=True)
    assert status == 0, err
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_changes_under_load_keep_the_order_and_lose_nothing(both: Pair) -> None:
    changes = [
        [0.2, {"delay_ms": 5}],
        [0.2, {"delay_ms": 60, "jitter_ms": 20}],
        [0.2, {"delay_ms": 1}],
        [0.2, {"delay_ms": 1, "bandwidth_bps": 2_000_000}],
        [0.2, {"delay_ms": 30}],
        [0.2, {"delay_ms": 0, "bandwidth_bps": 1_000_000_000}],
    ]
    [seen] = both.run([pace(10_000, 1.5, changes=changes)])
    assert (seen["received"], seen["disorder"], seen["dropped"]) == (15_000, 0, 0)


def test_super_packets_are_cut_up_where_bandwidth_counts_and_only_there(both: Pair) -> None:
    both.sender.exec_run(["python3", "-c", SERVE_TCP], detach=True)
    seen = drive(both, READ_TCP)
    assert seen["held"]["packets"] < 2_000_000 / 3000
    assert seen["narrow"]["packets"] > 2_000_000 / 1500
    wire_s = 2_000_000 * 8 / 20_000_000
    assert wire_s < seen["narrow"]["took_s"]
    for answer in seen.values():
        assert (answer["whole"], answer["dropped"], answer["lost"]) == (True, 0, 0)


def test_when_the_agent_ends_everything_goes_in_order_and_nothing_is_dropped(both: Pair) -> None:
    seen = drive(both, END)
    assert seen["held"] > 1000
    assert seen["status"] == 0
    assert sorted(seen["numbers"]) == list(range(20_000))
    early = seen["numbers"][: seen["held"]]
    assert early == sorted(early), "what was held leaves in order"
    assert seen["longest_ms"] < 1900, "and at once"


def test_rules_come_and_go_under_load_without_a_lost_packet(both: Pair) -> None:
    seen = drive(both, REMOVE)
    assert seen["changes"] > 4
    assert (seen["received"], seen["different"]) == (30_000, 30_000)
    assert (seen.get("dropped", 0), seen.get("held", 0)) == (0, 0)
