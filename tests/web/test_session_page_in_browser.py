"""The exported page in a real browser: it draws and fits its window."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replexplorer.cli import main
from tests.chromium import NEEDS_CHROMIUM, browser

SEEN = """(() => {
  const charts = [...document.querySelectorAll("svg")].map(each => each.getBoundingClientRect());
  const page = document.documentElement;
  const all = words => [...document.querySelectorAll(words)];
  return {
    charts: charts.map(each => [Math.round(each.left), Math.round(each.right), Math.round(each.height)]),
    overflow: page.scrollWidth - page.clientWidth,
    width: page.clientWidth,
    lines: all("svg polyline, svg path").filter(each => each.getTotalLength() > 50).length,
    cut: all(".wide").filter(each => each.scrollWidth > each.clientWidth + 1).length,
    small: all("svg text").filter(each => each.getBoundingClientRect().height < 8).length,
  };
})()"""


@NEEDS_CHROMIUM
async def test_the_page_draws_its_charts_within_the_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "tour.html"
    assert main(["export", "tour", "--format", "html", "--output", str(page)]) == 0
    capsys.readouterr()
    pictures = Path(os.environ.get("BROWSER_PICTURES", tmp_path))
    async with browser() as chromium:
        tab = await chromium.open(page.as_uri())
        for _ in range(200):
            if await tab.evaluate(
                "document.readyState === 'complete' && document.querySelector('svg') !== null"
            ):
                break
        seen = await tab.evaluate(SEEN)
        assert len(seen["charts"]) == 4
        assert seen["overflow"] <= 0, "nothing is wider than the window"
        assert all(
            0 <= left < right <= seen["width"] and height > 80 for left, right, height in seen["charts"]
        )
        assert seen["lines"] >= 3
        assert seen["small"] == 0
        assert seen["cut"] == 0, "the ledger's last column is seen as well"
        await tab.picture(pictures / "session-page.png", whole=True)
