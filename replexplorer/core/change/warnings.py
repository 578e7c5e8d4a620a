"""What two knobs do to each other: shown before Enter and by `set`, and never a refusal.

Law: a rule speaks when it holds for the values as they will be and one of its knobs was asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    SEMI_SYNC,
    SEMI_SYNC_REPLICAS,
    SOURCE,
    KnobName,
    Place,
    Value,
    format_value,
)
from replexplorer.core.link import DELAYS, LinkSettings
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.model.ceiling import acknowledging_rtt_ms, bound

Values = Mapping[KnobName, Value | None]
"""The values as they will be."""


def _number(values: Values, name: KnobName) -> float | None:
    value = values.get(name)
    return None if isinstance(value, str) else value


def _link(values: Values, link: str) -> LinkSettings:
    return LinkSettings.of({name.key: value for name, value in values.items() if name.node == link})


def _timeout_below_two_round_trips(values: Values, replicas: Sequence[str]) -> str | None:
    name = KnobName(keys.SEMI_SYNC_TIMEOUT, SOURCE)
    timeout_ms = _number(values, name)
    rtt_ms = max((_link(values, replica).total_ms for replica in replicas), default=0.0)
    if timeout_ms is None or timeout_ms > 2 * rtt_ms:
        return None
    timeout = format_value(name.knob, timeout_ms)
    return (
        f"semi_sync_timeout {timeout} is not above 2 x rtt ({2 * rtt_ms:g} ms):"
        " commits may fall back to async"
    )


def _more_required_than_replicas(values: Values, replicas: Sequence[str]) -> str | None:
    required = _number(values, SEMI_SYNC_REPLICAS)
    if required is None or required <= len(replicas):
        return None
    return (
        f"semi_sync_replicas {required:g} is more than the {len(replicas)} there are:"
        " under semi-sync each commit waits for the timeout, then falls back to async"
    )


def _replica_ahead(values: Values, replicas: Sequence[str]) -> str | None:
    sync_binlog = _number(values, KnobName(keys.SYNC_BINLOG, SOURCE))
    if sync_binlog in (None, 1):
        return None
    if values.get(SEMI_SYNC) != "on":
        return (
            f"sync_binlog {sync_binlog:g}: a power cut takes the end of the binlog; replicas then stop with"
            " error 1236 or differ from the source, and have to be copied"
        )
    return (
        f"sync_binlog {sync_binlog:g} under semi-sync: events go out before the binlog's fsync,"
        " so after a power cut the replica can be ahead of the source"
    )


def _delay_without_fsync(values: Values, replicas: Sequence[str]) -> str | None:
    """A group pays the delay whether it is synced or not (source: binlog.cc, ordered_commit)."""
    name = KnobName(keys.BINLOG_GROUP_COMMIT_SYNC_DELAY, SOURCE)
    delay_us = _number(values, name)
    if not delay_us or _number(values, KnobName(keys.SYNC_BINLOG, SOURCE)) != 0:
        return None
    return (
        f"{name.key} {format_value(name.knob, delay_us)} at sync_binlog 0: every commit group waits, and"
        " there is no fsync for its commits to share"
    )


def _jitter_beyond_delay(values: Values, replicas: Sequence[str]) -> str | None:
    for name in (name for name in values if name.key == keys.JITTER):
        link = _link(values, name.node)
        if link.jitter_ms > link.jitter_limit_ms:
            limit = format_value(name.knob, round(link.jitter_limit_ms, 3))
            return f"{name} {link.jitter_ms:g} ms is limited to {limit}: half the one-way delay each way"
    return None


def _rate_above_ceiling(values: Values, replicas: Sequence[str]) -> str | None:
    """The bound without any local cost, which no machine beats: one commit a client and round trip."""
    rate_tps = _number(values, KnobName(keys.RATE, Place.LOAD))
    clients = _number(values, KnobName(keys.CLIENTS, Place.LOAD))
    required = _number(values, SEMI_SYNC_REPLICAS) or 1
    waits = values.get(SEMI_SYNC) == "on"
    if values.get(KnobName(keys.LOAD_MODE, Place.LOAD)) != OPEN or not waits or not rate_tps or not clients:
        return None
    trips_ms = [_link(values, replica).total_ms for replica in replicas]
    rtt_ms = acknowledging_rtt_ms(trips_ms, int(required))
    ceiling = bound(int(clients), rtt_ms, None)
    if ceiling is None or rate_tps <= ceiling.tps:
        return None
    return (
        f"rate {rate_tps:g} tps is above the link's own ceiling for {clients:g} clients over {rtt_ms:g} ms"
        f" ({ceiling.tps:,.0f} tps): arrivals wait, then are dropped"
    )


RULES: Final = (
    (frozenset({keys.SEMI_SYNC_TIMEOUT}) | DELAYS, _timeout_below_two_round_trips),
    (DELAYS, _jitter_beyond_delay),
    (frozenset({keys.SEMI_SYNC_REPLICAS}), _more_required_than_replicas),
    (frozenset({keys.SYNC_BINLOG, keys.SEMI_SYNC}), _replica_ahead),
    (frozenset({keys.BINLOG_GROUP_COMMIT_SYNC_DELAY, keys.SYNC_BINLOG}), _delay_without_fsync),
    (
        DELAYS | {keys.RATE, keys.LOAD_MODE, keys.CLIENTS, keys.SEMI_SYNC, keys.SEMI_SYNC_REPLICAS},
        _rate_above_ceiling,
    ),
)
"""By the knobs that a rule is about what makes its warning of the values as they will be and the replicas;
None when all is well. In the order in which they are shown."""


def warnings_for(values: Values, asked: Collection[KnobName], replicas: Sequence[str]) -> tuple[str, ...]:
    """The warnings that concern what was asked."""
    turned = {name.key for name in asked}
    told = (rule(values, replicas) for about, rule in RULES if about & turned)
    return tuple(text for text in told if text is not None)
