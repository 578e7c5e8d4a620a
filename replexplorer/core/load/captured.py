"""What `workload capture` found: the workload's file, and what it leaves out."""

from __future__ import annotations

from typing import Final

from replexplorer.core.records import dataclass, field, frozen

NO_TEXT: Final = "prepared statements whose text the server no longer had, or does not give"


@frozen
class CapturedTransaction:
    """One kind of transaction."""

    tps: float
    """of it on the captured server"""
    share: float
    """of all transactions, 0 to 1"""
    boundaries: str
    """`seen` or `guessed`"""
    rolled_back: bool
    statements: tuple[str, ...]
    """digests, in order"""


@frozen
class CapturedTable:
    """One table of the file."""

    database: str
    table: str
    rows_there: int
    """as the server estimates them"""
    rows: int
    """in the file"""


@dataclass(slots=True)
class CapturedLeftOut:
    """Statements that are not in the file, for one reason."""

    reason: str
    times: int = 0
    server_ms: float = 0.0
    examples: list[str] = field(default_factory=list)
    """digests, the most frequent first"""


@frozen
class CapturedWorkload:
    """`workload capture`."""

    address: str
    server: str
    duration_s: float
    file: str | None
    workload: str | None
    """the file's text where no file was named"""
    statements: int
    """counted, BEGIN, COMMIT and ROLLBACK aside"""
    imitated: int
    """of these the ones that the file has"""
    transactions: tuple[CapturedTransaction, ...]
    tables: tuple[CapturedTable, ...]
    left_out: tuple[CapturedLeftOut, ...]
    """the most frequent first"""
    notes: tuple[str, ...]
    """what is not as it was"""
    sessions: int = 0
    """that were seen to run imitated statements; 0 where no history is kept"""
    busy: float = 0.0
    """sessions that had one, or its BEGIN, COMMIT or ROLLBACK, under way at a time, on average"""

    @property
    def remedy(self) -> str:
        """What to try where hardly anything could be imitated."""
        for left in self.left_out:
            if left.reason == NO_TEXT and 2 * left.times > self.statements:
                return (
                    f"{left.times:,} of {self.statements:,} were prepared statements without a text: let the"
                    " clients send plain ones meanwhile (sysbench: --db-ps-mode=disable)"
                )
        return "watch it for longer, or while its clients work"
