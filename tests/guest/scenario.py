"""Runs in the guest: two real agents on a real kernel's netem, and what a third party sees of their link.

Every measurement is one JSON line on standard output, `{"finding": NAME, ...}`. Nothing is judged here:
tests/integration/test_netem_guest.py does that.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import time
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

from tests.guest.observe import (
    ADDRESSES,
    HEADERS_BYTES,
    Agent,
    Arrival,
    Fields,
    Observer,
    band_packets,
    build_network,
    connect,
    filters,
    inside,
    kinds,
    retransmitted,
    run,
    tcp,
)

BLOCKED = Path("/etc/modprobe.d/blocked.conf")
KINDS = ("sch_netem", "sch_prio", "cls_u32")
"""Kernel modules that shaping is made of."""

Findings = AsyncIterator[Fields]


def loaded() -> list[str]:
    """Which of those modules are in."""
    names = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]
    return sorted(set(KINDS) & set(names))


def unload() -> None:
    """Take them out; whoever needs one makes the kernel load it."""
    for name in loaded():
        run("rmmod", name)


def block(*kinds: str) -> None:
    """Let the kernel find these modules no more, and all others again."""
    BLOCKED.parent.mkdir(parents=True, exist_ok=True)
    BLOCKED.write_text("".join(f"install {kind} /bin/false\n" for kind in kinds))


def in_order(came: list[Arrival]) -> bool:
    """Whether no datagram overtook another."""
    numbers = [arrival.number for arrival in came]
    return numbers == sorted(numbers)


class Scenario:
    """The findings, in the order in which they are made."""

    def __init__(self) -> None:
        self.primary: Agent
        self.replica: Agent
        self.base_ms = 0.0

    async def rtt(self, rtt_ms: float, **fields: float) -> None:
        """Ask for a round trip as the app does: half on each side, the bare path taken off, and measured
        once both ends changed."""
        delay_ms = max(0.0, rtt_ms - self.base_ms) / 2
        await asyncio.gather(
            self.primary.set("replica", delay_ms=delay_ms, **fields),
            self.replica.set("primary", delay_ms=delay_ms, **fields),
        )
        await self.primary.link("replica", anew=True)

    async def refusals(self) -> Findings:
        """What an agent makes of a kernel or a container that lacks something."""
        unload()
        for missing in (("sch_netem", "xt_NFQUEUE"), ("sch_netem",), ("cls_u32",)):
            block(*missing)
            yield await self._attempt(f"no {' and no '.join(missing)}")
            unload()
        block()
        yield await self._attempt("no NET_ADMIN", capabilities="")
        run("ip", "netns", "add", "lonely")
        inside("lonely", "ip", "link", "set", "lo", "up")
        yield await self._attempt("no interface", node="lonely")

    async def _attempt(self, case: str, *, node: str = "spare", capabilities: str = "+net_admin") -> Fields:
        agent = await Agent.start(node, capabilities)
        try:
            answer = await agent.try_set("replica", delay_ms=5)
            state = await agent.link("replica")
            return {"finding": f"refusal: {case}", "answer": answer, "state": state}
        finally:
            await agent.stop()

    async def interface_gone(self) -> Findings:
        """The interface vanishes under an agent that shapes and comes back bare, as a network does that is
        disconnected and connected."""
        agent = await Agent.start("spare")
        try:
            await agent.set("replica", delay_ms=5)
            run("ip", "link", "del", "to-spare")
            answer = await agent.try_set("replica", delay_ms=6)
            connect("spare")
            again = await agent.try_set("replica", delay_ms=7)
            with Observer("spare", "replica") as observer:
                trips_ms = await observer.round_trips_ms(10)
            yield {"finding": "interface gone", "answer": answer, "again": again,
                   "observed_ms": statistics.median(trips_ms)}  # fmt: skip
        finally:
            await agent.stop()
        yield {"finding": "stopped", "kinds": kinds("spare")}

    async def start(self) -> Findings:
        """The agents of the link, and the path as it is."""
        unload()
        self.primary, self.replica = await asyncio.gather(Agent.start("primary"), Agent.start("replica"))
        await self.primary.watch("replica")
        await self.replica.watch("primary")
        state = await self.primary.measured("replica")
        self.base_ms = state["base_ms"]
        with Observer("primary", "replica") as observer:
            trips_ms = await observer.round_trips_ms(50)
        yield {"finding": "start", "kernel": os.uname().release, "state": state, "modules": loaded(),
               "kinds": kinds("primary"), "observed_ms": statistics.median(trips_ms)}  # fmt: skip

    async def asked(self) -> Findings:
        """Round trips asked for, as the agent measures them and as we see them."""
        with Observer("primary", "replica") as observer:
            for rtt_ms in (1, 10, 85, 200):
                await self.rtt(rtt_ms)
                state = await self.primary.measured("replica")
                trips_ms = await observer.round_trips_ms(50)
                yield {"finding": f"rtt: {rtt_ms}", "asked_ms": rtt_ms, "measured_ms": state["measured_ms"],
                       "observed_ms": statistics.median(trips_ms), "observed_min_ms": min(trips_ms),
                       "observed_max_ms": max(trips_ms), "dropped": state["dropped"]}  # fmt: skip

    async def one_way(self) -> Findings:
        """Each direction has a delay of its own."""
        await self.primary.set("replica", delay_ms=20)
        await self.replica.set("primary", delay_ms=60)
        with Observer("primary", "replica") as observer:
            there = await observer.stream(30)
            back = await observer.stream(30, backwards=True)
        ways_ms = [statistics.median(a.came_ms - a.sent_ms for a in came) for came in (there, back)]
        yield {"finding": "one way", "asked_ms": [20, 60], "observed_ms": ways_ms}

    async def others(self) -> Findings:
        """The client's way to the primary, while the replica's is long and while it is not; the replica's
        own side has no part in it."""
        plain_ms, delayed_ms, packets, probes = [], [], 0, 0
        with Observer("client", "primary") as observer:
            for _ in range(5):
                await self.primary.set("replica")
                plain_ms.append(statistics.median(await observer.round_trips_ms(20, gap_s=0.001)))
                await self.primary.set("replica", delay_ms=100)
                before, before_s = band_packets("primary"), time.monotonic()
                delayed_ms.append(statistics.median(await observer.round_trips_ms(60, gap_s=0.001)))
                packets += band_packets("primary") - before
                # At most ten probes a second, and as many answers to the replica's.
                probes += 2 * (1 + round((time.monotonic() - before_s) * 10))
        yield {"finding": "others", "plain_ms": plain_ms, "delayed_ms": delayed_ms,
               "client_packets": 5 * 60, "band_packets": packets, "most_probes": probes}  # fmt: skip

    async def two_peers(self) -> Findings:
        """A second replica has its own delay, and keeps it when the first one's is taken away."""
        await self.rtt(50)
        await self.primary.set("client", delay_ms=10)
        with Observer("primary", "replica") as replica, Observer("primary", "client") as client:
            both_ms = [statistics.median(await o.round_trips_ms(10)) for o in (replica, client)]
            await self.rtt(0)
            one_ms = [statistics.median(await o.round_trips_ms(10)) for o in (replica, client)]
            await self.primary.set("client")
        yield {"finding": "two peers", "both_ms": both_ms, "one_ms": one_ms, "kinds": kinds("primary")}

    async def jitter(self) -> Findings:
        """Half of the variance on each side."""
        await self.rtt(85, jitter_ms=10 / 2**0.5)
        with Observer("primary", "replica") as observer:
            trips_ms = await observer.round_trips_ms(300, gap_s=0)
            came = await observer.stream(2000, burst=2)
        yield {"finding": "jitter", "mean_ms": statistics.mean(trips_ms), "trips": len(trips_ms),
               "deviation_ms": statistics.stdev(trips_ms), "sent": 2000, "came": len(came),
               "in_order": in_order(came)}  # fmt: skip

    async def loss(self) -> Findings:
        """What comes through each direction, and what the agent says was lost."""
        with Observer("primary", "replica") as observer:
            for percent, count in ((5, 4000), (100, 200)):
                await self.rtt(10, loss_percent=percent)
                before = await self.primary.cost()
                there = await observer.stream(count, burst=10)
                after = await self.primary.cost()
                back = await observer.stream(count, burst=10, backwards=True)
                await asyncio.sleep(2)
                state = await self.primary.link("replica")
                yield {"finding": f"loss: {percent}", "sent": count, "came": [len(there), len(back)],
                       "lost": after["lost"] - before["lost"], "dropped": after["dropped"],
                       "measured_ms": state["measured_ms"], "probes_lost": state["lost"]}  # fmt: skip

    async def bandwidth(self) -> Findings:
        """A burst of datagrams, then a TCP stream, through a narrow link."""
        asked_bps, count, size = 2_000_000, 200, 1250
        await self.rtt(10, bandwidth_bps=asked_bps)
        with Observer("primary", "replica") as observer:
            idle_ms = statistics.median(await observer.round_trips_ms(20, gap_s=0.05))
            came = await observer.stream(count, gap_ms=0, burst=count, bytes_each=size)
        udp_s = (came[-1].came_ms - came[0].came_ms) / 1000
        stream_bytes, before = 400_000, retransmitted("primary")
        tcp_s, whole = await tcp(stream_bytes)
        yield {"finding": "bandwidth", "asked_bps": asked_bps, "sent": count, "came": len(came),
               "udp_bps": (count - 1) * (size + HEADERS_BYTES) * 8 / udp_s, "in_order": in_order(came),
               "tcp_bps": stream_bytes * 8 / tcp_s, "tcp_whole": whole, "idle_ms": idle_ms,
               "retransmitted": retransmitted("primary") - before,
               "dropped": (await self.primary.cost())["dropped"]}  # fmt: skip

    async def partitions(self) -> Findings:
        """Each direction cut, then healed."""
        with Observer("primary", "replica") as observer:
            for name, there_cut, back_cut in (
                ("dump", True, False), ("ack", False, True), ("both", True, True)
            ):  # fmt: skip
                await self.primary.set("replica", delay_ms=5, cut=there_cut)
                await self.replica.set("primary", delay_ms=5, cut=back_cut)
                there = await observer.stream(50)
                back = await observer.stream(50, backwards=True)
                await self.primary.link("replica", anew=True)
                await self.replica.link("primary", anew=True)
                await asyncio.sleep(2)
                states = [await self.primary.link("replica"), await self.replica.link("primary")]
                await self.rtt(10)
                healed = await self.primary.measured("replica")
                yield {"finding": f"partition: {name}", "sent": 50, "came": [len(there), len(back)],
                       "measured_ms": [state["measured_ms"] for state in states],
                       "probes_lost": [state["lost"] for state in states],
                       "cut": [state["shape"]["cut"] for state in states],
                       "healed_ms": healed["measured_ms"]}  # fmt: skip

    async def flaps(self) -> Findings:
        """Down for 0.5 s and up for 0.5 s under a datagram every 5 ms, 20 ms round trip; then no more."""
        await self.rtt(20)
        since_wall_s = time.time() + 0.2
        flap = {"down_s": 0.5, "up_s": 0.5, "since_wall_s": since_wall_s}
        for agent, peer in ((self.primary, "replica"), (self.replica, "primary")):
            await agent.must("set_flap", peer=peer, address=ADDRESSES[peer], flap=flap)
        with Observer("primary", "replica") as observer:
            began_s = time.time()
            came = await observer.stream(500, gap_ms=5)
            ended = [
                await agent.must("set_flap", peer=peer, address=ADDRESSES[peer], flap=None)
                for agent, peer in ((self.primary, "replica"), (self.replica, "primary"))
            ]
            after = await observer.stream(50)
        phases = [(began_s + arrival.sent_ms / 1000 - since_wall_s) % 1.0 for arrival in came]
        measured = await self.primary.measured("replica")
        yield {"finding": "flaps", "sent": 500, "came": len(came), "phases_s": phases,
               "after": len(after), "flap": [state["flap"] for state in ended],
               "dropped": (await self.primary.cost())["dropped"],
               "measured_ms": measured["measured_ms"]}  # fmt: skip

    async def falls(self) -> Findings:
        """The delay falls from 100 ms one way under a datagram a millisecond."""
        with Observer("primary", "replica") as observer:
            for to_ms in (5, 0):
                await self.rtt(200)
                times_ms: list[float] = []

                async def fall(to_ms: int = to_ms, times_ms: list[float] = times_ms) -> None:
                    await asyncio.sleep(0.4)
                    times_ms.append(time.time_ns() / 1e6)
                    await self.primary.set("replica", delay_ms=to_ms)
                    times_ms.append(time.time_ns() / 1e6)

                start_ms = time.time_ns() / 1e6
                before = (await self.primary.cost())["dropped"]
                came = await observer.stream(800, meanwhile=fall)
                asked_ms, answered_ms = (at_ms - start_ms for at_ms in times_ms)
                held = [a for a in came if a.sent_ms < asked_ms < a.came_ms]
                after = [a for a in came if a.sent_ms > answered_ms]
                yield {"finding": f"fall: to {to_ms}", "sent": 800, "came": len(came),
                       "in_order": in_order(came), "held": len(held),
                       "last_held_ms": max(a.came_ms for a in held) - asked_ms,
                       "answered_ms": answered_ms - asked_ms, "sent_after": len(after),
                       "largest_after_ms": max(a.came_ms - a.sent_ms for a in after),
                       "kinds": kinds("primary"),
                       "dropped": (await self.primary.cost())["dropped"] - before}  # fmt: skip
        await self.rtt(2000)
        await self.primary.measured("replica")
        await self.rtt(10)
        first = await self.primary.measured("replica", probes=3)
        yield {"finding": "fall: measured", "first_ms": first["measured_ms"], "probes": first["probes"]}

    async def tcp_falls(self) -> Findings:
        """The delay rises and falls under a TCP stream: whole, and nothing had to be sent again."""
        await self.rtt(0)
        before = retransmitted("primary")

        async def turn() -> None:
            for rtt_ms in (80, 10, 40, 0):
                await asyncio.sleep(0.25)
                await self.rtt(rtt_ms)

        turning = asyncio.create_task(turn())
        _, whole = await tcp(251 * 1000, chunk_bytes=251, gap_ms=2)
        await turning
        cost = await self.primary.cost()
        yield {"finding": "tcp", "whole": whole, "retransmitted": retransmitted("primary") - before,
               "dropped": cost["dropped"]}  # fmt: skip

    async def leftovers(self) -> Findings:
        """The serving process is killed and started again: nothing is asked of it, so nothing stays."""
        agent = await Agent.start("spare")
        await agent.set("replica", delay_ms=30)
        await agent.set("client", delay_ms=40)
        os.kill(agent.server_pid(), signal.SIGKILL)
        await asyncio.sleep(0.1)
        await agent.connect()
        await agent.set("replica", delay_ms=3)
        await asyncio.sleep(5)
        with Observer("spare", "replica") as replica, Observer("spare", "client") as client:
            trips_ms = [statistics.median(await o.round_trips_ms(10)) for o in (replica, client)]
        yield {"finding": "leftovers", "observed_ms": trips_ms, "filters": filters("spare"),
               "kinds": kinds("spare")}  # fmt: skip
        await agent.stop()

    async def removal(self) -> Findings:
        """Nothing asked: nothing there, and the path as it was."""
        await self.rtt(85)
        before = kinds("primary")
        await self.rtt(0)
        state = await self.primary.measured("replica")
        with Observer("primary", "replica") as observer:
            trips_ms = await observer.round_trips_ms(50)
        yield {"finding": "removal", "before": before, "kinds": [kinds("primary"), kinds("replica")],
               "filters": filters("primary") + filters("replica"), "measured_ms": state["measured_ms"],
               "delay_ms": state["shape"]["delay_ms"],
               "observed_ms": statistics.median(trips_ms)}  # fmt: skip


async def main() -> None:
    """The findings of one part, PART in the environment; a defect of a step is one too, and the next step
    is made all the same."""
    started_s = time.monotonic()

    def tell(finding: Fields) -> None:
        print(json.dumps({"at_s": round(time.monotonic() - started_s, 3), **finding}), flush=True)

    run("ip", "link", "set", "lo", "up")
    build_network()
    it = Scenario()
    parts = {
        "link": (
            it.start, it.asked, it.one_way, it.others, it.two_peers, it.jitter, it.loss, it.bandwidth,
            it.partitions, it.flaps, it.removal,
        ),
        "change": (
            it.refusals, it.interface_gone, it.leftovers, it.start, it.falls, it.tcp_falls,
        ),
    }  # fmt: skip
    for step in parts[os.environ["PART"]]:
        try:
            async for finding in step():
                tell(finding)
        except Exception:
            tell({"finding": f"defect: {step.__name__}", "text": traceback.format_exc()})
    tell({"finding": "end"})


if __name__ == "__main__":
    asyncio.run(main())
