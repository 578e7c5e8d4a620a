"""A session as one page: it stands alone, says nothing that a browser obeys, and has what was on screen."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from pathlib import Path
from xml.etree import ElementTree

from replexplorer.cli import main
from replexplorer.core.event import Event, Severity
from replexplorer.core.tick import Tick
from replexplorer.reports.recordings import session_report
from replexplorer.reports.report import html
from replexplorer.reports.svg import Window
from tests.fakes.facade import WALL_S
from tests.unit.test_export import ABOUT, session

HOSTILE = "</script><script>alert(1)</script><b>"


def page_of(ticks: list[Tick], *spans: Window) -> str:
    return html(session_report(ABOUT, ticks, ticks[-1].at_s - ticks[0].at_s, lambda: spans))


def charts(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_its_charts_have_marks_and_windows() -> None:
    page = page_of(session(), Window(0.9, 1.5, "blocked"), Window(1.0, inf, "partition ack"))
    drawn = charts(page)
    assert len(drawn) == 3
    for chart in drawn:
        assert len(chart.findall("{*}rect[@class='window']")) == 2
        assert len(chart.findall("{*}line[@class='mark']")) == 1
    words = [each for each in drawn[0].findall("{*}text") if each.text in ("blocked", "partition ack")]
    assert len({each.get("y") for each in words}) == 2, "labels that would meet stand in rows of their own"


def test_a_word_of_the_session_is_text_and_never_markup() -> None:
    ticks = session()
    event = Event(2.0, WALL_S + 2, Severity.WARN, HOSTILE, 2)
    page = page_of([*ticks[:-1], replace(ticks[-1], events=(event,))], Window(0.0, 1.0, HOSTILE))
    assert HOSTILE not in page
    assert "<script" not in page


def test_the_tour_s_page_shades_what_the_dashboard_shades(tmp_path: Path) -> None:
    output = tmp_path / "tour.html"
    assert main(["export", "tour", "--format", "html", "--output", str(output)]) == 0
    page = output.read_text(encoding="utf-8")
    drawn = charts(page)
    assert len(drawn) == 3
    assert any("partition" in (each.text or "") for each in drawn[0].findall("{*}text[@class='band']"))
    assert len(drawn[0].findall("{*}line[@class='mark']")) >= 5
    assert len(page) < 1_000_000
