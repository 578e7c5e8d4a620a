"""The link and the disk on the dashboard: chips, windows, measured beside asked, words typed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.geometry import Region
from textual.widget import Widget

from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.link import LinkView
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.ui.charts.chart_model import FaultWindow, WindowKind
from replexplorer.ui.picture import Picture
from replexplorer.ui.widgets.lines import Chart, Lines
from tests.fakes.facade import change_event, make_tick
from tests.ui.driving import Bench, bench

PARTITION = KnobName("partition", "db2")
DELAY = KnobName("fsync_delay", SOURCE)
BLOCKED, DEGRADED, DOWN = ProtectionState.BLOCKED, ProtectionState.DEGRADED, ProtectionState.DOWN
CUT: dict[KnobName, Value] = {PARTITION: "ack"}


def runs(app: Bench, selector: str) -> list[tuple[str, str]]:
    return [run for line in app.painted(selector) for run in line]


def with_disk(tick: Tick, **changes: object) -> Tick:
    """The primary's disk otherwise."""
    disks = tuple(replace(one, **changes) if one.node == "db1" else one for one in tick.disks)  # type: ignore[arg-type]
    return replace(tick, disks=disks)


def with_link(tick: Tick, **changes: object) -> Tick:
    """Every link otherwise."""
    return replace(tick, links=tuple(replace(one, **changes) for one in tick.links))  # type: ignore[arg-type]


# The header


@pytest.mark.parametrize("width", [160, 120, 80])
@pytest.mark.parametrize("state", [ProtectionState.PROTECTED, BLOCKED, DEGRADED])
async def test_a_partition_stands_beside_the_state_at_every_width(state: ProtectionState, width: int) -> None:
    async with bench(make_tick(1.0, state=state, values=CUT), size=(width, 42)) as app:
        [row] = app.rows("#header")
        assert len(row) == width
        assert row.index(state.value.upper()) < row.index(" PARTITION ack ") < row.index("TPS")
        assert (" PARTITION ack ", "onstate on partitioned b") in runs(app, "#header")
        await app.play(make_tick(1.5, state=state))
        assert "PARTITION" not in app.text("#header")


async def test_a_partition_names_its_replica_where_there_are_several() -> None:
    second = KnobName("partition", "db3")
    async with bench(make_tick(1.0, replicas=2, values={second: "dump"}), size=(160, 45)) as app:
        assert " PARTITION db3 dump " in app.text("#header")
        await app.play(make_tick(1.5, replicas=2, values={second: "both", PARTITION: "both"}))
        assert " PARTITION both " in app.text("#header")
        await app.play(make_tick(2.0, replicas=2, values={second: "dump", PARTITION: "both"}))
        assert " PARTITION db2 both, db3 dump " in app.text("#header")


@pytest.mark.parametrize(
    ("width", "words"), [(160, "healed, TCP retries"), (120, "healed, TCP retries"), (80, "healed")]
)
async def test_healing_is_told_until_events_flow(width: int, words: str) -> None:
    async with bench(make_tick(1.0, healing=True), size=(width, 42)) as app:
        assert words in app.text("#header")
        assert "PARTITION" not in app.text("#header")
        await app.play(make_tick(1.5))
        assert "healed" not in app.text("#header")


async def test_a_round_trip_with_jitter_or_a_narrow_link_is_not_told_as_a_contradiction() -> None:
    jitter: dict[KnobName, Value] = {KnobName("jitter", "db2"): 10.0}
    narrow: dict[KnobName, Value] = {KnobName("bandwidth", "db2"): 1_000_000}
    async with bench(make_tick(1.0, rtt=(85.0, 99.0))) as app:
        assert ("99.0", "warn b") in runs(app, "#header")
        for at_s, values in ((1.5, jitter), (2.0, narrow)):
            await app.play(make_tick(at_s, rtt=(85.0, 99.0), values=values))
            assert ("99.0", "text b") in runs(app, "#header")


