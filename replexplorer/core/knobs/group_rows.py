"""The rows of the catalogue that only Group Replication's servers have."""

from __future__ import annotations

from typing import Final

from replexplorer.core.knobs.knob import Knob

GROUP_ROWS: Final[tuple[Knob, ...]] = ()
