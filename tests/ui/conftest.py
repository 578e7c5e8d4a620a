"""The screens' tests wait until the app has nothing to do, and no longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from textual import app, pilot, screen
from textual._compositor import Compositor
from textual.css.stylesheet import Stylesheet

SOON_S = 1 / 50
"""A timer due within that is work: a screen paints what has changed a moment later."""


async def idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Return as soon as nothing is ready to run on the event loop and no timer is due soon.

    Textual's own waits until the process uses little of the processor for 20 ms, and for a second where
    it never does: that is longer on an idle machine, and on a busy one says nothing of the app.
    """
    loop: Any = asyncio.get_running_loop()
    began_s = time.monotonic()
    while (now_s := time.monotonic()) < began_s + max_sleep:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        await asyncio.sleep(0)  # what other threads and sockets have brought meanwhile
        if loop._ready:
            continue
        due = [timer.when() for timer in loop._scheduled if not timer.cancelled()]
        if now_s >= began_s + max(min_sleep, SOON_S) or min(due, default=now_s + 1) > loop.time() + SOON_S:
            return
        await asyncio.sleep(max(0.0, min(due) - loop.time()))


@pytest.fixture(autouse=True, scope="session")
def _paints_at_once() -> Iterator[None]:
    """What has changed is painted within 2 ms, not 17: after each key that is waited for twice."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(screen, "UPDATE_PERIOD", 1 / 500)
        yield


@pytest.fixture(autouse=True, scope="session")
def _styles_are_parsed_once() -> Iterator[None]:
    """Each app would parse the same styles of all its widgets again, with the same colours in them: an eighth
    of what a test of a screen takes."""
    parse_rules, parsed = Stylesheet._parse_rules, dict[Any, Any]()

    def once(sheet: Stylesheet, *words: Any, **named: Any) -> Any:
        key = words, *named.items(), frozenset(sheet._variables.items())
        if key not in parsed:
            parsed[key] = parse_rules(sheet, *words, **named)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Stylesheet, "_parse_rules", once)
        yield


@pytest.fixture(autouse=True)
def _draws_for_no_terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a headless app would send to its terminal is composed for those who look at that: it is a third of
    what an app does. Whole screens are drawn whenever they are asked for."""
    if request.node.get_closest_marker("terminal"):
        return
    render_update = Compositor.render_update

    def whole_ones(self: Compositor, full: bool = False, **named: Any) -> Any:
        if full:
            return render_update(self, full=True, **named)
        self._dirty_regions.clear()
        return None

    monkeypatch.setattr(Compositor, "render_update", whole_ones)


@pytest.fixture(autouse=True)
def _waits_for_the_app_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "wait_for_idle", idle)
    monkeypatch.setattr(pilot, "wait_for_idle", idle)


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user's own clock shows UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
