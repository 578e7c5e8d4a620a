"""A cast as asciinema's format has it: a header, then events whose times never go back."""

from __future__ import annotations

import io
import json
from typing import Any

from replexplorer.formats.play_script import CastWriter


def lines_of(stream: io.StringIO) -> list[Any]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_output_of_one_moment_is_one_event_and_a_marker_stands_behind_what_came_before_it() -> None:
    stream = io.StringIO()
    cast = CastWriter(stream, (120, 36), wall_s=1_760_000_000.9, title="a play", speed=2.0)
    cast.output(0.0, "\x1b[2J")
    cast.output(0.0, "one")
    cast.output(3.0, "⣿")
    cast.marker(3.0, "(1) rtt 0\n-> 85 ms")
    cast.output(2.5, "late")
    cast.flush(10.0)
    header, *events = lines_of(stream)
    assert header == {
        "version": 2, "width": 120, "height": 36, "timestamp": 1_760_000_000, "title": "a play",
        "env": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    }  # fmt: skip
    assert events == [
        [0.0, "o", "\x1b[2Jone"], [1.5, "o", "⣿"], [1.5, "m", "(1) rtt 0 -> 85 ms"], [1.5, "o", "late"],
        [5.0, "o", ""],
    ]  # fmt: skip


def test_without_a_title_there_is_none() -> None:
    stream = io.StringIO()
    CastWriter(stream, (80, 24), wall_s=0.0)
    assert "title" not in lines_of(stream)[0]
