"""The mean commit's parts, the servers' counters and the prediction, as rows of text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.server.truth import ReplicaTruth, ServerTruth
from replexplorer.core.tick import Tick
from replexplorer.ui.terminal.glyphs import ASCII
from replexplorer.ui.widgets.anatomy import WORDS, bar
from replexplorer.ui.words.runs import width_of
from replexplorer.ui.words.states import truth_runs
from tests.fakes.facade import explained, make_tick
from tests.ui.driving import bench


@given(
    st.dictionaries(st.sampled_from(list(Part)), st.floats(0, 5000), min_size=1),
    st.integers(1, 150),
    st.booleans(),
)
def test_a_bar_fills_its_width_and_names_no_part_that_is_not_there(
    parts: dict[Part, float], width: int, tones: bool
) -> None:
    runs = bar(parts, width, tones=tones)
    assert width_of(runs) == (width if sum(parts.values()) > 0 else 0)
    there = {part.value for part, ms in parts.items() if ms > 0}
    if tones:
        assert {word for _, words in runs for word in words.split()} <= there | {"oncolor", "on", "b"}
    assert all(text.isascii() for text, _ in runs)


def test_the_scale_is_true_to_half_a_cell() -> None:
    """10.25 of 20 cells, whatever else is in the bar, and nothing for what is too short."""
    runs = bar({Part.ACK: 10.25, Part.ENGINE: 9.745, Part.OTHER: 0.005}, 20, tones=True)
    assert sum(len(text) for text, words in runs if words.startswith("oncolor on ack")) == 10
    assert "other" not in "".join(words for _, words in runs)


def test_without_colours_each_part_has_its_own_character() -> None:
    assert len({words.pattern for words in WORDS.values()}) == len(Part)
    text = "".join(text for text, _ in bar({Part.REDO: 1.0, Part.ACK: 3.0}, 40, tones=False))
    assert set(text[:10]) <= set("% redo1.")
    assert " ACK wait 3.0 ms " in text[10:]
    assert text.rstrip(":") != text


@pytest.mark.parametrize("size", [(160, 45), (120, 36)])
async def test_the_panel_tells_parts_limit_and_counters(size: tuple[int, int]) -> None:
    async with bench(explained(make_tick(1.0)), size=size) as app:
        text = app.text("#anatomy")
        assert "AFTER_SYNC: acknowledged before the engine commits" in text
        assert "commit 89.4 ms" in text
        assert "ACK wait 85.7" in text
        assert "other 0.20" in text
        assert "network wait: 97 % of a commit; twice the clients would nearly double TPS" in text
        assert "group 6.2" in text
        assert "✓ 2 checks" in text
        assert "db2 lag 12 ms, 3 queued" in app.text("#topology")
        if size[0] == 160:
            assert "■ redo 1.9" in text
            assert "predicted 89.0/s at 89.4 ms" in text
            assert "binlog 0.05" in text
        assert all(len(row) <= size[0] for row in app.rows("#anatomy"))


@pytest.mark.parametrize("size", [(160, 45), (120, 36)])
async def test_the_legend_keeps_its_places_whatever_is_nothing_or_long(size: tuple[int, int]) -> None:
    few = {Part.EXECUTE: 2.8, Part.BINLOG: 0.0, Part.ENGINE: 0.7, Part.OTHER: 1240.0}
    all_parts = dict.fromkeys(Part, 85.4)
    del all_parts[Part.GROUP]
    places = []
    async with bench(size=size) as app:
        for at, parts in enumerate((few, all_parts)):
            anatomy = Anatomy(5.0, 900, sum(parts.values()), parts)
            await app.play(replace(explained(make_tick(3.0 + 3 * at)), anatomy=anatomy))
            legend = app.rows("#anatomy")[1:3]
            places.append([[at for at, cell in enumerate(row) if cell == "■"] for row in legend])
            assert not any("…" in row for row in legend)
            if at == 0:
                assert re.search(r"redo +-", legend[0]), "nothing was measured of it"
                assert "binlog 0.00" in legend[1]
    assert places[0] == places[1]
    assert [len(row) for row in places[0]] == [5, 5]


async def test_a_narrow_legend_has_every_part() -> None:
    parts = {
        Part.WIRE: 11.2, Part.EXECUTE: 2.8, Part.FSYNC_QUEUE: 65.7, Part.REDO: 9.9, Part.BINLOG: 11.4,
        Part.ACK_QUEUE: 15.0, Part.ACK: 30.0, Part.ENGINE: 0.7, Part.OTHER: 0.1,
    }  # fmt: skip
    tick = replace(explained(make_tick(1.0)), anatomy=Anatomy(5.0, 900, 146.8, parts))
    async with bench(tick) as app:
        legend = "".join(app.rows("#anatomy")[1:3])
        for part in (
            "wire 11.2", "exec 2.8", "fsyncQ 65.7", "redo 9.9", "binlog 11.4", "engine 0.70", "ACK 45.0",
            "(queued 15.0)", "other 0.10",
        ):  # fmt: skip
            assert part in legend


async def test_the_wait_for_an_acknowledgement_is_both_its_queue_and_its_own() -> None:
    """14 ms of one's own group at a round trip of 25 are not what a commit waits: 12 passed in the queue."""
    parts = {Part.EXECUTE: 2.0, Part.FSYNC_QUEUE: 5.0, Part.BINLOG: 4.0, Part.ACK_QUEUE: 12.0, Part.ACK: 14.0}
    tick = replace(explained(make_tick(1.0)), anatomy=Anatomy(5.0, 900, 37.0, parts))
    async with bench(tick, size=(160, 45)) as app:
        text = app.text("#anatomy")
        assert "ACK 26.0" in text
        assert "(queued 12.0)" in text
        assert "fsyncQ 5.0" in text
        assert " ACK wait 26.0 ms " in app.rows("#anatomy")[3]
        assert "14.0" not in text


