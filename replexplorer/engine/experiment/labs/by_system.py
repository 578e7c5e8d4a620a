"""Running a lab that compares systems: a stack of its own for each, one after the other.

Law: what a stack is made of and where it comes from is not known here; it is there while its part of the
lab runs. A system that cannot be had ends the lab as aborted, with what was measured before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.system import System, system_of
from replexplorer.engine.experiment.labs.lab import STACK_S, Lab, LabResult, PhaseResult, Phases
from replexplorer.engine.experiment.labs.repeats import judged
from replexplorer.engine.experiment.labs.run import LabRun, by_name
from replexplorer.engine.experiment.labs.step import LabStep, LabWatch

OnStack = Callable[[System, LabRun], Awaitable[LabResult]]
"""Makes a stack of a system, does the run on it and removes it again; raises ReplexplorerError."""


@dataclass(slots=True)
class SystemsRun:
    """One run of a lab on a stack a system."""

    lab: Lab
    quick: bool = False
    watch: LabWatch = lambda _: None
    repeats: int | None = None
    """How often each phase is measured; those of one system take turns. None: as the lab does by itself."""
    _results: list[PhaseResult] = field(default_factory=list)

    async def run(self, on_stack: OnStack) -> LabResult:
        """Run it to the end; a system that fails ends it as aborted. Raises what making the first stack
        raises."""
        runs = self.lab.runs(quick=self.quick, repeats=self.repeats)
        parts: list[LabResult] = []
        aborted: str | None = None
        for system in map(system_of, self.lab.systems):
            phases = [phase for phase in self.lab.phases if phase.system == system.name]
            under_way = LabRun(
                self.lab.on(system.name),
                self.quick,
                partial(self._see, len(self._results), system),
                repeats=self.repeats,
            )
            try:
                part = await on_stack(system, under_way)
            except ReplexplorerError as error:
                if not parts:
                    raise
                aborted = f"{system.title}: {error}"
                break
            parts.append(part)
            self._results += [
                replace(found, phase=phase, server=part.server)
                for phase, found in zip(phases, part.phases, strict=False)
            ]
            if part.aborted is not None:
                aborted = f"{system.title}: {part.aborted}"
                break
        found = by_name(self._results)
        result = LabResult(
            self.lab,
            " and ".join(dict.fromkeys(part.server for part in parts)),
            parts[0].started_wall_s,
            self.quick,
            self._results,
            repeats=runs,
            aborted=aborted,
            summary=self.lab.summary(found),
        )
        if aborted is None:
            result.relations = judged(self.lab, _rounds(self._results, runs), found)
            result.references = tuple(self.lab.references(found))
        return result

    def _see(self, first: int, system: System, step: LabStep) -> None:
        """A step of one system's part as one of the whole lab."""
        later = self.lab.systems[self.lab.systems.index(system.name) + 1 :]
        left_s = sum(
            STACK_S + self.lab.on(name).seconds(quick=self.quick, repeats=self.repeats) for name in later
        )
        self.watch(
            replace(
                step,
                lab=self.lab,
                number=first + step.number if step.number else 0,
                left_s=None if step.left_s is None else step.left_s + left_s,
                results=(*self._results, *step.results),
            )
        )


def _rounds(results: Sequence[PhaseResult], runs: int) -> list[Phases]:
    """What each repeat found; a single run is its own."""
    return [
        {each.phase.name: each.repeats[at] if each.repeats else each for each in results}
        for at in range(runs)
    ]
