"""Changes of servers that somebody else made, as a journal has them: what was so before, and what is set;
and the schema that a load was given there.

Laws: an entry is on the disk before its statement is sent, so that what the journal does not name was not
touched. The first value of a variable is the one to go back to, whatever was set in between. What somebody
else has set since is left alone and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from replexplorer.core.dialect.attaching import same_setting


@dataclass(frozen=True, slots=True)
class Outstanding:
    """One variable of one server that is not as it was found."""

    node: str
    variable: str
    before: str
    """As it was found."""
    asked: str
    """As it was last to be set."""
    now: str | None = None
    """What the server made of that; None where nobody saw it."""
    held: str | None = None
    """What it was when it was last asked for; None: as it was found."""
    mark: str | None = None
    """By which a schema is known to be the one that was made; None of a variable."""

    @property
    def is_schema(self) -> bool:
        """Whether it is a schema that is to be dropped; then `variable` names it as `schema NAME`."""
        return self.mark is not None


class Fate(StrEnum):
    """What became of a changed variable."""

    RESTORED = "restored"
    AS_BEFORE = "as before"
    """It was so already."""
    LEFT = "left"
    """Somebody else has set it since."""
    UNREACHED = "unreached"
    """Its server did not answer, or refused."""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """One variable, or the schema, after its change was undone, or was not."""

    change: Outstanding
    fate: Fate
    found: str | None = None
    """What it was when it was looked at."""
    why: str = ""
    """Of one that was not reached."""


def before_set(node: str, variable: str, before: str, asked: str) -> dict[str, Any]:
    """The entry of a change that is about to be made."""
    return {"kind": "set", "node": node, "variable": variable, "before": before, "asked": asked}


def after_set(node: str, variable: str, now: str) -> dict[str, Any]:
    """The entry of one that was made, or refused: what the server has now."""
    return {"kind": "is", "node": node, "variable": variable, "now": now}


ABSENT, PRESENT = "absent", "present"
"""What a schema is in place of a value."""


def before_making(node: str, schema: str, mark: str) -> dict[str, Any]:
    """The entry of a schema that is about to be made."""
    return {"kind": "schema", "node": node, "schema": schema, "mark": mark}


def after_dropping(node: str, schema: str) -> dict[str, Any]:
    """The entry of one that was dropped, or never made."""
    return {"kind": "dropped", "node": node, "schema": schema}


def outstanding(entries: Iterable[Mapping[str, Any]]) -> tuple[Outstanding, ...]:
    """What is to be undone, the newest first; entries of other kinds say nothing of that. Raises KeyError for
    an entry that lacks a field."""
    found: dict[tuple[str, str], Outstanding] = {}
    for entry in entries:
        if entry.get("kind") in ("schema", "dropped"):
            key = (str(entry["node"]), f"schema {entry['schema']}")
            found.pop(key, None)
            if entry["kind"] == "schema":
                found[key] = Outstanding(*key, ABSENT, PRESENT, mark=str(entry["mark"]))
            continue
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
