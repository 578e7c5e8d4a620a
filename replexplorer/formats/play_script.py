"""A play: what is pressed, waited for, said and marked, a step a line.

Law: the form is this and no more.
- Blank lines and lines that begin with `#` are comments.
- `title TEXT` names the play; it comes first and once.
- `start [KEY=VALUE...]` says what the play starts from: the defaults, but for these. It comes before all
  that is done, and once; a play without it starts from the defaults.
- `set KEY=VALUE...`, `fault KIND[=VALUE][@NODE]`, `clear [KIND[@NODE]]` and `reset` do what the verbs of
  these names do, on live servers.
- `lab NAME [quick]` and `drill NAME [quick]` run one to its end, which ends the play unless all holds.
- `key KEY...` presses keys, by character or by name; `type TEXT` types each character of the text.
- `wait 2s` lets time pass; `until CONDITION [within 30s]` waits until it holds, and ends the play when it
  does not within that (60 s without it). A condition is asked of the pictures that come after the line.
- `caption TEXT` shows a line until the next one, `caption` alone takes it away.
- `mark TEXT` puts a numbered mark on the charts; over a recording, into the cast alone.
- `hide` stops the cast's clock until `show`.
The whole is read before anything begins; every mistake is a UsageError that names file, line, what was read
and what would be right.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, TextIO

from replexplorer.core.errors import UsageError
from replexplorer.core.fault import check_fault, kind_of
from replexplorer.core.knobs.names import find, parse_value
from replexplorer.core.play import CONDITION_HINT, Condition, parse_condition, parse_duration
from replexplorer.core.text import one_line, printable
from replexplorer.formats.keymap import NAMED_KEYS, key_name

LARGEST_PLAY_BYTES: Final = 1 << 16
"""Of a file."""
WITHIN_S: Final = 60.0
"""How long a condition is waited for that does not say it."""
_LONGEST_TEXT: Final = 200
_SHOWN: Final = 60
"""Characters of a line that an error repeats."""
_WITHIN: Final = re.compile(r"\s+within\s+(\S.*)$", re.IGNORECASE)
_OF_SERVERS: Final = frozenset({"start", "set", "fault", "clear", "reset", "lab", "drill"})
_WORDS: Final = (
    "key", "type", "wait", "until", "caption", "mark", "start", "set", "fault", "clear", "reset", "lab",
    "drill", "hide", "show",
)  # fmt: skip
"""What a line begins with."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a play; what its word does not need is left as it is."""

    word: str
    """`key` (also for `type`), `wait`, `until`, `caption`, `mark`, `start`, `set`, `fault`, `clear`, `reset`,
    `lab`, `drill`, `hide` or `show`."""
    rest: str = ""
    """What follows the word, checked."""
    keys: tuple[str, ...] = ()
    """To press, by the names that the dashboard binds."""
    length_s: float = 0.0
    """Of a wait, and of `within`."""
    condition: Condition | None = None
    number: int = 0
    """In the file, from 1; 0 of a line that is not there."""
    text: str = ""
    """As it was written, in one line."""

    @property
    def is_of_servers(self) -> bool:
        """It changes live servers, and no recording."""
        return self.word in _OF_SERVERS


@dataclass(frozen=True, slots=True)
class PlayScript:
    """A whole play, checked."""

    file: str
    lines: tuple[Step, ...]
    title: str = ""

    def unfit(self, *, live: bool) -> Step | None:
        """The first line that live servers cannot do, or that a recording cannot; None where all can be
        done."""
        for line in self.lines:
            needs_end = line.condition is not None and line.condition.needs_end
            if needs_end if live else line.is_of_servers:
                return line
        return None


def read_play(text: str, file: str) -> PlayScript:
    """Read a whole play; raise UsageError naming file and line."""
    title = ""
    lines: list[Step] = []
    for number, written in enumerate(text.splitlines(), 1):
        line = written.strip()
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        shown = one_line(line, _SHOWN)
        try:
            if (word.lower() == "title" and title) or (word.lower() in ("title", "start") and lines):
                raise UsageError(f"{word} comes before all other steps and once", "move it to the top")
            if word.lower() == "title":
                title = _said(rest)
            else:
                lines.append(replace(_step(word.lower(), rest.strip()), number=number, text=shown))
        except UsageError as error:
            raise UsageError(
                f"{file}, line {number}: `{shown}`: {printable(error.message)}", printable(error.hint)
            ) from None
    if not lines:
        raise UsageError(f"{file}: no step in it", "write lines such as key s, or wait 2s")
    return PlayScript(file, tuple(lines), title)


