"""How the requested document names a knob: what is asked of a link stays with its two nodes.

Law: a link is kept under both its nodes in order of name and its directions run from the first to the
second, so a document says the same of every wire whichever node is the source. What is asked of the
source goes with the role, and what is asked of each member of a group stays with its node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import SOURCE, Backing, KnobName, Place, Value, parse_name
from replexplorer.core.link import turned_round
from replexplorer.core.topology import Roster, ends_of, is_pair


def kept(name: KnobName, value: Value, roster: Roster) -> tuple[str, Value]:
    """A knob with its value as the document of a stack with these nodes has them."""
    if name.knob.place is Place.MEMBERS:
        return f"{name.key}@{roster.source if name.node == SOURCE else name.node}", value
    if name.knob.backing is not Backing.LINK:
        return str(name), value
    link = roster.link(name.node)
    key, value = _from_first(name.key, value, link, roster)
    return f"{key}@{link}", value


def unkept(text: str, value: Value, roster: Roster) -> tuple[KnobName, Value] | None:
    """The inverse of `kept`; None for a knob of another version. Documents from before kept a link under the
    far node alone, which is then seen from the source."""
    try:
        name = parse_name(text)
    except UsageError:
        return None
    if name.node == Place.LOAD:
        return name, value
    if name.knob.backing is not Backing.LINK:
        return KnobName(name.key, roster.placed(name.node)), value
    placed = roster.placed(name.node)
    if placed == SOURCE:
        return None
    key = name.key
    if is_pair(name.node):
        key, value = _from_first(key, value, roster.link(placed), roster)
    return KnobName(key, placed), value


def kept_all(values: Mapping[KnobName, Value], roster: Roster) -> dict[str, Value]:
    """Knobs with their values as the document has them."""
    return dict(kept(name, value, roster) for name, value in values.items())


def without(written: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """A document's knobs less those of nodes that are `gone`, and of the links to them."""
    return {text: value for text, value in written.items() if set(gone).isdisjoint(_nodes_in(text))}


def _nodes_in(text: str) -> tuple[str, ...]:
    """The nodes that a written name speaks of."""
    _, _, node = text.partition("@")
    return ends_of(node) if is_pair(node) else (node,)


def unkept_all(values: Mapping[str, Value], roster: Roster) -> dict[KnobName, Value]:
    """The inverse; knobs that this version does not know are left out."""
    found = (unkept(text, value, roster) for text, value in values.items())
    return dict(each for each in found if each is not None)


def seen_from(values: Mapping[KnobName, Value], before: Roster, now: Roster) -> dict[KnobName, Value]:
    """The same of the same nodes and wires, named as they are once another node is the source; what is asked
    of the source is asked of the node that was it and of the one that is."""
    if before.source == now.source:
        return dict(values)
    found: dict[KnobName, Value] = {}
    for name, value in values.items():
        if name.knob.backing is Backing.LINK:
            found |= unkept_all(dict([kept(name, value, before)]), now)
        elif name.node == Place.LOAD:
            found[name] = value
        else:
            if name.node == SOURCE:
                found[name] = value
            if name.knob.place is not Place.SOURCE or name.knob.extra_nodes:
                node = before.source if name.node == SOURCE else name.node
                found[KnobName(name.key, now.placed(node))] = value
    return found


def _from_first(key: str, value: Value, link: str, roster: Roster) -> tuple[str, Value]:
    """Said from the link's first node, where it was said from the source; and back."""
    return (key, value) if roster.begins(link) == ends_of(link)[0] else turned_round(key, value)
