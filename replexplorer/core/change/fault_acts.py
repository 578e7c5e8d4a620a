"""What a fault does and what takes it back, line by line, as they are carried out; knobs that it turns apart.

Law: a line is the statement that runs, or names the signal, the process and the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replexplorer.core.dialect.dialect import Dialect
from replexplorer.core.topology import ends_of


class FaultActs(NamedTuple):
    """Lines for people."""

    does: tuple[str, ...] = ()
    undoes: tuple[str, ...] = ()


def acts_of(
    kind: str, value: str | None, node: str, dialect: Dialect, links: Sequence[str] = ()
) -> FaultActs:
    """What is done to a node, and of a flap to these links, beside the knobs that are turned; nothing where
    these are all."""
    server = f"mysqld of {node}"
    start = (f"start {server}, wait for crash recovery and a login",)
    match kind:
        case "kill":
            return FaultActs((f"SIGKILL to {server}",), start)
        case "stop":
            return FaultActs((f"SIGTERM to {server}",), (f"start {server}, wait for a login",))
        case "pause":
            return FaultActs((f"freeze {server}: no instruction of it runs",), (f"unfreeze {server}",))
        case "power_cut":
            rolls_back = f"roll its files back to what was fsynced: powercut.py --mode {value}"
            return FaultActs((f"SIGKILL to {server}", rolls_back), start)
        case "applier_stop":
            return FaultActs((f"{node}: {dialect.stop_applier()}",), (f"{node}: {dialect.start_applier()}",))
        case "receiver_stop":
            return FaultActs((f"{node}: {dialect.stop_io()}",), (f"{node}: {dialect.start_io()}",))
        case "flap":
            down_s, _, up_s = str(value).partition("/")
            ends = [" <-> ".join(ends_of(link)) for link in links]
            return FaultActs(
                tuple(f"link {each}: {down_s} s down, {up_s} s up, over and over" for each in ends),
                tuple(f"link {each}: stays up" for each in ends),
            )
        case "disk_stall":
            slow = f"disk of {node}: each fsync takes {value} ms longer"
            return FaultActs((slow,), (f"disk of {node}: each fsync takes as long as before",))
        case "disk_full":
            full = f"disk of {node}: each write that would extend a file fails with ENOSPC"
            return FaultActs(
                (full,), (f"disk of {node}: files can grow again; start {server} if it has ended",)
            )
        case _:
            return FaultActs()
