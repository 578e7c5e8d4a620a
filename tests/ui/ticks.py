"""Ticks as lines of words, for tables and stories of what a dashboard shows.

`2 state=blocked rtt=85,99 partition@db2=ack load.dropped=60 db2.lag_s=12.0`: the moment, what `make_tick`
takes, knobs as they are typed, and fields of a part, a node or a knob. `fault=kill@db2,pause@db1` are in
force since `since=0`, `down=db2` is a node that does not answer, `window=4x90` half a second with four
commits of 90 ms, `explained` a commit that is taken apart and predicted.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import CATALOGUE, parse_name
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from tests.fakes.facade import WALL_S, altered, down, explained, make_tick
from tests.typed import typed

_WORD = re.compile(r"([^\s=]+)(?:=('[^']*'|\S+))?")
_ARGUMENTS = signature(make_tick).parameters
_KNOBS = {knob.key for knob in CATALOGUE}


def tick_of(text: str, base: Tick | None = None, **given: Any) -> Tick:
    """What the words say, of this tick or of a plausible one of a running stack, with what else is given."""
    knobs, parts = list[str](), defaultdict[str, dict[str, Any]](dict)
    fields: dict[str, Any] = {"since": 0.0}
    for name, written in _WORD.findall(text):
        head, _, field = name.partition(".")
        if name[0].isdigit():
            given["at_s"] = float(name)
        elif name == "state":
            given[name] = ProtectionState(written)
        elif name in _ARGUMENTS:
            given[name] = _value(written)
        elif field:
            parts[head][field] = _value(written)
        elif name.partition("@")[0] in _KNOBS:
            knobs.append(f"{name}={written}")
        else:
            fields[name] = _value(written)
    made = make_tick(**{"at_s": 1.0, "values": typed(" ".join(knobs)), **given})
    tick = replace(base, at_s=made.at_s) if base else made
    since_s = fields.pop("since")
    for name, value in fields.items():
        match name:
            case "explained":
                tick = explained(tick)
            case "down":
                tick = down(tick, value)
            case "fault":
                found = (fault_of(each, number, since_s) for number, each in enumerate(value.split(","), 1))
                tick = replace(tick, faults=tuple(found))
            case "window":
                count, _, ms = value.partition("x")
                service = Histogram.of([round(1000 * float(ms))] * int(count))
                parts["load"] |= {"tps": 2.0 * service.count, "n": service.count, "service": service}
            case _:
                tick = replace(tick, **{name: value})
    for head in [each for each in parts if each.partition("@")[0] in _KNOBS]:
        knob = parse_name(head)
        tick = replace(tick, knobs={**tick.knobs, knob: replace(tick.knobs[knob], **parts.pop(head))})
    return altered(tick, **parts)


def ticks_of(text: str, bases: Mapping[str, Tick] = {}) -> list[Tick]:
    """Those of a cell, each after a semicolon; one may begin with a base's name."""
    found = []
    for words in text.split(";"):
        first, _, more = words.strip().partition(" ")
        found.append(tick_of(more, bases[first]) if first in bases else tick_of(words))
    return found


def fault_of(text: str, number: int = 1, since_s: float = 0.0) -> Fault:
    """One in force, as it is typed; of the source where no node is named."""
    what, _, node = text.partition("@")
    kind, _, value = what.partition("=")
    return Fault(number, kind, value or None, node or "db1", WALL_S + since_s, None, "fault (pid 12)", {})


def fields_of(text: str) -> dict[str, Any]:
    """`mode=open verdict='too short'`: values by the names of fields."""
    return {name: _value(written) for name, written in _WORD.findall(text)}


def _value(written: str) -> Any:
    """As Python writes it, or the word itself; of a word alone that it is so."""
    try:
        return literal_eval(written or "True")
    except (SyntaxError, ValueError):
        return written
