"""The session: one stack, watched and turned. The one surface for dashboard, verbs and labs.

`attach` is enough for a single verb; `start` brings the stack up, drives the load and keeps
looking until `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from replexplorer import __version__
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.event import Event, Severity
from replexplorer.core.experiment.sweep import Sweep
from replexplorer.core.experiment.swept import SweepReport, Swept
from replexplorer.core.hints import command
from replexplorer.core.knobs.names import (
    SOURCE,
    Assignment,
    Backing,
    Desired,
    KnobName,
    Value,
    desired_of,
    format_change,
    format_value,
    same_value,
)
from replexplorer.core.link_view import partition_words
from replexplorer.core.model.fitted import Calibration
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.replication import ThreadWatch
from replexplorer.core.tick import Tick
from replexplorer.engine.change.accounts import Accounts
from replexplorer.engine.change.bringup import Raised, bring_up, connect
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.effect import SEMI_SYNC, doubtful, switched_off, unmet
from replexplorer.engine.change.outcome import Changed, Preview, SetResult
from replexplorer.engine.change.turns import Actor, ExperimentUnderWay, Turns
from replexplorer.engine.experiment.labs.lab import Lab, LabResult
from replexplorer.engine.experiment.labs.stage import run_lab
from replexplorer.engine.experiment.labs.step import Conductor, LabWatch
from replexplorer.engine.experiment.sweep import Sweeping, Unkept
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.fleet import Fleet, Outside
from replexplorer.engine.fold import Picture
from replexplorer.engine.incidents.absence import restarts_since_the_request
from replexplorer.engine.incidents.watcher import Watcher
from replexplorer.engine.load.driver import LoadDriver
from replexplorer.engine.load.driving import Driver, Driving
from replexplorer.engine.observe.outlook import Outlook
from replexplorer.engine.observe.sight import Sight
from replexplorer.engine.observe.status import Status, take_status
from replexplorer.engine.record.chronicle import Chronicle
from replexplorer.engine.record.recording import Recording
from replexplorer.engine.view import Progress, ProgressCallback
from replexplorer.ports import Lease, LoadSettings, UpOptions

Consent = Callable[[Desired], Awaitable[bool]]
"""Whether what a restart took is to be given back."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What the composition root decides for a session."""

    holder: str
    """Who we are, for the lease and for the document: `tui`, `load`, `lab tour`, `set`."""
    up: UpOptions = field(default_factory=UpOptions)
    reapply: str = "auto"
    """auto, ask or off: whether a restarted server gets the requested values back."""
    asks: bool = False
    """Somebody sees the picture and can answer (`Tick.lost`, `give_back`)."""
    on_quit: str = "keep"
    """keep, or remove: what `close` does with a stack that this session brought up."""
    beside: bool = False
    """Drive a second load although somebody holds the lease."""
    table_size: int = 10_000
    tick_s: float = 0.5
    heartbeat: bool = False
    """Write a heartbeat a second while our load runs (observe/heartbeat.py); the dashboard alone does."""
    calibration: Calibration | None = None
    """What the model was fitted to; None: nothing is predicted."""


