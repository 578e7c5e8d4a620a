"""What settings would risk: the exposure that they should have at a TPS (docs/model.md, "What is at risk").

Law: a figure is the mean over time, from the least to the most that the settings let come about; where a
failure can take nothing that a client was told of, it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from replexplorer.core.knobs import keys
from replexplorer.core.link import LinkSettings
from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.core.model.operating_point import READ_ONLY, Values, link_of, value_of
from replexplorer.core.server.durability import redo_fsyncs
from replexplorer.core.server.exposure import Exposure, Loss, Unknown, after_power_cut, silent

_EACH_COMMIT = 1
_AT_INTERVALS = 0
_SAFE = Loss(0, 0, 0)


def expected_exposure(
    values: Values,
    replicas: Sequence[str],
    setting: OperatingPoint,
    tps: float | None,
    *,
    least_rtt_ms: float = 0.0,
) -> Exposure:
    """Under these knobs with `tps` acknowledged commits a second; None: no commit is acknowledged.

    `least_rtt_ms` is the bare link's round trip. Replicas are taken to keep up, and semi-sync not to have
    fallen back.
    """
    if setting.workload in READ_ONLY:
        return Exposure(_SAFE, _SAFE, _SAFE)
    if tps is None:
        return silent("no commit is acknowledged; once semi-sync has fallen back, no replica gets one")
    flush = int(value_of(values, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT))
    sync = int(value_of(values, keys.SYNC_BINLOG))
    # The background thread that flushes wakes up once a second.
    until_flush = _until_flush(tps, max(1.0, float(value_of(values, keys.INNODB_FLUSH_LOG_AT_TIMEOUT))))
    if not redo_fsyncs(flush):
        power_cut = until_flush
    elif sync != _EACH_COMMIT:
        # The last group's: its redo is flushed by the next commits, one of each client at most is at risk.
        power_cut = Loss(ceil(setting.clients / 2), 0, setting.clients)
    else:
        power_cut = _SAFE
    lost = _source_lost(values, replicas, setting, tps, least_rtt_ms)
    binlog, after = after_power_cut(sync, flush, waits=setting.semi_sync, clients=setting.clients)
    dies = until_flush if flush == _AT_INTERVALS else _SAFE
    return Exposure(dies, power_cut, lost, binlog_lost=binlog, replication_after=after)


def _until_flush(tps: float, every_s: float) -> Loss:
    """All since the last flush, which may be just over or just about to come."""
    return Loss(round(tps * every_s / 2), 0, ceil(tps * every_s), 1000 * every_s / 2)


def _source_lost(
    values: Values, replicas: Sequence[str], setting: OperatingPoint, tps: float, least_rtt_ms: float
) -> Loss | Unknown:
    """What is on its way to the nearest replica; nothing where commits wait for one."""
    if not replicas:
        return Unknown("there is no replica")
    links = [link_of(values, replica) for replica in replicas]
    ways_ms = [_way_ms(link, least_rtt_ms) for link in links if not link.is_silent]
    if not ways_ms:
        return Unknown("no replica gets events over the links as they are: all commits since they were cut")
    if setting.semi_sync:
        return _SAFE
    way_ms = min(ways_ms)
    commits = round(tps * way_ms / 1000)
    return Loss(commits, 0, 2 * commits + setting.clients, way_ms if commits else None)


def _way_ms(link: LinkSettings, least_rtt_ms: float) -> float:
    to_replica_ms, _ = link.one_way_ms
    return max(to_replica_ms, least_rtt_ms / 2)