async def test_what_limits_loses_whole_clauses_only() -> None:
    tick = explained(make_tick(1.0))
    assert tick.predicted is not None
    limit = "redo and binlog fsync: 48 % of a commit; twice the clients would give 1.4 times the TPS"
    tick = replace(tick, predicted=replace(tick.predicted, limit=limit))
    async with bench(tick) as app:
        assert app.rows("#anatomy")[4].strip() == limit.partition(";")[0]
    async with bench(tick, size=(160, 45)) as app:
        assert limit in app.text("#anatomy")


async def test_a_small_screen_has_the_bar_in_one_row_and_a_failed_check_before_it() -> None:
    async with bench(explained(make_tick(1.0)), size=(80, 24)) as app:
        [row] = app.rows("#anatomy")
        assert row.startswith(" commit 89.4 ms ")
        assert "ACK wait 85.7 ms" in row
        await app.play(explained(make_tick(3.0), failed=True))
        [row] = app.rows("#anatomy")
        assert row == " ▲ Little's law: 8 clients, TPS x mean = 6.1  "


async def test_a_failed_check_is_never_hidden_and_the_others_are_still_counted() -> None:
    async with bench(explained(make_tick(1.0), failed=True)) as app:
        assert "▲ Little's law: 8 clients, TPS x mean = 6.1" in app.rows("#anatomy")[-1]
        assert "✓ 1 check" in app.rows("#anatomy")[-1]
        assert ("▲ Little's law: ", "warn b") in app.painted("#anatomy")[-1]


@pytest.mark.parametrize(("excess_ms", "told"), [(8.0, False), (12.0, True)])
@pytest.mark.parametrize("size", [(160, 45), (120, 36)])
async def test_parts_that_are_more_than_the_whole_are_told(
    excess_ms: float, told: bool, size: tuple[int, int]
) -> None:
    async with bench(explained(make_tick(1.0), excess_ms=excess_ms), size=size) as app:
        assert ("▲ parts exceed the mean by 12.0 ms" in app.text("#anatomy")) == told


STARTED = make_tick(1.0)
assert STARTED.load is not None
WAITING = replace(STARTED, load=replace(STARTED.load, state="waiting"))


@pytest.mark.parametrize(
    ("tick", "why"),
    [
        (make_tick(1.0), "measuring…"),
        (make_tick(1.0, viewer=True), "another app drives the load"),
        (replace(make_tick(1.0), load=None), "no load runs"),
        (WAITING, "the load waits for a server that takes writes"),
    ],
)
@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_what_is_not_known_is_said_and_not_drawn(tick: Tick, why: str, size: tuple[int, int]) -> None:
    async with bench(tick, size=size) as app:
        assert why in app.text("#anatomy")
        assert "0.0" not in app.text("#anatomy")
        assert "checks" not in app.text("#anatomy")


async def test_the_title_follows_the_wait_point_and_the_state() -> None:
    tick = explained(make_tick(1.0))
    after = replace(tick, protection=replace(tick.protection, wait_point="after_commit"))
    async with bench(after) as app:
        assert "AFTER_COMMIT: visible before it is acknowledged" in app.rows("#anatomy")[0]
        await app.play(explained(make_tick(1.5, state=ProtectionState.OFF)))
        assert "asynchronous: no replica is waited for" in app.rows("#anatomy")[0]


async def test_ascii_and_no_color_tell_the_parts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with bench(explained(make_tick(1.0)), glyphs=ASCII, no_color=True) as app:
        text = app.text("#anatomy")
        assert "% redo 1.9" in text
        assert "%" in app.rows("#anatomy")[3]
        assert "::: ACK wait 85.7 ms :::" in app.rows("#anatomy")[3]


def test_what_fits_of_the_counters_is_kept_by_rank() -> None:
    truth = ServerTruth(10.0, group_size=2.0, replicas=(ReplicaTruth("db2", 2400.0),))
    text = "".join(text for text, _ in truth_runs(truth, 60))
    assert text == "group 2.0 · lag 2.4 s"
    assert "".join(text for text, _ in truth_runs(truth, 20)) == "lag 2.4 s"
    assert truth_runs(None, 60) == []


def test_an_anatomy_without_parts_has_no_bar() -> None:
    assert bar(Anatomy(1.0, 1, 5.0).parts, 10, tones=True) == []


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 45)])
async def test_the_anatomy_says_which_stretch_it_is_of_at_every_size(size: tuple[int, int]) -> None:
    async with bench(explained(make_tick(1.0)), size=size) as app:
        assert "commit 89.4 ms in 5 s" in app.text("#anatomy")


def test_a_wait_for_an_acknowledgement_has_one_figure() -> None:
    """63.0 ms of a commit's time stood beside threads' waits of 27.6 ms, as if one of them were wrong."""
    tick = explained(make_tick(1.0))
    beside = "".join(text for text, _ in truth_runs(tick.truth, 200, tick.anatomy))
    assert "ack waits 85/s" in beside
    assert "ack waits 85/s of" not in beside
    alone = "".join(text for text, _ in truth_runs(tick.truth, 200))
    assert "ack waits 85/s of 85.7 ms" in alone


async def test_counters_without_an_anatomy_say_their_stretch_themselves() -> None:
    async with bench(replace(explained(make_tick(1.0)), anatomy=None)) as app:
        assert "counters in 10 s" in app.text("#anatomy")
