"""What a commit costs the servers, as JSON, as one line and as cells of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from replexplorer.core.server.commit_cost import CommitCost
from replexplorer.core.text import number
from replexplorer.formats.json.measured import CommitCostJson

COST_HEADINGS: Final = ("CPU us", "replica CPU us", "redo B", "binlog B", "sent B")
"""Of `cost_cells`."""
COST_TITLE: Final = "a commit cost the servers:"
"""Over a table of them in text."""
COST_NOTE: Final = (
    "CPU of the source's server and of each replica's, bytes written to redo log and binlog and sent to each"
    " replica: all that was done meanwhile over the commits that the source wrote to its binlog"
)


def cost_document(cost: CommitCost | None) -> CommitCostJson | None:
    """As JSON; None where it is not known."""
    if cost is None:
        return None
    return CommitCostJson(
        source=cost.source,
        commits=cost.commits,
        cpu_us={name: _rounded(value) for name, value in cost.cpu_us.items()},
        redo_bytes=_rounded(cost.redo_bytes),
        binlog_bytes=_rounded(cost.binlog_bytes),
        sent_bytes={name: _rounded(value) for name, value in cost.sent_bytes.items()},
    )


def cost_line(cost: CommitCostJson) -> str:
    """`CPU us: db1 812, db2 640; bytes: redo 1,210, binlog 480, to db2 505 (of 9,312 commits)`."""
    cpu = ", ".join(f"{name} {number(value, 0)}" for name, value in cost.cpu_us.items())
    sent = "".join(f", to {name} {number(value, 0)}" for name, value in cost.sent_bytes.items())
    logs = f"redo {number(cost.redo_bytes, 0)}, binlog {number(cost.binlog_bytes, 0)}"
    return f"CPU us: {cpu}; bytes: {logs}{sent} (of {cost.commits:,} commits)"


def cost_cells(cost: CommitCostJson | None) -> tuple[str, ...]:
    """Under `COST_HEADINGS`, several replicas' apart by a stroke; dashes where nothing is known."""
    if cost is None:
        return ("-",) * len(COST_HEADINGS)
    return (
        number(cost.cpu_us.get(cost.source), 0),
        _each(value for name, value in cost.cpu_us.items() if name != cost.source),
        number(cost.redo_bytes, 0),
        number(cost.binlog_bytes, 0),
        _each(cost.sent_bytes.values()),
    )


def _each(values: Iterable[float | None]) -> str:
    return " / ".join(number(value, 0) for value in values) or "-"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
