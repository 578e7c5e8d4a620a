"""A play: what is pressed, waited for, said and marked, a step a line; and the cast that is made of one.

Law: the form is this and no more.
- Blank lines and lines that begin with `#` are comments.
- `title TEXT` names the play; it comes first and once.
- `start [KEY=VALUE...]` says what the play starts from: the defaults, but for these. It comes before all
  that is done, and once; a play without it starts from the defaults.
- `set KEY=VALUE...`, `preset NAME`, `fault KIND[=VALUE][@NODE]`, `clear [KIND[@NODE]]` and `reset` do what
  the verbs of these names do, on live servers.
- `lab NAME [quick]` and `drill NAME [quick]` run one to its end, which ends the play unless all holds.
- `lesson NAME` gives one with its own answers; what each step says, and what came of it, are captions.
- `key KEY...` presses keys, by character or by name; `type TEXT` types each character of the text.
- `wait 2s` lets time pass; `until CONDITION [within 30s]` waits until it holds, and ends the play when it
  does not within that (60 s without it). A condition is asked of the pictures that come after the line.
- `caption TEXT` shows a line until the next one, `caption` alone takes it away.
- `mark TEXT` puts a numbered mark on the charts; over a recording, into the cast alone.
- `hide` stops the cast's clock until `show`.
The whole is read before anything begins; every mistake is a UsageError that names file, line, what was read
and what would be right. What is not known holds no condition, nor the opposite of one: a figure without
enough commits behind it is neither below 20 nor above it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TextIO

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.relations import SIGNS
from replexplorer.core.fault import fault_parts, kind_of
from replexplorer.core.history.series import ENOUGH, Recent
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Knob, addressed, find, format_value, parse_value, same_value
from replexplorer.core.records import frozen, replace
from replexplorer.core.server.exposure import FAILURES, Loss
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.text import closest, one_line, printable
from replexplorer.core.tick import Tick
from replexplorer.formats.keymap import NAMED_KEYS, key_name
from replexplorer.formats.scenes import find_scene

# -- what is waited for


@frozen
class PlayMoment:
    """What a condition is judged by: one tick, and what was before it."""

    tick: Tick
    recent: Recent
    """The load's figures of now, as the screens show them."""
    elapsed_s: float
    """Since the first tick."""
    newest_mark: int = 0
    """The greatest number of a mark so far; 0 before any."""
    marks_since: int = 0
    """Marks since the step that waits began, or the key or mark that it follows: theirs may come first."""
    at_end: bool = False
    """It is a recording's last."""


Reading = Callable[[PlayMoment], Mapping[str, Any]]
"""What is so at a moment, by what it is called; None: not known."""


@frozen
class Condition:
    """What is read is so, compared with a bound: everything that was read, on however many nodes."""

    read: Reading
    sign: str
    bound: Any
    unit: str = ""
    """Of what is read, with a blank before it."""
    is_negated: bool = False

    def holds(self, moment: PlayMoment) -> bool:
        """Whether it does; what is not known holds no condition, nor its opposite."""
        found = self.read(moment).values()
        compares = SIGNS[self.sign][0]
        return None not in found and all(compares(each, self.bound) for each in found) is not self.is_negated

    def seen(self, moment: PlayMoment) -> str:
        """What is so instead: `tps is 528`."""
        return ", ".join(
            f"{name} is {'unknown' if each is None else f'{each:.4g}' if isinstance(each, float) else each}"
            f"{self.unit if each is not None else ''}"
            for name, each in self.read(moment).items()
        )


def _unsettled(moment: PlayMoment) -> Mapping[str, Any]:
    """Knobs that are not in effect as requested; one whose effect is unknown is not waited for: without a
    load there are such."""
    turning = [
        str(name)
        for name, view in moment.tick.knobs.items()
        if view.effective is not None and not same_value(name.knob, view.effective, view.requested)
    ]
    last = "nothing" if moment.tick.protection.settled else "the last change"
    return {"what is not in effect yet": ", ".join(turning) or last}


def _load_figure(name: str, moment: PlayMoment) -> float | None:
    recent = moment.recent
    if recent.is_mixed or (name in ENOUGH and not recent.is_firm(name)):
        return None
    value: float | None = getattr(recent, "tps" if name == "tps" else f"{name}_ms")
    return value


def _loss(name: str, moment: PlayMoment) -> float | None:
    loss = getattr(moment.tick.exposure, name, None)
    return float(loss.commits) if isinstance(loss, Loss) else None


