"""Text from elsewhere, made fit for a terminal: the one sanitiser, called at each door to it.

Law: what a terminal would obey or hide instead of showing it is written as an escape that can be read:
controls, format characters (zero width, turned direction), ends of lines and paragraphs, lone surrogates,
private and unassigned characters (Unicode's categories Cc, Cf, Zl, Zp, Cs, Co, Cn). All other text stays as
it is, so that what has none of these passes unchanged.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category

LAYOUT: Final = "\n\t"
"""What `printable` keeps in a text of several lines of our own making."""

_NOT_ASCII: Final = re.compile(r"[^ -~]")
_NOT_IN_JSON: Final = re.compile(r"[^\n\r\t -~]")
_BLANKS: Final = re.compile(r"[ \t\r\n]+")
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str, keep: str = "") -> str:
    r"""The text with visible escapes (`\x1b`, `\n`, `\u202e`) for what a terminal obeys; what stands in
    `keep` stays."""
    if text.isprintable():
        return text
    return _NOT_ASCII.sub(
        lambda found: found[0] if found[0] in keep or _is_seen(found[0]) else _escaped(found[0]), text
    )


def one_line(text: str, most: int | None = None) -> str:
    """The text in one printable line, its blanks and line ends single blanks; longer than `most`
    characters it is shortened."""
    line = printable(_BLANKS.sub(" ", text).strip(" "))
    return line if most is None else shortened(line, most)


def shortened(text: str, most: int) -> str:
    """At most this many characters: of a longer text its beginning and its end, an ellipsis between."""
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def json_escaped(document: str) -> str:
    r"""A JSON document of the same meaning in which what a terminal obeys, and JSON leaves as it is, stands
    as `\u009b`."""
    return _NOT_IN_JSON.sub(lambda found: found[0] if _is_seen(found[0]) else _in_json(found[0]), document)


def _is_seen(character: str) -> bool:
    """Whether a terminal shows it: blanks of other widths are not printable to Python, and seen."""
    return character.isprintable() or category(character) == "Zs"


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _escaped(character: str) -> str:
    number = ord(character)
    if number > 0xFFFF:
        return f"\\U{number:08x}"
    return _NAMED.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
