"""A lab's report: the page stands alone, its charts have axes, and what was found is told as it was."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from replexplorer.cli import arguments
from replexplorer.cli.lab import command_of
from replexplorer.cli.output import Output, reported
from replexplorer.core.errors import UsageError
from replexplorer.formats.json.lab import (
    LabPhase,
    LabResult,
    LabSource,
    Published,
    Relation,
    Summary,
    SummaryRow,
)
from replexplorer.formats.json.measured import Latency
from replexplorer.reports.directory import report_directory
from replexplorer.reports.lab_pages import html, markdown, write_report
from replexplorer.reports.lab_result import render_lab
from replexplorer.reports.svg_chart import Series, bar_chart, line_chart
from tests.unit.test_cli_load import UNDER
from tests.unit.test_session_file import rich_tick

COMMAND = "replexplorer lab run wan-insert --quick"


def document() -> LabResult:
    latency = Latency(mean=87.0, min=85.0, p50=86.9, p95=88.0, p99=89.0, max=91.0)
    return LabResult(
        lab="wan-insert",
        source=LabSource(title="<b>High latency</b>", author="Aaron Brown", url="https://example.org/x"),
        server="mysql 9.7.4",
        started="2026-11-21T15:00:00Z",
        phases=[
            LabPhase(
                name="semi-sync", settings={"rtt@db2": 85.0}, rtt_measured_ms=85.12, clients=1, n=300,
                published=Published(value=11.51, unit="tps"), ceiling_tps=11.7, predicted_tps=11.5, tps=11.4,
                latency_ms=latency, protection="protected", figures={"seen | before": "0 of 10"},
                limited="machine short of CPU, generator 12.0 ms late",
            ),
            LabPhase(
                name="partition", settings={}, rtt_measured_ms=None, ceiling_tps=None, tps=0.0,
                latency_ms=None, n=0,
            ),
        ],
        relations=[
            Relation(name="semi-sync <= 1/RTT", holds=True, evidence="11.4 <= 11.7"),
            Relation(name="async is fast", holds=False, evidence="3 > 4"),
        ],
        verdict="deviates",
        again=[COMMAND],
    )  # fmt: skip


def test_the_page_refers_to_nothing_outside_and_escapes_what_it_tells() -> None:
    page = html(document(), [rich_tick(float(second), second) for second in range(20)])
    assert re.findall(r"(?:src|href)\s*=|@import|url\(", page) == []
    assert "<b>High" not in page
    assert "prefers-color-scheme: dark" in page
    for text in (
        "85.12",
        "11.51 tps",
        "semi-sync &lt;= 1/RTT",
        "3 &gt; 4",
        "--quick",
        "0 of 10",
        "rtt@db2=85.0",
    ):
        assert text in page
    assert page.count('class="deviates"') == 2, "the verdict and one relation"
    charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(charts) == 4
    for chart in charts:
        ElementTree.fromstring(chart)
    assert "87 measured" in charts[1], "the mean latency, as the articles draw it beside TPS"
    assert "commits per second" in charts[2]
    assert ">seconds<" in charts[2]


SUMMARY = Summary(
    title="commits <a second>",
    columns=["async", "Galera"],
    rows=[
        SummaryRow(name="1 thread, TPS", values=[1234.56, 6.3]),
        SummaryRow(name="waits for", values=["nobody", None]),
    ],
)


def test_a_summary_stands_first_and_is_the_same_everywhere() -> None:
    found = document().model_copy(update={"summary": SUMMARY})
    text = render_lab(found)
    assert "commits <a second>\n" in text
    assert [line.split() for line in text.splitlines() if "TPS  " in line or "waits" in line] == [
        ["1", "thread,", "TPS", "1,234.6", "6.30"],
        ["waits", "for", "nobody", "-"],
    ]
    assert "| 1 thread, TPS | 1,234.6 | 6.30 |" in markdown(found)
    page = html(found, [])
    assert "<h2>Commits &lt;a second&gt;</h2>" in page
    assert '<table class="wall">' in page
    assert "<td>1,234.6</td><td>6.30</td>" in page
    assert 'class="wall"' not in html(document(), [])


def test_a_run_on_several_systems_keeps_the_session_of_each(tmp_path: Path) -> None:
    recorded = tmp_path / "a.rxs"
    recorded.write_bytes(b"recorded")
    told = write_report(tmp_path, document(), None, parts={"async": str(recorded), "galera": str(recorded)})
    assert told.endswith("session-async.rxs and session-galera.rxs")
    assert (tmp_path / "session-galera.rxs").read_bytes() == b"recorded"
    assert (tmp_path / "session-galera.rxs").stat().st_mode & 0o777 == 0o600


def test_a_deviation_is_told_with_what_may_explain_it() -> None:
    told = "semi-sync: machine short of CPU, generator 12.0 ms late"
    assert told in html(document(), [])
    assert told in markdown(document())
    assert told in render_lab(document())
    assert told not in markdown(document().model_copy(update={"verdict": "holds"}))


def test_the_markdown_has_the_three_columns_and_the_relations() -> None:
    text = markdown(document())
    assert "| semi-sync | 1 | 85.12 | - | 11.51 tps | 11.5 | 11.40 |" in text
    assert "| **deviates** | async is fast | 3 > 4 |" in text
    assert "seen \\| before" in text
    assert "    replexplorer lab run wan-insert --quick" in text


def test_a_line_of_reference_is_drawn_across_the_bars_and_its_label_says_what_it_is() -> None:
    rows = [("one thread", [("measured", 12.4)]), ("32 threads", [("measured", 410.0)])]
    chart = bar_chart("TPS", "a second", rows, [("before MySQL 5.7", 12.8)], log=True)
    ElementTree.fromstring(chart)
    [x] = re.findall(r'class="mark" x1="([\d.]+)"', chart)
    ends = [220 + float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', chart)]
    assert ends[0] < float(x) < ends[1], "on the bars' own scale"
    assert "before MySQL 5.7: 12.8" in chart


def test_an_unknown_value_is_a_gap_and_no_value_is_no_chart() -> None:
    points = [(0.0, 1.0), (1.0, None), (2.0, 3.0)]
    chart = line_chart("TPS", "a second", [Series("TPS", "tps", points)], [(1.0, "1")])
    [path] = re.findall(r' d="([^"]*)"', chart)
    assert path.count("M") == 2
    assert line_chart("TPS", "a second", [Series("TPS", "tps", [(0.0, None)])], []) == ""
    assert bar_chart("TPS", "a second", [("a", [("measured", None)])]) == ""


def test_a_long_line_is_thinned_and_keeps_its_extremes() -> None:
    points = [(float(at), 1000.0 if at == 5_000 else 10.0) for at in range(20_000)]
    chart = line_chart("Latency", "ms", [Series("p99", "p99", points)], [])
    [path] = re.findall(r' d="([^"]*)"', chart)
    assert len(re.findall("[ML]", path)) < 2_500
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]
    assert min(heights) < 60, "the stall is on the picture"


def test_the_files_are_written_and_a_directory_that_cannot_be_is_told(tmp_path: Path) -> None:
    directory = report_directory(str(tmp_path / "new"))
    assert directory is not None
    told = write_report(directory, document(), None)
    assert told == f"wrote {directory}/report.md, report.html and result.json"
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "report.html",
        "report.md",
        "result.json",
    ]
    (tmp_path / "file").write_text("")
    for name in (str(tmp_path / "file" / "below"), "/proc"):
        with pytest.raises(UsageError, match=f"cannot write {name}: "):
            report_directory(name)


@pytest.mark.parametrize(
    ("words", "elsewhere"),
    [
        ("tour", "tour"),
        ("archive --rows 5000 --quick", "archive --quick --rows 5000"),
        ("bulk-load --dump /home/me/employees.sql", "bulk-load --dump employees.sql"),
        ("/home/me/mine.toml --quick --stack wan --config c.toml --beside", "./mine.toml --quick"),
    ],
)
def test_the_same_can_be_run_again_by_somebody_else(words: str, elsewhere: str) -> None:
    """It used to name the stack and the paths of whoever ran it."""
    args = arguments.parse(["lab", "run", *words.split(), "--report", "/tmp/x", "--json"])
    assert " ".join(command_of(args)) == f"replexplorer lab run {elsewhere}"


def test_a_report_names_what_it_was_measured_under_and_has_an_own_lab_s_file(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text("title = 'Mine'\n")
    found = document().model_copy(update={"conditions": UNDER})
    (tmp_path / "report").mkdir()
    write_report(tmp_path / "report", found, None, own)
    assert (tmp_path / "report" / "mine.toml").read_text() == own.read_text()
    for name in ("report.md", "report.html", "result.json"):
        text = (tmp_path / "report" / name).read_text()
        for fact in ("2 cores, 8 GB, Linux 6.1 x86_64", "Some CPU", "sync_binlog"):
            assert fact in text, name


def test_a_result_is_not_lost_with_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = tmp_path / "gone"
    assert reported(Output(), lambda: write_report(gone, document(), None)) == 2
    assert (
        capsys.readouterr().err == f"replexplorer: cannot write {gone}/report.md: no such file or directory\n"
    )


def test_labels_of_shaded_spans_stay_within_the_chart_and_apart() -> None:
    points = [(float(at_s), 1.0) for at_s in range(101)]
    spans = [(at_s, at_s + 1, "blocked 10.4 s") for at_s in (95.0, 96.0, 99.5)]
    drawn = line_chart("TPS", "tps", [Series("TPS", "tps", points)], [], windows=spans)
    places = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="start">blocked', drawn)
    right = float(re.findall(r'data-right="(\d+)"', drawn)[0])
    assert len({y for _, y in places}) == 3
    assert all(float(x) + 6.5 * len("blocked 10.4 s") <= right for x, _ in places)
