"""Faults carried out and taken back: what is in force is recorded before it is done.

Law: a record is in the stack's document from before a fault begins until it is taken back, so that whoever
injected it may die. Taking back does nothing where nothing is left to be taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from replexplorer.core.change.fault_acts import acts_of
from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.fault import (
    FLAP_FAULT,
    Fault,
    FaultRequest,
    clears,
    flap_of,
    given_back,
    without,
)
from replexplorer.core.kept import kept_all, unkept_all
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Desired, KnobName
from replexplorer.core.link import CUT
from replexplorer.core.role_change import hole_words
from replexplorer.core.server.comeback import Comeback, Had, binlog_bytes
from replexplorer.core.topology import ends_of, link_between
from replexplorer.core.wire import Flap, SetDisk
from replexplorer.engine.asking import ask, execute
from replexplorer.engine.change.accounts import Accounts
from replexplorer.engine.change.comeback import Return, had_before, seen_last
from replexplorer.engine.change.joining import form_group, go_on_without_the_ended
from replexplorer.engine.change.link_change import LinkChange
from replexplorer.engine.change.marked import MarkedChanges
from replexplorer.engine.change.not_started import no_login
from replexplorer.engine.change.turns import Turns
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.fleet import STARTS_WITHIN_S, Fleet, Member
from replexplorer.engine.observe.server_sample import answers, hole_of
from replexplorer.engine.observe.sight import Sight
from replexplorer.engine.observe.transfers import TransferNews
from replexplorer.engine.outcome import Cleared, Injected, Preview
from replexplorer.engine.record.chronicle import Chronicle
from replexplorer.engine.requested import write_faults

_LOOK_EVERY_S: Final = 0.1
_WRITES_WITHIN_S: Final = 75.0
"""A server that found its disk full tries again after 60 s (manual, "How MySQL Handles a Full Disk")."""
_ABORTS_WITHIN_S: Final = 1.0
"""From InnoDB's failed assertion to the end of its process, which writes a backtrace first."""
_ENDS_A_SERVER: Final = {"kill", "stop", "pause", "power_cut"}
_ISOLATES: Final = {"isolate", "power_cut"}
"""They cut all links of a node."""
_LOSES_COMMITS: Final = {"kill", "power_cut"}
"""A server may come back without what it, or others, had."""
_CUTS_LINKS: Final = {"isolate", "partition"}
"""Before these and those the exposure meter looks, so that what it said is of the moment of the failure."""
_TO_A_REPLICAS_THREAD: Final = frozenset({"applier_stop", "receiver_stop"})
_TO_A_SERVER: Final = _ENDS_A_SERVER | {"applier_stop", "receiver_stop", "disk_stall", "disk_full"}
"""Done to a server that runs; taking one of the first back would start a server that did not."""
_UNDO: Final = "fault over: "


