"""Faults carried out and taken back: what is in force is recorded before it is done.

Law: a record is in the stack's document from before a fault begins until it is taken back, so that whoever
injected it may die. Taking back does nothing where nothing is left to be taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from typing import Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.fault import (
    FLAP_FAULT,
    PARTITION_FAULT,
    Fault,
    FaultKind,
    FaultPart,
    FaultRequest,
    Had,
    clears,
    flap_of,
    given_back,
    without,
)
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Desired, KnobName
from replexplorer.core.link import CUT, kept_all, unkept_all
from replexplorer.core.role_change import hole_words
from replexplorer.core.server.comeback import Comeback, binlog_bytes
from replexplorer.core.server.exposure import Alone
from replexplorer.core.topology import ends_of, link_between
from replexplorer.core.wire import Flap, SetDisk
from replexplorer.engine.change.bringup import start_last_view, until_it_answers
from replexplorer.engine.change.comeback import Return, had_before, seen_last
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.joining import form_group, go_on_without_the_ended
from replexplorer.engine.fleet import Member
from replexplorer.engine.observe.samples import hole_of
from replexplorer.engine.outcome import Cleared, Injected, Preview
from replexplorer.engine.requested import Requested
from replexplorer.engine.tasks import Patience, to_the_end
from replexplorer.ports import ask

_WRITES_WITHIN_S: Final = 75.0
"""A server that found its disk full tries again after 60 s (manual, "How MySQL Handles a Full Disk")."""
_ABORTS_WITHIN_S: Final = 1.0
"""From InnoDB's failed assertion to the end of its process, which writes a backtrace first."""
_UNDO: Final = "fault over: "


