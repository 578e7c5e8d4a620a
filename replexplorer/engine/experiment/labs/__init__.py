"""The labs: published experiments, and our own, as data over the session; one module a lab."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.engine.experiment.labs.applier_lag import APPLIER_LAG
from replexplorer.engine.experiment.labs.archive import ARCHIVE
from replexplorer.engine.experiment.labs.bulk_load import BULK_LOAD
from replexplorer.engine.experiment.labs.durability_modes import DURABILITY_MODES
from replexplorer.engine.experiment.labs.group_delay import GROUP_DELAY
from replexplorer.engine.experiment.labs.hot_row import HOT_ROW
from replexplorer.engine.experiment.labs.lab import Lab
from replexplorer.engine.experiment.labs.missing_key import MISSING_KEY
from replexplorer.engine.experiment.labs.phantom_read import PHANTOM_READ
from replexplorer.engine.experiment.labs.quorum_of_n import QUORUM_OF_N
from replexplorer.engine.experiment.labs.systems_78ms import SYSTEMS_78MS
from replexplorer.engine.experiment.labs.tour import TOUR
from replexplorer.engine.experiment.labs.wan_insert import WAN_INSERT
from replexplorer.engine.experiment.labs.wan_threads import WAN_THREADS

LABS: Final = {
    lab.name: lab
    for lab in (
        TOUR,
        WAN_INSERT,
        DURABILITY_MODES,
        BULK_LOAD,
        WAN_THREADS,
        SYSTEMS_78MS,
        PHANTOM_READ,
        HOT_ROW,
        ARCHIVE,
        QUORUM_OF_N,
        APPLIER_LAG,
        GROUP_DELAY,
        MISSING_KEY,
    )
}
"""Every lab by its name."""


def find_lab(name: str, beside: Iterable[str] = ()) -> Lab:
    """The lab of this name; raises UsageError, which names those near it, `beside` included."""
    if name not in LABS:
        known = [*LABS, *beside]
        near = get_close_matches(name, known, n=3, cutoff=0.4)
        raise UsageError(
            f"unknown lab '{name}'",
            f"did you mean {' or '.join(near)}?" if near else f"there is {', '.join(known)}",
        )
    return LABS[name]
