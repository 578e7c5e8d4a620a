"""What a play waits for: a condition on the picture of one moment.

Law: what is not known holds no condition, nor the opposite of one: a figure without enough commits behind it
is neither below 20 nor above it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.relations import SIGNS
from replexplorer.core.history.series import ENOUGH, Recent
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobView, addressed, find, format_value, parse_value, same_value
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


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that holds at a moment, or does not."""

    holds: Callable[[PlayMoment], bool | None]
    """Whether it does; None: not known."""
    seen: Callable[[PlayMoment], str]
    """What is so instead, in words."""
    needs_end: bool = False
    """It is of a recording's end, which live servers have not."""


def _load_figure(name: str) -> Callable[[PlayMoment], float | None]:
    def found(moment: PlayMoment) -> float | None:
        recent = moment.recent
        if recent.is_mixed or (name in ENOUGH and not recent.is_firm(name)):
            return None
        value: float | None = getattr(recent, "tps" if name == "tps" else f"{name}_ms")
        return value

    return found


def _loss(name: str) -> Callable[[PlayMoment], float | None]:
    def found(moment: PlayMoment) -> float | None:
        loss = getattr(moment.tick.exposure, name, None)
        return float(loss.commits) if isinstance(loss, Loss) else None

    return found


def _lag_ms(moment: PlayMoment) -> float | None:
    truth = moment.tick.truth
    lags_ms = [each.lag_ms for each in truth.replicas if each.lag_ms is not None] if truth else []
    return max(lags_ms, default=None)


