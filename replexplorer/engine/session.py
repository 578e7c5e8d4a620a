"""The session: one live stack, watched, and turned by its console.

`attach` is enough for a single verb; `start` brings the stack up, drives the load and keeps
looking until `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from replexplorer import __version__
from replexplorer.core.dialect.dialect import Capabilities
from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.event import Event, Severity
from replexplorer.core.knobs.names import KnobName, KnobView
from replexplorer.core.link import partition_words
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.server.waits import ServerWaits
from replexplorer.core.system import System
from replexplorer.core.text import command
from replexplorer.core.topology import Roster
from replexplorer.core.wire import Lease
from replexplorer.engine.change.bringup import connect
from replexplorer.engine.change.change_lock import Actor, ChangeLock
from replexplorer.engine.change.controls import Controls, unmet
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.restore import Consent, Restorer
from replexplorer.engine.change.roles import RoleChanges
from replexplorer.engine.change.saved_data import SavedStates
from replexplorer.engine.console import Console
from replexplorer.engine.experiment.restore_guard import finish_killed
from replexplorer.engine.experiment.stack_api import StackApi
from replexplorer.engine.fleet import Fleet, Outside
from replexplorer.engine.load import Driving, LoadDriver
from replexplorer.engine.monitor import Monitor
from replexplorer.engine.observe.predictor import Predictor
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.observe.status import take_status
from replexplorer.engine.observe.waits import waits_of
from replexplorer.engine.outcome import Status
from replexplorer.engine.record import EventLog, Recording
from replexplorer.engine.requested import SharedMark, claim_run
from replexplorer.engine.tasks import end_all, to_the_end
from replexplorer.engine.ticks import TickMaker
from replexplorer.ports import Ability, LoadSettings, Reporter, UpOptions

if TYPE_CHECKING:
    from replexplorer.core.dialect.schema import SchemaFinding
    from replexplorer.core.model.fitted import Calibration
    from replexplorer.core.rows import RowsChecked
    from replexplorer.core.tick import Tick


@frozen
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
    """Drive a second load although another app holds the lease."""
    table_size: int = 10_000
    processes: int = 0
    """Of the generator; 0: as many as the load is worth."""
    tick_s: float = 0.5
    heartbeat: bool = False
    """Write a heartbeat a second while our load runs (`load.Heartbeat`); the dashboard alone does."""
    calibration: Calibration | None = None
    """What the model was fitted to; None: nothing is predicted."""
    watches: bool = False
    """Nothing is brought up, driven or restored (`Spectator`)."""
    at_close: Callable[[], Awaitable[object]] | None = None
    """Awaited to its end when the view is closed, however that ends: gives attached servers back the values
    that their variables had."""


class Session:
    """One stack as it lives (`view.View`)."""

    player: Final = None
    """Its time goes by itself."""

    def __init__(self, outside: Outside, options: SessionOptions) -> None:
        self.options = options
        self.outside = outside
        self.fleet = Fleet(outside)
        self.event_log = EventLog(outside.clock)
        logs = outside.client_logs
        self.load = LoadDriver(
            outside.load,
            interval_s=options.tick_s,
            on_end=partial(self.event_log.tell, Severity.BAD),
            files=outside.workload_file,
            new_run=None
            if logs is None
            else partial(logs.new_run, lambda least: claim_run(self.fleet.keeper, self.fleet.roster, least)),
        )
        self.state = StackState(self.fleet, self.load)
        self.turns = ChangeLock(self.fleet, Actor(options.holder), self._tell_step)
        self.controls = Controls(self.state, self.turns, self.load, self.event_log, self._tell_step)
        self.driving = Driving(
            options.holder,
            self.state,
            self.load,
            self.event_log,
            bare=LoadSettings(0, "", options.table_size, processes=options.processes),
            beside=options.beside,
        )
        faults = Faults(self.controls)
        self.roles = RoleChanges(self.controls, self.driving)
        self.predictor = Predictor(self.state, options.calibration)
        self.rig = StackApi(
            self.controls,
            self.load,
            self.driving,
            self.predictor,
            faults,
            self.roles,
            reapplies=options.reapply == "auto",
        )
        """What experiments work with."""
        self.restorer = Restorer(
            self.controls,
            faults,
            self.roles,
            options.up,
            options.reapply,
            options.asks,
            partial(finish_killed, self.rig),
        )
        self.monitor = Monitor(
            self.controls,
            self.restorer,
            self.load,
            self.driving,
            faults,
            beats=options.heartbeat,
            only_watches=options.watches,
        )
        self._picture = TickMaker(
            self.state, self.driving, self.load, self.event_log, self.monitor, self.predictor
        )
        saved = SavedStates(self.controls, faults, self.restorer)
        self.console = Console(
            self.controls, self.driving, faults, self.roles, self.restorer, self.rig, saved, self._share_mark
        )
        self.monitor.on_remade = self.console.forget
        self.recording = Recording(outside.recorder, partial(self.event_log.tell, Severity.WARN))
        self.narrate: Callable[[str], None] = lambda _: None
        """Called with what a change does or waits for while it is under way."""
        self._closed = asyncio.Event()

    # -- beginning and ending

    async def attach(self, *, look: bool = True) -> None:
        """Reach a running stack and look at it once, or leave the look to what comes next; raises
        StackUnavailable when there is none."""
        await connect(self.fleet, lambda *_: None)
        found = not self.fleet.can(Ability.OWN)
        if look or found:
            await self.state.refresh()
        if found:  # whoever made these servers wants them as they are
            await self.controls.request(self.state.found_values())

    def _tell_step(self, text: str) -> None:
        """What a change under way does or waits for: in the log, and to whoever asked for it."""
        self.event_log.tell(Severity.INFO, text)
        self.narrate(text)

    async def up(self, report: Reporter, consent: Consent | None = None) -> bool:
        """Create or repair the stack, wait until it answers, re-apply what was requested; with `consent`
        only where that says yes to what was lost.

        Answers whether this call created it.
        """
        return (await self.restorer.bring_up(report, consent)).created

    async def start(self, report: Reporter) -> None:
        """Attach to a live stack or bring one up, start the load, begin to look; servers that are not ours to
        make are attached to, and looked at."""
        if not self.fleet.can(Ability.OWN):
            await self.watch(report)
            return
        await self.load.warm_up()
        nodes = await self.outside.provider.nodes()
        alive = any(node.server_running for node in nodes) and all(node.sidecar_running for node in nodes)
        if alive:
            report("connecting to the running stack")
            await self.attach()
            if self.fleet.source.capabilities is None:
                await self.up(report, self.restorer.later if self.restorer.asks else None)
            else:
                await self.roles.settle()
                await finish_killed(self.rig)
        else:
            await self.up(report)
        await self.restorer.catch_up(self.state.requested.written_s)
        await self._begin_recording()
        self.monitor.start()
        self.driving.begin()

    async def watch(self, report: Reporter) -> None:
        """Attach to a live stack and begin to look, and nothing else; raises NoSuchStack."""
        own = self.fleet.can(Ability.OWN)
        report("connecting to the running stack" if own else f"connecting to {self.name}")
        await self.attach()
        self.monitor.start()

    async def _begin_recording(self) -> None:
        """Record from here on, where the session is recorded."""
        members = self.fleet.members.values()
        servers = (f"{each.name} {each.capabilities.title}" for each in members if each.capabilities)
        await self.recording.begin(
            {
                "stack": self.name,
                "holder": self.options.holder,
                "began_wall_s": repr(self.outside.clock.wall()),
                "servers": ", ".join(servers),
                "program": __version__,
            }
        )

    @asynccontextmanager
    async def observed(
        self, hear: Callable[[Event], None] = lambda _: None, see: Callable[[Tick], None] = lambda _: None
    ) -> AsyncIterator[None]:
        """Keep looking and record meanwhile, for a verb that draws no picture but hears what happens and
        sees every tick."""

        def take(tick: Tick) -> None:
            see(tick)
            for event in tick.events:
                hear(event)

        async def look_on() -> None:
            async for tick in self.ticks():
                take(tick)

        async def look_no_more() -> None:
            await end_all(looking)
            await self.monitor.stop()
            with contextlib.suppress(ReplexplorerError):
                await self.driving.publish_news()
                await self.state.refresh()  # the last tick is of the end, not of the look before it
            last = self._picture.tick()
            self.recording.take(last)
            take(last)
            await self.recording.end(kept=done or self.load.settings is not None)
            for event in self.event_log.take_events():
                hear(event)

        await self._begin_recording()
        self.monitor.start()
        looking, done = asyncio.create_task(look_on(), name="look on"), False
        try:
            yield
            done = True
        finally:  # what was refused before any load began is no session
            await to_the_end(look_no_more())

    async def close(self, *, keep: bool = False) -> str:
        """Stop the load, disconnect, and say what is left, of servers that are not ours nothing; `on_quit =
        remove` removes what we made, unless it is to be kept (`keep`)."""
        self._closed.set()
        self.load.inbox.arrived.set()
        nodes = len(self.fleet.members)
        driver = await self._other_driver()
        await to_the_end(self._let_go())
        name = self.name
        if not self.fleet.can(Ability.OWN):
            return ""
        if self.restorer.created and self.options.on_quit == "remove" and not keep:
            await self.outside.provider.down()
            return f"stack '{name}' is removed"
        if not nodes:
            return f"no stack '{name}' was reached"
        load = "no load" if driver is None else f"its load driven by {driver}"
        left = f"stack '{name}' keeps running ({nodes} servers, {load}); {command('down', name)} removes it"
        return left + self._broken()

    async def _other_driver(self) -> Lease | None:
        """Who drives the load when it is not us."""
        if not self.fleet.members or (self.load.is_running and not self.options.beside):
            return None
        try:
            lease = await self.fleet.keeper.lease()
        except ReplexplorerError:
            return None
        return lease if self.turns.actor.is_other(lease) else None

    def _broken(self) -> str:
        """What stays broken on purpose, as last seen, with what clears it; empty if nothing does."""
        faults = self.state.faults
        if faults:
            mend, name = command("fault", self.name, "clear"), ", ".join(map(str, faults))
            return f"; {name} {'stays' if len(faults) == 1 else 'stay'} in force: {mend} undoes all"
        cut = partition_words((*self.state.links.values(), *self.state.pairs.values()))
        if not cut:
            return ""
        heal = command("set", self.name, "partition=none")
        return f"; partition {', '.join(cut)} {'stays' if len(cut) == 1 else 'stay'}: {heal} heals it"

    async def _let_go(self) -> None:
        """End the tasks, the load and the connections, each whatever became of those before."""
        try:
            await self.rig.abandon()
            await self.monitor.stop()
            await asyncio.gather(self.turns.abandon(), self.driving.stop())
            await self.recording.end()
        finally:
            try:
                await self.disconnect()
            finally:
                if self.options.at_close is not None:
                    await self.options.at_close()

    async def disconnect(self) -> None:
        """End a single verb's session."""
        try:
            await self.driving.stop()
        finally:
            await self.fleet.close()

    # -- the load

    async def drive(self, settings: LoadSettings) -> None:
        """Run a load of our own, after restoring what a killed experiment changed; raises StackUnavailable
        naming the driver when another app drives."""
        await finish_killed(self.rig)
        await self.driving.drive(settings)

    async def _share_mark(self, text: str) -> None:
        """Keep a mark with the stack, for all who watch."""
        mark = SharedMark(uuid.uuid4().hex, text, self.turns.actor.writer)
        self.controls.drift.marks.add(mark.id)
        with contextlib.suppress(ReplexplorerError):  # it stands on our own charts
            await self.state.write(lambda now: now.with_marks(mark))

    # -- the picture

    async def ticks(self) -> AsyncIterator[Tick]:
        """The picture: with each interval of the load, else every `tick_s`.

        A defect that ended the looking is raised here, where somebody sees it: the picture would stand.
        """
        while not self._closed.is_set():
            if self.monitor.failed is not None:
                raise self.monitor.failed
            self.load.inbox.arrived.clear()
            tick = self._picture.tick()
            self.recording.take(tick)
            yield replace(tick, lost=self.restorer.words())
            try:
                # A running load sets the pace; an interval that is a little late brings no second tick.
                async with asyncio.timeout(self.options.tick_s * (1.5 if self.load.is_running else 1.0)):
                    await self.load.inbox.arrived.wait()
            except TimeoutError:
                continue

    def past(self) -> Iterator[Tick]:
        """See `view.View`."""
        return self.recording.past()

    # -- questions

    @property
    def name(self) -> str:
        """The stack's name."""
        return self.outside.provider.name

    @property
    def server(self) -> Capabilities | None:
        """What the source's server has; None until it was reached."""
        return self.fleet.source.capabilities

    @property
    def roster(self) -> Roster:
        """The names by which nodes are addressed."""
        return self.fleet.roster

    @property
    def system(self) -> System:
        """What the stack is."""
        return self.fleet.system

    def unmet(self) -> tuple[str, ...]:
        """What is requested, set and without effect, each in a line."""
        return unmet(self.state, self.state.requested.values)

    def knobs(self) -> dict[KnobName, KnobView]:
        """Every knob that the servers have, requested and effective, as last looked at."""
        return self.state.views()

    async def check_schema(self, node: str, databases: Sequence[str]) -> tuple[SchemaFinding, ...]:
        """What of a node's tables hurts replication, in these databases or in all of the user's; raises
        UsageError for a database that is not there, StackUnavailable when the node is down."""
        from replexplorer.engine.observe.tables import schema_findings

        return await schema_findings(self.fleet.member(node), databases)

    async def check_rows(self, names: Sequence[str], report: Reporter) -> RowsChecked:
        """Whether these tables (`DATABASE`, `DATABASE.TABLE`; none: all of the user's) have the same rows on
        all nodes; raises UsageError for a name that means none, StackUnavailable when the source is down."""
        from replexplorer.engine.observe.rows import RowComparison

        return await RowComparison(self.fleet, report).run(names)

    def waits(self) -> AsyncGenerator[ServerWaits, None]:
        """See `view.View`; its second value is the first with rates of statements."""
        return waits_of(self.fleet)

    @property
    def file(self) -> str | None:
        """Where the session is, or was, recorded; None when it is not."""
        return self.recording.file

    async def status(self) -> Status:
        """Everything at one moment, looked at now; needs no `attach`. Raises StackUnavailable where there is
        none."""
        return await take_status(self.state)