async def test_a_link_that_does_not_do_what_was_asked_is_a_fault_beside_its_figures() -> None:
    fault = "asked 85 ms, measured 0.2 ms"
    async with bench(with_link(make_tick(1.0, rtt=(85.0, 0.2)), fault=fault), size=(160, 45)) as app:
        assert "link ▲" in app.text("#header")
        assert ("0.2", "warn b") in runs(app, "#header")
        assert fault not in app.text("#header")
        await app.play(with_link(make_tick(2.0), fault="an agent does not answer"))
        assert "link: an agent does not answer" in app.text("#header")


async def test_the_header_shows_a_delay_and_what_an_fsync_takes() -> None:
    async with bench(make_tick(1.0, values={DELAY: 2.0}, fsync_ms=2.2), size=(200, 45)) as app:
        assert "fsync +2 → 2.2" in app.text("#header")
        assert ("2.2", "text b") in runs(app, "#header")
        await app.play(make_tick(2.0, values={DELAY: 2.0}, fsync_ms=1.2))
        assert ("1.2", "warn b") in runs(app, "#header")
        await app.play(make_tick(2.0, values={DELAY: 2.0}, fsync_ms=None))
        assert "fsync +2 → -" in app.text("#header")


@pytest.mark.parametrize(("width", "shown"), [(200, True), (120, False), (80, False)])
async def test_an_fsync_without_a_delay_is_told_where_there_is_room(width: int, shown: bool) -> None:
    async with bench(make_tick(1.0, fsync_ms=0.21), size=(width, 42)) as app:
        assert ("fsync 0.21" in app.text("#header")) is shown


async def test_the_fsync_gives_way_to_the_rest_of_a_small_header() -> None:
    async with bench(make_tick(1.0, values={DELAY: 2.0}, fsync_ms=2.2), size=(80, 24)) as app:
        assert "fsync" not in app.text("#header")
        assert "p99" in app.text("#header")
        assert "fsync +2 → 2.2" in app.text("#value-strip")
        risk: dict[KnobName, Value] = {KnobName("sync_binlog", SOURCE): 0, DELAY: 2.0}
        await app.play(make_tick(1.5, values=risk, fsync_ms=2.2))
        assert "in 0.5 s ×8" in app.text("#value-strip")
        assert "fsync +2 → 2.2  sync_binlog 0" in app.text("#value-strip")
        risk[KnobName("innodb_flush_log_at_trx_commit", SOURCE)] = 2
        await app.play(make_tick(2.0, values=risk, fsync_ms=2.2))
        assert "sync_binlog 0  innodb_flush 2" in app.text("#value-strip")


async def test_a_disk_that_cannot_be_slowed_is_a_fault_only_when_that_is_asked() -> None:
    why = "this image refuses LD_PRELOAD"
    async with bench(with_disk(make_tick(1.0), fault=why, delay_ms=None), size=(160, 45)) as app:
        assert "disk" not in app.text("#header")
        await app.play(with_disk(make_tick(1.5, values={DELAY: 2.0}), fault=why, delay_ms=None))
        assert f"disk: {why}" in app.text("#header")
        await app.pilot.resize_terminal(80, 24)
        await app.until(lambda: "disk ▲" in app.text("#header"), "the short chip")


# The panel


async def test_what_is_measured_stands_beside_what_is_asked() -> None:
    values: dict[KnobName, Value] = {DELAY: 2.0, KnobName("loss", "db2"): 1.0}
    async with bench(make_tick(1.0, values=values, fsync_ms=2.2)) as app:
        rows = {row.split()[0]: row.split() for row in app.rows("#knobs") if row.strip()}
        assert rows["fsync"] == ["fsync", "delay", "2", "ms", "2", "ms", "2.2"]
        assert rows["loss"] == ["loss", "1", "%", "1", "%", "1", "%"]
        assert rows["DISK"] == ["DISK", "bare", "disk", "0.08", "measured"]
        await app.play(make_tick(2.0, values=values, fsync_ms=1.1))
        assert ("1.1", "warn b") in runs(app, "#knobs")
        await app.play(with_disk(make_tick(3.0, values=values, fsync_ms=2.2), probe_p50_ms=None))
        assert "bare disk" not in app.text("#knobs")


