"""Plays on the real dashboard: the same each time, on live servers and over a recording, and as a cast."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pyte
import pytest
from syrupy.assertion import SnapshotAssertion
from textual._context import active_app

from replexplorer.cli.experiment import named
from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import Assignment
from replexplorer.core.tick import Tick
from replexplorer.engine.outcome import SetResult
from replexplorer.formats.play_script import CastWriter, PlayedLine, PlayScript, read_play
from replexplorer.ui.play import PlayApp
from replexplorer.ui.settings import Settings
from tests.fakes.facade import FakeFacade, FakeTape
from tests.known import known
from tests.ticks import WALL_S, change_event, tick_of
from tests.typed import table_of
from tests.ui.driving import page

pytestmark = pytest.mark.terminal

SIZE = (120, 36)


def play(text: str) -> PlayScript:
    """A line after each semicolon."""
    return read_play(text.replace("; ", "\n"), "test.play", named)


@dataclass
class Played:
    """A play, the screen after each of its lines by the app's own account, and what its cast holds."""

    app: PlayApp
    shown: list[list[str]]
    header: dict[str, Any]
    events: list[list[Any]]

    @property
    def markers(self) -> list[str]:
        return [label for _, kind, label in self.events if kind == "m"]

    @property
    def rows(self) -> list[str]:
        """What a terminal shows that has played the cast."""
        screen = pyte.Screen(self.header["width"], self.header["height"])
        stream = pyte.Stream(screen)
        for _, kind, data in self.events:
            if kind == "o":
                stream.feed(data)
        return [row.rstrip() for row in screen.display]

    @property
    def steps(self) -> list[tuple[int, float, str]]:
        return [(each.line, round(each.at_s, 6), each.state) for each in self.app.lines]


def performed(text: str, facade: FakeFacade | None = None, **settings: Any) -> Played:
    """On these servers, or over a recording of twenty seconds with two marks."""
    stream, shown = io.StringIO(), list[list[str]]()

    def look(_: PlayedLine) -> None:
        strips = active_app.get().screen._compositor.render_strips()
        shown.append(["".join(segment.text for segment in strip).rstrip() for strip in strips])

    script, how = play(text), Settings(**settings)
    options: dict[str, Any] = {"size": SIZE, "told": look}
    options["cast"] = CastWriter(stream, SIZE, wall_s=WALL_S, title=script.title)
    app = (
        PlayApp(script, facade, how, **options)
        if facade
        else PlayApp.over(script, FakeTape(), how, **options)
    )
    app.perform()
    if app.crash is not None:
        raise app.crash
    header, *events = map(json.loads, stream.getvalue().splitlines())
    return Played(app, shown, header, events)


WALK = """\
title Twice across
caption Nothing has been turned yet
wait 2s
until mark within 10s
until tps > 100
key n
until mark 2
key L
key escape
caption
until end
"""


@pytest.mark.costly("it plays the same twice, and draws what a terminal shows of it")
def test_over_a_recording_a_play_meets_the_same_ticks_and_its_cast_ends_with_the_screen() -> None:
    first, again = performed(WALK), performed(WALK)
    assert first.app.failure is None
    places_s = (0.0, 2.0, 3.0, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 16.5)
    assert first.steps == [(line, at_s, "protected") for line, at_s in enumerate(places_s, 2)]
    told = {"version": 2, "width": SIZE[0], "height": SIZE[1], "title": "Twice across"}
    assert told.items() <= first.header.items()
    times = [at_s for at_s, _, _ in first.events]
    assert times == sorted(times)
    assert times[0] == 0.0
    assert first.markers == ["Nothing has been turned yet", "(1) change 1", "(2) change 2"]
    assert first.rows == first.shown[-1]
    assert any("TPS" in row for row in first.rows)
    assert (again.steps, again.markers, again.rows) == (first.steps, first.markers, first.rows)


def test_a_caption_stands_in_front_until_the_next_one_hides_nothing_and_is_large_before_a_room() -> None:
    plain, one, still_one, two, still_two, none, _, _, large = performed(
        "wait 0s; caption One; key L; caption Two; key escape; caption; caption It waits; key z; wait 0s"
    ).shown
    for rows, caption in ((one, "One"), (still_one, "One"), (two, "Two"), (still_two, "Two")):
        assert [row.strip() for row in rows if row.strip() in ("One", "Two")] == [caption]
    assert [row.strip() for row in one[-4:-1]] == ["", "One", ""]
    assert [one[-5], one[-1]] == plain[-2:]
    assert none == plain
    assert "It waits" not in "".join(large)
    assert [bool(row.strip()) for row in large[-7:-1]] == [False, True, True, True, True, False]


def test_a_paused_recording_lets_a_wait_pass_and_stays_where_it_is() -> None:
    played = performed("key space; wait 3s; key space; until at 1s")
    assert [at_s for _, at_s, _ in played.steps] == [0.0, 3.0, 3.0, 4.0]
    assert played.markers == []


def test_what_is_hidden_takes_no_time_of_the_cast_and_what_follows_is_drawn_whole() -> None:
    played = performed("wait 1s; hide; until at 11s; key L; show; mark seen; wait 2s")
    assert played.app.failure is None
    assert played.rows == played.shown[-1]
    assert played.events[-1][0] == 3.0
    assert [label for at_s, kind, label in played.events if kind == "m" and at_s > 0.0] == ["seen"]


