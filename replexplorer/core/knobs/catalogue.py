"""The catalogue: every setting that an operator can turn, one row a knob.

Law: the planner, the panel, the command line, the help and docs/knobs.md are drawn from
`CATALOGUE`; nothing else knows a knob's range, node, variable or risk, and what goes over knobs asks
their rows. A rule about one knob takes its key from keys.py. A knob whose backing is not built is absent.
A value is a number or a lower-case word (`on`, `after_sync`); which of these a server has is probed
(core/dialect/capabilities.py), never guessed. Ranges are the widest of any server (docs/facts.md, names,
variables and durability); what a server says of itself narrows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from replexplorer.core.knobs import keys

Value = int | float | str
"""What a knob holds: a count, a duration in the knob's unit, or a lower-case word."""


class Group(StrEnum):
    """The panel's headings, in their order."""

    LINK = "link"
    SEMI_SYNC = "semi-sync"
    DURABILITY = "durability"
    BINLOG = "binlog"
    REPLICA = "replica"
    DISK = "disk"
    LOAD = "load"
    SERVER = "server"
    """What is turned seldom of a server and of what stands in front of its disk."""


class Kind(StrEnum):
    """How a knob's value is written and checked."""

    CHOICE = "choice"
    INT = "int"
    FLOAT = "float"


class Place(StrEnum):
    """Which nodes a bare key addresses."""

    SOURCE = "source"
    """The source: bare keys go to the primary, `key@node` to a replica where it makes sense."""
    REPLICAS = "replicas"
    """Each replica has its own value: names are always `key@node`."""
    LOAD = "load"
    """The background load: one value a stack."""


class Backing(StrEnum):
    """What carries the knob out."""

    SERVER = "global"
    """SET GLOBAL on a server."""
    LINK = "link"
    """The agents at both ends of a link."""
    DISK = "disk"
    """The agent beside the server, through the shim in front of its fsyncs."""
    LOAD = "load"
    """The load's own process."""


class Restart(StrEnum):
    """What has to be restarted around the change, so that it takes effect."""

    NONE = "none"
    APPLIER = "applier"
    """STOP/START REPLICA SQL_THREAD on that replica."""
    SESSIONS = "sessions"
    """New sessions of the load: the variable is copied into a session when it begins."""


ON_OFF: Final = ("off", "on")
"""The words of a switch."""
_TRUE: Final = frozenset({"on", "1", "true", "yes", "enabled"})
_FALSE: Final = frozenset({"off", "0", "false", "no", "disabled"})


@dataclass(frozen=True, slots=True)
class Knob:
    """One row of the catalogue."""

    key: str
    """The name that is typed: the server's own variable name where it has one."""
    label: str
    """At most 15 characters, for the panel."""
    group: Group
    kind: Kind
    place: Place
    backing: Backing
    default: Value
    help: str
    """One sentence: what it does."""
    unit: str = ""
    """Unit of the value: `ms`, `us`, `s`, `B` (a size), `commits`, `clients`; empty for words and plain
    counts."""
    choices: tuple[str, ...] = ()
    """The words of a CHOICE, in ladder order."""
    synonyms: tuple[tuple[str, str], ...] = ()
    """Words that mean one of the choices to the server, each with its choice: it reads back as that."""
    words: tuple[tuple[str, Value], ...] = ()
    """Words that a number may be given as, each with its value; the first of a value is how it is written."""
    minimum: float | None = None
    maximum: float | None = None
    multiple: int = 1
    """Of what a whole number must be a multiple: a server rounds any other silently."""
    below_minimum: str = ""
    """Why a value below the minimum is refused, when that is more than a range."""
    ladder: tuple[Value, ...] = ()
    """The values that the arrow keys walk through; a CHOICE walks its choices."""
    restart: Restart = Restart.NONE
    risk: str = ""
    """What is lost, after the values that lose it, `not 1:` or `after_commit:`; without such a head any but
    the default does. Empty when none loses anything."""
    variables: tuple[str, ...] = ()
    """Server variables that carry it, newest name first; the server has one of them or lacks the knob."""
    aliases: tuple[str, ...] = ()
    """Other names that are accepted on input."""
    files: bool = False
    """Besides its words it takes a file of SQL: a path, or a name that ends with `.sql`."""
    extra_nodes: bool = False
    """A SOURCE knob that a replica has as well (`key@node`)."""
    seldom: bool = False
    """Turned seldom: the panel has it behind its heading's last line while it is at its default."""
    beyond_model: bool = False
    """It changes what a commit takes, and the model does not look at it."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """Every name that is accepted for it on input, its own first."""
        return tuple(dict.fromkeys((self.key, *self.aliases, *self.variables)))

    def is_file(self, text: str) -> bool:
        """Whether a user's file is meant."""
        return self.files and ("/" in text or text.endswith(".sql"))

    def word(self, text: str) -> str:
        """The word as it is kept: lower-case, synonyms resolved, whatever means on or off as that."""
        word = text.strip().lower().replace("-", "_")
        if set(ON_OFF) <= set(self.choices):
            word = "on" if word in _TRUE else "off" if word in _FALSE else word
        return dict(self.synonyms).get(word, word)

    @property
    def steps(self) -> tuple[Value, ...]:
        """The values that the arrow keys walk through, in order."""
        return self.ladder or self.choices


