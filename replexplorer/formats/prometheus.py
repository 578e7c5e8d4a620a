"""The document of `status --json` as metrics, in Prometheus' text exposition format 0.0.4.

Law: each metric is one row of `METRICS` and each figure one of the document; what is null there has no
series. Names end in the base unit: milliseconds of the document are seconds here.
(https://prometheus.io/docs/instrumenting/exposition_formats/, https://prometheus.io/docs/practices/naming/)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from replexplorer.core.server.exposure import FAILURES
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.protection import ProtectionState


class Metric(NamedTuple):
    """One metric, and where its figures are in the document."""

    name: str
    """Behind `replexplorer_`."""
    help: str
    path: str
    """Keys with dots between. A list among them stands for each of its things."""
    label: str = ""
    """That tells several series of one thing apart."""
    values: Sequence[str] = ()
    """Of that label. Each stands for `{}` of the path; without it each is 1 where it is what is found, else
    0."""


_THREADS: Final = ("io", "sql")
_THREAD_STATES: Final = ("on", "off", "connecting", "error")
_LABELS: Final = {"nodes": {"node": "name"}, "links": {"a": "a", "b": "b"}, "disks": {"node": "node"}}
"""Of each list its labels, by the keys of their values."""
METRICS: Final = (
    Metric("node_up", "Whether a login to the node succeeds", "nodes.reachable"),
    Metric(
        "node_executed_transactions_total",
        "Transactions in the node's gtid_executed: of a source their rate is its TPS",
        "nodes.executed_transactions",
    ),
    Metric(
        "protection_state",
        "The protection state: 1 for the one that holds, 0 for the others",
        "protection.state",
        "state",
        tuple(ProtectionState),
    ),
    Metric(
        "protection_replicas_acking",
        "Replicas that are connected and acknowledge",
        "protection.replicas_acking",
    ),
    Metric(
        "protection_replicas_required",
        "Acknowledgements that a commit waits for",
        "protection.replicas_required",
    ),
    Metric(
        "protection_fallbacks_total",
        "Falls to async by timeout since the source's server started",
        "protection.fallbacks",
    ),
    *(
        Metric(
            f"exposure_{bound}commits",
            f"Acknowledged commits that a failure would lose now, {what}",
            f"exposure.{{}}.{key}",
            "failure",
            tuple(FAILURES),
        )
        for bound, key, what in (
            ("", "commits", "the likeliest number"),
            ("low_", "low", "at least"),
            ("high_", "high", "at most"),
        )
    ),
    Metric(
        "replica_lag_seconds",
        "Age of the oldest transaction that the replica has not applied",
        "nodes.lag_s",
    ),
    Metric(
        "replica_queued_transactions",
        "Transactions that the replica has received and not applied",
        "nodes.queued",
    ),
    Metric(
        "replica_applied_transactions_per_second",
        "Transactions that the replica applies a second, over the last second",
        "nodes.applied_tps",
    ),
    Metric(
        "replica_drain_seconds",
        "When the replica will have caught up at this pace; absent while it falls further behind",
        "nodes.drain_s",
    ),
    Metric("replica_workers", "Threads of the replica that apply transactions", "nodes.workers.of"),
    Metric(
        "replica_workers_busy",
        "Of these, the threads that are applying a transaction",
        "nodes.workers.busy",
    ),
    *(
        Metric(
            f"replica_{thread}_thread_state",
            f"The replica's {thread.upper()} thread: 1 for the state that it is in, 0 for the others",
            f"nodes.{thread}_thread",
            "state",
            _THREAD_STATES,
        )
        for thread in _THREADS
    ),
    Metric(
        "replica_thread_errno",
        "Number of the thread's last error; absent while it has none",
        "nodes.last_{}_errno",
        "thread",
        _THREADS,
    ),
    Metric(
        "replica_diverged",
        "1 for a replica whose rows may differ from the source's until it is copied; absent for others",
        "nodes.diverged",
    ),
    Metric("link_rtt_asked_seconds", "Round trip asked of the link", "links.rtt_asked_ms"),
    Metric(
        "link_rtt_measured_seconds",
        "Round trip measured, the median of the last probes",
        "links.rtt_measured_ms",
    ),
    Metric(
        "disk_fsync_delay_seconds",
        "Delay in force of each fsync of the node's server",
        "disks.fsync_delay_ms",
    ),
    Metric(
        "disk_fsync_measured_seconds",
        "What the server pays for an fsync of redo log or binlog, that delay included",
        "disks.fsync_measured_ms",
    ),
    Metric("footprint_bytes", "Bytes of all nodes in their volumes", "footprint_bytes"),
)
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(document: Mapping[str, Any]) -> str:
    """What `status --format prometheus` prints, from `plain` of a status."""
    nodes = [{**node, "executed_transactions": _executed(node)} for node in document["nodes"]]
    losses = {kind: loss for kind in FAILURES if "commits" in (loss := document["exposure"][kind])}
    known = {**document, "nodes": nodes, "exposure": losses}
    lines: list[str] = []
    for metric in METRICS:
        name = f"replexplorer_{metric.name}"
        kind = "counter" if name.endswith("_total") else "gauge"  # by its ending, as Prometheus has it
        series = [f"{name}{{{labels}}} {figure:.15g}" for labels, figure in _series(metric, known)]
        if series:
            lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {kind}", *series]
    return "\n".join(lines)


def _executed(node: Mapping[str, Any]) -> int | None:
    """MariaDB's position has the last number of each server alone, which is not how many there were."""
    gtids = node["gtid_executed"]
    return None if gtids is None or node["flavor"] == "mariadb" else gtid_count(gtids)


def _series(metric: Metric, document: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The labels, as they are written, and the figure of each that is known."""
    for value in metric.values or ("",):
        for labels, found in _found(document, metric.path.format(value)):
            if metric.values and "{}" not in metric.path:
                found = found == value
            elif isinstance(found, str):
                found = True
            labels = {"stack": document["stack"], **labels} | ({metric.label: value} if value else {})
            written = ",".join(f'{key}="{str(text).translate(_ESCAPED)}"' for key, text in labels.items())
            yield written, found / 1000 if metric.path.endswith("_ms") else found


def _found(thing: Mapping[str, Any], path: str) -> Iterator[tuple[dict[str, str], Any]]:
    """What stands at the path and is known, of each thing of a list with its labels."""
    key, _, rest = path.partition(".")
    found = thing.get(key)
    if isinstance(found, list):
        for each in found:
            labels = {label: each[name] for label, name in _LABELS[key].items()}
            yield from ((labels, inner) for _, inner in _found(each, rest))
    elif rest:
        yield from _found(found or {}, rest)
    elif found is not None:
        yield {}, found
