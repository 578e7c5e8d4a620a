"""Values that are set and do nothing: what is asked for again is looked at by its effect.

Law: a change is done when its effect is seen, and that holds for a value that was set before, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, Backing, KnobName, Restart, same_value
from replexplorer.core.link import DELAYS, falls_short
from replexplorer.core.link_view import LinkView
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import is_pair
from replexplorer.engine.observe.sight import Sight

SEMI_SYNC: Final = KnobName(keys.SEMI_SYNC, SOURCE)


def doubtful(sight: Sight) -> frozenset[KnobName]:
    """Knobs whose value alone does not say that they are in force, as last looked at."""
    names = {name for name in sight.names() if _was_set_by_hand(sight, name)}
    if _semi_sync_doubt(sight) is not None or (
        sight.effective_value(SEMI_SYNC) == "on" and switched_off(sight)
    ):
        names.add(SEMI_SYNC)
    for link in (*sight.links.values(), *sight.pairs.values()):
        if _link_doubt(link) is not None:
            names.update(KnobName(key, link.replica) for key in DELAYS)
    return frozenset(names)


def switched_off(sight: Sight) -> frozenset[str]:
    """Replicas that will not register for semi-sync when they next connect."""
    return frozenset(name for name, sample in sight.samples.items() if sample.replica_switch is False)


def unmet(sight: Sight, asked: Iterable[KnobName]) -> tuple[str, ...]:
    """What was asked for and has no effect, each in a line, as last looked at; what follows from
    another request (a cut link, more replicas required than there are) is not among it."""
    names = set(asked)
    told = []
    if SEMI_SYNC in names and not _is_unmet_as_asked(sight) and (doubt := _semi_sync_doubt(sight)):
        told.append(doubt)
    for link in (*sight.links.values(), *sight.pairs.values()):
        if any(KnobName(key, link.replica) in names for key in DELAYS) and (doubt := _link_doubt(link)):
            told.append(doubt)
    return tuple(told)


def _was_set_by_hand(sight: Sight, name: KnobName) -> bool:
    """A variable that is read when an applier or a session begins, set by somebody else: what runs may
    still have the value before."""
    if name.knob.backing is not Backing.SERVER or name.knob.restart is Restart.NONE:
        return False
    effective = sight.effective_value(name)
    return effective is not None and not same_value(name.knob, effective, sight.requested_value(name))


def _semi_sync_doubt(sight: Sight) -> str | None:
    """Why semi-sync is on and protects nothing; None when it does, or is not on."""
    protection = sight.protection()
    if protection.state in (ProtectionState.OFF, ProtectionState.DOWN, ProtectionState.PROTECTED):
        return None
    acking, required = protection.replicas_acking, protection.replicas_required
    count = "" if acking is None or required is None else f": {acking} of {required} replicas acknowledge"
    off = "".join(f"; {name} is not to register" for name in sorted(switched_off(sight)))
    return f"semi_sync is on and {protection.state}{count}{off}"


def _is_unmet_as_asked(sight: Sight) -> bool:
    """Whether what else is asked for leaves too few replicas to acknowledge."""
    required = sight.protection().replicas_required or 1
    open_links = [name for name in sight.fleet.replica_names if not sight.asked_of_link(name).is_silent]
    return len(open_links) < required


def _link_doubt(link: LinkView) -> str | None:
    """What says that a link's delay is not in force; None when nothing does."""
    if not falls_short(link.settings, link.rtt_measured_ms, link.rtt_base_ms):
        return None
    return f"the link {'' if is_pair(link.replica) else 'to '}{link.replica}: {link.fault}"
