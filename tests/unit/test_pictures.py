"""What the README shows was drawn by the play that stands beside it, over the tour that ships."""

from __future__ import annotations

import json
from contextlib import closing

from replexplorer.adapters.recording import SessionReader
from replexplorer.formats.paths import shipped_tour
from tests.pictures import CAST, CAST_SIZE, script

AGAIN = "run `make pictures`"


def test_the_cast_has_a_marker_for_every_caption_and_change_of_the_play() -> None:
    header, *events = (json.loads(line) for line in CAST.read_text(encoding="utf-8").splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, *CAST_SIZE)
    assert header["title"] == script().title
    times = [event[0] for event in events]
    assert times == sorted(times)
    markers = [event[2] for event in events if event[1] == "m"]
    captions = [line.rest for line in script().lines if line.word == "caption" and line.rest]
    assert [each for each in markers if each in captions] == captions, AGAIN
    with closing(SessionReader(shipped_tour())) as reader:
        until_s = reader.first_s + times[-1]
        marks = [
            event.mark for event in reader.events() if event.mark is not None and event.at_s < until_s - 1
        ]
    told = [int(each[1:].partition(")")[0]) for each in markers if each.startswith("(")]
    assert told[: len(marks)] == marks, AGAIN
