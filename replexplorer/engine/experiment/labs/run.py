"""Running a lab: its phases in turn, each at its presenter's word, and what they found judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replexplorer.core.errors import UsageError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.sighting import Sighting
from replexplorer.core.knobs.names import Assignment, Desired, KnobName, desired_of, parse_assignment
from replexplorer.core.topology import new_roster
from replexplorer.engine.experiment.conductor import Conductor, why_aborted
from replexplorer.engine.experiment.labs.fitting import fitting
from replexplorer.engine.experiment.labs.lab import Lab, LabResult, PhaseResult, Phases
from replexplorer.engine.experiment.labs.phase_run import PhaseRun
from replexplorer.engine.experiment.labs.repeats import judged, merged
from replexplorer.engine.experiment.labs.step import LabStep, LabWatch
from replexplorer.engine.experiment.loan import Loan, on_loan
from replexplorer.engine.experiment.rig import Rig


@dataclass(slots=True)
class LabRun:
    """One run of a lab (`rig.Procedure`)."""

    lab: Lab
    quick: bool = False
    watch: LabWatch = lambda _: None
    conductor: Conductor = field(default_factory=Conductor)
    repeats: int | None = None
    """How often each phase is measured; None: as often as the lab does by itself. They take turns: all
    phases, then all of them again."""
    _rounds: list[list[PhaseResult]] = field(default_factory=list)
    """What each repeat has found so far, in the order of the phases."""
    _results: list[PhaseResult] = field(default_factory=list)
    """The same with the repeats of each phase merged."""
    _number: int = 0
    """Of the phase under way."""

    async def run(self, rig: Rig) -> LabResult:
        """Run it to the end; a server or a load that dies, and a presenter's abort, end it as aborted.

        Raises StackUnavailable when another driver holds the load or another experiment runs, and what
        turning raises for settings that this stack cannot have; everything is restored before it does.
        Raises UsageError for a lab that makes stacks of its own: `SystemsRun` runs that.
        """
        if self.lab.systems:
            raise UsageError(
                f"the lab {self.lab.name} runs on stacks of its own, one after the other",
                f"`replexplorer lab run {self.lab.name}` in a shell",
            )
        self.lab = fitting(self.lab, rig.dialect(rig.seen.source).capabilities)

        def check(seen: Sighting) -> None:
            assignments(self.lab, rig.parse, len(seen.replicas))

        result = LabResult(
            self.lab, rig.seen.server, rig.clock.wall(), self.quick, self._results, repeats=self._runs
        )
        async with on_loan(rig, "lab", self.lab.name, check=check, report=self._tell) as loan:
            result.aborted = await why_aborted(self._phases(loan), loan, self.conductor)
            if result.aborted is not None:
                loan.outcome = "was aborted"
        result.unrestored = loan.unrestored
        invalid = [f"{each.phase.name}: {each.invalid}" for each in result.phases if each.invalid]
        if invalid and result.aborted is None:
            result.aborted = f"changed while it was measured, {'; '.join(invalid)}"
        if result.aborted is None:
            rounds = [by_name(found) for found in self._rounds]
            result.relations = judged(self.lab, rounds, by_name(result.phases))
            result.references = tuple(self.lab.references(by_name(result.phases)))
        else:
            rig.log.tell(Severity.BAD, f"the lab was aborted: {result.aborted}")
        result.summary = self.lab.summary(by_name(result.phases))
        return result

    async def _phases(self, loan: Loan) -> None:
        await loan.enough_replicas(self.lab.replicas)
        await loan.look(probe=True)
        found_with = {name: loan.rig.seen.requested(name) for name in self._turned(loan.rig)}
        last = (self._runs, len(self.lab.phases))
        for repeat in range(1, self._runs + 1):
            results: list[PhaseResult] = []
            self._rounds.append(results)
            if repeat > 1:
                await self._begin_again(loan, found_with)
            for number, phase in enumerate(self.lab.phases, 1):
                self._number = number
                under_way = PhaseRun(loan, phase, self.quick, self._tell, results)
                results.append(await under_way.result())
                self._results[number - 1 : number] = [self._merged(number)]
                if (repeat, number) != last and self.conductor.holds:
                    self._tell("waiting for the next phase", 1.0)
                    await self.conductor.gate()

    @property
    def _runs(self) -> int:
        """Of each phase."""
        return self.lab.runs(quick=self.quick, repeats=self.repeats)

    def _turned(self, rig: Rig) -> tuple[KnobName, ...]:
        """The knobs that a later phase turns and the first one does not set."""
        first, *others = ([rig.parse(text) for text in phase.settings] for phase in self.lab.phases)
        given = desired_of(first)
        return tuple(name for phase in others for name in desired_of(phase) if name not in given)

    async def _begin_again(self, loan: Loan, found_with: Desired) -> None:
        """What the first phase found as it was is so for it again."""
        self._number = 1
        self._tell("beginning again", None)
        if found_with:
            await loan.turn(found_with)

    def _merged(self, number: int) -> PhaseResult:
        """What was found of a phase so far."""
        return merged([found[number - 1] for found in self._rounds if len(found) >= number])

    def _tell(self, doing: str, done: float | None = None) -> None:
        """Say what is done now."""
        repeat, phases = max(1, len(self._rounds)), self.lab.phases
        ahead = [*phases[self._number :], *((self._runs - repeat) * phases)]
        left_s = sum(phase.takes_s(quick=self.quick) for phase in ahead)
        phase = phases[self._number - 1] if self._number else None
        if phase is not None:
            left_s += phase.length(quick=self.quick).seconds * (1 - (done or 0.0))
        results = tuple(self._results)
        self.watch(LabStep(self.lab, self._number, doing, done, left_s, results, repeat, self._runs))


def assignments(lab: Lab, parse: Callable[[str], Assignment], replicas: int) -> list[Assignment]:
    """All that a lab sets, read by `parse` of a stack with this many replicas; settings of a replica that is
    brought up for the lab, as of a stack that has as many as it needs. Raises UsageError."""
    roster = new_roster(lab.replicas) if replicas < lab.replicas else None
    return [
        parse(text) if roster is None or "@" not in text else parse_assignment(text, roster)
        for phase in lab.phases
        for text in phase.settings
    ]


def by_name(results: Sequence[PhaseResult]) -> Phases:
    """The results by the names of their phases."""
    return {each.phase.name: each for each in results}
