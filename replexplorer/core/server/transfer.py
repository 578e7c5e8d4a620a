"""How a member of a group gets what it lacks: the missed transactions, or a whole copy; and how far it is.

Law: which of the two, how much and from whom is what a server says of it. What none says is None, never a
guess from the time that has passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TransferKind(StrEnum):
    """What a member is given, in the servers' own words."""

    IST = "IST"
    """Incremental state transfer of Galera: what it missed, from a donor's cache."""
    SST = "SST"
    """State snapshot transfer of Galera: all data, and nothing of its own stays."""
    INCREMENTAL = "incremental recovery"
    """Of Group Replication: what it missed, from a donor's binlog."""


_WORDS = {
    TransferKind.IST: "what it missed (IST)",
    TransferKind.SST: "a whole copy (SST)",
    TransferKind.INCREMENTAL: "what it missed (incremental recovery)",
    None: "what it lacks (IST or SST)",
}


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one member is given, or was, at one look."""

    kind: TransferKind | None
    """None while nobody has said which."""
    began_s: float
    """When, in seconds since 1970."""
    elapsed_s: float
    """Since then; of one that is over, how long it took."""
    runs: bool = True
    """It has not all of it yet."""
    donor: str | None = None
    """The member that gives it; None while that is not known."""
    done: int | None = None
    """Transactions that it has by now; None where nobody counts: of a whole copy."""
    total: int | None = None
    """Of how many."""

    @property
    def share(self) -> float | None:
        """0..1 of it is done; None where that is not known."""
        return None if self.done is None or not self.total else min(1.0, self.done / self.total)

    @property
    def words(self) -> str:
        """`gets what it missed (IST) from db1: 120 of 1,234 transactions, 3.0 s`."""
        donor = f" from {self.donor}" if self.donor else ""
        amount = ""
        if self.runs and self.done is not None and self.total is not None:
            amount = f"{self.done:,} of {self.total:,} transactions, "
        elif self.total is not None:
            amount = f"{self.total:,} transaction{'' if self.total == 1 else 's'}, "
        return f"{'gets' if self.runs else 'got'} {_WORDS[self.kind]}{donor}: {amount}{self.elapsed_s:.1f} s"

    @property
    def brief(self) -> str:
        """`IST 42 %`, for where there is little room."""
        word = "transfer" if self.kind is None else self.kind.value.partition(" ")[0]
        return word if self.share is None else f"{word} {100 * self.share:.0f} %"