HOLDER: Final = "view"
"""How a spectator is called."""
_AGAIN_S: Final = 1.0
"""Between two looks for a stack that is waited for."""


class Spectator:
    """What others do with a stack (`view.View`): their load, changes, faults and marks. Nothing is brought
    up, driven, restored or recorded."""

    console: Final = None
    """Nothing can be done here."""
    player: Final = None
    """Its time goes by itself."""

    def __init__(
        self, outside: Outside, *, calibration: Calibration | None = None, patient: bool = False
    ) -> None:
        """`patient`: a stack that is not there yet is waited for."""
        options = SessionOptions(holder=HOLDER, reapply="off", calibration=calibration, watches=True)
        self._patient = patient
        self._session = Session(replace(outside, recorder=None), options)

    async def start(self, report: Reporter) -> None:
        """Attach to the running stack; raises StackUnavailable if there is none, or no login succeeds."""
        while True:
            try:
                return await self._session.watch(report)
            except StackUnavailable:
                if not self._patient:
                    raise
            report("waiting for the stack")
            await self._session.outside.clock.sleep(_AGAIN_S)

    def ticks(self) -> AsyncIterator[Tick]:
        """See `view.View`."""
        return self._session.ticks()

    def past(self) -> Iterator[Tick]:
        """See `view.View`."""
        return self._session.past()

    def waits(self) -> AsyncGenerator[ServerWaits, None]:
        """See `view.View`."""
        return self._session.waits()

    async def close(self, *, keep: bool = False) -> str:
        """Let go of the stack, which stays as it is; answers nothing."""
        await self._session.close(keep=True)
        return ""
