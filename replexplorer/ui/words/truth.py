"""What the servers' counters say, in words: group commit, fsyncs, acknowledgements, lag, checks.

Law: a check that failed is never left out; what is unknown is not written.
"""

from __future__ import annotations

from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.truth import ReplicaTruth, ServerTruth
from replexplorer.ui.words.runs import Run, width_of

_LATE_MS = 1000.0
"""From this lag on it is a warning."""


def failed_runs(truth: ServerTruth | None) -> list[Run]:
    """Every check that failed, with its evidence."""
    failed = [check for check in truth.checks if not check.holds] if truth else []
    runs: list[Run] = []
    for check in failed:
        runs += [(f"▲ {check.name}: ", "warn b"), (f"{check.evidence}  ", "warn")]
    return runs


def checks_runs(truth: ServerTruth | None) -> list[Run]:
    """`✓ Σ 2`: how many checks hold; nothing when none was made."""
    held = sum(check.holds for check in truth.checks) if truth else 0
    return [(f"✓ {held} check{'' if held == 1 else 's'} ", "muted")] if held else []


def truth_runs(truth: ServerTruth | None, room: int, anatomy: Anatomy | None = None) -> list[Run]:
    """The counters' facts, as many as fit, the more telling ones first to stay; they are of the same
    stretch as the anatomy above them."""
    if truth is None:
        return []
    facts = _facts(truth, anatomy)
    while facts and sum(width_of(runs) + 3 for _, runs in facts) > room:
        facts.remove(max(facts, key=lambda fact: fact[0]))
    joined: list[Run] = []
    for _, runs in facts:
        joined += [*([(" · ", "faint")] if joined else []), *runs]
    return joined


def _facts(truth: ServerTruth, anatomy: Anatomy | None) -> list[tuple[int, list[Run]]]:
    """(rank, words), in the order of the line; the highest rank goes first. How long a commit waits for
    an acknowledgement is the anatomy's to say: a wait of a thread may be a part of that."""
    facts: list[tuple[int, list[Run]]] = []
    if truth.group_size is not None:
        facts.append((2, _pair("group ", f"{truth.group_size:.1f}")))
    if truth.queue_size is not None:
        facts.append((6, _pair("ack queue ", f"{truth.queue_size:.1f}")))
    if truth.redo_fsyncs is not None and truth.binlog_fsyncs is not None:
        pair = f"{truth.redo_fsyncs:.2f} + {truth.binlog_fsyncs:.2f}"
        facts.append((3, _pair("fsyncs redo + binlog ", pair)))
    if truth.ack_waits is not None and truth.duration_s > 0:
        runs = _pair("group ack waits ", f"{truth.ack_waits / truth.duration_s:.0f}/s")
        if truth.ack_wait_ms is not None and (anatomy is None or Part.ACK not in anatomy.parts):
            runs += _pair(" of ", f"{truth.ack_wait_ms:.1f} ms")
        facts.append((4, runs))
    lags = [(replica.name, replica.lag_ms) for replica in truth.replicas if replica.lag_ms is not None]
    if lags:
        worst_ms = max(ms for _, ms in lags)
        facts.append((1, _lag(lag_text(worst_ms), worst_ms)))
    shipped = [one.shipped_bytes_per_s for one in truth.replicas if one.shipped_bytes_per_s is not None]
    if shipped:
        facts.append((5, _pair("to replicas ", f"{sum(shipped) / 1000:.0f} KB/s")))
    return facts


def lag_text(lag_ms: float) -> str:
    """A replica's lag: `0 ms`, `12 ms`, `3.4 s`."""
    return f"{lag_ms:.0f} ms" if lag_ms < _LATE_MS else f"{lag_ms / 1000:.1f} s"


def replica_runs(replica: ReplicaTruth, *, queued: bool = True) -> list[Run]:
    """`lag 12 ms, 3 queued`, or the lag alone."""
    if replica.lag_ms is None:
        return []
    runs = _lag(lag_text(replica.lag_ms), replica.lag_ms)
    if queued and replica.queued:
        runs.append((f", {replica.queued} queued", "muted"))
    return runs


def _lag(text: str, lag_ms: float) -> list[Run]:
    return [("lag ", "muted"), (text, "warn b" if lag_ms >= _LATE_MS else "text")]


def _pair(word: str, figure: str) -> list[Run]:
    return [(word, "muted"), (figure, "text")]
