"""`attach` on real servers as foreign ones: watched, changed, killed, reverted."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replexplorer.ui.actions import keys_of
from tests.documents import document
from tests.integration.attaching import TLS, change_kill_and_revert, outsider, variables
from tests.integration.conftest import PREFIX, LiveStack
from tests.integration.own_ca import shown_by
from tests.integration.test_terminal import Dashboard
from tests.waiting import until

pytestmark = pytest.mark.docker

CHANGES = (
    "semi_sync=on",
    "wait_point=after_commit",
    "semi_sync_timeout=5000",
    "wait_no_replica=off",
    "sync_binlog=100",
    "innodb_flush_log_at_trx_commit=2",
    "innodb_flush_log_at_timeout=5",
    "innodb_doublewrite=detect_only",
    "binlog_group_commit_sync_delay=100",
    "binlog_group_commit_sync_no_delay_count=7",
    "binlog_order_commits=off",
    "binlog_row_image=minimal",
    "binlog_transaction_compression=on",
    "replication_sender_observe_commit_only=on",
    "replication_optimize_for_static_plugin_config=on",
    "sql_generate_invisible_primary_key=on",
    "innodb_log_writer_threads=on",
    "sync_binlog@replica=50",
    "innodb_flush_log_at_trx_commit@replica=0",
    "sync_relay_log@replica=77",
)


async def test_their_servers_are_watched_and_left_as_they_are(live_stack: LiveStack, tmp_path: Path) -> None:
    shell = await outsider(live_stack, tmp_path)
    before = await variables(live_stack)
    executed = await live_stack.value("db1", "SELECT @@GLOBAL.gtid_executed")

    status = shell.json("attach", TLS, apart=True)
    assert [(node.role, node.reachable) for node in status.nodes] == [("primary", True), ("replica", True)]
    assert (status.nodes[1].io_thread, status.nodes[1].lag_s) == ("on", 0.0)
    assert (status.links, status.disks, status.protection.state) == ([], [], "off")
    assert (status.knobs["sync_binlog"].requested, status.knobs["sync_binlog"].effective) == (None, 1)
    told = shell.run("attach", TLS).stdout
    assert "ASYNC" in told
    assert "would lose  mysqld dies: nothing" in told

    refused = shell.run("attach")
    assert "certificate" in refused.stderr, "off the loopback what signs itself is not trusted"
    assert "no replica was reached" in refused.stderr

    asks = shell.run(
        "attach", TLS, "--allow-changes", "--set", CHANGES[0], code=4, REPLEXPLORER_ATTACH_ALLOWED="[]"
    )
    assert "its name has to be typed" in asks.stderr

    assert await variables(live_stack) == before
    assert await live_stack.value("db1", "SELECT @@GLOBAL.gtid_executed") == executed


async def test_twenty_changes_are_reverted_after_kill_9(live_stack: LiveStack, tmp_path: Path) -> None:
    shell = await outsider(live_stack, tmp_path)
    report = await change_kill_and_revert(live_stack, shell, *CHANGES)
    (source,) = report.reverted
    assert {row.fate for row in source.variables} == {"restored"}
    assert len(source.variables) == len(CHANGES)


async def test_a_signal_undoes_what_was_changed(live_stack: LiveStack, tmp_path: Path) -> None:
    shell = await outsider(live_stack, tmp_path)
    before = await variables(live_stack)
    with shell.started("attach", TLS, "--allow-changes", "--json", "--set", "sync_binlog=9") as attach:
        attach.until_said("at Ctrl-C", within_s=60)
        assert await live_stack.value("db1", "SELECT @@GLOBAL.sync_binlog") == 9
        assert "is changing these servers" in shell.run("revert", code=4).stderr, (
            "one that runs is left alone"
        )
        attach.send_signal(signal.SIGHUP)
        assert attach.ends() == 128 + signal.SIGHUP
        changes = document(attach.printed())
    assert [(each.variable, each.fate) for each in changes.undone] == [("sync_binlog", "restored")]
    assert await variables(live_stack) == before


async def test_the_dashboard_shows_their_counters_and_undoes_what_it_turned(
    live_stack: LiveStack, tmp_path: Path
) -> None:
    shell = await outsider(live_stack, tmp_path)
    before = await variables(live_stack)
    shown = Dashboard("default", "attach", TLS, "--allow-changes", environment=shell.environment)
    with closing(shown):
        shown.until(lambda screen: "server's counters" in screen, "whose counters these are", within_s=60)
        shown.press(keys_of("semisync.toggle", {})[0])

        async def is_on() -> object:
            shown.read(0.05)
            return await live_stack.value("db1", "SELECT @@GLOBAL.rpl_semi_sync_source_enabled")

        await until(is_on, "semi-sync is on", within_s=30)
        shown.press(keys_of("app.quit", {})[0])
        assert shown.end(within_s=60) == 0
    assert await variables(live_stack) == before


async def test_a_certificate_is_verified_where_that_is_asked_for(
    live_stack: LiveStack, docker_client: Any, tmp_path: Path
) -> None:
    shell = await outsider(live_stack, tmp_path)
    async with shown_by(live_stack, docker_client, tmp_path):
        for mode in ("VERIFY_CA", "VERIFY_IDENTITY"):
            own, other = (
                ("attach", f"--ssl-mode={mode}", f"--ssl-ca={tmp_path / name}")
                for name in ("own.pem", "other.pem")
            )
            assert shell.json(*own, apart=True).nodes[0].reachable
            refused = shell.run(*other, code=4).stderr
            assert "name its certificate authority with --ssl-ca=FILE" in refused


async def test_a_stack_is_made_like_their_servers(live_stack: LiveStack, tmp_path: Path) -> None:
    shell, ours = await outsider(live_stack, tmp_path), f"{PREFIX}-like"
    source = (await live_stack.stack.nodes())[0]
    words = ("up", TLS, "--like", f"mysql://127.0.0.1:{source.published_port}", "--for=2s", "--stack", ours)
    async with live_stack.session("db1") as cursor:
        await cursor.execute("SET GLOBAL sync_binlog = 7")
        try:
            found = {row.setting: row for row in shell.json(*words, apart=True)}
            row = found["sync_binlog"]
            assert (row.theirs, row.here, row.sure) == (7, 7, "exact")
            assert found["rtt@db2"].sure == "estimated"
            redo = found["redo_fsync"]
            assert redo.theirs > 0
            assert redo.sure in ("estimated", "measured", "not possible here"), (
                "the same disk, at two moments"
            )
            assert f"stack '{ours}' already exists" in shell.run(*words, code=2).stderr
        finally:
            await cursor.execute("SET GLOBAL sync_binlog = 1")
            shell.run("down", "--stack", ours, "--yes")
