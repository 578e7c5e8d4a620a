"""The epoch ledger over the whole terminal: words, intervals of all figures, and its copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.epochs.epochs import Epoch, EpochSide
from replexplorer.core.epochs.table import markdown
from replexplorer.core.server.comeback import Outage, outage_words
from replexplorer.core.stats.measured import Estimate
from replexplorer.ui.terminal.glyphs import BRAILLE
from replexplorer.ui.widgets.ledger import EpochStrip, details, difference, heads, row, rows_of
from replexplorer.ui.words.runs import Line, width_of
from tests.fakes.facade import make_tick
from tests.ui.driving import bench

BEFORE = EpochSide(
    Estimate(619.2, 611.4, 627.0), Estimate(25.2, 25.1, 25.3), Estimate(29.1, 29.0, 29.3),
    Estimate(35.2, 34.4, 35.9), 28_500,
)  # fmt: skip
AFTER = EpochSide(
    Estimate(88.4, 88.1, 88.7), Estimate(89.2, 88.8, 89.6), Estimate(93.0, 92.7, 93.3),
    Estimate(98.0, 97.1, None), 7433,
)  # fmt: skip
BASELINE = Epoch(0, 0.0, "baseline", None, 619.2, verdict="baseline", n=28_500, after=BEFORE)
SLOWER = Epoch(
    1, 40.0, "rtt 20 → 85 ms", 619.2, 88.4, -85.7, "slower", 89.2, 93.0, 98.0, 7433,
    low_percent=-86.0, high_percent=-85.4, before=BEFORE, after=AFTER,
)  # fmt: skip
OPEN = replace(SLOWER, mode="open", delta_percent=219.6, low_percent=210.0, high_percent=None)


def text(line: Line) -> str:
    return "".join(part for part, _ in line)


def drawn(epoch: Epoch, width: int = 119) -> str:
    return text(row(epoch, width, BRAILLE, 0.0))


@pytest.mark.parametrize(("key", "keymap"), [("c", {}), ("f5", {"ledger.copy": "f5"})])
async def test_the_ledger_says_the_word_and_shows_both_sides_and_is_copied_by_a_key(
    key: str, keymap: dict[str, str]
) -> None:
    async with bench(make_tick(1.0, epochs=(BASELINE, SLOWER)), keymap=keymap) as app:
        await app.press("g")
        await app.until(lambda: f"{key} copy as Markdown" in app.shown[0])
        await app.until(lambda: "slower" in app.screen_text)
        for told in (
            "7.0 times slower · by TPS, 95 % sure at any time",
            "before  TPS 619 [611, 627]  p50 25.2 [25.1, 25.3]",
            "after   TPS 88.4 [88.1, 88.7]",
            "p99 98.0 [97.1, …]  n 7433",
        ):
            assert told in app.screen_text
        await app.press(*({"c"} - {key}))
        assert not app.app.clipboard
        await app.press(key)
        await app.until(lambda: bool(app.app.clipboard))
        assert app.app.clipboard == markdown((BASELINE, SLOWER), app.dashboard.picture.origin_s)
        assert "| 7.0 times slower |" in app.app.clipboard


@pytest.mark.parametrize("width", [79, 119, 159])
@pytest.mark.parametrize("epoch", [BASELINE, SLOWER, OPEN])
def test_every_row_fits_and_nothing_is_cut(epoch: Epoch, width: int) -> None:
    lines = [row(epoch, width, BRAILLE, 0.0), *details(epoch, width)]
    assert all(width_of(line) <= width for line in lines)
    assert not any(text(line).endswith("…") for line in lines)
    for figure in ("88.4 [88.1, 88.7]", "98.0 [97.1, …]") if epoch.number else ("35.2 [34.4, 35.9]",):
        assert any(figure in text(line) for line in lines)


NO_INTERVAL = replace(SLOWER, low_percent=None, high_percent=None)
TOO_NOISY = replace(NO_INTERVAL, verdict="too noisy", more_s=40.0)


@pytest.mark.parametrize(
    ("epoch", "run"),
    [
        (OPEN, ("▴ x3.2", "bad b")),  # in the open loop a figure that grows is a p95: that is slower
        (SLOWER, ("▾ x0.143", "bad b")),
        (
            replace(SLOWER, delta_percent=40.0, low_percent=30.0, high_percent=50.0, verdict="faster"),
            ("▴ x1.4", "good b"),
        ),
        (replace(SLOWER, verdict="no difference shown"), ("≈ x0.143", "muted")),
    ],
)
def test_the_word_colours_and_not_the_direction(epoch: Epoch, run: tuple[str, str]) -> None:
    assert difference(epoch) == [run]
    assert difference(replace(epoch, verdict="measuring")) == []


@pytest.mark.parametrize(
    ("epoch", "width", "told"),
    [
        (OPEN, 119, "p95 29 → 93 ms"),
        (OPEN, 119, "[3.1, …]"),
        (replace(NO_INTERVAL, verdict="too short"), 119, "too short"),
        (replace(NO_INTERVAL, verdict="too short"), 79, "too short"),
        (TOO_NOISY, 159, "x0.14 too noisy: 40 s more"),
        (TOO_NOISY, 119, "x0.14 too noisy: 40 s more"),
        (TOO_NOISY, 79, "40 s"),
        (replace(SLOWER, at_s=3_750.0), 119, " 1:02:30 "),
        (SLOWER, 119, "   00:40 "),
    ],
)
def test_a_row_says_what_decides_and_what_is_missing(epoch: Epoch, width: int, told: str) -> None:
    assert told in drawn(epoch, width)
    assert len(drawn(epoch, width)) == len(drawn(SLOWER, width))


def test_a_baseline_is_not_compared_and_the_open_loop_by_its_p95() -> None:
    assert "short" not in drawn(replace(BASELINE, verdict="too short"))
    assert "by response p95" in text(details(OPEN, 119)[0])


@pytest.mark.parametrize("width", [79, 119, 159])
def test_the_ledger_has_each_title_in_full_and_the_words_of_an_outage(width: int) -> None:
    outage = Outage(blocked_s=9.8, unprotected_s=3.0, unprotected=4064, again_s=10.2)
    assert SLOWER.after is not None
    fallen_back = replace(SLOWER, after=replace(SLOWER.after, outage=outage), verdict="outage")
    for title in ("partition both → none", "fault over: isolate@db2, applier_stop@db3"):
        for epoch in (SLOWER, fallen_back):
            lines = rows_of(replace(epoch, title=title), width, BRAILLE, 0.0)
            assert all(width_of(line) <= width for line in lines)
            found = " ".join(" ".join(text(line) for line in lines).split())
            assert title in found
            assert epoch is SLOWER or outage_words(outage)[0] in found


WIDE_FIGURES = replace(
    SLOWER, number=121, before_tps=57.6, after_tps=18_678.0, delta_percent=32_327.1, low_percent=-98.7,
    high_percent=104_000.0, p50_ms=10_012.0, p95_ms=10_020.0, p99_ms=30_400.0,
    verdict="faster",
)  # fmt: skip


@pytest.mark.parametrize("width", [79, 119, 159])
@pytest.mark.parametrize("number", [0, 9, 10, 21, 121, 1210])
def test_neither_a_long_number_nor_a_wide_interval_moves_a_row(width: int, number: int) -> None:
    """Every row ends where the heads end, and each column is apart from the one before."""
    wide = drawn(replace(WIDE_FIGURES, number=number), width)
    assert len(wide) == len(text(heads(width))) == width
    others = (drawn(replace(SLOWER, number=number), width), drawn(SLOWER, width))
    assert {line.index("rtt") for line in others} == {wide.index("rtt")}
    interval = ["[0.013,", "1041]"] if width > 79 else ["0.013–1041"]
    figures = {
        79: ["10k", "10k", "30k", "7433"],
    }.get(width, ["10012", "10020", "30400", "7433"])
    shown = ["▴", "x324", *interval, *figures]
    assert wide.split()[-len(shown) :] == shown


async def test_the_short_rows_keep_their_columns_too() -> None:
    marks = (SLOWER, replace(SLOWER, number=21), WIDE_FIGURES)
    async with bench(make_tick(1.0, epochs=marks), size=(80, 24)) as app:
        rows = app.dashboard.query_one(EpochStrip).rows
        assert len({line.index("rtt") for line in rows}) == 1
        assert len({len(line) for line in rows}) == 1
        assert rows[0].split()[-7:] == ["▴", "x324", "0.013–1041", "p50", "10k", "p99", "30k"]


@pytest.mark.parametrize(
    ("p50_ms", "p99_ms", "tail"), [(142.0, 2572.0, "p50 142 p99 2572"), (3.7, 48.0, "p50 3.7   p99 48")]
)
async def test_no_figure_of_a_short_row_is_cut(p50_ms: float, p99_ms: float, tail: str) -> None:
    epoch = replace(SLOWER, p50_ms=p50_ms, p99_ms=p99_ms)
    async with bench(make_tick(1.0, epochs=(epoch,)), size=(80, 24)) as app:
        (row,) = app.dashboard.query_one(EpochStrip).rows[:1]
        assert row.rstrip().endswith(f" {tail}")
        assert len(row.rstrip()) < 80


OUT = replace(
    SLOWER, title="partition@db2 none → both", delta_percent=None, low_percent=None,
    high_percent=None, verdict="outage",
    after=replace(AFTER, outage=Outage(blocked_s=10.0, unprotected_s=9.9, unprotected=18_678, again_s=20.3)),
)  # fmt: skip
BACK = replace(OUT, number=2, before=OUT.after, after=AFTER, title="rtt 20 → 85 ms")


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (159, "blocked 10.0 s, then 18,678 commits unprotected, protected again after 20.3 s"),
        (119, "blocked 10.0 s, then 18,678 commits unprotected, protected again after 20.3 s"),
        (75, "blocked 10.0 s, then 18,678 commits unprotected"),
        (62, "blocked 10.0 s, 18,678 unprotected"),
    ],
)
def test_a_row_with_an_outage_says_it_and_claims_no_gain(width: int, words: str) -> None:
    line = row(OUT, width, BRAILLE, 0.0)
    assert text(line).endswith(words)
    assert width_of(line) <= width
    assert {ink for part, ink in line if words in part} == {"warn"}
    assert not any(ink.startswith(("good", "bad")) for _, ink in line)
    assert "%" not in text(line)


def test_the_row_after_an_outage_shows_its_figures_and_claims_no_gain() -> None:
    for width, told in ((119, "outage before"), (75, "outage")):
        line = row(BACK, width, BRAILLE, 0.0)
        assert told in text(line)
        assert "88.4" in text(line)
        assert not any(ink.startswith(("good", "bad")) for _, ink in line)
    assert "not compared: before it blocked 10.0 s" in text(details(BACK, 119)[0])
    assert "blocked 10.0 s, then 18,678 commits" in text(details(OUT, 119)[0])


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 45)])
async def test_a_row_with_an_outage_and_the_session_s_total_are_seen_at_every_size(
    size: tuple[int, int],
) -> None:
    tick = make_tick(1.0, epochs=(BASELINE, OUT))
    tick = replace(tick, protection=replace(tick.protection, unprotected=18_678))
    async with bench(tick, size=size) as app:
        table = "#epoch-strip" if size[0] == 80 else "#epochs"
        assert "18,678" in app.text(table)
        assert "blocked 10.0 s" in app.text(table)
        await app.press("g")
        await app.until(lambda: app.app.screen.name == "epochs")
        await app.until(lambda: "18,678 commits unprotected" in app.shown[0])


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 45)])
async def test_a_change_is_named_as_the_panel_names_its_knob(size: tuple[int, int]) -> None:
    title = "innodb_flush_log_at_trx_commit 1 → 2, rtt@db2 0 → 85 ms"
    epoch = replace(SLOWER, title=title)
    tick = make_tick(1.0, epochs=(BASELINE, epoch))
    async with bench(tick, size=size) as app:
        name = "#epoch-strip" if size[0] == 80 else "#epochs"
        told = "innodb_flu" if size[0] == 120 else "innodb_flush 1 → 2"
        assert told in app.text(name)
        assert "_log_at_trx" not in app.text(name)
        await app.press("g")
        await app.until(lambda: "Epochs" in app.shown[0])
        rows = app.screen_text
        assert told in rows or size[0] < 160
        assert "_log_at_trx" not in rows
