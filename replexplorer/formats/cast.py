"""asciinema's recording format, version 2 (asciicast): a header, then an event a line.

Law: times begin at 0 and never go back; what is written is what a terminal of that size was sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TextIO

from replexplorer.core.printable import one_line

_LONGEST_LABEL: Final = 120
_MICROSECOND: Final = 6
"""Digits of a time."""


class CastWriter:
    """Writes one cast to a stream of text in UTF-8, as it happens."""

    def __init__(
        self, stream: TextIO, size: tuple[int, int], *, wall_s: float, title: str = "", speed: float = 1.0
    ) -> None:
        """Write the header for a terminal of `size` (columns, rows); times are divided by `speed`."""
        self._stream = stream
        self._speed = speed
        self._at_s = 0.0
        self._output: list[str] = []
        columns, rows = size
        header: dict[str, object] = {
            "version": 2, "width": columns, "height": rows, "timestamp": int(wall_s),
            "env": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
        }  # fmt: skip
        self._line(header | ({"title": title} if title else {}))

    def output(self, at_s: float, data: str) -> None:
        """What the terminal was sent at this moment; several of one moment become one event."""
        if at_s > self._at_s:
            self.flush()
            self._at_s = at_s
        self._output.append(data)

    def marker(self, at_s: float, label: str) -> None:
        """A point that a player can jump to."""
        self.flush()
        self._at_s = max(self._at_s, at_s)
        self._event("m", one_line(label, _LONGEST_LABEL))

    def flush(self, at_s: float = 0.0) -> None:
        """Write what is left; the cast lasts until `at_s` at least."""
        data, self._output = "".join(self._output), []
        if data:
            self._event("o", data)
        if at_s > self._at_s:
            self._at_s = at_s
            self._event("o", "")

    def _event(self, kind: str, data: str) -> None:
        self._line([round(self._at_s / self._speed, _MICROSECOND), kind, data])

    def _line(self, document: Mapping[str, object] | list[object]) -> None:
        self._stream.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
