"""`make pictures`: the README's pictures, drawn by `play --svg` over the recorded tour, with the glyphs that
they need put inside, so that they look the same wherever they are shown."""

from __future__ import annotations

import base64
import html
import io
import os
import re
import time
from pathlib import Path
from typing import Final

from fontTools import subset

from replexplorer.cli import main as program

DOCS: Final = Path(__file__).parents[1] / "docs"
SIZES: Final = {"dashboard": "160x45", "tour": "100x30"}
"""Of each picture, which the play of its name draws."""
_FONTS: Final = Path("/usr/share/fonts/truetype/dejavu")
_FACES: Final = (("DejaVuSansMono", 400), ("DejaVuSansMono-Bold", 700), ("DejaVuSans", 400))
"""File and weight; the last has the braille and the circled digits that the others lack."""


def _with_fonts(picture: str) -> str:
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
    for name, size in SIZES.items():
        file = DOCS / f"{name}.svg"
        words = ["play", str(DOCS / f"{name}.play"), "--over", "tour", "--size", size, "--svg", str(file)]
        if code := program(words):
            raise SystemExit(code)
        file.write_text(_with_fonts(file.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"written: {file}, {file.stat().st_size >> 10} KB")


if __name__ == "__main__":
    main()
