"""The configuration file and the environment over it: each value, and where it came from.

Law: a flag beats `REPLEXPLORER_*`, which beats the file, which beats the default. An error
names the file with its line (or the variable) and the key. Nothing is read or created at import.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from replexplorer.core.errors import UsageError
from replexplorer.core.load.pacing import MOST_PROCESSES
from replexplorer.core.records import frozen
from replexplorer.core.system import SystemName
from replexplorer.core.text import closest
from replexplorer.core.topology import MOST_REPLICAS, node_number
from replexplorer.formats.files import TomlFile, first_error
from replexplorer.formats.paths import ENV_PREFIX, is_there

STACK_NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,39}\Z"
"""What a stack may be called: it becomes part of container names."""

PLACE_PATTERN: Final = r"^[A-Za-z0-9._:\[\]-]+:[0-9]{1,5}$"
"""A server, as `host:port`."""


_OTHER_VARIABLES: Final = frozenset({"REPLEXPLORER_DEBUG", "REPLEXPLORER_CONFIG"})


def _ipv4_network(value: str | None) -> str | None:
    if value is not None:
        network = ipaddress.IPv4Network(value)
        if network.prefixlen > 28:
            raise ValueError("the network needs room for at least 14 addresses: /28 or wider")
        return str(network)
    return None


def _stack_name(value: str) -> str:
    if re.fullmatch(STACK_NAME_PATTERN, value) is None:
        raise ValueError(f"{value!r} is not a name: use 1 to 40 lower-case letters, digits, - and _")
    return value


def _node(value: str) -> str:
    if node_number(value) is None:
        raise ValueError(f"{value} is not a node such as db1")
    return value


class WorkloadSettings(BaseModel):
    """The `[workload]` table: what the background load works on."""

    model_config = ConfigDict(extra="forbid")

    table_size: int = Field(default=10_000, ge=1, le=100_000_000)
    """Rows of the workload's table."""
    processes: int = Field(default=0, ge=0, le=MOST_PROCESSES)
    """Generator processes; 0: as many as the load is worth."""


class Configuration(BaseModel):
    """Every key of config.toml."""

    model_config = ConfigDict(extra="forbid")

    stack: Annotated[str, AfterValidator(_stack_name)] = "default"
    """Name of the stack that a verb addresses."""
    theme: Annotated[str, Field(min_length=1)] = "dark"
    """Theme of the dashboard: a built-in one or a file of the user's own."""
    on_quit: Literal["keep", "remove"] = "keep"
    """What `q` does with a stack that this app brought up."""
    reapply: Literal["auto", "ask", "off"] = "auto"
    """Whether a restarted server gets the requested settings back."""
    subnet: Annotated[str | None, AfterValidator(_ipv4_network)] = None
    """IPv4 network of a new stack, as `10.77.0.0/24`; none leaves the choice to Docker."""
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1
    """Replicas of a new stack of the system async; a live stack keeps what it has."""
    image: Annotated[str | None, Field(min_length=1)] = None
    """Image with a server for a new stack; none is the one that we build."""
    flavor: Literal["mysql", "mariadb"] | None = None
    """Which server a new stack runs where no image is named; none is what its system has first: mysql."""
    system: SystemName | None = None
    """How the nodes of a new stack keep the same rows; none is async."""
    glyphs: Literal["auto", "braille", "block", "ascii"] = "auto"
    """What the charts are drawn with."""
    record: bool = True
    """Whether the dashboard, `load` and `lab` write a session file each."""
    sessions_kept: Annotated[int, Field(ge=1, le=100_000)] = 50
    """How many session files are kept; a new one takes the place of the oldest."""
    hosts: dict[Annotated[str, AfterValidator(_node)], Annotated[str, Field(min_length=1)]] = {}
    """Host of each node of a new stack, by its name (`unix:///path`, `tcp://...` or a Docker context); none:
    all on this machine."""
    attach_allowed: tuple[Annotated[str, Field(pattern=PLACE_PATTERN)], ...] = ()
    """Sources, as `host:port`, whose settings `attach --allow-changes` may change without their name being
    typed, while nobody works on them."""
    workload: WorkloadSettings = WorkloadSettings()
    """The background load's table and its processes."""


@frozen
class LoadedConfiguration:
    """The effective configuration with each value's origin."""

    values: Configuration
    origins: Mapping[str, str]
    """Dotted key to `flag`, `environment: REPLEXPLORER_X`, `file: PATH` or `default`."""
    file: Path
    """The file that was looked for."""
    file_found: bool
    unknown_variables: tuple[str, ...] = ()
    """`REPLEXPLORER_*` variables that no key reads: a typing error, most likely."""

    def flat(self) -> dict[str, Any]:
        """Dotted key to value, in the model's order."""
        return _flat(self.values.model_dump())


def load_configuration(
    file: Path,
    *,
    named_by_user: bool = False,
    flags: Mapping[str, Any] | None = None,
) -> LoadedConfiguration:
    """Merge flags, environment, file and defaults; raise UsageError naming the source and the key.

    `flags` are keys; None means that a flag was not given. A missing file is an error
    only where the user named it.
    """
    toml = TomlFile(file, "configuration file") if named_by_user or is_there(file) else None
    given: dict[str, Any] = {**toml.tables} if toml is not None else {}
    known = _flat(Configuration().model_dump())
    variables = {f"{ENV_PREFIX}{key.replace('.', '_').upper()}": key for key in known}
    origins = {**dict.fromkeys(known, "default"), **dict.fromkeys(_flat(given), f"file: {file}")}
    over = {key: (f"environment: {name}", os.environ.get(name)) for name, key in variables.items()}
    over |= {key: ("flag", value) for key, value in (flags or {}).items() if value is not None}
    for key, (origin, value) in over.items():
        if value:
            table, _, last = key.rpartition(".")
            (given.setdefault(table, {}) if table else given)[last] = _read(value)
            origins[key] = origin
    try:
        values = Configuration(**given)
    except ValueError as error:
        raise _wrong(error, origins, toml) from None
    unknown = {name for name in os.environ if name.startswith(ENV_PREFIX)} - {*variables, *_OTHER_VARIABLES}
    return LoadedConfiguration(values, origins, file, toml is not None, tuple(sorted(unknown)))


def _read(text: str) -> Any:
    """A variable's value: of a list or a table its JSON."""
    try:
        return json.loads(text) if text[0] in "[{" else text
    except (ValueError, RecursionError):
        return text


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key to value."""
    table = values.get("workload")
    inner = table if isinstance(table, dict) else {}
    flat = {key: value for key, value in values.items() if value is not inner}
    return flat | {f"workload.{key}": value for key, value in inner.items()}


def _wrong(error: ValueError, origins: Mapping[str, str], toml: TomlFile | None) -> UsageError:
    """What is wrong with a value, by the name of its source."""
    where, words = first_error(error)
    key = ".".join(map(str, where))
    hint = closest(key, list(_flat(Configuration().model_dump()))) if words == "no such key" else ""
    source = origins.get(".".join(map(str, where[: 2 if where[0] == "workload" else 1])), "file: ")
    if toml is not None and source.startswith("file: "):
        return toml.wrong(where, words, hint)
    name = f"--{key}" if source == "flag" else source.removeprefix("environment: ")
    return UsageError(f"{name}: {words}", hint)
