"""What a bare key asks of every node or link, also of one that joins later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, Desired, Knob, KnobName, Place, Value, addressed
from replexplorer.core.topology import Roster, is_pair

_EVERYWHERE: Final = (Place.REPLICAS, Place.MEMBERS)
_FEWEST: Final = 2

KeptChange = Mapping[str, Value | None]
"""What is to be kept of keys for nodes that join; None where nothing is any more."""


def is_shared(knob: Knob) -> bool:
    """Whether a bare key asks it of every node or link, and of one that joins; nobody joins behind a
    partition."""
    return knob.place in _EVERYWHERE and knob.key != keys.PARTITION


def everywhere_after(known: Mapping[str, Value], change: Desired, roster: Roster) -> dict[str, Value]:
    """What is asked of every node and link, by key, after a change on a stack with these nodes.

    A change that asks one value of all that its bare key addresses is everybody's, and at the default there
    is nothing to keep; one that asks each for its own takes back what was. A change of some alone leaves it
    as it is. The links between two nodes that are not the source may be left out at their defaults.
    """
    found = dict(known)
    for key in {name.key for name in change if is_shared(name.knob)}:
        names = addressed(key, roster)
        if any(name not in change for name in names if not is_pair(name.node)):
            continue
        values = {change[name] for name in names if name in change}
        value = values.pop()
        if values or value == BY_KEY[key].default:
            found.pop(key, None)
        elif all(name in change for name in names):
            found[key] = value
    return found


def kept_by(known: Mapping[str, Value], change: Desired, roster: Roster) -> dict[str, Value | None]:
    """What a change that somebody asks for makes of what is kept, by the shared keys that it has."""
    after = everywhere_after(known, change, roster)
    return {name.key: after.get(name.key) for name in change if is_shared(name.knob)}


def changed(known: Mapping[str, Value], change: KeptChange) -> dict[str, Value]:
    """What is kept after such a change."""
    merged = {**known, **change}
    return {key: value for key, value in merged.items() if value is not None}


def for_joined(
    wanted: Desired,
    everywhere: Mapping[str, Value],
    names: Iterable[KnobName],
    joined: Collection[str],
    nodes_of: Callable[[KnobName], Collection[str]],
) -> dict[KnobName, Value]:
    """The values that nodes which have `joined` take from the others, by the knobs' `names` on all nodes.

    It is what was last asked `everywhere`. Where nothing was, a value counts as everybody's where at least
    two were there, something was asked of each and more than half want the same: one pair that is farther
    stays that pair's. What was asked of a node that had been there before stays. `nodes_of` answers where a
    knob is carried out.
    """
    found: dict[KnobName, Value] = {}
    by_key: dict[str, list[KnobName]] = {}
    for name in names:
        if is_shared(name.knob):
            by_key.setdefault(name.key, []).append(name)
    for key, alike in by_key.items():
        fresh = [name for name in alike if not set(joined).isdisjoint(nodes_of(name))]
        asked = [wanted.get(name) for name in alike if name not in fresh]
        value = everywhere[key] if key in everywhere else _shared(asked)
        if value is not None:
            found.update({name: value for name in fresh if name not in wanted})
    return found


def _shared(asked: Sequence[Value | None]) -> Value | None:
    """What more than half ask for where all ask for something; None where nothing is common to them."""
    if len(asked) < _FEWEST or None in asked:
        return None
    value, count = Counter(asked).most_common(1)[0]
    return value if 2 * count > len(asked) else None
