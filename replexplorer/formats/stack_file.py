"""stack.yaml: the strict subset of a Compose file that this app brings up by itself.

Law: what the subset does not know is an error that names file and key, never ignored: the app
and the Compose tool must make the same stack from the same file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from replexplorer.core.errors import UsageError
from replexplorer.core.limits import ServerLimits
from replexplorer.core.printable import one_line
from replexplorer.core.topology import node_name, node_number
from replexplorer.formats.small_file import read_text

SERVICE_NETWORK: Final = "service:"
"""How `network_mode` names the service whose network namespace is joined."""

LABEL: Final = "dev.replexplorer."
"""The prefix of all our labels."""

CPUS: Final = f"{LABEL}cpus"
"""On the network: the most cores of each server."""
MEMORY: Final = f"{LABEL}memory"
"""On the network: the most memory of each server, in bytes."""

_FIRST: Final = node_name(1)
_FURTHER: Final = node_name(2)
"""The nodes that the file has: one that follows nobody at first, and a pattern for all others."""

MOST_BYTES: Final = 1 << 16
"""Of the file."""
_MOST_DEPTH: Final = 16
_MOST_VALUES: Final = 10_000

_VARIABLE: Final = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mount(_Strict):
    """A volume at a path in a container."""

    volume: str
    path: str
    read_only: bool = False

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        volume, _, rest = value.partition(":")
        path, _, mode = rest.partition(":")
        if (
            not re.fullmatch(r"[A-Za-z0-9][\w.-]*", volume)
            or not path.startswith("/")
            or mode not in ("", "ro", "rw")
        ):
            raise ValueError("a volume is written NAME:/PATH or NAME:/PATH:ro; host paths are not mounted")
        return {"volume": volume, "path": path, "read_only": mode == "ro"}


def _loopback_port(value: str) -> str:
    if not re.fullmatch(r"127\.0\.0\.1:(\d{1,5})?:\d{1,5}", value):
        raise ValueError("ports are published on 127.0.0.1 only: 127.0.0.1::PORT or 127.0.0.1:PORT:PORT")
    return value


class Build(_Strict):
    """How an image is built; paths are relative to stack.yaml."""

    context: str
    dockerfile: str
    args: dict[str, str] = {}


class OnNetwork(_Strict):
    """How a service is on a network."""

    aliases: tuple[str, ...] = ()


class Service(_Strict):
    """One container."""

    image: str
    build: Build | None = None
    hostname: str | None = None
    user: str | None = None
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    environment: dict[str, str] = {}
    cap_drop: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    cpu_shares: Annotated[int, Field(ge=2, le=262_144)] | None = None
    """The weight among containers that want the same core; None: Docker's 1024."""
    cpus: Annotated[float, Field(gt=0)] | None = None
    """The most cores that it takes; None: no limit."""
    mem_limit: Annotated[int, Field(gt=0)] | None = None
    """The most memory in bytes, above which the kernel kills it; None: no limit."""
    group_add: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    sysctls: dict[str, str] = {}
    stop_signal: str | None = None
    network_mode: Annotated[str, Field(pattern=r"^service:.+")] | None = None
    networks: dict[str, OnNetwork] = {}
    ports: tuple[Annotated[str, AfterValidator(_loopback_port)], ...] = ()
    volumes: tuple[Mount, ...] = ()
    labels: dict[str, str] = {}

    @property
    def role(self) -> str:
        """`mysqld` or `sidecar`."""
        return self.labels[f"{LABEL}role"]

    @property
    def node(self) -> str:
        """`db1`, `db2`, ..."""
        return self.labels[f"{LABEL}node"]

    @model_validator(mode="after")
    def _labelled(self) -> Service:
        for key in ("stack", "node", "role", "version"):
            if f"{LABEL}{key}" not in self.labels:
                raise ValueError(f"the label {LABEL}{key} is missing")
        return self


class Network(_Strict):
    """The stack's network."""

    driver: Literal["bridge"] = "bridge"
    enable_ipv6: Literal[False] = False
    labels: dict[str, str] = {}


class NamedVolume(_Strict):
    """A named volume."""

    labels: dict[str, str] = {}


