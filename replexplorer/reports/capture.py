"""What was captured of a server, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from replexplorer.core.load.captured import CapturedLeftOut, CapturedWorkload
from replexplorer.core.text import folded, number, table

_MOST_SHOWN: Final = 12
_STATEMENT_SHOWN: Final = 60


def render(found: CapturedWorkload, columns: int | None = None) -> str:
    """The report for people."""
    share = found.imitated / found.statements if found.statements else 0.0
    lines = [
        f"{found.address} ({found.server}), {found.duration_s:.0f} s:"
        f" {number(found.statements / found.duration_s)} statements/s, {share:.1%} of them imitated",
        "",
    ]
    rows = [
        (
            number(each.tps),
            f"{each.share:.1%}",
            str(len(each.statements)),
            each.boundaries,
            _shortened(each.statements),
        )
        for each in found.transactions[:_MOST_SHOWN]
    ]
    if rows:
        headings = ("TPS", "SHARE", "STATEMENTS", "BOUNDARIES", "TRANSACTION")
        lines.append(table(rows, headings, right=(0, 1, 2), fold=4, columns=columns))
    if len(found.transactions) > _MOST_SHOWN:
        lines.append(f"... and {len(found.transactions) - _MOST_SHOWN} more kinds")
    if found.tables:
        sizes = [
            (f"{each.database}.{each.table}", f"{each.rows_there:,}", f"{each.rows:,}")
            for each in found.tables
        ]
        lines += ["", table(sizes, ("TABLE", "ROWS THERE", "ROWS MADE"), right=(1, 2))]
    lines += ["", "not as it was:", *(folded(f"  {note}", columns, "    ") for note in found.notes)]
    if found.left_out:
        lines += ["", "left out:", *(folded(_left(each, found), columns, "    ") for each in found.left_out)]
    return "\n".join(lines)


def _left(left: CapturedLeftOut, found: CapturedWorkload) -> str:
    share, cpu = left.times / max(1, found.statements), left.server_ms / found.duration_s / 10
    return (
        f"  {number(left.times / found.duration_s)}/s ({share:.1%} of the statements, {cpu:.2f} % of a core's"
        f" time): {left.reason}"
    )


def _shortened(statements: Sequence[str]) -> str:
    """Each statement once with how often it comes, the first two of them."""
    counted = Counter(statements)
    shown = [
        f"{times} x {_clipped(text)}" if times > 1 else _clipped(text)
        for text, times in list(counted.items())[:2]
    ]
    more = f"; and {len(counted) - 2} more" if len(counted) > 2 else ""
    return "; ".join(shown) + more


def _clipped(text: str) -> str:
    plain = text.replace("`", "")
    return plain if len(plain) <= _STATEMENT_SHOWN else f"{plain[: _STATEMENT_SHOWN - 1]}…"
