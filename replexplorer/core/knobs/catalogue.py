"""The catalogue: every setting that an operator can turn, one table of `catalogue.toml` a knob.

Law: the planner, the panel, the command line, the help and docs/reference/knobs.md are drawn from
`CATALOGUE`; nothing else knows a knob's range, node, variable or risk, and what goes over knobs asks
their rows. A rule about one knob takes its key from keys.py. A knob whose backing is not built is absent.
A value is a number or a lower-case word (`on`, `after_sync`); which of these a server has is probed
(core/dialect/dialect.py), never guessed. Ranges are the widest of any server
(docs/explanation/semi-sync.md and commit-cost.md); what a server says of itself narrows them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from replexplorer.core.records import frozen

Value = int | float | str
"""What a knob holds: a count, a duration in the knob's unit, or a lower-case word."""


class Group(StrEnum):
    """The panel's headings, in their order."""

    LINK = "link"
    SEMI_SYNC = "semi-sync"
    GROUP = "group replication"
    GALERA = "galera"
    DURABILITY = "durability"
    BINLOG = "binlog"
    REPLICA = "replica"
    DISK = "disk"
    LOAD = "load"
    SERVER = "server"
    """What is rarely turned of a server, and of the shim in front of its disk."""


class Kind(StrEnum):
    """How a knob's value is written and checked."""

    CHOICE = "choice"
    INT = "int"
    FLOAT = "float"


class Place(StrEnum):
    """Which nodes a bare key addresses."""

    SOURCE = "source"
    """The source: bare keys go to the primary, `key@node` to a replica where it makes sense."""
    REPLICAS = "replicas"
    """Each replica has its own value: names are always `key@node`."""
    MEMBERS = "members"
    """Each node of a group has its own value, the one that takes writes too; a bare key addresses all."""
    LOAD = "load"
    """The background load: one value a stack."""


class Backing(StrEnum):
    """What carries the knob out."""

    SERVER = "global"
    """SET GLOBAL on a server."""
    LINK = "link"
    """The agents at both ends of a link."""
    DISK = "disk"
    """The agent next to the server, through the shim in front of its fsyncs."""
    LOAD = "load"
    """The load's own process."""


class Restart(StrEnum):
    """What has to be restarted around the change, so that it takes effect."""

    NONE = "none"
    APPLIER = "applier"
    """STOP/START REPLICA SQL_THREAD on that replica."""
    SESSIONS = "sessions"
    """New sessions of the load: the variable is copied into a session when it begins."""


ON_OFF: Final = ("off", "on")
"""The words of a switch."""
_TRUE: Final = frozenset({"on", "1", "true", "yes", "enabled"})
_FALSE: Final = frozenset({"off", "0", "false", "no", "disabled"})


