"""A lab as a server can run it: without settings that its server amounts to anyway, or by other knobs."""

from __future__ import annotations

from dataclasses import replace

from replexplorer.core.dialect.capabilities import Capabilities
from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import Backing, find, parse_value
from replexplorer.engine.experiment.labs.lab import Lab, Phase


def fitting(lab: Lab, server: Capabilities) -> Lab:
    """The lab, or the first of its variants, whose knobs this server has; raises UsageError naming what it
    lacks where it has those of none."""
    for each in (lab, *lab.variants):
        fitted = replace(each, phases=tuple(_fitted(phase, server) for phase in each.phases))
        if not _lacking(fitted, server):
            return fitted
    lacking = ", ".join(_lacking(lab, server))
    raise UsageError(f"the lab {lab.name} cannot run here", f"it turns {lacking}, which {server.title} lacks")


def _lacking(lab: Lab, server: Capabilities) -> tuple[str, ...]:
    """What the lab sets and the server cannot have: a knob, or a value of one."""
    settings = (text for phase in lab.phases for text in phase.settings)
    return tuple(dict.fromkeys(what for text in settings if (what := _beyond(text, server))))


def _beyond(text: str, server: Capabilities) -> str | None:
    """The knob that the server lacks, or `KEY=VALUE` where it has no such value; None where it has both."""
    written, _, value = text.partition("=")
    knob = find(written.partition("@")[0])
    if not server.has(knob.key):
        return knob.key
    if knob.backing is Backing.SERVER and server.knob(knob.key).choices != knob.choices:
        return None if knob.word(value) in server.knob(knob.key).choices else f"{knob.key}={value}"
    return None


def _fitted(phase: Phase, server: Capabilities) -> Phase:
    """Without settings of knobs that the server lacks, where it does as they say anyway."""
    return replace(phase, settings=tuple(text for text in phase.settings if not _is_idle(text, server)))


def _is_idle(text: str, server: Capabilities) -> bool:
    written, _, value = text.partition("=")
    knob = find(written.partition("@")[0])
    if server.has(knob.key) or knob.lacking is None:
        return False
    return parse_value(knob, value) == knob.lacking
