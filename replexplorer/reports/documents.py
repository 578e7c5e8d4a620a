"""From the engine's values to the documents of the contract; nothing here waits or reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

from replexplorer.core.fault import Fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.knob_view import KnobView
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.link_view import LinkView
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.disk_view import DiskView
from replexplorer.core.server.exposure import NOT_REACHED, Exposure, Loss, Unknown
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.membership import Membership
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Protection
from replexplorer.core.server.transfer import Transfer
from replexplorer.core.system import DEFAULT
from replexplorer.core.topology import SOURCE, Role, ends_of, is_pair
from replexplorer.engine.outcome import Changed, SetResult
from replexplorer.formats.json.fault import FaultJson
from replexplorer.formats.json.get import GetKnob
from replexplorer.formats.json.model import Scalar
from replexplorer.formats.json.roles import (
    RecoveryPointJson,
    RecoveryTimeJson,
    RoleChangeJson,
    RoleStepJson,
)
from replexplorer.formats.json.set import ChangedKnob, SetReport
from replexplorer.formats.json.status import (
    DiskJson,
    ExposureJson,
    FlapJson,
    FsyncCounts,
    HostJson,
    LinkJson,
    LossJson,
    MemberJson,
    NodeJson,
    ProtectionJson,
    Status,
    StatusKnob,
    StatusLoad,
    TransferJson,
    UnknownLossJson,
)
from replexplorer.ports import HostView

_PATHS: Final[Mapping[str, Literal["direct", "published", "tunnel"]]] = {
    "direct": "direct",
    "published": "published",
    "tunnel": "tunnel",
}


def status_document(
    *,
    stack: str,
    system: Any = DEFAULT,
    state: Any,
    nodes: Iterable[NodeView],
    protection: Protection,
    links: Iterable[LinkView],
    disks: Iterable[DiskView],
    knobs: Mapping[KnobName, KnobView],
    driver: str | None = None,
    load: Mapping[str, Scalar] | None = None,
    footprint_bytes: int | None = None,
    faults: Iterable[Fault] = (),
    exposure: Exposure = NOT_REACHED,
    hosts: Iterable[HostView] = (),
    oldest_commit_s: float | None = None,
) -> Status:
    """The whole `status` document; what is not known is null, whatever is down. `load` has the knobs of
    the load that runs, by key; empty when none does."""
    nodes = tuple(nodes)
    source = next((node.name for node in nodes if node.is_source), SOURCE)
    return Status(
        stack=stack,
        system=system,
        state=state,
        nodes=[_node(node) for node in nodes],
        hosts=[_host(host) for host in hosts],
        protection=_protection(protection),
        links=[_link(link, source) for link in links],
        disks=[_disk(disk) for disk in disks],
        exposure=exposure_document(exposure),
        oldest_commit_s=None if oldest_commit_s is None else round(oldest_commit_s, 1),
        load=_load(driver, load),
        footprint_bytes=footprint_bytes,
        knobs={
            str(name): StatusKnob(
                requested=view.requested, effective=view.effective, node=_node_of(name, source)
            )
            for name, view in knobs.items()
        },
        faults=[fault_document(fault) for fault in faults],
    )


def exposure_document(exposure: Exposure) -> ExposureJson:
    """What each kind of failure would lose."""
    return ExposureJson(
        process_dies=_loss(exposure.process_dies),
        power_cut=_loss(exposure.power_cut),
        source_lost=_loss(exposure.source_lost),
        binlog_lost=_loss(exposure.binlog_lost),
        replication_after=exposure.replication_after and exposure.replication_after.value,
    )


def _loss(found: Loss | Unknown) -> LossJson | UnknownLossJson:
    if isinstance(found, Unknown):
        return UnknownLossJson(unknown=found.why, low=found.low)
    age_ms = None if found.age_ms is None else round(found.age_ms, 1)
    return LossJson(commits=found.commits, low=found.low, high=found.high, age_ms=age_ms)


def fault_document(fault: Fault) -> FaultJson:
    """A fault in force, as `status` and `fault` print it."""
    until_s = fault.until_wall_s
    return FaultJson(
        number=fault.number,
        kind=fault.kind,
        value=fault.value,
        node=fault.node,
        since=_utc(fault.since_wall_s),
        until=None if until_s is None else _utc(until_s),
        by=fault.by,
        before=dict(fault.before),
        links=list(fault.links),
    )


def role_change_document(done: RoleChange) -> RoleChangeJson:
    """A change of roles as its verb prints it."""
    return RoleChangeJson(
        from_=done.source_before,
        to=done.source,
        steps=[
            RoleStepJson(
                name=step.name, node=step.node, statements=list(step.statements), took_ms=step.took_ms
            )
            for step in done.steps
        ],
        rpo=RecoveryPointJson(
            commits=done.rpo.commits,
            ms=done.rpo.ms,
            unknown=done.rpo.unknown,
            accepted_transactions=gtid_count(done.rpo.accepted),
            accepted_gtids=done.rpo.accepted,
        ),
        rto=RecoveryTimeJson(
            detect_ms=done.rto.detect_ms,
            promote_ms=done.rto.promote_ms,
            first_write_ms=done.rto.first_write_ms,
            total_ms=done.rto.total_ms,
        ),
        errant_gtids=dict(done.errant_gtids),
        fenced=done.fenced,
        warnings=list(done.warnings),
    )


def _utc(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _node_of(name: KnobName, source: str) -> str:
    """The node that a knob is of."""
    return source if name.node == SOURCE else str(name.node)


def knob_document(view: KnobView, source: str) -> GetKnob:
    """One knob as `get` prints it: the catalogue's row in this server's range, its two values, and the node
    that has it."""
    knob = view.knob
    return GetKnob(
        requested=view.requested,
        effective=view.effective,
        default=view.default,
        server_default=view.server_default,
        min=_whole(knob.minimum),
        max=_whole(knob.maximum),
        unit=knob.unit or None,
        node=_node_of(view.name, source),
        scope=knob.backing.value,
        restart=knob.restart.value,
        note=view.note,
        choices=list(knob.choices) or None,
        help=knob.help,
    )


def set_report(result: SetResult, source: str, took_ms: float | None = None) -> SetReport:
    """What a `set`, `reset` or scene did on a stack with this source, and how long the user waited."""
    return SetReport(
        changed=[_changed(change, source) for change in result.changed],
        warnings=[*result.warnings, *result.unmet],
        rolled_back=result.rolled_back,
        dry_run=result.dry_run,
        took_ms=None if took_ms is None else round(took_ms, 1),
    )


def _member(member: Membership) -> MemberJson:
    return MemberJson(
        in_majority=member.is_ready,
        size=member.size,
        answering=member.answering,
        view=member.view,
        queued=member.queued,
        to_apply=member.to_apply,
        conflicts=member.conflicts,
        gave_way=member.gave_way,
        certified=member.certified,
        held_ms=member.held_ms,
        holds=member.holds,
    )


def _transfer(transfer: Transfer) -> TransferJson:
    return TransferJson(
        kind=None if transfer.kind is None else transfer.kind.value,
        elapsed_s=round(transfer.elapsed_s, 1),
        donor=transfer.donor,
        done=transfer.done,
        total=transfer.total,
    )


def _host(host: HostView) -> HostJson:
    return HostJson(
        name=host.name,
        nodes=list(host.nodes),
        fault=host.fault,
        manages=host.manages,
        keeps=host.keeps,
        clock_ms=None if host.clock_ms is None else round(host.clock_ms, 2),
        clock_within_ms=None if host.clock_within_ms is None else round(host.clock_within_ms, 2),
        clock_apart_ms=None if host.clock_apart_ms is None else round(host.clock_apart_ms, 2),
    )


def _node(node: NodeView) -> NodeJson:
    return NodeJson(
        name=node.name,
        role=Role(node.role).value,
        state=node.state,
        member=None if node.member is None else _member(node.member),
        transfer=None if node.transfer is None else _transfer(node.transfer),
        is_source=node.is_source,
        host=node.host,
        port=node.port,
        published_port=node.published_port,
        path=_PATHS.get(node.path or ""),
        machine=node.machine,
        flavor=node.flavor,
        version=node.version,
        server_uuid=node.server_uuid,
        reachable=node.reachable,
        gtid_executed=node.gtid_executed,
        errant_gtids=node.errant_gtids,
        diverged=node.diverged,
        io_thread=node.io_thread,
        sql_thread=node.sql_thread,
        last_io_error=node.io_error.text if node.io_error else None,
        last_io_errno=node.io_error.number if node.io_error else None,
        last_sql_error=node.sql_error.text if node.sql_error else None,
        last_sql_errno=node.sql_error.number if node.sql_error else None,
        lag_s=node.lag_s,
    )


def _protection(protection: Protection) -> ProtectionJson:
    return ProtectionJson(
        state=protection.state.value,
        requested=protection.requested,
        operational=protection.operational,
        replicas_acking=protection.replicas_acking,
        replicas_required=protection.replicas_required,
        wait_point=protection.wait_point,
        timeout_ms=protection.timeout_ms,
        fallbacks=protection.fallbacks,
        replicas_counted=protection.replicas_counted,
        no_ack_can_come=protection.no_ack_can_come,
        diverged=list(protection.diverged),
    )


def _load(driver: str | None, load: Mapping[str, Scalar] | None) -> StatusLoad:
    if not load:
        return StatusLoad(driver=driver, clients=None if load is None else 0)
    mode = str(load[keys.LOAD_MODE])
    return StatusLoad(
        driver=driver,
        clients=int(load[keys.CLIENTS]),
        workload=str(load[keys.WORKLOAD]),
        mode=mode,
        rate_tps=float(load[keys.RATE]) if mode == OPEN else None,
    )


def _link(link: LinkView, source: str) -> LinkJson:
    between_others = is_pair(link.replica)
    a, b = ends_of(link.replica) if between_others else (source, link.replica)
    return LinkJson(
        a=a,
        b=b,
        replica=None if between_others else link.replica,
        backend=link.backend,
        rtt_asked_ms=link.rtt_asked_ms,
        rtt_measured_ms=_rounded(link.rtt_measured_ms),
        rtt_base_ms=_rounded(link.rtt_base_ms),
        jitter_ms=_in_force(link, keys.JITTER),
        loss_percent=_in_force(link, keys.LOSS),
        bandwidth_bps=_in_force(link, keys.BANDWIDTH),
        partition=link.partition,
        flap=None
        if link.flap is None
        else FlapJson(down_s=link.flap.down_s, up_s=link.flap.up_s, is_down=link.is_down),
        healing=link.healing,
        probes_lost_percent=_rounded(link.probes_lost_percent),
        dropped=link.dropped,
        congestion=link.congestion,
        fault=link.fault,
    )


def _in_force(link: LinkView, key: str) -> Any:
    return None if link.values is None else link.values[key]


def _disk(disk: DiskView) -> DiskJson:
    return DiskJson(
        node=disk.node,
        fsync_delay_ms=disk.delay_ms,
        fsync_measured_ms=_rounded(disk.measured_ms),
        disk_probe_ms=_rounded(disk.probe_p50_ms),
        fsyncs=FsyncCounts(**(disk.fsyncs or {})),
        fault=disk.fault,
        fsync_delay_redo_ms=disk.redo_delay_ms,
        fsync_delay_binlog_ms=disk.binlog_delay_ms,
        fsync_jitter_ms=disk.jitter_ms,
        fsync_measured_by_kind_ms={kind: round(ms, 3) for kind, ms in disk.measured_by_kind_ms.items()},
    )


def _changed(change: Changed, source: str) -> ChangedKnob:
    return ChangedKnob(
        key=change.name.key,
        node=_node_of(change.name, source),
        name=str(change.name),
        before=change.before,
        requested=change.requested,
        effective=change.effective,
        took_ms=round(change.took_ms, 1),
        statements=list(change.statements),
        note=change.note,
        measured_ms=_rounded(change.measured_ms),
    )


def _whole(bound: float | None) -> float | int | None:
    return int(bound) if bound is not None and bound == int(bound) else bound


def _rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, 3)
