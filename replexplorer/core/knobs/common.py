"""What a node that joins is asked for: what a bare key asked of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Desired, KnobName, Place, Value

_EVERYWHERE: Final = (Place.REPLICAS, Place.MEMBERS)
_FEWEST: Final = 2


def for_joined(
    wanted: Desired,
    names: Iterable[KnobName],
    joined: Collection[str],
    nodes_of: Callable[[KnobName], Collection[str]],
) -> dict[KnobName, Value]:
    """The values that nodes which have `joined` take from the others, by the knobs' `names` on all nodes.

    Requests are kept for each node and link, so a value counts as everybody's where at least two were there,
    something was asked of each and more than half want the same: one pair that is farther stays that pair's,
    and the only link of a stack says nothing of the next one. What was asked of a node that had been there
    before stays, and nobody joins behind a partition. `nodes_of` answers where a knob is carried out.
    """
    found: dict[KnobName, Value] = {}
    by_key: dict[str, list[KnobName]] = {}
    for name in names:
        if name.knob.place in _EVERYWHERE and name.key != keys.PARTITION:
            by_key.setdefault(name.key, []).append(name)
    for alike in by_key.values():
        fresh = [name for name in alike if not set(joined).isdisjoint(nodes_of(name))]
        asked = [wanted.get(name) for name in alike if name not in fresh]
        value = _shared(asked)
        if value is not None:
            found.update({name: value for name in fresh if name not in wanted})
    return found


def _shared(asked: Sequence[Value | None]) -> Value | None:
    """What more than half ask for where all ask for something; None where nothing is common to them."""
    if len(asked) < _FEWEST or None in asked:
        return None
    value, count = Counter(asked).most_common(1)[0]
    return value if 2 * count > len(asked) else None
