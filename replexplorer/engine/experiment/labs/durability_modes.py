"""durability-modes: does durability cost less on disk or network (docs/labs.md, after Tocker)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from replexplorer.core.knobs import keys
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.labs.evidence import at_most, faster, printed, protected
from replexplorer.engine.experiment.labs.lab import Lab, Length, Phase, Phases, Publication, Relation

_OFF, _ON = ("semi_sync=off", ProtectionState.OFF), ("semi_sync=on", ProtectionState.PROTECTED)
_Mode = tuple[tuple[str, ProtectionState], tuple[str, ...], str]
"""Semi-sync with the state that it makes, the settings of durability, and what to watch."""
_MODES: dict[str, _Mode] = {
    "none": (_OFF, ("sync_binlog=0", "innodb_flush_log_at_trx_commit=0"), "nothing is durable at commit"),
    "local": (_OFF, ("sync_binlog=1", "innodb_flush_log_at_trx_commit=1"), "durable on this disk"),
    "network": (_ON, ("sync_binlog=0", "innodb_flush_log_at_trx_commit=0"), "durable on another host"),
    "both": (_ON, ("sync_binlog=1", "innodb_flush_log_at_trx_commit=1"), "durable on both"),
    "network, mostly local": (
        _ON,
        ("sync_binlog=0", "innodb_flush_log_at_trx_commit=2"),
        "written here, durable there: named as not tested then",
    ),
}
_DETECT_ONLY: dict[str, _Mode] = {
    "network, detect only": (
        _ON,
        ("sync_binlog=0", "innodb_flush_log_at_trx_commit=2", "innodb_doublewrite=detect_only"),
        "and pages are not written twice: named as not tested then",
    ),
}
"""Where the doublewrite buffer can be turned while the server runs."""
_CLIENTS = (1, 32)
_NETWORK_SHARE = 0.9
_EACH_MACHINE = (keys.SYNC_BINLOG, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT)
"""Relaxed, or not, on source and replica alike."""


def _name(mode: str, clients: int) -> str:
    return f"{mode}, {clients} client{'s' if clients > 1 else ''}"


def _judge(phases: Phases) -> Sequence[Relation]:
    one = {mode: phases[_name(mode, 1)] for mode in _MODES}
    many = {mode: phases[_name(mode, 32)] for mode in _MODES}
    ahead_of_one, ahead_of_many = (
        each["none"].tps / each["local"].tps if each["local"].tps else 0.0 for each in (one, many)
    )
    both_of_local = many["both"].tps / many["local"].tps if many["local"].tps else 0.0
    return (
        protected(tuple(phases.values())),
        faster(one["none"], one["network"]),
        faster(one["network"], one["local"]),
        faster(one["local"], one["both"]),
        faster(many["none"], many["local"]),
        faster(many["none"], many["network"]),
        faster(many["local"], many["both"]),
        faster(many["network"], many["both"]),
        faster(many["network"], many["local"], _NETWORK_SHARE),
        at_most(
            "with 32 clients `none` is ahead of `local` by less than with 1",
            ahead_of_many,
            ahead_of_one,
            "times",
        ),
        printed(
            "`both` against `local` at 32 clients",
            f"{both_of_local - 1:+.0%}; published: about -15%",
            ratio=both_of_local,
        ),
    )


def _phases(modes: Mapping[str, _Mode]) -> Iterator[Phase]:
    for clients in _CLIENTS:
        for mode, ((semi_sync, state), settings, shows) in modes.items():
            first = (
                "wait_point=after_sync", "workload=update_index", "load_mode=closed", "rtt=2ms",
                "fsync_delay=2ms", "fsync_delay@replica=2ms",
            )  # fmt: skip
            reset = () if "detect only" in mode else ("innodb_doublewrite=on",)
            durable = [text for text in settings if text.startswith(_EACH_MACHINE)]
            there = tuple(text.replace("=", "@replica=") for text in durable)
            yield Phase(
                _name(mode, clients),
                (*first, semi_sync, *settings, *there, *reset, f"clients={clients}"),
                replicas=1,
                full=Length(20),
                quick=Length(4),
                state=state,
                shows=shows,
            )


_LAB = Lab(
    name="durability-modes",
    title="Durable on the disk, on the network, on both, on neither",
    teaches="At equal latency an acknowledgement costs no more than an fsync; group commit shares both.",
    source=Publication(
        "Semi-sync replication is not slow!",
        "Morgan Tocker",
        "http://www.tocker.ca/2014/06/05/semi-sync-replication-is-not-slow.html",
        "MySQL 5.7 DMR4, m3.medium in two zones, each machine durable or relaxed, ping 2 ms, synchronous "
        "write 2 ms, sysbench 0.5 update_index",
    ),
    phases=tuple(_phases({**_MODES, **_DETECT_ONLY})),
    judge=_judge,
    failure="counted on MySQL 9.7.4: mysqld's death or a power cut took nothing of `local` and `both` (1/1)."
    " Of `none` and `network` (0/0) it took up to 396 of 2,766 rows from the source that came back; `network`"
    " has them on the replica: a failover loses none, a restart of the source loses them",
)
DURABILITY_MODES = replace(_LAB, variants=(replace(_LAB, phases=tuple(_phases(_MODES))),))
