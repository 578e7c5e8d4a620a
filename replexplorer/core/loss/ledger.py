"""The loss ledger: what clients were told, compared with the rows that are there.

Law: rows are compared, not counters. A row that a client was told is committed and that the survivor lacks
is lost; one whose outcome the client never learned is unknown and never lost, whether it is there or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from replexplorer.core.loss.client_log import Attempts, Rows, RunLog
from replexplorer.core.records import field, frozen
from replexplorer.core.server.gtid import Spans, common, count, subtract_gtids, together, without

SAMPLE: Final = 20
"""How many lost rows are named."""
_US_PER_MS: Final = 1000


@frozen
class NodeRows:
    """One node against the client log and the survivor."""

    rows: int
    """Of this run."""
    missing: int
    """Acknowledged and not here."""
    extra: int
    """Here and not on the survivor."""
    errant_gtids: str
    """The GTID set executed here and not on the survivor; empty for none."""


@frozen
class LossLedger:
    """What became of every row of one run, with one node as the survivor."""

    attempted: int
    acknowledged: int
    """The client has the OK."""
    failed: int
    """The server said no."""
    unknown: int
    """The line went away in between, or the load did: never counted as lost."""
    survivor: str
    lost: int
    """Acknowledged and on no row of the survivor."""
    lost_sample: tuple[tuple[int, int], ...]
    """(client, seq) of the newest lost rows, the newest first, at most 20."""
    newest_lost_age_ms: float | None
    """How long before the failure the client of the newest lost row was told OK; None when nothing was
    lost, or the moment of the failure is not known."""
    oldest_lost_age_ms: float | None
    """The same of the oldest lost row: the span of time that was lost."""
    unknown_present: int
    """Unknown to the client and on the survivor."""
    unknown_absent: int
    phantom_reads: int
    """Rows that another session saw and that the survivor lacks."""
    clients: int
    """That attempted anything."""
    clients_with_loss: int
    most_lost_of_one_client: int
    nodes: Mapping[str, NodeRows] = field(default_factory=dict)
    """Every node whose rows could be read."""


def count_losses(
    log: RunLog,
    rows: Mapping[str, Rows],
    survivor: str,
    *,
    executed: Mapping[str, str],
    failed_at_us: int | None = None,
) -> LossLedger:
    """The ledger of a run: `rows` and the GTID sets `executed` by node, the survivor's among them, and the
    moment of the failure in microseconds of the monotonic clock, where there was one."""
    survived, standing = rows[survivor], log.standing
    lost = {
        client: gone
        for client, each in log.clients.items()
        if (gone := without(each.acknowledged, survived.get(client, ())))
    }
    present = sum(
        count(common(each.unknown, survived.get(client, ()))) for client, each in log.clients.items()
    )
    told = sorted(
        ((us, client, seq) for client, seq, us in _newest(lost, log.clients)), key=lambda each: -each[0]
    )
    oldest_us = min(
        (_told_us(log.clients[client], gone[0][0]) for client, gone in lost.items()), default=None
    )
    return LossLedger(
        attempted=standing.attempted,
        acknowledged=standing.acknowledged,
        failed=standing.failed,
        unknown=standing.unknown,
        survivor=survivor,
        lost=sum(map(count, lost.values())),
        lost_sample=tuple((client, seq) for _, client, seq in told[:SAMPLE]),
        newest_lost_age_ms=_age_ms(told[0][0] if told else None, failed_at_us),
        oldest_lost_age_ms=_age_ms(oldest_us, failed_at_us),
        unknown_present=present,
        unknown_absent=standing.unknown - present,
        phantom_reads=_phantoms(log, survived),
        clients=sum(bool(each.attempted) for each in log.clients.values()),
        clients_with_loss=len(lost),
        most_lost_of_one_client=max(map(count, lost.values()), default=0),
        nodes={
            node: NodeRows(
                rows=sum(count(_of_now(log, client, spans)) for client, spans in there.items()),
                missing=sum(
                    count(without(each.acknowledged, there.get(client, ())))
                    for client, each in log.clients.items()
                ),
                extra=sum(
                    count(without(_of_now(log, client, spans), survived.get(client, ())))
                    for client, spans in there.items()
                ),
                errant_gtids=subtract_gtids(executed.get(node, ""), executed.get(survivor, "")),
            )
            for node, there in rows.items()
        },
    )


def _newest(lost: Rows, clients: Mapping[int, Attempts]) -> Iterable[tuple[int, int, int]]:
    """Client, number and time of each client's newest lost rows, as many as a sample may need."""
    for client, gone in lost.items():
        left = SAMPLE
        for first, last in reversed(gone):
            for seq in range(last, max(first - 1, last - left), -1):
                yield client, seq, _told_us(clients[client], seq)
            left -= min(left, last - first + 1)
            if not left:
                break


def _told_us(attempts: Attempts, seq: int) -> int:
    """When the client was told OK of a row that it was told of."""
    return attempts.told_us(seq) or 0


def _age_ms(told_us: int | None, failed_at_us: int | None) -> float | None:
    """From an OK to the failure; 0 for one that came while the failure was under way."""
    if told_us is None or failed_at_us is None:
        return None
    return max(0, failed_at_us - told_us) / _US_PER_MS


def _of_now(log: RunLog, client: int, spans: Spans) -> Spans:
    """Without the rows that were settled when the table was emptied."""
    if not log.was_reset:
        return spans
    attempts = log.clients.get(client)
    return () if attempts is None else without(spans, attempts.settled)


def _phantoms(log: RunLog, survived: Rows) -> int:
    """Rows that a session on any node saw and that are not on the survivor."""
    seen: dict[int, Spans] = {}
    for rows in log.seen.values():
        for client, spans in rows.items():
            seen[client] = together(seen.get(client, ()), spans)
    return sum(
        count(without(_of_now(log, client, spans), survived.get(client, ())))
        for client, spans in seen.items()
    )
