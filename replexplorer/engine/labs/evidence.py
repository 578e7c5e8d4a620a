"""Relations between figures, each with its evidence in one line."""

from __future__ import annotations

from collections.abc import Sequence

from replexplorer.core.machine import BUSY_PERCENT
from replexplorer.core.tick import ProtectionState
from replexplorer.engine.labs.lab import Phase, PhaseResult, Relation


def at_least(name: str, value: float, bound: float, unit: str = "TPS", beside: str = "") -> Relation:
    """value >= bound; `beside` is told behind it, as `busy` makes it."""
    return Relation(name, value >= bound, f"{_plain(value)} >= {_plain(bound)} {unit}{beside}")


def at_most(name: str, value: float, bound: float, unit: str = "TPS") -> Relation:
    """value <= bound."""
    return Relation(name, value <= bound, f"{_plain(value)} <= {_plain(bound)} {unit}")


def within(name: str, value: float, low: float, high: float) -> Relation:
    """low <= value <= high, a ratio."""
    return Relation(name, low <= value <= high, f"{value:.3f} in [{low:g}, {high:g}]")


def faster(one: PhaseResult, other: PhaseResult, times: float = 1.0) -> Relation:
    """One phase makes more commits than another (times so many)."""
    factor = "" if times == 1 else f"{times:g} x "
    relation = "faster than" if times == 1 else f"at least {times:g} x"
    evidence = f"{one.tps:.1f} > {factor}{other.tps:.1f} TPS{busy(one, other)}"
    return Relation(f"{one.phase.name} {relation} {other.phase.name}", one.tps > times * other.tps, evidence)


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
    return Relation(name, low <= share <= high, evidence)


def below_the_round_trip(one: PhaseResult, slack: float) -> Relation:
    """One client cannot commit more often than once a round trip; the slack is the RTT's own interval."""
    name = f"{one.phase.name}: TPS at most {slack:g} x 1 / RTT"
    if one.rtt_measured_ms is None:
        return Relation(name, False, "no round trip was measured")
    bound_tps = slack * 1000 / one.rtt_measured_ms
    rtt = one.rtt
    interval = f" (RTT {rtt.low_ms:.2f} to {rtt.high_ms:.2f} ms, n {rtt.n})" if rtt else ""
    return Relation(name, one.tps <= bound_tps, f"{one.tps:.2f} <= {bound_tps:.2f} TPS{interval}")


def state_as_asked(result: PhaseResult) -> Relation:
    """The protection state at a phase's end."""
    asked, found = result.phase.state, result.protection.state
    return Relation(f"{result.phase.name}: {asked}", found is asked, f"the stack is {found}")


def protected(phases: dict[str, PhaseResult] | tuple[PhaseResult, ...]) -> Relation:
    """Every phase that asked for semi-sync had it to its end, without a fall back to async."""
    results = tuple(phases.values()) if isinstance(phases, dict) else phases
    asked = [each for each in results if each.phase.state is ProtectionState.PROTECTED]
    lost = [each.phase.name for each in asked if each.protection.state is not ProtectionState.PROTECTED]
    evidence = f"not protected at the end of {', '.join(lost)}" if lost else f"{len(asked)} of {len(asked)}"
    return Relation("semi-sync was in force where it was asked", not lost, evidence)


def printed(name: str, text: str) -> Relation:
    """A figure that is told and asserts nothing."""
    return Relation(name, True, f"{text} (told, not asserted)")


def busy(*results: PhaseResult) -> str:
    """That the generator or the machine was short of CPU, where it was."""
    generator = [(each.phase.name, each.busy_percent) for each in results]
    machine = [(each.phase.name, each.machine_percent) for each in results]
    return _full("generator's CPU", generator) + _full("machine's CPU", machine)


def _full(what: str, found: Sequence[tuple[str, float | None]]) -> str:
    names = ", ".join(
        f"{name} {percent:.0f} %" for name, percent in found if percent is not None and percent > BUSY_PERCENT
    )
    return f"; {what}: {names}" if names else ""


def phase_named(phases: tuple[Phase, ...], name: str) -> Phase:
    """A phase by its name; raises StopIteration for none."""
    return next(phase for phase in phases if phase.name == name)


def _plain(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
