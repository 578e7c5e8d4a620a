"""A cast as asciinema's format has it: a header, then events whose times never go back."""

from __future__ import annotations

import io
import json

from replexplorer.formats.play_script import CastWriter


def test_times_never_go_back(snapshot: object) -> None:
    stream = io.StringIO()
    cast = CastWriter(stream, (120, 36), wall_s=1_760_000_000.9, title="a play")
    cast.event(0.0, "o", "\x1b[2J")
    cast.event(3.0, "o", "⣿")
    cast.event(3.0, "m", "(1) rtt 0 -> 85 ms")
    cast.event(2.5, "o", "late")
    cast.event(10.0, "o", "")
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == snapshot
