"""What phases of labs do that do more than let the load run, by the name that their files have for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replexplorer.core.experiment.lab import Play
from replexplorer.engine.experiment.labs.sessions import catch_up, contend, count_fsyncs, phantom_read
from replexplorer.engine.experiment.labs.tables import archive, missing_key

SCRIPTS: Final[Mapping[str, Play]] = {
    "archive": archive,
    "missing-key": missing_key,
    "phantom-read": phantom_read,
    "catch-up": catch_up,
    "count-fsyncs": count_fsyncs,
    "hot-rows": contend,
}
