"""Changes of servers that this program did not make, as a journal has them: what was so before, and what is
set.

Laws: an entry is on the disk before its statement is sent, so that what the journal does not name was not
touched. The first value of a variable is the one to go back to, whatever was set in between. What somebody
else has set since is left alone and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Any

from replexplorer.core.dialect.attaching import same_setting
from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import frozen


@frozen
class Outstanding:
    """One variable of one server that is not as it was found."""

    node: str
    variable: str
    before: str
    """As it was found."""
    asked: str
    """As it was last to be set."""
    now: str | None = None
    """What the server made of that; None if it was not seen."""
    held: str | None = None
    """What it was when it was last asked for; None: as it was found."""


class Fate(StrEnum):
    """What became of a changed variable."""

    RESTORED = "restored"
    AS_BEFORE = "as before"
    """It was so already."""
    LEFT = "left"
    """It was set again since by someone else."""
    UNREACHED = "unreached"
    """Its server did not answer, or refused."""


@json_keys(hide="now held")
@frozen
class TakenBack(Outstanding):
    """One variable after its change was undone, or was not."""

    fate: Fate = Fate.UNREACHED
    found: str | None = None
    """What it was when it was looked at; None: its server did not answer."""
    why: str | None = None
    """Of one that was not reached."""

    @classmethod
    def of(
        cls, change: Outstanding, fate: Fate, found: str | None = None, why: str | None = None
    ) -> TakenBack:
        """What became of this change."""
        return cls(**asdict(change), fate=fate, found=found, why=why)


def before_set(node: str, variable: str, before: str, asked: str) -> dict[str, Any]:
    """The entry of a change that is about to be made."""
    return {"kind": "set", "node": node, "variable": variable, "before": before, "asked": asked}


def after_set(node: str, variable: str, now: str) -> dict[str, Any]:
    """The entry of one that was made, or refused: what the server has now."""
    return {"kind": "is", "node": node, "variable": variable, "now": now}


def outstanding(entries: Iterable[Mapping[str, Any]]) -> tuple[Outstanding, ...]:
    """What is to be undone, the newest first; entries of other kinds say nothing of that. Raises KeyError for
    an entry that lacks a field."""
    found: dict[tuple[str, str], Outstanding] = {}
    for entry in entries:
        if entry.get("kind") not in ("set", "is"):
            continue
        key = (str(entry["node"]), str(entry["variable"]))
        if entry["kind"] == "set":
            first = found.pop(key, None)
            held = str(entry["before"])
            found[key] = Outstanding(
                *key, held if first is None else first.before, str(entry["asked"]), held=held
            )
        elif key in found:
            found[key] = replace(found[key], now=str(entry["now"]))
    kept = (each for each in found.values() if each.now is None or not same_setting(each.now, each.before))
    return tuple(reversed(tuple(kept)))


def fate_of(change: Outstanding, found: str) -> Fate:
    """What is to be done about a variable that is found so: `RESTORED` where it is to be set back."""
    if same_setting(found, change.before):
        return Fate.AS_BEFORE
    # Where the answer was not seen the statement may not have been sent: then it is what it was before that.
    ours = (change.asked, change.held) if change.now is None else (change.now,)
    return Fate.RESTORED if any(same_setting(found, each) for each in ours if each) else Fate.LEFT
