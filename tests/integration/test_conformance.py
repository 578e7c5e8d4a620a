"""The scenarios of the fakes on real servers, one after the other on a stack of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.ports import UpOptions
from tests.conformance.scenarios import SCENARIOS, Scenario
from tests.integration.conftest import PREFIX, LiveStack, bring_up, take_down
from tests.integration.sessions import attached

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def live(docker_client: Any, state_home: object) -> Iterator[LiveStack]:
    """A stack that the scenarios may break."""
    stack = DockerProvider(f"{PREFIX}-conformance")
    try:
        yield asyncio.run(bring_up(stack, UpOptions()))
    finally:
        asyncio.run(take_down(stack))


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
async def test_servers_do_as_the_fakes_do(live: LiveStack, play: Scenario) -> None:
    await play(partial(attached, live))
