"""What a stack's containers are made with, and where files are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.docker.build import Made, StackSpec, Steps
from replexplorer.adapters.docker.inventory import Inventory
from replexplorer.core.machine import ServerLimits
from replexplorer.formats import paths

IMAGES = {"sidecar": "replexplorer/sidecar:x", "mysqld": "mysql:8.4"}
LIMITED = StackSpec("mine", "async", IMAGES, ServerLimits(0.5, 1 << 30))


class Client:
    """As much of the Docker SDK's client as making containers asks for: it keeps what it is told."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []

    def create_endpoint_config(self, **how: Any) -> Any:
        return how

    create_host_config = create_endpoint_config

    def create_networking_config(self, how: Any) -> Any:
        return how

    def create_container(self, image: str, **how: Any) -> Any:
        self.made.append({"image": image, **how})
        return {"Id": how["name"]}


@pytest.fixture(params=["db1", "db3"])
def made(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A node, its sidecar and its server."""
    client = Client()
    steps = Steps(client, "mine", Inventory(()), LIMITED, {})
    sidecar = steps.sidecar(request.param)
    assert steps.server(request.param, sidecar) == Made(f"replexplorer-mine-{request.param}", "created")
    return request.param, *client.made


def test_privileges_and_ports_are_the_least(made: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    _, sidecar, server = made
    for each in (sidecar, server):
        assert each["host_config"]["cap_drop"] == ["ALL"]
        assert each["host_config"]["security_opt"] == ["no-new-privileges:true"]
    assert sidecar["host_config"]["cap_add"] == ["NET_ADMIN"]
    assert sidecar["host_config"]["port_bindings"] == {3306: ("127.0.0.1", None)}
    assert sidecar["host_config"]["cpu_shares"] > 1024
    assert not {"cap_add", "port_bindings", "cpu_shares"} & server["host_config"].keys()
    assert server["user"] == "999:999"


@pytest.mark.parametrize(
    "limits", [ServerLimits(), ServerLimits(0.5), ServerLimits(None, 1 << 30), ServerLimits(2, 1 << 30)]
)
def test_limits_stand_in_the_network_s_labels(limits: ServerLimits) -> None:
    labels = StackSpec("mine", "async", IMAGES, limits).limit_labels()
    assert Inventory((), networks=({"Id": "n", "Labels": labels},)).limits() == limits


def test_limits_are_the_servers(made: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    _, sidecar, server = made
    assert (server["host_config"]["nano_cpus"], server["host_config"]["mem_limit"]) == (500_000_000, 1 << 30)
    assert not {"nano_cpus", "mem_limit"} & sidecar["host_config"].keys()


def test_paths_follow_xdg_and_make_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    assert paths.config_file() == tmp_path / "config" / "replexplorer" / "config.toml"
    assert paths.stack_directory("a") == tmp_path / "state" / "replexplorer" / "stacks" / "a"
    assert paths.cache_directory() == tmp_path / "cache" / "replexplorer"
    assert list(tmp_path.iterdir()) == []
