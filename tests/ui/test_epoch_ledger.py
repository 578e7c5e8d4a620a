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
from tests.ticks import tick_of
from tests.typed import fields, table_of
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


def text(line: Line) -> str:
    return "".join(part for part, _ in line)


AT_RISK = Exposure(Loss(0, 0, 0), Loss(312, 300, 340, 413.0), Unknown("no replica"))
OUT = replace(
    SLOWER, title="partition@db2 none → both", delta_percent=None, low_percent=None,
    high_percent=None, verdict="outage",
    after=replace(AFTER, outage=Outage(blocked_s=10.0, unprotected_s=9.9, unprotected=18_678, again_s=20.3)),
)  # fmt: skip
BASES = {
    "BASELINE": BASELINE,
    "SLOWER": SLOWER,
    "AT-RISK": replace(
        SLOWER, before=replace(BEFORE, exposure=silent("no load")), after=replace(AFTER, exposure=AT_RISK)
    ),
    "OUT": OUT,
    "AFTER-OUT": replace(OUT, number=2, before=OUT.after, after=AFTER),
}
LONG = "title='fault over: isolate@db2, applier_stop@db3'"
NO_INTERVAL = "low_percent=None high_percent=None"
WIDE = """\
before_tps=57.6 after_tps=18678.0 delta_percent=32327.1 low_percent=-98.7 high_percent=104000.0 \
p50_ms=10012.0 p95_ms=10020.0 p99_ms=30400.0 verdict='faster'"""
EPOCHS = {
    name: replace(BASES[base], **fields(more))
    for name, base, more in table_of(f"""\
a baseline is not compared   | BASELINE |
nor is it too short          | BASELINE | verdict='too short'
slower                       | SLOWER   |
faster                       | SLOWER   | \
delta_percent=40.0 low_percent=30.0 high_percent=50.0 verdict='faster'
no difference                | SLOWER   | verdict='no difference shown'
still measuring              | SLOWER   | verdict='measuring'
the open loop by its p95, and one that grows is slower | SLOWER | \
mode='open' delta_percent=219.6 low_percent=210.0 high_percent=None
too short                    | SLOWER   | {NO_INTERVAL} verdict='too short'
too noisy                    | SLOWER   | {NO_INTERVAL} verdict='too noisy' more_s=40.0
after an hour                | SLOWER   | at_s=3750.0
at risk on each side         | AT-RISK  |
a slow tail                  | SLOWER   | p50_ms=142.0 p99_ms=2572.0
fractions of a millisecond   | SLOWER   | p50_ms=3.7 p99_ms=48.0
an outage claims no gain     | OUT      |
nor does what comes after one | AFTER-OUT |
a title that its row cuts    | SLOWER   | {LONG}
and of an outage             | OUT      | {LONG}
number 0                     | SLOWER   | number=0 {WIDE}
number 9                     | SLOWER   | number=9 {WIDE}
number 10                    | SLOWER   | number=10 {WIDE}
number 21                    | SLOWER   | number=21 {WIDE}
number 121                   | SLOWER   | number=121 {WIDE}
number 1210                  | SLOWER   | number=1210 {WIDE}
""")
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


async def test_the_ledger_has_all_rows_and_the_total_and_is_copied_by_its_key() -> None:
    epochs = (BASELINE, replace(SLOWER, title="innodb_flush_log_at_trx_commit 1 → 2"))
    tick = tick_of("protection.unprotected=18678", epochs=epochs)
    async with bench(tick, keymap={"ledger.copy": "f5"}) as app:
        await app.press("g")
        await app.shows("slower", "f5 copy as Markdown", "18,678 commits unprotected")
        assert "_log_at_trx" not in app.screen_text, "a change is named as the panel names its knob"
        await app.shows("7.0 times slower · by TPS, 95 % sure at any time")
        await app.press("c")
        assert not app.app.clipboard
        await app.press("f5")
        assert app.app.clipboard == markdown(epochs, app.dashboard.picture.origin_s)
        assert "| 7.0 times slower |" in app.app.clipboard