_HALF_OF_RTT: Final = tuple((word, "auto") for word in ("auto", "off", "none", "default"))
_AS_FSYNC_DELAY: Final = tuple((word, "auto") for word in ("auto", "default"))
_NO_LIMIT: Final = tuple((word, 0) for word in ("unlimited", "0", "off", "none"))


MIB: Final = 1 << 20
"""Bytes."""
_POOL_CHUNK: Final = 8 * MIB
"""innodb_buffer_pool_chunk_size, as my.cnf of the stack's servers has it: the pool is whole chunks."""


def _semi_sync_names(suffix: str, *, maria: str = "") -> tuple[str, ...]:
    """Both generations of a source-side semi-sync variable (docs/facts.md, "Semi-sync: variables")."""
    old = maria or suffix
    return (f"rpl_semi_sync_source_{suffix}", f"rpl_semi_sync_master_{old}")


CATALOGUE: Final[tuple[Knob, ...]] = (
    Knob(
        keys.RTT,
        "rtt",
        Group.LINK,
        Kind.FLOAT,
        Place.REPLICAS,
        Backing.LINK,
        0.0,
        "Total round-trip time between the primary and this replica; clients are not slowed.",
        unit="ms",
        minimum=0,
        maximum=5000,
        ladder=(0, 1, 2, 5, 10, 25, 50, 85, 150, 300, 1000),
    ),
    Knob(
        keys.JITTER,
        "jitter",
        Group.LINK,
        Kind.FLOAT,
        Place.REPLICAS,
        Backing.LINK,
        0.0,
        "Standard deviation of the round trip, normal; packets keep their order.",
        unit="ms",
        minimum=0,
        maximum=2000,
        ladder=(0, 0.5, 1, 2, 5, 10, 20, 50),
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        keys.LOSS,
        "loss",
        Group.LINK,
        Kind.FLOAT,
        Place.REPLICAS,
        Backing.LINK,
        0.0,
        "Packets lost in each direction, each on its own; TCP sends them again.",
        unit="%",
        minimum=0,
        maximum=100,
        ladder=(0, 0.1, 0.5, 1, 2, 5, 10, 25, 100),
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        keys.BANDWIDTH,
        "bandwidth",
        Group.LINK,
        Kind.INT,
        Place.REPLICAS,
        Backing.LINK,
        0,
        "Bits a second in each direction.",
        unit="bit/s",
        words=_NO_LIMIT,
        minimum=10_000,
        maximum=100_000_000_000,
        ladder=(1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 100_000_000, 1_000_000_000, 0),
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        keys.DELAY_TO_REPLICA,
        "to replica",
        Group.LINK,
        Kind.FLOAT,
        Place.REPLICAS,
        Backing.LINK,
        "auto",
        "One-way delay from the primary to this replica, instead of half the rtt; between two"
        " replicas, from the first by name to the second.",
        unit="ms",
        words=_HALF_OF_RTT,
        minimum=0,
        maximum=5000,
        ladder=("auto", 0, 1, 5, 10, 25, 50, 100, 300),
        seldom=True,
    ),
    Knob(
        keys.DELAY_TO_PRIMARY,
        "to primary",
        Group.LINK,
        Kind.FLOAT,
        Place.REPLICAS,
        Backing.LINK,
        "auto",
        "One-way delay from this replica to the primary, instead of half the rtt; between two"
        " replicas, from the second by name to the first.",
        unit="ms",
        words=_HALF_OF_RTT,
        minimum=0,
        maximum=5000,
        ladder=("auto", 0, 1, 5, 10, 25, 50, 100, 300),
        seldom=True,
    ),
    Knob(
        keys.PARTITION,
        "partition",
        Group.LINK,
        Kind.CHOICE,
        Place.REPLICAS,
        Backing.LINK,
        "none",
        "Lose all packets: both ways, the acknowledgements' way (ack) or the events' way (dump).",
        choices=("none", "ack", "dump", "both"),
        synonyms=(("off", "none"), ("0", "none"), ("false", "none"), ("no", "none"), ("on", "both")),
        risk="under semi-sync, commits wait until the timeout; then the source falls back to async",
    ),
    Knob(
        keys.SEMI_SYNC,
        "semi-sync",
        Group.SEMI_SYNC,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "off",
        "A commit waits until a replica has acknowledged its events.",
        choices=ON_OFF,
        variables=_semi_sync_names("enabled"),
        aliases=("semisync",),
    ),
    Knob(
        keys.WAIT_POINT,
        "wait point",
        Group.SEMI_SYNC,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "after_sync",
        "Wait before the engine commits (after_sync) or after it, when others already see the row.",
        choices=("after_sync", "after_commit"),
        variables=_semi_sync_names("wait_point"),
        risk="after_commit: others can read a row that a failover loses",
    ),
    Knob(
        keys.SEMI_SYNC_TIMEOUT,
        "timeout",
        Group.SEMI_SYNC,
        Kind.INT,
        Place.SOURCE,
        Backing.SERVER,
        10000,
        "How long a commit waits for its acknowledgement before the source falls back to async.",
        unit="ms",
        minimum=1,
        maximum=2**64 - 1,
        below_minimum="0 means never wait: semi_sync=off says that plainly",
        ladder=(100, 500, 1000, 3000, 10000, 30000, 60000, 3600000),
        variables=_semi_sync_names("timeout"),
    ),
    Knob(
        keys.SEMI_SYNC_REPLICAS,
        "acks needed",
        Group.SEMI_SYNC,
        Kind.INT,
        Place.SOURCE,
        Backing.SERVER,
        1,
        "How many replicas must acknowledge a commit.",
        unit="replicas",
        minimum=1,
        maximum=65535,
        ladder=(1, 2, 3),
        variables=_semi_sync_names("wait_for_replica_count", maria="wait_for_slave_count"),
    ),
    Knob(
        "wait_no_replica",
        "keep waiting",
        Group.SEMI_SYNC,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "on",
        "Wait the whole timeout even when too few replicas are connected; off: fall back at once.",
        choices=ON_OFF,
        variables=_semi_sync_names("wait_no_replica", maria="wait_no_slave"),
    ),
    Knob(
        keys.SYNC_BINLOG,
        "sync_binlog",
        Group.DURABILITY,
        Kind.INT,
        Place.SOURCE,
        Backing.SERVER,
        1,
        "Commit groups per binlog fsync; 0 leaves it to the operating system.",
        unit="commits",
        minimum=0,
        maximum=2**32 - 1,
        ladder=(0, 1, 10, 100, 1000),
        risk="not 1: a host crash may lose acknowledged commits",
        variables=("sync_binlog",),
        extra_nodes=True,
    ),
    Knob(
        keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT,
        "innodb_flush",
        Group.DURABILITY,
        Kind.INT,
        Place.SOURCE,
        Backing.SERVER,
        1,
        "Redo log at commit: 1 write and fsync, 2 write only, 0 neither (once a second).",
        minimum=0,
        maximum=2,
        ladder=(0, 1, 2),
        variables=("innodb_flush_log_at_trx_commit",),
        risk="not 1: a crash may lose the last second of commits",
        extra_nodes=True,
    ),
    Knob(
        "innodb_flush_log_at_timeout",
        "flush timeout",
        Group.DURABILITY,
        Kind.INT,
        Place.SOURCE,
        Backing.SERVER,
        1,
        "Seconds between redo fsyncs when commits do not fsync themselves.",
        unit="s",
        minimum=0,
        maximum=2700,
        ladder=(0, 1, 2, 5, 10),
        variables=("innodb_flush_log_at_timeout",),
        extra_nodes=True,
    ),
    Knob(
        keys.INNODB_DOUBLEWRITE,
        "doublewrite",
        Group.DURABILITY,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "on",
        "Write pages twice so that a torn page can be repaired; detect_only keeps no page contents.",
        choices=("off", "detect_only", "on"),
        synonyms=(("detect_and_recover", "on"),),
        ladder=("detect_only", "on"),
        variables=("innodb_doublewrite",),
        risk="detect_only: a torn page is found and not repaired",
        extra_nodes=True,
    ),
    Knob(
        keys.BINLOG_GROUP_COMMIT_SYNC_DELAY,
        "group delay",
        Group.BINLOG,
        Kind.INT,
        Place.SOURCE,
        Backing.SERVER,
        0,
        "Wait this long before a binlog fsync, so that more commits share it.",
        unit="us",
        minimum=0,
        maximum=1_000_000,
        ladder=(0, 100, 500, 1000, 5000, 20000),
        variables=("binlog_group_commit_sync_delay", "binlog_commit_wait_usec"),
    ),
    Knob(
        keys.BINLOG_GROUP_COMMIT_SYNC_NO_DELAY_COUNT,
        "group count",
        Group.BINLOG,
        Kind.INT,
        Place.SOURCE,
        Backing.SERVER,
        0,
        "End that wait early once this many commits are waiting; 0: never early.",
        unit="commits",
        minimum=0,
        maximum=100_000,
        ladder=(0, 2, 4, 8, 16, 32),
        variables=("binlog_group_commit_sync_no_delay_count", "binlog_commit_wait_count"),
    ),
    Knob(
        "binlog_order_commits",
        "order commits",
        Group.BINLOG,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "on",
        "Commit in the engine in binlog order; off lets the threads of a group commit on their own.",
        choices=ON_OFF,
        variables=("binlog_order_commits",),
    ),
    Knob(
        "binlog_row_image",
        "row image",
        Group.BINLOG,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "full",
        "How much of a row is written to the binlog.",
        choices=("minimal", "noblob", "full"),
        restart=Restart.SESSIONS,
        variables=("binlog_row_image",),
    ),
    Knob(
        "binlog_format",
        "binlog format",
        Group.BINLOG,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "row",
        "Rows, statements, or statements where they are safe; deprecated since 8.0.34.",
        choices=("row", "mixed", "statement"),
        restart=Restart.SESSIONS,
        variables=("binlog_format",),
        risk="statement: an unsafe statement may change other rows on the replica",
    ),
    Knob(
        "binlog_transaction_compression",
        "compression",
        Group.BINLOG,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "off",
        "Compress each transaction in the binlog and on the wire.",
        choices=ON_OFF,
        restart=Restart.SESSIONS,
        variables=("binlog_transaction_compression",),
    ),
    Knob(
        "replication_sender_observe_commit_only",
        "sender observes",
        Group.SERVER,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "off",
        "Threads that send the binlog call semi-sync's hooks at commits alone: fewer locks, many replicas.",
        choices=ON_OFF,
        variables=("replication_sender_observe_commit_only",),
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        "replication_optimize_for_static_plugin_config",
        "static plugins",
        Group.SERVER,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "off",
        "Calls semi-sync's hooks with cheaper locks; no plugin can be installed or removed while it is on.",
        choices=ON_OFF,
        variables=("replication_optimize_for_static_plugin_config",),
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        "sync_relay_log",
        "sync_relay_log",
        Group.REPLICA,
        Kind.INT,
        Place.REPLICAS,
        Backing.SERVER,
        10000,
        "Events per relay-log fsync on this replica; 1 makes each acknowledgement durable.",
        unit="events",
        minimum=0,
        maximum=2**32 - 1,
        ladder=(0, 1, 10, 100, 1000, 10000),
        variables=("sync_relay_log",),
        risk="not 1: a host crash may lose acknowledged events",
    ),
    Knob(
        "replica_parallel_workers",
        "applier workers",
        Group.REPLICA,
        Kind.INT,
        Place.REPLICAS,
        Backing.SERVER,
        4,
        "Threads that apply events on this replica.",
        unit="threads",
        minimum=0,
        maximum=1024,
        ladder=(1, 2, 4, 8, 16),
        restart=Restart.APPLIER,
        variables=("replica_parallel_workers", "slave_parallel_workers", "slave_parallel_threads"),
    ),
    Knob(
        "replica_preserve_commit_order",
        "commit order",
        Group.REPLICA,
        Kind.CHOICE,
        Place.REPLICAS,
        Backing.SERVER,
        "on",
        "Apply workers commit in the source's order.",
        choices=ON_OFF,
        restart=Restart.APPLIER,
        variables=("replica_preserve_commit_order", "slave_preserve_commit_order"),
    ),
    Knob(
        "slave_parallel_mode",
        "parallel mode",
        Group.REPLICA,
        Kind.CHOICE,
        Place.REPLICAS,
        Backing.SERVER,
        "optimistic",
        "What a MariaDB replica applies at once: the transactions of one group, or more, undone on conflict.",
        choices=("none", "minimal", "conservative", "optimistic", "aggressive"),
        restart=Restart.APPLIER,
        variables=("slave_parallel_mode",),
    ),
    Knob(
        keys.FSYNC_DELAY,
        "fsync delay",
        Group.DISK,
        Kind.FLOAT,
        Place.SOURCE,
        Backing.DISK,
        0.0,
        "Added to each fsync of this node's server, so that a disk's cost shows on any machine.",
        unit="ms",
        minimum=0,
        maximum=5000,
        ladder=(0, 0.5, 1, 2, 5, 10, 20, 50, 100),
        extra_nodes=True,
    ),
    Knob(
        keys.FSYNC_DELAY_REDO,
        "redo fsync",
        Group.SERVER,
        Kind.FLOAT,
        Place.SOURCE,
        Backing.DISK,
        "auto",
        "Added to each fsync of this node's redo log, instead of fsync_delay.",
        unit="ms",
        words=_AS_FSYNC_DELAY,
        minimum=0,
        maximum=5000,
        ladder=("auto", 0, 0.5, 1, 2, 5, 10, 20, 50, 100),
        extra_nodes=True,
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        keys.FSYNC_DELAY_BINLOG,
        "binlog fsync",
        Group.SERVER,
        Kind.FLOAT,
        Place.SOURCE,
        Backing.DISK,
        "auto",
        "Added to each fsync of this node's binlog, instead of fsync_delay.",
        unit="ms",
        words=_AS_FSYNC_DELAY,
        minimum=0,
        maximum=5000,
        ladder=("auto", 0, 0.5, 1, 2, 5, 10, 20, 50, 100),
        extra_nodes=True,
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        "fsync_jitter",
        "fsync jitter",
        Group.SERVER,
        Kind.FLOAT,
        Place.SOURCE,
        Backing.DISK,
        0.0,
        "Standard deviation of what is added to each fsync, normal; what would be below 0 is 0.",
        unit="ms",
        minimum=0,
        maximum=1000,
        ladder=(0, 0.1, 0.5, 1, 2, 5, 10, 20),
        extra_nodes=True,
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        "innodb_buffer_pool_size",
        "buffer pool",
        Group.SERVER,
        Kind.INT,
        Place.SOURCE,
        Backing.SERVER,
        128 * MIB,
        "Memory for pages of data and indexes; what does not fit is read from the disk.",
        unit="B",
        minimum=_POOL_CHUNK,
        maximum=2**40,
        multiple=_POOL_CHUNK,
        ladder=tuple(size * MIB for size in (8, 16, 32, 64, 128, 256, 512, 1024, 2048)),
        variables=("innodb_buffer_pool_size",),
        risk="where the machine has less free memory than that, the kernel kills a server",
        extra_nodes=True,
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        "innodb_redo_log_capacity",
        "redo capacity",
        Group.SERVER,
        Kind.INT,
        Place.SOURCE,
        Backing.SERVER,
        96 * MIB,
        "Room for the redo log; as it fills, changed pages are written out faster, and full, commits wait.",
        unit="B",
        minimum=8 * MIB,
        maximum=512 * 1024 * MIB,
        multiple=MIB,
        ladder=tuple(size * MIB for size in (8, 16, 32, 64, 96, 256, 1024, 4096)),
        variables=("innodb_redo_log_capacity",),
        extra_nodes=True,
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        "innodb_log_writer_threads",
        "log writers",
        Group.SERVER,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.SERVER,
        "off",
        "Threads of their own write and fsync the redo log; off: each committing session does it itself.",
        choices=ON_OFF,
        variables=("innodb_log_writer_threads",),
        extra_nodes=True,
        seldom=True,
        beyond_model=True,
    ),
    Knob(
        "undo_journal",
        "undo journal",
        Group.DISK,
        Kind.CHOICE,
        Place.SOURCE,
        Backing.DISK,
        "off",
        "Keeps what a power cut of this node's machine would lose, so that the fault power_cut can take it.",
        choices=ON_OFF,
        extra_nodes=True,
    ),
    Knob(
        keys.CLIENTS,
        "clients",
        Group.LOAD,
        Kind.INT,
        Place.LOAD,
        Backing.LOAD,
        8,
        "Connections of the background load, each with one transaction under way.",
        unit="clients",
        minimum=0,
        maximum=1024,
        ladder=(0, 1, 2, 4, 8, 16, 32, 64, 128, 256),
    ),
    Knob(
        keys.LOAD_MODE,
        "load mode",
        Group.LOAD,
        Kind.CHOICE,
        Place.LOAD,
        Backing.LOAD,
        "closed",
        "closed: a client sends its next when the last is answered; open: transactions arrive at the rate.",
        choices=("closed", "open"),
    ),
    Knob(
        keys.RATE,
        "rate",
        Group.LOAD,
        Kind.FLOAT,
        Place.LOAD,
        Backing.LOAD,
        500.0,
        "Transactions that arrive per second in the open loop, on average (Poisson).",
        unit="tps",
        minimum=0.5,
        maximum=100_000,
        ladder=(10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000),
    ),
    Knob(
        keys.WORKLOAD,
        "workload",
        Group.LOAD,
        Kind.CHOICE,
        Place.LOAD,
        Backing.LOAD,
        "update_index",
        "What a transaction does: sysbench's of that name, a lab's row, numbered rows, or a file of SQL.",
        files=True,
        choices=(
            "update_index",
            "update_non_index",
            "insert",
            "write_only",
            "read_write",
            "point_select",
            "foo",
            "employees",
            "ledger",
        ),
    ),
    Knob(
        keys.KEY_SPREAD,
        "key spread",
        Group.LOAD,
        Kind.INT,
        Place.LOAD,
        Backing.LOAD,
        0,
        "Rows that keys are drawn from, all as likely; all: the whole table, as sysbench draws.",
        unit="rows",
        words=(("all", 0), ("0", 0)),
        minimum=1,
        maximum=2**31 - 1,
        ladder=(1, 2, 4, 8, 32, 200, 1000, 0),
        beyond_model=True,
    ),
    Knob(
        keys.PAYLOAD,
        "payload",
        Group.LOAD,
        Kind.INT,
        Place.LOAD,
        Backing.LOAD,
        0,
        "Bytes that each INSERT and UPDATE writes into one more column; changing it rebuilds the table.",
        unit="bytes",
        minimum=0,
        maximum=1_000_000,
        ladder=(0, 100, 1000, 10_000, 100_000, 1_000_000),
        beyond_model=True,
    ),
)
"""Every knob, in the panel's order."""


BY_KEY: Final[Mapping[str, Knob]] = {knob.key: knob for knob in CATALOGUE}
"""Knobs by their own key."""
