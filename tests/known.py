"""What a test takes for granted."""

from __future__ import annotations

from typing import TypeVar

V = TypeVar("V")


def known(value: V | None) -> V:
    """The value, which must be there."""
    assert value is not None
    return value
