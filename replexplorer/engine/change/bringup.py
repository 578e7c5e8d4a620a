"""From nothing, or from something half dead, to servers that answer and replicate."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from replexplorer.core.errors import (
    NoSuchStack,
    ReplexplorerError,
    ServerRefused,
    ServerUnreachable,
    StackUnavailable,
    TakenAway,
)
from replexplorer.core.machine import MORE_AIO
from replexplorer.core.records import frozen
from replexplorer.core.role_change import hole_words
from replexplorer.core.server.comeback import lacked_aio, why_it_ended
from replexplorer.core.server.gtid import gtid_count, subtract_gtids
from replexplorer.core.topology import Role, role_of
from replexplorer.engine.change.joining import form_group, go_on_without_the_ended, is_cut
from replexplorer.engine.fleet import STARTS_WITHIN_S, Fleet, Member
from replexplorer.engine.observe.samples import hole_of, probe, sample_node, standing_of, watch_links
from replexplorer.engine.tasks import all_of, end_all, to_the_end
from replexplorer.ports import Ability, NodeAddress, Reporter, UpOptions, ask

_LOOK_EVERY_S: Final = 0.05
_CONNECTS_WITHIN_S: Final = 0.2
_PLACES_EVERY_S: Final = 0.5
_ENDED_S: Final = 3.0
"""A server that has ended is said to have, when nobody has removed it until then."""
_REMOVED_WITHIN_S: Final = 15.0
"""As long, where its sidecar has ended too: then somebody is taking the stack away."""
_REPLAYED_AT_MOST: Final = 5_000
"""Transactions. A node that joins applies some 500 a second beside others on two cores; a copy of the default
table takes 6 s."""


@frozen
class Raised:
    """What bringing a stack up did."""

    created: bool
    """The stack was made by this call."""
    repaired: tuple[str, ...] = ()
    """What was dead or stopped and was started again, and what of the stack is not as one that is made now,
    in words; empty for a new stack."""
    joined: tuple[str, ...] = ()
    """Nodes that it has now and had not before."""
    to_copy: tuple[str, ...] = ()
    """Those of them that do not follow the source until they are given a copy of its data."""
    restarted: tuple[str, ...] = ()
    """Nodes whose server had ended."""


async def bring_up(fleet: Fleet, options: UpOptions, report: Reporter) -> Raised:
    """Create or repair the stack and wait until it answers.

    Raises ReplexplorerError; a stack that this call created and that does not come up is removed.
    """
    fleet.need(Ability.OWN)
    nodes = await fleet.outside.provider.nodes()
    dead = [text for node in nodes for text in _dead(node)]
    if dead and all(node.sidecar_running for node in nodes):
        await fleet.discover()
        await start_last_view(fleet, fleet.members, report)
    if dead and any(node.server_running for node in nodes):
        await _go_on(fleet, report)
    created = await fleet.outside.provider.up(options, report)
    try:
        await fleet.discover()
        before = {node.name for node in nodes}
        joined = () if created else tuple(name for name in fleet.members if name not in before)
        started, to_copy = await _until_ready(fleet, joined, report)
    except (NoSuchStack, TakenAway):
        await to_the_end(fleet.close())  # what has this name now, if anything, is somebody else's
        raise TakenAway(fleet.outside.provider.name) from None
    except (ReplexplorerError, asyncio.CancelledError):
        if created:
            await to_the_end(fleet.outside.provider.down())
            await to_the_end(fleet.close())
        raise
    if created:
        return Raised(created)
    restarted = tuple(node.name for node in nodes if not node.server_running)
    return Raised(created, (*dead, *started), joined, to_copy, restarted)


async def _go_on(fleet: Fleet, report: Reporter) -> None:
    """Let what is left of a group go on, before the servers of its majority start."""
    await fleet.discover()
    if fleet.system.is_group and not fleet.system.starts_together:
        await asyncio.gather(*(_learn(fleet, member) for member in fleet.members.values()))
        await go_on_without_the_ended(fleet, report)


async def start_last_view(fleet: Fleet, nodes: Collection[str], report: Callable[[str], None]) -> None:
    """Where all nodes of a Galera cluster have ended and these are to start: start those of its last view and
    wait until they answer, if others ended in an earlier one. Nodes of one view find each other; with one of
    an earlier view next to them all wait forever (measured). Raises StackUnavailable."""
    members = fleet.members
    if not fleet.system.starts_together or set(nodes) != set(members):
        return
    if any(member.address.server_running for member in members.values()):
        return
    views = {name: await fleet.server_process(name).stored_view() or 0 for name in members}
    last = [name for name in views if views[name] == max(views.values())]
    if len(last) < len(members):
        report(f"starting {', '.join(last)} first: the others had left the cluster before")
        await asyncio.gather(*(fleet.server_process(name).start() for name in last))
        await asyncio.gather(*(until_it_answers(fleet, name) for name in last))


def _dead(node: NodeAddress) -> list[str]:
    """What of a node has to be started, as told once that is done."""
    parts = (("sidecar", node.sidecar_running), ("server", node.server_running))
    return [f"{node.name}: {part} started" for part, runs in parts if not runs]


async def connect(fleet: Fleet, report: Reporter) -> None:
    """Reach the nodes of a running stack: probe the servers, see their roles, watch the links."""
    await fleet.discover()
    report("connecting")
    # Which links there are follows from who is the source.
    await asyncio.gather(fleet.open_bridges(), *(_learn(fleet, each) for each in fleet.members.values()))
    await watch_links(fleet, fleet.roster.pairs if fleet.system.mesh else ())


async def _learn(fleet: Fleet, member: Member) -> None:
    """Probe a server and see its role; one that is down is learned of later, one that is frozen is not
    waited for."""
    if not member.address.server_running:
        return
    try:
        member.probed = await probe(member.control)
    except ReplexplorerError:
        return
    await _see_role(fleet, member)


async def _until_ready(
    fleet: Fleet, joined: Collection[str], report: Reporter
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Wait for a login on every node and for running replication, then watch the links; answers which
    threads had to be started, in words, and which of the nodes that `joined` have to be given a copy."""
    ends_s = fleet.outside.clock.monotonic() + STARTS_WITHIN_S
    report("waiting for the servers")
    started: list[str] = []

    def tell(text: str) -> None:
        started.append(text)
        report(text)

    # The agents measure the bare path for half a second: that fits in while the servers start.
    await _while_there(
        fleet,
        fleet.members,
        watch_links(fleet),
        *(_until_login(fleet, name, ends_s) for name in fleet.members),
    )
    await asyncio.gather(*(_see_role(fleet, member) for member in fleet.members.values()))
    if fleet.system.is_group:
        report("waiting for the members")
        await _while_there(
            fleet, fleet.members, watch_links(fleet, fleet.roster.pairs), form_group(fleet, tell)
        )
        await asyncio.gather(*(_see_role(fleet, member) for member in fleet.members.values()))
        return tuple(started), ()
    report("waiting for the replica")
    seen = {each.name: role_of(fleet.standing(each.name), fleet.source_name) for each in fleet.replicas}
    # One that is detached waits for a rejoin.
    followers = [each for each in fleet.replicas if seen[each.name] is not Role.DETACHED]
    to_copy = [member for member in followers if member.name in joined and await _is_far(fleet, member)]
    await _while_there(
        fleet,
        fleet.members,
        watch_links(fleet),
        *(until_replicating(fleet, member, ends_s, tell) for member in followers if member not in to_copy),
    )
    return tuple(started), tuple(member.name for member in to_copy)


