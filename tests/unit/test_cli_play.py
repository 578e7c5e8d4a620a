"""`play` and the cast of `export` from the command line: what is refused before anything begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replexplorer.cli import main
from replexplorer.formats.paths import shipped_tour


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "walk.play"
    file.write_text("title A walk\nwait 1s\nuntil mark within 1min\ncaption There it is\n", encoding="utf-8")
    return file


def test_what_is_wrong_is_one_line_and_nothing_begins(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    snapshot: object,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # nothing was recorded here
    file, cast = tmp_path / "x.play", tmp_path / "x.cast"
    for text, *options in (
        ("until protectd\n",),
        ("key s\nuntil end\n",),
        ("key s\n", "--over", "nowhere"),
        ("key s\n", "--size", "9x9"),
        ("key s\n", "--size", "wide"),
    ):
        file.write_text(text, encoding="utf-8")
        assert main(["play", str(file), "--cast", str(cast), *options]) == 2
    assert capsys.readouterr().err.replace(f"{tmp_path}/", "").splitlines() == snapshot
    assert not cast.exists()


def test_a_cast_is_never_written_over_the_recording(
    tmp_path: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / "own.rxs"
    recording.write_bytes(shipped_tour().read_bytes())
    assert main(["play", str(script), "--over", str(recording), "--cast", str(recording)]) == 2
    assert "is the session itself" in capsys.readouterr().err
    assert recording.read_bytes() == shipped_tour().read_bytes()


def test_over_the_shipped_tour_a_play_ends_at_its_mark_and_says_so_as_json(
    tmp_path: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cast = tmp_path / "walk.cast"
    assert (
        main(["play", str(script), "--over", "tour", "--cast", str(cast), "--size", "80x24", "--json"]) == 0
    )
    printed = capsys.readouterr()
    assert "line 2: wait 1s: 1.0 s, " in printed.err
    told = json.loads(printed.out)
    assert (told["title"], told["over"], told["cast"]) == ("A walk", "tour", str(cast))
    assert [line["line"] for line in told["lines"]] == [2, 3, 4]
    header, *events = (json.loads(line) for line in cast.read_text(encoding="utf-8").splitlines())
    assert (header["width"], header["height"], header["title"]) == (80, 24, "A walk")
    markers = [label for _, kind, label in events if kind == "m"]
    assert markers[0].startswith("(1) ")
    assert markers[-1] == "There it is"


def test_a_play_that_fails_writes_no_cast_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, cast = tmp_path / "x.play", tmp_path / "x.cast"
    file.write_text("until tps > 10000000 within 2s\n", encoding="utf-8")
    assert main(["play", str(file), "--over", "tour", "--cast", str(cast)]) == 1
    assert (
        "x.play, line 1: `until tps > 10000000 within 2s`: did not hold within 2 s" in capsys.readouterr().err
    )
    assert not cast.exists()
