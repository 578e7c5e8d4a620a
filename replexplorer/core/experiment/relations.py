"""Relations between figures: what must hold of a lab or a drill, as data, judged with its evidence in a line.

Law: a figure that was not measured holds nothing. A relation has the ratio that was found next to its bounds,
so that repeats can be judged by their interval.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import Any, ClassVar, Final, Literal

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.experiment import Relation
from replexplorer.core.experiment.lab import (
    GAVE_WAY,
    REFUSED,
    RETRIED,
    Judge,
    PhaseResult,
    Phases,
    Summary,
    SummaryRow,
)
from replexplorer.core.machine import BUSY_PERCENT
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.server.protection import ProtectionState

SIGNS: Final[Mapping[str, tuple[Callable[[float, float], bool], str]]] = {
    "<": (operator.lt, "less than"),
    "<=": (operator.le, "at most"),
    "==": (operator.eq, "exactly"),
    "!=": (operator.ne, "anything but"),
    ">=": (operator.ge, "at least"),
    ">": (operator.gt, "more than"),
}
"""What compares two figures, and in words."""
FIGURES: Final[Mapping[str, Callable[[PhaseResult], float | None]]] = {
    "tps": lambda result: result.tps,
    "mean_ms": lambda result: result.service.mean_ms,
    "mean_s": lambda result: None if result.service.mean_ms is None else result.service.mean_ms / 1000,
    "p50_ms": lambda result: result.service.percentile_ms(50),
    "p95_ms": lambda result: result.service.percentile_ms(95),
    "p99_ms": lambda result: result.service.percentile_ms(99),
    "max_ms": lambda result: result.service.max_ms,
    "commit_ms": lambda result: 1000 / result.tps if result.tps else None,
    "rtt_ms": lambda result: result.rtt_measured_ms,
    "round_trip_tps": lambda result: 1000 / result.rtt_measured_ms if result.rtt_measured_ms else None,
    "round_trips": lambda result: (result.service.mean_ms or 0) / (result.rtt_measured_ms or inf) or None,
    "fsync_ms": lambda result: result.fsync_measured_ms,
    "ceiling_tps": lambda result: result.ceiling_tps,
    "predicted_tps": lambda result: result.predicted_tps,
    "errors": lambda result: float(result.errors),
    "fallbacks": lambda result: result.protection.fallbacks,
    "n": lambda result: float(result.service.count),
    "duration_s": lambda result: result.duration_s / max(1, len(result.repeats)),
    "rolled_back": lambda result: sum(
        float(result.figures.get(name, 0)) for name in (RETRIED, REFUSED, GAVE_WAY)
    ),
}
"""What a relation may name of a phase, besides the figures of its script."""


def figures_of(result: PhaseResult) -> dict[str, float]:
    """All that was measured of a phase, its script's figures too, by name."""
    found = {name: figure(result) for name, figure in FIGURES.items()}
    own = {name: value for name, value in result.figures.items() if not isinstance(value, str)}
    return {name: value for name, value in {**found, **own}.items() if value is not None}


_OPERATORS: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "/": operator.truediv,
}


class _UnmeasuredError(Exception):
    """A figure that was not measured."""


@frozen
class Found:
    """What an experiment found: of a lab its phases, of a drill its figures and protection states."""

    phases: Phases = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    states: Sequence[str] = ()
    """That were passed through, in order."""

    def figure(self, name: str) -> float:
        """`async.tps` of a phase, `lost` of a drill, `8`."""
        phase, _, figure = name.rpartition(".")
        if phase in self.phases:
            result = self.phases[phase]
            found = FIGURES[figure](result) if figure in FIGURES else result.figures.get(figure)
        else:
            found = self.figures.get(name)
        if found is None or isinstance(found, str):
            raise _UnmeasuredError(name)
        return found

    def known(self, text: float | str) -> float | None:
        """As `value`; None where a figure was not measured."""
        try:
            return self.value(text)
        except _UnmeasuredError:
            return None

    def value(self, text: float | str) -> float:
        """A number, a figure, or several from the left to the right, as `A - B / C` is (A - B) / C."""
        if not isinstance(text, str):
            return float(text)
        first, *others = terms_of(text, self.phases)
        value = self.figure(first[1])
        for sign, name in others:
            below = self.figure(name)
            if sign == "/" and not below:
                raise _UnmeasuredError(text)
            value = _OPERATORS[sign](value, below)
        return value


def terms_of(text: str, phases: Collection[str]) -> Sequence[tuple[str, str]]:
    """The figures of a text, each with what joins it to those before it."""
    names = "|".join(re.escape(name) for name in sorted(phases, key=len, reverse=True))
    phase = f"(?:(?:{names})\\.)?" if names else ""
    return re.findall(rf"(?:^| ([-+/]) )({phase}(?:(?! [-+/] ).)+)", text)


