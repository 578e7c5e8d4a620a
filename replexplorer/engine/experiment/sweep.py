"""Running a sweep: every cell settled and measured, kept in a journal, the knobs given back.

Law: whatever ends it - a failure, a cancel, a dead server - the knobs are restored. Only a kill
leaves them as they were at that cell; the journal's next reader restores them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from replexplorer.core.change.planner import make_plan
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.experiment.sweep import SETTLING_S, Cell, Sweep
from replexplorer.core.experiment.sweep_runs import ATTEMPTS, SweptRun
from replexplorer.core.experiment.swept import SweepProgress, SweepReport, Swept
from replexplorer.core.knobs.names import SOURCE, KnobName, Value, parse_name
from replexplorer.core.load.pacing import OPEN
from replexplorer.engine.experiment.baseline import Baseline
from replexplorer.engine.experiment.cell_run import CellRun
from replexplorer.engine.finish import to_the_end
from replexplorer.ports import Clock, SweepJournal

if TYPE_CHECKING:
    from replexplorer.engine.session import Session

_CLIENTS: Final = KnobName("clients", "load")


class Unkept:
    """A journal that nobody keeps (`ports.SweepJournal`)."""

    async def read(self) -> Sequence[Mapping[str, Any]]:
        """Nothing."""
        return ()

    async def begin(self, head: Mapping[str, Any]) -> None:
        """Forget it."""

    async def append(self, entry: Mapping[str, Any]) -> None:
        """Forget it."""

    async def set_aside(self) -> str | None:
        """There is nothing."""
        return None


@dataclass(slots=True)
class Sweeping:
    """One sweep under way."""

    session: Session
    sweep: Sweep
    journal: SweepJournal
    report: SweepReport
    fresh: bool = False
    begun: Callable[[], None] = lambda: None
    """Called when nothing can refuse it any more."""
    runs: list[SweptRun] = field(default_factory=list)
    kept: dict[KnobName, Value] = field(default_factory=dict)
    """What was requested of the swept knobs before."""
    lost: Mapping[KnobName, Value] = field(default_factory=dict)
    """What a restarted server lost, to be set again."""
    seed: int = 0
    resumed: int = 0
    """Runs that the journal had."""
    _overheads_s: list[float] = field(default_factory=list)
    _baseline: Baseline = field(init=False)

    def __post_init__(self) -> None:
        """What was not turned yet is expected as it is."""
        self._baseline = Baseline(self.session.sight)

    async def run(self) -> Swept:
        """Sweep to the end; raises UsageError before anything changes, StackUnavailable when another
        driver holds the load or a node goes down, and what the journal raises."""
        sight = self.session.sight
        await sight.refresh()
        self._check()
        began_itself = not self.session.load.is_running
        if began_itself:
            # Without clients it waits for nothing, whatever state the last sweep was killed in.
            await self.session.drive(replace(self.session.load_settings(), clients=0))
        started_wall_s = self._clock.wall()
        self.begun()
        try:
            await self._open()
            await sight.refresh()
            self._baseline.begin()
            for block in range(self.sweep.repeats):
                await self._pass(block)
            await self.journal.append({"finished_wall_s": self._clock.wall()})
        finally:
            await to_the_end(self._end(stop_load=began_itself))
        journal = await self.journal.set_aside()
        return Swept(
            self.sweep,
            self.seed,
            tuple(self.runs),
            self._server,
            min((run.started_wall_s for run in self.runs), default=started_wall_s),
            self._clock.wall(),
            self.resumed,
            journal,
        )

    @property
    def _clock(self) -> Clock:
        return self.session.outside.clock

    @property
    def _server(self) -> str:
        capabilities = self.session.fleet.primary.capabilities
        return capabilities.title if capabilities else "unknown"

    def _check(self) -> None:
        """Refuse what cannot be measured, while nothing is changed yet."""
        sight, grid = self.session.sight, self.sweep.grid
        if _CLIENTS not in grid.names and not int(sight.requested_value(_CLIENTS)):
            raise UsageError("no client commits", "add clients=N to the sweep, or set clients=N")
        observed = sight.observed()
        for cell in grid.cells:
            make_plan(observed, cell.values)

    # -- the journal

    async def _open(self) -> None:
        """Continue what the journal has of this sweep, or begin it."""
        sight, journal = self.session.sight, self.journal
        sample = sight.samples.get(SOURCE)
        server_uuid = sample.view.server_uuid if sample else None
        entries = await journal.read()
        if head := (entries[0] if entries else None):
            await self._restore_after_a_kill(entries)
            if self.fresh or head.get("server_uuid") != server_uuid:
                if not self.fresh:
                    self._tell("the journal of this sweep is from another server: it starts over")
                head = None
        if head is None:
            seed = self.sweep.seed
            self.seed = int(self._clock.wall() * 1000) % 2**32 if seed is None else seed
            await journal.begin(
                {
                    "sweep": self.sweep.grid.text,
                    "seed": self.seed,
                    "server_uuid": server_uuid,
                    "server": self._server,
                }
            )
        else:
            self.seed, self.runs = _read_head(head), _read_runs(entries)
            self.resumed = len(self.runs)
            self._tell(f"continuing: {self._done} of {self.sweep.total} runs are done (--fresh starts over)")
        self.kept = {name: sight.requested_value(name) for name in (*self.sweep.grid.names, _CLIENTS)}
        await journal.append({"kept": {str(name): value for name, value in self.kept.items()}})

    async def _restore_after_a_kill(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Give back the knobs that a killed sweep left turned."""
        kept = _read_kept(entries)
        if not kept:
            return
        self._tell("the last run of this sweep was killed: restoring the knobs that it had turned")
        await self._give_back(kept)

    # -- the runs

    @property
    def _done(self) -> int:
        return len(self._finals())

    def _finals(self) -> set[tuple[int, int]]:
        """Pass and cell of all that need no further run."""
        return {(run.block, run.cell) for run in self.runs if run.is_final}

    async def _pass(self, block: int) -> None:
        """Every cell once; those that failed once more at the end."""
        order = self.sweep.order(self.seed, block)
        for attempt in range(1, ATTEMPTS + 1):
            for cell in order:
                known = [run for run in self.runs if (run.block, run.cell) == (block, cell.index)]
                if any(run.is_final for run in known) or len(known) >= attempt:
                    continue
                self._show(cell, None)
                began_s = self._clock.monotonic()
                run = await self._attempt(cell)
                run = replace(run, block=block, attempt=attempt, took_s=self._clock.monotonic() - began_s)
                self._overheads_s.append(run.took_s - self.sweep.run_s(cell, 0.0))
                await self.journal.append({"run": run.to_wire()})
                self.runs.append(run)
                self._show(cell, run)

    async def _attempt(self, cell: Cell) -> SweptRun:
        """One run; what a restart took meanwhile is set again with the next."""
        values = {**self.kept, **cell.values}  # what a scene leaves out is not what the run before left
        under_way = CellRun(self.session, cell, values, self.sweep.duration_s, self._baseline)
        run = await under_way.measured(self.lost)
        self.lost = {}
        if under_way.restarted and self.session.options.reapply == "auto":
            self.lost = self.session.sight.lost_values(under_way.restarted)
        return run

    # -- what is told

    def _show(self, cell: Cell, run: SweptRun | None) -> None:
        self.report(SweepProgress(self.sweep, tuple(self.runs), self._done, cell, run, self._left_s()))

    def _tell(self, text: str) -> None:
        self.report(SweepProgress(self.sweep, tuple(self.runs), self._done, None, None, self._left_s(), text))

    def _left_s(self) -> float:
        """What the runs left take, by what turning the knobs took so far."""
        seen = self._overheads_s
        overhead_s = sum(seen) / len(seen) if seen else SETTLING_S
        done = self._finals()
        return sum(
            self.sweep.run_s(cell, overhead_s)
            for block in range(self.sweep.repeats)
            for cell in self.sweep.grid.cells
            if (block, cell.index) not in done
        )

    # -- the end

    async def _end(self, *, stop_load: bool) -> None:
        """Stop a load of our own and give the knobs back."""
        if stop_load:
            await self.session.driving.stop()
        if self.kept and await self._give_back(self.kept):
            await self.journal.append({"restored": True})
        settings = self.session.load.settings
        if not stop_load and settings is not None and settings.mode == OPEN:
            await self.session.load.change({})  # it may have been drained

    async def _give_back(self, kept: Mapping[KnobName, Value]) -> bool:
        """All knobs at once, or as many as can be; whether all are as they were."""
        try:
            await self.session.controls.set({**self.lost, **kept})
            return True
        except ReplexplorerError:
            whole = True
        for name, value in kept.items():
            try:
                await self.session.controls.set({name: value})
            except ReplexplorerError as error:
                whole = False
                self._tell(f"{name} could not be restored: {error}")
        return whole


_OTHER_VERSION = ("the sweep's journal is of another version", "--fresh starts over")


def _read_head(head: Mapping[str, Any]) -> int:
    """The seed of a journal."""
    seed = head.get("seed")
    if not isinstance(seed, int):
        raise UsageError(*_OTHER_VERSION)
    return seed


def _read_kept(entries: Sequence[Mapping[str, Any]]) -> dict[KnobName, Value]:
    """The values that a journal's sweep has turned and not given back; what is none is left out."""
    kept: Any = {}
    for entry in entries:
        kept = {} if "restored" in entry else entry.get("kept", kept)
    if not isinstance(kept, Mapping):
        raise UsageError(*_OTHER_VERSION)
    return {
        parse_name(text): value
        for text, value in kept.items()
        if isinstance(value, str) or (isinstance(value, int | float) and isfinite(value))
    }


def _read_runs(entries: Sequence[Mapping[str, Any]]) -> list[SweptRun]:
    """The runs that a journal has."""
    try:
        return [SweptRun.from_wire(entry["run"]) for entry in entries if "run" in entry]
    except (KeyError, TypeError, ValueError):
        raise UsageError(*_OTHER_VERSION) from None
