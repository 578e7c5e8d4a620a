"""Rows and figures as text of one width, for a terminal and for pages alike.

Text from elsewhere, made fit for a terminal: the one sanitiser, called at each door to it.

Law: what a terminal would obey or hide instead of showing it is written as an escape that can be read:
controls, format characters (zero width, turned direction), ends of lines and paragraphs, lone surrogates,
private and unassigned characters (Unicode's categories Cc, Cf, Zl, Zp, Cs, Co, Cn). All other text stays as
it is, so that what has none of these passes unchanged.

What a remedy asks the user to type: one of our verbs, with the stack where it is not the default one.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final
from unicodedata import category

LAYOUT: Final = "\n\t"
"""What `printable` keeps in a text of several lines of our own making."""

_NOT_ASCII: Final = re.compile(r"[^ -~]")
_NOT_IN_JSON: Final = re.compile(r"[^\n\r\t -~]")
_BLANKS: Final = re.compile(r"[ \t\r\n]+")
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str, keep: str = "") -> str:
    r"""The text with visible escapes (`\x1b`, `\n`, `\u202e`) for what a terminal obeys, but for
    those in `keep`."""
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


_LEAST_FOLDED: Final = 20
"""Columns of a table's folded cells, however narrow the terminal is."""


def table(
    rows: Sequence[Sequence[str]],
    headings: Sequence[str] = (),
    right: Sequence[int] = (),
    *,
    fold: int | None = None,
    columns: int | None = None,
) -> str:
    """Columns two spaces apart; `right` names the columns of numbers. Where the terminal's `columns` are
    known, the cells of column `fold` take as many lines as make the table fit."""
    lines = [list(map(printable, line)) for line in ([headings, *rows] if headings else rows)]
    if not lines:
        return ""
    if fold is not None and columns is not None:
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        room = columns - sum(widths) + widths[fold] - 2 * (len(widths) - 1)
        lines = [part for line in lines for part in _folded_cell(line, fold, max(room, _LEAST_FOLDED))]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _folded_cell(line: list[str], column: int, width: int) -> list[list[str]]:
    """A line of a table whose cell in this column takes as many lines as it needs."""
    first, *more = folded(line[column], width, "").splitlines() or [""]
    rest = [["" if at != column else part for at in range(len(line))] for part in more]
    return [[*line[:column], first, *line[column + 1 :]], *rest]


def folded(text: str, columns: int | None, indent: str = "  ") -> str:
    """A long line cut between words for this many columns, the rest indented; whole if that is
    unknown."""
    if columns is None or len(text) < columns:
        return text
    return "\n".join(
        textwrap.wrap(
            text, columns - 1, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    )


def number(value: float | None, digits: int = 1) -> str:
    """A figure with its digits; an unknown one is a dash, never zero."""
    return "-" if value is None else f"{value:,.{digits}f}"


def closest(word: str, known: Iterable[str]) -> str:
    """`did you mean X?` where one of the known words is near, else nothing."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else ""


def duration_text(seconds: float) -> str:
    """`40 s`, `3 min`, `1 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def utc(wall_s: float) -> str:
    """A clock time in seconds since 1970 as JSON has it: `2026-11-24T10:58:00Z`."""
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_ms(wall_s: float) -> str:
    """The same with milliseconds."""
    return f"{datetime.fromtimestamp(wall_s, UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def utc_for_people(text: str) -> str:
    """`2026-11-24 10:58:00 UTC` of a time as JSON has it."""
    return f"{text.replace('T', ' ').removesuffix('Z')} UTC"


DEFAULT_STACK: Final = "default"
"""The stack that a verb addresses when none is named."""


_NEEDS_STACK: Final = re.compile(r"\breplexplorer (up|down|status|get|reset)\b(?! --(?:stack|all)\b)")


def with_stack(text: str, stack: str) -> str:
    """The text with the stack in each command that addresses one; whoever wrote it may not know its name."""
    return text if stack == DEFAULT_STACK else _NEEDS_STACK.sub(rf"\g<0> --stack {stack}", text)


def command(verb: str, stack: str, *words: str) -> str:
    """`` `replexplorer down --stack demo` ``: what does this to that stack."""
    named = () if stack == DEFAULT_STACK else ("--stack", stack)
    return f"`{' '.join(('replexplorer', verb, *words, *named))}`"


def elapsed(seconds: float) -> str:
    """Seconds since the start as `00:12:35`."""
    whole = max(0, int(seconds))
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
