"""What each of several generator processes did of one load."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessWork:
    """One generator process over some time; sums, so that stretches of it add up exactly."""

    number: int
    """From 1; the first one leads."""
    place: str
    """The host that it runs on; empty where all run on one."""
    clients: int
    """Of the load's, when it was told last."""
    commits: int
    cpu_s: float
    duration_s: float

    @property
    def tps(self) -> float:
        """Acknowledged transactions per second."""
        return self.commits / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def cpu_percent(self) -> float:
        """Of one core."""
        return 100 * self.cpu_s / self.duration_s if self.duration_s > 0 else 0.0

    def followed_by(self, later: ProcessWork) -> ProcessWork:
        """Both stretches of the same process as one."""
        return ProcessWork(
            self.number,
            self.place,
            later.clients,
            self.commits + later.commits,
            self.cpu_s + later.cpu_s,
            self.duration_s + later.duration_s,
        )


def added_work(one: Iterable[ProcessWork], later: Iterable[ProcessWork]) -> tuple[ProcessWork, ...]:
    """Both, by process: one that is in both has one entry with all that it did."""
    found = {(each.number, each.place): each for each in one}
    for each in later:
        key = each.number, each.place
        found[key] = found[key].followed_by(each) if key in found else each
    return tuple(found[key] for key in sorted(found))