class Faults:
    """One stack's faults."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls
        self._state = controls.state
        self._turns = controls.turns
        self._event_log = controls.event_log
        self._report = controls.report
        self._judged: set[str] = set()
        """Nodes whose servers were started here, and not seen to have restarted yet."""
        self._fleet = controls.fleet

    # -- what it would do

    def preview(self, request: FaultRequest) -> Preview:
        """What injecting it would run, what would take it back, and why it would be refused; from what is
        known, without I/O."""
        kind, nodes = request.kind, request.nodes
        desired = {name: value for node in nodes for name, value in self._desired(request, node).items()}
        turned = self._controls.preview(desired)
        threads = [(node, *self._thread(kind, node)) for node in nodes if kind.part is FaultPart.THREAD]
        undone = [] if threads or kind.only_turns_knobs else [kind.undone]
        starts = (f"{node}: {start}" for node, _, start in threads)
        refusals = (str(error) for error in self._refusals(request))
        return Preview(
            (*turned.statements, *(f"{node}: {stop}" for node, stop, _ in threads)),
            (*undone, *turned.undo, *starts),
            tuple(dict.fromkeys((*refusals, *turned.warnings))),
        )

    def _thread(self, kind: FaultKind, node: str) -> tuple[str, str]:
        """What stops and starts the thread that this kind is done to."""
        dialect = self._fleet.member(node).dialect
        if kind.key == "applier_stop":
            return dialect.stop_applier, dialect.start_applier
        return dialect.stop_io, dialect.start_io

    def _desired(self, request: FaultRequest, node: str) -> Desired:
        """The knobs that a fault turns."""
        kind, placed = request.kind, self._fleet.roster.placed
        if kind.key == PARTITION_FAULT:
            return {KnobName(keys.PARTITION, placed(node)): str(request.value)}
        links = self._links_of(node) if kind.isolates else ()
        return {KnobName(keys.PARTITION, placed(link)): CUT for link in links}

    def _links_of(self, node: str) -> tuple[str, ...]:
        """A node's links to all others."""
        return tuple(link_between(node, peer) for peer in self._fleet.members if peer != node)

    def _flapping(self, kind: FaultKind, node: str) -> tuple[str, ...]:
        """The links that a fault makes flap: a replica's to the source, all of the source's."""
        if kind.key != FLAP_FAULT:
            return ()
        source = self._fleet.source_name
        return self._links_of(source) if node == source else (link_between(source, node),)

    def _refusals(self, request: FaultRequest) -> Iterator[ReplexplorerError]:
        """Why it cannot be injected now; an unread disk is not a reason."""
        kind, held = request.kind, {(fault.kind, fault.node) for fault in self._state.faults}
        flaps = {link: fault for fault in self._state.faults for link in fault.links}
        if self._fleet.system.is_group and kind.part is FaultPart.THREAD:
            yield UsageError(
                f"{kind.key}: {self._fleet.system.title} has no replication threads to stop",
                "use isolate, kill, stop or pause",
            )
        for node in request.nodes:
            address = f"{kind.key}@{node}"
            if (kind.key, node) in held:
                yield UsageError(f"{address} is in force already", f"clear it with `fault clear {address}`")
                continue
            # Taking it back would start a server that did not run before.
            if kind.part is not FaultPart.LINK and not self._fleet.member(node).address.server_running:
                yield StackUnavailable(
                    f"{address}: its server is not running", "run `replexplorer up` to start it"
                )
            for link in sorted(flaps.keys() & self._flapping(kind, node)):
                yield UsageError(
                    f"the link {link} flaps already: {flaps[link]}",
                    f"clear it with `fault clear {FLAP_FAULT}@{flaps[link].node}`",
                )
            disk = self._state.disks.get(node)
            if kind.key == "power_cut" and disk is not None and not disk.undo_journal:
                yield UsageError(
                    f"power_cut: unsynced writes of {node} are not recorded",
                    f"run `replexplorer set undo_journal@{node}=on`, then let it work for a while",
                )

    # -- doing it

    async def inject(
        self, request: FaultRequest, *, for_s: float | None = None, anyway: bool = False
    ) -> tuple[Injected, ...]:
        """Do this to each of its nodes, one after the other; `for_s` is only recorded: whoever calls waits.

        Raises UsageError where it is in force already or lacks what it needs, StackUnavailable, MissingPiece;
        then what was done to earlier nodes of the request is taken back.
        """
        await self._state.refresh()
        await self._fleet.discover()  # a server may have ended since the last look
        for refusal in self._refusals(request):
            raise refusal
        done: list[Injected] = []
        try:
            for node in request.nodes:
                done.append(await self._inject(request, node, for_s, anyway))
        except (ReplexplorerError, asyncio.CancelledError):
            await to_the_end(self._take_all_back([each.fault for each in done]))
            raise
        return tuple(done)

    async def _inject(self, request: FaultRequest, node: str, for_s: float | None, anyway: bool) -> Injected:
        now_s, desired = self._controls.clock.wall(), self._desired(request, node)
        before = {name: self._state.requested_value(name) for name in desired}
        recording = self._record(
            Fault(
                0,
                request.kind.key,
                request.value,
                node,
                now_s,
                None if for_s is None else now_s + for_s,
                self._turns.actor.writer,
                kept_all(before, self._fleet.roster),
                self._flapping(request.kind, node),
            )
        )
        # A cancel that comes meanwhile is delivered below, where what was recorded is taken back.
        fault = await to_the_end(recording)
        title, lost = f"fault {fault}", tuple[str, ...]()
        self._report(f"injecting {fault}")
        try:
            async with self.marked(title):
                if request.kind.only_turns_knobs:
                    await self._state.exposures.look_before_failure()
                if desired:
                    await self._controls.turn(desired, f"{title}: ", anyway=anyway, is_part=True)
                if not request.kind.only_turns_knobs:
                    async with self._turns.change(anyway=anyway):
                        if fault.takes_down:
                            lost = await self._take_down(fault)
                        else:
                            await self._put(fault, on=True)
        except (ReplexplorerError, asyncio.CancelledError):
            await to_the_end(self._take_all_back([fault]))
            raise
        return Injected(fault, lost)

    @asynccontextmanager
    async def marked(self, title: str) -> AsyncIterator[None]:
        """A change with a mark and an epoch of its own."""
        mark = self._event_log.begin_change(title)
        try:
            yield
        except (ReplexplorerError, asyncio.CancelledError) as error:
            self._event_log.change_failed(mark, f"{title} failed: {error}")
            raise
        self._event_log.change_effective(mark, title, title)

    async def _put(self, fault: Fault, *, on: bool) -> None:
        """Do to a disk, a thread or a flapping link what no knob does, or undo it."""
        member = self._fleet.member(fault.node)
        match fault.kind:
            case "disk_stall":
                await member.agent.ask(SetDisk(stall_ms=float(fault.value or 0) if on else 0))
            case "disk_full":
                await member.agent.ask(SetDisk(full=on))
            case "flap":
                await self._flap(fault, flap_of(fault) if on else None)
            case "applier_stop" | "receiver_stop":
                stop, start = self._thread(fault.row, fault.node)
                await (member.run(stop) if on else self._start_thread(member, start))

    async def _take_down(self, fault: Fault) -> tuple[str, ...]:
        """End a server, or freeze it; answers which files a power cut took something from."""
        if fault.node == self._fleet.source_name:
            await self._state.exposures.look_before_failure()
        process, lost = self._fleet.server_process(fault.node), tuple[str, ...]()
        if fault.row.loses_commits:
            had = await had_before(self._state, fault.node, fault.kind)
            await self._keep(replace(fault, had=had))
            last = await seen_last(self._fleet.member(fault.node), process.kill())
            if fault.kind == "power_cut":
                lost = await process.lose_unsynced(str(fault.value))
            executed = {**had.executed, **({fault.node: last} if last else {})}
            had = replace(had, executed=executed, binlog_bytes=binlog_bytes(lost))
            await self._keep(replace(fault, had=had))
        else:
            await (process.stop() if fault.kind == "stop" else process.pause())
        await self._keep_whether_alone()
        return lost

    async def _keep(self, fault: Fault) -> None:
        """Keep with a fault what the nodes have, right before it ends a server, and what that had last and
        how much of its binlog went."""

        def keeping(now: Requested) -> Requested:
            return replace(now, faults=tuple(fault if each.id == fault.id else each for each in now.faults))

        if not self._fleet.system.is_group:
            await self._state.write(keeping)

    async def _keep_whether_alone(self) -> None:
        """Keep what the source has told clients of where a fault has ended its last replica: whoever looks
        later cannot know it. Where that has been kept it stays."""
        fleet, kept = self._fleet, self._state.requested.alone
        await fleet.discover()
        ended = {each.node for each in self._state.requested.faults if each.takes_down}
        ended |= {name for name, each in fleet.members.items() if not each.address.server_running}
        source = fleet.source
        if fleet.system.is_group or source.name in ended or not ended.issuperset(fleet.replica_names):
            return
        if kept is None or kept.source != source.name:
            executed = await ask(source.poll, source.dialect.executed)
            log = await ask(source.poll, source.dialect.log_state)
            alone = Alone(executed, log.running, source.name, self._controls.clock.wall())
            await self._state.write(lambda now: replace(now, alone=alone))

    async def _flap(self, fault: Fault, flap: Flap | None) -> None:
        """Let its links flap, or no more; one that ends at a node that is gone went with it."""
        warnings: list[str] = []
        for link in fault.links:
            if all(end in self._fleet.members for end in ends_of(link)):
                placed = self._fleet.roster.placed(link)
                await self._controls.links.flap(placed, flap, self._state.asked_of_link(placed), warnings)
        for warning in warnings:
            self._event_log.tell(Severity.WARN, warning)

    async def resume_flaps(self, node: str) -> None:
        """The node's agent began again without what it held: what is recorded goes on at both ends."""
        async with self._turns.change(anyway=True):
            await self._state.read_document()
            for fault in self._state.faults:
                if any(node in ends_of(link) for link in fault.links):
                    await self._flap(fault, flap_of(fault))

    # -- taking it back

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        """Take back what `text` means, all for None; answers what that was, the newest first, and what
        servers that it had ended came back without. Raises UsageError where nothing of that kind is in force.
        """
        await self._state.read_document()
        meant = [each for each in self._state.requested.faults if clears(each, text, self._fleet.roster)]
        if not meant and text is not None:
            in_force = ", ".join(map(str, self._state.faults))
            others = f"clear one of {in_force}" if in_force else "there is nothing to clear"
            raise UsageError(f"no fault {text} is in force", others)
        if self._fleet.system.is_group:
            await self._start_ended(meant)
        cleared = await self._take_all_back(meant)
        if meant and self._fleet.system.is_group:
            await self._let_in()
        return cleared

    async def _start_ended(self, faults: Sequence[Fault]) -> None:
        """Of a group: heal links before servers start, for a member that is cut off meanwhile cannot join,
        and takes no settings while it tries (error 3724). Then let what is left go on, or start all that have
        ended, where one alone would wait for the others and answer nobody. One that another fault holds, or
        whose links stay cut, is not started."""
        system, downed = self._fleet.system, {each.node for each in faults if each.takes_down}
        for fault in faults:
            if fault.row.isolates:
                await self._give_back(fault)
        if downed and not system.starts_together:
            async with self._turns.change(anyway=True):
                await go_on_without_the_ended(self._fleet, self._report)
        await self._fleet.discover()
        held = {each.node for each in self._state.faults if each not in faults and each.takes_down}
        nodes = {each.node for each in faults} & self._fleet.members.keys()
        starts = {
            node
            for node in nodes - held - (set() if system.starts_together else downed)
            if not self._fleet.member(node).address.server_running and not self._is_cut_off(node)
        }
        await start_last_view(self._fleet, starts, self._report)
        await asyncio.gather(*(self._fleet.server_process(node).start() for node in starts))
        if late := starts - downed:
            await asyncio.gather(*(until_it_answers(self._fleet, node) for node in late))
            await self._let_in()  # while it is on its way in its variables cannot be set

    def _is_cut_off(self, node: str) -> bool:
        """Whether all links of a member are to be cut, without which its server cannot start."""
        placed = self._fleet.roster.placed
        links = (KnobName(keys.PARTITION, placed(link)) for link in self._links_of(node))
        return self._fleet.system.is_group and all(self._state.requested_value(name) == CUT for name in links)

    async def _let_in(self) -> None:
        """Nodes of a group that were away are members again."""
        async with self._turns.change(anyway=True):
            await self._fleet.discover()
            await form_group(self._fleet, self._report)
            await self._state.refresh()

    async def _take_all_back(self, faults: Iterable[Fault]) -> tuple[Cleared, ...]:
        """Undo them, the newest first, each under a mark of its own."""
        cleared = []
        # Room on a disk first: without it a server may not start.
        for fault in sorted(faults, key=lambda fault: (fault.kind != "disk_full", -fault.number)):
            comeback: Comeback | None = None
            async with self.marked(f"{_UNDO}{fault}"):
                if fault.node in self._fleet.members:  # else it went with its node
                    self._report(f"clearing {fault}")
                    comeback = await self._take_back(fault)
                await self._forget(fault)
            cleared.append(Cleared(fault, comeback))
        return tuple(cleared)

    async def _take_back(self, fault: Fault) -> Comeback | None:
        comeback = None
        if fault.takes_down:
            comeback = await self._start(fault)
        else:
            async with self._turns.change(anyway=True):
                await self._put(fault, on=False)
        if fault.kind == "disk_full":
            await self._start_if_it_ended(fault)
            await self._until_it_writes(self._fleet.member(fault.node))
        await self._give_back(fault)
        return comeback

    async def _start(self, fault: Fault) -> Comeback | None:
        """Start the fault's server; answers what it lost where that can be said."""
        if self._is_cut_off(fault.node):
            self._report(f"{fault.node} is cut off: its server is started when its links heal")
            return None
        await self._fleet.discover()
        returning = Return(self._state, fault.node, fault.had or Had())
        await returning.look_before()
        await self._fleet.server_process(fault.node).start()
        await until_it_answers(self._fleet, fault.node)
        if self._state.requested.alone is not None and fault.node != self._fleet.source_name:
            await self._state.write(lambda now: replace(now, alone=None))
        if self._fleet.system.is_group:  # while it is on its way in its variables cannot be set
            await self._let_in()
            return None
        return None if fault.kind == "pause" else await self._judge(returning)

    async def came_back(self, node: str) -> tuple[str, ...]:
        """What a server lost that ended by itself, or by hand, and runs again: in words; nothing of one that
        a fault has ended, which is judged when that is cleared, or was."""
        await self._state.read_document()
        is_known = node in self._judged or any(each.node == node for each in self._state.faults)
        is_known = is_known or await self._was_asked_for(node)
        self._judged.discard(node)
        if is_known or self._fleet.system.is_group:
            known = self._fleet.member(node).capabilities
            if known is not None and (known.server_uuid or node == self._fleet.source_name):
                self._state.load.acknowledged.judged(known.server_uuid)
            return ()
        found = await self._judge(Return(self._state, node, Had()))
        return () if found is None else found.words(self._fleet.outside.provider.name)

    async def _was_asked_for(self, node: str) -> bool:
        """Whether a server was started where somebody saved all rows, or set them back."""
        change = self._state.requested.data_change
        age_s = await self._fleet.outside.provider.server_age_s(node) if change else None
        if change is None or age_s is None:
            return False
        started_s = self._controls.clock.wall() - age_s
        return change.began_s <= started_s <= (change.ended_s or inf)

    async def _judge(self, returning: Return) -> Comeback | None:
        """What a server that runs again came back without; told in the log."""
        self._judged.add(returning.node)
        found = await returning.look_after()
        if found is not None:
            drift, since_s = self._controls.drift, returning.started_wall_s
            for line in await drift.keep_losses(found.node, found.losses, since_s):
                self._event_log.tell(Severity.BAD, line)
        return found

    async def _start_if_it_ended(self, fault: Fault) -> None:
        """Start the server that a full disk has ended: InnoDB aborts where it finds no room for its next redo
        file. One that is ending has a moment for that; one that another fault has ended stays as it is."""
        if any(each.node == fault.node and each.takes_down for each in self._state.faults):
            return
        patience = Patience(self._controls.clock, _ABORTS_WITHIN_S)
        while await patience.again():
            await self._fleet.discover()
            if not self._fleet.member(fault.node).address.server_running:
                self._event_log.tell(Severity.WARN, f"the full disk has ended {fault.node}: starting it")
                await self._start(fault)
                return

    async def _until_it_writes(self, member: Member) -> None:
        """A server that waits for room tries again once a minute: the fault is over with a commit."""
        if member is not self._fleet.source:
            return
        self._report(f"{member.name} retries its write within a minute: waiting for a commit")
        try:
            await member.kick.query(member.dialect.kick, deadline_s=_WRITES_WITHIN_S)
        except ReplexplorerError as error:
            self._report(f"{member.name} has not committed yet: {error.message}")

    async def _give_back(self, fault: Fault) -> None:
        """Turn back the knobs that it turned and still has, and what a restart of its node took."""
        await self._state.refresh()
        before = unkept_all(given_back(fault, self._state.faults), self._fleet.roster)
        still = {name: value for name, value in before.items() if self._state.requested_value(name) != value}
        lost = self._state.lost_values((fault.node,))
        # What a restart took may not be possible now, as semi-sync without a replica.
        _, left = await self._controls.turn_each({**lost, **still}, _UNDO, is_part=True)
        for name, error in left.items():
            if name in still:
                raise error

    async def _start_thread(self, member: Member, statement: str) -> None:
        """Start a replica's thread; a node that is the source by now, or detached, has none. One that lost
        the end of its own log would never be whole by it."""
        if await member.threads() is None:
            return
        if lost := await hole_of(self._fleet.source, member):
            self._event_log.tell(Severity.BAD, f"{member.name} is not started: it {hole_words(lost)}")
        else:
            await member.run(statement)

    # -- the record

    async def drop(self) -> None:
        """Forget all, for every server's data are replaced: ends what neither a restart nor a knob ends, and
        judges nothing."""
        for fault in self._state.requested.faults:
            if fault.kind in ("disk_stall", "disk_full", FLAP_FAULT) and fault.node in self._fleet.members:
                await self._put(fault, on=False)
            await self._forget(fault)

    async def forget_over(self) -> None:
        """Drop the records of faults that were seen to be over: a later failure of the same node is none of
        them."""
        held = self._state.faults
        for fault in self._state.requested.faults:
            if fault not in held:
                await self._forget(fault)

    async def _record(self, fault: Fault) -> Fault:
        """Add it to the stack's faults, once; answers it with its number."""

        def added(now: Requested) -> Requested:
            if any(each.id == fault.id for each in now.faults):
                return now
            number = max((each.number for each in now.faults), default=0) + 1
            return replace(now, faults=(*now.faults, replace(fault, number=number)))

        await self._state.write(added)
        numbered = next(each for each in self._state.requested.faults if each.id == fault.id)
        self._controls.drift.faults[fault.id] = numbered
        return numbered

    async def _forget(self, fault: Fault) -> None:
        await self._state.write(lambda now: replace(now, faults=without(now.faults, fault)))
        self._controls.drift.faults.pop(fault.id, None)
