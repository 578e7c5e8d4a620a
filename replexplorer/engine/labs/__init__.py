"""The labs: published experiments as scripts over the session; one module a lab."""

from __future__ import annotations

from replexplorer.core.errors import UsageError
from replexplorer.engine.labs.lab import Lab
from replexplorer.engine.labs.tour import TOUR

LABS = {lab.name: lab for lab in (TOUR,)}
"""Every lab by its name."""


def find_lab(name: str) -> Lab:
    """The lab of this name; raises UsageError."""
    if name not in LABS:
        raise UsageError(f"unknown lab '{name}'", f"there is {', '.join(LABS)}")
    return LABS[name]
