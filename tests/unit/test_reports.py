"""Reports and session pages: they stand alone, none of it is markup, charts have axes, forms say the same."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from math import inf
from pathlib import Path
from xml.etree import ElementTree

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer import __version__
from replexplorer.cli import arguments, main
from replexplorer.cli.experiment import LABS
from replexplorer.cli.experiment_run import command_of
from replexplorer.cli.output import Output
from replexplorer.core.event import Event, Severity
from replexplorer.core.experiment.experiment import Relation
from replexplorer.core.experiment.lab import (
    Lab,
    LabResult,
    Length,
    Phase,
    PhaseResult,
    Publication,
    Published,
)
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.recordings import session_report
from replexplorer.reports.report import (
    Block,
    Report,
    ReportColumn,
    ReportNotes,
    ReportTable,
    again,
    html,
    markdown,
    plain_text,
    report_directory,
    words,
    write_report,
)
from replexplorer.reports.svg import Series, Window, bar_chart, line_chart
from tests.ticks import WALL_S
from tests.unit.test_cli_load import UNDER
from tests.unit.test_export import ABOUT, session
from tests.unit.test_session_file import rich_tick

PROTECTED, OFF = (Protection(s, requested=True) for s in (ProtectionState.PROTECTED, ProtectionState.OFF))


ASKED = Phase(
    "semi-sync", (), Length(10.0), Length(10.0), ProtectionState.OFF, "", Published(11.51, "tps"),
    published_figures={"seen | before": Published(2.0, "of 10")},
)  # fmt: skip
WAITING = PhaseResult(
    ASKED, {}, 85.12, Histogram.of([87_000] * 114), 11.4, 11.7, PROTECTED, 1, 0, duration_s=10.0,
    predicted_tps=11.5, figures={"seen | before": "0 of 10"},
    limited="machine short of CPU, generator 12.0 ms late",
)  # fmt: skip
"""Ten seconds whose commits took 87 ms; 11.51 TPS were published."""
CUT = PhaseResult(
    replace(ASKED, name="partition"), ceiling_tps=11.7, protection=OFF, clients=1, duration_s=10.0
)


def result() -> LabResult:
    source = Publication("<b>High latency</b>", "Aaron Brown", "https://example.org/x")
    lab = Lab("wan-insert", "Inserts", "Latency.", (), lambda _: (), source)
    relations = (
        Relation("semi-sync <= 1/RTT", holds=True, evidence="11.4 <= 11.7"),
        Relation("async is fast", holds=False, evidence="3 > 4"),
    )
    return LabResult(
        lab,
        [WAITING, CUT],
        relations=relations,
        server="mysql 9.7.4",
        started_wall_s=1_763_737_200.0,
        quick=True,
        conditions=UNDER,
        again=["replexplorer lab run wan-insert --quick"],
    )


def report_of(found: LabResult, **changes: object) -> Report:
    return experiment_report(found, **changes)  # type: ignore[arg-type]


def write(directory: Path, **changes: object) -> str:
    return write_report(directory, report_of(result()), result(), **changes)  # type: ignore[arg-type]


def charts(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_the_page_refers_to_nothing_outside_and_escapes_what_it_tells() -> None:
    page = html(report_of(result(), ticks=[rich_tick(float(second), second) for second in range(20)]))
    assert re.findall(r"(?:src|href)\s*=|@import|url\(", page) == []
    assert "default-src 'none'" in page
    assert "<b>High" not in page
    assert "prefers-color-scheme: dark" in page
    assert page.count('class="deviates"') == 2, "the verdict and one relation"
    assert page.count('class="holds"') == 1
    texts = [{each.text for each in chart.findall("{*}text")} for chart in charts(page)]
    assert len(texts) == 5
    assert "87 measured" in texts[1], "the mean latency, as the articles draw it beside TPS"
    assert "seconds" in texts[2]
    assert "commits per second" in page


PLAIN = "h1 p br h2 div section table thead tbody tr th td ul li pre code"
HOSTILE = "[x](http://example.org) <img src=x> ![y](z) &amp; **b** `c` </script>"


def test_no_text_of_a_report_is_markup() -> None:
    blocks: list[Block] = [
        ReportTable(words("a", HOSTILE), [(HOSTILE, HOSTILE)], HOSTILE, HOSTILE),
        ReportNotes([HOSTILE], HOSTILE),
        ReportNotes([HOSTILE], "", "lines"),
        again([HOSTILE]),
    ]
    page = html(Report(HOSTILE, [("", HOSTILE), (HOSTILE, HOSTILE)], blocks))
    found = re.findall(r"</?(\w+)", page.partition("<h1>")[2].removesuffix("</html>"))
    assert set(found) <= set(PLAIN.split())
    assert "[x](http://example.org)" in page
    assert "&amp;amp;" in page, "an entity is text as well"


def test_a_narrow_terminal_leaves_columns_out_or_has_the_last_words_below_their_row(
    snapshot: object,
) -> None:
    """The highest rank first; what has no rank stays."""
    columns = [
        ReportColumn("name"),
        ReportColumn("p50 ms", is_number=True, rank=2),
        ReportColumn("n", is_number=True, rank=1),
    ]
    table = ReportTable(columns, [("a", "1.25", "10")], "all")
    name = "as many commits a second as there are round trips in one"
    rows = [("holds", name, "found 11.5 TPS where the round trip allows 11.8"), ("deviates", "b", "2 > 1")]
    report = Report(
        "mine", [("server", "mysql")], [table, ReportTable(words("", "relation", "evidence"), rows)]
    )
    assert [plain_text(report, width) for width in (110, 60, 12, 3)] == snapshot


def test_a_lab_s_report(snapshot: SnapshotAssertion) -> None:
    """The terminal does not show how to run it again: whoever runs it has just typed it."""
    report = report_of(result())
    for text in (markdown(report), plain_text(report, None)):
        assert text.replace(__version__, "VERSION") == snapshot


def test_an_unknown_value_is_a_gap_and_no_value_is_no_chart() -> None:
    points = [(0.0, 1.0), (1.0, None), (2.0, 3.0)]
    chart = line_chart("TPS", "a second", [Series("TPS", "tps", points)], [(1.0, "1")])
    [path] = re.findall(r' d="([^"]*)"', chart)
    assert path.count("M") == 2
    assert line_chart("TPS", "", [Series("TPS", "tps", [(0.0, None)])], []) == ""
    assert bar_chart("TPS", "", [("a", [("measured", None)])]) == ""


def test_the_files_are_written_with_each_systems_session_and_the_file_of_a_lab_of_ones_own(
    tmp_path: Path,
) -> None:
    recorded, own, directory = tmp_path / "a.rxs", tmp_path / "mine.toml", tmp_path / "new"
    recorded.write_bytes(b"recorded")
    own.write_text("title = 'Mine'\n")
    assert report_directory(str(directory)) == directory
    assert write(directory) == f"wrote {directory}/report.md, report.html and result.json"
    told = write(directory, own=own, parts={"async": str(recorded), "galera": str(recorded)})
    assert told.endswith("session-async.rxs and session-galera.rxs")
    copy = directory / "session-galera.rxs"
    assert copy.read_bytes() == b"recorded"
    assert copy.stat().st_mode & 0o777 == 0o600, "its owner's alone"
    assert (directory / "mine.toml").read_text() == own.read_text()
    assert {"report.html", "report.md", "result.json"} < set(os.listdir(directory))


TYPED = """\
tour
archive --rows 5000 --quick
bulk-load --dump /home/me/employees.sql
/home/me/mine.toml --quick --stack wan --config c.toml --beside
"""


def test_the_same_can_be_run_again_by_somebody_else(snapshot: object) -> None:
    """It used to name the stack and the paths of whoever ran it."""
    told = {}
    for typed in TYPED.splitlines():
        args = arguments.parse(["lab", "run", *typed.split(), "--report", "/tmp/x", "--json"])
        told[typed] = " ".join(command_of(LABS, args))
    assert told == snapshot


def test_a_result_is_not_lost_with_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = tmp_path / "gone"
    assert Output().deliver({}, lambda: "the result", lambda: write(gone)) == 2
    assert capsys.readouterr() == (
        "the result\n",
        f"replexplorer: cannot write {gone}/report.md: no such file or directory\n",
    )


# -- a session's page


SCRIPT = "</script><script>alert(1)</script><b>"


def test_its_charts_have_marks_and_windows_and_no_word_of_the_session_is_markup() -> None:
    ticks = session()
    event = Event(2.0, WALL_S + 2, Severity.WARN, SCRIPT, 2)
    ticks[-1] = replace(ticks[-1], events=(event,))
    spans = Window(0.9, 1.5, SCRIPT), Window(1.0, inf, "partition ack")
    page = html(session_report(ABOUT, ticks, ticks[-1].at_s - ticks[0].at_s, lambda: spans))
    drawn = charts(page)
    assert len(drawn) == 3
    for chart in drawn:
        assert len(chart.findall("{*}rect[@class='window']")) == 2
        assert len(chart.findall("{*}line[@class='mark']")) == 2
    words = [each for each in drawn[0].findall("{*}text") if each.text in (SCRIPT, "partition ack")]
    assert len({each.get("y") for each in words}) == 2, "labels that would meet have two rows"
    assert "<script" not in page


def test_the_tour_s_page_shades_what_the_dashboard_shades(tmp_path: Path) -> None:
    output = tmp_path / "tour.html"
    assert main(["export", "tour", "--format", "html", "--output", str(output)]) == 0
    page = output.read_text(encoding="utf-8")
    drawn = charts(page)
    assert len(drawn) == 4
    assert any("partition" in (each.text or "") for each in drawn[0].findall("{*}text[@class='band']"))
    assert len(drawn[0].findall("{*}line[@class='mark']")) >= 5
    assert len(page) < 1_000_000
