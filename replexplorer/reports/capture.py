"""What was captured of a server, in words and as JSON."""

from __future__ import annotations

from typing import Final

from replexplorer.core.imitation.imitation import Captured, Imitation
from replexplorer.core.text import folded, number, table
from replexplorer.formats.json.workload import (
    CapturedLeftOut,
    CapturedTable,
    CapturedTransaction,
    WorkloadCaptured,
)

_MOST_SHOWN: Final = 12
_STATEMENT_SHOWN: Final = 60


def document_of(captured: Captured, imitation: Imitation, file: str | None) -> WorkloadCaptured:
    """For --json; without a file the text is in it."""
    total = sum(each.times for each in imitation.transactions)
    return WorkloadCaptured(
        address=captured.address,
        server=captured.server,
        duration_s=captured.seconds,
        file=file,
        workload=imitation.text if file is None else None,
        statements=imitation.statements,
        imitated=imitation.imitated,
        transactions_there=captured.transactions,
        transactions=[
            CapturedTransaction(
                tps=each.times / captured.seconds,
                share=each.times / total,
                boundaries="guessed" if each.is_guess else "seen",
                statements=[key.text for key in each.shape.statements],
            )
            for each in imitation.transactions
        ],
        tables=[
            CapturedTable(
                database=each.name.database,
                table=each.name.table,
                rows_there=each.captured_rows,
                rows=each.rows,
            )
            for each in imitation.tables
        ],
        left_out=[
            CapturedLeftOut(reason=why, times=left.times, server_ms=left.ms, examples=left.examples)
            for why, left in imitation.left_out.items()
        ],
        notes=list(imitation.notes),
    )


def render(found: WorkloadCaptured, columns: int | None = None) -> str:
    """The report for people."""
    share = found.imitated / found.statements if found.statements else 0.0
    lines = [
        f"{found.address} ({found.server}), {found.duration_s:.0f} s: {_a_second(found.statements, found)}"
        f" statements/s, {share:.1%} of them imitated",
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
        lines.append(
            table(
                rows,
                ("TPS", "SHARE", "STATEMENTS", "BOUNDARIES", "TRANSACTION"),
                right=(0, 1, 2),
                fold=4,
                columns=columns,
            )
        )
    if len(found.transactions) > _MOST_SHOWN:
        lines.append(f"... and {len(found.transactions) - _MOST_SHOWN} more kinds")
    if found.tables:
        lines.append("")
        sizes = [
            (f"{each.database}.{each.table}", f"{each.rows_there:,}", f"{each.rows:,}")
            for each in found.tables
        ]
        lines.append(table(sizes, ("TABLE", "ROWS THERE", "ROWS MADE"), right=(1, 2)))
    lines += ["", "not as it was:", *(folded(f"  {note}", columns, "    ") for note in found.notes)]
    if found.left_out:
        lines += ["", "left out:"]
        lines += [
            folded(
                f"  {_a_second(each.times, found)}/s ({_part(each, found)}): {each.reason}", columns, "    "
            )
            for each in found.left_out
        ]
    return "\n".join(lines)


def _a_second(times: int, found: WorkloadCaptured) -> str:
    return number(times / found.duration_s)


def _part(left: CapturedLeftOut, found: WorkloadCaptured) -> str:
    share = left.times / max(1, found.statements)
    return f"{share:.1%} of the statements, {left.server_ms / found.duration_s / 10:.2f} % of a core's time"


def _shortened(statements: list[str]) -> str:
    """Each statement once with how often it comes, the first two of them."""
    counted: dict[str, int] = {}
    for text in statements:
        counted[text] = counted.get(text, 0) + 1
    shown = [
        f"{times} x {_clipped(text)}" if times > 1 else _clipped(text)
        for text, times in list(counted.items())[:2]
    ]
    more = f"; and {len(counted) - 2} more" if len(counted) > 2 else ""
    return "; ".join(shown) + more


def _clipped(text: str) -> str:
    plain = text.replace("`", "")
    return plain if len(plain) <= _STATEMENT_SHOWN else f"{plain[: _STATEMENT_SHOWN - 1]}…"