async def _is_far(fleet: Fleet, member: Member) -> bool:
    """Whether a new node lacks what no binlog of the source has any more, or so much that a copy is there
    sooner; False where it can be given none."""
    if not member.dialect.copies:
        return False
    source = fleet.source
    executed = await member.executed()
    missing = subtract_gtids(await source.executed(), executed)
    purged = await ask(source.control, source.dialect.purged)
    return bool(subtract_gtids(purged, executed)) or gtid_count(missing) > _REPLAYED_AT_MOST


async def _see_role(fleet: Fleet, member: Member) -> None:
    """Look at a server that answers, for what it is now."""
    fleet.saw(standing_of(fleet, await sample_node(member, fleet.outside.clock.monotonic(), None)))


async def _while_there(fleet: Fleet, nodes: Collection[str], *works: Coroutine[Any, Any, None]) -> None:
    """Run works at once, as long as the nodes that they wait for are there and run."""
    guard = asyncio.create_task(_until_gone(fleet, nodes), name="look at the nodes")
    work = asyncio.create_task(all_of(*works), name="wait for the servers")
    try:
        await asyncio.wait({guard, work}, return_when=asyncio.FIRST_COMPLETED)
        (work if work.done() else guard).result()
    finally:
        await end_all(guard, work)


async def _until_gone(fleet: Fleet, nodes: Collection[str]) -> None:
    """Look at nodes until one is not the one that was found, or has ended: raises TakenAway or
    StackUnavailable then."""
    clock = fleet.outside.clock
    waited_for = {name: fleet.member(name).address.identity for name in nodes}
    ended_s: dict[str, float] = {}
    while True:
        await clock.sleep(_PLACES_EVERY_S)
        found = {node.name: node for node in await fleet.outside.provider.nodes()}
        for name, identity in waited_for.items():
            node = found.get(name)
            if node is None or node.identity != identity:
                raise TakenAway(fleet.outside.provider.name)
            if node.server_running:
                ended_s.pop(name, None)
                continue
            # Who removes a stack kills its servers first, and on a busy machine the rest takes a while to go.
            grace_s = _ENDED_S if node.sidecar_running else _REMOVED_WITHIN_S
            if clock.monotonic() - ended_s.setdefault(name, clock.monotonic()) >= grace_s:
                raise await ended(fleet, name)


