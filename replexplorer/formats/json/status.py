"""`status` and `up`: nodes, protection, links, disks, load and knobs."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.fault import FaultJson
from replexplorer.formats.json.model import JsonObject, Scalar


class MemberJson(JsonObject):
    """What a member says of its group; null where it does not say. Counts are since it became a member."""

    in_majority: bool = Field(description="it takes part, and a majority of the members answers it")
    size: int | None = Field(description="members in its view, those that do not answer included")
    answering: int | None = Field(
        description="of these, those that answer it, itself counted; Galera does not say"
    )
    view: str | None = Field(description="another one after each change of members")
    queued: int | None = Field(description="transactions that wait here to be certified")
    to_apply: int | None = Field(description="transactions of others that wait here to be applied")
    conflicts: int | None = Field(
        description="transactions that certification refused: of Galera its own, of a group those of all"
    )
    gave_way: int | None = Field(
        default=None,
        description="its own that were rolled back before that for one of another member; null: not counted",
    )
    certified: int | None = Field(description="transactions that were checked")
    held_ms: float | None = Field(description="how long flow control has held commits back, in all")
    holds: int | None = Field(description="commits that it held back")


class TransferJson(JsonObject):
    """What a member that joins or comes back is given now."""

    kind: Literal["IST", "SST", "incremental recovery"] | None = Field(
        description="in the servers' words; null: nobody has said which yet"
    )
    elapsed_s: float
    donor: str | None = Field(description="the member that gives it; null: not known")
    done: int | None = Field(description="transactions that it has; null: nobody counts, as of a whole copy")
    total: int | None = Field(description="of how many")


class NodeJson(JsonObject):
    """One server."""

    name: str
    role: Literal["primary", "replica", "secondary", "joining", "detached", "down"]
    host: str | None
    port: int | None
    published_port: int | None
    path: Literal["direct", "published", "tunnel"] | None = Field(
        description="how the app reaches it; tunnel: through its host's Docker"
    )
    machine: str | None = Field(
        default=None, description="the host that it is on, as `up --on` was told; null: this one"
    )
    flavor: str | None
    version: str | None
    server_uuid: str | None
    reachable: bool
    state: str | None = Field(
        default=None, description="of a group's member, in the server's word: ONLINE, RECOVERING, ..."
    )
    member: MemberJson | None = Field(default=None, description="null for a node of no group")
    transfer: TransferJson | None = Field(
        default=None, description="what it is given now, as a member that joins; null: nothing"
    )
    is_source: bool = Field(description="the others follow it, or did when it was last seen")
    gtid_executed: str | None
    errant_gtids: str | None = Field(
        default=None, description="what a replica has executed and the primary lacks; empty: nothing"
    )
    diverged: str | None = Field(
        default=None,
        description="why its rows may not be the primary's until `rejoin NODE --copy`; null: nothing says so",
    )
    io_thread: str | None = Field(default=None, description="on, off, connecting, error; null for a primary")
    sql_thread: str | None = None
    last_io_error: str | None = Field(default=None, description="the IO thread's; null: none")
    last_io_errno: int | None = None
    last_sql_error: str | None = Field(default=None, description="the applier's; null: none")
    last_sql_errno: int | None = None
    lag_s: float | None = Field(
        default=None, description="by what the source has and it has not, where the source answers"
    )


class ProtectionJson(JsonObject):
    """Whether the next commit is safe on a replica, with the evidence."""

    state: Literal["protected", "armed", "off", "blocked", "degraded", "down"]
    requested: bool | None
    operational: bool | None
    replicas_acking: int | None
    replicas_required: int | None
    wait_point: str | None
    timeout_ms: int | None
    fallbacks: int | None
    replicas_counted: int | None = Field(
        default=None,
        description="as the source counts them, with a connection that is gone and not missed yet",
    )
    no_ack_can_come: bool | None = Field(
        default=None, description="the links in force let too few acknowledgements through"
    )
    diverged: list[str] = Field(
        default_factory=list,
        description="nodes that acknowledge and have diverged: never protected while there are any",
    )


class FlapJson(JsonObject):
    """A link that goes down and comes up by the clock."""

    down_s: float
    up_s: float
    is_down: bool = Field(description="now, at one end at least")


class LinkJson(JsonObject):
    """A link between two nodes: of the source to each other one, and of two others where something is asked
    of it."""

    a: str = Field(description="the source where it is one of the two, else the first by name")
    b: str
    replica: str | None = Field(description="`b` where `a` is the source, null for a link between two others")
    backend: str | None
    rtt_asked_ms: float | None
    rtt_measured_ms: float | None
    rtt_base_ms: float | None
    jitter_ms: float | None = None
    loss_percent: float | None = None
    bandwidth_bps: int | None = Field(default=None, description="0 is no limit")
    partition: str | None = Field(default=None, description="in force; `both` while a flap has it down")
    flap: FlapJson | None = None
    healing: bool = Field(default=False, description="healed, and no event has come through yet")
    probes_lost_percent: float | None = Field(default=None, description="of those since the last change")
    dropped: int | None = Field(description="packets dropped though no loss was asked")
    congestion: str | None = Field(default=None, description="TCP's congestion control at its ends")
    fault: str | None = None


class FsyncCounts(JsonObject):
    """Calls of fsync and fdatasync by kind of file."""

    redo: int | None = None
    binlog: int | None = None
    relay: int | None = None
    data: int | None = None
    other: int | None = None


class DiskJson(JsonObject):
    """One node's disk: asked delay and what was measured."""

    node: str
    fsync_delay_ms: float | None
    fsync_measured_ms: float | None = Field(description="mean of redo and binlog, delays included")
    disk_probe_ms: float | None
    fsyncs: FsyncCounts
    fault: str | None = Field(default=None, description="why the delay cannot be set")
    fsync_delay_redo_ms: float | Literal["auto"] | None = Field(
        default=None, description="in force; auto: fsync_delay_ms"
    )
    fsync_delay_binlog_ms: float | Literal["auto"] | None = None
    fsync_jitter_ms: float | None = Field(default=None, description="standard deviation of the delays")
    fsync_measured_by_kind_ms: dict[str, float] = Field(default={}, description="of redo and binlog apart")


