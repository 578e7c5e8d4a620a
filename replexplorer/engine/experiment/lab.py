"""Running a lab: its phases in turn, each at its presenter's word, repeated, and what they found judged.

Law: a relation between figures is judged by its ratio in each repeat, the 95 % interval of their
logarithms against the relation's bounds: within them it holds, beyond them it deviates, and where the
interval includes one it is open, which is not a failure. Repeats take turns, so what drifts with the
machine is in both sides of a ratio. What is not a figure must hold in every repeat.

A lab that compares systems has a stack of its own for each, one after the other. What a stack is made of is
not known here. A system that cannot be had ends the lab as aborted, with what was measured before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from statistics import median
from typing import Any

from replexplorer.core.dialect.dialect import Capabilities
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.experiment import ExperimentProgress, Relation, Watch
from replexplorer.core.experiment.lab import (
    STACK_S,
    Figures,
    Lab,
    LabResult,
    PhaseResult,
    Phases,
    Reference,
    Rtt,
)
from replexplorer.core.experiment.relations import bounds_text
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.knobs.names import (
    Assignment,
    Backing,
    desired_of,
    find,
    parse_assignment,
    parse_value,
)
from replexplorer.core.records import dataclass, field, replace
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.ratio import interval_text, ratio_text, repeated
from replexplorer.core.system import System, system_of
from replexplorer.core.topology import new_roster
from replexplorer.engine.experiment.phase import PhaseRun
from replexplorer.engine.experiment.restore_guard import RestoreGuard
from replexplorer.engine.experiment.run import Conductor, StagesUnderWay, carry_out
from replexplorer.engine.experiment.stack_api import StackApi


def fitting(lab: Lab, server: Capabilities) -> Lab:
    """The lab as this server can run it: by its other knobs and without optional phases where it lacks some;
    raises UsageError naming what it lacks."""
    phases, lacking = [], dict[str, None]()
    for phase in lab.phases:
        texts = phase.settings
        if phase.otherwise and any(_lacks(text, server) is not None for text in texts):
            texts = phase.otherwise
        lacks = {text: what for text in texts if (what := _lacks(text, server)) is not None}
        missed = [what for what in lacks.values() if what]
        if missed and phase.is_optional:
            continue
        lacking |= dict.fromkeys(missed)
        phases.append(replace(phase, settings=tuple(text for text in texts if text not in lacks)))
    if lacking:
        turned = f"it turns {', '.join(lacking)}, which {server.title} lacks"
        raise UsageError(f"the lab {lab.name} cannot run here", turned)
    return replace(lab, phases=tuple(phases))


def _lacks(text: str, server: Capabilities) -> str | None:
    """The knob that the server lacks, or `KEY=VALUE` where it has no such value; empty where it lacks the
    knob and does as it says anyway; None where it has both."""
    written, _, value = text.partition("=")
    knob = find(written.partition("@")[0])
    if not server.has(knob.key):
        does_so = knob.lacking is not None and parse_value(knob, value) == knob.lacking
        return "" if does_so else knob.key
    choices = server.knob(knob.key).choices
    if knob.backing is Backing.SERVER and choices != knob.choices and knob.word(value) not in choices:
        return f"{knob.key}={value}"
    return None


_MEDIANS = (
    "rtt_measured_ms", "fsync_measured_ms", "disk_probe_ms", "ceiling_tps", "predicted_tps", "busy_percent",
    "machine_percent",
)  # fmt: skip
"""What was measured besides the load."""
_TEXTS = ("limited", "invalid", "finding")


def merged(runs: Sequence[PhaseResult]) -> PhaseResult:
    """The runs of one phase as one result: histograms merged, times and counts added, what was measured
    beside the load as its median, texts each once."""
    if len(runs) == 1:
        return runs[0]
    service = Histogram.merged(each.service for each in runs)
    duration_s = sum(each.duration_s for each in runs)
    beside: dict[str, Any] = {}
    for name in _MEDIANS:
        known = [value for each in runs if (value := getattr(each, name)) is not None]
        beside[name] = median(known) if known else None
    for name in _TEXTS:
        beside[name] = "; ".join(dict.fromkeys(filter(None, (getattr(each, name) for each in runs)))) or None
    return replace(
        runs[-1],
        repeats=tuple(runs),
        service=service,
        duration_s=duration_s,
        rows=sum(each.rows for each in runs),
        tps=service.count / duration_s if duration_s > 0 else 0.0,
        errors=sum(each.errors for each in runs),
        rtt=_rtt([each.rtt for each in runs if each.rtt is not None]),
        cost=next((each.cost for each in reversed(runs) if each.cost is not None), None),
        figures=_figures([each.figures for each in runs]),
        **beside,
    )


def _rtt(found: Sequence[Rtt]) -> Rtt | None:
    """The median of the repeats with the interval of their mean."""
    if len(found) < 2:
        return found[0] if found else None
    return Rtt.of([each.ms for each in found], sum(each.n for each in found))


def _figures(found: Sequence[Figures]) -> Figures:
    """Numbers as their median, words each once."""
    merged_figures: dict[str, float | str] = {}
    for name in found[0]:
        values = [figures[name] for figures in found if name in figures]
        numbers = [value for value in values if not isinstance(value, str)]
        merged_figures[name] = (
            median(numbers) if len(numbers) == len(values) else "; ".join(dict.fromkeys(map(str, values)))
        )
    return merged_figures


def judged(lab: Lab, rounds: Sequence[Phases], phases: Phases) -> tuple[Relation, ...]:
    """The lab's relations on the merged `phases`, each judged by what every round of them found."""
    of_all = lab.judge(phases)
    if len(rounds) < 2:
        return tuple(of_all)
    each_round = [lab.judge(found) for found in rounds]
    return tuple(_judged(relation, [found[at] for found in each_round]) for at, relation in enumerate(of_all))


