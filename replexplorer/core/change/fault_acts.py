"""What a fault does and what takes it back, line by line, as they are carried out; knobs that it turns apart.

Law: a line is the statement that runs, or names the signal, the process and the node.
"""

from __future__ import annotations

from typing import NamedTuple

from replexplorer.core.dialect.dialect import Dialect


class FaultActs(NamedTuple):
    """Lines for people."""

    does: tuple[str, ...] = ()
    undoes: tuple[str, ...] = ()


def acts_of(kind: str, value: str | None, node: str, dialect: Dialect) -> FaultActs:
    """What is done to a node beside the knobs that are turned; nothing where these are all."""
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
        case "disk_full":
            full = f"disk of {node}: each write that would extend a file fails with ENOSPC"
            return FaultActs((full,), (f"disk of {node}: files can grow again",))
        case _:
            return FaultActs()