class AnsweringFacade(FakeFacade):
    """Servers whose pictures keep coming, faster than real ones; a change arms, then protects."""

    _is_over = False
    _states: tuple[str, ...] = ("off",)
    """Those to come; the last one lasts."""

    async def ticks(self) -> AsyncIterator[Tick]:
        at_s, marks = 1.0, 0
        while not self._is_over:
            state, self._states = self._states[0], self._states[1:] or self._states
            tick = tick_of(f"{at_s} state={state} tps={11.0 if state == 'protected' else 700.0}")
            if state == "armed":
                marks += 1
                tick = replace(tick, events=(change_event(at_s, marks, "semi-sync on"),))
            yield tick
            at_s += 0.5
            await asyncio.sleep(0.005)

    async def close(self, *, keep: bool = False) -> str:
        self._is_over = True
        return await super().close(keep=keep)

    async def set(self, assignments: Sequence[Assignment], **_: Any) -> SetResult:
        self._states = ("armed", "protected")
        return await super().set(assignments)


LIVE = """\
a knob by its name, and conditions together | start rtt=85ms; caption Semi-sync is about to go on; key s; \
until protected within 20s; mark it waits now; type /rtt; key enter; type 25; key enter; \
until protected and mark 1 and tps < 20
a mark that is drawn before its line is waited for is seen | start rtt=85ms; key s; wait 200ms; \
caption Armed by now; until mark within 5s
each mark is waited for once | start rtt=85ms; key s; until mark within 20s; until mark within 300ms
it starts from the defaults but for what it says | start sync_binlog=0; until protected; preset none
or from the defaults alone | until protected
what it turned is restored where it fails | start rtt=20ms; fault kill@db1; set clients=3; \
until tps > 100000 within 300ms; wait 1s
and where it is left | start rtt=20ms; fault kill@db1; set clients=3; key ctrl+c; wait 1s
and at its end | start rtt=20ms; fault kill@db1; set clients=3; wait 100ms
a lab that does not hold ends it | lab wan-insert quick; wait 100ms
"""
"""Plays on live servers."""
PLAYS = dict(table_of(LIVE))


def told(played: Played, facade: FakeFacade) -> Iterable[str]:
    """What came of it, with what was asked of some knobs."""
    for each in played.app.lines:
        state = f" {each.state}" if each.text.startswith("until") else ""
        changed = [one for one in each.changed if one.startswith(("rtt", "sync_binlog", "semi_sync "))]
        yield f"{each.line}: {each.text}{state} {changed or ''}"
    for method, asked in facade.calls:
        kept = ("rtt@db2", "sync_binlog", "semi_sync", "clients")
        yield f"   {method} {[one for one in asked if one[0] in kept] if isinstance(asked, list) else asked}"
    failure = played.app.failure
    yield from (
        "" if failure is None else f"{failure} (exit code {failure.exit_code})",
        *played.app.left.split(";")[:1],
        "",
    )


@pytest.mark.parametrize("name", PLAYS)
def test_on_live_servers_a_play_gives_the_same_each_time(name: str, snapshot: SnapshotAssertion) -> None:
    """With the default keys, whatever the user's are."""
    facade = AnsweringFacade()
    played = performed(PLAYS[name], facade, keymap={"semisync.toggle": "z"})
    assert page(told(played, facade)) == snapshot


@pytest.mark.parametrize(("method", "where"), [("start", ""), ("reset", "test.play, line 2: `reset`: ")])
def test_what_the_servers_refuse_ends_the_play_and_its_line_is_named(method: str, where: str) -> None:
    facade = AnsweringFacade()
    facade.failures[method] = UsageError("a lab turns the knobs", "wait for its end")
    played = performed("start rtt=85ms; reset", facade)
    assert str(played.app.failure) == f"{where}a lab turns the knobs: wait for its end"
    assert bool(played.app.lines) is bool(where)


@pytest.mark.parametrize(
    ("script", "code", "why"),
    [
        ("key L; key escape; key L; key X", 1, "line 4: `key X`: X does nothing here"),
        ("key q; wait 10s; wait 10s", 130, "line"),
    ],
)
def test_a_key_that_nothing_takes_or_that_quits_ends_the_play_and_says_where(
    script: str, code: int, why: str
) -> None:
    failure = known(performed(script).app.failure)
    assert failure.exit_code == code
    assert why in str(failure)


def test_a_lesson_says_each_step_and_what_came_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replexplorer.ui.play._READ_S", 0.1)
    lesson = SimpleNamespace(name="lag", steps=[SimpleNamespace(say="Guess"), SimpleNamespace(say="Bye")])
    given = AsyncMock(lesson=lesson, at=0, is_open=True)
    """A lesson of two steps; the first one asks."""

    def answer(_: None) -> Any:
        given.is_open = False
        return SimpleNamespace(words="right: 12 TPS")

    given.answer.side_effect = answer
    given.next.side_effect = lambda: setattr(given, "at", 1)
    played = performed("lesson lag", AnsweringFacade(), give=lambda *_: nullcontext(given))
    assert played.app.failure is None
    assert played.markers[-3:] == ["Guess", "right: 12 TPS", "Bye"]
    given.begin.assert_awaited_once()
    given.end.assert_awaited_once()
