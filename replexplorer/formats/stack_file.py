"""stack.yaml: the strict subset of a Compose file that this app brings up by itself.

Law: what the subset does not know is an error that names file and key, never ignored: the app
and the Compose tool must make the same stack from the same file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from replexplorer.core.errors import UsageError
from replexplorer.core.machine import ServerLimits
from replexplorer.core.topology import node_name, node_number
from replexplorer.formats.files import first_error, read_text

LABEL: Final = "dev.replexplorer."
"""The prefix of all our labels."""

CPUS: Final = f"{LABEL}cpus"
"""On the network: the most cores of each server."""
MEMORY: Final = f"{LABEL}memory"
"""On the network: the most memory of each server, in bytes."""

_FIRST: Final = node_name(1)
_FURTHER: Final = node_name(2)
"""The nodes that the file has: one that follows nobody at first, and a pattern for all others."""

_MOST_BYTES: Final = 1 << 16
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
        return {"volume": volume, "path": path, "read_only": mode == "ro"}


class OnNetwork(_Strict):
    """How a service is on a network."""

    aliases: tuple[str, ...] = ()


class Service(_Strict):
    """One container."""

    image: str
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
    ports: tuple[str, ...] = ()
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
    """Read it with `variables` in place of `${NAME:-default}`; raises UsageError naming file and key."""
    import yaml  # half the time that all else of this module takes, and only `up` reads the file

    try:
        document = yaml.safe_load(read_text(file, "stack file", _MOST_BYTES))
        kept = {key: value for key, value in dict(document).items() if not str(key).startswith("x-")}
        return StackFile.model_validate(_filled(kept, variables or {}))
    except ValidationError as error:
        where, words = first_error(error)
        raise UsageError(f"{file}: {'.'.join(map(str, where))}", words) from None
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise UsageError(f"{file} is not a stack", " ".join(str(error).split())) from None


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    """With each variable's value, or its default, in its place."""
    if isinstance(value, dict):
        return {str(name): _filled(item, variables) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda found: "$" if found[1] else variables.get(found[2]) or found[3] or "", value)
