"""What a failure now would lose, in the words and colours of the line and of the chart.

Law: what is not known is written as unknown, and never as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, width_of

OLD_S: Final = 1.0
"""A reading as old as that is not of now: where it is answered the meter looks thrice a second and more."""


class Danger(NamedTuple):
    """One kind of failure."""

    field: str
    """Of `Exposure`."""
    word: str
    short: str
    tag: str
    """Where there is hardly room beside the figure."""
    ink: str
    """Theme token of its line and figure."""
    meaning: str
    """One line for the help."""


DANGERS: Final = (
    Danger(
        "process_dies", "mysqld dies", "dies", "dies", "p50",
        "commits missing on the source after mysqld is killed and started again",
    ),
    Danger(
        "power_cut", "power cut", "power", "power", "p95",
        "commits missing on the source after its machine lost power and came back",
    ),
    Danger(
        "source_lost", "source lost", "source", "lost", "p99",
        "commits missing on the best replica that answers when the source never comes back",
    ),
)  # fmt: skip
"""All kinds, in the order of the line."""


def loss_of(exposure: Exposure, danger: Danger) -> Loss | Unknown:
    """What this failure would lose."""
    found: Loss | Unknown = getattr(exposure, danger.field)
    return found


def in_short(exposure: Exposure | None) -> str:
    """`0/312/8`, in the order of `DANGERS`; empty for nothing."""
    if exposure is None:
        return ""
    return "/".join(loss_text(loss_of(exposure, danger)) for danger in DANGERS)


def loss_text(loss: Loss | Unknown) -> str:
    """`312`, `>=91.7k` where no more is known than the least, `-`."""
    if isinstance(loss, Loss):
        return figures.count(loss.commits)
    return f">={figures.count(loss.low)}" if loss.low else figures.UNKNOWN


def exposure_line(exposure: Exposure | None, width: int) -> Line:
    """` at risk now: mysqld dies 0 · power cut 300..340 (0.4 s) · source lost 8`, with as much of it as
    fits; ` at risk 1.4 s ago: ...` where that was read a while ago, and that always stands there; empty
    before anything was looked at."""
    if exposure is None:
        return []
    if exposure.read_ago_s < OLD_S:
        return _fitting(exposure, width, (" at risk now: ", " at risk: "))
    ago = figures.age(1000 * exposure.read_ago_s)
    return _fitting(exposure, width, (f" at risk {ago} ago: ", f" {ago} ago: "))


def exposure_words(exposure: Exposure, width: int) -> Line:
    """The same without its head, of a moment that has gone."""
    return _fitting(exposure, width, ("at risk ",))


def _fitting(exposure: Exposure, width: int, heads: Sequence[str]) -> Line:
    """The longest that fits; one reason alone where nothing is known for one reason."""
    losses = {loss_of(exposure, danger) for danger in DANGERS}
    if len(losses) == 1 and isinstance(loss := losses.pop(), Unknown):
        return cut([(heads[0], "muted"), ("unknown", "warn"), (f" ({loss.why})", "faint")], width)
    rows = list(_variants(exposure, heads))
    return next((row for row in rows if width_of(row) <= width), rows[-1])


class _Detail(NamedTuple):
    """How much of the line stands there."""

    why: bool = False
    age: bool = False
    range: bool = False
    short: bool = False


_DETAILS: Final = (
    _Detail(why=True, age=True, range=True),
    _Detail(age=True, range=True),
    _Detail(age=True, range=True, short=True),
    _Detail(range=True),
    _Detail(range=True, short=True),
    _Detail(short=True),
)
"""Longest first: reasons go first, then words are shorter, then ages and ranges go."""


def _variants(exposure: Exposure, heads: Sequence[str]) -> Iterator[Line]:
    """The line, longest first."""
    for detail, head in product(_DETAILS, heads):
        row: list[Run] = [(head, "muted")]
        for at, danger in enumerate(DANGERS):
            row += [(" · ", "faint")] if at else []
            row.append((f"{danger.short if detail.short else danger.word} ", "muted"))
            row += _figure(loss_of(exposure, danger), danger, detail)
        yield row


def _figure(loss: Loss | Unknown, danger: Danger, detail: _Detail) -> list[Run]:
    """`300..340` and `(0.4 s)`: the commits, and how old the oldest of them is."""
    if isinstance(loss, Unknown):
        why: list[Run] = [(f" ({loss.why})", "faint")] if detail.why else []
        least = (loss_text(loss), f"{danger.ink} b")
        return [least if loss.low else ("unknown" if detail.age else figures.UNKNOWN, "warn"), *why]
    low, high = figures.count(loss.low), figures.count(loss.high)
    text = f"{low}..{high}" if detail.range and low != high else figures.count(loss.commits)
    ink = f"{danger.ink} b" if loss.high else "good"
    age: list[Run] = []
    if detail.age and loss.age_ms is not None and loss.high:
        age = [(f" ({figures.age(loss.age_ms)})", "muted")]
    return [(text, ink), *age]
