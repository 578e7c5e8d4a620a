"""What reading a file of somebody else may cost."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_CPU_S = 10.0
"""What a reader without bounds exceeds by far; where cores are shared, the same work counts several times."""
MOST_MB = 200
_RESET_PEAK = "5"
"""Makes the peak what is resident now (proc_pid_clear_refs(5)): it is that of the process's whole life."""


@contextmanager
def affordable(most_mb: float = MOST_MB) -> Iterator[None]:
    """The block uses less than the processor's time and the memory that a reader may."""
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    before, began_s = _resident_mb("VmRSS"), time.process_time()
    yield
    assert time.process_time() - began_s < MOST_CPU_S
    assert _resident_mb("VmHWM") - before < most_mb


def _resident_mb(figure: str) -> float:
    (kb,) = re.findall(rf"^{figure}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kb) / 1024
