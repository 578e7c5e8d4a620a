"""Command line: the composition root. Parse, load the configuration, choose adapters, import lazily."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; answers the process's exit code and lets no exception through."""
    try:
        from replexplorer.cli import entry

        return entry.run(argv)
    except KeyboardInterrupt:  # while it was still being imported
        sys.stderr.write("replexplorer: interrupted\n")
        return 130
