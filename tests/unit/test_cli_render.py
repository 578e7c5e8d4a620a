"""Documents and tables from the engine's values: unknown stays unknown, nothing is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.cli.render import render_knobs, render_set, render_status
from replexplorer.core.knobs.names import KnobName, KnobView, defaults
from replexplorer.core.link import LinkSettings, LinkView
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.node_view import NodeView, ThreadError
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.text import table
from replexplorer.core.topology import SOURCE, Role
from replexplorer.engine.outcome import Changed, DrivenLoad, SetResult, Status
from replexplorer.formats.documents import to_json

KNOBS = {name: KnobView(name, value, value, source="db1") for name, value in defaults(["db2"]).items()}


def status_of(**fields: Any) -> Status:
    """A stack of which nothing is known but this."""
    nothing: dict[str, Any] = {
        "stack": "default",
        "system": "async",
        "state": "up",
        "nodes": (),
        "protection": Protection(ProtectionState.OFF, requested=False),
        "links": (),
        "disks": (),
        "load": DrivenLoad(None),
        "footprint_bytes": None,
        "knobs": {},
    }
    return Status(**nothing | fields)


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


def test_a_stack_of_which_everything_is_down_is_a_whole_document() -> None:
    document = json.loads(to_json(everything_down()))
    assert document["nodes"][0]["server_uuid"] is None
    assert document["links"][0]["rtt_measured_ms"] is None
    assert document["knobs"]["sync_binlog"] == {"requested": 1, "effective": None, "node": "db1"}
    assert document["knobs"]["rtt@db2"]["node"] == "db2"
    assert document["disks"][1] == {
        "node": "db2",
        "fsync_delay_ms": None,
        "fsync_delay_redo_ms": None,
        "fsync_delay_binlog_ms": None,
        "fsync_jitter_ms": None,
        "fsync_measured_by_kind_ms": {},
        "fsync_measured_ms": None,
        "disk_probe_ms": None,
        "fsyncs": {"redo": None, "binlog": None, "relay": None, "data": None, "other": None},
        "fault": None,
    }
    assert document["links"][0]["partition"] is None


def test_status_names_the_knobs_that_are_not_at_rest() -> None:
    name = KnobName("rtt", "db2")
    settings = LinkSettings(85.0, loss_percent=1.0, bandwidth_bps=20_000_000, partition="ack")
    status = status_of(
        stack="s",
        state="up",
        nodes=[
            NodeView(
                "db1",
                "primary",
                reachable=True,
                is_source=True,
                host="10.0.0.2",
                port=3306,
                path="direct",
            )
        ],
        protection=Protection(ProtectionState.ARMED, True, True, 0, 1, "after_sync", 10_000, 0),
        links=[
            LinkView(
                "db2",
                "nfqueue",
                settings,
                settings.values(),
                rtt_measured_ms=84.9,
                rtt_base_ms=0.06,
                probes_lost_percent=0.9,
                dropped=0,
            )
        ],
        disks=[DiskView("db1", 2.0, 2.0, 2.31, 0.12, fsyncs={"redo": 3, "binlog": 4})],
        knobs=KNOBS | {name: KnobView(name, 85.0, 85.0)},
        load=DrivenLoad("tui (pid 7)", 3, "insert", "open", 200.0),
        footprint_bytes=3 * 1024**2,
    )
    text = render_status(status)
    assert "10.0.0.2:3306" in text
    assert "ARMED" in text
    assert "asked 85.0 ms, measured 84.9 ms" in text
    assert "PARTITION ack, loss 1.0 %, of probes 0.9 %, TCP reno, 20 mbit, nfqueue, dropped 0" in text
    assert (
        "db1: fsync delay asked 2.0 ms, measured 2.31 ms, bare disk 0.12 ms, fsyncs redo 3, binlog 4" in text
    )
    assert "load        3 clients, open at 200 TPS, insert, driven by tui (pid 7)" in text
    assert text.splitlines()[-1].split() == ["rtt@db2", "85", "ms", "85", "ms"]


def test_status_tells_what_the_word_alone_would_hide() -> None:
    protection = Protection(
        ProtectionState.PROTECTED,
        requested=True,
        replicas_acking=2,
        replicas_counted=3,
        replicas_required=1,
        no_ack_can_come=True,
    )
    replica = NodeView(
        "db2",
        "replica",
        reachable=True,
        errant_gtids="u:443-8709",
        sql_thread="error",
        sql_error=ThreadError(1062, "Duplicate entry"),
    )
    text = render_status(
        status_of(
            stack="default",
            state="up",
            nodes=[replica],
            protection=protection,
            links=[],
            disks=[],
            knobs={},
        )
    )
    assert (
        "db2 has 8,267 transactions that the primary lacks: u:443-8709;"
        " `replexplorer rejoin db2 --copy` makes it a copy" in " ".join(text.split())
    )
    assert "db2 SQL thread, error 1062: Duplicate entry; `replexplorer up` starts it" in text
    assert "PROTECTED: the last commit is on a replica; no acknowledgement can come" in text
    assert "replicas 2 (the source counts 3: not all of them are connected) of 1 required" in text


def test_get_and_status_know_the_server_s_own_default() -> None:
    """MariaDB comes with after_commit: that is nothing turned there, and after_sync is."""
    name = KnobName("wait_point", SOURCE)
    for flavor, usual, other in (
        ("mysql", "after_sync", "after_commit"),
        ("mariadb", "after_commit", "after_sync"),
    ):
        shown = KnobView(name, other, other, flavor=flavor)
        assert shown.default == usual
        assert f" {usual.upper()} " in render_knobs({str(name): shown})
        for value in (usual, other):
            status = status_of(
                stack="default",
                state="up",
                nodes=[NodeView("db1", Role.PRIMARY, reachable=True, flavor=flavor, is_source=True)],
                protection=Protection(ProtectionState.OFF, requested=False),
                links=[],
                disks=[],
                knobs={name: KnobView(name, value, value, flavor=flavor)},
            )
            assert (str(name) in render_status(status)) == (value == other)


def test_a_set_tells_requested_effective_and_statements() -> None:
    names = [KnobName("sync_binlog", SOURCE), KnobName("innodb_flush_log_at_trx_commit", SOURCE)]
    both = ("SET GLOBAL sync_binlog = 0", "SET GLOBAL innodb_flush_log_at_trx_commit = 0")
    result = SetResult(
        changed=(
            Changed(names[0], 1, 0, 0, 1.23, both),
            Changed(names[1], 1, 0, 0, 1.23, both),
            Changed(KnobName("clients", "load"), None, 32, None, 0.0, (), "no load runs"),
        ),
        warnings=("mind the gap",),
        unchanged=(KnobName("wait_point", SOURCE),),
    )
    report = result.of_verb("db1", 5.0)
    assert json.loads(to_json(report))["changed"][0] == {
        "key": "sync_binlog",
        "node": "db1",
        "name": "sync_binlog",
        "before": 1,
        "requested": 0,
        "effective": 0,
        "took_ms": 1.23,
        "statements": list(both),
        "note": None,
        "measured_ms": None,
    }
    text = render_set(report)
    assert text.count("SET GLOBAL sync_binlog = 0;") == 1
    assert "clients: 32 from the next load on (no load runs)" in text
    assert text.endswith("wait_point: unchanged")


@given(
    st.lists(st.lists(st.text("abc", min_size=1, max_size=9), max_size=15).map(" ".join), max_size=5),
    st.integers(50, 120),
)
def test_a_table_folds_one_column_to_fit_and_loses_no_word(titles: list[str], columns: int) -> None:
    rows = [(f"name-{at}", title, f"{at} min") for at, title in enumerate(titles)]
    lines = table(rows, ("NAME", "TITLE", "TAKES"), right=(2,), fold=1, columns=columns).splitlines()
    assert all(len(line) <= columns for line in lines)
    shown = " ".join(lines[1:]).split()
    assert sorted(shown) == sorted(" ".join(" ".join(row) for row in rows).split())
    assert table(rows, fold=1) == table(rows), "nobody says how many columns there are"


def test_status_fits_80_columns_and_loses_no_word() -> None:
    whole, folded = render_status(everything_down()), render_status(everything_down(), 80)
    assert all(len(line) <= 80 for line in folded.splitlines())
    assert folded.split() == whole.split()


def test_commits_that_hang_are_told() -> None:
    document = status_of(
        stack="default",
        state="up",
        nodes=[NodeView("db1", "primary", reachable=True, is_source=True)],
        protection=Protection(ProtectionState.PROTECTED, requested=True, replicas_required=1),
        links=[],
        disks=[],
        knobs={},
        oldest_commit_s=36.4,
    )
    assert "COMMITS HANG: the oldest under way waits 36 s" in render_status(document)
    assert "COMMITS HANG" not in render_status(replace(document, oldest_commit_s=0.1))
