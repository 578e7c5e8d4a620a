"""Runs in the guest: two real agents on a real kernel's netem, and what a third party sees of their link.

Each step makes its measurements and judges them; what becomes of it is one JSON line on standard output,
`{"step": NAME, "defect": TRACEBACK or null}`. What counts is what an independent pair of sockets saw, and
what the agent's own probe says.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import traceback
from collections.abc import Awaitable, Callable
from math import sqrt
from pathlib import Path
from statistics import mean, median, stdev
from typing import Final

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
KINDS = ("cls_u32", "sch_netem", "sch_prio")
"""Kernel modules that shaping is made of."""
NO_NETEM = (["noqueue"], ["prio"])
"""Nothing of a link's rule is left; the bands that it would go into stay while the agent lives."""


def loaded() -> list[str]:
    """Which of those modules are in."""
    names = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()]
    return sorted(set(KINDS) & set(names))


def let_find_all_but(*missing: str) -> None:
    """Take those modules out, and let the kernel find all again but these."""
    for name in loaded():
        run("rmmod", name)
    BLOCKED.parent.mkdir(parents=True, exist_ok=True)
    BLOCKED.write_text("".join(f"install {kind} /bin/false\n" for kind in missing))


def assert_near(value_ms: float | None, asked_ms: float) -> None:
    """Target P10: within max(0.3 ms, 2 %). The guest's one processor does a nanosecond's work of its own
    in a nanosecond, so the agent's code is some ten times slower than on a machine of today."""
    assert value_ms is not None, f"unknown, not {asked_ms}"
    assert abs(value_ms - asked_ms) <= max(0.3, 0.02 * asked_ms), f"{value_ms}, not {asked_ms}"


def assert_in_order(came: list[Arrival], sent: int) -> None:
    """All came, and none overtook another."""
    assert [arrival.number for arrival in came] == list(range(sent)), (len(came), sent)


