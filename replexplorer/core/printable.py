"""Text from elsewhere, made fit for a terminal: the one sanitiser, called at each door to it.

Law: what a terminal would obey instead of showing it is written as an escape that can be read: the C0
and C1 controls, DEL, what ends a line or turns its direction in Unicode, and lone surrogates. All other
text stays as it is, so that what has none of these passes unchanged.
"""

from __future__ import annotations

import re
from typing import Final

LAYOUT: Final = "\n\t"
"""What `printable` keeps in a text of several lines of our own making."""

_TURNING: Final = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff"
_OBEYED: Final = re.compile(f"[\x00-\x1f\x7f-\x9f{_TURNING}]")
_NOT_IN_JSON: Final = re.compile(f"[\x7f-\x9f{_TURNING}]")
_BLANKS: Final = re.compile(r"[ \t\r\n]+")
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str, keep: str = "") -> str:
    r"""The text with visible escapes (`\x1b`, `\n`, `\u202e`) for what a terminal obeys; what stands in
    `keep` stays."""
    if text.isprintable():
        return text
    return _OBEYED.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


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
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _escaped(character: str) -> str:
    number = ord(character)
    return _NAMED.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
