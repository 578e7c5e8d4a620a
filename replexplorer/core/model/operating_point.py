"""From knobs to what the model looks at, and what of them it does not know."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    BY_KEY,
    SOURCE,
    KnobName,
    Place,
    Value,
    format_value,
)
from replexplorer.core.link import DELAYS, NO_PARTITION, LinkSettings
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.model.ceiling import acknowledging_rtt_ms
from replexplorer.core.model.fitted import Calibration, OperatingPoint, hot_rows
from replexplorer.core.server.comeback import redo_fsyncs
from replexplorer.core.system import ASYNC, System
from replexplorer.core.topology import is_pair

Values = Mapping[KnobName, Value | None]
"""Knobs by name; one that is missing or None counts as its default."""

READ_ONLY: Final = frozenset({"point_select"})
"""Workloads that commit nothing: no fsync and no acknowledgement is waited for."""
_WAITING: Final = frozenset({keys.WAIT_POINT, keys.SEMI_SYNC_REPLICAS, keys.SEMI_SYNC_TIMEOUT})
"""Knobs that count only while commits wait for a replica."""
_OF_APPLIERS: Final = frozenset(
    {
        keys.REPLICA_PARALLEL_WORKERS,
        keys.SYNC_BINLOG,
        keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT,
        keys.FSYNC_DELAY,
    }
)
"""What of a replica decides how fast it applies (`applier_of`)."""
_WAYS: Final = DELAYS | {keys.PARTITION}
_SAID: Final = frozenset(
    {
        keys.SEMI_SYNC,
        keys.WAIT_POINT,
        keys.SEMI_SYNC_REPLICAS,
        keys.SYNC_BINLOG,
        keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT,
        keys.FSYNC_DELAY,
        keys.RTT,
        keys.CLIENTS,
        keys.RATE,
        keys.WORKLOAD,
    }
)
"""Worth a word at their defaults too."""
_LOOKED_AT: Final = (
    _SAID
    | _WAITING
    | _WAYS
    | {
        keys.INNODB_FLUSH_LOG_AT_TIMEOUT,
        keys.BINLOG_GROUP_COMMIT_SYNC_DELAY,
        keys.BINLOG_GROUP_COMMIT_SYNC_NO_DELAY_COUNT,
        keys.BINLOG_COMMIT_WAIT_COUNT,
        keys.BINLOG_COMMIT_WAIT_USEC,
        keys.LOAD_MODE,
        keys.KEY_SPREAD,
    }
)


def operating_point_of(
    values: Values,
    replicas: Sequence[str],
    *,
    rtts_ms: Sequence[float | None] | None = None,
    system: System = ASYNC,
) -> OperatingPoint:
    """What these knobs mean to the model, on a stack with these replicas.

    `rtts_ms` are the links' measured round trips; without them those asked count. With more replicas
    required than there are commits fall back after the timeout: then the farthest one counts. In a group
    commits always wait, for the members that its `system` says.
    """
    asked_ms = [link_of(values, replica).total_ms for replica in _whole(values, replicas)]
    if rtts_ms is None:
        rtts_ms = asked_ms
    workload = str(value_of(values, keys.WORKLOAD, Place.LOAD))
    writes = workload not in READ_ONLY
    sync_binlog = int(value_of(values, keys.SYNC_BINLOG))
    needed = system.others_needed(len(replicas) + 1)
    asked = int(value_of(values, keys.SEMI_SYNC_REPLICAS)) if needed is None else needed
    waits = value_of(values, keys.SEMI_SYNC) == "on" if needed is None else needed > 0
    required = min(asked, max(len(rtts_ms), 1))
    redo = redo_fsyncs(value_of(values, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT))
    return OperatingPoint(
        clients=int(value_of(values, keys.CLIENTS, Place.LOAD)),
        workload=workload,
        rtt_ms=_waited_ms(rtts_ms, required, system),
        rtt_asked_ms=_waited_ms(asked_ms, required, system),
        semi_sync=writes and waits,
        after_commit=needed is None and value_of(values, keys.WAIT_POINT) == "after_commit",
        redo_fsyncs=float(redo) if writes else 0.0,
        binlog_fsyncs=1 / sync_binlog if writes and sync_binlog else 0.0,
        fsync_delay_ms=float(value_of(values, keys.FSYNC_DELAY)),
        group_delay_ms=_group_delay_ms(values) if writes else 0.0,
        key_spread=int(value_of(values, keys.KEY_SPREAD, Place.LOAD)),
    )


def applier_of(values: Values, replica: str) -> OperatingPoint:
    """A replica's applier as the model looks at it: its workers commit as clients do, over its own fsyncs."""
    sync_binlog = int(value_of(values, keys.SYNC_BINLOG, replica))
    return OperatingPoint(
        clients=max(1, int(value_of(values, keys.REPLICA_PARALLEL_WORKERS, replica))),
        workload=str(value_of(values, keys.WORKLOAD, Place.LOAD)),
        redo_fsyncs=float(redo_fsyncs(value_of(values, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT, replica))),
        binlog_fsyncs=1 / sync_binlog if sync_binlog else 0.0,
        fsync_delay_ms=float(value_of(values, keys.FSYNC_DELAY, replica)),
    )


