"""The scenarios of the fakes on real servers, one after the other."""

from __future__ import annotations

from functools import partial

import pytest

from tests.conformance.scenarios import SCENARIOS, Scenario
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached

pytestmark = pytest.mark.docker


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
async def test_servers_do_as_the_fakes_do(live_stack: LiveStack, play: Scenario) -> None:
    await play(partial(attached, live_stack))