class LossJson(JsonObject):
    """Commits that were acknowledged and would be lost."""

    commits: int
    low: int = Field(description="low and high enclose the truth")
    high: int
    age_ms: float | None = Field(description="of the oldest such commit; null where there is none")


class UnknownLossJson(JsonObject):
    """It is not known how many would be lost."""

    unknown: str = Field(description="why")
    low: int = Field(0, description="at least this many")


class ExposureJson(JsonObject):
    """What a failure at this moment would lose."""

    process_dies: LossJson | UnknownLossJson
    power_cut: LossJson | UnknownLossJson
    source_lost: LossJson | UnknownLossJson
    binlog_lost: LossJson | UnknownLossJson | None = Field(
        default=None, description="transactions that a power cut takes of the source's binlog"
    )
    replication_after: Literal["whole", "broken 1236", "diverged"] | None = Field(
        default=None, description="what may become of replicas after a power cut of the source; null: unknown"
    )


class StatusLoad(JsonObject):
    """The load that runs, as its driver has it; the knobs say what is requested."""

    driver: str | None = Field(description="who drives it: `name (pid N)`; null when no one does")
    clients: int | None = Field(description="0 when no load runs, null when its driver does not say")
    workload: str | None = None
    mode: str | None = Field(default=None, description="closed or open")
    rate_tps: float | None = Field(default=None, description="asked, of an open loop")


class StatusKnob(JsonObject):
    """A knob in `status`: asked and in effect."""

    requested: Scalar | None
    effective: Scalar | None
    node: str


class HostJson(JsonObject):
    """One of the hosts that a stack's nodes are on."""

    name: str = Field(description="as `up --on` was told")
    nodes: list[str]
    fault: str | None = Field(description="why it is away; null while it answers")
    manages: bool | None = Field(description="it is a manager of the swarm; null while it is away")
    keeps: bool = Field(description="what all apps of the stack share is kept here")
    clock_ms: float | None = Field(description="how far its clock is ahead of this machine's")
    clock_within_ms: float | None = Field(description="how far off that may be: half of a round trip")
    clock_apart_ms: float | None = Field(
        default=None, description="how far the two are apart at least: what half of a round trip leaves"
    )


class Status(JsonObject):
    """`status --json`."""

    stack: str
    system: Literal["async", "group", "galera"] = Field(
        default="async", description="how its nodes keep the same rows"
    )
    state: Literal["starting", "up", "partial", "down"]
    nodes: list[NodeJson]
    hosts: list[HostJson] = Field(
        default_factory=list, description="that the nodes are on; empty where all are on this machine"
    )
    protection: ProtectionJson
    links: list[LinkJson]
    disks: list[DiskJson]
    exposure: ExposureJson = Field(description="what a failure at this moment would lose")
    oldest_commit_s: float | None = Field(
        default=None, description="age of the oldest commit under way on the source; null: none, or not known"
    )
    load: StatusLoad
    footprint_bytes: int | None
    knobs: dict[str, StatusKnob]
    faults: list[FaultJson] = Field(default_factory=list, description="in force, the oldest first")


DOCUMENTS: Final[dict[str, Any]] = {"up": Status, "status": Status}