class StackFile(_Strict):
    """The whole file."""

    version: str | None = None
    services: dict[str, Service]
    networks: dict[str, Network]
    volumes: dict[str, NamedVolume] = {}

    @model_validator(mode="after")
    def _whole(self) -> StackFile:
        for name, service in self.services.items():
            mounted = {mount.volume for mount in service.volumes}
            if missing := mounted - self.volumes.keys():
                raise ValueError(f"services.{name}.volumes: no volume {sorted(missing)[0]}")
            if missing := service.networks.keys() - self.networks.keys():
                raise ValueError(f"services.{name}.networks: no network {sorted(missing)[0]}")
            owner = (service.network_mode or "").removeprefix(SERVICE_NETWORK)
            if owner and owner not in self.services:
                raise ValueError(f"services.{name}.network_mode: no service {owner}")
        if len(self.networks) != 1:
            raise ValueError("networks: a stack has exactly one")
        for node in (_FIRST, _FURTHER):
            for role in ("sidecar", "mysqld"):
                if not any((s.node, s.role) == (node, role) for s in self.services.values()):
                    raise ValueError(f"services: no {role} of the node {node}")
        return self

    def service(self, node: str, role: str) -> Service:
        """The service of a node in a role; that of db3 and on is made from db2's."""
        written = node if node == _FIRST else _FURTHER
        found = next(s for s in self.services.values() if (s.node, s.role) == (written, role))
        return found if node == written else _renamed(found, node)

    def limited(self, limits: ServerLimits) -> StackFile:
        """The same with these limits for each server, and labels on the network that say so."""
        services = {
            name: service.model_copy(update={"cpus": limits.cpus, "mem_limit": limits.memory_bytes})
            if service.role == "mysqld"
            else service
            for name, service in self.services.items()
        }
        networks = {
            name: network.model_copy(update={"labels": {**network.labels, **limits_labels(limits)}})
            for name, network in self.networks.items()
        }
        return self.model_copy(update={"services": services, "networks": networks})

    def volume_labels(self, role: str, node: str | None = None) -> dict[str, str]:
        """The labels of the volume of a role (`data`, `tools`), of a node where it has one."""
        written = _FURTHER if node not in (None, _FIRST) else node
        labels = next(
            volume.labels
            for volume in self.volumes.values()
            if volume.labels.get(f"{LABEL}role") == role and volume.labels.get(f"{LABEL}node") == written
        )
        return labels if node == written else {**labels, f"{LABEL}node": str(node)}

    def network_labels(self) -> dict[str, str]:
        """The labels of the one network."""
        return next(iter(self.networks.values())).labels


def limits_labels(limits: ServerLimits) -> dict[str, str]:
    """Labels by which a stack keeps its limits; none for what has no limit."""
    labels = {}
    if limits.cpus is not None:
        labels[CPUS] = f"{limits.cpus:g}"
    if limits.memory_bytes is not None:
        labels[MEMORY] = str(limits.memory_bytes)
    return labels


def limits_in(labels: Mapping[str, str]) -> ServerLimits:
    """The limits that such labels say."""
    cpus, memory = labels.get(CPUS), labels.get(MEMORY)
    return ServerLimits(float(cpus) if cpus else None, int(memory) if memory else None)


def _renamed(service: Service, node: str) -> Service:
    """The second node's service under another name, with its own volume and server_id."""
    environment = {**service.environment, "RX_NODE": node}
    if "RX_SERVER_ID" in environment:
        environment["RX_SERVER_ID"] = str(node_number(node))
    return service.model_copy(
        update={
            "hostname": node if service.hostname else None,
            "environment": environment,
            "labels": {**service.labels, f"{LABEL}node": node},
            "networks": {
                name: OnNetwork(aliases=tuple(node if a == _FURTHER else a for a in membership.aliases))
                for name, membership in service.networks.items()
            },
        }
    )


def read_stack_file(file: Path, variables: Mapping[str, str] | None = None) -> StackFile:
    """Read, interpolate `${NAME:-default}` from `variables`, check.

    Raises UsageError in one line that names the file and the key.
    """
    import yaml  # half the time that all else of this module takes, and only `up` reads the file

    text = read_text(file, "stack file", MOST_BYTES)
    try:
        document = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{file}{line} is not YAML", str(error.problem)) from None
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not YAML", str(error).splitlines()[0]) from None
    except RecursionError:
        raise UsageError(f"{file} is nested too deeply", "correct the file") from None
    except ValueError as error:
        raise UsageError(f"{file} is not YAML", one_line(str(error), 200)) from None
    if not isinstance(document, dict):
        raise UsageError(f"{file} is not a stack", "it needs the keys services, networks and volumes")
    _refuse_bombs(document, file)
    kept = {key: value for key, value in document.items() if not str(key).startswith("x-")}
    try:
        return StackFile.model_validate(_interpolate(kept, variables or {}, str(file), ""))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        what = (
            "unknown key"
            if first["type"] == "extra_forbidden"
            else first["msg"].removeprefix("Value error, ")
        )
        raise UsageError(f"{file}: {key}: {what}" if key else f"{file}: {what}", "correct the file") from None


def _refuse_bombs(document: object, file: Path) -> None:
    """Raise UsageError for what a few aliases make deeper or larger than any stack is."""
    waiting, seen = [(document, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > _MOST_DEPTH or seen > _MOST_VALUES:
            raise UsageError(f"{file} is nested too deeply, or too large", "correct the file")
        if isinstance(value, dict):
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value]


def _interpolate(value: Any, variables: Mapping[str, str], file: str, key: str) -> Any:
    if isinstance(value, dict):
        return {
            str(name): _interpolate(item, variables, file, f"{key}.{name}".lstrip("."))
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_interpolate(item, variables, file, f"{key}.{index}") for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        dollar, name, default = match.groups()
        if dollar:
            return "$"
        found = variables.get(name) or default
        if found is None:
            raise UsageError(f"{file}: {key}: ${{{name}}} is not set and has no default", "correct the file")
        return found

    return _VARIABLE.sub(replaced, value)
