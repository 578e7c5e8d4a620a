"""Why a server ended while it started, by what it wrote into its log.

Law: the first error is the cause; those after it are what came of it, down to `Aborting`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from replexplorer.core.printable import one_line

_ERROR: Final = re.compile(r"\[ERROR\]\s*(.+)")
_NO_AIO: Final = "io_setup() failed with EAGAIN"
"""InnoDB's words, whatever number they have: asked five times, the kernel had too few requests of
asynchronous I/O left."""
_WITHOUT: Final = "Native AIO disabled"
"""It was refused even the first one, by which it asks whether there is any, and goes on without (measured on
9.7.4)."""
_SHOWN: Final = 200
"""Characters of a line of the log."""


def why_it_ended(lines: Iterable[str]) -> str | None:
    """The first error of these lines, else the last of them; None where nothing stands there."""
    written = [line for line in lines if line.strip()]
    does_without = any(_WITHOUT in line for line in written)
    errors = (
        found[1]
        for line in written
        if (found := _ERROR.search(line)) and not (does_without and _NO_AIO in line)
    )
    said = next(errors, written[-1] if written else None)
    return None if said is None else one_line(said, _SHOWN).rstrip(".")


def lacked_aio(said: str) -> bool:
    """Whether it ended for want of asynchronous I/O."""
    return _NO_AIO in said