def _waited_ms(rtts_ms: Sequence[float | None], required: int, system: System) -> float:
    """The round trips that a commit waits for: to those that must have it, and where members take turns to
    the farthest one after that, which has to pass its turn."""
    farthest_ms = max((rtt for rtt in rtts_ms if rtt is not None), default=0.0)
    return (acknowledging_rtt_ms(rtts_ms, required) or 0.0) + (farthest_ms if system.takes_turns else 0.0)


def bound_rtt_ms(values: Values, replicas: Sequence[str], system: System = ASYNC) -> float:
    """The round trip that no commit can do without under these settings: the ceiling rests on it."""
    asked_ms = [link_of(values, replica).total_ms for replica in _whole(values, replicas)]
    needed = system.others_needed(len(replicas) + 1)
    required = int(value_of(values, keys.SEMI_SYNC_REPLICAS)) if needed is None else needed
    return acknowledging_rtt_ms(asked_ms, min(required, max(len(asked_ms), 1))) or 0.0


def unacknowledged(values: Values, replicas: Sequence[str], system: System = ASYNC) -> str | None:
    """In words, when no commit is acknowledged under these settings: fewer links are whole than the
    source waits for; None where they are, and where nobody waits."""
    if (needed := system.others_needed(len(replicas) + 1)) is not None:
        whole = len(_whole(values, replicas))
        nodes = "other node" if needed == 1 else "other nodes"
        return None if whole >= needed else f"no commit is acknowledged: {needed} {nodes} must have it"
    reads = str(value_of(values, keys.WORKLOAD, Place.LOAD)) in READ_ONLY
    if reads or value_of(values, keys.SEMI_SYNC) != "on":
        return None
    required = int(value_of(values, keys.SEMI_SYNC_REPLICAS))
    whole = len(_whole(values, replicas))
    if whole >= required:
        return None
    timeout = format_value(BY_KEY[keys.SEMI_SYNC_TIMEOUT], value_of(values, keys.SEMI_SYNC_TIMEOUT))
    have = f"there are {whole}" if whole == len(replicas) else f"{whole} of {len(replicas)} can"
    return (
        f"no commit is acknowledged: the source waits for {required} and {have};"
        f" after semi_sync_timeout ({timeout}) it continues asynchronously"
    )


def _whole(values: Values, replicas: Sequence[str]) -> list[str]:
    """The replicas whose link is not cut."""
    return [replica for replica in replicas if value_of(values, keys.PARTITION, replica) == NO_PARTITION]


def looked_at(values: Mapping[KnobName, Value]) -> dict[KnobName, Value]:
    """Those of the knobs that the prediction rests on, in catalogue order."""
    looked, said = _LOOKED_AT, _SAID
    if value_of(values, keys.LOAD_MODE, Place.LOAD) != OPEN:
        looked -= {keys.RATE}
    if value_of(values, keys.SEMI_SYNC) != "on":  # the link says only how many commits are on their way
        looked, said = looked - _WAITING, said - _WAYS
    return {
        name: value
        for name, value in values.items()
        if (
            name.key in looked
            and (name.node == SOURCE or name.knob.place is not Place.SOURCE)
            and (name.key in said or value != name.knob.default)
        )
        or (name.key in _OF_APPLIERS and name.node != SOURCE and value != name.knob.default)
    }


