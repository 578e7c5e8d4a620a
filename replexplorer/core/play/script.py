"""A play: what is pressed, waited for, said and marked, a step a line.

Law: the form is this and no more.
- Blank lines and lines that begin with `#` are comments.
- `title TEXT` names the play; it comes first and once.
- `start [KEY=VALUE...]` says what the play starts from: the defaults, but for these. It comes before all
  that is done, and once; a play without it starts from the defaults.
- `set KEY=VALUE...`, `fault KIND[=VALUE][@NODE]`, `clear [KIND[@NODE]]` and `reset` do what the verbs of
  these names do, on live servers.
- `key KEY...` presses keys, by character or by name; `type TEXT` types each character of the text.
- `wait 2s` lets time pass; `until CONDITION [within 30s]` waits until it holds, and ends the play when it
  does not within that (60 s without it). A condition is asked of the pictures that come after the line.
- `caption TEXT` shows a line until the next one, `caption` alone takes it away.
- `mark TEXT` puts a numbered mark on the charts; over a recording, into the cast alone.
- `hide` leaves what follows out of the cast until `show`.
The whole is read before anything begins; every mistake is a UsageError that names file, line, what was read
and what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.fault import check_fault, kind_of
from replexplorer.core.knobs.names import find, parse_value
from replexplorer.core.play.condition import (
    CONDITION_HINT,
    AllHold,
    Condition,
    EndHolds,
    NotHolds,
    parse_condition,
    parse_duration,
)
from replexplorer.core.play.keyboard import PlayedKey, key_of_character, parse_key
from replexplorer.core.printable import one_line, printable

LARGEST_PLAY_BYTES: Final = 1 << 16
"""Of a file."""
MOST_STEPS: Final = 2_000
"""Of a play."""
WITHIN_S: Final = 60.0
"""How long a condition is waited for that does not say it."""
_LONGEST_TEXT: Final = 200
_SHOWN: Final = 60
"""Characters of a line that an error repeats."""
_WITHIN: Final = re.compile(r"\s+within\s+(\S.*)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KeyStep:
    """Press keys, one after the other."""

    keys: tuple[PlayedKey, ...]


@dataclass(frozen=True, slots=True)
class WaitStep:
    """Let time pass."""

    length_s: float


@dataclass(frozen=True, slots=True)
class UntilStep:
    """Wait for a condition."""

    condition: Condition
    within_s: float = WITHIN_S


@dataclass(frozen=True, slots=True)
class CaptionStep:
    """Show a line; an empty one takes it away."""

    text: str


@dataclass(frozen=True, slots=True)
class MarkStep:
    """Put a mark on the charts."""

    text: str


@dataclass(frozen=True, slots=True)
class DoStep:
    """Have the stack do something."""

    word: str
    """`start`, `set`, `fault`, `clear` or `reset`."""
    rest: str
    """What follows it."""


@dataclass(frozen=True, slots=True)
class ShowStep:
    """Let the cast show what follows, or leave it out."""

    is_shown: bool


Act = KeyStep | WaitStep | UntilStep | CaptionStep | MarkStep | DoStep | ShowStep
"""What one line does."""


@dataclass(frozen=True, slots=True)
class PlayLine:
    """One line of a play."""

    number: int
    """In the file, from 1."""
    text: str
    """As it was written, in one line."""
    act: Act


@dataclass(frozen=True, slots=True)
class PlayScript:
    """A whole play, checked."""

    file: str
    lines: tuple[PlayLine, ...]
    title: str = ""

    def unfit(self, *, live: bool) -> PlayLine | None:
        """The first line that live servers cannot do, or that a recording cannot; None where all can be
        done."""
        return next(
            (
                line
                for line in self.lines
                if (live and isinstance(line.act, UntilStep) and _asks_for_end(line.act.condition))
                or (not live and isinstance(line.act, DoStep))
            ),
            None,
        )


def _asks_for_end(condition: Condition) -> bool:
    match condition:
        case EndHolds():
            return True
        case NotHolds(of):
            return _asks_for_end(of)
        case AllHold(parts):
            return any(map(_asks_for_end, parts))
    return False


def read_play(text: str, file: str) -> PlayScript:
    """Read a whole play; raise UsageError naming file and line."""
    title = ""
    lines: list[PlayLine] = []
    for number, written in enumerate(text.splitlines(), 1):
        line = written.strip()
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        try:
            if word.lower() == "title":
                if title or lines:
                    raise UsageError("title comes first and once", "move it to the top of the file")
                title = _said(rest)
                continue
            if word.lower() == "start" and lines:
                raise UsageError("start comes before all other steps and once", "move it to the top")
            if len(lines) == MOST_STEPS:
                raise UsageError(f"more than {MOST_STEPS:,} steps", "cut the play in two")
            lines.append(PlayLine(number, one_line(line, _SHOWN), _act(word.lower(), rest.strip())))
        except UsageError as error:
            shown = one_line(line, _SHOWN)
            raise UsageError(
                f"{file}, line {number}: `{shown}`: {printable(error.message)}", printable(error.hint)
            ) from None
    if not lines:
        raise UsageError(f"{file}: no step in it", "write lines such as key s, or wait 2s")
    return PlayScript(file, tuple(lines), title)


def _act(word: str, rest: str) -> Act:
    read = _READERS.get(word)
    if read is None:
        near = get_close_matches(word, (*_READERS, "title"), n=1)
        known = f"a line begins with {', '.join([*_READERS][:-1])} or {[*_READERS][-1]}"
        raise UsageError(f"{one_line(word, 20)} is no step", f"did you mean {near[0]}?" if near else known)
    return read(rest)


def _keys(rest: str) -> Act:
    if not rest:
        raise UsageError("no key is named", "write key s, or key slash r t t enter")
    return KeyStep(tuple(parse_key(word) for word in rest.split()))


def _typed(rest: str) -> Act:
    text = rest[1:-1] if len(rest) > 1 and rest[0] == rest[-1] == '"' else rest
    if not text or not text.isprintable() or len(text) > _LONGEST_TEXT:
        raise UsageError("no text to type", f"write type 85, at most {_LONGEST_TEXT} characters")
    return KeyStep(tuple(key_of_character(character) for character in text))


def _wait(rest: str) -> Act:
    if not rest:
        raise UsageError("no duration", "write wait 2s")
    return WaitStep(parse_duration(rest))


def _until(rest: str) -> Act:
    within = _WITHIN.search(rest)
    condition = rest[: within.start()] if within is not None else rest
    if not condition or condition.lower().startswith("within "):
        raise UsageError("no condition", CONDITION_HINT)
    length_s = WITHIN_S if within is None else parse_duration(within[1])
    if not length_s:
        raise UsageError("within 0 waits for nothing", "write within 30s")
    return UntilStep(parse_condition(condition.strip()), length_s)


def _turned(word: str) -> Callable[[str], Act]:
    def read(rest: str) -> Act:
        if not rest and word == "set":
            raise UsageError("no knob is named", "write set rtt=85ms")
        for each in rest.split():
            name, equals, value = each.partition("=")
            if not equals:
                raise UsageError(f"{each!r} is not KEY=VALUE", f"write {word} sync_binlog=0 rtt@db2=85ms")
            parse_value(find(name.partition("@")[0]), value)
        return DoStep(word, rest)

    return read


def _fault(rest: str) -> Act:
    check_fault(rest)
    return DoStep("fault", rest)


def _clear(rest: str) -> Act:
    if rest:
        kind_of(rest.partition("@")[0].partition("=")[0])
    return DoStep("clear", rest)


def _alone(word: str, act: Act) -> Callable[[str], Act]:
    def read(rest: str) -> Act:
        if rest:
            raise UsageError(f"nothing follows {word}", f"write {word} alone")
        return act

    return read


def _caption(rest: str) -> Act:
    return CaptionStep(_said(rest) if rest else "")


def _mark(rest: str) -> Act:
    return MarkStep(_said(rest))


def _said(text: str) -> str:
    said = one_line(text)
    if not said or len(said) > _LONGEST_TEXT:
        what = "no text" if not said else f"a text of {len(said)} characters"
        raise UsageError(what, f"write one of 1 to {_LONGEST_TEXT} characters behind the word")
    return said


_READERS: Final[dict[str, Callable[[str], Act]]] = {
    "key": _keys,
    "type": _typed,
    "wait": _wait,
    "until": _until,
    "caption": _caption,
    "mark": _mark,
    "start": _turned("start"),
    "set": _turned("set"),
    "fault": _fault,
    "clear": _clear,
    "reset": _alone("reset", DoStep("reset", "")),
    "hide": _alone("hide", ShowStep(is_shown=False)),
    "show": _alone("show", ShowStep(is_shown=True)),
}
"""A step's word, and what reads the rest of its line."""
