"""Titles of changes with the panel's labels where the knobs' long keys stand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from replexplorer.core.epochs.epoch import Epoch
from replexplorer.ui.desks.board import Board


def with_labels(epochs: Iterable[Epoch], board: Board) -> tuple[Epoch, ...]:
    """The epochs as their ledger shows them: `innodb_flush 1 → 2`, as the knob is called beside it."""
    labels = {str(name): board.label(name) for name in board.views}
    if not labels:
        return tuple(epochs)
    longest_first = sorted(labels, key=len, reverse=True)
    keys = re.compile(rf"(?<![\w@])({'|'.join(map(re.escape, longest_first))})(?![\w@])")
    return tuple(
        replace(epoch, title=keys.sub(lambda found: labels[found[1]], epoch.title)) for epoch in epochs
    )
