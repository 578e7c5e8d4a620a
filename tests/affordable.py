"""What reading a file of somebody else may cost."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

MOST_CPU_S = 10.0
"""What a reader without bounds exceeds by far; where cores are shared, the same work counts several times."""
MOST_MB = 200


@contextmanager
def affordable() -> Iterator[None]:
    """The block uses less than the processor's time and the memory that a reader may."""
    before, began_s = _most_mb(), time.process_time()
    yield
    assert time.process_time() - began_s < MOST_CPU_S
    assert _most_mb() - before < MOST_MB


def _most_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
