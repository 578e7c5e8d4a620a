"""What a test takes for granted."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

from replexplorer.core.errors import UsageError

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
