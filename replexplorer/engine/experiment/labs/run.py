"""Running a lab: its phases in turn, each at its presenter's word, and what they found judged."""

from __future__ import annotations

from dataclasses import dataclass, field

from replexplorer.core.event import Severity
from replexplorer.core.experiment.sighting import Sighting
from replexplorer.engine.experiment.conductor import Conductor, why_aborted
from replexplorer.engine.experiment.labs.lab import Lab, LabResult, PhaseResult
from replexplorer.engine.experiment.labs.phase_run import PhaseRun
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
    _results: list[PhaseResult] = field(default_factory=list)
    _number: int = 0
    """Of the phase under way."""

    async def run(self, rig: Rig) -> LabResult:
        """Run it to the end; a server or a load that dies, and a presenter's abort, end it as aborted.

        Raises StackUnavailable when another driver holds the load or another experiment runs, and what
        turning raises for settings that this stack cannot have; everything is restored before it does.
        """

        def check(seen: Sighting) -> None:
            for phase in self.lab.phases:
                for text in phase.settings:
                    rig.parse(text)

        result = LabResult(self.lab, rig.seen.server, rig.clock.wall(), self.quick, self._results)
        async with on_loan(rig, "lab", self.lab.name, check=check, report=self._tell) as loan:
            result.aborted = await why_aborted(self._phases(loan), loan, self.conductor)
            if result.aborted is not None:
                loan.outcome = "was aborted"
        result.unrestored = loan.unrestored
        invalid = [f"{each.phase.name}: {each.invalid}" for each in self._results if each.invalid]
        if invalid and result.aborted is None:
            result.aborted = f"changed while it was measured, {'; '.join(invalid)}"
        if result.aborted is None:
            result.relations = tuple(self.lab.judge({each.phase.name: each for each in self._results}))
        else:
            rig.log.tell(Severity.BAD, f"the lab was aborted: {result.aborted}")
        return result

    async def _phases(self, loan: Loan) -> None:
        await loan.enough_replicas(self.lab.replicas)
        await loan.look(probe=True)
        for number, phase in enumerate(self.lab.phases, 1):
            self._number = number
            under_way = PhaseRun(loan, phase, self.quick, self._tell, self._results)
            self._results.append(await under_way.result())
            if number < len(self.lab.phases) and self.conductor.holds:
                self._tell("waiting for the next phase", 1.0)
                await self.conductor.gate()

    def _tell(self, doing: str, done: float | None = None) -> None:
        """Say what is done now."""
        ahead = self.lab.phases[self._number :]
        left_s = sum(phase.takes_s(quick=self.quick) for phase in ahead)
        phase = self.lab.phases[self._number - 1] if self._number else None
        if phase is not None:
            left_s += phase.length(quick=self.quick).seconds * (1 - (done or 0.0))
        self.watch(LabStep(self.lab, self._number, doing, done, left_s, tuple(self._results)))