class Scenario:
    """The steps, in their order."""

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

    async def dropped(self) -> int:
        """Packets that the primary lost though nothing asked for it."""
        return int((await self.primary.cost())["dropped"])

    async def what_cannot_shape_refuses_in_one_line(self) -> None:
        """It comes first: a module that was loaded once is not missing any more."""
        let_find_all_but("sch_netem", "xt_NFQUEUE")
        await self._refused("kernel has no netem: Specified qdisc kind is unknown", "no NFQUEUE either")
        let_find_all_but()
        await self._refused("no NET_ADMIN: RTNETLINK answers: Operation not permitted", capabilities="")
        run("ip", "netns", "add", "lonely")
        inside("lonely", "ip", "link", "set", "lo", "up")
        _, state = await self._attempt(node="lonely")
        assert state["backend_reason"].startswith("no such interface"), state

    async def a_kernel_without_netem_is_served_by_nfqueue(self) -> None:
        for missing, reason in (
            ("sch_netem", "kernel has no netem: Specified qdisc kind is unknown"),
            ("cls_u32", "kernel has no netem: TC classifier not found"),
        ):
            let_find_all_but(missing)
            _, state = await self._attempt()
            assert (state["backend"], state["backend_reason"]) == ("nfqueue", reason)
            assert state["shape"]["delay_ms"] == 5
        let_find_all_but()

    async def _refused(self, *words: str, capabilities: str = "+net_admin") -> None:
        answer, state = await self._attempt(capabilities=capabilities)
        error = answer["error"]
        assert (error["code"], "\n" in error["message"]) == ("refused", False)
        assert all(word in error["message"] for word in words), error
        assert (state["backend"], state["shape"]["delay_ms"]) == (None, 0)

    async def _attempt(
        self, *, node: str = "spare", capabilities: str = "+net_admin"
    ) -> tuple[Fields, Fields]:
        """The answer of an agent that is asked for a delay, and its state then."""
        agent = await Agent.start(node, capabilities)
        try:
            return await agent.try_set("replica", delay_ms=5), await agent.link("replica")
        finally:
            await agent.stop()

    async def an_interface_that_was_gone_is_shaped_again(self) -> None:
        """It vanishes under an agent that shapes and comes back bare, as a network does that is disconnected
        and connected."""
        agent = await Agent.start("spare")
        try:
            await agent.set("replica", delay_ms=5)
            run("ip", "link", "del", "to-spare")
            answer = await agent.try_set("replica", delay_ms=6)
            assert answer["error"]["message"].startswith("no such interface: "), answer
            connect("spare")
            await agent.set("replica", delay_ms=7)
            with Observer("spare", "replica") as observer:
                assert_near(median(await observer.round_trips_ms(10)), 7)
        finally:
            await agent.stop()
        assert kinds("spare") == ["noqueue"], "an agent that is stopped leaves nothing"

    async def a_killed_agent_s_rules_go_when_the_next_one_is_asked(self) -> None:
        agent = await Agent.start("spare")
        await agent.set("replica", delay_ms=30)
        await agent.set("client", delay_ms=40)
        os.kill(agent.server_pid(), signal.SIGKILL)
        await asyncio.sleep(0.1)
        await agent.connect()
        await agent.set("replica", delay_ms=3)
        await asyncio.sleep(5)
        for peer, asked_ms in (("replica", 3), ("client", 0)):
            with Observer("spare", peer) as observer:
                assert_near(median(await observer.round_trips_ms(10)), asked_ms)
        assert (kinds("spare"), filters("spare")) == (["netem", "prio"], 1)
        await agent.stop()

    async def netem_is_chosen_and_nothing_is_installed_while_nothing_is_asked(self) -> None:
        """The agents of the link start here; the kernel loads its modules when they are asked for."""
        let_find_all_but()
        self.primary, self.replica = await asyncio.gather(Agent.start("primary"), Agent.start("replica"))
        await self.primary.watch("replica")
        await self.replica.watch("primary")
        state = await self.primary.measured("replica")
        self.base_ms = state["base_ms"]
        assert (state["backend"], state["backend_reason"]) == ("netem", "kernel netem answers")
        assert loaded() == list(KINDS)
        assert kinds("primary") in NO_NETEM

    async def a_round_trip_is_what_the_probe_and_others_measure_each_time(self) -> None:
        with Observer("primary", "replica") as observer:
            for rtt_ms in (1, 10, 85, 200):
                await self.rtt(rtt_ms)
                assert_near((await self.primary.measured("replica"))["measured_ms"], rtt_ms)
                trips_ms = await observer.round_trips_ms(50)
                assert_near(min(trips_ms), rtt_ms)
                assert_near(max(trips_ms), rtt_ms)

    async def each_direction_has_its_own_delay(self) -> None:
        await self.primary.set("replica", delay_ms=20)
        await self.replica.set("primary", delay_ms=60)
        with Observer("primary", "replica") as observer:
            for backwards, asked_ms in ((False, 20), (True, 60)):
                came = await observer.stream(30, backwards=backwards)
                assert_near(median(arrival.came_ms - arrival.sent_ms for arrival in came), asked_ms)

    async def a_client_s_way_is_not_touched(self) -> None:
        """While the replica's is long and while it is not; the replica's own side has no part in it."""
        plain_ms, delayed_ms, packets, probes = [], [], 0, 0
        with Observer("client", "primary") as observer:
            for _ in range(5):
                await self.primary.set("replica")
                plain_ms.append(median(await observer.round_trips_ms(20, gap_s=0.001)))
                await self.primary.set("replica", delay_ms=100)
                before, before_s = band_packets("primary"), time.monotonic()
                delayed_ms.append(median(await observer.round_trips_ms(60, gap_s=0.001)))
                packets += band_packets("primary") - before
                # At most ten probes a second, and as many answers to the replica's.
                probes += 2 * (1 + round((time.monotonic() - before_s) * 10))
        assert abs(median(delayed_ms) - median(plain_ms)) < 0.1, (plain_ms, delayed_ms)
        assert packets <= probes < 5 * 60 / 5, "none of a client's packets takes the replica's band"

    async def two_replicas_have_each_their_own_and_keep_it_when_the_other_s_goes(self) -> None:
        await self.primary.set("client", delay_ms=10)
        with Observer("primary", "replica") as replica, Observer("primary", "client") as client:
            for rtt_ms in (50, 0):
                await self.rtt(rtt_ms)
                assert_near(median(await replica.round_trips_ms(10)), rtt_ms)
                assert_near(median(await client.round_trips_ms(10)), 10)
        await self.primary.set("client")
        assert kinds("primary") in NO_NETEM

    async def jitter_is_the_round_trip_s_deviation_and_neither_reorders_nor_loses(self) -> None:
        """Half of the variance on each side; within five standard errors."""
        number, jitter_ms = 300, 10
        await self.rtt(85, jitter_ms=jitter_ms / 2**0.5)
        with Observer("primary", "replica") as observer:
            trips_ms = await observer.round_trips_ms(number, gap_s=0)
            assert_in_order(await observer.stream(2000, burst=2), 2000)
        assert abs(stdev(trips_ms) - jitter_ms) <= 5 * jitter_ms / sqrt(2 * number), stdev(trips_ms)
        assert abs(mean(trips_ms) - 85) <= 0.3 + 5 * jitter_ms / sqrt(number), mean(trips_ms)

    async def what_is_lost_is_what_was_asked_and_is_counted(self) -> None:
        """Within five standard deviations of the binomial distribution."""
        with Observer("primary", "replica") as observer:
            for percent, sent in ((5, 4000), (100, 200)):
                await self.rtt(10, loss_percent=percent)
                before = await self.primary.cost()
                there = len(await observer.stream(sent, burst=10))
                after = await self.primary.cost()
                back = len(await observer.stream(sent, burst=10, backwards=True))
                share = percent / 100
                for came in (there, back):
                    assert abs(came - sent * (1 - share)) <= 5 * sqrt(sent * share * (1 - share)), came
                probes = after["lost"] - before["lost"] - (sent - there)
                assert 0 <= probes <= (20 if percent < 100 else sent), probes
                assert after["dropped"] == 0
                await asyncio.sleep(2)
                state = await self.primary.link("replica")
                if percent < 100:
                    assert_near(state["measured_ms"], 10)
                else:
                    assert (state["measured_ms"], state["lost"] > 0) == (None, True)

    async def bandwidth_spaces_datagrams_and_bounds_a_stream_and_drops_nothing(self) -> None:
        asked_bps, count, size = 2_000_000, 200, 1250
        await self.rtt(10, bandwidth_bps=asked_bps)
        with Observer("primary", "replica") as observer:
            idle_ms = median(await observer.round_trips_ms(20, gap_s=0.05))
            came = await observer.stream(count, gap_ms=0, burst=count, bytes_each=size)
        assert abs(idle_ms - 10) < 0.5, idle_ms
        assert_in_order(came, count)
        took_s = (came[-1].came_ms - came[0].came_ms) / 1000
        udp_bps = (count - 1) * (size + HEADERS_BYTES) * 8 / took_s
        assert abs(udp_bps / asked_bps - 1) < 0.02, udp_bps
        before = retransmitted("primary")
        took_s, whole = await tcp(400_000)
        assert abs(400_000 * 8 / took_s / asked_bps - 1) < 0.15, took_s
        assert whole
        assert (retransmitted("primary") - before, await self.dropped()) == (0, 0)

    async def a_partition_cuts_its_direction_until_it_heals(self) -> None:
        with Observer("primary", "replica") as observer:
            for there_cut, back_cut in ((True, False), (False, True), (True, True)):
                await self.primary.set("replica", delay_ms=5, cut=there_cut)
                await self.replica.set("primary", delay_ms=5, cut=back_cut)
                assert len(await observer.stream(50)) == (0 if there_cut else 50)
                assert len(await observer.stream(50, backwards=True)) == (0 if back_cut else 50)
                ends = ((self.primary, "replica", there_cut), (self.replica, "primary", back_cut))
                for agent, peer, _ in ends:
                    await agent.link(peer, anew=True)
                await asyncio.sleep(2)
                for agent, peer, is_cut in ends:
                    state = await agent.link(peer)
                    assert (state["shape"]["cut"], state["measured_ms"]) == (is_cut, None)
                    assert state["lost"], "no probe is answered, and both ends say so"
                await self.rtt(10)
                assert_near((await self.primary.measured("replica"))["measured_ms"], 10)

    async def a_flap_is_down_and_up_by_the_clock_and_ends(self) -> None:
        """Down for 0.5 s and up for 0.5 s under a datagram every 5 ms, 20 ms round trip; then no more."""
        await self.rtt(20)
        since_wall_s = time.time() + 0.2
        flap = {"down_s": 0.5, "up_s": 0.5, "since_wall_s": since_wall_s}
        ends = ((self.primary, "replica"), (self.replica, "primary"))
        for agent, peer in ends:
            await agent.must("set_flap", peer=peer, address=ADDRESSES[peer], flap=flap)
        with Observer("primary", "replica") as observer:
            began_s = time.time()
            came = await observer.stream(500, gap_ms=5)
            for agent, peer in ends:
                ended = await agent.must("set_flap", peer=peer, address=ADDRESSES[peer], flap=None)
                assert ended["flap"] is None
            assert len(await observer.stream(50)) == 50
        assert abs(len(came) / 500 - 0.5) < 0.1, len(came)
        for arrival in came:
            phase_s = (began_s + arrival.sent_ms / 1000 - since_wall_s) % 1.0
            assert phase_s >= 0.45 or phase_s <= 0.05, "what passes was sent while it is up"
        assert await self.dropped() == 0
        assert_near((await self.primary.measured("replica"))["measured_ms"], 20)

    async def a_delay_that_falls_drops_nothing_and_keeps_the_order(self) -> None:
        """From 100 ms one way under a datagram a millisecond. Netem cannot let a held packet go earlier (its
        tfifo has due times for good): it goes at its time at the latest."""
        with Observer("primary", "replica") as observer:
            for to_ms in (5, 0):
                await self.rtt(200)
                times_ms: list[float] = []

                async def fall(to_ms: int = to_ms, times_ms: list[float] = times_ms) -> None:
                    await asyncio.sleep(0.4)
                    times_ms.append(time.time_ns() / 1e6)
                    await self.primary.set("replica", delay_ms=to_ms)
                    times_ms.append(time.time_ns() / 1e6)

                start_ms, before = time.time_ns() / 1e6, await self.dropped()
                came = await observer.stream(800, meanwhile=fall)
                asked_ms, answered_ms = (at_ms - start_ms for at_ms in times_ms)
                held = [each for each in came if each.sent_ms < asked_ms < each.came_ms]
                after = [each for each in came if each.sent_ms > answered_ms]
                assert_in_order(came, 800)
                assert await self.dropped() == before
                assert min(len(held), len(after)) > 50
                assert max(each.came_ms for each in held) - asked_ms <= 100.3
                assert_near(max(each.came_ms - each.sent_ms for each in after), to_ms)
        assert kinds("primary") in NO_NETEM
        await self.rtt(2000)
        await self.primary.measured("replica")
        await self.rtt(10)
        first = await self.primary.measured("replica", probes=3)
        assert_near(first["measured_ms"], 10)  # and not by probes from before

    async def a_stream_under_changes_stays_whole_and_sends_nothing_again(self) -> None:
        await self.rtt(0)
        before = retransmitted("primary")

        async def turn() -> None:
            for rtt_ms in (80, 10, 40, 0):
                await asyncio.sleep(0.25)
                await self.rtt(rtt_ms)

        turning = asyncio.create_task(turn())
        _, whole = await tcp(251 * 1000, chunk_bytes=251, gap_ms=2)
        await turning
        assert whole
        assert (retransmitted("primary") - before, await self.dropped()) == (0, 0)


