"""What a test takes for granted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import pytest

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError

P = ParamSpec("P")
V = TypeVar("V")


def known(value: V | None) -> V:
    """The value, which must be there."""
    assert value is not None
    return value


def refused(call: Callable[P, object], *args: P.args, **options: P.kwargs) -> str:
    """The one line in which a call says that it was used wrongly."""
    with pytest.raises(UsageError) as caught:
        call(*args, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line


async def refusal(work: Awaitable[object], kind: type[ReplexplorerError] = StackUnavailable) -> str:
    """The words in which a command is refused, with what to do."""
    with pytest.raises(kind) as caught:
        await work
    return str(caught.value)
