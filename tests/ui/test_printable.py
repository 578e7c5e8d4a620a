"""What a server or a file says reaches the dashboard as text, never as something that a terminal obeys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event, Severity
from replexplorer.core.tick import Tick
from tests.ticks import WALL_S, altered, make_tick
from tests.ui.driving import bench

RED = "\x1b[31m"


def hostile_tick() -> Tick:
    """Everything that somebody else writes holds a control sequence."""
    events = (
        Event(1.0, WALL_S, Severity.BAD, f"server said {RED}", 1),
        Event(1.0, WALL_S, Severity.WARN, "and \x9b2J\u202e\nmore"),
    )
    tick = altered(
        make_tick(1.0, events=events, epochs=(Epoch(1, 0.5, f"change {RED}", 1.0, 2.0),)),
        load={"fault": f"fault {RED}", "state": "waiting", "driver": RED},
        links={"fault": f"link {RED}"},
        disks={"fault": f"disk {RED}"},
        db1={"version": f"9{RED}", "host": RED},
        db2={"version": f"9{RED}", "host": RED},
    )
    return replace(tick, knobs={name: replace(view, note=f"note {RED}") for name, view in tick.knobs.items()})


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_no_screen_draws_it(size: tuple[int, int]) -> None:
    async with bench(hostile_tick(), size=size) as app:
        if size[0] == 160:
            assert r"server said \x1b[31m" in app.screen_text
        for key in ("", *"Llo?e"):
            await app.press(key)
            assert "".join(app.shown).isprintable(), key
            while app.app.screen is not app.dashboard:
                await app.press("escape")


async def test_a_toast_is_plain_text() -> None:
    async with bench() as app:
        app.app.notify(f"[bold]not markup[/] {RED}", title=RED, markup=True)
        await app.pilot.pause()
        [toast] = app.app._notifications
        assert (toast.message, toast.title) == (r"[bold]not markup[/] \x1b[31m", r"\x1b[31m")
        assert not toast.markup
        app.app.notify("x" * 5000)
        assert len(list(app.app._notifications)[-1].message) <= 600
