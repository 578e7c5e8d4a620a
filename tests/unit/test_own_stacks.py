"""Stacks that an experiment makes for itself: their names, and that one which is there is not touched."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.cli import experiment, main
from replexplorer.cli.experiment import names_beside
from replexplorer.core.system import SYSTEMS
from replexplorer.formats.configuration import STACK_NAME_PATTERN


@given(st.from_regex(STACK_NAME_PATTERN, fullmatch=True).map(str.strip))
def test_every_system_has_a_stack_of_another_name_that_is_allowed(stack: str) -> None:
    names = names_beside(stack, SYSTEMS)
    assert all(re.match(STACK_NAME_PATTERN, name) for name in names.values())
    assert len({*names.values()}) == len(SYSTEMS)
    assert all(name.endswith(f"-lab-{system}") for system, name in names.items())
    assert stack not in names.values() or "-lab-" in stack


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Docker host on which somebody has a stack of such a name."""

    async def names() -> list[str]:
        return ["default", "wan-lab-galera"]

    monkeypatch.setattr(experiment, "stack_names", names)


@pytest.mark.usefixtures("there")
def test_a_lab_that_makes_stacks_looks_for_all_of_them_before_it_makes_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lab", "run", "systems-78ms", "--quick", "--stack", "wan"]) == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "replexplorer: stack 'wan-lab-galera' is there already, and this makes one of that name:"
        " `replexplorer down --stack wan-lab-galera`, or another --stack\n"
    )
