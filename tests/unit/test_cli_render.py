"""Documents and tables from the engine's values: unknown stays unknown, nothing is lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.cli.render import render_knobs, render_set, render_status, waiting_words
from replexplorer.core.dialect.capabilities import Capabilities, Range
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.catalogue import MIB
from replexplorer.core.knobs.knob_view import KnobView
from replexplorer.core.knobs.names import BY_KEY, CATALOGUE, KnobName, Value, defaults
from replexplorer.core.link import LinkSettings
from replexplorer.core.link_view import LinkView
from replexplorer.core.server.disk_view import DiskView
from replexplorer.core.server.node_view import NodeView, ThreadError
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.system import ASYNC
from replexplorer.core.text import folded, number, table
from replexplorer.core.topology import SOURCE, Role
from replexplorer.engine.outcome import Changed, SetResult
from replexplorer.formats.json.status import Status
from replexplorer.formats.json.text import to_json
from replexplorer.reports.documents import knob_document, set_report, status_document
from tests.fakes.servers import MYSQL_9

KNOBS = {name: KnobView(name, value, value) for name, value in defaults(["db2"]).items()}


def everything_down() -> Status:
    return status_document(
        stack="s",
        state="down",
        nodes=[
            NodeView("db1", "primary", reachable=False, is_source=True),
            NodeView("db2", "replica", reachable=False),
        ],
        protection=Protection(ProtectionState.DOWN, requested=True),
        links=[LinkView("db2")],
        disks=[DiskView("db1"), DiskView("db2")],
        knobs={name: KnobView(name, view.requested, None) for name, view in KNOBS.items()},
    )


def test_a_stack_of_which_everything_is_down_is_a_whole_document() -> None:
    document = json.loads(to_json(everything_down()))
    assert list(document) == [
        "stack",
        "system",
        "state",
        "nodes",
        "hosts",
        "protection",
        "links",
        "disks",
        "exposure",
        "oldest_commit_s",
        "load",
        "footprint_bytes",
        "knobs",
        "faults",
    ]
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


def test_unknown_figures_are_dashes_for_people() -> None:
    text = render_status(everything_down())
    assert "DOWN: no login to the primary" in text
    assert "not measured" in text
    assert "KNOB" not in text


def test_status_names_the_knobs_that_are_not_at_rest() -> None:
    name = KnobName("rtt", "db2")
    settings = LinkSettings(85.0, loss_percent=1.0, bandwidth_bps=20_000_000, partition="ack")
    status = status_document(
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
                congestion="reno",
            )
        ],
        disks=[DiskView("db1", 2.0, 2.0, 2.31, 14, 0.12, fsyncs={"redo": 3, "binlog": 4})],
        knobs=KNOBS | {name: KnobView(name, 85.0, 85.0)},
        driver="tui (pid 7)",
        load={"clients": 3, "load_mode": "open", "rate": 200.0, "workload": "insert"},
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


def test_status_names_a_knob_that_somebody_set_behind_its_back() -> None:
    here, there = KnobName("sync_binlog", SOURCE), KnobName("innodb_flush_log_at_trx_commit", SOURCE)
    rest = KnobName("sync_relay_log", "db2")
    views = {
        here: KnobView(here, 1, 0),
        there: KnobView(there, 2, 2),
        rest: KnobView(rest, 10_000, 10_000),
    }
    status = status_document(
        stack="default",
        state="up",
        nodes=[],
        protection=Protection(ProtectionState.OFF, requested=False),
        links=[],
        disks=[],
        knobs=views,
    )
    _, listed = render_status(status).split("IN EFFECT\n")
    *rows, remedy = listed.splitlines()
    assert [line.split(maxsplit=2) for line in rows] == [
        ["sync_binlog", "1", "0, not as requested"],
        ["innodb_flush_log_at_trx_commit", "2", "2"],
    ]
    assert remedy == "not in force: sync_binlog; `replexplorer up` sets it again"
    assert "not in force" not in render_status(status, mends=False)


@pytest.mark.parametrize(
    ("driver", "load", "line"),
    [
        (None, {}, "none runs"),
        (None, None, "not known"),
        ("tui (pid 7)", {}, "none runs; tui (pid 7) is to drive it"),
        ("tui (pid 7)", None, "driven by tui (pid 7), which does not say more"),
        (
            "load (pid 9)",
            {"clients": 1, "load_mode": "closed", "rate": 500.0, "workload": "foo"},
            "1 client, closed, foo, driven by load (pid 9)",
        ),
    ],
)
def test_the_load_that_runs_is_told_and_never_guessed(
    driver: str | None, load: dict[str, float | str] | None, line: str
) -> None:
    status = status_document(
        stack="s",
        state="up",
        nodes=[],
        protection=Protection(ProtectionState.OFF, requested=False),
        links=[],
        disks=[],
        knobs={},
        driver=driver,
        load=load,
    )
    assert f"load        {line}" in render_status(status).splitlines()
    assert (status.load.clients is None) == (load is None)


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
        status_document(
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


@pytest.mark.parametrize(
    ("took_ms", "line"),
    [
        (12_200.0, "in effect 12.2 s after the command began; 4.4 s of that to start and connect"),
        (1_400.0, None),
        (None, None),
    ],
)
def test_a_set_says_what_else_the_user_waited_for(took_ms: float | None, line: str | None) -> None:
    """542 ms were told of a command that took 12.2 s."""
    healed = Changed(KnobName("partition", "db2"), "both", "none", "none", 542.0)
    report = set_report(SetResult(changed=(healed,)), "db1", took_ms)
    assert report.took_ms == took_ms
    assert waiting_words(report, 4.4) == line
    assert waiting_words(set_report(SetResult(changed=()), "db1", took_ms), 4.4) is None


def test_get_and_status_know_the_server_s_own_default() -> None:
    """MariaDB comes with after_commit: that is nothing turned there, and after_sync is."""
    name = KnobName("wait_point", SOURCE)
    for flavor, usual, other in (
        ("mysql", "after_sync", "after_commit"),
        ("mariadb", "after_commit", "after_sync"),
    ):
        shown = knob_document(KnobView(name, other, other, flavor=flavor), "db1")
        assert shown.default == usual
        assert f" {usual.upper()} " in render_knobs({str(name): shown})
        for value in (usual, other):
            status = status_document(
                stack="default",
                state="up",
                nodes=[NodeView("db1", Role.PRIMARY, reachable=True, flavor=flavor, is_source=True)],
                protection=Protection(ProtectionState.OFF, requested=False),
                links=[],
                disks=[],
                knobs={name: KnobView(name, value, value, flavor=flavor)},
            )
            assert (str(name) in render_status(status)) == (value == other)


def test_get_tells_all_that_the_catalogue_knows() -> None:
    for name, view in KNOBS.items():
        document = knob_document(view, "db1")
        node = "db1" if name.node == SOURCE else name.node
        assert (document.default, document.node, document.help) == (view.requested, node, name.knob.help)
    sync_binlog = knob_document(KNOBS[KnobName("sync_binlog", SOURCE)], "db1").model_dump()
    expected = {
        "min": 0,
        "max": 4294967295,
        "unit": "groups",
        "scope": "global",
        "restart": "none",
        "note": None,
    }
    assert {key: sync_binlog[key] for key in expected} == expected


def test_get_has_the_range_of_the_server_that_was_asked() -> None:
    """MySQL takes no flush=3, and before 8.0.30 no detect_only."""
    flush, doublewrite = (
        KnobName(key, SOURCE) for key in ("innodb_flush_log_at_trx_commit", "innodb_doublewrite")
    )
    server = Capabilities.of(
        MYSQL_9, {flush.key: Range(0, 2), doublewrite.key: Range(None, None, words=("off", "on"))}
    )
    knobs = {
        str(name): knob_document(KnobView(name, value, value, here=server.narrowed(name.key)), "db1")
        for name, value in ((flush, 1), (doublewrite, "on"))
    }
    assert (knobs[str(flush)].min, knobs[str(flush)].max) == (0, 2)
    assert knobs[str(doublewrite)].choices == ["off", "on"]
    shown = render_knobs(knobs)
    assert " 0 to 2 " in shown
    assert " off or on " in shown
    anywhere = render_knobs({str(flush): knob_document(KnobView(flush, 1, 1), "db1")})
    assert "0 to 2; MariaDB also 3" in anywhere


@pytest.mark.parametrize(
    ("key", "flavor", "server", "shown"),
    [
        ("sync_binlog", "mysql", 1, " 1 "),
        ("sync_binlog", "mariadb", 0, " 1 (server: 0) "),
        ("binlog_format", "mariadb", "mixed", " ROW (server: MIXED) "),
        ("innodb_redo_log_capacity", "mysql", 100 * MIB, " 96 MiB (server: 100 MiB) "),
        ("innodb_log_writer_threads", "mysql", None, " off "),
        ("fsync_delay", "mysql", None, " 0 ms "),
        ("sync_binlog", None, None, " 1 "),
    ],
)
def test_a_default_of_the_stack_that_is_not_the_server_s_has_both(
    key: str, flavor: str | None, server: Value | None, shown: str
) -> None:
    name = KnobName(key, SOURCE)
    begins = name.knob.default_of(flavor)
    document = knob_document(KnobView(name, begins, begins, flavor=flavor), "db1")
    assert document.server_default == server
    assert shown in render_knobs({key: document})


def test_columns_that_do_not_fit_are_left_out_from_the_right() -> None:
    knobs = {str(name): knob_document(view, "db1") for name, view in KNOBS.items() if ASYNC.has(name.knob)}
    whole = render_knobs(knobs)
    assert "DOES" in whole
    assert len(whole.splitlines()) == len(knobs) + 1
    narrow = render_knobs(knobs, 100)
    assert max(map(len, narrow.splitlines())) <= 100
    assert narrow.splitlines()[0].split()[:4] == ["KNOB", "REQUESTED", "IN", "EFFECT"]
    assert "DOES" not in narrow


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
    )
    report = set_report(result, "db1")
    assert json.loads(to_json(report))["changed"][0] == {
        "key": "sync_binlog",
        "node": "db1",
        "name": "sync_binlog",
        "before": 1,
        "requested": 0,
        "effective": 0,
        "took_ms": 1.2,
        "statements": list(both),
        "note": None,
        "measured_ms": None,
    }
    text = render_set(report, ["wait_point"])
    assert text.count("SET GLOBAL sync_binlog = 0;") == 1
    assert "clients: 32 from the next load on (no load runs)" in text
    assert text.endswith("wait_point: unchanged")


def test_a_set_tells_asked_and_measured() -> None:
    change = Changed(KnobName("fsync_delay", SOURCE), 0.0, 2.0, 2.0, 51.0, measured_ms=2.318)
    text = render_set(set_report(SetResult(changed=(change,)), "db1"))
    assert text == "fsync_delay: 0 ms -> 2 ms, in effect 2 ms, measured 2.32 ms, 51 ms"


def test_many_that_are_already_so_are_counted() -> None:
    report = set_report(SetResult(changed=()), "db1")
    assert render_set(report, [knob.key for knob in CATALOGUE]) == f"{len(CATALOGUE)} knobs: unchanged"


def test_a_dry_run_promises_nothing() -> None:
    change = Changed(KnobName("rtt", "db2"), 0.0, 85.0, None, 0.0)
    text = render_set(set_report(SetResult(changed=(change,), dry_run=True), "db1"))
    assert text == "rtt@db2: 0 ms -> 85 ms, not run"


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


@given(
    st.lists(
        st.lists(st.text(st.characters(codec="ascii", exclude_categories=["C"])), min_size=3, max_size=3)
    )
)
def test_a_tables_columns_stand_below_each_other(rows: list[list[str]]) -> None:
    lines = table(rows, ("ONE", "TWO", "THREE")).split("\n")
    widths = [max(len(row[column]) for row in [("ONE", "TWO", "THREE"), *rows]) for column in range(2)]
    for line, row in zip(lines[1:], rows, strict=True):
        padded = line.ljust(widths[0] + widths[1] + 4)
        assert padded[: widths[0]].rstrip() == row[0].rstrip()
        assert padded[widths[0] + 2 : widths[0] + 2 + widths[1]].rstrip() == row[1].rstrip()


def test_an_unknown_number_is_a_dash() -> None:
    assert (number(None), number(0.0), number(1234.56)) == ("-", "0.0", "1,234.6")
    assert BY_KEY["rtt"].unit == "ms"


def test_status_fits_80_columns_and_loses_no_word() -> None:
    whole, folded = render_status(everything_down()), render_status(everything_down(), 80)
    assert all(len(line) <= 80 for line in folded.splitlines())
    assert folded.split() == whole.split()


def test_a_long_line_is_cut_between_words_and_indented() -> None:
    assert folded("a few words and more of them", 12) == "a few words\n  and more\n  of them"
    assert folded("a few words", None) == folded("a few words", 12) == "a few words"


def test_commits_that_hang_are_told_with_what_is_known_of_why() -> None:
    full = Fault(1, "disk_full", None, "db1", 1_760_000_000.0, None, "fault (pid 7)", {})
    for faults, why in (((), ""), ((full,), ": the disk is full, and the server tries its write again")):
        document = status_document(
            stack="default",
            state="up",
            nodes=[NodeView("db1", "primary", reachable=True, is_source=True)],
            protection=Protection(ProtectionState.PROTECTED, requested=True, replicas_required=1),
            links=[],
            disks=[],
            knobs={},
            faults=faults,
            oldest_commit_s=36.4,
        )
        text = render_status(document)
        assert f"COMMITS HANG: the oldest under way waits 36 s{why}" in " ".join(text.split())
        assert "COMMITS HANG" not in render_status(document.model_copy(update={"oldest_commit_s": 0.1}))
