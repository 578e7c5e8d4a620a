"""The questions of the last row: whether to quit, and whether to restore what restarts took."""

from __future__ import annotations

from replexplorer.core.fault import PARTITION_FAULT
from replexplorer.core.link import partition_words
from replexplorer.core.load.interval import LoadView
from replexplorer.core.tick import Tick
from replexplorer.ui.words.runs import Line


def lost_question(lost: tuple[str, ...]) -> tuple[Line, ...]:
    """What restarts took (`reapply = ask`), longest first; empty where nothing was lost."""
    rows: list[Line] = []
    for count in range(len(lost), -1, -1) if lost else ():
        more = len(lost) - count
        told = [*lost[:count], *([f"{more} more" if count else f"{more} knobs"] if more else [])]
        rows.append(
            [
                (" Lost by a restart: ", "warn b"), (f"{', '.join(told)}.  ", "text"),
                ("y", "key b"), (" re-applies, ", "muted"), ("n", "key b"), (" leaves it", "muted"),
            ]
        )  # fmt: skip
    return tuple(rows)


def quit_question(tick: Tick | None, experiment: str, key: str) -> tuple[Line, ...]:
    """What quitting would end, longest first; empty while no load of this app runs and no lab or sweep.

    `experiment` names the lab or sweep under way, `key` the key that quits.
    """
    ends = _ends(tick.load if tick is not None and not tick.viewer else None, experiment)
    if not ends:
        return ()
    stays = _stays(tick) if tick is not None else ""
    told = [f"{ends}, {stays}.  "] * bool(stays) + [f"{ends}.  ", ""]
    return tuple(
        [(" Quit? ", "warn b"), (what, "text"), (key, "key b"), (f" quits, {other}", "muted")]
        for what in told
        for other in ("any other key stays", "others stay")
    )


def _ends(load: LoadView | None, experiment: str) -> str:
    """What stops: `The load (8 clients) stops`."""
    if experiment:
        return f"The {experiment} stops, its knobs are restored"
    if load is None or not load.clients or load.state in ("stopped", "viewer"):
        return ""
    return f"The load ({load.clients} client{'' if load.clients == 1 else 's'}) stops"


def _stays(tick: Tick) -> str:
    """Which links stay cut, and which faults in force: `partition both, kill@db2 stay`."""
    cut = partition_words([link for link in (*tick.links, *tick.pairs) if link.flap is None])
    found = [f"partition {', '.join(cut)}"] if cut else []
    found += [str(fault) for fault in tick.faults if fault.kind != PARTITION_FAULT]
    return f"{', '.join(found)} stay{'s' if len(cut) < 2 and len(found) == 1 else ''}" if found else ""
