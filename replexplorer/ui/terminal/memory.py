"""What a dashboard that stands for hours must not keep: dead cycles, texts once drawn, holes in the heap."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from typing import Final

from rich.cells import cached_cell_len
from textual.geometry import Region

STARTED_S: Final = 3.0
"""After the dashboard stands: what lives then lives to the end."""
FORGET_EVERY_S: Final = 10.0
_COLLECT_EVERY: Final = 2
"""Middle collections from one full one to the next: some seconds, with what is left to look through."""
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 128 * 1024


def keep_what_stays() -> None:
    """Modules, classes and widgets are for ever: looked through no more, full collections become
    short and may be frequent, and what a tick leaves behind does not pile up."""
    gc.collect()
    gc.freeze()
    # Counts what is left to look through: until a quarter of that is new, no full collection begins.
    gc.collect()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _COLLECT_EVERY)


def return_large_buffers() -> None:
    """Have each large buffer returned to the system when it is freed (mallopt(3), glibc alone).

    asyncio receives into 256 KB. By itself the allocator takes them from the heap after the first one,
    what lives longer settles in the hole that each leaves, and the next one lengthens the heap.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def forget_what_was_drawn() -> None:
    """Rich and Textual remember thousands of texts' widths and of regions' overlaps, most of them with a
    figure or a part of a curve that never comes again: some megabytes, that only the frame needs."""
    cached_cell_len.cache_clear()
    Region.intersection.cache_clear()
    Region.translate.cache_clear()