def check_terms(text: str, phases: Collection[str], scripted: Collection[str] = ()) -> None:
    """Raise UsageError where one names no phase, or no figure of it; a `scripted` one has others, too."""
    for _, term in terms_of(text, phases):
        phase, _, figure = term.rpartition(".")
        if phase not in phases:
            raise UsageError(
                f"{term!r} names no phase", f"write PHASE.FIGURE with one of {', '.join(phases)}"
            )
        if figure not in FIGURES and phase not in scripted:
            raise UsageError(f"{term!r} names no figure", f"there are {', '.join(FIGURES)}")


KINDS: Final = ("left", "passes", "never")
"""The keys of a claim that say what must hold: it has one of them, of a lab always the first."""


@frozen
class Claim:
    """What must hold, as a file has it: one `[[relation]]` of a lab, one `[[expect]]` of a drill."""

    name: str = ""
    left: float | str | None = None
    right: float | str | None = None
    sign: Literal["<", "<=", ">", ">=", "==", "!="] | None = None
    times: float = 1.0
    plus: float = 0.0
    """`left` `sign` `times` x `right` + `plus`."""
    unit: str = ""
    """Of both sides, where the evidence says it; TPS with what was short of CPU."""
    shown: str = ""
    """Why it is only shown, and nothing depends on it; empty: it is checked."""
    explains: str = ""
    """What may be the reason where it does not hold."""
    says: str | None = None
    """In place of a `sign`: left / right between `least` and `most`, told in these words with `{left}`,
    `{right}`, `{ratio}` and `{change}` (ratio less one) in them; without bounds it is only shown."""
    least: float = 0.0
    most: float = inf
    passes: ProtectionState | None = None
    """A protection state that must be passed through."""
    never: ProtectionState | None = None
    """One that must not be seen."""
    __pydantic_config__: ClassVar = {
        "extra": "forbid",
        "allow_inf_nan": False,
        "alias_generator": lambda name: "is" if name == "sign" else name,
    }

    @property
    def asked(self) -> Sequence[str]:
        """The keys that say what must hold: one, where it is right."""
        return [name for name in KINDS if getattr(self, name) not in (None, False)]

    @property
    def kind(self) -> str:
        """The one that does."""
        return self.asked[0]

    def phases(self, names: Collection[str]) -> Sequence[str]:
        """Those of a lab's phases that it names."""
        sides = [each for each in (self.left, self.right) if isinstance(each, str)]
        named = [term.rpartition(".")[0] for side in sides for _, term in terms_of(side, names)]
        return [each for each in named if each]

    def judge(self, found: Found) -> Relation:
        """Whether it holds, by what was found."""
        relation = _of_sides(self, found) if self.kind == "left" else _of_states(self, found)
        if self.explains and not relation.holds:
            relation = replace(relation, evidence=f"{relation.evidence}; {self.explains}")
        if self.shown:
            evidence = f"{relation.evidence}; {self.shown}"
            relation = replace(relation, checked=False, holds=True, evidence=evidence)
        return relation


def _of_sides(claim: Claim, found: Found) -> Relation:
    bounded = claim.says is None or claim.least > 0 or claim.most < inf
    try:
        left, right = found.value(claim.left or 0), found.value(claim.right or 0)
        if claim.says is not None and not right:
            raise _UnmeasuredError(claim.right)
    except _UnmeasuredError as missing:
        return Relation(claim.name, not bounded, f"{missing} was not measured", checked=bounded)
    if claim.says is None:
        return _of_comparison(claim, left, claim.times * right + claim.plus, found)
    ratio = left / right
    evidence = claim.says.format(left=left, right=right, ratio=ratio, change=ratio - 1)
    holds = claim.least <= ratio <= claim.most
    if not holds:
        evidence += f"; {bounds_text(claim.least, claim.most)} would hold"
    return Relation(
        claim.name, holds or not bounded, evidence, bounded, ratio=ratio, least=claim.least, most=claim.most
    )


