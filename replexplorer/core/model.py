"""What TPS and latency the settings should give: the fitted model beside the bound of `ceiling`.

DOMAIN.md section 5. Law: every term is measured or fitted from measured runs; nothing is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prediction:
    """The model's answer for one setting."""

    tps: float
    latency_ms: float
    """Mean service time of a commit."""
    limit: str
    """In words, what limits now: `network wait: 97 % of a commit; twice the clients would nearly double
    TPS`."""
    calibrated: str | None = None
    """The day and number of runs that the model was fitted from; None: the shipped calibration."""
