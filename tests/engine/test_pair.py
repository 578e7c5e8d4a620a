"""Two views as one: each is started once, whatever became of the other, and both are closed."""

from __future__ import annotations

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.engine.pair import PairedViews
from replexplorer.engine.progress import Progress, ProgressCallback
from tests.fakes.facade import FakeFacade


class Refusing(FakeFacade):
    """A view that starts at the second attempt only."""

    attempts = 0

    async def start(self, progress: ProgressCallback) -> None:
        self.attempts += 1
        if self.attempts == 1:
            raise StackUnavailable("not now", "again")
        await super().start(progress)


async def test_a_second_attempt_starts_only_what_does_not_run() -> None:
    a, b = FakeFacade(), Refusing()
    pair, steps = PairedViews(a, b, ("mine", "other")), list[Progress]()
    with pytest.raises(StackUnavailable, match="not now"):
        await pair.start(steps.append)
    await pair.start(steps.append)
    assert [what for what, _ in a.calls].count("start") == 1
    assert b.attempts == 2
    assert all(step.text.startswith(("mine: ", "other: ")) for step in steps)


async def test_both_are_closed_and_each_says_what_it_leaves() -> None:
    a, b = FakeFacade(), FakeFacade()
    a.closing_line, b.closing_line = "mine keeps running", "other keeps running"
    left = await PairedViews(a, b, ("mine", "other")).close(keep=True)
    for facade in (a, b):
        assert ("close", True) in facade.calls
    assert left == "mine keeps running\nother keeps running"
