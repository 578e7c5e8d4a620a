"""What a change did, or would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replexplorer.core.knobs.names import KnobName, Value


@dataclass(frozen=True, slots=True)
class Changed:
    """One knob that a `set` turned."""

    name: KnobName
    before: Value | None
    requested: Value
    effective: Value | None
    took_ms: float
    statements: tuple[str, ...] = ()
    note: str | None = None
    measured_ms: float | None = None
    """What is measured since: the round trip of a link, an fsync of a disk; None where neither is
    turned, or nothing could be measured."""


@dataclass(frozen=True, slots=True)
class SetResult:
    """What a `set`, `reset` or `undo` did."""

    changed: tuple[Changed, ...]
    warnings: tuple[str, ...] = ()
    rolled_back: bool = False
    dry_run: bool = False
    before: Mapping[KnobName, Value] = field(default_factory=dict)
    """What was requested of these until the change's turn came: what an undo asks for."""
    unchanged: tuple[KnobName, ...] = ()
    """Asked, and already so."""
    unmet: tuple[str, ...] = ()
    """Asked again, set, and without effect: what could not be mended, each in a line."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a value would do, told before it is applied; computed from what is known, no I/O."""

    statements: tuple[str, ...]
    """As they would run, each with its node's name when it is not the primary's."""
    undo: tuple[str, ...]
    warnings: tuple[str, ...]
