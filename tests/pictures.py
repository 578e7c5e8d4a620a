"""`make pictures`: perform docs/tour.play over the recorded tour, and keep its last picture and its cast."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from textual._context import active_app

from replexplorer.adapters.recording import SessionReader
from replexplorer.formats.files import whole_file
from replexplorer.formats.paths import shipped_tour
from replexplorer.formats.play_script import CastWriter, PlayedLine, PlayScript, read_play
from replexplorer.ui.play import PlayApp
from replexplorer.ui.settings import Settings

DOCS: Final = Path(__file__).parents[1] / "docs"
SCRIPT: Final = DOCS / "tour.play"
PICTURE: Final = DOCS / "dashboard.svg"
CAST: Final = DOCS / "tour.cast"
SETTINGS: Final = Settings(stack="tour, recorded")
PICTURE_SIZE, CAST_SIZE = (160, 45), (120, 36)


def script() -> PlayScript:
    """The play, checked."""
    return read_play(SCRIPT.read_text(encoding="utf-8"), SCRIPT.name)


def draw_picture(file: Path) -> None:
    """What stands on a large screen when the last line has ended."""
    played = script()

    def look(line: PlayedLine) -> None:
        if line.line == played.lines[-1].number:
            file.write_text(active_app.get().export_screenshot(title=played.title), encoding="utf-8")

    _perform(played, PICTURE_SIZE, told=look)


def draw_cast(file: Path) -> None:
    """All that a terminal is sent meanwhile."""
    played = script()
    with whole_file(file) as stream, closing(SessionReader(shipped_tour())) as reader:
        wall_s = next(reader.ticks()).wall_s
        cast = CastWriter(stream, CAST_SIZE, wall_s=wall_s, title=played.title)
        _perform(played, CAST_SIZE, cast=cast)


def _perform(played: PlayScript, size: tuple[int, int], **how: Any) -> None:
    with closing(SessionReader(shipped_tour())) as reader:
        performance = PlayApp.over(played, reader, SETTINGS, size=size, **how).perform()
    if failure := performance.failure or performance.crash:
        raise failure


def main() -> None:
    """Draw both with the clock of Greenwich, so that they are the same wherever they are drawn."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    drawings: tuple[tuple[Callable[[Path], None], Path], ...] = ((draw_picture, PICTURE), (draw_cast, CAST))
    for draw, file in drawings:
        draw(file)
        print(f"written: {file}, {file.stat().st_size >> 10} KB")


if __name__ == "__main__":
    main()