Step = Callable[[Scenario], Awaitable[None]]
PARTS: Final[dict[str, tuple[Step, ...]]] = {
    "link": (
        Scenario.netem_is_chosen_and_nothing_is_installed_while_nothing_is_asked,
        Scenario.a_round_trip_is_what_the_probe_and_others_measure_each_time,
        Scenario.each_direction_has_its_own_delay,
        Scenario.a_client_s_way_is_not_touched,
        Scenario.two_replicas_have_each_their_own_and_keep_it_when_the_other_s_goes,
        Scenario.jitter_is_the_round_trip_s_deviation_and_neither_reorders_nor_loses,
        Scenario.what_is_lost_is_what_was_asked_and_is_counted,
        Scenario.bandwidth_spaces_datagrams_and_bounds_a_stream_and_drops_nothing,
        Scenario.a_partition_cuts_its_direction_until_it_heals,
        Scenario.a_flap_is_down_and_up_by_the_clock_and_ends,
    ),
    "change": (
        Scenario.what_cannot_shape_refuses_in_one_line,
        Scenario.a_kernel_without_netem_is_served_by_nfqueue,
        Scenario.an_interface_that_was_gone_is_shaped_again,
        Scenario.a_killed_agent_s_rules_go_when_the_next_one_is_asked,
        Scenario.netem_is_chosen_and_nothing_is_installed_while_nothing_is_asked,
        Scenario.a_delay_that_falls_drops_nothing_and_keeps_the_order,
        Scenario.a_stream_under_changes_stays_whole_and_sends_nothing_again,
    ),
}
"""The steps of each guest, which has one processor."""


async def main() -> None:
    """One part, PART in the environment; a defect of a step does not keep the next one from being made."""
    run("ip", "link", "set", "lo", "up")
    build_network()
    it = Scenario()
    for step in PARTS[os.environ["PART"]]:
        defect = None
        try:
            await step(it)
        except Exception:
            defect = traceback.format_exc()
        print(json.dumps({"step": step.__name__, "defect": defect}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