_IN_MS: Final = (*ENOUGH, "max", keys.RTT, "lag")
FIGURES: Final[Mapping[str, Callable[[PlayMoment], float | None]]] = {
    **{name: partial(_load_figure, name) for name in ("tps", *ENOUGH, "max")},
    keys.RTT: lambda moment: None if moment.tick.rtt is None else moment.tick.rtt.rtt_measured_ms,
    "lag": lambda moment: None if moment.tick.truth is None else moment.tick.truth.lag_ms,
    **{name: partial(_loss, name) for name in FAILURES},
    "faults": lambda moment: float(len(moment.tick.faults)),
}
"""What a condition may compare, by name: rates, latencies and times in ms, counts of commits and faults."""
END: Final = Condition(
    lambda moment: {"the recording": "over" if moment.at_end else "under way"}, "==", "over"
)
"""A recording's end, which live servers have not."""
_WORDS: Final = {
    **{
        str(state): Condition(lambda moment: {"the state": moment.tick.protection.state}, "==", state)
        for state in ProtectionState
    },
    "settled": Condition(_unsettled, "==", "nothing"),
    "mark": Condition(lambda moment: {"the number of marks since": moment.marks_since}, ">", 0),
    "end": END,
}
"""Conditions of one word."""
_COMPARISON: Final = re.compile(r"([a-z_][\w-]*(?:@[\w:]+)?)\s*(<=|>=|!=|==|<|>|=)\s*(.+)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)", re.IGNORECASE)
_SECONDS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "min": 60.0}
_MS: Final = {"": 1.0, "us": 0.001, "ms": 1.0, "s": 1000.0}
_KNOWN: Final = (*_WORDS, *FIGURES, "at")
"""What a condition may be about."""
_CONDITION_HINT: Final = (
    "write a state (protected), a figure (tps < 20, p99 > 80ms), a knob in effect (semi_sync = on), settled, "
    "mark, at 30s or end"
)


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """`protected`, `not blocked`, `tps < 20`, `rtt@db2 = 85ms`, `settled`, `mark 3`, `at 30s`, `end`, several
    joined by `and`; raise UsageError."""
    return tuple(_condition(part.strip()) for part in re.split(r"\band\b", text, flags=re.IGNORECASE))


def _condition(text: str) -> Condition:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    word, _, rest = (each.strip() for each in text.partition(" "))
    match word.lower():
        case "":
            raise UsageError("no condition", _CONDITION_HINT)
        case "not" if rest:
            of = _condition(rest)
            return replace(of, is_negated=not of.is_negated)
        case "mark" if re.fullmatch("[0-9]{1,6}", rest):
            return Condition(lambda moment: {"the newest mark": moment.newest_mark}, ">=", int(rest))
        case "at" if rest:
            return Condition(lambda moment: {"the time": moment.elapsed_s}, ">=", parse_duration(rest), " s")
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is not a condition", closest(word.lower(), _KNOWN) or _CONDITION_HINT)
    name, sign, value = found[1], "==" if found[2] == "=" else found[2], found[3]
    figure = name.lower().replace("-", "_")
    if figure in FIGURES and not (figure == keys.RTT and sign in ("==", "!=")):
        return _figure(figure, sign, value)
    return _knob(name, sign, value)


def _figure(name: str, sign: str, text: str) -> Condition:
    """A figure compared with a number in its own unit; raise UsageError."""
    units = _MS if name in _IN_MS else {"": 1.0, "tps": 1.0} if name == "tps" else {"": 1.0}
    bound, unit = _number(text, units), " ms" if name in _IN_MS else ""
    if bound is None:
        example = f"write a number, for example {name} < 20{unit.strip()}"
        raise UsageError(f"{text!r} is nothing to compare {name} with", example)
    return Condition(lambda moment: {name: FIGURES[name](moment)}, sign, bound, unit)


def _knob(name: str, sign: str, text: str) -> Condition:
    """A knob's value in effect on every node that its name addresses, as it is written; raise UsageError."""
    key, at, node = name.partition("@")
    try:
        knob = find(key)
    except UsageError as error:
        hint = closest(name.lower(), _KNOWN) or error.hint
        raise UsageError(f"no figure and no knob {name!r}", hint) from None
    if sign not in ("==", "!="):
        raise UsageError(f"a knob is compared by = and !=, not by {sign}", f"write {name} = {text}")
    read = partial(_in_effect, knob, f"{knob.key}{at}{node}")
    return Condition(read, sign, format_value(knob, parse_value(knob, text)))


def _in_effect(knob: Knob, written: str, moment: PlayMoment) -> Mapping[str, str | None]:
    """The value on each node; not known of a node that this stack has not, or not yet."""
    tick = moment.tick
    try:
        names = addressed(written, tick.roster) if tick.roster is not None else ()
    except UsageError:
        names = ()
    effective = {str(name): tick.knobs[name].effective for name in names if name in tick.knobs}
    found = {name: None if each is None else format_value(knob, each) for name, each in effective.items()}
    return found or {written: None}


