"""Answers of servers to the probes, as they were seen (docs/explanation/semi-sync.md, commit-cost.md)."""

from __future__ import annotations

from collections.abc import Mapping

from replexplorer.core.dialect.mysql import MySql
from tests.typed import table_of


def variables(text: str) -> dict[str, str]:
    """The name and the value in each line, as a client prints them."""
    pairs = (line.partition(" ") for line in text.splitlines())
    return {name: value for name, _, value in pairs}


MYSQL_9 = variables("""\
version 9.7.4-2
version_comment (Debian)
server_uuid 5f1c6a56-0000-11f0-8000-000000000001
rpl_semi_sync_source_enabled OFF
rpl_semi_sync_source_wait_point AFTER_SYNC
rpl_semi_sync_source_timeout 10000
rpl_semi_sync_source_wait_for_replica_count 1
rpl_semi_sync_source_wait_no_replica ON
rpl_semi_sync_replica_enabled ON
sync_binlog 1
innodb_flush_log_at_trx_commit 1
innodb_flush_log_at_timeout 1
innodb_doublewrite ON
binlog_group_commit_sync_delay 0
binlog_group_commit_sync_no_delay_count 0
binlog_order_commits ON
binlog_row_image FULL
binlog_format ROW
binlog_transaction_compression OFF
replication_sender_observe_commit_only OFF
replication_optimize_for_static_plugin_config OFF
innodb_buffer_pool_size 134217728
innodb_redo_log_capacity 100663296
innodb_log_writer_threads OFF
sql_generate_invisible_primary_key OFF
sync_relay_log 10000
replica_parallel_workers 4
replica_preserve_commit_order ON
""")
RANGES_9 = [
    dict(zip(("name", "low", "high"), row, strict=True))
    for row in table_of("""\
replica_parallel_workers | 1 | 1024
rpl_semi_sync_source_timeout | 0 | 18446744073709551615
sync_binlog | 0 | 4294967295
innodb_doublewrite | |
""")
]
_NEWER_NAMES = (
    "rpl_semi_sync", "replica_", "binlog_transaction_compression", "innodb_redo_log_",
    "innodb_log_writer_", "sql_generate_",
)  # fmt: skip
_OLDER = {name: value for name, value in MYSQL_9.items() if not name.startswith(_NEWER_NAMES)}
MYSQL_57 = _OLDER | variables("""\
version 5.7.44-log
version_comment MySQL Community Server (GPL)
rpl_semi_sync_master_enabled OFF
rpl_semi_sync_master_wait_point AFTER_SYNC
rpl_semi_sync_master_timeout 10000
rpl_semi_sync_master_wait_for_slave_count 1
rpl_semi_sync_master_wait_no_slave ON
rpl_semi_sync_slave_enabled ON
slave_parallel_workers 0
slave_preserve_commit_order OFF
""")
MARIADB = variables("""\
version 10.11.19-MariaDB-log
version_comment Debian n/a
rpl_semi_sync_master_enabled OFF
rpl_semi_sync_master_wait_point AFTER_COMMIT
rpl_semi_sync_master_timeout 10000
rpl_semi_sync_master_wait_no_slave ON
rpl_semi_sync_slave_enabled OFF
sync_binlog 0
innodb_flush_log_at_trx_commit 1
innodb_flush_log_at_timeout 1
innodb_doublewrite ON
binlog_commit_wait_usec 100000
binlog_commit_wait_count 0
binlog_row_image FULL
binlog_format MIXED
sync_relay_log 10000
slave_parallel_threads 0
""")
GROUP_9 = MYSQL_9 | variables("""\
group_replication_group_name aa
group_replication_consistency BEFORE_ON_PRIMARY_FAILOVER
group_replication_single_primary_mode ON
""")
"""A server with the plugin, loaded."""
GALERA_11 = variables("""\
version 11.8.9-MariaDB-4 from Debian-log
version_comment Debian
wsrep_on ON
wsrep_sync_wait 0
wsrep_provider_gcs_fc_limit 16
wsrep_provider_evs_suspect_timeout 5.000000
rpl_semi_sync_master_enabled OFF
sync_binlog 1
""")


def rows(values: Mapping[str, str]) -> list[dict[str, str]]:
    """As `SHOW GLOBAL VARIABLES` answers."""
    return [{"Variable_name": name, "Value": value} for name, value in values.items()]


def mysql_9() -> MySql:
    """The dialect of a server of our own image."""
    return MySql.of(MYSQL_9, MySql.ranges.read(RANGES_9))