def _of_comparison(claim: Claim, left: float, bound: float, found: Found) -> Relation:
    sign, unit = claim.sign or "==", f" {claim.unit}" if claim.unit else ""
    compares, words = SIGNS[sign]
    holds = compares(left, bound)
    # Short enough to read and long enough to differ.
    is_whole = min(abs(left), abs(bound)) >= 100 or (left == int(left) and bound == int(bound))
    told, limit = (f"{value:,.{0 if is_whole else 2}f}" for value in (left, bound))
    # Of a relation that failed what was found, and what would hold.
    evidence = (
        f"{told} {sign} {limit}{unit}" if holds else f"found {told}{unit}; {words} {limit}{unit} would hold"
    )
    if claim.unit == "TPS":
        results = [found.phases[name] for name in claim.phases(found.phases)]
        rtt = results[-1].rtt if results and "round_trip_tps" in f"{claim.left} {claim.right}" else None
        evidence += f" (RTT {rtt.low_ms:.2f} to {rtt.high_ms:.2f} ms, n {rtt.n})" if rtt else ""
        evidence += _busy(*results)
    if sign in ("==", "!="):
        return Relation(claim.name, holds, evidence)
    least, most = (1.0, inf) if sign.startswith(">") else (0.0, 1.0)
    ratio = left / bound if bound > 0 else None
    return Relation(claim.name, holds, evidence, ratio=ratio, least=least, most=most)


def _of_states(claim: Claim, found: Found) -> Relation:
    through = " > ".join(found.states) or "no state was seen"
    return Relation(
        claim.name, (claim.passes in found.states) or claim.never not in (None, *found.states), through
    )


def _unprotected(result: PhaseResult) -> str | None:
    """Why a phase's protection was not as it asked; None when it was."""
    asked, found = result.phase.state, result.protection.state
    if asked is ProtectionState.PROTECTED and result.fallbacks:
        return f"{result.fallbacks} fallbacks to asynchronous replication"
    if asked is ProtectionState.PROTECTED and result.unprotected:
        return f"{result.unprotected:,} commits without an acknowledgement"
    return None if found is asked else f"{found} at its end, not {asked}"


def _as_asked(phases: Phases) -> Relation:
    """Every phase that asked for protection had it from its beginning to its end, without a fallback to
    asynchronous and without a commit that nobody acknowledged; of others the state at the end counts."""
    wrong = [f"{each.name}: {why}" for each in phases.values() if (why := _unprotected(each))]
    asked = [each for each in phases.values() if each.phase.state is ProtectionState.PROTECTED]
    evidence = f"{len(phases)} of {len(phases)} phases"
    if asked:
        counted = all(each.fallbacks is not None for each in asked)
        evidence += ", no fallback in any" if counted else ", at their ends: fallbacks are not counted here"
    return Relation("each phase was protected as it asked", not wrong, "; ".join(wrong) or evidence)


def judge_by(claims: Sequence[Claim], names: Collection[str]) -> Judge:
    """Each phase's protection, then the claims in order, without those that name one of the lab's phases
    that was left out."""

    def judge(phases: Phases) -> Sequence[Relation]:
        measured = [claim for claim in claims if phases.keys() >= set(claim.phases(names))]
        return [_as_asked(phases), *(claim.judge(Found(phases)) for claim in measured)]

    return judge


@frozen
class SummaryLine:
    """A row of a lab's summary: a figure of the phase `COLUMN, OF` of each column, or these values."""

    name: str
    figure: str = ""
    of: str = ""
    values: tuple[str, ...] = ()


@frozen
class SummaryPlan:
    """The table that a lab comes to."""

    title: str
    columns: tuple[str, ...]
    row: tuple[SummaryLine, ...]

    def made(self, phases: Phases) -> Summary | None:
        """The columns of which a phase was measured; None where none was."""
        columns = [
            at for at, name in enumerate(self.columns) if any(each.startswith(f"{name}, ") for each in phases)
        ]
        if not columns:
            return None
        rows = [
            SummaryRow(line.name, tuple(self._cell(line, at, phases) for at in columns)) for line in self.row
        ]
        return Summary(self.title, tuple(self.columns[at] for at in columns), tuple(rows))

    def _cell(self, line: SummaryLine, at: int, phases: Phases) -> float | str | None:
        result: Any = phases.get(f"{self.columns[at]}, {line.of}")
        if line.values or result is None:
            return line.values[at] or None if line.values else None
        if line.figure == "server":
            return str(result.server)
        if line.figure in FIGURES:
            return FIGURES[line.figure](result)
        counted = result.figures.get(line.figure)
        return None if counted is None else f"{float(counted):,.0f}"


def bounds_text(least: float, most: float) -> str:
    """`0.95 or more`, `1.1 or less`, `0.9 to 1.1`."""
    if most == inf:
        return f"{least:g} or more"
    return f"{most:g} or less" if least == 0 else f"{least:g} to {most:g}"


def _busy(*results: PhaseResult) -> str:
    """That the generator or the machine was short of CPU, where it was."""
    told = ""
    for what, figure in (("generator's CPU", "busy_percent"), ("machine's CPU", "machine_percent")):
        found = [(each.name, getattr(each, figure) or 0.0) for each in results]
        full = [f"{name} {percent:.0f} %" for name, percent in found if percent > BUSY_PERCENT]
        told += f"; {what}: {', '.join(full)}" if full else ""
    return told
