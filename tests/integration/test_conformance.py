"""The scenarios of the fakes on real servers, one after the other on a stack of their own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.conformance.scenarios import SCENARIOS, Scenario
from tests.integration.conftest import LiveStack, a_stack
from tests.integration.sessions import attached

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def live(docker_client: Any, state_home: object) -> Iterator[LiveStack]:
    """A stack that the scenarios may break."""
    with a_stack("conformance") as live:
        yield live


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
async def test_servers_do_as_the_fakes_do(live: LiveStack, play: Scenario) -> None:
    await play(partial(attached, live))
