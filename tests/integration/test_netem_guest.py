"""The netem backend on a kernel that has it: a stock Debian kernel under emulation, whatever the host's.

What is measured there is in the guest's own time, which is counted in instructions: it depends neither
on the host's speed nor on its load. The guest is described in tests/guest.
"""

from __future__ import annotations

import pytest

from tests.guest import machine
from tests.guest.scenario import PARTS

pytestmark = [pytest.mark.docker, pytest.mark.in_full]


@pytest.fixture(scope="module")
def defects() -> dict[tuple[str, str], str | None]:
    """Of each step of one run, what it found wrong."""
    try:
        image = machine.ensure()
    except machine.Unavailable as error:
        pytest.skip(str(error))
    return machine.defects(image)


@pytest.mark.parametrize(
    ("part", "step"), [(part, step.__name__) for part, steps in PARTS.items() for step in steps]
)
def test_netem(defects: dict[tuple[str, str], str | None], part: str, step: str) -> None:
    assert defects[part, step] is None, defects[part, step]
