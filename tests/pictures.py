"""`make pictures`: perform docs/tour.play over the recorded tour; keep its last picture, and one that shows
its steps in turn.

Nothing in them is loaded from elsewhere: the glyphs that are drawn are inside.
"""

from __future__ import annotations

import base64
import html
import io
import os
import re
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from fontTools import subset
from textual._context import active_app

from replexplorer.adapters.recording import SessionReader
from replexplorer.formats.paths import shipped_tour
from replexplorer.formats.play_script import PlayedLine, PlayScript, read_play
from replexplorer.ui.play import PlayApp
from replexplorer.ui.settings import Settings

DOCS: Final = Path(__file__).parents[1] / "docs"
SCRIPT: Final = DOCS / "tour.play"
PICTURE: Final = DOCS / "dashboard.svg"
MOVING: Final = DOCS / "tour.svg"
SETTINGS: Final = Settings(stack="tour, recorded")
PICTURE_SIZE, MOVING_SIZE = (160, 45), (100, 30)
SHOWN_S: Final = 4
"""How long each step of the moving picture is shown."""
_FONTS: Final = Path("/usr/share/fonts/truetype/dejavu")
_FACES: Final = (("DejaVuSansMono", 400), ("DejaVuSansMono-Bold", 700), ("DejaVuSans", 400))
"""File and weight; the last has the braille and the circled digits that the others lack."""


def script() -> PlayScript:
    """The play, checked."""
    return read_play(SCRIPT.read_text(encoding="utf-8"), SCRIPT.name)


def draw_picture(file: Path) -> None:
    """What stands on a large screen when the last line has ended."""
    [*_, last] = _pictures(PICTURE_SIZE)
    file.write_text(_with_fonts(last), encoding="utf-8")


def draw_moving(file: Path) -> None:
    """What each caption is about, one after the other, forever."""
    shown = [
        f'<g class="step" style="animation-delay:{at * SHOWN_S}s">{each}</g>'
        for at, each in enumerate(_pictures(MOVING_SIZE))
    ]
    [box] = re.findall(r'viewBox="[^"]*"', shown[0])[:1]
    style = (
        f".step {{ visibility: hidden; animation: step {len(shown) * SHOWN_S}s step-end infinite }}"
        " @keyframes step { 0% { visibility: visible }"
        f" {100 / len(shown):.3f}% {{ visibility: hidden }} }}"
    )
    whole = f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{style}</style>{"".join(shown)}</svg>'
    file.write_text(_with_fonts(whole), encoding="utf-8")


def _pictures(size: tuple[int, int]) -> Sequence[str]:
    """The screen at the end of what follows each caption."""
    played, taken = script(), dict[int, str]()
    captions = [line.number for line in played.lines if line.word == "caption"]

    def look(line: PlayedLine) -> None:
        step = max((at for at, number in enumerate(captions) if number <= line.line), default=0)
        taken[step] = active_app.get().export_screenshot(title=played.title)

    with closing(SessionReader(shipped_tour())) as reader:
        performance = PlayApp.over(played, reader, SETTINGS, size=size, told=look).perform()
    if failure := performance.failure or performance.crash:
        raise failure
    return [taken[step] for step in sorted(taken)]


def _with_fonts(picture: str) -> str:
    """With the glyphs that it needs, so that it looks the same wherever it is shown."""
    text = html.unescape("".join(re.findall(r">([^<]+)<", picture)))
    faces = "".join(_face(name, weight, text) for name, weight in _FACES)
    families = ", ".join(dict.fromkeys(f"'{name.partition('-')[0]}'" for name, _ in _FACES))
    picture = picture.replace("font-family: monospace", f"font-family: {families}, monospace")
    return picture.replace("<style>", f"<style>{faces}", 1)


def _face(name: str, weight: int, text: str) -> str:
    """A font with the glyphs of a text alone, inside the style sheet."""
    options = subset.Options(flavor="woff", layout_features=[])
    options.drop_tables += ["FFTM"]  # of no use in a picture, and warned about
    font = subset.load_font(str(_FONTS / f"{name}.ttf"), options)
    part = subset.Subsetter(options)
    part.populate(text=text if "Mono" in name else "".join(char for char in text if ord(char) > 0x2400))
    part.subset(font)
    written = io.BytesIO()
    subset.save_font(font, written, options)
    data = base64.b64encode(written.getvalue()).decode()
    family = name.partition("-")[0]
    return (
        f"@font-face {{ font-family: '{family}'; font-weight: {weight};"
        f" src: url(data:font/woff;base64,{data}) format('woff') }}\n"
    )


def main() -> None:
    """Draw both with the clock of Greenwich, so that they are the same wherever they are drawn."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    for draw, file in ((draw_picture, PICTURE), (draw_moving, MOVING)):
        draw(file)
        print(f"written: {file}, {file.stat().st_size >> 10} KB")


if __name__ == "__main__":
    main()
