"""Command line: the composition root. Parse, load the configuration, choose adapters, import lazily."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; answers the process's exit code and lets no exception through."""
    from replexplorer.cli import entry

    return entry.run(argv)
