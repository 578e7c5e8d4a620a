"""Labs of one's own: what a file says, the line of what is wrong with it, and stacks of a lab's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replexplorer.cli import experiment_run
from replexplorer.cli.experiment import LABS
from replexplorer.cli.experiment_run import names_beside
from replexplorer.core.experiment.lab import Phase, PhaseResult
from replexplorer.core.server.protection import Protection
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import SYSTEMS
from replexplorer.formats import paths
from replexplorer.formats.configuration import STACK_NAME_PATTERN
from tests.known import refused
from tests.typed import values_of
from tests.unit.conftest import Run, told_of_mistakes

MINE = """\
title = "Ours across the ocean"
teaches = "What 70 ms cost us."
replicas = 2

[[phase]]
name = "async"
shows = "nobody waits"
set = { semi_sync = false, rtt = "70ms", clients = 4 }
seconds = 20

[[phase]]
name = "semi-sync"
set = { semi_sync = true }
seconds = 60
commits = 500
published = { value = 14.0, unit = "tps" }

[[relation]]
name = "semi-sync is much slower"
left = "semi-sync.tps"
is = "<"
right = "async.tps"
times = 0.5

[[relation]]
name = "and takes a round trip"
left = "semi-sync.p50_ms"
is = ">="
right = 70
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    return file


WRITTEN = """\
title                      -> title
clients = 4                -> "CLIENTS@load" = 4, "rtt@db3" = 9
set = { semi_sync = true } -> set = { semi_sync = 1 }
set = { semi_sync = true } -> set = { rpl_semi_sync_source_enabled = 'ON' }
"""


def test_a_file_is_a_lab_and_a_knob_goes_by_any_of_its_names_and_words(file: Path, snapshot: object) -> None:
    told = {}
    for line in WRITTEN.splitlines():
        right, instead = map(str.strip, line.split("->"))
        file.write_text(MINE.replace(right, instead, 1))
        lab = LABS.named(str(file))
        phases = [(each.settings, each.state, each.full, each.quick, each.published) for each in lab.phases]
        told[line] = [lab.name, lab.title, lab.replicas, *phases, lab.turns]
    assert told == snapshot


def result(phase: Phase, value_us: int, tps: float) -> PhaseResult:
    protection = Protection(phase.state, requested=True)
    return PhaseResult(phase, service=Histogram.of([value_us] * 100), tps=tps, protection=protection)


HELD = """\
71_000 499.0 True True  True
69_000 499.0 True True  False
71_000 501.0 True False True
"""
"""Latency and TPS of the second phase; then whether it was protected, its TPS against half of async's, its
p50 against a round trip."""


def test_it_is_judged_by_its_comparisons(file: Path) -> None:
    lab = LABS.named(str(file))
    async_, semi = lab.phases
    for semi_us, semi_tps, *held in values_of(HELD):
        found = {"async": result(async_, 900, 1000.0), "semi-sync": result(semi, semi_us, semi_tps)}
        assert [relation.holds for relation in lab.judge(found)] == held


MISTAKES = """\
seconds = 20                   -> secnds = 20
seconds = 20                   -> script = "archive"
seconds = 60                   -> seconds = -1
rtt = "70ms"                   -> rtt = "70 parsecs"
rtt = "70ms"                   -> rtt = [70]
rtt = "70ms"                   -> rtt = inf
rtt = "70ms"                   -> "rtt@replca" = "70ms"
rtt = "70ms"                   -> "rtt@db4" = "70ms"
clients = 4                    -> cleints = 4
name = "semi-sync"             -> name = "async"
left = "semi-sync.tps"         -> left = "sync.tps"
"semi-sync.p50_ms"             -> "semi-sync.p51_ms"
is = ">="                      -> is = "="
is = ">="                      ->
[[phase]]; name = "async"      -> [phase]; name = "async"
replicas = 2                   -> replicas = 2.5
right = 70                     -> right = nan
times = 0.5                    -> times = inf
times = 0.5                    -> times = 0
"""
"""What stands there, and what instead."""


def test_what_is_wrong_is_told_with_its_line(file: Path, snapshot: object) -> None:
    assert told_of_mistakes(MISTAKES, file, lambda file: LABS.named(str(file))) == snapshot


def test_files_of_the_labs_directory_go_by_their_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, snapshot: object
) -> None:
    monkeypatch.setattr(paths, "experiments_directory", lambda _: tmp_path)
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "broken.toml").write_text("phase = 1")
    (tmp_path / "tour.toml").write_text(MINE)
    found, failed = LABS.own()
    wrong = {file.name: str(error).replace(str(tmp_path), "HERE") for file, error in failed}
    assert ([lab.name for lab, _ in found], wrong) == snapshot
    assert LABS.named("mine").title == "Ours across the ocean"
    assert "no such lab file" in refused(LABS.named, "./none.toml")
    assert "unknown lab 'mien': did you mean mine" in refused(LABS.named, "mien")


# -- stacks that an experiment makes for itself


def test_every_system_has_a_stack_of_another_name_that_is_allowed() -> None:
    for stack in ("wan", "a", "a" * 100, f"a-{'-' * 30}b"):
        names = names_beside(stack, SYSTEMS)
        assert all(re.match(STACK_NAME_PATTERN, name) for name in names.values()), stack
        assert len({stack, *names.values()}) == len(SYSTEMS) + 1


def test_a_lab_that_makes_stacks_looks_for_all_of_them_before_it_makes_one(
    monkeypatch: pytest.MonkeyPatch, run: Run, snapshot: object
) -> None:
    """A Docker host on which somebody has a stack of such a name."""

    async def names() -> list[str]:
        return ["default", "wan-lab-galera"]

    monkeypatch.setattr(experiment_run, "stack_names", names)
    assert run("lab run systems-78ms --quick --stack wan") == snapshot
