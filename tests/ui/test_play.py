"""Plays on the real dashboard: the same each time, on live servers and over a recording, and as a cast."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pyte
import pytest
from textual._context import active_app

from replexplorer.cli.experiment import named
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.event import Event, Severity
from replexplorer.core.knobs.names import Assignment
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.engine.outcome import SetResult
from replexplorer.formats.play_script import CastWriter, PlayedLine, PlayScript, read_play
from replexplorer.ui.play import CaptionBar, PlayApp
from replexplorer.ui.settings import Settings
from tests.fakes.facade import WALL_S, FakeFacade, FakeTape, make_tick

pytestmark = pytest.mark.terminal

SIZE = (120, 36)


def play(*lines: str) -> PlayScript:
    return read_play("\n".join(lines), "test.play")


@dataclass
class Cast:
    """What a cast holds, and a terminal that has played it."""

    header: dict[str, Any]
    events: list[list[Any]]

    @property
    def markers(self) -> list[str]:
        return [label for _, kind, label in self.events if kind == "m"]

    @property
    def rows(self) -> list[str]:
        screen = pyte.Screen(self.header["width"], self.header["height"])
        stream = pyte.Stream(screen)
        for _, kind, data in self.events:
            if kind == "o":
                stream.feed(data)
        return [row.rstrip() for row in screen.display]


def own_rows() -> list[str]:
    """What the app that runs now shows, by its own account."""
    screen = active_app.get().screen
    strips = screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def recorded(
    script: PlayScript,
    told: Callable[[PlayedLine], None] = lambda _: None,
    tape: FakeTape | None = None,
    size: tuple[int, int] = SIZE,
) -> tuple[PlayApp, Cast]:
    """A play over twenty seconds with two marks, and its cast."""
    stream = io.StringIO()
    cast = CastWriter(stream, size, wall_s=WALL_S, title=script.title)
    performance = PlayApp.over(
        script, tape or FakeTape(), Settings(), size=size, cast=cast, told=told
    ).perform()
    if performance.crash is not None:
        raise performance.crash
    header, *events = (json.loads(line) for line in stream.getvalue().splitlines())
    return performance, Cast(header, events)


def steps(performance: PlayApp) -> list[tuple[int, float, str]]:
    return [(each.line, round(each.at_s, 6), each.state) for each in performance.lines]


WALK = play(
    "title Twice across",
    "caption Nothing has been turned yet",
    "wait 2s",
    "until mark within 10s",
    "until tps > 100",
    "key n",
    "until mark 2",
    "key L",
    "key escape",
    "caption",
    "until end",
)


@pytest.mark.costly("it plays the same twice, and draws what a terminal shows of it")
def test_over_a_recording_a_play_meets_the_same_ticks_and_its_cast_ends_with_the_screen() -> None:
    shown: list[list[str]] = []
    first, cast = recorded(WALK, lambda _: shown.append(own_rows()))
    assert first.failure is None
    places_s = (0.0, 2.0, 3.0, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 16.5)
    assert steps(first) == [(line, at_s, "protected") for line, at_s in enumerate(places_s, 2)]
    assert (cast.header["version"], cast.header["width"], cast.header["height"]) == (2, *SIZE)
    assert cast.header["title"] == "Twice across"
    times = [at_s for at_s, _, _ in cast.events]
    assert times == sorted(times)
    assert times[0] == 0.0
    assert cast.markers == ["Nothing has been turned yet", "(1) change 1", "(2) change 2"]
    assert cast.rows == shown[-1]
    assert any("TPS" in row for row in cast.rows)
    assert {kind for _, kind, _ in cast.events} == {"o", "m"}
    again, cast_again = recorded(WALK)
    assert (steps(again), cast_again.markers, cast_again.rows) == (steps(first), cast.markers, cast.rows)


def test_a_caption_stands_on_the_screen_in_front_until_the_next_one() -> None:
    seen: dict[int, list[str]] = {}

    def look(played: PlayedLine) -> None:
        bars = active_app.get().screen.query(CaptionBar)
        seen[played.line] = [str(bar.render()) for bar in bars]

    recorded(play("caption one", "key L", "caption two", "key escape", "caption"), look)
    assert seen == {1: ["one"], 2: ["one"], 3: ["two"], 4: ["two"], 5: []}


def test_a_caption_hides_nothing_and_is_in_large_letters_before_a_room() -> None:
    rows: list[list[str]] = []
    recorded(play("wait 0s", "caption It waits", "key z", "wait 0s"), lambda _: rows.append(own_rows()))
    plain, said, _, large = rows
    assert [row.strip() for row in said[-4:-1]] == ["", "It waits", ""]
    assert [said[-5], said[-1]] == plain[-2:]
    assert "".join(large).count("It waits") == 0
    assert [bool(row.strip()) for row in large[-7:-1]] == [False, True, True, True, True, False]


def test_a_key_that_nothing_takes_ends_the_play() -> None:
    performance, _ = recorded(play("key L", "key escape", "key L", "key X"))
    assert "line 4: `key X`: X does nothing here" in str(performance.failure)


def test_a_paused_recording_lets_a_wait_pass_and_stays_where_it_is() -> None:
    performance, cast = recorded(play("key space", "wait 3s", "key space", "until at 1s"))
    assert steps(performance) == [
        (1, 0.0, "protected"), (2, 3.0, "protected"), (3, 3.0, "protected"), (4, 4.0, "protected"),
    ]  # fmt: skip
    assert cast.markers == []


class AnsweringFacade(FakeFacade):
    """Servers whose pictures keep coming, faster than real ones; a change arms, then protects."""

    def __init__(self) -> None:
        super().__init__()
        self._at_s = 1.0
        self._is_over = False
        self._marks = 0
        self._states = [ProtectionState.OFF]
        """Those to come; the last one lasts."""

    async def ticks(self) -> AsyncIterator[Tick]:
        told: tuple[Event, ...] = ()
        while not self._is_over:
            state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
            tps = 11.0 if state is ProtectionState.PROTECTED else 700.0
            if state is ProtectionState.ARMED:
                self._marks += 1
                told = (Event(self._at_s, WALL_S, Severity.MARK, "semi-sync on", self._marks),)
            yield replace(make_tick(self._at_s, state=state, tps=tps), events=told)
            told = ()
            self._at_s += 0.5
            await asyncio.sleep(0.005)

    async def close(self, *, keep: bool = False) -> str:
        self._is_over = True
        return await super().close(keep=keep)

    async def set(self, assignments: Sequence[Assignment], **_: Any) -> SetResult:
        self._states = [ProtectionState.ARMED, ProtectionState.PROTECTED]
        return await super().set(assignments)


LIVE = play(
    "start rtt=85ms",
    "caption Semi-sync is about to go on",
    "key s",
    "until protected within 20s",
    "mark it waits now",
    "type /rtt",
    "key enter",
    "type 25",
    "key enter",
    "until protected and mark 1 and tps < 20",
)


def turned(facade: AnsweringFacade) -> list[list[tuple[str, Any]]]:
    """What each turn set."""
    return [call for call in facade.called("set") if isinstance(call, list)]


def live(script: PlayScript, **settings: Any) -> tuple[PlayApp, AnsweringFacade]:
    facade = AnsweringFacade()
    facade.failures = settings.pop("failures", {})
    performance = PlayApp(script, facade, Settings(**settings), size=SIZE).perform()
    if performance.crash is not None:
        raise performance.crash
    return performance, facade


@pytest.mark.costly("it plays the same twice")
def test_on_live_servers_the_same_play_gives_the_same_states_each_time() -> None:
    first, facade = live(LIVE)
    assert first.failure is None
    waited = {each.line: each.state for each in first.lines if each.text.startswith("until")}
    assert waited == {4: "protected", 10: "protected"}
    assert len(facade.called("set")) == 4, "the start, two keys, and what is given back"
    assert facade.called("mark") == ["it waits now"]
    again, _ = live(LIVE)
    assert again.failure is None
    assert waited == {each.line: each.state for each in again.lines if each.text.startswith("until")}


def test_a_mark_that_is_drawn_before_its_line_is_waited_for_is_seen() -> None:
    drawn, _ = live(
        play("start rtt=85ms", "key s", "wait 200ms", "caption Armed by now", "until mark within 5s")
    )
    assert drawn.failure is None


def test_each_mark_is_waited_for_once() -> None:
    performance, _ = live(play("start rtt=85ms", "key s", "until mark within 20s", "until mark within 300ms"))
    assert "line 4" in str(performance.failure)


def test_a_play_starts_from_the_defaults_but_for_what_it_says_and_tells_what_that_changed() -> None:
    performance, facade = live(play("start sync_binlog=0", "until protected", "preset none"))
    assert performance.failure is None
    [first, preset, last] = turned(facade)
    assert ("semi_sync", "off") in preset
    assert {("rtt@db2", 0.0), ("sync_binlog", 0), ("clients", 8)} <= set(first)
    assert {"rtt@db2 0 ms", "sync_binlog 0"} <= set(performance.lines[0].changed)
    assert ("rtt@db2", 85.0) in last
    unsaid, _ = live(play("until protected"))
    assert [(each.line, "rtt@db2 0 ms" in each.changed) for each in unsaid.lines] == [(0, True), (1, False)]


@pytest.mark.parametrize("last", ["until tps > 100000 within 300ms", "key ctrl+c", "wait 100ms"])
def test_however_a_play_ends_it_clears_faults_and_gives_back_what_it_turned(last: str) -> None:
    performance, facade = live(play("start rtt=20ms", "fault kill@db1", "set clients=3", last, "wait 1s"))
    assert (performance.failure is None) == last.startswith("wait")
    assert [name for name, _ in facade.calls if name != "start"][-3:] == ["clear", "set", "close"]
    assert facade.called("inject") == [("kill", ("db1",))]
    assert facade.called("clear")[-1] is None
    assert {("rtt@db2", 85.0), ("clients", 8)} <= set(turned(facade)[-1])
    assert "restored what the play turned: " in performance.left
    assert "rtt@db2 20 → 85 ms" in performance.left


def test_what_is_hidden_takes_no_time_of_the_cast_and_what_follows_is_drawn_whole() -> None:
    shown: list[list[str]] = []
    hidden = play("wait 1s", "hide", "until at 11s", "key L", "show", "mark seen", "wait 2s")
    performance, cast = recorded(hidden, lambda _: shown.append(own_rows()))
    assert performance.failure is None
    assert cast.rows == shown[-1]
    assert cast.events[-1][0] == 3.0
    assert [label for at_s, kind, label in cast.events if kind == "m" and at_s > 0.0] == ["seen"]


@pytest.mark.parametrize(("method", "where"), [("start", ""), ("reset", "test.play, line 2: `reset`: ")])
def test_what_the_servers_refuse_ends_the_play_and_its_line_is_named(method: str, where: str) -> None:
    refusal = UsageError("a lab turns the knobs", "wait for its end")
    performance, _ = live(play("start rtt=85ms", "reset"), failures={method: refusal})
    assert str(performance.failure) == f"{where}a lab turns the knobs: wait for its end"
    assert bool(performance.lines) is bool(where)


def test_keys_are_the_default_ones_whatever_the_user_s_are() -> None:
    script = play("start rtt=85ms", "key s", "until protected")
    performance, facade = live(script, keymap={"semisync.toggle": "z"})
    assert performance.failure is None
    assert len(facade.called("set")) == 3


def test_a_play_that_is_quit_from_within_says_where() -> None:
    performance, _ = recorded(play("key q", "wait 10s", "wait 10s"))
    assert isinstance(performance.failure, ReplexplorerError)
    assert performance.failure.exit_code == 130
    assert "line" in performance.failure.message


def test_a_lab_runs_by_its_name_and_one_that_does_not_hold_ends_the_play() -> None:
    played, facade = live(read_play("lab wan-insert quick\nwait 100ms", "test.play", named))
    assert facade.called("lab") == [("wan-insert", True)]
    assert "line 1: `lab wan-insert quick`: lab wan-insert: deviates" in str(played.failure)
    assert played.failure is not None
    assert played.failure.exit_code == 1


def test_a_lesson_says_each_step_and_what_came_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replexplorer.ui.play._READ_S", 0.1)  # nobody reads it
    lesson = SimpleNamespace(name="short", steps=[SimpleNamespace(say="Guess"), SimpleNamespace(say="Bye")])
    given = AsyncMock(lesson=lesson, at=0, is_open=True)
    """A lesson of two steps; the first one asks."""

    def answer(_: None) -> Any:
        given.is_open = False
        return SimpleNamespace(words="right: 12 TPS")

    given.answer.side_effect = answer
    given.next.side_effect = lambda: setattr(given, "at", 1)
    settings: Any = Settings(give=lambda *_: nullcontext(given))
    stream = io.StringIO()
    cast = CastWriter(stream, SIZE, wall_s=WALL_S)
    played = PlayApp(play("lesson short"), AnsweringFacade(), settings, size=SIZE, cast=cast).perform()
    assert played.failure is None
    events = [json.loads(line) for line in stream.getvalue().splitlines()[1:]]
    assert [label for _, kind, label in events if kind == "m"][-3:] == ["Guess", "right: 12 TPS", "Bye"]
    given.begin.assert_awaited_once()
    given.end.assert_awaited_once()
