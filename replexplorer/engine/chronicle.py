"""What happened: events, the numbered marks on the charts and the ledger of epochs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from replexplorer.core.epochs import Epochs
from replexplorer.core.interval import Interval
from replexplorer.core.tick import Epoch, Event, Severity
from replexplorer.ports import Clock


@dataclass(frozen=True, slots=True)
class SetByHand:
    """Variables of a server that no app of ours set."""

    at_s: float
    """Seconds since the session began, when it was seen."""
    node: str
    title: str
    """`sync_binlog 1 → 0`."""


class Chronicle:
    """Events and epochs of one session; times go out as seconds since the session began."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.began_s = clock.monotonic()
        """Monotonic clock when the session began."""
        self._epochs = Epochs(self.began_s)
        self._untold: list[Event] = []
        self._last_mark = 0
        self.by_hand: list[SetByHand] = []
        """All of this session, oldest first."""
        self.unchanged_since_s = self.began_s
        """Monotonic clock of the last change's effect or mark; while a change is under way infinity."""

    @property
    def at_s(self) -> float:
        """Seconds since the session began."""
        return self._clock.monotonic() - self.began_s

    def tell(
        self, severity: Severity, text: str, *, mark: int | None = None, at_s: float | None = None
    ) -> None:
        """Put a fact into the log."""
        at = self.at_s if at_s is None else at_s
        self._untold.append(Event(at, self._clock.wall() - (self.at_s - at), severity, text, mark))

    def begin_change(self, title: str) -> int:
        """A change begins: the epoch before ends here; answers the change's number."""
        self._last_mark += 1
        self.unchanged_since_s = inf
        self._epochs.begin(self._last_mark, self._clock.monotonic(), title)
        return self._last_mark

    def change_effective(self, number: int, title: str, text: str) -> None:
        """The change has taken effect: draw its mark and begin to measure its epoch."""
        self.unchanged_since_s = self._clock.monotonic()
        self._epochs.effective(number, self.unchanged_since_s, title)
        self.tell(Severity.MARK, text, mark=number)

    def change_failed(self, number: int, text: str) -> None:
        """The change was taken back: the figures from here on count as before it."""
        self.unchanged_since_s = self._clock.monotonic()
        self._epochs.effective(number, self.unchanged_since_s, "taken back")
        self.tell(Severity.BAD, text, mark=number)

    def set_by_hand(self, node: str, title: str, text: str) -> None:
        """Somebody else set variables of a server: a mark and an epoch as any other change's."""
        self.by_hand.append(SetByHand(self.at_s, node, title))
        number = self.begin_change(title)
        self.change_effective(number, title, text)

    def add(self, interval: Interval) -> None:
        """Take an interval of the load."""
        self._epochs.add(interval)

    def take_events(self) -> tuple[Event, ...]:
        """The events since the last take, oldest first."""
        taken = tuple(self._untold)
        self._untold.clear()
        return taken

    def epochs(self) -> tuple[Epoch, ...]:
        """The ledger's rows, newest last."""
        return self._epochs.rows()
