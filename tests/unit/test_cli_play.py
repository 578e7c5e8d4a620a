"""`play` and the cast of `export` from the command line: what is refused before anything begins."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from replexplorer.formats.play_script import CastWriter
from tests.documents import document
from tests.typed import table_of
from tests.unit.conftest import Run


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "walk.play"
    file.write_text("title A walk\nwait 1s\nuntil mark within 1min\ncaption There it is\n", encoding="utf-8")
    return file


WRONG = """\
until protectd         |
key s; until end       |
key s                  | --over nowhere
key s; lab wan-insret  | --check
preset bothh           | --check
key s                  | --size 9x9
key s                  | --size wide
"""
"""Lines of a play and options."""


def test_what_is_wrong_is_one_line_and_nothing_begins(
    tmp_path: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: object,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # nothing was recorded here
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file, cast, told = tmp_path / "x.play", tmp_path / "x.cast", list[str]()
    for text, options in table_of(WRONG):
        file.write_text(text.replace("; ", "\n") + "\n", encoding="utf-8")
        code, _, err = run(f"play {file} --cast {cast} {options}")
        assert code == 2
        told += err.replace(f"{tmp_path}/", "").splitlines()
    assert told == snapshot
    assert not cast.exists()


def test_over_the_shipped_tour_a_play_ends_at_its_mark_and_says_so_as_json(
    tmp_path: Path, script: Path, run: Run, snapshot: object
) -> None:
    assert run(f"play {script} --check") == (0, f"{script}: OK, 3 lines\n", "")
    cast, picture = tmp_path / "walk.cast", tmp_path / "walk.svg"
    code, out, err = run(f"play {script} --over tour --cast {cast} --svg {picture} --size 80x24 --json")
    assert code == 0
    assert "line 2: wait 1s: 1.0 s, " in err
    told = document(out)
    assert (told.cast, told.svg) == (str(cast), str(picture))
    assert [told.title, told.over, [line.line for line in told.lines]] == snapshot
    header, *events = (json.loads(line) for line in cast.read_text(encoding="utf-8").splitlines())
    assert [header["width"], header["height"], header["title"]] == [80, 24, "A walk"]
    markers = [label for _, kind, label in events if kind == "m"]
    assert (markers[0][:4], markers[-1]) == ("(1) ", "There it is")
    drawn = ElementTree.parse(picture)
    assert len(drawn.findall("{*}g[@class='step']")) == 1
    assert "There" in "".join(drawn.getroot().itertext())


def test_a_play_that_fails_writes_no_cast_and_ends_with_1(tmp_path: Path, run: Run) -> None:
    file, cast = tmp_path / "x.play", tmp_path / "x.cast"
    file.write_text("until tps > 10000000 within 2s\n", encoding="utf-8")
    code, _, err = run(f"play {file} --over tour --cast {cast}")
    assert code == 1
    assert "x.play, line 1: `until tps > 10000000 within 2s`: did not hold within 2 s" in err
    assert not cast.exists()


# -- a cast as asciinema's format has it: a header, then events


def test_times_never_go_back(snapshot: object) -> None:
    stream = io.StringIO()
    cast = CastWriter(stream, (120, 36), wall_s=1_760_000_000.9, title="a play")
    for at_s, kind, data in (
        (0.0, "o", "\x1b[2J"),
        (3.0, "o", "⣿"),
        (3.0, "m", "(1) rtt 0 -> 85 ms"),
        (2.5, "o", "late"),
        (10.0, "o", ""),
    ):
        cast.event(at_s, kind, data)
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == snapshot