def _step(word: str, rest: str) -> Step:
    step = Step(word, rest)
    match word:
        case "key":
            if not rest:
                raise UsageError("no key is named", "write key s, or key slash r t t enter")
            return replace(step, keys=tuple(map(_key, rest.split())))
        case "type":
            return _typed(rest[1:-1] if len(rest) > 1 and rest[0] == rest[-1] == '"' else rest)
        case "wait":
            if not rest:
                raise UsageError("no duration", "write wait 2s")
            return replace(step, length_s=parse_duration(rest))
        case "until":
            return _until(step)
        case "caption" | "mark":
            return Step(word, _said(rest) if rest or word == "mark" else "")
        case "start" | "set":
            _check_knobs(word, rest)
        case "fault":
            check_fault(rest)
        case "clear" if rest:
            kind_of(rest.partition("@")[0].partition("=")[0])
        case "reset" | "hide" | "show" if rest:
            raise UsageError(f"nothing follows {word}", f"write {word} alone")
        case "lab" | "drill":
            if rest.split()[1:] not in ([], ["quick"]) or not rest:
                raise UsageError(f"no {word} is named", f"write {word} NAME, or {word} NAME quick")
            return Step(word, " ".join(rest.split()))
        case _ if word not in _WORDS:
            near = get_close_matches(word, (*_WORDS, "title"), n=1)
            known = f"a line begins with {', '.join(_WORDS)}"
            raise UsageError(
                f"{one_line(word, 20)} is no step", f"did you mean {near[0]}?" if near else known
            )
    return step


def _key(written: str) -> str:
    """A key by its character (`s`, `?`) or its name (`enter`, `shift+right`, `ctrl+p`)."""
    try:
        return key_name(written)
    except UsageError:
        near = get_close_matches(written.lower(), NAMED_KEYS, n=1)
        known = "write a character (s, ?), or enter, escape, space, up, shift+right, ctrl+p, f1"
        raise UsageError(f"no key {written!r}", f"did you mean {near[0]}?" if near else known) from None


def _typed(text: str) -> Step:
    if not text or not text.isprintable() or len(text) > _LONGEST_TEXT:
        raise UsageError("no text to type", f"write type 85, at most {_LONGEST_TEXT} characters")
    return Step("key", text, tuple("space" if each == " " else key_name(each) for each in text))


def _until(step: Step) -> Step:
    within = _WITHIN.search(step.rest)
    condition = step.rest[: within.start()] if within is not None else step.rest
    if not condition or condition.lower().startswith("within "):
        raise UsageError("no condition", CONDITION_HINT)
    length_s = WITHIN_S if within is None else parse_duration(within[1])
    if not length_s:
        raise UsageError("within 0 waits for nothing", "write within 30s")
    return replace(step, length_s=length_s, condition=parse_condition(condition.strip()))


def _check_knobs(word: str, rest: str) -> None:
    if not rest and word == "set":
        raise UsageError("no knob is named", "write set rtt=85ms")
    for each in rest.split():
        name, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"{each!r} is not KEY=VALUE", f"write {word} sync_binlog=0 rtt@db2=85ms")
        parse_value(find(name.partition("@")[0]), value)


def _said(text: str) -> str:
    said = one_line(text)
    if not said or len(said) > _LONGEST_TEXT:
        what = "no text" if not said else f"a text of {len(said)} characters"
        raise UsageError(what, f"write one of 1 to {_LONGEST_TEXT} characters behind the word")
    return said


class CastWriter:
    """Writes one cast (asciicast version 2) to a stream of text in UTF-8, as it happens."""

    def __init__(
        self, stream: TextIO, size: tuple[int, int], *, wall_s: float, title: str = "", speed: float = 1.0
    ) -> None:
        """Write the header for a terminal of `size` (columns, rows); times are divided by `speed`."""
        self._stream = stream
        self._speed = speed
        self._at_s = 0.0
        self._output = ""
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
        self._output += data

    def marker(self, at_s: float, label: str) -> None:
        """A point that a player can jump to."""
        self.flush()
        self._at_s = max(self._at_s, at_s)
        self._event("m", one_line(label, _LONGEST_TEXT))

    def flush(self, at_s: float = 0.0) -> None:
        """Write what is left; the cast lasts until `at_s` at least."""
        data, self._output = self._output, ""
        if data:
            self._event("o", data)
        if at_s > self._at_s:
            self._at_s = at_s
            self._event("o", "")

    def _event(self, kind: str, data: str) -> None:
        self._line([round(self._at_s / self._speed, 6), kind, data])

    def _line(self, document: Any) -> None:
        self._stream.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