class Faults:
    """One stack's faults."""

    def __init__(
        self,
        sight: Sight,
        turns: Turns,
        accounts: Accounts,
        changes: MarkedChanges,
        chronicle: Chronicle,
        report: Callable[[str], None],
    ) -> None:
        """`report` hears what is waited for, and what a member that comes back is given."""
        self._sight = sight
        self._turns = turns
        self._accounts = accounts
        self._changes = changes
        self._chronicle = chronicle
        self._report = report
        self._reported = ""
        self._judged: set[str] = set()
        """Nodes whose servers were started here, and not seen to have restarted yet."""
        self._news = TransferNews(sight.fleet, report, self._report_begun)
        self._link_change = LinkChange(sight.fleet, sight.own.healing, self._tell)

    def _tell(self, text: str) -> None:
        self._chronicle.tell(Severity.INFO, text)

    def _report_begun(self, text: str, _done: float | None) -> None:
        """Say once what a member is given; how far it is stands in `status` and on the dashboard."""
        what = text.partition(":")[0]
        if what != self._reported:
            self._reported = what
            self._report(text)

    @property
    def _fleet(self) -> Fleet:
        return self._sight.fleet

    def in_force(self) -> tuple[Fault, ...]:
        """Recorded, as last read, and not seen to be over."""
        return self._sight.faults

    async def inject(
        self, request: FaultRequest, *, for_s: float | None = None, anyway: bool = False
    ) -> tuple[Injected, ...]:
        """Do this to each of its nodes, one after the other; `for_s` is only recorded: whoever calls waits.

        Raises UsageError where it is in force already or lacks what it needs, StackUnavailable, MissingPiece;
        then what was done to earlier nodes of the request is taken back.
        """
        await self._sight.refresh()
        await self._check(request)
        done: list[Injected] = []
        try:
            for node in request.nodes:
                done.append(await self._inject(request, node, for_s, anyway))
        except (ReplexplorerError, asyncio.CancelledError):
            await to_the_end(self._take_all_back([each.fault for each in done], is_mark=False))
            raise
        return tuple(done)

    def preview(self, request: FaultRequest) -> Preview:
        """What injecting it would run, what would take it back, and why it would be refused; from what is
        known, without I/O."""
        does: list[str] = []
        undoes: list[str] = []
        warnings = [str(error) for error in self._refusals(request, self._journals())]
        for node in request.nodes:
            turned = self._changes.preview(self._desired(request, node))
            dialect, links = self._fleet.member(node).dialect, self._flapping(request.kind.key, node)
            acts = acts_of(request.kind.key, request.value, node, dialect, links)
            does += [*turned.statements, *acts.does]
            undoes += [*acts.undoes, *turned.undo]
            warnings += turned.warnings
        return Preview(tuple(does), tuple(undoes), tuple(dict.fromkeys(warnings)))

    def _journals(self) -> dict[str, bool | None]:
        """By node: whether its disk was last seen to keep an undo journal."""
        return {node: disk.undo_journal for node, disk in self._sight.disks.items()}

    def _refusals(
        self, request: FaultRequest, journals: Mapping[str, bool | None]
    ) -> Iterator[ReplexplorerError]:
        """Why it cannot be injected now; a journal that nobody knows of is no reason."""
        held = {(fault.kind, fault.node) for fault in self.in_force()}
        if self._fleet.system.is_group and request.kind.key in _TO_A_REPLICAS_THREAD:
            yield UsageError(
                f"{request.kind.key}: {self._fleet.system.title} has no replica's threads to stop",
                "isolate, kill, stop and pause are for a member",
            )
        for node in request.nodes:
            if (request.kind.key, node) in held:
                yield UsageError(
                    f"{request.kind.key}@{node} is in force already", f"fault clear {request.kind.key}@{node}"
                )
            elif request.kind.key in _TO_A_SERVER and not self._fleet.member(node).address.server_running:
                yield StackUnavailable(
                    f"{request.kind.key}@{node}: its server does not run", "`replexplorer up` starts it"
                )
            flapping = {link: fault for fault in self.in_force() for link in fault.links}
            links = set() if (request.kind.key, node) in held else self._flapping(request.kind.key, node)
            for link in sorted(flapping.keys() & links):
                yield UsageError(
                    f"the link {link} flaps already: {flapping[link]}",
                    f"fault clear {FLAP_FAULT}@{flapping[link].node}",
                )
            if request.kind.key == "power_cut" and journals.get(node) is False:
                yield UsageError(
                    f"power_cut: what {node} would lose is not kept",
                    f"replexplorer set undo_journal@{node}=on, and then let it work for a while",
                )

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        """Take back what `text` means, all for None, the newest first; answers what that was, and which
        replicas have what their source lost. Raises UsageError where nothing of that kind is in force."""
        await self._sight.read_document()
        roster = self._fleet.roster
        meant = [fault for fault in self._sight.requested.faults if clears(fault, text, roster)]
        if not meant and text is not None:
            in_force = ", ".join(map(str, self.in_force()))
            others = f"in force: {in_force}" if in_force else "none of any kind is"
            raise UsageError(f"no fault {text} is in force", others)
        if self._fleet.system.is_group:
            await self._ready_to_start(meant)
        found = await self._take_all_back(meant)
        if meant and self._fleet.system.is_group:
            await self._let_in()
        return tuple(Cleared(fault, found.get(fault.number)) for fault in meant)

    async def _ready_to_start(self, faults: Sequence[Fault]) -> None:
        """Heal links before servers start: a member that is cut off meanwhile cannot join, and takes no
        settings while it tries (error 3724). Then let what is left of a group go on, or start all that have
        ended."""
        for fault in faults:
            if fault.kind in _ISOLATES:
                await self._give_back(fault)
        if not self._fleet.system.starts_together and any(each.kind in _ENDS_A_SERVER for each in faults):
            async with self._turns.change(anyway=True):
                await go_on_without_the_ended(self._fleet, self._report)
        await self._start_ended(faults)

    async def _start_ended(self, faults: Sequence[Fault]) -> None:
        """Start each server that these have ended where one alone would wait for the others, and answer
        nobody; and let in each whose links another fault had cut when its own was over."""
        together = self._fleet.system.starts_together
        ended = {each.node for each in faults if together and each.kind in ("kill", "stop", "power_cut")}
        healed = {fault.node for fault in faults if fault.kind == "isolate"}
        healed -= {fault.node for fault in faults if fault.kind in _ENDS_A_SERVER}
        await self._fleet.discover()
        left = {node for node in healed if not self._fleet.member(node).address.server_running}
        others = (fault for fault in self.in_force() if fault not in faults)
        held = {fault.node for fault in others if fault.kind in _ENDS_A_SERVER}
        held |= {node for node in ended | left if self._is_cut_off(node)}
        starts = (ended | left) - held
        await asyncio.gather(*(self._fleet.server_process(node).start() for node in starts))
        if late := starts - ended:
            await asyncio.gather(*map(self._until_it_answers, late))
            await self._let_in()  # while it is on its way in its variables cannot be set

    def _is_cut_off(self, node: str) -> bool:
        """Whether all links of a node are to be cut, without which its server cannot start."""
        placed = self._fleet.roster.placed
        links = (KnobName(keys.PARTITION, placed(link)) for link in self._links_of(node))
        is_cut = all(self._sight.requested_value(name) == CUT for name in links)
        return is_cut and self._fleet.system.is_group

    async def _let_in(self) -> None:
        """Nodes of a group that were away are members again."""
        async with self._turns.change(anyway=True):
            await self._fleet.discover()
            await form_group(self._fleet, self._report, self._news)
            await self._sight.refresh()

    async def _check(self, request: FaultRequest) -> None:
        await self._fleet.discover()  # a server may have ended since the last look
        journals: dict[str, bool | None] = {}
        if request.kind.key == "power_cut":
            for node in request.nodes:
                journals[node] = bool((await self._fleet.member(node).agent.disk()).undo_journal)
        for refusal in self._refusals(request, journals):
            raise refusal

    async def _inject(self, request: FaultRequest, node: str, for_s: float | None, anyway: bool) -> Injected:
        desired = self._desired(request, node)
        now_s = self._fleet.outside.clock.wall()
        fault = Fault(
            0,
            request.kind.key,
            request.value,
            node,
            now_s,
            None if for_s is None else now_s + for_s,
            self._turns.actor.writer,
            kept_all({name: self._sight.requested_value(name) for name in desired}, self._fleet.roster),
            self._flapping(request.kind.key, node),
        )
        self._chronicle.tell(Severity.INFO, f"injecting {fault}")
        numbered = await self._record(fault)
        title = f"fault {fault}"
        mark = None if fault.kind in _CUTS_LINKS else self._chronicle.begin_change(title)
        lost: tuple[str, ...] = ()
        try:
            if desired:
                if request.kind.key in _CUTS_LINKS:
                    await self._sight.exposures.look_before_failure()
                await self._changes.turn(desired, f"{title}: ", anyway=anyway, is_part=mark is not None)
            if mark is not None:
                lost = await self._do(numbered, self._fleet.member(node), anyway)
                self._chronicle.change_effective(mark, title, title)
        except (ReplexplorerError, asyncio.CancelledError) as error:
            if mark is not None:
                self._chronicle.change_failed(mark, f"{title} failed: {error}")
            await to_the_end(self._take_all_back([numbered], is_mark=False))
            raise
        return Injected(numbered, lost)

    def _desired(self, request: FaultRequest, node: str) -> Desired:
        """The knobs that a fault turns."""
        placed = self._fleet.roster.placed
        match request.kind.key:
            case "partition":
                return {KnobName(keys.PARTITION, placed(node)): str(request.value)}
            case "isolate" | "power_cut":
                return {KnobName(keys.PARTITION, placed(link)): CUT for link in self._links_of(node)}
            case _:
                return {}

    def _links_of(self, node: str) -> tuple[str, ...]:
        """A node's links to all others."""
        return tuple(link_between(node, peer) for peer in self._fleet.members if peer != node)

    def _flapping(self, kind: str, node: str) -> tuple[str, ...]:
        """The links that a fault makes flap: a replica's to the source, all of the source's."""
        if kind != FLAP_FAULT:
            return ()
        source = self._fleet.source_name
        return self._links_of(source) if node == source else (link_between(source, node),)

    async def _do(self, fault: Fault, member: Member, anyway: bool) -> tuple[str, ...]:
        """What no knob does; answers which files a power cut took something from."""
        async with self._turns.change(anyway=anyway):
            if fault.kind in _ENDS_A_SERVER and fault.node == self._fleet.source_name:
                await self._sight.exposures.look_before_failure()
            match fault.kind:
                case "kill":
                    fault = await self._had(fault)
                    last = await seen_last(member, self._fleet.server_process(fault.node).kill())
                    await self._had(fault, last)
                case "stop":
                    await self._fleet.server_process(fault.node).stop()
                case "pause":
                    await self._fleet.server_process(fault.node).pause()
                case "power_cut":
                    process = self._fleet.server_process(fault.node)
                    fault = await self._had(fault)
                    last = await seen_last(member, process.kill())
                    lost = await process.lose_unsynced(str(fault.value))
                    await self._had(fault, last, binlog_bytes(lost))
                    return lost
                case "applier_stop":
                    await execute(member.control, (member.dialect.stop_applier(),))
                case "receiver_stop":
                    await execute(member.control, (member.dialect.stop_io(),))
                case "disk_stall":
                    await member.agent.set_disk(SetDisk(stall_ms=float(fault.value or 0)))
                case "disk_full":
                    await member.agent.set_disk(SetDisk(full=True))
                case "flap":
                    await self._flap(fault, flap_of(fault))
        return ()

    async def _had(self, fault: Fault, last: str | None = None, lost_bytes: int = 0) -> Fault:
        """Keep with a fault what the nodes have, right before it ends a server, or what that had `last` and
        how much of its binlog went; answers it with that."""
        if fault.had is None:
            had = (await had_before(self._sight, fault.node, fault.kind)).record()
        else:
            executed = {**fault.had["executed"], **({fault.node: last} if last else {})}
            had = {**fault.had, "executed": executed, "binlog_bytes": lost_bytes}
        kept = replace(fault, had=had)
        if not self._fleet.system.is_group:
            await self._write(
                lambda faults: [kept if each.number == kept.number else each for each in faults]
            )
        return kept

    async def _flap(self, fault: Fault, flap: Flap | None) -> None:
        """Let its links flap, or no more; one that ends at a node that is gone went with it."""
        roster = self._fleet.roster
        for link in fault.links:
            if all(end in self._fleet.members for end in ends_of(link)):
                placed, warnings = roster.placed(link), list[str]()
                await self._link_change.flap(placed, flap, self._sight.asked_of_link(placed), warnings)
                for warning in warnings:
                    self._chronicle.tell(Severity.WARN, warning)

    async def resume_flaps(self, node: str) -> None:
        """The node's agent began again without what it held: what is recorded goes on at both ends."""
        async with self._turns.change(anyway=True):
            await self._sight.read_document()
            for fault in self.in_force():
                if any(node in ends_of(link) for link in fault.links):
                    await self._flap(fault, flap_of(fault))

    async def _take_all_back(
        self, faults: Iterable[Fault], *, is_mark: bool = True
    ) -> Mapping[int, Comeback]:
        """Undo them, the newest first; that is a mark of its own unless it only ends what failed. Answers by
        number what a server that is back lost."""
        found: dict[int, Comeback] = {}
        # Room on a disk first: without it a server may not start.
        for fault in sorted(faults, key=lambda fault: (fault.kind != "disk_full", -fault.number)):
            is_marked = not is_mark
            if fault.node in self._fleet.members:  # else it went with its node
                self._chronicle.tell(Severity.INFO, f"clearing {fault}")
                if fault.kind in _LOSES_COMMITS:
                    comeback = await self._start(fault)
                    found |= {} if comeback is None else {fault.number: comeback}
                is_marked = await self._take_back(fault) or is_marked
            await self._forget(fault)
            text = f"{_UNDO}{fault}"
            if is_marked:
                self._chronicle.tell(Severity.GOOD, text)
            else:
                self._chronicle.change_effective(self._chronicle.begin_change(text), text, text)
        return found

    async def _start(self, fault: Fault) -> Comeback | None:
        """Start the fault's server; answers what it lost where that can be said."""
        if self._is_cut_off(fault.node):
            self._report(f"{fault.node} is cut off: its server is started when its links heal")
            return None
        await self._fleet.discover()
        returning = Return(self._sight, fault.node, Had.read(fault.had))
        await returning.look_before()
        await self._fleet.server_process(fault.node).start()
        await self._until_it_answers(fault.node)
        if self._fleet.system.is_group:  # while it is on its way in its variables cannot be set
            await self._let_in()
            return None
        return None if fault.kind == "pause" else await self.judge(returning)

    async def came_back(self, node: str) -> tuple[str, ...]:
        """What a server lost that ended by itself, or by hand, and runs again: in words; nothing of one that
        a fault has ended, which is judged when that is cleared, or was."""
        await self._sight.read_document()
        is_known = node in self._judged or any(each.node == node for each in self.in_force())
        self._judged.discard(node)
        if is_known or self._fleet.system.is_group:
            known = self._fleet.member(node).capabilities
            self._sight.load.acknowledged.judged(known.server_uuid if known else None)
            return ()
        found = await self.judge(Return(self._sight, node, None))
        return () if found is None else found.words(self._fleet.outside.provider.name)

    async def judge(self, returning: Return) -> Comeback | None:
        """What a server that runs again came back without; told in the log."""
        self._judged.add(returning.node)
        found = await returning.look_after()
        for line in () if found is None else found.words(self._fleet.outside.provider.name):
            self._chronicle.tell(Severity.BAD, line)
        return found

    async def _start_if_it_ended(self, fault: Fault) -> None:
        """Start the server that a full disk has ended: InnoDB aborts where it finds no room for its next redo
        file. One that is ending has a moment for that; one that another fault has ended stays as it is."""
        if any(each.node == fault.node and each.kind in _ENDS_A_SERVER for each in self.in_force()):
            return
        clock = self._fleet.outside.clock
        ends_s = clock.monotonic() + _ABORTS_WITHIN_S
        while clock.monotonic() < ends_s:
            await self._fleet.discover()
            if not self._fleet.member(fault.node).address.server_running:
                self._chronicle.tell(Severity.WARN, f"the full disk has ended {fault.node}: starting it")
                await self._start(fault)
                return
            await clock.sleep(_LOOK_EVERY_S)

    async def _take_back(self, fault: Fault) -> bool:
        """Undo it; whether knobs were turned for that, which has a mark of its own."""
        member = self._fleet.member(fault.node)
        match fault.kind:
            case "stop" | "pause":
                await self._start(fault)
            case "applier_stop":
                await self._start_thread(member, member.dialect.start_applier())
            case "receiver_stop":
                await self._start_thread(member, member.dialect.start_io())
            case "disk_stall":
                await member.agent.set_disk(SetDisk(stall_ms=0))
            case "disk_full":
                await member.agent.set_disk(SetDisk(full=False))
                await self._start_if_it_ended(fault)
                await self._until_it_writes(member)
            case "flap":
                async with self._turns.change(anyway=True):
                    await self._flap(fault, None)
        return await self._give_back(fault)

    async def _until_it_writes(self, member: Member) -> None:
        """A server that waits for room tries again once a minute: the fault is over with a commit."""
        if member is not self._fleet.source:
            return
        self._report(f"{member.name} tries its write again within a minute: waiting for a commit")
        try:
            await execute(member.kick, (member.dialect.kick(),), deadline_s=_WRITES_WITHIN_S)
        except ReplexplorerError as error:
            self._report(f"{member.name} has not committed yet: {error.message}")

    async def _give_back(self, fault: Fault) -> bool:
        """Turn back the knobs that it turned; whether there were any that it still had."""
        await self._sight.refresh()
        before = unkept_all(given_back(fault, self.in_force()), self._fleet.roster)
        still = {name: value for name, value in before.items() if self._sight.requested_value(name) != value}
        lost = self._sight.lost_values((fault.node,))
        if wanted := {**lost, **still}:
            try:
                await self._changes.turn(wanted, _UNDO, anyway=True)
            except StackUnavailable as error:
                # What a restart took may not be possible now, as semi-sync without a replica.
                if not lost:
                    raise
                self._chronicle.tell(Severity.WARN, f"not set again: {error}")
                await self._changes.turn(still, _UNDO, anyway=True)
        return bool(wanted)

    async def _start_thread(self, member: Member, statement: str) -> None:
        """Start a replica's thread; a node that is the source by now, or detached, has none. One that lost
        the end of its own log would never be whole by it."""
        if await ask(member.control, member.dialect.threads()) is None:
            return
        if lost := await hole_of(self._fleet.source, member):
            self._chronicle.tell(Severity.BAD, f"{member.name} is not started: it {hole_words(lost)}")
            return
        await execute(member.control, (statement,))

    async def _until_it_answers(self, node: str) -> None:
        """Wait for a login; raises StackUnavailable when none succeeds in time."""
        fleet = self._fleet
        clock = fleet.outside.clock
        ends_s = clock.monotonic() + STARTS_WITHIN_S
        while True:
            await fleet.discover()
            if await answers(fleet.member(node).poll):
                return
            if fleet.system.is_group:
                await self._news.look(fleet.member(node), None)
            if clock.monotonic() > ends_s:
                raise await no_login(fleet, node)
            await clock.sleep(_LOOK_EVERY_S)

    async def forget_over(self) -> None:
        """Drop the records of faults that were seen to be over: a later failure of the same node is none of
        them."""
        held = self._sight.faults
        for fault in self._sight.requested.faults:
            if fault not in held:
                await self._forget(fault)

    async def _record(self, fault: Fault) -> Fault:
        """Add it to the stack's faults, once; answers it with its number."""

        def is_it(other: Fault) -> bool:
            return replace(other, number=0) == fault

        def added(faults: Sequence[Fault]) -> Sequence[Fault]:
            if any(map(is_it, faults)):
                return faults
            return [*faults, replace(fault, number=max((each.number for each in faults), default=0) + 1)]

        await self._write(added)
        numbered = next(filter(is_it, self._sight.requested.faults))
        self._accounts.fault_recorded(numbered)
        return numbered

    async def _forget(self, fault: Fault) -> None:
        await self._write(lambda faults: without(faults, fault))
        self._accounts.fault_forgotten(fault)

    async def _write(self, change: Callable[[Sequence[Fault]], Sequence[Fault]]) -> None:
        self._sight.requested = await write_faults(self._fleet.keeper, self._fleet.roster, change)