def _judged(relation: Relation, found: Sequence[Relation]) -> Relation:
    """One relation by its repeats."""
    ratios = [each.ratio for each in found if each.ratio is not None]
    interval = repeated(ratios)
    if interval is None or len(ratios) < len(found):
        return _in_every_repeat(relation, found)
    bounds = interval.value, interval.low, interval.high
    low = 0.0 if interval.low is None else interval.low
    high = inf if interval.high is None else interval.high
    least, most = relation.least, relation.most
    outside = high < least or low > most
    is_open = relation.checked and not outside and not (least <= low and high <= most)
    told = f"{relation.evidence}; {len(found)} repeats: {ratio_text(*bounds)} {interval_text(*bounds)}"
    if is_open:
        told += f", {bounds_text(least, most)} would show it"
    return replace(relation, holds=not relation.checked or not outside, is_open=is_open, evidence=told)


def _in_every_repeat(relation: Relation, found: Sequence[Relation]) -> Relation:
    """What is not a figure holds if it held every time."""
    failed = [at for at, each in enumerate(found, 1) if not each.holds]
    if not failed or not relation.checked:
        return replace(relation, holds=True)
    number = failed[0]
    evidence = f"in repeat {number} of {len(found)}: {found[number - 1].evidence}"
    return replace(relation, holds=False, evidence=evidence)


@dataclass(slots=True)
class LabRun:
    """One run of a lab (`stack_api.Procedure`)."""

    lab: Lab
    quick: bool = False
    watch: Watch = lambda _: None
    conductor: Conductor = field(default_factory=Conductor)
    repeats: int | None = None
    """How often each phase is measured; None: as often as the lab does by itself. They take turns: all
    phases, then all of them again."""
    rounds: list[list[PhaseResult]] = field(default_factory=list)
    """What each repeat has found so far, in the order of the phases."""

    async def run(self, stack: StackApi) -> LabResult:
        """Run it to the end; a server or a load that dies, and a presenter's abort, end it as aborted.

        Raises StackUnavailable when another driver holds the load or another experiment runs, and what
        turning raises for settings that this stack cannot have; everything is restored before it does.
        Raises UsageError for a lab that makes stacks of its own: `SystemsRun` runs that.
        """
        if why := self.lab.unfit(stack.seen.system):
            raise UsageError(f"the lab {self.lab.name} cannot run here", f"it {why}")
        lab = self.lab = fitting(self.lab, stack.dialect(stack.seen.source).capabilities)
        runs = lab.runs(quick=self.quick, repeats=self.repeats)
        takes_s = [phase.takes_s(quick=self.quick) for phase in lab.phases]
        stages = StagesUnderWay(lab, self.watch, self.conductor, runs * takes_s, runs)
        result = LabResult(lab, repeats=runs, quick=self.quick)

        def check(seen: Snapshot) -> None:
            assignments(lab, stack.controls.parse, len(seen.replicas))

        await carry_out(partial(self._phases, stages), stack, result, stages, check)
        invalid = [f"{each.name}: {each.invalid}" for found in self.rounds for each in found if each.invalid]
        if invalid and result.aborted is None:
            result.aborted = f"changed while it was measured, {'; '.join(invalid)}"
            stack.log.tell(Severity.BAD, f"the lab was aborted: {result.aborted}")
        return concluded(result, self.rounds)

    async def _phases(self, stages: StagesUnderWay, guard: RestoreGuard) -> None:
        stack, phases = guard.stack, self.lab.phases
        await guard.enough_replicas(self.lab.replicas)
        await guard.look(probe=True)
        first, *others = (desired_of(map(stack.controls.parse, phase.settings)) for phase in phases)
        found_with = {
            name: stack.seen.requested(name) for later in others for name in later if name not in first
        }
        for at, phase in enumerate(stages.repeats * phases):
            if at % len(phases) == 0:
                self.rounds.append([])
                stages.tries.clear()
            if at:
                await stages.gate()
            stages.begin(at + 1, "setting")
            if at and at % len(phases) == 0 and found_with:
                await guard.turn(found_with)  # what the first phase found as it was is so for it again
            under_way = PhaseRun(
                stack, phase, self.quick, stages.tell, stages.tries, guard=guard, before=self.rounds[-1]
            )
            self.rounds[-1].append(await under_way.result())


