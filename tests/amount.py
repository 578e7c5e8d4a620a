"""How much of a law a run tries.

`make test-fast` tries a quarter of what `make test` does, `make test-all` ten times that, at random.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

# A busy machine makes an example slow and not wrong. The same tree has the same answer everywhere, but where
# every repetition is asked for: there new examples are looked for.
FEWEST_EXAMPLES: Final = 25
PROFILES: Final = {
    "fast": settings(deadline=None, derandomize=True, max_examples=FEWEST_EXAMPLES),
    "usual": settings(deadline=None, derandomize=True, max_examples=100),
    "full": settings(deadline=None, derandomize=False, max_examples=1000, print_blob=True),
}


def examples(share: float) -> int:
    """Of the examples of any law, the share for one of which each is dear."""
    return max(3, round(share * settings.default.max_examples))  # type: ignore[union-attr]
