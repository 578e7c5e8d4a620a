"""A drill: a failure on purpose as data. What is set up, what is done step by step, what must come of it.

Law: a drill names no server and does nothing by itself; the same data is narrated, run by hand, run without a
terminal and written into a report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.experiment import ExperimentGroup, Stage
from replexplorer.core.experiment.relations import Claim
from replexplorer.core.fault import kind_of
from replexplorer.core.records import frozen, replace
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import DEFAULT, System, system_of

DEFAULT_CLIENTS: Final = 8
WRITING: Final = "writing"
"""What one waits for: clients have their commits acknowledged."""
CAUGHT_UP: Final = "caught_up"
"""What one waits for: every replica has applied all that the source has executed."""

_QUICK_SHARE: Final = 3
_LEAST_QUICK_S: Final = 1.0


class Doing(StrEnum):
    """What a step does."""

    SET = "set"
    """Turn knobs."""
    LOAD = "load"
    """Let this many clients write; 0 pauses the load."""
    WAIT = "wait"
    INJECT = "inject"
    """Break something on purpose, until it is cleared or for some seconds."""
    CLEAR = "clear"
    """Clear it."""
    UNTIL = "until"
    """Wait for a protection state, for commits, or for the replicas."""
    FAILOVER = "failover"
    SWITCHOVER = "switchover"
    REJOIN = "rejoin"
    PRESET = "preset"
    """In a lesson: turn the knobs of a preset."""
    RESET = "reset"
    """In a lesson: all knobs to their defaults."""
    LAB = "lab"
    """In a lesson: run one."""
    DRILL = "drill"
    """In a lesson: run one."""


@frozen
class Span:
    """How long something lasts at most; seconds."""

    full_s: float
    quick_s: float
    """Under --quick: shorter, never another method."""

    def seconds(self, *, quick: bool) -> float:
        """In this run."""
        return self.quick_s if quick else self.full_s


def span(full_s: float, quick_s: float | None = None) -> Span:
    """A span; without a `quick_s` a third of it, at least one second."""
    if quick_s is None:
        quick_s = min(full_s, max(_LEAST_QUICK_S, full_s / _QUICK_SHARE))
    return Span(full_s, quick_s)


@frozen
class DrillStep:
    """One thing that a drill does."""

    doing: Doing
    what: str = ""
    """Of INJECT and CLEAR the fault as it is typed (empty: all), of UNTIL what is waited for, of LOAD how
    many clients, of changes of roles a node (empty: whichever is right), of PRESET, LAB and DRILL a name."""
    settings: tuple[str, ...] = ()
    """Of SET, and of DRILL in place of its own: `KEY=VALUE` as they are typed."""
    lasts: Span | None = None
    """Of WAIT how long, of UNTIL at most how long, of INJECT for how long; None: until it is cleared."""
    shows: str = ""
    """One sentence: what to watch."""

    @property
    def text(self) -> str:
        """What is done, in a few words: `inject kill`."""
        match self.doing:
            case Doing.SET:
                return " ".join(("set", *self.settings))
            case Doing.WAIT:
                return "let the load run"
            case Doing.LOAD:
                return "pause the load" if self.what == "0" else f"{self.what} clients write"
            case Doing.CLEAR:
                return f"clear {self.what or 'every fault'}"
            case Doing.UNTIL:
                return f"wait until {self.what.replace('_', ' ')}"
            case _:
                return f"{self.doing} {self.what}".strip()

    def seconds(self, *, quick: bool) -> float:
        """About how long it takes."""
        own_s = 0.0 if self.lasts is None else self.lasts.seconds(quick=quick)
        return _EXPECTED_S.get(self.doing, 0.0) + (0.0 if self.doing is Doing.UNTIL else own_s)


_EXPECTED_S: Final[Mapping[Doing, float]] = {
    Doing.SET: 2.0,
    Doing.INJECT: 0.5,
    Doing.CLEAR: 4.0,
    Doing.UNTIL: 2.0,
    Doing.FAILOVER: 6.0,
    Doing.SWITCHOVER: 4.0,
    Doing.REJOIN: 15.0,
    Doing.LAB: 60.0,
    Doing.DRILL: 30.0,
}
_AROUND_S: Final = 12.0
"""Setting up, comparing rows, returning everything."""
_BACK_S: Final = 20.0
"""The node that was the source comes back, and is the source again."""


@frozen
class Precheck:
    """What must be so before anything is broken."""

    state: ProtectionState
    within_s: float = 15.0
    __pydantic_config__: ClassVar = {
        "extra": "forbid",
        "allow_inf_nan": False,
        "alias_generator": lambda name: name.removesuffix("_s"),
    }


@frozen
class Drill:
    """A named failure."""

    kind: ClassVar = "drill"
    """The verb that runs it."""
    name: str
    title: str
    teaches: str
    """What it shows, in a sentence."""
    settings: tuple[str, ...] = ()
    """`KEY=VALUE` as they are typed, in force from the start."""
    systems: tuple[str, ...] = (DEFAULT,)
    """That it can be run on; the first is what a stack that it brings up is."""
    clients: int = DEFAULT_CLIENTS
    """That write to the ledger."""
    replicas: int = 1
    """That it needs; those missing are brought up for it and removed again."""
    survivor: str = ""
    """The node whose rows count in the end; empty: the source of that moment."""
    prechecks: tuple[Precheck, ...] = ()
    steps: tuple[DrillStep, ...] = ()
    expects: tuple[Claim, ...] = ()
    rollback: tuple[DrillStep, ...] = ()
    """Done whatever happens, before what was taken is returned."""
    asked: tuple[str, ...] = ()
    """Of `settings` those given in place of its own, or in addition."""

    @property
    def group(self) -> ExperimentGroup:
        """By the systems that it can be run on."""
        return ExperimentGroup.FAILURES if DEFAULT in self.systems else ExperimentGroup.SYSTEMS

    def unfit(self, system: System) -> str:
        """The systems that it needs, where this is none of them; empty where it is."""
        needed = " or ".join(system_of(name).title for name in self.systems)
        return "" if system.name in self.systems else f"needs {needed}"

    @property
    def stages(self) -> Sequence[Stage]:
        """Its steps, with its settings in what they show."""
        return [Stage(step.text, step.shows) for step in self.narrated.steps]

    @property
    def own_settings(self) -> tuple[str, ...]:
        """Those that the drill sets by itself."""
        return tuple(text for text in self.settings if text not in self.asked)

    @property
    def sets(self) -> str:
        """`power-cut sets sync_binlog=1 undo_journal=on by itself; asked for: sync_binlog=1000`; empty where
        it sets nothing."""
        own = f"{self.name} sets {' '.join(self.own_settings)} by itself" if self.own_settings else ""
        asked = f"asked for: {' '.join(self.asked)}" if self.asked else ""
        return "; ".join(filter(None, (own, asked)))

    @property
    def narrated(self) -> Drill:
        """The same with the settings in what its steps show, in place of each `{KEY}`."""
        words = _values(self.settings)

        def narrated(step: DrillStep) -> DrillStep:
            shows = re.sub(r"{(\w+)}", lambda found: words.get(found[1], found[0]), step.shows)
            return replace(step, shows=shows)

        return replace(self, steps=tuple(map(narrated, self.steps)))

    def seconds(self, *, quick: bool) -> float:
        """About how long it takes."""
        back_s = _BACK_S if self.changes_roles else 0.0
        return _AROUND_S + back_s + sum(step.seconds(quick=quick) for step in self.steps)

    @property
    def turns(self) -> tuple[str, ...]:
        """Keys of the knobs that it turns."""
        return tuple(_values((*self.settings, *(text for step in self.steps for text in step.settings))))

    @property
    def changes_roles(self) -> bool:
        """Whether another node becomes the source on the way, and the first one again in the end."""
        return any(step.doing in (Doing.FAILOVER, Doing.SWITCHOVER) for step in self.steps)

    @property
    def faults(self) -> tuple[str, ...]:
        """What it breaks, each as typed."""
        return tuple(dict.fromkeys(step.what for step in self.steps if step.doing is Doing.INJECT))

    def with_settings(self, texts: Iterable[str]) -> Drill:
        """The same with these `KEY=VALUE` in place of its own; raises UsageError for a knob that one of its
        steps turns."""
        given = _values(texts)
        for number, step in enumerate(self.steps, 1):
            if twice := [key for key in _values(step.settings) if key in given]:
                raise UsageError(
                    f"{twice[0]}: step {number} of {self.name} sets it",
                    "set another knob, or write a drill",
                )
        settings = {**_values(self.settings), **given}
        return replace(self, settings=_texts(settings), asked=_texts(given))


def _values(settings: Iterable[str]) -> dict[str, str]:
    """Values by key, of `KEY=VALUE` as they are typed."""
    return dict(text.partition("=")[::2] for text in settings)


def _texts(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in values.items())


FIGURES: Final[Mapping[str, str]] = {
    "attempted": "rows that clients sent",
    "acknowledged": "rows acknowledged to their client",
    "failed": "rows that the server refused",
    "unknown": "rows whose connection broke before the answer",
    "lost": "acknowledged rows that the survivor does not have",
    "newest_lost_age_ms": "how long before the failure the newest lost row was acknowledged",
    "unknown_present": "unknown rows that the survivor has",
    "unknown_absent": "unknown rows that it does not have",
    "phantom_reads": "rows that another session has seen and the survivor does not have",
    "extra": "rows on any other node and not on the survivor",
    "missing": "rows of the survivor that another node does not have, summed",
    "clients": "clients of the load",
    "clients_with_loss": "clients that lost a row",
    "most_lost_of_one_client": "rows of the client that lost most",
    "binlog_lost": "transactions that InnoDB kept and the binlog lost, on recovered servers",
    "diverged": "replicas whose rows differ from a recovered source",
    "broken_1236": "replicas that need what no source has in its binlogs",
    "detect_ms": "change of roles: until the failure was certain",
    "promote_ms": "change of roles: from then until the new source took writes",
    "first_write_ms": "change of roles: from then until a commit was answered there",
    "rto_ms": "change of roles: all of it",
    "rpo_ms": "the time of commits that was lost",
    "recovery_ms": "from the clearing of the last fault to the first OK",
    "tps_before": "commits per second until the first fault is asked for",
    "tps_during": "from when it is in force until the last one begins to end",
    "tps_after": "after that is over",
    "fallbacks": "times that semi-sync fell back to asynchronous",
    **{
        f"exposure_{name}_{part}": f"exposure meter before the failure, {words}{more}"
        for name, words in (
            ("process_dies", "mysqld dies"),
            ("power_cut", "power cut"),
            ("source_lost", "source lost"),
        )
        for part, more in (
            ("low", ": at least"),
            ("commits", ": the likeliest"),
            ("high", ": at most, with the commits until the failure"),
        )
    },
}
"""What an expectation may name, and what it is."""


def checked_steps(steps: Sequence[DrillStep]) -> tuple[int, UsageError] | None:
    """What is wrong with the order of steps: the index of the step and the error; None where nothing is."""
    broken: set[str] = set()
    for at, step in enumerate(steps):
        if step.doing not in (Doing.INJECT, Doing.CLEAR):
            continue
        typed = step.what.partition("@")[0].partition("=")[0]
        kind = kind_of(typed).key if typed else ""
        if step.doing is Doing.INJECT:
            if step.lasts is None:
                broken.add(kind)
            continue
        if kind and kind not in broken:
            return at, UsageError(f"clears {typed}, which no step before it injects", "inject it first")
        broken = broken - {kind} if kind else set()
    return None