def _number(text: str, units: Mapping[str, float]) -> float | None:
    """A number with one of these units; None for what is none."""
    found = _NUMBER.fullmatch(text.strip())
    unit = None if found is None else units.get(found[2].lower())
    return None if found is None or unit is None else float(found[1]) * unit


def parse_duration(text: str) -> float:
    """Seconds of `2s`, `500ms`, `1.5min`, `3`; raise UsageError."""
    length_s = _number(text, _SECONDS)
    if length_s is None:
        raise UsageError(f"{text!r} is not a duration", "write 2s, 500ms or 1.5min")
    return length_s


# -- the lines

LARGEST_PLAY_BYTES: Final = 1 << 16
"""Of a file."""
WITHIN_S: Final = 60.0
"""How long a condition is waited for that does not say it."""
_LONGEST_TEXT: Final = 200
_SHOWN: Final = 60
"""Characters of a line that an error repeats."""
_WITHIN: Final = re.compile(r"(?:^|\s+)within\s+(\S.*)$", re.IGNORECASE)
_OF_SERVERS: Final = frozenset(
    {"start", "set", "preset", "fault", "clear", "reset", "lab", "drill", "lesson"}
)
_EXAMPLES: Final = {
    "key": "key slash r t t enter", "type": "type 85", "wait": "wait 2s",
    "until": "until protected within 30s",
    "caption": "caption It waits now", "mark": "mark 85 ms away", "start": "start clients=8",
    "set": "set sync_binlog=0 rtt@db2=85ms", "fault": "fault kill@db1", "clear": "clear kill",
    "preset": "preset both", "reset": "reset", "lab": "lab wan-insert quick",
    "drill": "drill kill-primary quick", "lesson": "lesson lag", "hide": "hide", "show": "show",
}  # fmt: skip
"""What a line begins with, and such a line."""
_ALONE: Final = frozenset({"reset", "hide", "show"})
"""Words that nothing follows."""
_MAY_BE_ALONE: Final = frozenset({"caption", "start", "clear"})


@frozen
class Step:
    """One line of a play; what its word does not need is left as it is."""

    word: str
    """`key` (also for `type`), `wait`, `until`, `caption`, `mark`, `start`, `set`, `preset`, `fault`,
    `clear`, `reset`, `lab`, `drill`, `lesson`, `hide` or `show`."""
    rest: str = ""
    """What follows the word, checked."""
    keys: tuple[str, ...] = ()
    """To press, by the names that the dashboard binds."""
    length_s: float = 0.0
    """Of a wait, and of `within`."""
    conditions: tuple[Condition, ...] = ()
    experiment: Any = None
    """The lab, drill or lesson that it names."""
    number: int = 0
    """In the file, from 1; 0 of a line that is not there."""
    text: str = ""
    """As it was written, in one line."""

    @property
    def is_of_servers(self) -> bool:
        """It changes live servers, and no recording."""
        return self.word in _OF_SERVERS

    @property
    def needs_end(self) -> bool:
        """It waits for a recording's end, which live servers have not."""
        return any(each.read is END.read for each in self.conditions)


@frozen
class PlayScript:
    """A whole play, checked."""

    file: str
    lines: tuple[Step, ...]
    title: str = ""

    def unfit(self, *, live: bool) -> Step | None:
        """The first line that live servers cannot do, or that a recording cannot; None where all can be
        done."""
        unfit = (line for line in self.lines if (line.needs_end if live else line.is_of_servers))
        return next(unfit, None)


def read_play(text: str, file: str, named: Callable[[str, str], Any] = lambda *_: None) -> PlayScript:
    """Read a whole play; `named` gives the `lab`, `drill` or `lesson` of a name. Raises UsageError naming
    file and line."""
    title = ""
    lines: list[Step] = []
    for number, written in enumerate(text.splitlines(), 1):
        line = written.strip()
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        word, rest, shown = word.lower(), rest.strip(), one_line(line, _SHOWN)
        try:
            if word in ("title", "start") and (lines or (word == "title" and title)):
                raise UsageError(f"{word} comes before all other steps and once", "move it to the top")
            if word == "title":
                title = _said(rest)
            else:
                lines.append(replace(_step(word, rest, named), number=number, text=shown))
        except UsageError as error:
            told = f"{file}, line {number}: `{shown}`: {printable(error.message)}"
            raise UsageError(told, printable(error.hint)) from None
    if not lines:
        raise UsageError(f"{file}: no step in it", "write lines such as key s, or wait 2s")
    return PlayScript(file, tuple(lines), title)


