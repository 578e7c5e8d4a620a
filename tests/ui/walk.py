"""A walk through all screens at one size, with much that is long or wrong: what each shows, row by row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from rich.color import Color
from textual.strip import Strip

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event, Severity
from replexplorer.core.server.exposure import Exposure, Loss
from replexplorer.core.server.node_view import ThreadError
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.widgets.lines import Chart, Lines
from tests.fakes.facade import FakeFacade
from tests.ticks import WALL_S, altered, change_event, explained, tick_of
from tests.typed import table_of
from tests.ui.driving import bench, drawn
from tests.ui.test_listings import WAITS
from tests.vision import contrast

SIZES: Final = ((80, 24), (120, 36), (160, 45), (200, 60))
THEMES: Final = dict(zip(SIZES, ("dark", "light", "safe", "dark"), strict=True))
"""Each theme is seen at a size of its own."""
LEAST_CONTRAST: Final = 4.5
"""WCAG 2.2, success criterion 1.4.3, for text of a usual size."""
STACK: Final = "classroom-of-the-autumn-term"
REPLICAS: Final = 3
WHY: Final = (
    "error 1062 at worker 3: Could not execute Write_rows event on table shop.order_lines; Duplicate entry "
    "'2894712-18' for key 'order_lines.PRIMARY', Error_code: 1062; handler error HA_ERR_FOUND_DUPP_KEY"
)
_CHANGE: Final = "binlog_group_commit_sync_no_delay_count 0 → 1000000, group_replication_consistency"
_TROUBLES: Final = f"""\
100 stack={STACK} state=degraded tps=12345.6 rtt=1250.0,1250.4 replicas={REPLICAS} fsync_ms=12.2 \
semi_sync=on sync_binlog=0 fsync_delay=2 partition@db2=both jitter@db2=1.5 down=db3 db4.sql_thread=error \
fault=kill@db3,partition=both@db2,disk_stall=2500@db1 since=20"""


@dataclass(frozen=True)
class Seen:
    """A screen of the walk."""

    name: str
    rows: tuple[str, ...]
    """The whole terminal's, each as wide as it is."""
    lost: tuple[str, ...]
    """What a widget had to draw and its place had no room for, as `widget: row`."""
    weak: frozenset[str] = frozenset()
    """What stands out too little, with its colours."""


def calm(words: str = "") -> Tick:
    """All is well on three replicas, but for what the words say."""
    return tick_of(f"replicas={REPLICAS} stack={STACK} explained {words}")


def troubled() -> Tick:
    """One replica is down, one has an error, one is cut off; three faults, and long words everywhere."""
    epochs = (
        Epoch(0, 0.0, "baseline", None, 12_619.0, p50_ms=25.2, p95_ms=29.0, p99_ms=35.0, n=28_500),
        Epoch(1, 40.0, _CHANGE, 12_619.0, 88.4, -99.3, "slower", 89.0, 93.0, 1_098.0, 7_433),
        Epoch(12, 80.0, _CHANGE, 88.4, None),
    )
    events = (
        change_event(40.0, 1, _CHANGE),
        Event(90.0, WALL_S + 90, Severity.BAD, f"db4: SQL thread: {WHY}"),
        Event(95.0, WALL_S + 95, Severity.WARN, "semi-sync timed out: commits are asynchronous"),
    )
    risks = Exposure(
        Loss(0, 0, 0), Loss(31_200, 30_000, 34_000, 11_413.0), Loss(128_812, 120_000, 130_000, 9_812.0)
    )
    tick = tick_of(_TROUBLES, events=events, epochs=epochs, exposure=risks)
    faults = tuple(replace(each, by="drill split-brain (pid 1234567)") for each in tick.faults)
    tick = altered(tick, db4={"sql_error": ThreadError(1062, WHY)})
    return explained(replace(tick, faults=faults), failed=True, excess_ms=41.5)


def seen_of(name: str, app: ExplorerApp) -> Seen:
    """What a terminal shows now, drawn once for all that is looked for in it."""
    strips = drawn(app)
    rows = tuple("".join(segment.text for segment in strip) for strip in strips)
    return Seen(name, rows, lost_rows(app), weak_texts(strips))


def weak_texts(strips: Iterable[Strip]) -> frozenset[str]:
    """What in these rows stands out too little, with its colours."""
    found = set()
    for strip in strips:
        for segment in strip:
            style = segment.style
            if style is None or not any(char.isalnum() for char in segment.text):
                continue
            assert style.color is not None
            assert style.bgcolor is not None
            if _contrast(style.color, style.bgcolor) < LEAST_CONTRAST:
                found.add(f"{segment.text.strip()!r}: {style}")
    return frozenset(found)


@cache
def _contrast(color: Color, ground: Color) -> float:
    first, second = color.get_truecolor(), ground.get_truecolor()
    return contrast((first.red, first.green, first.blue), (second.red, second.green, second.blue))


def lost_rows(app: ExplorerApp) -> tuple[str, ...]:
    """What widgets of lines paint beyond their places."""
    lost = []
    for widget in app.screen.query(Lines):
        if widget.display and widget.region.area and widget.is_on_screen:
            name = widget.id or type(widget).__name__
            width, height = widget.size
            painted = widget.paint(width, height)
            words = ["".join(text for text, _ in row) for row in painted]
            lost += [f"{name}: {row.rstrip()}" for row in words if len(row.rstrip()) > width]
            lost += [f"{name}: {row}" for row in words[:1] if isinstance(widget, Chart) and "…" in row]
            lost += [f"{name}: {row.rstrip()}" for row in words[height:] if row.strip()]
    return tuple(lost)


STATES: Final = """\
staged     | down right | escape
exposure   | e          | e
held       | space      | space
presenting | z          | z
filter     | /          | escape escape
value      | 5          | escape
asking     | q          | n
"""
COMPACT: Final = """\
latency    | v          |
drawer     | v v enter  | escape
"""
"""Of the dashboard, by which keys one comes there and back."""
SCREENS: Final = """\
help       | ?
ledger     | g
log        | L
nodes      | N
waits      | W
faults     | F
faults, the last | F end
sweep      | S
labs       | o
"""


async def walk(size: tuple[int, int], **settings: object) -> AsyncIterator[Seen]:
    """Every screen, in the order in which one comes by."""
    facade = FakeFacade(replicas=REPLICAS, by_turns=True)
    facade.waited = (WAITS,)
    async with bench(calm(), size=size, facade=facade, stack=STACK, **settings) as app:

        def seen(name: str) -> Seen:
            return seen_of(name, app.app)

        async def settled() -> None:
            await app.pilot.pause()
            await app.pilot.pause()

        yield seen("calm")
        for number, state in enumerate(ProtectionState):
            await app.play(calm(f"{2 + number} state={state}"))
            yield seen(state)
        await app.play(troubled())
        await settled()
        yield seen("troubled")
        for name, keys, back in table_of(STATES + COMPACT * (size == SIZES[0])):
            await app.press(keys)
            await settled()
            yield seen(name)
            await app.press(back)
        for name, keys in table_of(SCREENS):
            await app.press(keys)
            await app.until(lambda: not isinstance(app.app.screen, DashboardScreen), name)
            await settled()
            yield seen(name)
            while not isinstance(app.app.screen, DashboardScreen):
                await app.press("escape")
        await app.press("o down enter y")
        await app.until(lambda: app.dashboard.has_class("-lab"), "the lab")
        await settled()
        yield seen("lab")
        await app.press("z")
        await settled()
        yield seen("lab, presenting")
        await app.press("z A")
