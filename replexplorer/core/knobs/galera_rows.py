"""The rows of the catalogue that only Galera's servers have."""

from __future__ import annotations

from typing import Final

from replexplorer.core.knobs.knob import Knob

GALERA_ROWS: Final[tuple[Knob, ...]] = ()
