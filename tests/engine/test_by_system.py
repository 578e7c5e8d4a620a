"""A lab that compares systems: a part on a stack of each, and one result of all that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.experiment import ExperimentProgress, Relation
from replexplorer.core.experiment.lab import (
    GAVE_WAY,
    REFUSED,
    RETRIED,
    Lab,
    LabResult,
    Length,
    Phase,
    Phases,
    Summary,
    SummaryRow,
)
from replexplorer.core.server.node_view import Membership
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import GALERA, System
from replexplorer.core.topology import Belonging
from replexplorer.engine.experiment.lab import LabRun, SystemsRun
from tests.fakes.clock import virtual
from tests.fakes.rig import FakeRig


def _phase(name: str, system: str, clients: int) -> Phase:
    return Phase(
        name, (f"clients={clients}",), Length(4), Length(2), ProtectionState.OFF, "a load", system=system
    )


def _judge(phases: Phases) -> Sequence[Relation]:
    one, all_ = phases["async, 1"], phases["galera, 4"]
    ratio = all_.tps / one.tps
    return (Relation("more clients commit more", ratio > 2, f"{ratio:.1f}", ratio=ratio, least=2),)


LAB = Lab(
    "three",
    "On two systems",
    "Whether systems differ.",
    (_phase("async, 1", "async", 1), _phase("galera, 1", "galera", 1), _phase("galera, 4", "galera", 4)),
    _judge,
    summary=lambda phases: Summary(
        "all", tuple(phases), (SummaryRow("TPS", tuple(each.tps for each in phases.values())),)
    ),
)


class Stacks:
    """Makes a rig a system, and remembers what was there when."""

    def __init__(self, failing: str | None = None) -> None:
        self.made: list[tuple[str, tuple[str, ...]]] = []
        self.failing = failing
        self.rigs: dict[str, FakeRig] = {}

    async def __call__(self, system: System, part: LabRun) -> LabResult:
        self.made.append((system.name, tuple(phase.name for phase in part.lab.phases)))
        if system.name == self.failing:
            raise StackUnavailable("no image", "build one")
        rig = self.rigs[system.name] = FakeRig(replicas=1, system=system)
        return replace(await part.run(rig), server=f"server of {system.name}")


@virtual
async def test_each_system_has_a_stack_for_its_phases_and_all_is_judged_together() -> None:
    stacks, steps = Stacks(), list[ExperimentProgress]()
    result = await SystemsRun(LAB, True, steps.append).run(stacks)
    assert stacks.made == [("async", ("async, 1",)), ("galera", ("galera, 1", "galera, 4"))]
    assert (result.verdict, result.aborted, result.repeats) == ("holds", None, 1)
    assert [(each.phase, each.server) for each in result.phases] == [
        (LAB.phases[0], "server of async"), (LAB.phases[1], "server of galera"),
        (LAB.phases[2], "server of galera"),
    ]  # fmt: skip
    assert result.server == "server of async and server of galera"
    assert result.summary is not None
    assert result.summary.columns == ("async, 1", "galera, 1", "galera, 4")
    numbers = [step.number for step in steps if step.doing == "measuring"]
    assert list(dict.fromkeys(numbers)) == [1, 2, 3], "phases are counted through"
    assert {step.experiment for step in steps} == {LAB}
    assert steps[0].left_s == pytest.approx(LAB.seconds(quick=True) - 20, abs=5)


@virtual
async def test_repeats_take_turns_within_a_system_and_are_judged_by_their_interval() -> None:
    result = await SystemsRun(LAB, True, repeats=3).run(Stacks())
    assert [len(each.repeats) for each in result.phases] == [3, 3, 3]
    [relation] = result.relations
    assert "3 repeats" in relation.evidence
    assert result.repeats == 3


@virtual
async def test_a_system_that_cannot_be_had_ends_it_with_what_was_measured() -> None:
    result = await SystemsRun(LAB, True).run(Stacks(failing="galera"))
    assert (result.verdict, result.aborted) == ("aborted", "Galera: no image: build one")
    assert [each.phase.name for each in result.phases] == ["async, 1"]
    assert result.summary is not None
    assert result.summary.columns == ("async, 1",)
    assert result.relations == ()


@virtual
async def test_without_the_first_there_is_no_result() -> None:
    with pytest.raises(StackUnavailable, match="no image"):
        await SystemsRun(LAB, True).run(Stacks(failing="async"))


@virtual
async def test_a_stack_that_is_there_is_not_what_it_runs_on() -> None:
    rig = FakeRig()
    with pytest.raises(UsageError, match="three runs on stacks of its own") as refused:
        await LabRun(LAB, True).run(rig)
    assert refused.value.hint == "`replexplorer lab run three` in a shell"
    assert rig.steps == []


@virtual
async def test_what_members_count_in_a_phase_stands_among_its_figures() -> None:
    member = Membership(Belonging.MEMBER, "Synced", size=2, answering=2, conflicts=5, gave_way=1)
    rig = FakeRig(system=GALERA, members={"db1": member, "db2": member})

    def count(number: int) -> None:
        if rig.steps[number] == "measure":
            rig.members["db2"] = replace(member, conflicts=8, gave_way=5)

    rig.on_step = count
    lab = replace(LAB.on("galera"), phases=LAB.on("galera").phases[:1])
    [found] = (await LabRun(lab, True).run(rig)).phases
    assert found.figures == {RETRIED: 0, REFUSED: 3, GAVE_WAY: 4}
    [found] = (await LabRun(lab, True).run(replace(rig, members={"db1": member, "db2": member}))).phases
    assert found.figures == {}, "nothing was rolled back"


@virtual
async def test_a_phase_begins_when_nothing_waits_at_the_members_however_they_number_it() -> None:
    member = Membership(Belonging.MEMBER, "Synced", size=2, answering=2, to_apply=0)
    rig = FakeRig(system=GALERA, members={"db1": member, "db2": replace(member, to_apply=7)})
    looks: list[int] = []

    def look(number: int) -> None:
        if rig.steps[number] == "look":
            looks.append(number)
            if len(looks) > 9:
                rig.members["db2"] = member

    rig.backlog, rig.on_step = 20, look  # by their GTIDs db2 lacks all 20 of them
    lab = replace(LAB.on("galera"), phases=LAB.on("galera").phases[:1])
    began_s = rig.clock.monotonic()
    [found] = (await LabRun(lab, True).run(rig)).phases
    assert 9 < len(looks) < 30
    assert rig.clock.monotonic() - began_s < 20
    assert found.limited is None
