"""Student's t: the 97.5 % quantile, for 95 % confidence intervals."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

_NORMAL: Final = 1.959964
_QUANTILES: Final[tuple[tuple[float, float], ...]] = (
    (1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (5, 2.57058), (6, 2.44691), (7, 2.36462),
    (8, 2.30600), (9, 2.26216), (10, 2.22814), (11, 2.20099), (12, 2.17881), (13, 2.16037), (14, 2.14479),
    (15, 2.13145), (16, 2.11991), (17, 2.10982), (18, 2.10092), (19, 2.09302), (20, 2.08596), (22, 2.07387),
    (24, 2.06390), (26, 2.05553), (28, 2.04841), (30, 2.04227), (40, 2.02108), (60, 2.00030), (120, 1.97993),
)  # fmt: skip
"""Degrees of freedom and quantile."""
_FREEDOMS: Final = tuple(freedom for freedom, _ in _QUANTILES)


def t_quantile_975(freedom: float) -> float:
    """The 97.5 % quantile for these degrees of freedom (>= 1, fractions allowed), within 0.001 from 5 on.

    Between two rows of the table the quantile is linear in 1/freedom, nearly exactly.
    """
    if freedom <= 1:
        return _QUANTILES[0][1]
    index = bisect_right(_FREEDOMS, freedom)
    low_freedom, low = _QUANTILES[index - 1]
    inverse_high, high = (
        (1 / _QUANTILES[index][0], _QUANTILES[index][1]) if index < len(_QUANTILES) else (0, _NORMAL)
    )
    share = (1 / low_freedom - 1 / freedom) / (1 / low_freedom - inverse_high)
    return low + (high - low) * share
