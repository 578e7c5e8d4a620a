"""One build of our images at a time among all processes of the tests, whoever needs them first."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def building(what: str = "images") -> Iterator[None]:
    """Nobody else builds this meanwhile."""
    with (Path(tempfile.gettempdir()) / f"replexplorer-tests-{what}.lock").open("w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        yield
