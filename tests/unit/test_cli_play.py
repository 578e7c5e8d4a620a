"""`play` and the cast of `export` from the command line: what is refused before anything begins."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.documents import document
from tests.unit.conftest import Run


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "walk.play"
    file.write_text("title A walk\nwait 1s\nuntil mark within 1min\ncaption There it is\n", encoding="utf-8")
    return file


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
    times_s = [at_s for at_s, *_ in events]
    assert times_s == sorted(times_s)
    assert times_s[-1] > 1
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
