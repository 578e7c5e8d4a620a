"""What the charts' titles say: bound and prediction, what limits the load, what its mode hides."""

from __future__ import annotations

from typing import Final, NamedTuple

from replexplorer.core.history.recent import ENOUGH, Recent
from replexplorer.core.load.load_view import SERVER, LoadView
from replexplorer.core.load.pacing import CLOSED, HIDES
from replexplorer.core.load.places import processes_that_help
from replexplorer.core.model.ceiling import Ceiling, beaten_words
from replexplorer.core.tick import Tick
from replexplorer.ui.words import figures
from replexplorer.ui.words.figures import rate, round_trip

_SEVERAL: Final = 1.5
"""From this many statements a transaction on, QPS stands beside TPS."""


class Notes(NamedTuple):
    """Words for the right end of a title."""

    texts: tuple[str, ...]
    """Longest first; the first that fits is taken."""
    ink: str
    """Theme token."""


def tps_notes(tick: Tick, *, wide: bool) -> Notes:
    """Why the figure is the load's own and not the server's, that it beats the ceiling, else prediction and
    ceiling."""
    if tick.load is not None and tick.load.state == SERVER:
        return Notes(("by the server's counters, all clients", "by the server's counters"), "muted")
    if tick.load is not None and tick.load.limited:
        limited = f"▲ the load is the limit: {tick.load.limited}"
        more = processes_that_help(tick.load.limited, tick.load.processes, tick.load.clients)
        remedy = () if more is None else (f"{limited}; set workload.processes = {more}",)
        return Notes((*remedy, limited, f"▲ {tick.load.limited}"), "warn")
    ceiling, predicted = tick.ceiling, tick.predicted
    if ceiling is not None and ceiling.beaten_tps is not None:
        figures_only = f"{rate(ceiling.beaten_tps)} > {rate(ceiling.tps)}/s"
        return Notes(
            (f"▲ {beaten_words(ceiling)}", f"▲ beats the ceiling: {figures_only}", f"▲ {figures_only}"),
            "warn",
        )
    widths = (True, False) if wide else (False,)
    bounds = [] if ceiling is None else [formula(ceiling, wide=each) for each in widths]
    if predicted is None:
        return Notes(tuple(bounds), "ceiling")
    found = [f"predicted {rate(predicted.tps)}/s", f"pred {rate(predicted.tps)}"]
    together = [f"{word} · {bound}" for bound in bounds for word in found]
    return Notes((*together, *found), "ceiling")


def formula(ceiling: Ceiling, *, wide: bool) -> str:
    """The bound with its numbers: `ceiling 48 ÷ (85.4 + 3.0 ms) = 543/s`."""
    rtt, local = round_trip(ceiling.rtt_ms), round_trip(ceiling.local_ms)
    if not ceiling.local_ms:
        return f"ceiling {ceiling.clients} ÷ {rtt} ms = {rate(ceiling.tps)}/s"
    if wide:
        return f"ceiling = {ceiling.clients} clients ÷ ({rtt} ack + {local} local) ms = {rate(ceiling.tps)}/s"
    return f"ceiling {ceiling.clients} ÷ ({rtt} + {local} ms) = {rate(ceiling.tps)}/s"


def latency_notes(load: LoadView | None, recent: Recent) -> Notes:
    """Backlog and what is dropped, while there is any; what the load's mode hides."""
    if load is None or load.state not in ("running", "viewer"):
        return Notes((), "muted")
    hidden = hides(load.mode, load.clients)
    told = [f"backlog {figures.count(load.backlog)}"] if load.backlog else []
    if dropped := recent.per_second("dropped"):
        told.append(f"dropped {rate(dropped)}/s")
    if not told:
        return Notes(hidden, "muted")
    text = " · ".join(told)
    return Notes((*(f"{text} · {words}" for words in hidden), text, told[-1]), "warn")


def hides(mode: str, clients: int) -> tuple[str, ...]:
    """What a mode hides, longest first."""
    if mode == CLOSED:
        slow = f"{clients} slow commit{'' if clients == 1 else 's'}"
        return (
            HIDES[mode],
            f"closed: even a long stall shows as only {slow}",
            f"closed: a stall shows as {slow}",
            f"a stall is {slow}",
        )
    return (
        HIDES[mode],
        "open: TPS stays as asked until a backlog builds up",
        "open: watch response and backlog",
        "open: watch the backlog",
    )


def qps_of(recent: Recent) -> float | None:
    """Statements a second, where a transaction has several."""
    if recent.qps is None or not recent.tps or recent.qps < _SEVERAL * recent.tps:
        return None
    return recent.qps


def window_words(recent: Recent, *, titled: bool = False) -> str:
    """Which stretch the load's figures are of: `in 0.5 s`, in a title `now: the last 0.5 s`; with the number
    of commits where these are too few for a percentile: `n 11 in 10 s`. Empty while no figure has a
    stretch."""
    if recent.length_s <= 0:
        return ""
    known = [name for name in ENOUGH if recent.latency_ms(name) is not None]
    enough = recent.is_mixed or all(recent.is_firm(name) for name in known)
    few = "" if enough else f"n {figures.count(recent.n)} "
    span = figures.span(recent.length_s)
    if not titled:
        return f"{few}in {span}"
    return f"now: {f'{few}in ' if few else ''}the last {span}"
