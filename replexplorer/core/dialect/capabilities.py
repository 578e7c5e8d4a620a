"""What one server has: its flavour, its names for our knobs, its ranges. Probed, never guessed.

Law: names are found by asking which of a knob's variables exist; a version is for showing and is
compared as a tuple only (MySQL goes from 9.7 to 26.7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.catalogue import BY_KEY, CATALOGUE, Backing, Kind, Knob
from replexplorer.core.system import ASYNC, GALERA, GROUP, System, who_has

KNOB_VARIABLES: Final = tuple(variable for knob in CATALOGUE for variable in knob.variables)
"""Every name that any server has for any knob."""
_GROUP: Final = "group_replication_group_name"
"""A server has this variable when the plugin is loaded."""
_GALERA: Final = "wsrep_on"
"""MariaDB has it always, and it is on in a cluster."""
IDENTIFYING: Final = ("version", "version_comment", "server_uuid", _GROUP, _GALERA)
"""Variables that say what a server is; all flavours have the first two."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a server says of one of its variables."""

    low: int | None
    high: int | None
    is_fixed: bool = False
    """It cannot change while the server runs."""
    words: tuple[str, ...] = ()
    """The words that it takes, lower-case; empty where the server lists none."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one server has, from its answers."""

    flavor: str
    """mysql, percona or mariadb."""
    version: tuple[int, ...]
    """The leading numbers, for comparing: (9, 7, 4)."""
    version_text: str
    """As the server writes it."""
    server_uuid: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Knob key to the name of the variable that carries it here; a key that is absent is lacking."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """Knob key to this server's own range."""
    system: System = ASYNC
    """What it can be a node of, as it was started."""

    @classmethod
    def of(cls, variables: Mapping[str, str], ranges: Mapping[str, Range]) -> Capabilities:
        """From a server's variables by lower-case name, and what it says of their ranges; what means nothing
        in its system it does not have."""
        system = system_of_server(variables)
        names = {
            knob.key: next(name for name in knob.variables if name in variables)
            for knob in CATALOGUE
            if system.has(knob) and any(name in variables for name in knob.variables)
        }
        version_text = variables.get("version", "")
        return cls(
            flavor=flavor_name(variables),
            version=version_tuple(version_text),
            version_text=version_text,
            server_uuid=variables.get("server_uuid"),
            variables=names,
            ranges={key: ranges[name] for key, name in names.items() if name in ranges},
            system=system,
        )

    @property
    def title(self) -> str:
        """Flavour and version for people: `mysql 9.7.4`."""
        return f"{self.flavor} {'.'.join(map(str, self.version))}"

    def has(self, key: str) -> bool:
        """Whether a server's knob can be turned here; a knob of the link or the load always can."""
        return BY_KEY[key].backing is not Backing.SERVER or (
            key in self.variables and not self._is_fixed(key)
        )

    def _why_not(self, knob: Knob) -> str:
        """Why a knob cannot be turned here, and where it can be."""
        if self._is_fixed(knob.key):
            return f"{self.title} cannot change it while it runs"
        if not self.system.has(knob):
            return f"{self.system.title} does not have it; {who_has(knob)}"
        return f"{self.title} does not have it"

    def _is_fixed(self, key: str) -> bool:
        return key in self.ranges and self.ranges[key].is_fixed

    def knob(self, key: str) -> Knob:
        """The catalogue's row, narrowed to this server's range; raise UsageError when it lacks it."""
        knob = BY_KEY[key]
        if not self.has(key):
            raise UsageError(f"{key} is not available", self._why_not(knob))
        return self.narrowed(key) or knob

    def narrowed(self, key: str) -> Knob | None:
        """The catalogue's row with this server's range or words; None where it says nothing of it."""
        known = self.ranges.get(key)
        return None if known is None else _narrowed(BY_KEY[key], known)


def system_of_server(variables: Mapping[str, str]) -> System:
    """What a server was started for, from its variables."""
    if _GROUP in variables:
        return GROUP
    return GALERA if variables.get(_GALERA, "").lower() in ("on", "1") else ASYNC


@cache
def _narrowed(knob: Knob, known: Range) -> Knob:
    if knob.kind is Kind.CHOICE:
        return _with_words(knob, known.words)
    if known.high is None or known.high <= 0:
        return knob
    minimum = max(knob.minimum or 0, known.low or 0)
    maximum = known.high if knob.maximum is None else min(knob.maximum, known.high)
    ladder = tuple(r for r in knob.ladder if not isinstance(r, str) and minimum <= r <= maximum)
    return replace(knob, minimum=minimum, maximum=maximum, ladder=ladder, range_note="")


def _with_words(knob: Knob, words: Sequence[str]) -> Knob:
    """A choice narrowed to what the server lists, where that leaves any."""
    choices = tuple(choice for choice in knob.choices if choice in words)
    if not choices:
        return knob
    ladder = tuple(rung for rung in knob.ladder if rung in choices)
    return replace(knob, choices=choices, ladder=ladder if len(ladder) > 1 else ())


def version_tuple(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `9.7.4-2` is (9, 7, 4), `26.7.0` is (26, 7, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def flavor_name(variables: Mapping[str, str]) -> str:
    """The kind of server, from its version and the comment beside it."""
    words = f"{variables.get('version', '')} {variables.get('version_comment', '')}".lower()
    return next((flavor for flavor in ("mariadb", "percona") if flavor in words), "mysql")