class Session:
    """One stack (`facade.Facade` on live servers)."""

    def __init__(self, outside: Outside, options: SessionOptions) -> None:
        self.options = options
        self.outside = outside
        self.fleet = Fleet(outside)
        self.load = LoadDriver(
            outside.load,
            interval_s=options.tick_s,
            on_end=self._load_ended,
            files=outside.workload_file,
        )
        self.chronicle = Chronicle(outside.clock)
        self.sight = Sight(self.fleet, self.load)
        self.turns = Turns(self.fleet, Actor(options.holder), self._tell_step)
        self.accounts = Accounts(self.sight, self.turns)
        self.controls = Controls(self.sight, self.turns, self.accounts, self.load, self._tell_step)
        self.watcher = Watcher(self.sight, self.accounts, self.turns, self, beats=options.heartbeat)
        driver = Driver(options.holder, options.beside, options.table_size)
        self.driving = Driving(driver, self.sight, self.load, self.chronicle)
        self.outlook = Outlook(self.sight, options.calibration)
        self._picture = Picture(
            self.sight, self.driving, self.load, self.chronicle, self.watcher, self.outlook
        )
        self.recording = Recording(outside.recorder, lambda text: self.chronicle.tell(Severity.WARN, text))
        self.narrate: Callable[[str], None] = lambda _: None
        """Called with what a change does or waits for while it is under way."""
        self._lost: dict[KnobName, Value] = {}
        """What restarts took and nobody has answered for yet."""
        self._undo: list[Desired] = []
        self._threads: dict[str, ThreadWatch] = {}
        """By replica."""
        self._created = False
        self._closed = asyncio.Event()
        self._experimenting: asyncio.Task[Any] | None = None
        """Who runs a sweep or a lab."""

    # -- beginning and ending

    async def attach(self, *, look: bool = True) -> None:
        """Reach a running stack and look at it once, or leave the look to what comes next; raises
        StackUnavailable when there is none."""
        await connect(self.fleet, lambda *_: None)
        if look:
            await self.sight.refresh()

    def _tell_step(self, text: str) -> None:
        """What a change under way does or waits for: in the log, and to whoever asked for it."""
        self.chronicle.tell(Severity.INFO, text)
        self.narrate(text)

    async def up(self, progress: ProgressCallback, consent: Consent | None = None) -> bool:
        """Create or repair the stack, wait until it answers, re-apply what was requested; with `consent`
        only where that says yes to what was lost.

        Answers whether this call created it.
        """
        return (await self._bring_up(progress, consent)).created

    async def _bring_up(self, progress: ProgressCallback, consent: Consent | None = None) -> Raised:
        """What `up` and `repair` do."""
        raised = await bring_up(
            self.fleet, self.options.up, lambda text, done: progress(Progress(text, done))
        )
        self._created = self._created or raised.created
        await self.sight.refresh()
        lost = self.sight.lost_values(self.fleet.members)
        again: list[KnobName] = []
        if lost and (consent is None or await consent(lost)):
            self._lost.clear()
            progress(Progress("re-applying what was requested"))
            await self._change(lost, "re-applied: ", anyway=True)
            again += lost
        again += [name for name in await self._mend(progress) if name not in again]
        done = [f"{', '.join(str(name) for name in again)} set again"] if again else []
        return replace(raised, repaired=(*raised.repaired, *done))

    async def _mend(self, progress: ProgressCallback) -> Collection[KnobName]:
        """Carry out again what was requested, is set and has no effect; answers what that was."""
        wanted = self.sight.requested.values
        doubted = {name: wanted[name] for name in doubtful(self.sight) if name in wanted}
        if unmet(self.sight, doubted) or (SEMI_SYNC in doubted and switched_off(self.sight)):
            progress(Progress("mending what was requested"))
            await self._change(doubted, "mended: ", anyway=True)
            return doubted
        return ()

    async def scale(self, replicas: int, progress: ProgressCallback) -> None:
        """Bring up replicas, or remove the last ones with their data, until there are so many."""
        if replicas < len(self.fleet.replicas):
            await self.outside.stack.shrink(replicas)
            await self.fleet.discover()
        elif replicas > len(self.fleet.replicas):
            await bring_up(
                self.fleet, UpOptions(replicas=replicas), lambda text, done: progress(Progress(text, done))
            )
        await self.sight.refresh()

    async def start(self, progress: ProgressCallback) -> None:
        """Attach to a live stack or bring one up, start the load, begin to look."""
        await self.load.warm_up()
        nodes = await self.outside.stack.nodes()
        whole = bool(nodes) and nodes[0].name == SOURCE
        alive = whole and nodes[0].server_running and all(node.sidecar_running for node in nodes)
        if alive:
            progress(Progress("attaching to the running stack"))
            await self.attach()
            if self.fleet.primary.capabilities is None:
                await self.up(progress, self._consent())
        else:
            await self.up(progress)
        await self._catch_up()
        await self._begin_recording()
        self.watcher.start()
        self.driving.begin()

    async def _begin_recording(self) -> None:
        """Record from here on, where the session is recorded."""
        servers = {name: member.capabilities for name, member in self.fleet.members.items()}
        await self.recording.begin(
            {
                "stack": self.outside.stack.name,
                "holder": self.options.holder,
                "began_wall_s": repr(self.outside.clock.wall()),
                "servers": ", ".join(f"{name} {known.title}" for name, known in servers.items() if known),
                "program": __version__,
            }
        )

    @asynccontextmanager
    async def observed(
        self, hear: Callable[[Event], None] = lambda _: None, see: Callable[[Tick], None] = lambda _: None
    ) -> AsyncIterator[None]:
        """Keep looking and record meanwhile, for a verb that draws no picture but hears what happens and
        sees every tick."""
        await self._begin_recording()
        self.watcher.start()
        looking = asyncio.create_task(self._look_on(hear, see), name="look on")
        kept = False
        try:
            yield
            kept = True
        finally:
            # What was refused before any load began is no session.
            kept = kept or self.load.settings is not None
            await to_the_end(self._look_no_more(looking, hear, see, kept))

    async def _look_on(self, hear: Callable[[Event], None], see: Callable[[Tick], None]) -> None:
        async for tick in self.ticks():
            see(tick)
            for event in tick.events:
                hear(event)

    async def _look_no_more(
        self,
        looking: asyncio.Task[None],
        hear: Callable[[Event], None],
        see: Callable[[Tick], None],
        kept: bool,
    ) -> None:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await self.watcher.stop()
        with contextlib.suppress(ReplexplorerError):
            await self.driving.publish_news()
            await self.sight.refresh()  # the last tick is of the end, not of the look before it
        last = self._picture.tick()
        see(last)
        self.recording.take(last)
        await self.recording.end(kept=kept)
        for event in (*last.events, *self.chronicle.take_events()):
            hear(event)

    async def _catch_up(self) -> None:
        """Restore what restarts took while no app looked."""
        servers, sidecars = await restarts_since_the_request(self.sight)
        for node in servers:
            if lost := self.sight.lost_values((node,)):
                await self._restore(f"{node} restarted while no app was attached", lost)
        for node in sidecars:
            if lost := self.sight.lost_by_sidecar(node):
                await self._restore(f"the sidecar of {node} restarted while no app was attached", lost)

    async def close(self, *, keep: bool = False) -> str:
        """Stop the load, disconnect, and say what is left; `on_quit = remove` removes what we made,
        unless it is told to `keep`."""
        self._closed.set()
        self.load.inbox.arrived.set()
        nodes = len(self.fleet.members)
        driver = await self._other_driver()
        await to_the_end(self._let_go())
        name = self.outside.stack.name
        if self._created and self.options.on_quit == "remove" and not keep:
            await self.outside.stack.down()
            return f"stack '{name}' is removed"
        if not nodes:
            return f"no stack '{name}' was reached"
        load = "no load" if driver is None else f"its load driven by {driver}"
        left = f"stack '{name}' keeps running ({nodes} servers, {load}); {command('down', name)} removes it"
        return left + self._cut_links()

    async def _other_driver(self) -> Lease | None:
        """Who drives the load when it is not us."""
        if not self.fleet.members or (self.load.is_running and not self.options.beside):
            return None
        try:
            lease = await self.fleet.primary.agent.lease()
        except ReplexplorerError:
            return None
        ours = lease is not None and (lease.pid, lease.host) == (os.getpid(), socket.gethostname())
        return None if ours else lease

    def _cut_links(self) -> str:
        """Links that stay cut, as last seen, with what heals them; empty where there are none."""
        cut = partition_words(tuple(self.sight.links.values()))
        if not cut:
            return ""
        heal = command("set", self.outside.stack.name, "partition=none")
        stays, it = ("stays", "it") if len(cut) == 1 else ("stay", "them")
        return f"; partition {', '.join(cut)} {stays}: {heal} heals {it}"

    async def _let_go(self) -> None:
        """End the tasks, the load and the connections, each whatever became of those before."""
        if self._experimenting is not None:
            self._experimenting.cancel()
            await asyncio.wait({self._experimenting})
        try:
            await self.watcher.stop()
            await asyncio.gather(self.turns.abandon(), self.driving.stop())
            await self.recording.end()
        finally:
            await self.disconnect()

    async def disconnect(self) -> None:
        """End a single verb's session."""
        try:
            await self.driving.stop()
        finally:
            await self.fleet.close()

    # -- the load

    async def drive(self, settings: LoadSettings) -> None:
        """Run a load of our own; raises StackUnavailable naming the driver when somebody drives."""
        await self.driving.drive(settings)

    def load_settings(self) -> LoadSettings:
        """The load as requested."""
        return self.driving.settings()

    async def toggle_load(self) -> bool:
        """Stop or start our load; raises StackUnavailable when another app drives it, or an experiment of
        ours does."""
        self.turns.refuse_meanwhile()
        return await self.driving.toggle()

    # -- knobs

    def parse(self, text: str) -> Assignment:
        """Read `KEY[@NODE]=VALUE` for this stack; raises UsageError."""
        return self.controls.parse(text)

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """What these would run and warn of."""
        return self.controls.preview(assignments)

    async def set(
        self, assignments: Sequence[Assignment], *, dry_run: bool = False, anyway: bool = False
    ) -> SetResult:
        """Turn knobs; can be undone. Raises UsageError, StackUnavailable, RolledBack."""
        desired = desired_of(assignments)
        if dry_run:
            return await self.controls.set(desired, dry_run=True)
        return await self.turn(desired, anyway=anyway)

    async def turn(self, desired: Desired, *, anyway: bool = False) -> SetResult:
        """Turn knobs given by name; can be undone. While an experiment of anybody runs this is refused,
        unless `anyway`."""
        if not anyway:
            self.turns.refuse_meanwhile()
        result = await self._change(desired, anyway=anyway)
        if result.changed or result.before != desired:
            self._undo.append(result.before)
        return result

    async def reset(self, *, anyway: bool = False) -> SetResult:
        """All knobs to their defaults; one undo takes all of it back."""
        return await self.turn(self.controls.reset_values(), anyway=anyway)

    async def undo(self) -> SetResult:
        """Take back the last change of this session that was not taken back yet."""
        self.turns.refuse_meanwhile()
        if not self._undo:
            raise UsageError("nothing to undo", "no knob was turned in this session")
        before = self._undo.pop()
        try:
            return await self._change(before, "undo: ")
        except BaseException:
            self._undo.append(before)
            raise

    async def _change(self, desired: Desired, prefix: str = "", *, anyway: bool = False) -> SetResult:
        """Apply, with an epoch and a mark of its own; none where nothing is to be turned."""
        title = prefix + _title_of(desired)
        numbers: list[int] = []
        try:
            result = await self.controls.set(
                desired, anyway=anyway, begun=lambda: numbers.append(self.chronicle.begin_change(title))
            )
        except asyncio.CancelledError:
            for number in numbers:
                self.chronicle.change_failed(number, f"{title} was cancelled and rolled back")
            raise
        except ReplexplorerError as error:
            for number in numbers:
                self.chronicle.change_failed(number, f"{title} failed: {error}")
            if not numbers:
                self.chronicle.tell(Severity.BAD, f"{title} refused: {error}")
            raise
        told = prefix + (_told(result.changed) or "nothing to change")
        for number in numbers:
            self.chronicle.change_effective(number, prefix + (_changes(result.changed) or title), told)
        if not numbers and (result.changed or not prefix):
            self.chronicle.tell(Severity.INFO, told)
        for warning in (*result.warnings, *result.unmet):
            self.chronicle.tell(Severity.WARN, warning)
        return result

    async def mark(self, text: str) -> None:
        """A mark of the operator's own; it begins an epoch as a change does."""
        number = self.chronicle.begin_change(text)
        self.chronicle.change_effective(number, text, text)

    async def sweep(self, wanted: Sweep, report: SweepReport, *, fresh: bool = False) -> Swept:
        """Measure every combination; on the charts a mark where it begins and one where it ends.

        Raises UsageError, StackUnavailable.
        """
        make = self.outside.sweeps
        journal = Unkept() if make is None else make(wanted.identity)
        async with (
            self._experiment("sweep", wanted.grid.text) as begun,
            self.turns.measuring("sweep", wanted.grid.text),
        ):
            return await Sweeping(self, wanted, journal, report, fresh, begun).run()

    async def lab(self, lab: Lab, *, quick: bool, watch: LabWatch, conductor: Conductor) -> LabResult:
        """Run a lab; everything it turned is given back whatever happens. Raises UsageError while another
        experiment runs, StackUnavailable when another app drives the load."""
        async with self._experiment("lab", lab.name) as begun:
            result = await run_lab(self, lab, quick=quick, watch=watch, conductor=conductor, begun=begun)
        if result.aborted is not None:
            self.chronicle.tell(Severity.BAD, f"the lab was aborted: {result.aborted}")
        return result

    @asynccontextmanager
    async def _experiment(self, kind: str, what: str) -> AsyncIterator[Callable[[], None]]:
        """One at a time; between two marks once it has begun, which it tells by calling what this gives."""
        if self._experimenting is not None:
            raise UsageError("a sweep or a lab runs already", "stop it first")
        began = False

        def begun() -> None:
            nonlocal began
            began = True
            number = self.chronicle.begin_change(f"{kind} {what}")
            self.chronicle.tell(Severity.MARK, f"a {kind} begins: {what}", mark=number)

        told = f"the {kind} was stopped"
        self._experimenting = asyncio.current_task()
        try:
            yield begun
            told = f"the {kind} is done"
        except ReplexplorerError as error:
            told = f"the {kind} ended: {error}"
            raise
        finally:
            self._experimenting = None
            if began:
                number = self.chronicle.begin_change(f"after the {kind}")
                self.chronicle.change_effective(
                    number, f"after the {kind}", f"{told}; the knobs are restored"
                )

    async def repair(self, progress: ProgressCallback) -> tuple[str, ...]:
        """Bring dead nodes back, start stopped replication threads, re-apply what was requested, as `up`
        does; answers what was done, nothing when all was well. Raises StackUnavailable while a lab or a
        sweep runs, which stops threads on purpose."""
        if running := await self.turns.experiment():
            raise ExperimentUnderWay(running)
        repaired = (await self._bring_up(progress)).repaired
        if repaired:
            self.chronicle.tell(Severity.GOOD, f"repaired: {'; '.join(repaired)}")
        return repaired

    # -- what happens by itself

    def reachable_seen(self, node: str, reachable: bool) -> None:
        """A node's server went away, or came back."""
        if reachable:
            self.chronicle.tell(Severity.GOOD, f"{node} answers again")
        else:
            self.chronicle.tell(Severity.BAD, f"{node} is down: no login succeeds")

    def threads_seen(self, view: NodeView) -> None:
        """A replica's threads at this look; while a change is under way they come and go with it."""
        if self.chronicle.unchanged_since_s == inf:
            return
        told = self._threads.setdefault(view.name, ThreadWatch()).seen(view)
        if told is not None:
            self.chronicle.tell(*told)

    async def server_restarted(self, node: str) -> None:
        """A server restarted and lost what SET GLOBAL had set: restore it as configured."""
        self.chronicle.server_restarted(node)
        if node == SOURCE:
            self.sight.own.offs = 0
        await self.sight.look_at_links()
        await self._restore(f"{node} restarted", self.sight.lost_values((node,)))

    async def sidecar_restarted(self, node: str) -> None:
        """A sidecar's agent began anew without its rules: restore links and disk as configured."""
        await asyncio.gather(self.sight.look_at_links(), self.sight.look_at_disks())
        await self._restore(f"the sidecar of {node} restarted", self.sight.lost_by_sidecar(node))

    async def primary_moved(self) -> None:
        """The primary answers at another place, or to another password: our load begins anew there."""
        if self.load.target is not None and await self.driving.target() != self.load.target:
            await self.driving.stop()
            self.driving.begin()

    def stack_seen(self, is_there: bool) -> None:
        """All that was of the stack has gone, or something of its name is there again."""
        self.load.lose(None if is_there else f"stack '{self.outside.stack.name}' was removed")
        if self.load.lost is not None:
            self.chronicle.tell(Severity.BAD, self.load.lost)

    async def stack_remade(self) -> None:
        """Another stack has this one's name now: nothing that was turned is so any more."""
        self._undo.clear()
        self._lost.clear()
        self.sight.forget()
        self.accounts.forget()
        await self.sight.read_document()
        self.chronicle.tell(
            Severity.WARN, "the stack was removed and created again: its knobs and rows are new"
        )

    async def _restore(self, what: str, lost: Desired) -> None:
        """Give back what was lost as configured: at once, after a question, or not at all."""
        if not lost:
            self.chronicle.tell(Severity.WARN, what)
            return
        names = ", ".join(str(name) for name in lost)
        if self.options.reapply != "auto" and not self._asks:
            self.chronicle.tell(Severity.WARN, f"{what} and lost {names} (reapply = {self.options.reapply})")
            return
        self.chronicle.tell(Severity.WARN, f"{what} and lost {names}")
        if self._asks:
            self._lost.update(lost)
        else:
            await self._reapply(lost)

    @property
    def _asks(self) -> bool:
        return self.options.reapply == "ask" and self.options.asks

    def _consent(self) -> Consent | None:
        """Of a start: where one is to be asked, the picture asks once it is there."""
        if not self._asks:
            return None

        async def later(lost: Desired) -> bool:
            self._lost.update(lost)
            return False

        return later

    def lost(self) -> Desired:
        """What restarts took, is still not so, and waits for `give_back`."""
        if self._lost:
            still = self.sight.lost_values(self.fleet.members)
            self._lost = {name: value for name, value in self._lost.items() if name in still}
        return self._lost

    async def give_back(self, yes: bool) -> None:
        """The answer to what was lost: re-apply it, or leave it and do not ask again."""
        lost, self._lost = self.lost(), {}
        if lost and yes:
            await self._reapply(lost)
        elif lost:
            self.chronicle.tell(Severity.INFO, f"left as it came: {', '.join(map(str, lost))}")

    async def _reapply(self, lost: Desired) -> None:
        """All of it, or else one by one as much as can be."""
        for part in (lost, *({name: value} for name, value in lost.items())):
            try:
                await self._change(part, "re-applied: ", anyway=True)
            except ReplexplorerError:  # `_change` has told it
                continue
            if part is lost:
                await self.controls.confirm()
                return

    def _load_ended(self, why: str) -> None:
        """Our load's process ended by itself."""
        self.chronicle.tell(Severity.BAD, why)

    async def written_elsewhere(self, changed: Desired, before: Desired, writer: str) -> None:
        """Another app turned knobs: mark it, and let our load follow."""
        title = ", ".join(
            format_change(name, before.get(name, name.knob.default), value) for name, value in changed.items()
        )
        number = self.chronicle.begin_change(title)
        load = {name.key: value for name, value in changed.items() if name.knob.backing is Backing.LOAD}
        try:
            if load and self.load.is_running:
                await self.load.change(load)
        except ReplexplorerError as error:
            self.chronicle.change_failed(number, f"{title}, by {writer}: our load did not follow: {error}")
            return
        self.chronicle.change_effective(number, title, f"{title}, by {writer}")

    def set_by_hand(self, node: str, changes: Mapping[KnobName, tuple[Value, Value]]) -> None:
        """Somebody who is no app of ours set variables of a server: mark it."""
        title = ", ".join(format_change(name, before, now) for name, (before, now) in changes.items())
        again = all(
            same_value(name.knob, self.sight.requested_value(name), now) for name, (_, now) in changes.items()
        )
        whose = f"by hand on {node}, as requested again" if again else f"by hand on {node}"
        self.chronicle.set_by_hand(node, title, f"{title}, {whose}")

    def errant_seen(self, node: str, gtids: str) -> None:
        """A replica has transactions that the primary lacks, or has none any more."""
        if not gtids:
            self.chronicle.tell(Severity.GOOD, f"{node} has no transaction any more that the primary lacks")
            return
        count = gtid_count(gtids)
        what = f"{count:,} transaction{'' if count == 1 else 's'}"
        self.chronicle.tell(Severity.BAD, f"{node} has {what} that the primary lacks: {gtids}")

    async def lease_seen(self, lease: Lease | None) -> None:
        """Who drives the load now."""
        await self.driving.lease_seen(lease)

    # -- the picture

    async def ticks(self) -> AsyncIterator[Tick]:
        """The picture: with each interval of the load, else every `tick_s`.

        A defect that ended the looking is raised here, where somebody sees it: the picture would stand.
        """
        while not self._closed.is_set():
            if self.watcher.failed is not None:
                raise self.watcher.failed
            self.load.inbox.arrived.clear()
            tick = self._picture.tick()
            self.recording.take(tick)
            yield replace(tick, lost=tuple(_asked(name, value) for name, value in self.lost().items()))
            try:
                # A running load sets the pace; an interval that is a little late brings no second tick.
                async with asyncio.timeout(self.options.tick_s * (1.5 if self.load.is_running else 1.0)):
                    await self.load.inbox.arrived.wait()
            except TimeoutError:
                continue

    async def status(self, *, patient: bool = False) -> Status:
        """Everything at one moment, looked at now; needs no `attach`. What is silent beside the rest is not
        waited for, unless one is `patient`. Raises StackUnavailable when there is no stack."""
        return await take_status(self.sight, patient=patient)


def _asked(name: KnobName, value: Value) -> str:
    """A request in words: `sync_binlog 0`."""
    return f"{name} {format_value(name.knob, value)}"


def _title_of(desired: Desired) -> str:
    """What is asked, in a few words."""
    if len(desired) > 4:
        return f"{len(desired)} knobs"
    return ", ".join(f"{name} {value}" for name, value in desired.items())


def _changes(changed: Sequence[Changed]) -> str:
    """What changed, in a few words: `rtt 20 -> 85 ms`."""
    if len(changed) > 3:
        return f"{len(changed)} knobs"
    return ", ".join(format_change(change.name, change.before, change.requested) for change in changed)


def _told(changed: Sequence[Changed]) -> str:
    """The log's line of a change: its statements where it has some."""
    statements = dict.fromkeys(statement for change in changed for statement in change.statements)
    return "; ".join(statements) if 0 < len(statements) <= 2 else _changes(changed)