@frozen
class Knob:
    """One row of the catalogue."""

    key: str
    """The name that is typed: the server's own variable name where it has one."""
    label: str
    """At most 15 characters, for the panel."""
    group: Group
    kind: Kind
    place: Place
    backing: Backing
    """global (a server variable), link, disk or load."""
    default: Value
    help: str
    """One sentence: what it does."""
    unit: str = ""
    """Unit of the value: `ms`, `us`, `s`, `B` (a size), `commits`, `clients`; empty for words and plain
    counts."""
    choices: tuple[str, ...] = ()
    """The words of a CHOICE, in ladder order."""
    synonyms: tuple[tuple[str, str], ...] = ()
    """Words that mean one of the choices to the server, each with its choice: it reads back as that."""
    words: tuple[tuple[str, Value], ...] = ()
    """Words that a number may be given as, each with its value; the first of a value is how it is written."""
    minimum: float | None = None
    maximum: float | None = None
    multiple: int = 1
    """Of what a whole number must be a multiple: a server rounds any other silently."""
    below_minimum: str = ""
    """Why a value below the minimum is refused, when that is more than a range."""
    ladder: tuple[Value, ...] = ()
    """The values that the arrow keys walk through; a CHOICE walks its choices."""
    restart: Restart = Restart.NONE
    """What has to start again for a change: nothing, the applier, the load's sessions."""
    risk: str = ""
    """What is lost, after the values that lose it, `not 1:`, `0, 2:` or `after_commit:`; without such a head
    any but the default does. Empty when none loses anything."""
    variables: tuple[str, ...] = ()
    """Server variables that carry it, newest name first; the server has one of them or lacks the knob."""
    aliases: tuple[str, ...] = ()
    """Other names that are accepted on input."""
    files: bool = False
    """Besides its words it takes a file of SQL: a path, or a name that ends with `.sql`."""
    extra_nodes: bool = False
    """A SOURCE knob that a replica has as well (`key@node`)."""
    seldom: bool = False
    """Rarely turned: the panel has it behind its heading's last line while it is at its default."""
    lacking: Value | None = None
    """What a server that lacks it does all the same, as a value of it; None where that is no value."""
    flavor_defaults: tuple[tuple[str, Value], ...] = ()
    """Flavours for which a stack's default is another value than `default`, each with that."""
    server_defaults: tuple[tuple[str, Value | None], ...] = ()
    """Flavours whose servers come with another value than the stack's option file gives them, each with
    that; None: it depends on the machine."""
    range_note: str = ""
    """What it takes, where that differs between servers; a server's own range takes its place."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """Every name that is accepted for it on input, its own first."""
        return tuple(dict.fromkeys((self.key, *self.aliases, *self.variables)))

    def default_of(self, flavor: str | None) -> Value:
        """What a reset makes of it on a server of this flavour; None where the flavour is not known."""
        return dict(self.flavor_defaults).get(flavor or "", self.default)

    def server_default_of(self, flavor: str | None) -> Value | None:
        """What a server of this flavour comes with, without the stack's option file; None for what is no
        server's, and where it differs and the flavour is not known."""
        if self.backing is not Backing.SERVER or (self.server_defaults and flavor is None):
            return None
        return dict(self.server_defaults).get(flavor or "", self.default_of(flavor))

    def is_file(self, text: str) -> bool:
        """Whether a user's file is meant."""
        return self.files and ("/" in text or text.endswith(".sql"))

    def word(self, text: str) -> str:
        """The word as it is kept: lower-case, synonyms resolved, whatever means on or off as that."""
        word = text.strip().lower().replace("-", "_")
        if set(ON_OFF) <= set(self.choices):
            word = "on" if word in _TRUE else "off" if word in _FALSE else word
        return dict(self.synonyms).get(word, word)

    @property
    def steps(self) -> tuple[Value, ...]:
        """The values that the arrow keys walk through, in order."""
        return self.ladder or self.choices


_BY_THE_MACHINE: Final = "by the machine"
"""A server's default that is not a value."""
_WORDS: Final[Mapping[str, type[StrEnum]]] = {
    "group": Group,
    "kind": Kind,
    "place": Place,
    "backing": Backing,
    "restart": Restart,
}
"""Each key that says one of a few words, with these."""


def _knob(key: str, written: dict[str, Any]) -> Knob:
    """The knob that a table of the file describes."""
    row = {"kind": "int", "place": "source", "backing": "global", "restart": "none"} | written
    if row.pop("switch", False):
        row["choices"] = ON_OFF
    if "choices" in row:
        row["kind"] = "choice"
    if row["backing"] == "global":
        row.setdefault("variables", (key,))
    for name, words in _WORDS.items():
        row[name] = words(row[name])
    for name in ("choices", "ladder", "variables", "aliases"):
        row[name] = tuple(row.get(name, ()))
    for name in ("words", "synonyms", "flavor_defaults", "server_defaults"):
        row[name] = tuple(
            (word, None if value == _BY_THE_MACHINE else value) for word, value in row.get(name, {}).items()
        )
    return Knob(key=key, **row)


BY_KEY: Final[Mapping[str, Knob]] = {
    key: _knob(key, row)
    for key, row in tomllib.loads(
        Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    ).items()
}
"""Every knob by its own key, in the panel's order."""
CATALOGUE: Final = tuple(BY_KEY.values())
"""Every knob, in the panel's order."""
