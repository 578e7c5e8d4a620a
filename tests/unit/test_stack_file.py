"""stack.yaml: what is accepted, what is refused and by which name."""

from __future__ import annotations

from pathlib import Path

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.machine import ServerLimits
from replexplorer.core.topology import node_names, node_number
from replexplorer.formats import paths
from replexplorer.formats.stack_file import StackFile, limits_in, limits_labels, read_stack_file

SHIPPED = paths.shipped("compose") / "stack.yaml"


@pytest.fixture
def topology() -> StackFile:
    return read_stack_file(SHIPPED, {"RX_STACK": "mine", "RX_MYSQL_IMAGE": "mysql:8.4"})


def broken(tmp_path: Path, old: str, new: str) -> Path:
    text = SHIPPED.read_text()
    assert old in text
    file = tmp_path / "stack.yaml"
    file.write_text(text.replace(old, new, 1))
    return file


def test_variables_take_the_place_of_defaults(topology: StackFile) -> None:
    server = topology.service("db1", "mysqld")
    assert server.image == "mysql:8.4"
    assert server.labels["dev.replexplorer.stack"] == "mine"
    assert read_stack_file(SHIPPED).service("db1", "mysqld").image == "replexplorer/mysql:latest"


def test_privileges_are_the_least(topology: StackFile) -> None:
    for service in topology.services.values():
        assert service.cap_drop == ("ALL",)
        assert service.cap_add == (("NET_ADMIN",) if service.role == "sidecar" else ())
        assert (service.cpu_shares or 1024) > 1024 or service.role == "mysqld"
        assert all(port.startswith("127.0.0.1:") for port in service.ports)
        assert bool(service.ports) == (service.role == "sidecar")


def test_every_object_carries_our_labels(topology: StackFile) -> None:
    labels = [service.labels for service in topology.services.values()]
    labels += [volume.labels for volume in topology.volumes.values()]
    labels += [topology.network_labels()]
    for found in labels:
        assert {"dev.replexplorer.stack", "dev.replexplorer.role", "dev.replexplorer.version"} <= found.keys()


def test_a_second_replica_is_the_first_under_its_own_name(topology: StackFile) -> None:
    server, sidecar = topology.service("db3", "mysqld"), topology.service("db3", "sidecar")
    assert server.environment == {
        "RX_NODE": "db3",
        "RX_SERVER_ID": "3",
        "RX_SYSTEM": "async",
        "RX_SOURCE": "db1",
    }
    assert server.node == sidecar.node == sidecar.hostname == "db3"
    assert sidecar.networks["stack"].aliases == ("db3",)
    assert topology.volume_labels("data", "db3")["dev.replexplorer.node"] == "db3"
    assert server.user == topology.service("db2", "mysqld").user


def test_server_numbers_are_unique(topology: StackFile) -> None:
    nodes = node_names(8)
    numbers = [topology.service(node, "mysqld").environment["RX_SERVER_ID"] for node in nodes]
    assert len(set(numbers)) == len(nodes)
    assert [node_number(node) for node in nodes] == list(range(1, 10))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    hostname: db1\n", "    hostname: db1\n    privileged: true\n", "services.db1-net.privileged"),
        ("service:db1-net", "host", "services.db1.network_mode: "),
        ("enable_ipv6: false", "enable_ipv6: true", "networks.stack.enable_ipv6: "),
        ("\nservices:", "\nservices: [", "is not a stack"),
    ],
)
def test_an_error_names_file_and_key(tmp_path: Path, old: str, new: str, says: str) -> None:
    file = broken(tmp_path, old, new)
    with pytest.raises(UsageError) as raised:
        read_stack_file(file)
    assert str(file) in str(raised.value)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_shipped_directories_are_found() -> None:
    assert (paths.shipped("compose") / "mysql" / "start-mysqld").is_file()
    with pytest.raises(FileNotFoundError, match="nothing-such"):
        paths.shipped("nothing-such")


def test_paths_follow_xdg_and_make_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    assert paths.config_file() == tmp_path / "config" / "replexplorer" / "config.toml"
    assert paths.stack_directory("a") == tmp_path / "state" / "replexplorer" / "stacks" / "a"
    assert paths.cache_directory() == tmp_path / "cache" / "replexplorer"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "limits", [ServerLimits(), ServerLimits(0.5), ServerLimits(None, 1 << 30), ServerLimits(2, 1 << 30)]
)
def test_limits_are_the_servers_and_stand_in_the_network_s_labels(
    topology: StackFile, limits: ServerLimits
) -> None:
    made = topology.limited(limits)
    assert limits_in(made.network_labels()) == limits == limits_in(limits_labels(limits))
    for node in ("db1", "db2", "db3"):
        server, sidecar = made.service(node, "mysqld"), made.service(node, "sidecar")
        assert (server.cpus, server.mem_limit) == (limits.cpus, limits.memory_bytes)
        assert (sidecar.cpus, sidecar.mem_limit) == (None, None)
