"""Faults as rows: those in force, and those that can be injected, the chosen one unfolded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replexplorer.core.fault import Fault, FaultKind
from replexplorer.engine.outcome import Preview
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, spread, wrapped

_NAME_CELLS: Final = 14
_HEAD_CELLS: Final = 12
_UNITS: Final = {"ms": " ms", "s/s": " s"}


def in_force_row(fault: Fault, now_wall_s: float, width: int, *, chosen: bool) -> list[Run]:
    """`kill@db1   12 s   fault (pid 12)`."""
    ground = " on select" if chosen else ""
    age = figures.elapsed(max(0.0, now_wall_s - fault.since_wall_s))
    until = ""
    if fault.until_wall_s is not None:
        until = f", ends by itself in {max(0.0, fault.until_wall_s - now_wall_s):.0f} s"
    row: list[Run] = [
        (f"{'▸' if chosen else ' '} {fault!s:<26} ", f"fault{ground} b"),
        (f"{age}  ", f"text{ground}"),
        (f"by {fault.by}{until}", f"muted{ground}"),
    ]
    return spread(row, [], width, f"text{ground}")


def kind_row(kind: FaultKind, value: str | None, target: str, width: int, *, chosen: bool) -> list[Run]:
    """`▸ power_cut     ◂ strict ▸   ◂ db1 primary ▸`; what is not chosen has its meaning in short."""
    ground = " on select" if chosen else ""
    unit = _UNITS.get(kind.unit or "", "")
    row: list[Run] = [(f"{'▸' if chosen else ' '} {kind.key:<{_NAME_CELLS}}", f"title{ground} b")]
    if not chosen:
        short = kind.does.partition(".")[0].partition(":")[0]
        return cut([*row, (f"{'' if value is None else value + unit:<9}", "text"), (short, "muted")], width)
    if value is not None:
        row += _turned(f"{value}{unit}", ground)
    return spread([*row, *_turned(target or "no replica", ground)], [], width, f"text{ground}")


def _turned(text: str, ground: str) -> list[Run]:
    """`◂ text ▸`: keys turn it."""
    arrow = f"accent{ground} b"
    return [(" ◂ ", arrow), (text, f"text{ground} b"), (" ▸  ", arrow)]


def kind_details(kind: FaultKind, preview: Preview, width: int) -> list[Line]:
    """What happens, the very commands, how it is taken back, and why it would be refused."""
    rows = _told("does", [kind.does], width, "text")
    rows += _told("runs", preview.statements, width, "warn b")
    rows += _told("clearing", preview.undo or [kind.undone], width, "muted")
    return rows + _told("▲", preview.warnings, width, "warn")


def in_force_details(kind: FaultKind, preview: Preview, width: int) -> list[Line]:
    """What clearing one does, by the commands where they are known."""
    return _told("clearing", preview.undo or [kind.undone], width, "muted")


def _told(head: str, texts: Sequence[str], width: int, ink: str) -> list[Line]:
    """Texts below each other beside their head."""
    rows = [row for text in texts for row in wrapped(text, max(20, width - _HEAD_CELLS - 4))]
    return [
        [(f"    {head if at == 0 else '':<{_HEAD_CELLS}}", "warn b" if head == "▲" else "muted"), (row, ink)]
        for at, row in enumerate(rows)
    ]


def role_row(name: str, target: str | None, does: str, width: int, *, chosen: bool) -> list[Run]:
    """`▸ switchover     ◂ the nearest replica ▸`."""
    ground = " on select" if chosen else ""
    row: list[Run] = [(f"{'▸' if chosen else ' '} {name:<{_NAME_CELLS}}", f"title{ground} b")]
    if not chosen:
        return cut([*row, (f"{'':<9}", "text"), (does.partition(":")[0].partition(";")[0], "muted")], width)
    return spread([*row, *_turned(target or "no node is away", ground)], [], width, f"text{ground}")


def role_details(does: str, errant: str, question: str, width: int) -> list[Line]:
    """What happens, what would be lost, and the question before it does."""
    rows = _told("does", [does], width, "text")
    rows += _told("▲", [errant] if errant else [], width, "warn")
    return rows + _told("▲", [question] if question else [], width, "warn b")
