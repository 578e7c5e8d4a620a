"""One server, as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass

from replexplorer.core.server.membership import Membership
from replexplorer.core.server.transfer import Transfer


@dataclass(frozen=True, slots=True)
class ThreadError:
    """The last error of a replication thread, by the server's number and in its words."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """One server, as far as it is known."""

    name: str
    role: str
    """What it was seen to be (`core.topology.Role`)."""
    reachable: bool
    host: str | None = None
    port: int | None = None
    published_host: str | None = None
    """Where it answers to who does not reach `host`."""
    published_port: int | None = None
    path: str | None = None
    """`direct` (the node's own address), `published` or `tunnel` (a way that its provider opens for each
    connection): which of them the app uses."""
    machine: str | None = None
    """The host that it is on, as `up --on` was told; None: this one."""
    flavor: str | None = None
    version: str | None = None
    server_uuid: str | None = None
    gtid_executed: str | None = None
    errant_gtids: str | None = None
    """On a replica: transactions that it has executed and the primary lacks, empty for none; None
    unknown."""
    diverged: str | None = None
    """Why its rows may not be the source's until it is copied, said of the node; None: nothing says so."""
    io_thread: str | None = None
    """on, off, connecting, error; None for a primary."""
    sql_thread: str | None = None
    lag_s: float | None = None
    restarted_s: float | None = None
    """When it was last seen to have restarted, on the session's clock; None: not in this session."""
    io_error: ThreadError | None = None
    """Why its IO thread does not run, or not reach the source; None while it has none."""
    sql_error: ThreadError | None = None
    follows: str | None = None
    """The node that it replicates from, as it was configured; None: from none, or that is not known."""
    state: str | None = None
    """What the server calls its membership in a group (ONLINE, RECOVERING, ...); None of one in none."""
    member: Membership | None = None
    """What it says of its group; None of one in none."""
    transfer: Transfer | None = None
    """What it is given now, as a member that joins or comes back; None where it gets nothing."""
    is_source: bool = False
    """The others follow it, or did when it was last seen: a source that is down still is it."""

    @property
    def replication_fault(self) -> str | None:
        """Why a thread of it does not run, in the server's words, the applier's before the IO thread's."""
        error = self.sql_error or self.io_error
        return None if error is None else error.text
