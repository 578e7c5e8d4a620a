"""The epoch ledger over the whole terminal: words, intervals of all figures, and its copy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.epochs.epochs import Epoch, EpochSide
from replexplorer.core.epochs.table import markdown
from replexplorer.core.server.comeback import Outage
from replexplorer.core.server.exposure import Exposure, Loss, Unknown, silent
from replexplorer.core.stats.measured import Estimate
from replexplorer.ui.terminal.glyphs import BRAILLE
from replexplorer.ui.widgets.ledger import heads, row, rows_of
from replexplorer.ui.words.runs import Line, width_of
from tests.fakes.facade import altered, make_tick
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


AT_RISK = Exposure(Loss(0, 0, 0), Loss(312, 300, 340, 413.0), Unknown("no replica"))
NO_INTERVAL = replace(SLOWER, low_percent=None, high_percent=None)
WIDE_FIGURES = replace(
    SLOWER, number=121, before_tps=57.6, after_tps=18_678.0, delta_percent=32_327.1, low_percent=-98.7,
    high_percent=104_000.0, p50_ms=10_012.0, p95_ms=10_020.0, p99_ms=30_400.0,
    verdict="faster",
)  # fmt: skip
OUT = replace(
    SLOWER, title="partition@db2 none → both", delta_percent=None, low_percent=None,
    high_percent=None, verdict="outage",
    after=replace(AFTER, outage=Outage(blocked_s=10.0, unprotected_s=9.9, unprotected=18_678, again_s=20.3)),
)  # fmt: skip
LONG = "fault over: isolate@db2, applier_stop@db3"
EPOCHS = {
    "a baseline is not compared": BASELINE,
    "nor is it too short": replace(BASELINE, verdict="too short"),
    "slower": SLOWER,
    "faster": replace(SLOWER, delta_percent=40.0, low_percent=30.0, high_percent=50.0, verdict="faster"),
    "no difference": replace(SLOWER, verdict="no difference shown"),
    "still measuring": replace(SLOWER, verdict="measuring"),
    "the open loop by its p95, and one that grows is slower": OPEN,
    "too short": replace(NO_INTERVAL, verdict="too short"),
    "too noisy": replace(NO_INTERVAL, verdict="too noisy", more_s=40.0),
    "after an hour": replace(SLOWER, at_s=3_750.0),
    "at risk on each side": replace(
        SLOWER, before=replace(BEFORE, exposure=silent("no load")), after=replace(AFTER, exposure=AT_RISK)
    ),
    "a slow tail": replace(SLOWER, p50_ms=142.0, p99_ms=2572.0),
    "fractions of a millisecond": replace(SLOWER, p50_ms=3.7, p99_ms=48.0),
    "an outage claims no gain": OUT,
    "nor does what comes after one": replace(OUT, number=2, before=OUT.after, after=AFTER),
    "a title that its row cuts": replace(SLOWER, title=LONG),
    "and of an outage": replace(OUT, title=LONG),
    **{f"number {number}": replace(WIDE_FIGURES, number=number) for number in (0, 9, 10, 21, 121, 1210)},
}


def written(line: Line) -> str:
    """The text, and in brackets what of it is colored."""
    coloured = [f" [{ink}: {part.strip()}]" for part, ink in line if ink.startswith(("good", "bad", "warn"))]
    return text(line).rstrip() + "".join(coloured)


@pytest.mark.parametrize("width", [62, 75, 79, 119, 159])
def test_rows_of_every_epoch(width: int, snapshot: SnapshotAssertion) -> None:
    """Every row ends where the heads end; below it stands all that is known, with nothing cut."""
    page = [text(heads(width))]
    for name, epoch in EPOCHS.items():
        first, *more = rows_of(epoch, width, BRAILLE, 0.0)
        assert width_of(first) == width or width < 75, name
        assert all(width_of(line) <= width for line in more), name
        assert width < 79 or not any("…" in text(line).replace(", …]", "") for line in more), name
        page += [f"-- {name}", written(first), *(written(line) for line in more if width >= 79)]
    assert "\n".join(page) == snapshot


def test_short_rows_of_every_epoch(snapshot: SnapshotAssertion) -> None:
    """No figure of one is cut, and none moves a column."""
    lines = [row(epoch, 79, BRAILLE, 0.0, in_strip=True) for epoch in EPOCHS.values()]
    assert {width_of(line) for line in lines} == {79}
    assert "\n".join(map(written, lines)) == snapshot


@pytest.mark.parametrize(("key", "keymap"), [("c", {}), ("f5", {"ledger.copy": "f5"})])
async def test_the_ledger_has_all_rows_and_the_total_and_is_copied_by_a_key(
    key: str, keymap: dict[str, str]
) -> None:
    epochs = (BASELINE, replace(SLOWER, title="innodb_flush_log_at_trx_commit 1 → 2"))
    tick = altered(make_tick(1.0, epochs=epochs), protection={"unprotected": 18_678})
    async with bench(tick, keymap=keymap) as app:
        await app.press("g")
        await app.until(lambda: f"{key} copy as Markdown" in app.sheet[0])
        await app.until(lambda: "slower" in app.screen_text)
        assert "18,678 commits unprotected" in app.sheet[0]
        assert "_log_at_trx" not in app.screen_text, "a change is named as the panel names its knob"
        assert "7.0 times slower · by TPS, 95 % sure at any time" in app.screen_text
        await app.press(*({"c"} - {key}))
        assert not app.app.clipboard
        await app.press(key)
        await app.until(lambda: bool(app.app.clipboard))
        assert app.app.clipboard == markdown(epochs, app.dashboard.picture.origin_s)
        assert "| 7.0 times slower |" in app.app.clipboard
