"""Documents and tables from the engine's values: unknown stays unknown, nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.cli.render import render_knobs, render_set, render_status
from replexplorer.core.knobs.names import KnobName, KnobView, defaults
from replexplorer.core.link import LinkSettings, LinkView
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.node_view import NodeView, ThreadError
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.topology import SOURCE, Role
from replexplorer.engine.outcome import Changed, DrivenLoad, SetResult, Status
from replexplorer.formats.documents import to_json
from tests.typed import fields

KNOBS = {
    name: KnobView(name, value, value, source="db1")
    for name, value in defaults(["db2"]).items()
    if name.key in ("semi_sync", "sync_binlog", "rtt")
}


def status_of(**more: Any) -> Status:
    """A stack of which nothing is known but this."""
    known = {
        "protection": Protection(ProtectionState.OFF, requested=False),
        "load": DrivenLoad(None),
        **fields("stack='default' system='async' state='up' nodes=() links=() disks=()"),
        **fields("footprint_bytes=None knobs={}"),
    }
    return Status(**known | more)


def everything_down() -> Status:
    return status_of(
        stack="s",
        state="down",
        nodes=[
            NodeView("db1", "primary", reachable=False, is_source=True),
            NodeView("db2", "replica", reachable=False),
        ],
        protection=Protection(ProtectionState.DOWN, requested=True),
        links=[LinkView("db2")],
        disks=[DiskView("db1"), DiskView("db2")],
        knobs={name: replace(view, effective=None) for name, view in KNOBS.items()},
    )


def test_get_and_status_know_the_server_s_own_default() -> None:
    """MariaDB comes with after_commit: that is nothing turned there, and after_sync is."""
    name, points = KnobName("wait_point", SOURCE), ("after_sync", "after_commit")
    for flavor, usual in zip(("mysql", "mariadb"), points, strict=True):
        node = NodeView("db1", Role.PRIMARY, reachable=True, flavor=flavor, is_source=True)
        for value in points:
            shown = KnobView(name, value, value, flavor=flavor)
            assert f" {usual.upper()} " in render_knobs({str(name): shown})
            status = render_status(status_of(nodes=[node], knobs={name: shown}))
            assert (str(name) in status) == (value != usual)


def test_status_fits_80_columns_and_loses_no_word() -> None:
    whole, folded = render_status(everything_down()), render_status(everything_down(), 80)
    assert all(len(line) <= 80 for line in folded.splitlines())
    assert folded.split() == whole.split()


PRIMARY = NodeView("db1", "primary", True, is_source=True, host="10.0.0.2", port=3306, path="direct")
RTT = KnobName("rtt", "db2")
SHAPED = LinkSettings(85.0, loss_percent=1.0, bandwidth_bps=20_000_000, partition="ack")
LINK = LinkView(
    "db2",
    "nfqueue",
    SHAPED,
    SHAPED.values(),
    **fields("rtt_measured_ms=84.9 rtt_base_ms=0.06 probes_lost_percent=0.9 dropped=0"),
)
STATUSES = {
    "everything is down": everything_down(),
    "not at rest": status_of(
        nodes=[PRIMARY],
        protection=Protection(ProtectionState.ARMED, True, True, 0, 1, "after_sync", 10_000, 0),
        links=[LINK],
        disks=[DiskView("db1", 2.0, 2.0, 2.31, 0.12, fsyncs={"redo": 3, "binlog": 4})],
        knobs=KNOBS | {RTT: KnobView(RTT, 85.0, 85.0)},
        load=DrivenLoad("tui (pid 7)", 3, "insert", "open", 200.0),
        footprint_bytes=3 * 1024**2,
        oldest_commit_s=0.1,
    ),
    "protected, but": status_of(
        nodes=[
            replace(
                NodeView("db2", "replica", True, sql_error=ThreadError(1062, "Duplicate entry")),
                **fields("errant_gtids='u:443-8709' sql_thread='error'"),
            )
        ],
        protection=Protection(
            ProtectionState.PROTECTED,
            **fields(
                "requested=True replicas_acking=2 replicas_counted=3 replicas_required=1 no_ack_can_come=True"
            ),
        ),
    ),
    "a commit hangs": status_of(nodes=[PRIMARY], oldest_commit_s=36.4),
}


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_a_status_in_words_and_as_a_document(status: Status, snapshot: SnapshotAssertion) -> None:
    assert render_status(status) == snapshot
    assert to_json(status) == snapshot


def test_a_set_in_words_and_as_a_document(snapshot: SnapshotAssertion) -> None:
    both = ("SET GLOBAL sync_binlog = 0", "SET GLOBAL innodb_flush_log_at_trx_commit = 0")
    changed = (
        Changed(KnobName("sync_binlog", SOURCE), 1, 0, 0, 1.23, both),
        Changed(KnobName("innodb_flush_log_at_trx_commit", SOURCE), 1, 0, 0, 1.23, both),
        Changed(KnobName("clients", "load"), None, 32, None, 0.0, (), "no load runs"),
    )
    unchanged = (KnobName("wait_point", SOURCE),)
    result = SetResult(changed=changed, warnings=("mind the gap",), unchanged=unchanged).of_verb("db1", 5.0)
    assert render_set(result) == snapshot
    assert to_json(result) == snapshot
