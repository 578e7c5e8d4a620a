"""The bound that the link sets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replexplorer.core.model.ceiling import acknowledging_rtt_ms, bound


@pytest.mark.parametrize(
    ("clients", "rtt_ms", "local_ms", "tps"),
    [
        (1, 85.0, 0.0, 11.7647),
        (1, 85.0, None, 11.7647),
        (48, 85.4, 3.0, 542.986),
        (32, 0.0, 2.0, 16_000.0),
        (0, 85.0, 1.0, None),
        (8, None, 1.0, None),
        (8, 0.0, 0.0, None),
    ],
)
def test_bound(clients: int, rtt_ms: float | None, local_ms: float | None, tps: float | None) -> None:
    ceiling = bound(clients, rtt_ms, local_ms)
    if tps is None:
        assert ceiling is None
    else:
        assert ceiling is not None
        assert ceiling.tps == pytest.approx(tps, rel=1e-4)
        assert (ceiling.clients, ceiling.rtt_ms, ceiling.local_ms) == (clients, rtt_ms, local_ms or 0.0)


@pytest.mark.parametrize(
    ("rtts", "required", "waits_ms"),
    [
        ((85.0,), 1, 85.0),
        ((85.0, 5.0), 1, 5.0),
        ((85.0, 5.0), 2, 85.0),
        ((85.0, None), 1, 85.0),
        ((85.0, None), 2, None),
        ((), 1, None),
    ],
)
def test_a_commit_waits_for_the_fastest_that_suffice(
    rtts: Sequence[float | None], required: int, waits_ms: float | None
) -> None:
    assert acknowledging_rtt_ms(rtts, required) == waits_ms
