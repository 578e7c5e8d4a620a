"""quorum-of-n: with N acknowledgements a commit waits for the N-th nearest replica (docs/labs.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.labs.evidence import faster, one_commit_a_round_trip, protected
from replexplorer.engine.experiment.labs.lab import Lab, Length, Phase, Phases, Relation

_LOW, _HIGH = 0.93, 1.02
_RTTS_MS = (10, 40, 85)
_ASYNC = "async"


def _name(required: int) -> str:
    return f"{required} of {len(_RTTS_MS)}"


def _judge(phases: Phases) -> Sequence[Relation]:
    async_ms = phases[_ASYNC].mean_ms
    asked = [phases[_name(required)] for required in range(1, len(_RTTS_MS) + 1)]
    return (
        protected(tuple(asked)),
        *(one_commit_a_round_trip(each, async_ms, _LOW, _HIGH) for each in asked),
        *(faster(nearer, farther) for nearer, farther in pairwise(asked)),
    )


def _phases() -> Iterator[Phase]:
    links = tuple(f"rtt@replica{at if at > 1 else ''}={ms}ms" for at, ms in enumerate(_RTTS_MS, 1))
    first = (
        "semi_sync=off", "wait_point=after_sync", "semi_sync_timeout=60s", "sync_binlog=0",
        "innodb_flush_log_at_trx_commit=0", "workload=update_index", "load_mode=closed", "clients=1", *links,
    )  # fmt: skip
    yield Phase(
        _ASYNC,
        (*first, "semi_sync_replicas=1"),
        full=Length(10),
        quick=Length(3),
        state=ProtectionState.OFF,
        shows="what a commit costs when nobody is waited for",
        replicas=len(_RTTS_MS),
    )
    for required, rtt_ms in enumerate(_RTTS_MS, 1):
        yield Phase(
            _name(required),
            ("semi_sync=on", f"semi_sync_replicas={required}"),
            full=Length(10 + rtt_ms / 5),
            quick=Length(3 + rtt_ms / 15),
            state=ProtectionState.PROTECTED,
            shows=f"the replica {rtt_ms} ms away is the last whose acknowledgement counts",
            replicas=len(_RTTS_MS),
        )


QUORUM_OF_N = Lab(
    name="quorum-of-n",
    title="One, two or three acknowledgements of three replicas",
    teaches="A commit waits for the N-th nearest replica: nearer ones cost nothing, farther ones neither.",
    phases=tuple(_phases()),
    judge=_judge,
    replicas=len(_RTTS_MS),
)
