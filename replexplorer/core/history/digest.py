"""A whole session as a bounded row of stretches, for one page: TPS, percentiles and what was at risk.

Law: percentiles are read from merged histograms. A tick that brings a mark begins a stretch; where commits
of both sides are in it, it is one of its own, without percentiles. Whatever its length, a session becomes
about as many stretches as were asked for, and two more a mark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.history.series import EXPOSURES, Point, Recent, recent_of
from replexplorer.core.server.exposure import Loss
from replexplorer.core.tick import Tick

_LEAST_S: Final = 1.0


@dataclass(slots=True)
class Digest:
    """Takes the ticks of a session in order; `points` are its stretches, each at its end."""

    length_s: float
    """From the first tick to the last."""
    most: int = 600
    """About how many stretches."""
    _done: list[Point] = field(default_factory=list)
    _open: list[Tick] = field(default_factory=list)
    _key: tuple[int, int] = (0, 0)
    """Which stretch is open: its number, and the marks before it."""
    _first_s: float | None = None
    _marks: int = 0

    def feed(self, tick: Tick) -> None:
        """Take the next tick."""
        first_s = self._first_s = tick.at_s if self._first_s is None else self._first_s
        if any(event.mark is not None for event in tick.events):
            self._marks += 1
        key = int((tick.at_s - first_s) / max(_LEAST_S, self.length_s / self.most)), self._marks
        if key != self._key:
            self._close()
        self._key = key
        self._open.append(tick)
        if _is_mixed(tick):
            self._close(is_mixed=True)

    @property
    def points(self) -> list[Point]:
        """The stretches so far, the open one included."""
        self._close()
        return self._done

    def _close(self, *, is_mixed: bool = False) -> None:
        if self._open:
            point = _point(self._open)
            self._done.append(point._replace(p50_ms=None, p95_ms=None, p99_ms=None) if is_mixed else point)
        self._open = []


def _is_mixed(tick: Tick) -> bool:
    """A mark lies within the interval of its load."""
    began_s = tick.at_s - (tick.load.duration_s if tick.load is not None else 0.0)
    return any(event.mark is not None and event.at_s > began_s for event in tick.events)


def _point(ticks: list[Tick]) -> Point:
    """A stretch in one point; a percentile with too few commits behind it is a gap."""
    newest = ticks[-1]
    loads = [tick.load for tick in ticks if tick.load is not None]
    measured = [load for load in loads if load.latency is not None and load.duration_s > 0] or loads[-1:]
    recent = recent_of(measured, sum(load.duration_s for load in measured)) if measured else Recent()
    return recent.point(
        newest.at_s,
        newest.ceiling.tps if newest.ceiling else None,
        predicted_tps=newest.predicted.tps if newest.predicted else None,
        **{name: _most_at_risk(ticks, name) for name in EXPOSURES},
    )


def _most_at_risk(ticks: list[Tick], name: str) -> float | None:
    """The most that this failure would have lost at any look of the stretch; None: not known."""
    seen = [getattr(tick.exposure, name) for tick in ticks if tick.exposure is not None]
    return max((float(loss.commits) for loss in seen if isinstance(loss, Loss)), default=None)
