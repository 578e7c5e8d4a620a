"""Repeats of a lab: the runs of a phase merged, and its relations judged on what each of them found.

Law: a relation between figures is judged by its ratio in each repeat, the 95 % interval of their
logarithms against the relation's bounds: within them it holds, beyond them it deviates, and where the
interval includes one it is open, which is no failure. Repeats take turns, so what drifts with the
machine is in both sides of a ratio. What is no figure must hold in every repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from statistics import median

from replexplorer.core.server.commit_cost import merged_costs
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.ratio import Ratio, repeated
from replexplorer.core.stats.student import t_quantile_975
from replexplorer.engine.experiment.labs.lab import Figures, Lab, PhaseResult, Phases, Relation, Rtt


def merged(runs: Sequence[PhaseResult]) -> PhaseResult:
    """The runs of one phase as one result: histograms merged, times and counts added, what was measured
    beside the load as its median."""
    if len(runs) == 1:
        return runs[0]
    service = Histogram.merged(each.service for each in runs)
    duration_s = sum(each.duration_s for each in runs)
    rtts_ms = [each.rtt_measured_ms for each in runs if each.rtt_measured_ms is not None]
    return replace(
        runs[-1],
        repeats=tuple(runs),
        service=service,
        duration_s=duration_s,
        rows=sum(each.rows for each in runs),
        tps=service.count / duration_s if duration_s > 0 else 0.0,
        errors=sum(each.errors for each in runs),
        rtt_measured_ms=median(rtts_ms) if rtts_ms else None,
        rtt=_rtt([each.rtt for each in runs if each.rtt is not None]),
        fsync_measured_ms=_median([each.fsync_measured_ms for each in runs]),
        disk_probe_ms=_median([each.disk_probe_ms for each in runs]),
        ceiling_tps=_median([each.ceiling_tps for each in runs]),
        predicted_tps=_median([each.predicted_tps for each in runs]),
        busy_percent=_median([each.busy_percent for each in runs]),
        machine_percent=_median([each.machine_percent for each in runs]),
        cost=merged_costs([each.cost for each in runs]),
        limited=_each([each.limited for each in runs]),
        invalid=_each([each.invalid for each in runs]),
        finding=_each([each.finding for each in runs]),
        figures=_figures([each.figures for each in runs]),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _each(texts: Sequence[str | None]) -> str | None:
    """Each text once, in order."""
    return "; ".join(dict.fromkeys(text for text in texts if text)) or None


def _rtt(found: Sequence[Rtt]) -> Rtt | None:
    """The median of the repeats with the interval of their mean."""
    if len(found) < 2:
        return found[0] if found else None
    mean_ms = sum(each.ms for each in found) / len(found)
    variance = sum((each.ms - mean_ms) ** 2 for each in found) / (len(found) - 1)
    half_ms = t_quantile_975(len(found) - 1) * (variance / len(found)) ** 0.5
    low_ms, high_ms = max(0.0, mean_ms - half_ms), mean_ms + half_ms
    return Rtt(median(each.ms for each in found), low_ms, high_ms, sum(each.n for each in found))


def _figures(found: Sequence[Figures]) -> Figures:
    """Numbers as their median, words each once."""
    merged_figures: dict[str, float | str] = {}
    for name in found[0]:
        values = [figures[name] for figures in found if name in figures]
        numbers = [value for value in values if not isinstance(value, str)]
        merged_figures[name] = (
            median(numbers) if len(numbers) == len(values) else "; ".join(dict.fromkeys(map(str, values)))
        )
    return merged_figures


def judged(lab: Lab, rounds: Sequence[Phases], phases: Phases) -> tuple[Relation, ...]:
    """The lab's relations on the merged `phases`, each judged by what every round of them found."""
    of_all = lab.judge(phases)
    if len(rounds) < 2:
        return tuple(of_all)
    each_round = [lab.judge(found) for found in rounds]
    return tuple(_judged(relation, [found[at] for found in each_round]) for at, relation in enumerate(of_all))


def _judged(relation: Relation, found: Sequence[Relation]) -> Relation:
    """One relation by its repeats."""
    ratios = [each.ratio for each in found if each.ratio is not None]
    interval = repeated(ratios)
    if interval is None or len(ratios) < len(found):
        return _in_every_repeat(relation, found)
    low = 0.0 if interval.low is None else interval.low
    high = inf if interval.high is None else interval.high
    least, most = relation.least, relation.most
    outside = high < least or low > most
    is_open = relation.checked and not outside and not (least <= low and high <= most)
    told = f"{relation.evidence}; {len(found)} repeats: {interval_text(interval)}"
    if is_open:
        told += f", {_bounds_text(least, most)} would show it"
    return replace(relation, holds=not relation.checked or not outside, is_open=is_open, evidence=told)


def _in_every_repeat(relation: Relation, found: Sequence[Relation]) -> Relation:
    """What is no figure holds where it held every time."""
    failed = [at for at, each in enumerate(found, 1) if not each.holds]
    if not failed or not relation.checked:
        return replace(relation, holds=True)
    number = failed[0]
    evidence = f"in repeat {number} of {len(found)}: {found[number - 1].evidence}"
    return replace(relation, holds=False, evidence=evidence)


def interval_text(interval: Ratio) -> str:
    """`x0.97 [0.88, 1.07]`; a side without a bound is a dash."""
    low, high = ("-" if bound is None else f"{bound:.3g}" for bound in (interval.low, interval.high))
    return f"x{interval.value:.3g} [{low}, {high}]"


def _bounds_text(least: float, most: float) -> str:
    if most == inf:
        return f"{least:g} or more"
    return f"{most:g} or less" if least == 0 else f"{least:g} to {most:g}"