def concluded(result: LabResult, rounds: Sequence[Sequence[PhaseResult]]) -> LabResult:
    """The result with its phases merged of what each round found, and judged unless it was aborted."""
    first = rounds[0] if rounds else ()
    result.phases = [merged([found[at] for found in rounds if len(found) > at]) for at in range(len(first))]
    by_name = [{each.name: each for each in found} for found in (result.phases, *rounds)]
    if result.aborted is None:
        result.relations = judged(result.lab, by_name[1:], by_name[0])
        rtts_ms = {name: by_name[0][phase].rtt_measured_ms for name, phase in result.lab.references.items()}
        result.references = tuple(Reference(name, 1000 / rtt) for name, rtt in rtts_ms.items() if rtt)
    result.summary = result.lab.summary(by_name[0])
    return result


def assignments(lab: Lab, parse: Callable[[str], Assignment], replicas: int) -> list[Assignment]:
    """All that a lab sets, read by `parse` of a stack with this many replicas; settings of a replica that is
    brought up for the lab, as of a stack that has as many as it needs. Raises UsageError."""
    roster = new_roster(lab.replicas) if replicas < lab.replicas else None
    return [
        parse(text) if roster is None or "@" not in text else parse_assignment(text, roster)
        for phase in lab.phases
        for text in phase.settings
    ]


OnStack = Callable[[System, LabRun], Awaitable[LabResult]]
"""Makes a stack of a system, does the run on it and removes it again; raises ReplexplorerError."""


@dataclass(slots=True)
class SystemsRun:
    """One run of a lab on a stack a system."""

    lab: Lab
    quick: bool = False
    watch: Watch = lambda _: None
    repeats: int | None = None
    """How often each phase is measured; those of one system take turns. None: as the lab does by itself."""

    async def run(self, on_stack: OnStack) -> LabResult:
        """Run it to the end; a system that fails ends it as aborted. Raises what making the first stack
        raises."""
        rounds: list[list[PhaseResult]] = [
            [] for _ in range(self.lab.runs(quick=self.quick, repeats=self.repeats))
        ]
        result = LabResult(self.lab, repeats=len(rounds), quick=self.quick)
        servers: list[str] = []
        for at, system in enumerate(map(system_of, self.lab.systems)):
            watch = partial(self._see, len(rounds[0]), self.lab.systems[at + 1 :])
            part_run = LabRun(self.lab.on(system.name), self.quick, watch, repeats=self.repeats)
            try:
                part = await on_stack(system, part_run)
            except ReplexplorerError as error:
                if not servers:
                    raise
                result.aborted = f"{system.title}: {error}"
                break
            servers.append(part.server)
            result.started_wall_s = result.started_wall_s or part.started_wall_s
            phases = {phase.name: phase for phase in self.lab.phases}
            for of_all, found in zip(rounds, part_run.rounds, strict=False):
                of_all += [replace(each, phase=phases[each.name], server=part.server) for each in found]
            if part.aborted is not None:
                result.aborted = f"{system.title}: {part.aborted}"
                break
        result.server = " and ".join(dict.fromkeys(servers))
        return concluded(result, rounds)

    def _see(self, first: int, later: Sequence[str], step: ExperimentProgress) -> None:
        """A step of one system's part as one of the whole lab."""
        parts = [self.lab.on(name).seconds(quick=self.quick, repeats=self.repeats) for name in later]
        left_s = (step.left_s or 0.0) + sum(STACK_S + part_s for part_s in parts)
        number = first + step.number if step.number else 0
        self.watch(replace(step, experiment=self.lab, number=number, left_s=left_s))
