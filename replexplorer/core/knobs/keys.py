"""The keys of the knobs that some rule is about, each spelled here alone.

Law: what goes over knobs asks their rows in the catalogue and knows none by name. A rule about one knob (the
model's, a warning's, the link's arithmetic) takes its key from here, so whoever knows a knob can be found.
"""

from __future__ import annotations

from typing import Final

RTT: Final = "rtt"
JITTER: Final = "jitter"
LOSS: Final = "loss"
BANDWIDTH: Final = "bandwidth"
DELAY_TO_REPLICA: Final = "delay_to_replica"
DELAY_TO_PRIMARY: Final = "delay_to_primary"
PARTITION: Final = "partition"
SEMI_SYNC: Final = "semi_sync"
WAIT_POINT: Final = "wait_point"
SEMI_SYNC_TIMEOUT: Final = "semi_sync_timeout"
SEMI_SYNC_REPLICAS: Final = "semi_sync_replicas"
GROUP_REPLICATION_SINGLE_PRIMARY_MODE: Final = "group_replication_single_primary_mode"
SYNC_BINLOG: Final = "sync_binlog"
INNODB_FLUSH_LOG_AT_TIMEOUT: Final = "innodb_flush_log_at_timeout"
INNODB_FLUSH_LOG_AT_TRX_COMMIT: Final = "innodb_flush_log_at_trx_commit"
INNODB_DOUBLEWRITE: Final = "innodb_doublewrite"
BINLOG_GROUP_COMMIT_SYNC_DELAY: Final = "binlog_group_commit_sync_delay"
BINLOG_GROUP_COMMIT_SYNC_NO_DELAY_COUNT: Final = "binlog_group_commit_sync_no_delay_count"
BINLOG_COMMIT_WAIT_COUNT: Final = "binlog_commit_wait_count"
BINLOG_COMMIT_WAIT_USEC: Final = "binlog_commit_wait_usec"
REPLICA_PARALLEL_WORKERS: Final = "replica_parallel_workers"
FSYNC_DELAY: Final = "fsync_delay"
FSYNC_DELAY_REDO: Final = "fsync_delay_redo"
FSYNC_DELAY_BINLOG: Final = "fsync_delay_binlog"
FSYNC_JITTER: Final = "fsync_jitter"
UNDO_JOURNAL: Final = "undo_journal"
CLIENTS: Final = "clients"
LOAD_MODE: Final = "load_mode"
RATE: Final = "rate"
WORKLOAD: Final = "workload"
KEY_SPREAD: Final = "key_spread"
PAYLOAD: Final = "payload"
