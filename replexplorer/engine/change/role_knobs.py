"""Which knobs a change of roles turns: what is asked of a role stays with the role.

Law: the new source has what is asked of the source, the old one what was asked of the replica whose place
it takes, and so have their links; only a partition, which is a fault of its wire, stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    BY_KEY,
    SOURCE,
    Backing,
    Desired,
    KnobName,
    Value,
    same_value,
)
from replexplorer.core.link import turned_round
from replexplorer.core.topology import in_order, is_pair, link_between
from replexplorer.engine.observe.sight import Sight


def of_the_source(sight: Sight, to: str, source: str) -> Iterator[tuple[KnobName, Value]]:
    """The variables of the server `to`, a replica still, that are not as is asked of the source, which it
    is about to be, with what is asked; semi-sync comes last, and only where enough other replicas follow."""
    sample = sight.samples[to]
    asked = {name.key for name in sight.requested.values if name.node in (SOURCE, to)}
    wanted = [key for key in asked if BY_KEY[key].backing is Backing.SERVER and key in sample.values]
    for key in sorted(wanted, key=lambda key: (key == keys.SEMI_SYNC, list(BY_KEY).index(key))):
        name = KnobName(key, SOURCE)
        value = sight.requested_value(name)
        if same_value(name.knob, sample.values[key], value):
            continue
        if key == keys.SEMI_SYNC and value == "on" and not _enough(sight, to, source):
            continue
        yield name, value


def _enough(sight: Sight, to: str, source: str) -> bool:
    """Whether as many nodes will follow the new source as a commit has to wait for."""
    required = int(sight.requested_value(KnobName(keys.SEMI_SYNC_REPLICAS, SOURCE)))
    views = {name: sample.view for name, sample in sight.samples.items()}
    follow = [name for name, view in views.items() if view.reachable and name != to and name != source]
    stays = [name for name in follow if sight.fleet.standing(name).follows is not None]
    is_alive = source in views and views[source].reachable
    return len(stays) + is_alive >= required


def goes_with_the_roles(sight: Sight, before: Desired, source: str, to: str) -> Desired:
    """What is to be turned after the roles of `source` and `to` have changed places: `before` is what was
    requested when `source` was the source, read then."""
    names = set(sight.names())
    wanted: dict[KnobName, Value] = {}
    others = [name for name in sight.fleet.members if name not in (source, to)]
    links = [key for key, knob in BY_KEY.items() if knob.backing is Backing.LINK and key != keys.PARTITION]
    for key in links:
        default = BY_KEY[key].default
        for other in others:
            pair_before = KnobName(key, link_between(to, other))
            wanted[KnobName(key, other)] = before.get(KnobName(key, other), default)
            # A pair's directions run by name: the other end stays where it is, before or behind both.
            is_first = in_order((source, other))[0] == source
            key_now = key if (in_order((to, other))[0] == to) == is_first else turned_round(key, default)[0]
            wanted[KnobName(key_now, link_between(source, other))] = before.get(pair_before, default)
    wanted = {
        name: value
        for name, value in wanted.items()
        if (name in names or (is_pair(name.node) and value != name.knob.default))
        and sight.requested_value(name) != value
    }
    return {**not_so_yet(sight), **wanted}


def not_so_yet(sight: Sight) -> Desired:
    """What is requested and not in force of the nodes that answer and of all links; of a node that was the
    source and follows now, that is what is asked of a replica."""
    wanted = {**sight.lost_values(sight.fleet.members), **_as_replicas(sight)}
    return {name: value for name, value in wanted.items() if _answers(sight, name)}


def _answers(sight: Sight, name: KnobName) -> bool:
    """Whether the node of a knob answers; what is no node's does."""
    sample = sight.samples.get(sight.fleet.named(name.node))
    is_of_node = name.knob.backing in (Backing.SERVER, Backing.DISK)
    return not is_of_node or (sample is not None and sample.view.reachable)


def _as_replicas(sight: Sight) -> Desired:
    asked = {name.key for name in sight.requested.values if name.node == SOURCE}
    wanted: dict[KnobName, Value] = {}
    for name in sight.names():
        if name.key not in asked or name.node == SOURCE:
            continue
        effective, value = sight.effective_value(name), sight.requested_value(name)
        of_node = name.knob.backing in (Backing.SERVER, Backing.DISK)
        if of_node and effective is not None and not same_value(name.knob, effective, value):
            wanted[name] = value
    return wanted