async def until_it_answers(fleet: Fleet, node: str) -> None:
    """Wait for a login at a server that starts. Raises StackUnavailable where it ends, or none succeeds in
    time."""
    await fleet.discover()
    ends_s = fleet.outside.clock.monotonic() + STARTS_WITHIN_S
    await _while_there(fleet, (node,), _until_login(fleet, node, ends_s))


async def _until_login(fleet: Fleet, name: str, ends_s: float) -> None:
    """Try to log in until it works, and see what the server is; a member may be given all its data first."""
    clock = fleet.outside.clock
    while True:
        member = fleet.member(name)
        try:
            member.probed = await probe(member.control)
            return
        except ServerUnreachable as error:
            if clock.monotonic() >= ends_s:
                raise StackUnavailable(
                    f"{name} does not accept logins: {error.message}",
                    f"see its log: {fleet.outside.provider.server_log(name)}",
                ) from None
        await clock.sleep(_LOOK_EVERY_S)


async def until_replicating(fleet: Fleet, member: Member, ends_s: float, tell: Callable[[str], None]) -> None:
    """Wait until both replication threads run; threads that were stopped are started, and one that
    found its source not listening yet is not left to wait out its retry interval of 1 s. One whose link
    is cut cannot connect, and is not waited for; an IO thread that gave up is started once more."""
    clock = fleet.outside.clock
    started = retried = False
    retry_s = clock.monotonic() + _CONNECTS_WITHIN_S
    while True:
        view = (await sample_node(member, clock.monotonic(), None)).view
        runs = view.io_thread == "on" and view.sql_thread == "on"
        is_off = "off" in (view.io_thread, view.sql_thread)
        if (runs or is_off) and (lost := await hole_of(fleet.source, member)):
            state = "replicates with a gap" if runs else "is not started"
            remedy = f"`replexplorer role rejoin {member.name}` copies it"
            tell(f"{member.name} {state}: it {hole_words(lost)}; {remedy}")
            return
        if runs:
            return
        if not started and is_off:
            started = True
            with contextlib.suppress(ServerRefused):  # it shows as the thread's state
                await member.run(member.dialect.start_threads)
            both = view.io_thread == view.sql_thread
            one = "IO thread" if view.io_thread == "off" else "SQL thread"
            tell(f"{member.name}: {'both threads' if both else one} started")
        elif (
            view.io_thread == "connecting"
            and view.sql_thread == "on"
            and await is_cut(fleet, fleet.source_name, member.name)
        ):
            return
        elif not retried and view.io_thread in ("connecting", "error") and clock.monotonic() >= retry_s:
            retried, retry_s = True, clock.monotonic() + _CONNECTS_WITHIN_S
            with contextlib.suppress(ServerRefused):
                await member.run(member.dialect.stop_io, member.dialect.start_io)
        gave_up = view.io_thread == "error" and retried and clock.monotonic() >= retry_s
        if gave_up or view.sql_thread == "error" or clock.monotonic() >= ends_s:
            copy = f"`replexplorer role rejoin {member.name} --copy` gives it a copy of the source's data"
            fresh = "run `replexplorer down`, then `up`, to make a new one"
            raise StackUnavailable(
                f"{member.name} does not replicate (io {view.io_thread}, sql {view.sql_thread}):"
                f" {view.replication_fault or 'its threads report nothing'}",
                f"{copy}; {fresh}" if member.dialect.copies else fresh,
            )
        await clock.sleep(_LOOK_EVERY_S)


async def ended(fleet: Fleet, node: str) -> StackUnavailable:
    """A server that ended while it started, with the first error of its log and what helps."""
    provider = fleet.outside.provider
    words, log = f"the server of {node} ended while it started", f"see its log: {provider.server_log(node)}"
    try:
        said = why_it_ended(line for _, line in await provider.server_process(node).log())
    except ReplexplorerError:
        said = None
    if said is None:
        return StackUnavailable(words, log)
    if lacked_aio(said):
        return StackUnavailable(
            f"{words}: {said}: its machine's servers have used up fs.aio-max-nr",
            f"run `{MORE_AIO}` there, as root, then `replexplorer up`; or end other stacks; {log}",
        )
    return StackUnavailable(f"{words}: {said}", log)