FIGURES: Final[dict[str, Callable[[PlayMoment], float | None]]] = {
    "tps": _load_figure("tps"),
    **{name: _load_figure(name) for name in (*ENOUGH, "max")},
    keys.RTT: lambda moment: None if moment.tick.rtt is None else moment.tick.rtt.rtt_measured_ms,
    "lag": _lag_ms,
    **{name: _loss(name) for name in FAILURES},
    "faults": lambda moment: float(len(moment.tick.faults)),
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
    joined by `and`: false where one does not hold, else unknown where one is; raise UsageError."""
    texts = [part.strip() for part in re.split(r"\band\b", text, flags=re.IGNORECASE)]
    if not all(texts):
        raise UsageError("no condition" if len(texts) == 1 else f"{text!r} lacks a condition", CONDITION_HINT)
    parts = [_one(part) for part in texts]

    def holds(moment: PlayMoment) -> bool | None:
        found = [part.holds(moment) for part in parts]
        return False if False in found else None if None in found else True

    def seen(moment: PlayMoment) -> str:
        return "; ".join(part.seen(moment) for part in parts if not part.holds(moment))

    return Condition(holds, seen, any(part.needs_end for part in parts))


def _one(text: str) -> Condition:
    word, _, rest = text.partition(" ")
    match word.lower(), rest.strip():
        case "not", opposite if opposite:
            of = _one(opposite)
            return Condition(
                lambda moment: None if (held := of.holds(moment)) is None else not held, of.seen, of.needs_end
            )
        case "mark", "":
            return Condition(lambda moment: moment.marks_since > 0, _newest_mark)
        case "mark", number if number.isascii() and number.isdigit() and 0 < len(number) < 7:
            return Condition(lambda moment: moment.newest_mark >= int(number), _newest_mark)
        case "settled", "":
            return Condition(
                lambda moment: not _unsettled(moment) and moment.tick.protection.settled,
                lambda moment: f"not in effect yet: {', '.join(_unsettled(moment)) or 'the last change'}",
            )
        case "end", "":
            return Condition(lambda moment: moment.at_end, _elapsed, needs_end=True)
        case "at", duration if duration:
            at_s = parse_duration(duration)
            return Condition(lambda moment: moment.elapsed_s >= at_s, _elapsed)
        case state, "" if state in set(ProtectionState):
            return Condition(
                lambda moment: moment.tick.protection.state == state,
                lambda moment: f"the state is {moment.tick.protection.state}",
            )
    compared = _COMPARISON.fullmatch(text)
    if compared is None:
        raise UsageError(f"{text!r} is no condition", _near(word) or CONDITION_HINT)
    name, comparison = compared[1], "==" if compared[2] == "=" else compared[2]
    value = compared[3].strip()
    if name.lower() in FIGURES and not (name.lower() == keys.RTT and comparison in ("==", "!=")):
        return _figure(name.lower(), comparison, value)
    return _knob(name, comparison, value)


def _newest_mark(moment: PlayMoment) -> str:
    return f"the newest mark is {moment.newest_mark}" if moment.newest_mark else "there is no mark"


def _elapsed(moment: PlayMoment) -> str:
    return f"it is at {moment.elapsed_s:.1f} s"


def _unsettled(moment: PlayMoment) -> list[str]:
    """Knobs that are not in effect as requested; one whose effect is unknown is not waited for: without a
    load there are such."""
    return [
        str(name)
        for name, view in moment.tick.knobs.items()
        if view.effective is not None and not same_value(name.knob, view.effective, view.requested)
    ]


def _figure(name: str, comparison: str, text: str) -> Condition:
    """A figure compared with a number in its own unit; raise UsageError."""
    found = _NUMBER.fullmatch(text)
    unit = found[2].lower() if found is not None else ""
    in_ms = name in _IN_MS
    if found is None or (unit and (unit not in _UNITS if in_ms else unit != "tps" or name != "tps")):
        example = f"{name} < 20ms" if in_ms else f"{name} < 20"
        raise UsageError(f"{text!r} is nothing to compare {name} with", f"write a number, as in {example}")
    bound = float(found[1]) * (_UNITS[unit] if unit and in_ms else 1.0)

    def holds(moment: PlayMoment) -> bool | None:
        value = FIGURES[name](moment)
        return None if value is None else SIGNS[comparison][0](value, bound)

    def seen(moment: PlayMoment) -> str:
        value = FIGURES[name](moment)
        return f"{name} is {'unknown' if value is None else f'{value:.4g}' + (' ms' if in_ms else '')}"

    return Condition(holds, seen)


def _knob(name: str, comparison: str, text: str) -> Condition:
    """A knob that has a value in effect on every node that its name addresses; raise UsageError."""
    key, at, node = name.partition("@")
    try:
        knob = find(key)
    except UsageError as error:
        raise UsageError(f"no figure and no knob {name!r}", _near(name) or error.hint) from None
    if comparison not in ("==", "!="):
        raise UsageError(f"a knob is compared by = and !=, not by {comparison}", f"write {name} = {text}")
    written, value = f"{knob.key}{at}{node}", parse_value(knob, text)

    def views(moment: PlayMoment) -> list[KnobView]:
        tick = moment.tick
        try:
            names = addressed(written, tick.roster) if tick.roster is not None else ()
        except UsageError:  # of a node that this stack has not, or not yet
            names = ()
        return [tick.knobs[name] for name in names if name in tick.knobs]

    def holds(moment: PlayMoment) -> bool | None:
        effective = [view.effective for view in views(moment)]
        if not effective or None in effective:
            return None
        found = [each is not None and same_value(knob, each, value) for each in effective]
        return all(found) if comparison == "==" else not any(found)

    def seen(moment: PlayMoment) -> str:
        told = [
            f"{view.name} is {'unknown' if view.effective is None else format_value(knob, view.effective)}"
            for view in views(moment)
        ]
        return ", ".join(told) or f"these servers have no {written}"

    return Condition(holds, seen)


def _near(word: str) -> str:
    near = get_close_matches(word.lower(), _WORDS, n=1)
    return f"did you mean {near[0]}?" if near else ""


_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min)?", re.IGNORECASE)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0}
_LONGEST_S: Final = 86_400.0


def parse_duration(text: str) -> float:
    """Seconds of `2s`, `500ms`, `1.5min`, `3`; raise UsageError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no duration", "write 2s, 500ms or 1.5min")
    length_s = float(found[1]) * _SECONDS[(found[2] or "s").lower()]
    if length_s > _LONGEST_S:
        raise UsageError(f"{text!r} is longer than a day", "write at most 24 hours, in s, ms or min")
    return length_s
