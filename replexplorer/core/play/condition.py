"""What a play waits for: a condition on the picture of one moment.

Law: what is not known holds no condition, nor the opposite of one: a figure without enough commits behind it
is neither below 20 nor above it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Protocol

from replexplorer.core.errors import UsageError
from replexplorer.core.history.recent import ENOUGH, Recent
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.knob_view import KnobView
from replexplorer.core.knobs.names import Value, addressed, find, format_value, parse_value, same_value
from replexplorer.core.server.exposure import FAILURES, Loss
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick


@dataclass(frozen=True, slots=True)
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


class Condition(Protocol):
    """Something that holds at a moment, or does not."""

    def holds(self, moment: PlayMoment) -> bool | None:
        """Whether it does; None: not known."""
        ...

    def seen(self, moment: PlayMoment) -> str:
        """What is so instead, in words."""
        ...


@dataclass(frozen=True, slots=True)
class StateHolds:
    """The protection state is this one."""

    state: ProtectionState

    def holds(self, moment: PlayMoment) -> bool | None:
        """The header's word."""
        return moment.tick.protection.state is self.state

    def seen(self, moment: PlayMoment) -> str:
        """The word."""
        return f"the state is {moment.tick.protection.state}"


_COMPARED: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
    "=": operator.eq,
}  # fmt: skip
"""The longer ones first."""


@dataclass(frozen=True, slots=True)
class FigureHolds:
    """A figure of the dashboard compares so with a number."""

    name: str
    comparison: str
    bound: float
    """In the figure's own unit."""

    def holds(self, moment: PlayMoment) -> bool | None:
        """None while the figure is unknown."""
        value = FIGURES[self.name](moment)
        return None if value is None else _COMPARED[self.comparison](value, self.bound)

    def seen(self, moment: PlayMoment) -> str:
        """The figure."""
        value = FIGURES[self.name](moment)
        unit = " ms" if self.name in _IN_MS else ""
        return f"{self.name} is {'unknown' if value is None else f'{value:.4g}{unit}'}"


@dataclass(frozen=True, slots=True)
class KnobHolds:
    """A knob has this value in effect, on every node that it addresses."""

    written: str
    """`KEY` or `KEY@NODE`, the node by name or alias."""
    value: Value
    is_equal: bool = True

    def holds(self, moment: PlayMoment) -> bool | None:
        """None while the value in effect is unknown, or the stack has no such knob."""
        views = self._views(moment)
        if not views or any(view.effective is None for view in views):
            return None
        found = [same_value(view.name.knob, view.effective, self.value) for view in views]
        return all(found) if self.is_equal else not any(found)

    def seen(self, moment: PlayMoment) -> str:
        """The values in effect."""
        told = [f"{view.name} is {_effective(view)}" for view in self._views(moment)]
        return ", ".join(told) or f"these servers have no {self.written}"

    def _views(self, moment: PlayMoment) -> list[KnobView]:
        tick, roster = moment.tick, moment.tick.roster
        try:
            names = addressed(self.written, roster) if roster is not None else ()
        except UsageError:  # of a node that this stack has not, or not yet
            names = ()
        return [tick.knobs[name] for name in names if name in tick.knobs]


def _effective(view: KnobView) -> str:
    return "unknown" if view.effective is None else format_value(view.name.knob, view.effective)


@dataclass(frozen=True, slots=True)
class MarkHolds:
    """A mark has been set lately (`PlayMoment.marks_since`), or the mark of this number ever."""

    number: int | None = None

    def holds(self, moment: PlayMoment) -> bool | None:
        """Always known."""
        return bool(moment.marks_since) if self.number is None else moment.newest_mark >= self.number

    def seen(self, moment: PlayMoment) -> str:
        """The newest."""
        return f"the newest mark is {moment.newest_mark}" if moment.newest_mark else "there is no mark"


