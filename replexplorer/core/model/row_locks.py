"""How many of the clients can commit at once, where each commit locks a row that others want as well.

A row stays locked until the engine commits: after both fsyncs, and under AFTER_SYNC after the acknowledgement
too, so that 8 clients at 60 ms make 16.0 TPS on one row, 1/R (measured). Nothing here is fitted: which rows a
workload draws is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from replexplorer.core.load.workload import SPECIAL_SHARE, SPECIAL_WIDTH

TABLE_ROWS: Final = 10_000
"""Of a load's table, unless it is told otherwise."""
ONE_ROW: Final = frozenset({"update_index", "update_non_index"})
"""Workloads whose transactions update one row by its key."""


@dataclass(frozen=True, slots=True)
class HotRows:
    """The rows that transactions want most; of all others two at once seldom want the same."""

    rows: int
    share: float
    """Of the transactions that want one of them, each as likely as any other."""


@lru_cache(maxsize=64)
def hot_rows(workload: str, key_spread: int) -> HotRows | None:
    """Of a workload with this value of the knob `key_spread`; None: its transactions do not wait for rows, as
    far as is known here."""
    if workload not in ONE_ROW:
        return None
    if 0 < key_spread < TABLE_ROWS:
        return HotRows(key_spread, 1.0)
    return HotRows(round(TABLE_ROWS * SPECIAL_WIDTH), SPECIAL_SHARE)


@lru_cache(maxsize=1024)
def under_way(clients: float, hot: HotRows | None) -> float:
    """How many of the clients commit at once on average, at least one; the rest waits for their rows.

    In each round every hot row that is wanted has one commit; those that have committed come again, `share`
    of them for a hot row. The result is where as many hot rows are wanted as have committed.
    """
    if hot is None or clients <= 1:
        return clients
    low, high = 1.0, float(clients)
    for _ in range(50):
        tried = (low + high) / 2
        waiting = clients - (1 - hot.share) * tried
        touched = hot.rows * (1 - (1 - 1 / hot.rows) ** waiting)
        low, high = (tried, high) if touched > hot.share * tried else (low, tried)
    return low
