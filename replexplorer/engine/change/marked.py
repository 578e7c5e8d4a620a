"""Changes with their marks: what was turned stands in the log and begins an epoch, whoever asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.event import Severity
from replexplorer.core.knobs.common import KeptChange
from replexplorer.core.knobs.names import Assignment, Desired, format_change
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.outcome import Changed, Preview, SetResult
from replexplorer.engine.record.chronicle import Chronicle


class MarkedChanges:
    """Turns knobs and keeps the chronicle of it."""

    def __init__(self, controls: Controls, chronicle: Chronicle) -> None:
        self._controls = controls
        self._chronicle = chronicle

    def preview(self, desired: Desired) -> Preview:
        """What a turn would run and warn of, from what is known."""
        return self._controls.preview([Assignment((name,), value) for name, value in desired.items()])

    async def request(self, desired: Desired) -> None:
        """Request what is so already; no change, and no mark."""
        await self._controls.request(desired)

    async def turn(
        self,
        desired: Desired,
        prefix: str = "",
        *,
        anyway: bool = False,
        is_part: bool = False,
        everywhere: KeptChange | None = None,
    ) -> SetResult:
        """As `Controls.set`, with an epoch and a mark of its own, which begin with `prefix`; none where
        nothing is to be turned, nor where it `is_part` of a change that has them."""
        title = prefix + _title_of(desired)
        numbers: list[int] = []
        chronicle = self._chronicle

        def begun() -> None:
            if not is_part:
                numbers.append(chronicle.begin_change(title))

        try:
            result = await self._controls.set(
                desired, anyway=anyway, begun=begun, everywhere=everywhere or {}
            )
        except asyncio.CancelledError:
            for number in numbers:
                chronicle.change_failed(number, f"{title} was cancelled and rolled back")
            raise
        except ReplexplorerError as error:
            for number in numbers:
                chronicle.change_failed(number, f"{title} failed: {error}")
            if not numbers:
                chronicle.tell(Severity.BAD, f"{title} refused: {error}")
            raise
        told = prefix + (_told(result.changed) or "nothing to change")
        for number in numbers:
            chronicle.change_effective(number, prefix + (_changes(result.changed) or title), told)
        if not numbers and (result.changed or not prefix):
            chronicle.tell(Severity.INFO, told)
        for warning in (*result.warnings, *result.unmet):
            chronicle.tell(Severity.WARN, warning)
        return result


def _title_of(desired: Desired) -> str:
    """What is asked, in a few words."""
    if len(desired) > 4:
        return f"{len(desired)} knobs"
    return ", ".join(f"{name} {value}" for name, value in desired.items())


def _changes(changed: Sequence[Changed]) -> str:
    """What changed, in a few words: `rtt 20 -> 85 ms`."""
    if len(changed) > 3:
        return f"{len(changed)} knobs"
    return ", ".join(format_change(change.name, change.before, change.requested) for change in changed)


def _told(changed: Sequence[Changed]) -> str:
    """The log's line of a change: its statements where it has some."""
    statements = dict.fromkeys(statement for change in changed for statement in change.statements)
    return "; ".join(statements) if 0 < len(statements) <= 2 else _changes(changed)