async def test_a_small_screen_tells_what_is_measured_on_the_knob_line() -> None:
    async with bench(make_tick(1.0, values={DELAY: 2.0}, fsync_ms=2.2), size=(80, 24)) as app:
        assert "in effect 85 ms  measured 85.4" in app.text("#knob-line")
        app.dashboard.select_knob(DELAY)
        assert "in effect 2 ms  measured 2.2" in app.text("#knob-line")
        app.dashboard.select_knob(PARTITION)
        assert "measured" not in app.text("#knob-line")


async def test_a_delay_that_is_not_possible_is_said_and_amber_when_asked() -> None:
    tick = make_tick(1.0)
    knobs = {**tick.knobs, DELAY: replace(tick.knobs[DELAY], effective=None)}
    broken = with_disk(replace(tick, knobs=knobs), fault="no shim", delay_ms=None, measured_ms=None)
    async with bench(broken) as app:
        assert ("not possible", "faint") in runs(app, "#knobs")
        knobs = {**knobs, DELAY: replace(knobs[DELAY], requested=2.0)}
        await app.play(with_disk(replace(broken, at_s=1.5, knobs=knobs), delay_asked_ms=2.0))
        assert ("not possible", "warn b") in runs(app, "#knobs")


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_seldom_settings_are_shown_by_a_key(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        panel = "#knobs" if size == (120, 36) else "#drawer"
        assert "jitter" not in app.text(panel)
        await app.press("enter")
        await app.until(lambda: "bandwidth" in app.text(panel))
        await app.press("enter", "down", "down")
        assert f"{len(app.dashboard.board.views)}, LINK" not in app.text("#knob-line")
        assert "bandwidth" not in app.text("#knobs")
        assert app.facade.called("set") == []


async def test_a_setting_that_is_not_at_its_default_is_always_shown() -> None:
    async with bench(make_tick(1.0, values={KnobName("jitter", "db2"): 1.5})) as app:
        assert "1.5 ms" in app.text("#knobs")
        assert "loss" not in app.text("#knobs")


async def test_the_filter_finds_a_folded_setting() -> None:
    async with bench() as app:
        await app.press("slash")
        await app.until(lambda: app.dashboard.board.typed is not None)
        await app.press(*"bandw")
        await app.until(lambda: "bandwidth" in app.text("#knobs"))


# Values typed


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
@pytest.mark.parametrize(
    ("key", "typed", "value"),
    [
        ("delay_to_replica", "iauto", "auto"),
        ("delay_to_replica", "30", 30.0),
        ("bandwidth", "20mbit", 20_000_000),
        ("bandwidth", "iunlimited", 0),
        ("loss", "1%", 1.0),
        ("partition", "inone", "none"),
        ("partition", "iack", "ack"),
        ("fsync_delay", "2.5ms", 2.5),
    ],
)
async def test_words_and_units_are_typed_into_the_value(
    key: str, typed: str, value: Value, size: tuple[int, int]
) -> None:
    name = KnobName(key, SOURCE if key == "fsync_delay" else "db2")
    other = 10.0 if name.key == "delay_to_replica" and value == "auto" else name.knob.default
    async with bench(make_tick(1.0, values={name: "both" if value == "none" else other}), size=size) as app:
        app.dashboard.select_knob(name)
        await app.pilot.pause()
        for character in typed:
            named = {".": "full_stop", "%": "percent_sign"}
            await app.pilot.press(named.get(character, character))
        assert app.dashboard.board.typed == typed.removeprefix("i")
        await app.press("enter")
        assert app.dashboard.board.typed is None
        if value == app.dashboard.board.views[name].requested:
            assert app.facade.called("set") == []
        else:
            await app.until(lambda: app.facade.called("set") == [[(str(name), value)]])


@pytest.mark.parametrize(
    ("key", "value", "ladder"),
    [
        ("bandwidth", 0, "20mbit 100mbit 1gbit unlimited"),
        ("bandwidth", 3_000_000, "1mbit 2mbit 3mbit 5mbit 10mbit"),
        ("bandwidth", 2_000_000_000, "100mbit 1gbit 2gbit unlimited"),
        ("delay_to_replica", "auto", "auto 0ms 1ms 5ms 10ms 25ms 50ms"),
        ("delay_to_replica", 30.0, "5ms 10ms 25ms 30ms 50ms 100ms"),
        ("loss", 100.0, "0.1% 0.5% 1% 2% 5% 10% 25% 100%"),
        ("partition", "dump", "none ack dump both"),
    ],
)
async def test_a_ladder_has_its_words_and_the_value_among_them(key: str, value: Value, ladder: str) -> None:
    name = KnobName(key, "db2")
    async with bench(make_tick(1.0, values={name: value})) as app:
        app.dashboard.select_knob(name)
        drawn = app.rows("#statement")[-1].split()
        assert drawn == ladder.split()
        [marked] = [text for text, words in runs(app, "#statement") if words == "title b u"]
        assert marked.split()[0] in ladder.split()


# The charts


def windows(*ticks: Tick, now: bool = True) -> list[FaultWindow]:
    picture = Picture()
    for tick in ticks:
        picture.fold(tick)
    return list(picture.chart("tps").page.windows)


def cut(start_s: float, end_s: float | None, word: str) -> FaultWindow:
    """A partition's window, with the word that fits where its length does not."""
    short = "" if end_s is None else word.rpartition(" ")[0].rpartition(" ")[0]
    return FaultWindow(start_s, end_s, word, WindowKind.PARTITION, short)


def test_a_partition_is_a_window_until_events_flow() -> None:
    marked = change_event(4.9, 1, "partition@db2 none → ack")
    ticks = [
        make_tick(4.5),
        make_tick(5.0, values=CUT, events=(marked,)),
        make_tick(5.5, values=CUT),
        make_tick(14.0, healing=True),
    ]
    assert windows(*ticks[:3]) == [cut(5.0, None, "partition ack")]
    assert windows(*ticks) == [cut(5.0, None, "partition ack")]
    assert windows(*ticks, make_tick(14.9)) == [cut(5.0, 14.9, "partition ack 9.9 s")]


def test_a_partition_that_turns_is_two_windows() -> None:
    assert windows(
        make_tick(5.0, values=CUT), make_tick(9.0, values={PARTITION: "both"}), make_tick(12.0)
    ) == [cut(5.0, 9.0, "partition ack 4.0 s"), cut(9.0, 12.0, "partition both 3.0 s")]


def test_an_agent_that_does_not_answer_ends_no_partition() -> None:
    unknown = with_link(make_tick(6.0), values=None, fault="an agent does not answer")
    assert windows(make_tick(5.0, values=CUT), unknown) == [cut(5.0, None, "partition ack")]
    assert windows(unknown) == []


def test_a_partition_and_what_it_brings_are_windows_of_their_own() -> None:
    ticks = [
        make_tick(5.0, values=CUT),
        make_tick(6.0, values=CUT, state=BLOCKED),
        make_tick(16.0, values=CUT, state=DEGRADED),
    ]
    assert [(one.word, one.kind) for one in windows(*ticks)] == [
        ("partition ack", WindowKind.PARTITION),
        ("blocked 10.0 s", WindowKind.BLOCKED),
        ("degraded", WindowKind.DEGRADED),
    ]
    ticks += [make_tick(20.0, state=DEGRADED), make_tick(20.5)]
    assert [(one.word, one.end_s) for one in windows(*ticks)] == [
        ("partition ack 15.0 s", 20.0),
        ("blocked 10.0 s", 16.0),
        ("degraded 4.5 s", 20.5),
    ]


def of(tick: Tick, **protection: object) -> Tick:
    return replace(tick, protection=replace(tick.protection, **protection))  # type: ignore[arg-type]


def test_a_state_s_window_begins_when_the_first_commit_waited() -> None:
    ticks = [
        make_tick(5.0),
        of(make_tick(6.5, state=BLOCKED), since_s=5.2),
        of(make_tick(7.0, state=BLOCKED), since_s=5.2),
        of(make_tick(15.5, state=DEGRADED), since_s=15.2),
        of(make_tick(16.0), since_s=15.9),
    ]
    assert [(one.word, one.start_s, one.end_s) for one in windows(*ticks)] == [
        ("blocked 10.0 s", 5.2, 15.2),
        ("degraded 0.7 s", 15.2, 15.9),
    ]


def test_a_state_that_a_change_passes_through_is_no_window() -> None:
    """A lab that switches semi-sync on is not degraded meanwhile."""
    ticks = [make_tick(5.0), of(make_tick(5.5, state=DEGRADED), settled=False), make_tick(6.0)]
    assert windows(*ticks) == []


def test_a_server_that_restarts_is_a_window_with_its_name() -> None:
    tick = make_tick(8.0)
    back = replace(tick, nodes=(tick.nodes[0], replace(tick.nodes[1], restarted_s=7.4)))
    again = replace(back, at_s=9.0)
    assert windows(make_tick(5.0), back, again) == [
        FaultWindow(7.4, 7.4, "db2 restarted", WindowKind.RESTART)
    ]


def test_a_held_picture_keeps_its_open_window() -> None:
    picture = Picture()
    picture.fold(make_tick(5.0, values=CUT))
    picture.freeze()
    picture.fold(make_tick(9.0))
    assert picture.chart("tps").page.windows == (cut(5.0, None, "partition ack"),)
    picture.freeze()
    assert picture.chart("tps").page.windows == (cut(5.0, 9.0, "partition ack 4.0 s"),)


async def test_both_charts_shade_an_open_partition_with_its_word() -> None:
    ticks = [make_tick(at / 2, values=CUT if at >= 20 else None) for at in range(80)]
    async with bench(*ticks) as app:
        for name in ("#tps-chart", "#latency-chart"):
            chart = app.dashboard.query_one(name, Chart)
            text = "\n".join(chart.render_line(y).text for y in range(chart.size.height))
            assert " partition ack" in text
            model = chart.shown
            assert model is not None
            assert [(one.start_s, one.end_s) for one in model.page.windows] == [(10.0, None)]


async def test_the_stream_is_drawn_broken_while_it_is_cut() -> None:
    async with bench(make_tick(1.0, values=CUT)) as app:
        assert "╌✖╌" in app.text("#topology")
        await app.play(make_tick(1.5, healing=True))
        assert "╌╌▸" in app.text("#topology")
        await app.play(make_tick(2.0))
        assert "──▸" in app.text("#topology")


# Nothing is drawn that did not change


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the widgets that ask to be drawn again."""
    asked: list[str] = []
    refresh = Widget.refresh

    def noted(
        self: Widget, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Widget:
        if repaint and isinstance(self, Lines | Chart):
            asked.append(f"{self.id}")
        return refresh(self, *regions, repaint=repaint, layout=layout, recompose=recompose)

    monkeypatch.setattr(Widget, "refresh", noted)
    return asked


@pytest.mark.parametrize("size", [(160, 45), (120, 36), (80, 24)])
async def test_a_tick_with_the_same_content_draws_nothing(size: tuple[int, int], drawn: list[str]) -> None:
    values: dict[KnobName, Value] = {**CUT, DELAY: 2.0, KnobName("loss", "db2"): 1.0}

    def tick() -> Tick:
        return make_tick(2.0, state=BLOCKED, values=values, fsync_ms=2.2, healing=True)

    async with bench(make_tick(1.0), tick(), size=size) as app:
        await app.play(tick())
        drawn.clear()
        await app.play(tick())
        assert drawn == []
        await app.play(make_tick(2.0, state=BLOCKED, values=values, fsync_ms=2.3, healing=True))
        assert drawn != []


def test_the_fake_has_what_the_ticks_promise() -> None:
    tick = make_tick(values={**CUT, DELAY: 2.0})
    assert isinstance(tick.links[0], LinkView)
    assert tick.links[0].partition == "ack"
    assert isinstance(tick.source_disk, DiskView)
    assert tick.source_disk.delay_asked_ms == 2.0