@dataclass(frozen=True, slots=True)
class SettledHolds:
    """Every knob is in effect as it was requested."""

    def holds(self, moment: PlayMoment) -> bool | None:
        """A knob whose effect is unknown is not waited for: without a load there are such."""
        return not self._open(moment) and moment.tick.protection.settled

    def seen(self, moment: PlayMoment) -> str:
        """What is not in effect yet."""
        return f"not in effect yet: {', '.join(self._open(moment)) or 'the last change'}"

    def _open(self, moment: PlayMoment) -> list[str]:
        return [
            str(name)
            for name, view in moment.tick.knobs.items()
            if view.effective is not None and not same_value(name.knob, view.effective, view.requested)
        ]


@dataclass(frozen=True, slots=True)
class AtHolds:
    """This many seconds have passed since the first tick."""

    elapsed_s: float

    def holds(self, moment: PlayMoment) -> bool | None:
        """By the clock of the session, or of the recording."""
        return moment.elapsed_s >= self.elapsed_s

    def seen(self, moment: PlayMoment) -> str:
        """Where it stands."""
        return f"it is at {moment.elapsed_s:.1f} s"


@dataclass(frozen=True, slots=True)
class EndHolds:
    """The recording is at its end."""

    def holds(self, moment: PlayMoment) -> bool | None:
        """Never on live servers."""
        return moment.at_end

    def seen(self, moment: PlayMoment) -> str:
        """Where it stands."""
        return f"it is at {moment.elapsed_s:.1f} s"


@dataclass(frozen=True, slots=True)
class NotHolds:
    """The opposite of a condition."""

    of: Condition

    def holds(self, moment: PlayMoment) -> bool | None:
        """Unknown where that is."""
        found = self.of.holds(moment)
        return None if found is None else not found

    def seen(self, moment: PlayMoment) -> str:
        """What is so."""
        return self.of.seen(moment)


@dataclass(frozen=True, slots=True)
class AllHold:
    """Several conditions at the same moment."""

    parts: tuple[Condition, ...]

    def holds(self, moment: PlayMoment) -> bool | None:
        """False where one does not hold, else unknown where one is."""
        found = [part.holds(moment) for part in self.parts]
        return False if False in found else None if None in found else True

    def seen(self, moment: PlayMoment) -> str:
        """What is so of those that do not hold."""
        return "; ".join(part.seen(moment) for part in self.parts if not part.holds(moment))


def _of_load(name: str) -> Callable[[PlayMoment], float | None]:
    def found(moment: PlayMoment) -> float | None:
        recent = moment.recent
        if name in ENOUGH and not recent.is_firm(name):
            return None
        value: float | None = getattr(recent, "tps" if name == "tps" else f"{name}_ms")
        return None if recent.is_mixed else value

    return found


def _at_risk(name: str) -> Callable[[PlayMoment], float | None]:
    def found(moment: PlayMoment) -> float | None:
        loss = getattr(moment.tick.exposure, name, None)
        return float(loss.commits) if isinstance(loss, Loss) else None

    return found


def _lag_ms(moment: PlayMoment) -> float | None:
    truth = moment.tick.truth
    lags_ms = [each.lag_ms for each in truth.replicas if each.lag_ms is not None] if truth else []
    return max(lags_ms, default=None)


def _rtt_ms(moment: PlayMoment) -> float | None:
    link = moment.tick.rtt
    return None if link is None else link.rtt_measured_ms


def _faults(moment: PlayMoment) -> float | None:
    return float(len(moment.tick.faults))


FIGURES: Final[dict[str, Callable[[PlayMoment], float | None]]] = {
    "tps": _of_load("tps"),
    **{name: _of_load(name) for name in (*ENOUGH, "max")},
    keys.RTT: _rtt_ms,
    "lag": _lag_ms,
    **{name: _at_risk(name) for name in FAILURES},
    "faults": _faults,
}
"""What a condition may compare, by name: rates, latencies and times in ms, counts of commits and faults."""
_IN_MS: Final = (*ENOUGH, "max", keys.RTT, "lag")
_UNITS: Final = {"us": 0.001, "ms": 1.0, "s": 1000.0}
_COMPARISON: Final = re.compile(r"([a-z_]\w*(?:@[\w:]+)?)\s*(<=|>=|!=|==|<|>|=)\s*(.+)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ%/]*)", re.IGNORECASE)
_WORDS: Final = (*(str(state) for state in ProtectionState), *FIGURES, "settled", "mark", "end", "at")
CONDITION_HINT: Final = (
    "write a state (protected), a figure (tps < 20, p99 > 80ms), a knob in effect (semi_sync = on), settled, "
    "mark, at 30s or end"
)
"""For who wrote something else."""


