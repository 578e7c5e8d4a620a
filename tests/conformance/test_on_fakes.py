"""The scenarios on the world of fakes, in virtual time."""

from __future__ import annotations

import pytest

from tests.conformance.scenarios import SCENARIOS, Scenario
from tests.fakes.clock import virtual
from tests.fakes.world import World


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
@virtual
async def test_the_fakes_do_as_servers_do(play: Scenario) -> None:
    await play(World().attached)
