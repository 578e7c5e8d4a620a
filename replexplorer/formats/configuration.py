"""The configuration file and the environment over it: each value, and where it came from.

Law: a flag beats `REPLEXPLORER_*`, which beats the file, which beats the default. An error
names the file (or the variable) and the key. Nothing is read or created at import.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from replexplorer.core.errors import UsageError
from replexplorer.core.load.pacing import MOST_PROCESSES
from replexplorer.core.topology import MOST_REPLICAS, node_number
from replexplorer.formats.paths import is_there
from replexplorer.formats.toml_file import closest, first_error, read_toml

ENV_PREFIX: Final = "REPLEXPLORER_"
"""The prefix of our environment variables."""

STACK_NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,39}$"
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


def _hosts_of_nodes(value: dict[str, str]) -> dict[str, str]:
    for node, host in value.items():
        if node_number(node) is None:
            raise ValueError(f"{node} is no node: db1, db2, ...")
        if not host.strip():
            raise ValueError(f"{node} has no host")
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

    stack: Annotated[str, Field(pattern=STACK_NAME_PATTERN)] = "default"
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
    system: Literal["async", "group", "galera"] | None = None
    """How the nodes of a new stack keep the same rows; none is async."""
    glyphs: Literal["auto", "braille", "block", "ascii"] = "auto"
    """What the charts are drawn with."""
    record: bool = True
    """Whether the dashboard, `load` and `lab` write a session file each."""
    sessions_kept: Annotated[int, Field(ge=1, le=100_000)] = 50
    """How many session files are kept; a new one takes the place of the oldest."""
    hosts: Annotated[dict[str, str], AfterValidator(_hosts_of_nodes)] = {}
    """Host of each node of a new stack, by its name (`unix:///path`, `tcp://...` or a Docker context); none:
    all on this machine."""
    attach_allowed: tuple[Annotated[str, Field(pattern=PLACE_PATTERN)], ...] = ()
    """Sources, as `host:port`, whose settings `attach --allow-changes` may change without their name being
    typed, while nobody works on them."""
    workload: WorkloadSettings = WorkloadSettings()
    """The background load's table and its processes."""


_HOSTS: Final = f"{ENV_PREFIX}HOSTS_"
"""Begins the variable of a node's host."""


@dataclass(frozen=True, slots=True)
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
        return _flatten(self.values.model_dump())


def load_configuration(
    file: Path,
    *,
    named_by_user: bool = False,
    flags: Mapping[str, Any] | None = None,
) -> LoadedConfiguration:
    """Merge flags, environment, file and defaults; raise UsageError naming the source and the key.

    `flags` are dotted keys; None means that a flag was not given. A missing file is an error
    only where the user named it.
    """
    there = named_by_user or is_there(file)
    from_file = _flatten(read_toml(file, "configuration file")) if there else {}
    known = _flatten(Configuration().model_dump())
    variables = {ENV_PREFIX + key.replace(".", "_").upper(): key for key in known}
    from_environment: dict[str, Any] = {
        key: _read(os.environ[name]) for name, key in variables.items() if os.environ.get(name)
    }
    if hosts := {name: host for name, host in os.environ.items() if name.startswith(_HOSTS)}:
        from_environment["hosts"] = {name.removeprefix(_HOSTS).lower(): host for name, host in hosts.items()}
    from_flags = {key: value for key, value in (flags or {}).items() if value is not None}
    merged: dict[str, Any] = {}
    origins = dict.fromkeys(known, "default")
    origin_of_key = {key: f"environment: {name}" for name, key in variables.items()}
    for layer, origin in (
        (from_file, dict.fromkeys(from_file, f"file: {file}")),
        (from_environment, origin_of_key),
        (from_flags, dict.fromkeys(from_flags, "flag")),
    ):
        _validated(layer, origin)  # also what another layer covers must be right
        merged |= layer
        origins |= {key: origin[key] for key in layer}
    unknown = sorted(
        {name for name in os.environ if name.startswith(ENV_PREFIX)} - {*variables, *hosts, *_OTHER_VARIABLES}
    )
    return LoadedConfiguration(_validated(merged, origins), origins, file, there, tuple(unknown))


def _read(text: str) -> Any:
    """A variable's value: of a list or a table its JSON."""
    try:
        return json.loads(text) if text[0] in "[{" else text
    except (ValueError, RecursionError):
        return text


def _flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key to value; of the one table that has keys of its own, where it is a table."""
    flat = dict(table)
    if isinstance(table.get("workload"), Mapping):
        flat |= {f"workload.{key}": value for key, value in flat.pop("workload").items()}
    return flat


def _validated(flat: Mapping[str, Any], origins: Mapping[str, str]) -> Configuration:
    nested = {key: value for key, value in flat.items() if not key.startswith("workload.")}
    workload = {key.partition(".")[2]: value for key, value in flat.items() if key not in nested}
    try:
        return Configuration(**({"workload": workload} if workload else {}) | nested)
    except ValidationError as error:
        where, words = first_error(error)
    key = ".".join(where)
    origin = origins.get(key) or origins[where[0]]
    if origin == "flag":
        raise UsageError(f"--{key}", words)
    known = [*_flatten(Configuration().model_dump())]
    hint = closest(key, known) if words == "no such key" else ""
    name = origin.removeprefix("environment: ").removeprefix("file: ")
    told = f"{name}: {key}" if origin.startswith("file: ") else name
    raise UsageError(told, f"{words}; {hint}" if hint else words)