def _step(word: str, rest: str, named: Callable[[str, str], Any]) -> Step:
    """A line, checked; raise UsageError."""
    example = f"write {_EXAMPLES.get(word)}"
    if word not in _EXAMPLES:
        known = f"begin a line with {', '.join(_EXAMPLES)}"
        hint = closest(word.lower(), (*_EXAMPLES, "title")) or known
        raise UsageError(f"{one_line(word, 20)} is not a step", hint)
    if rest and word in _ALONE:
        raise UsageError(f"nothing may follow {word}", example)
    if not rest and word not in _ALONE | _MAY_BE_ALONE:
        raise UsageError(f"something must follow {word}", example)
    step = Step(word, rest)
    match word:
        case "key":
            return replace(step, keys=tuple(map(_key, rest.split())))
        case "type":
            text = _said(rest[1:-1] if len(rest) > 1 and rest[0] == rest[-1] == '"' else rest)
            return Step("key", text, tuple("space" if each == " " else key_name(each) for each in text))
        case "wait":
            return replace(step, length_s=parse_duration(rest))
        case "until":
            within = _WITHIN.search(rest)
            conditions = parse_conditions(rest[: within.start()] if within is not None else rest)
            length_s = WITHIN_S if within is None else parse_duration(within[1])
            return replace(step, length_s=length_s, conditions=conditions)
        case "caption" | "mark" if rest:
            return Step(word, _said(rest))
        case "start" | "set":
            for each in rest.split():
                name, equals, value = each.partition("=")
                if not equals:
                    raise UsageError(f"{each!r} is not KEY=VALUE", example)
                parse_value(find(name.partition("@")[0]), value)
        case "fault":
            fault_parts(rest)
        case "clear" if rest:
            kind_of(rest.partition("@")[0].partition("=")[0])
        case "preset":
            find_scene(rest)
        case "lab" | "drill" | "lesson":
            name, *more = rest.split()
            if more not in ([], ["quick"]):
                raise UsageError(f"{word} takes a name, and quick", example)
            return replace(step, experiment=named(word, name))
    return step


def _key(written: str) -> str:
    """A key by its character (`s`, `?`) or its name (`enter`, `shift+right`, `ctrl+p`)."""
    try:
        return key_name(written)
    except UsageError:
        known = "write a character (s, ?), or enter, escape, space, up, shift+right, ctrl+p, f1"
        raise UsageError(f"no key {written!r}", closest(written.lower(), NAMED_KEYS) or known) from None


def _said(text: str) -> str:
    if not text or not text.isprintable() or len(text) > _LONGEST_TEXT:
        what = f"a text of {len(text)} characters" if text.isprintable() else "a text with control characters"
        raise UsageError(what, f"write one of 1 to {_LONGEST_TEXT} printable characters after the word")
    return text


@frozen
class PlayedLine:
    """A line that was performed."""

    line: int
    """In the file; 0: the start that the play does not write."""
    text: str
    at_s: float
    """When it ended, since the play began."""
    took_s: float
    state: str
    """The protection state then."""
    changed: tuple[str, ...]
    """What was changed so that the play starts from what it says; empty for other lines."""


class CastWriter:
    """Writes one cast (asciicast version 2) to a stream of text in UTF-8, as it happens; its times never go
    back."""

    def __init__(self, stream: TextIO, size: tuple[int, int], *, wall_s: float, title: str = "") -> None:
        """Write the header for a terminal of `size` (columns, rows)."""
        self._stream = stream
        self._at_s = 0.0
        header = {
            "version": 2, "width": size[0], "height": size[1], "timestamp": int(wall_s), "title": title,
            "env": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
        }  # fmt: skip
        self._write(header)

    def event(self, at_s: float, kind: str, data: str) -> None:
        """At this moment the terminal was sent `data` (kind `o`), or a player can jump here (`m`, a marker
        called `data`)."""
        self._at_s = max(self._at_s, at_s)
        self._write([round(self._at_s, 6), kind, data])

    def _write(self, document: Any) -> None:
        self._stream.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")


_SLIDE_S: Final = 4
"""How long each picture of a moving one is shown."""


def slides(pictures: Sequence[str]) -> str:
    """SVGs of one size as one that shows them in turn, forever; nothing in it is loaded from elsewhere."""
    shown = [
        f'<g class="step" style="animation-delay:{at * _SLIDE_S}s">{each}</g>'
        for at, each in enumerate(pictures)
    ]
    [box] = re.findall(r'viewBox="[^"]*"', shown[0])[:1]
    style = (
        f".step {{ visibility: hidden; animation: step {len(shown) * _SLIDE_S}s step-end infinite }}"
        " @keyframes step { 0% { visibility: visible }"
        f" {100 / len(shown):.3f}% {{ visibility: hidden }} }}"
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{style}</style>{"".join(shown)}</svg>'
