"""Text from elsewhere reaches no terminal as something that it obeys: at each door it is shown instead."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.cli.output import Output
from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.errors import UsageError
from replexplorer.core.event import Event, Severity
from replexplorer.core.text import LAYOUT, json_escaped, printable, table
from replexplorer.core.tick import Tick
from replexplorer.formats.export import csv_rows, json_lines
from tests.ticks import WALL_S, make_tick
from tests.unit.test_export import markdown_of

RED = "\x1b[31m"
HOSTILE = f"a{RED}b\x9b2Jc\x7fd\u202ee\u2066f\r\ng"
SHOWN = r"a\x1b[31mb\x9b2Jc\x7fd\u202ee\u2066f\r\ng"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


SHOWN_AS = {
    HOSTILE: SHOWN,
    "\udcff\u2028": r"\udcff\u2028",
    "a\u200bb\u00ad\ufeff\ue000\u0378\U000e0041": r"a\u200bb\xad\ufeff\ue000\u0378\U000e0041",
    "⣿ ① ▸ é 日本\u3000\u00a0🔬\ufe0f →": "⣿ ① ▸ é 日本\u3000\u00a0🔬\ufe0f →",
}


def test_what_a_terminal_obeys_is_shown_and_what_is_harmless_passes_unchanged() -> None:
    assert {text: printable(text) for text in SHOWN_AS} == SHOWN_AS
    assert printable("a\n\tb\x07", LAYOUT) == "a\n\tb\\x07"


@given(st.text(st.characters(), max_size=40))
def test_whatever_comes_in_nothing_is_obeyed_and_json_means_the_same(text: str) -> None:
    assert not OBEYED.search(printable(text))
    assert all(each.isprintable() or category(each) == "Zs" for each in printable(text))
    assert printable(printable(text)) == printable(text)
    document = json_escaped(json.dumps(text, ensure_ascii=False))
    assert not OBEYED.search(document)
    assert json.loads(document) == text


def test_what_is_printed_shows_it_on_short_lines_and_json_keeps_it() -> None:
    """Narration, warnings, progress, tables, and an error, whatever it repeats."""
    err, out, answer = io.StringIO(), io.StringIO(), io.StringIO()
    console = Output(out=out, err=err)
    console.narrate(HOSTILE)
    console.warn(f"{HOSTILE}{'y' * 5000}")
    console.progress(HOSTILE)
    console.print(table([(HOSTILE, "1"), ("b", "2")], ("NAME", "N")))
    Output(json=True, out=answer, err=err).fail(
        UsageError(f"no lab {HOSTILE} {'x' * 5000} here", f"{RED}look")
    )
    assert not OBEYED.search(err.getvalue().replace("\r\n", "\n") + out.getvalue() + answer.getvalue())
    assert (err.getvalue().count("\n"), out.getvalue().count("\n")) == (5, 3)
    line = err.getvalue().splitlines()[-1]
    assert line.startswith(r"replexplorer: no lab a\x1b[31mb\x9b2Jc\x7fd\u202ee\u2066f g xxx")
    assert line.endswith("xxx here: \\x1b[31mlook")
    assert "…" in line
    assert len(line) < 600
    assert json.loads(answer.getvalue())["error"]["message"].startswith(f"no lab {HOSTILE}")


def hostile_session() -> list[Tick]:
    event = Event(1.0, WALL_S, Severity.WARN, HOSTILE)
    formula = Event(1.0, WALL_S, Severity.INFO, "=HYPERLINK(1)")
    tick = make_tick(1.0, events=(event,), epochs=(Epoch(1, 0.5, HOSTILE, 1.0, 2.0),))
    assert tick.load is not None
    return [replace(tick, load=replace(tick.load, fault=HOSTILE)), make_tick(2.0, events=(formula,))]


def test_a_session_s_table_and_report_show_it_and_its_json_keeps_it() -> None:
    about = {"stack": HOSTILE, "holder": RED}
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(csv_rows(hostile_session()))
    report = markdown_of(about, hostile_session())
    assert not OBEYED.search(text.getvalue() + report)
    assert SHOWN in report
    assert report.count("\n| ") == markdown_of({}, hostile_session()).count("\n| ")
    rows = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert [row["event"] for row in rows] == [SHOWN, "'=HYPERLINK(1)"]
    assert rows[0]["fault"] == SHOWN
    lines = [json.loads(json.dumps(line)) for line in json_lines(about, hostile_session())]
    assert lines[0]["stack"] == HOSTILE
    assert HOSTILE in [line.get("text") for line in lines]
