"""The configuration file and the environment over it: each value, and where it came from.

Law: a flag beats `REPLEXPLORER_*`, which beats the file, which beats the default. An error
names the file (or the variable) and the key. Nothing is read or created at import.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from replexplorer.core.errors import UsageError
from replexplorer.core.load.places import MOST_PROCESSES
from replexplorer.core.printable import one_line
from replexplorer.core.topology import MOST_REPLICAS, node_number
from replexplorer.formats.paths import is_there
from replexplorer.formats.small_file import read_toml

ENV_PREFIX: Final = "REPLEXPLORER_"
"""The prefix of our environment variables."""

STACK_NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,39}$"
"""What a stack may be called: it becomes part of container names."""

PLACE_PATTERN: Final = r"^[A-Za-z0-9._:\[\]-]+:[0-9]{1,5}$"
"""A server, as `host:port`."""


_SHOWN: Final = 60
"""Characters of a wrong value that an error repeats."""
_MOST_WORDS: Final = 200

_TABLE: Final = "is a table: set its keys one by one"

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


class Configuration(BaseSettings):
    """Every key of config.toml."""

    model_config = SettingsConfigDict(
        extra="forbid",
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
        env_ignore_empty=True,
    )

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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what `load_configuration` merged: it keeps the origin of each value."""
        return (init_settings,)


_TABLES: Final = tuple(
    name for name, field in Configuration.model_fields.items() if field.annotation is WorkloadSettings
)


_HOSTS: Final = "hosts"
"""The table whose keys are nodes."""


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
    from_file = _read_file(file, named_by_user=named_by_user)
    from_environment = _read_environment()
    from_flags = {key: value for key, value in (flags or {}).items() if value is not None}
    merged: dict[str, Any] = {}
    origins: dict[str, str] = dict.fromkeys(_flatten(Configuration.model_construct().model_dump()), "default")
    for layer, origin in (
        (from_file or {}, f"file: {file}"),
        (from_environment, "environment: {variable}"),
        (from_flags, "flag"),
    ):
        layer_origins = {key: origin.replace("{variable}", _variable(key)) for key in layer}
        _validated(layer, layer_origins, file)  # also what another layer covers must be right
        merged |= layer
        origins |= layer_origins
    values = _validated(merged, origins, file)
    known = {_variable(key) for key in _flatten(values.model_dump())} | _OTHER_VARIABLES
    hosts = f"{_variable(_HOSTS)}_"
    unknown = sorted(
        name
        for name in os.environ
        if name.startswith(ENV_PREFIX) and not name.startswith(hosts) and name not in known
    )
    return LoadedConfiguration(values, origins, file, from_file is not None, tuple(unknown))


def _validated(flat: Mapping[str, Any], origins: Mapping[str, str], file: Path) -> Configuration:
    try:
        return Configuration(**_nest(flat))
    except ValidationError as error:
        raise _configuration_error(error, origins, file) from None


def first_error(error: ValidationError) -> tuple[tuple[str, ...], str]:
    """Where the first error is and what is wrong, in words without pydantic's own."""
    problem = error.errors(include_url=False)[0]
    where = tuple(str(part) for part in problem["loc"])
    context = problem.get("ctx", {})
    value = problem.get("input")
    given = one_line(str(value) if isinstance(value, date) else repr(value), _SHOWN)
    words = {
        "extra_forbidden": "no such key",
        "missing": "is missing",
        "model_type": _TABLE,
        "string_type": "must be text" if isinstance(value, Mapping | list) else f"must be text, not {given}",
        "literal_error": f"must be {context.get('expected')}, not {given}",
        "string_pattern_mismatch": f"must match {context.get('pattern')}, not {given}",
        "value_error": one_line(str(context.get("error", "")), _MOST_WORDS),
    }.get(problem["type"])
    if words is None:
        words = problem["msg"].removeprefix("Input ")[:1].lower() + problem["msg"].removeprefix("Input ")[1:]
        words += f", not {given}" if not isinstance(value, Mapping | list) else ""
    return where, words


def closest(word: str, known: Sequence[str]) -> str:
    """`; did you mean X?` where one of the known words is near, else nothing."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


def _read_file(file: Path, *, named_by_user: bool) -> dict[str, Any] | None:
    if not named_by_user and not is_there(file):
        return None
    return _flatten(read_toml(file, "configuration file"))


def _read_environment() -> dict[str, Any]:
    try:
        return _flatten(EnvSettingsSource(Configuration)())
    except (SettingsError, RecursionError):
        given = [_variable(name) for name in (*_TABLES, _HOSTS) if _variable(name) in os.environ]
        raise UsageError(given[0] if given else ENV_PREFIX, _TABLE) from None


def _variable(key: str) -> str:
    return ENV_PREFIX + key.replace(".", "_").upper()


def _flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key to value; a table where there is none is a value as any other, to be refused as one."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and key in _TABLES:
            flat |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            flat[key] = value
    return flat


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for dotted, value in flat.items():
        *tables, key = dotted.split(".")
        inner = nested
        for table in tables:
            if not isinstance(inner.setdefault(table, {}), dict):
                inner[table] = {}
            inner = inner[table]
        inner[key] = value
    return nested


def _configuration_error(error: ValidationError, origins: Mapping[str, str], file: Path) -> UsageError:
    where, words = first_error(error)
    key = ".".join(where)
    origin = origins.get(key) or next((o for k, o in origins.items() if k.startswith(key)), f"file: {file}")
    known = list(_flatten(Configuration.model_construct().model_dump()))
    hint = closest(key, known) if words == "no such key" else ""
    if origin == "flag":
        return UsageError(f"--{key}", words)
    if origin.startswith("environment: "):
        return UsageError(origin.removeprefix("environment: "), words)
    return UsageError(f"{file}: {key}", f"{words}; {hint}" if hint else words)
