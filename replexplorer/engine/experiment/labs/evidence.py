"""Relations between figures, each with its evidence in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final

from replexplorer.core.machine import BUSY_PERCENT
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.labs.lab import PhaseResult, Relation

_WORDS: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def compared(found: str, sign: str, bound: str, unit: str, *, holds: bool) -> str:
    """`11.4 <= 11.7 TPS`; of a relation that failed what was found and what would hold."""
    end = f" {unit}" if unit else ""
    if holds:
        return f"{found} {sign} {bound}{end}"
    return f"found {found}{end}; {_WORDS[sign]} {bound}{end} would hold"


def at_least(name: str, value: float, bound: float, unit: str = "TPS", beside: str = "") -> Relation:
    """value >= bound; `beside` is written after it, as `busy` makes it."""
    holds = value >= bound
    evidence = compared(*_plain(value, bound), unit, holds=holds) + beside
    return Relation(name, holds, evidence, ratio=_divided(value, bound), least=1.0)


def at_most(name: str, value: float, bound: float, unit: str) -> Relation:
    """value <= bound."""
    holds = value <= bound
    found, _, most = _plain(value, bound)
    evidence = compared(found, "<=", most, unit, holds=holds)
    return Relation(name, holds, evidence, ratio=_divided(value, bound), most=1.0)


def within(name: str, value: float, low: float, high: float) -> Relation:
    """low <= value <= high, a ratio."""
    holds = low <= value <= high
    evidence = f"{value:.3f} in [{low:g}, {high:g}]"
    if not holds:
        evidence = f"found {value:.3f}; {low:g} to {high:g} would hold"
    return Relation(name, holds, evidence, ratio=value, least=low, most=high)


def faster(one: PhaseResult, other: PhaseResult, times: float = 1.0) -> Relation:
    """One phase commits more often than another, times a factor."""
    relation = "faster than" if times == 1 else f"at least {times:g} x"
    holds = one.tps > times * other.tps
    bound = f"{other.tps:.1f}" if times == 1 else f"{times:g} x {other.tps:.1f} = {times * other.tps:.1f}"
    evidence = compared(f"{one.tps:.1f}", ">", bound, "TPS", holds=holds) + busy(one, other)
    name = f"{one.phase.name} {relation} {other.phase.name}"
    return Relation(name, holds, evidence, ratio=_divided(one.tps, other.tps), least=times)


def one_commit_a_round_trip(
    one: PhaseResult, local_ms: float, low: float, high: float, name: str = ""
) -> Relation:
    """One client commits once in RTT + what a commit costs without the wait: TPS against 1/(RTT + local)."""
    name = name or f"{one.phase.name}: TPS within [{low:g}, {high:g}] of 1 / (RTT + local)"
    if one.rtt_measured_ms is None:
        return Relation(name, False, "no round trip was measured")
    bound_tps = 1000 / (one.rtt_measured_ms + local_ms)
    share = one.tps / bound_tps
    evidence = (
        f"{one.tps:.2f} / (1000 / ({one.rtt_measured_ms:.2f} + {local_ms:.2f})) = {one.tps:.2f} / "
        f"{bound_tps:.2f} = {share:.3f}"
    )
    holds = low <= share <= high
    if not holds:
        evidence += f"; {f'{low:g} or more' if high == inf else f'{low:g} to {high:g}'} would hold"
    return Relation(name, holds, evidence, ratio=share, least=low, most=high)


def below_the_round_trip(one: PhaseResult, slack: float) -> Relation:
    """One client cannot commit more often than once a round trip; the slack is the RTT's own interval."""
    name = f"{one.phase.name}: TPS at most {slack:g} x 1 / RTT"
    if one.rtt_measured_ms is None:
        return Relation(name, False, "no round trip was measured")
    bound_tps = slack * 1000 / one.rtt_measured_ms
    rtt = one.rtt
    interval = f" (RTT {rtt.low_ms:.2f} to {rtt.high_ms:.2f} ms, n {rtt.n})" if rtt else ""
    holds = one.tps <= bound_tps
    evidence = compared(f"{one.tps:.2f}", "<=", f"{bound_tps:.2f}", "TPS", holds=holds)
    ratio = one.tps * one.rtt_measured_ms / 1000
    return Relation(name, holds, evidence + interval, ratio=ratio, most=slack)


def state_as_asked(result: PhaseResult) -> Relation:
    """The protection state at a phase's end."""
    asked, found = result.phase.state, result.protection.state
    return Relation(f"{result.phase.name}: {asked}", found is asked, f"the stack is {found}")


def protected(phases: dict[str, PhaseResult] | tuple[PhaseResult, ...]) -> Relation:
    """Every phase that asked for semi-sync had it from its beginning to its end, without a fallback to
    asynchronous and without a commit that nobody acknowledged."""
    results = tuple(phases.values()) if isinstance(phases, dict) else phases
    asked = [each for each in results if each.phase.state is ProtectionState.PROTECTED]
    lost = [f"{each.phase.name}: {why}" for each in asked if (why := _unprotected(each))]
    uncounted = [each for each in asked if each.fallbacks is None]
    evidence = f"{len(asked)} of {len(asked)} phases, "
    evidence += "at their ends: fallbacks are not counted here" if uncounted else "no fallback in any"
    return Relation("semi-sync was in force where it was asked", not lost, "; ".join(lost) or evidence)


def _unprotected(result: PhaseResult) -> str | None:
    """Why a phase cannot count as protected throughout; None when it can."""
    if result.fallbacks:
        return f"{result.fallbacks} fallbacks to asynchronous replication"
    if result.unprotected:
        return f"{result.unprotected:,} commits without an acknowledgement"
    if result.protection.state is not ProtectionState.PROTECTED:
        return f"{result.protection.state} at its end"
    return None


def printed(name: str, text: str, ratio: float | None = None) -> Relation:
    """A figure that is only shown; nothing is checked. Of a `ratio` repeats show the interval."""
    return Relation(name, True, text, checked=False, ratio=ratio)


def unchecked(relation: Relation, why: str) -> Relation:
    """A relation that is of this machine, not of MySQL: shown with why, and nothing depends on it."""
    return replace(relation, checked=False, holds=True, evidence=f"{relation.evidence}; {why}")


def busy(*results: PhaseResult) -> str:
    """That the generator or the machine was short of CPU, where it was."""
    generator = [(each.phase.name, each.busy_percent) for each in results]
    machine = [(each.phase.name, each.machine_percent) for each in results]
    return _full("generator's CPU", generator) + _full("machine's CPU", machine)


def _divided(value: float, by: float) -> float | None:
    """value / by; None where there is nothing to divide by."""
    return value / by if by else None


def _full(what: str, found: Sequence[tuple[str, float | None]]) -> str:
    names = ", ".join(
        f"{name} {percent:.0f} %" for name, percent in found if percent is not None and percent > BUSY_PERCENT
    )
    return f"; {what}: {names}" if names else ""


def _plain(value: float, bound: float) -> tuple[str, str, str]:
    """value >= bound, both figures short enough to read and long enough to differ."""
    digits = 2 if min(abs(value), abs(bound)) < 100 else 0
    return f"{value:.{digits}f}", ">=", f"{bound:.{digits}f}"
