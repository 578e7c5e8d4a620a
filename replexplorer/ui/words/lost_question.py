"""What restarts took, as the one line that asks whether it is to be restored (`reapply = ask`)."""

from __future__ import annotations

from replexplorer.ui.words.runs import Line


def lost_question(lost: tuple[str, ...]) -> tuple[Line, ...]:
    """The question, longest first; empty where nothing was lost."""
    if not lost:
        return ()
    rows: list[Line] = []
    for count in range(len(lost), -1, -1):
        more = len(lost) - count
        told = [*lost[:count], *([f"{more} more" if count else f"{more} knobs"] if more else [])]
        rows.append(
            [
                (" Lost by a restart: ", "warn b"),
                (f"{', '.join(told)}.  ", "text"),
                ("y", "key b"),
                (" re-applies, ", "muted"),
                ("n", "key b"),
                (" leaves it", "muted"),
            ]
        )
    return tuple(rows)
