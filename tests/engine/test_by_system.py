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
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.server.node_view import Membership
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import GALERA, System
from replexplorer.core.topology import Belonging
from replexplorer.engine.experiment.lab import LabRun, SystemsRun
from tests.fakes.stack import FakeStack, stack_of


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


ONE = replace(LAB.on("galera"), phases=LAB.on("galera").phases[:1])


class Stacks:
    """Makes a stack a system, and remembers what was made when."""

    def __init__(self, failing: str | None = None) -> None:
        self.made: list[tuple[str, tuple[str, ...]]] = []
        self.failing = failing

    async def __call__(self, system: System, part: LabRun) -> LabResult:
        self.made.append((system.name, tuple(phase.name for phase in part.lab.phases)))
        if system.name == self.failing:
            raise StackUnavailable("no image", "build one")
        async with stack_of(system) as stack:
            return replace(await part.run(stack), server=f"server of {system.name}")


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


async def test_repeats_take_turns_within_a_system_and_are_judged_by_their_interval() -> None:
    result = await SystemsRun(LAB, True, repeats=3).run(Stacks())
    assert [len(each.repeats) for each in result.phases] == [3, 3, 3]
    [relation] = result.relations
    assert "3 repeats" in relation.evidence
    assert result.repeats == 3


async def test_a_system_that_cannot_be_had_ends_it_with_what_was_measured() -> None:
    result = await SystemsRun(LAB, True).run(Stacks(failing="galera"))
    assert (result.verdict, result.aborted) == ("aborted", "Galera: no image: build one")
    assert [each.phase.name for each in result.phases] == ["async, 1"]
    assert result.summary is not None
    assert result.summary.columns == ("async, 1",)
    assert result.relations == ()


async def test_without_the_first_there_is_no_result() -> None:
    with pytest.raises(StackUnavailable, match="no image"):
        await SystemsRun(LAB, True).run(Stacks(failing="async"))


async def test_a_stack_that_is_there_is_not_what_it_runs_on() -> None:
    async with stack_of() as stack:
        with pytest.raises(UsageError, match="three cannot run here") as refused:
            await LabRun(LAB, True).run(stack)
        assert stack.world.changes == []
    assert refused.value.hint == "it makes stacks of its own: in a shell, replexplorer lab run three"


@pytest.mark.parametrize("counts", [True, False])
async def test_what_members_count_in_a_phase_stands_among_its_figures(counts: bool) -> None:
    member = Membership(Belonging.MEMBER, "Synced", size=2, answering=2, conflicts=5, gave_way=1)
    async with stack_of(GALERA, members={"db1": member, "db2": member}) as stack:

        def count(now: ExperimentProgress) -> None:
            if counts and now.doing == "measuring":
                stack.members["db2"] = replace(member, conflicts=8, gave_way=5)

        [found] = (await LabRun(ONE, True, count).run(stack)).phases
    assert found.figures == ({RETRIED: 0, REFUSED: 3, GAVE_WAY: 4} if counts else {})


async def test_a_phase_begins_when_nothing_waits_at_the_members_however_they_number_it() -> None:
    member = Membership(Belonging.MEMBER, "Synced", size=2, answering=2, to_apply=0)

    class Applying(FakeStack):
        looks = 0

        async def look(self, *, probe: bool = False, with_gtids: bool = False) -> Snapshot:
            self.looks += 1
            if self.looks == 10:
                self.members["db2"] = member
            return await super().look(probe=probe, with_gtids=with_gtids)

    waiting = {"db1": member, "db2": replace(member, to_apply=7)}
    async with stack_of(GALERA, Applying, members=waiting) as stack:
        stack.world.replica.missing = 20  # by their GTIDs db2 lacks all of them
        began_s = stack.clock.monotonic()
        [found] = (await LabRun(ONE, True).run(stack)).phases
        assert 9 < stack.looks < 30
        assert stack.clock.monotonic() - began_s < 20
    assert found.limited is None