def beyond(
    setting: OperatingPoint, values: Values, replicas: Sequence[str], calibration: Calibration
) -> tuple[str, ...]:
    """What of these settings the calibration has never seen or the model does not look at, a line each."""
    waits, most_clients, most_rtt_ms = setting.semi_sync, calibration.most_clients, calibration.most_rtt_ms
    known = ", ".join(calibration.local)
    lacks = (
        (
            setting.workload not in calibration.local,
            f"workload {setting.workload} was not calibrated ({known} was): its local cost is a guess",
        ),
        (
            waits and setting.after_commit and calibration.after_commit_beside is None,
            "wait_point after_commit was not calibrated: the work during its wait is taken from after_sync",
        ),
        (
            setting.clients > most_clients,
            f"clients {setting.clients} is beyond the {most_clients} calibrated",
        ),
        (
            waits and setting.rtt_ms > most_rtt_ms,
            f"rtt {setting.rtt_ms:g} ms is beyond the {most_rtt_ms:g} ms calibrated",
        ),
        (len(replicas) > 1, f"{len(replicas)} replicas share this machine: it was calibrated with 1"),
    )
    told = [words for is_lacking, words in lacks if is_lacking]
    told += [
        f"{name}={format_value(name.knob, value)} is not in the model"
        for name, value in values.items()
        if value not in (None, name.knob.default) and not is_known(name, setting.workload)
    ]
    return tuple(told)


def check_known(values: Mapping[KnobName, Value], named: Collection[KnobName]) -> None:
    """Raise UsageError where one of the knobs that are named has a value that the model leaves out of
    account; a link between two replicas is only named as such (`rtt=20ms` of a group means every link)."""
    workload = str(value_of(values, keys.WORKLOAD, Place.LOAD))
    of_source = {name.key for name in named if not is_pair(name.node)}
    for name in named:
        if is_pair(name.node) and name.key in of_source:
            continue
        if values[name] != name.knob.default and not is_known(name, workload):
            of = f" of workload {workload}" if name.key == keys.KEY_SPREAD else ""
            raise UsageError(
                f"the model does not know {name}{of}",
                f"measure it with `replexplorer sweep`; the model knows {', '.join(sorted(_LOOKED_AT))}",
            )


def is_known(name: KnobName, workload: str) -> bool:
    """Whether the model looks at it: durability and disk of the source and, for its lag, of a replica; links
    to the source alone."""
    if name.key == keys.KEY_SPREAD:
        return hot_rows(workload, 1) is not None
    if name.key in _OF_APPLIERS and name.node != SOURCE:
        return True
    has_place = name.node == SOURCE if name.knob.place is Place.SOURCE else not is_pair(name.node)
    return name.key in _LOOKED_AT and has_place


def value_of(values: Values, key: str, node: str = SOURCE) -> Value:
    """A knob's value, its default where it is missing or None."""
    value = values.get(KnobName(key, node))
    return BY_KEY[key].default if value is None else value


def link_of(values: Values, replica: str) -> LinkSettings:
    """What is asked of the link between the source and a replica."""
    return LinkSettings.of(
        {name.key: value for name, value in values.items() if name.node == replica and value is not None}
    )


def _group_delay_ms(values: Values) -> float:
    """binlog_group_commit_sync_delay, unless so few clients already end it early; or MariaDB's, which needs a
    number of commits to wait for."""
    clients = int(value_of(values, keys.CLIENTS, Place.LOAD))
    awaited = int(value_of(values, keys.BINLOG_COMMIT_WAIT_COUNT))
    if awaited:
        return 0.0 if clients >= awaited else int(value_of(values, keys.BINLOG_COMMIT_WAIT_USEC)) / 1000
    enough = int(value_of(values, keys.BINLOG_GROUP_COMMIT_SYNC_NO_DELAY_COUNT))
    if enough and clients >= enough:
        return 0.0
    return int(value_of(values, keys.BINLOG_GROUP_COMMIT_SYNC_DELAY)) / 1000