def parse_condition(text: str) -> Condition:
    """`protected`, `not blocked`, `tps < 20`, `rtt@db2 = 85ms`, `settled`, `mark 3`, `at 30s`, `end`, several
    joined by `and`; raise UsageError."""
    parts = [part.strip() for part in re.split(r"\band\b", text, flags=re.IGNORECASE)]
    if not all(parts):
        raise UsageError("no condition" if len(parts) == 1 else f"{text!r} lacks a condition", CONDITION_HINT)
    found = tuple(_one(part) for part in parts)
    return found[0] if len(found) == 1 else AllHold(found)


def _one(text: str) -> Condition:
    word, _, rest = text.partition(" ")
    match word.lower(), rest.strip():
        case "not", opposite if opposite:
            return NotHolds(_one(opposite))
        case "mark", "":
            return MarkHolds()
        case "mark", number if number.isascii() and number.isdigit() and 0 < len(number) < 7:
            return MarkHolds(int(number))
        case "settled", "":
            return SettledHolds()
        case "end", "":
            return EndHolds()
        case "at", moment if moment:
            return AtHolds(parse_duration(moment))
        case state, "" if state in set(ProtectionState):
            return StateHolds(ProtectionState(state))
    compared = _COMPARISON.fullmatch(text)
    if compared is None:
        raise UsageError(f"{text!r} is no condition", _near(word) or CONDITION_HINT)
    name, comparison = compared[1], "=" if compared[2] == "==" else compared[2]
    value = compared[3].strip()
    if name.lower() in FIGURES and not (name.lower() == keys.RTT and comparison in ("=", "!=")):
        return FigureHolds(name.lower(), comparison, _bound(name.lower(), value))
    return _knob(name, comparison, value)


def _bound(name: str, text: str) -> float:
    """The number in the figure's own unit; raise UsageError."""
    found = _NUMBER.fullmatch(text)
    unit = found[2].lower() if found is not None else ""
    in_ms = name in _IN_MS
    if found is None or (unit and (unit not in _UNITS if in_ms else unit != "tps" or name != "tps")):
        example = f"{name} < 20ms" if in_ms else f"{name} < 20"
        raise UsageError(f"{text!r} is nothing to compare {name} with", f"write a number, as in {example}")
    return float(found[1]) * (_UNITS[unit] if unit and in_ms else 1.0)


def _knob(name: str, comparison: str, text: str) -> Condition:
    key, at, node = name.partition("@")
    try:
        knob = find(key)
    except UsageError as error:
        raise UsageError(f"no figure and no knob {name!r}", _near(name) or error.hint) from None
    if comparison not in ("=", "!="):
        raise UsageError(f"a knob is compared by = and !=, not by {comparison}", f"write {name} = {text}")
    return KnobHolds(f"{knob.key}{at}{node}", parse_value(knob, text), comparison == "=")


def _near(word: str) -> str:
    near = get_close_matches(word.lower(), _WORDS, n=1)
    return f"did you mean {near[0]}?" if near else ""


_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min)?", re.IGNORECASE)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0}
LONGEST_S: Final = 86_400.0
"""Of a wait."""


def parse_duration(text: str) -> float:
    """Seconds of `2s`, `500ms`, `1.5min`, `3`; raise UsageError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no duration", "write 2s, 500ms or 1.5min")
    length_s = float(found[1]) * _SECONDS[(found[2] or "s").lower()]
    if length_s > LONGEST_S:
        raise UsageError(f"{text!r} is longer than a day", "write at most 24 hours, in s, ms or min")
    return length_s
