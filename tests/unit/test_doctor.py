"""What doctor says of a machine: each missing piece with one remedy, what was not probed as unknown."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from replexplorer.adapters import doctor
from replexplorer.adapters.docker.images import ImageState
from replexplorer.adapters.doctor import Check
from replexplorer.core.errors import MissingPiece
from replexplorer.core.wire import LinkState, Shape
from replexplorer.formats.configuration import Configuration
from tests.typed import fields


class Daemon:
    """As much of the Docker SDK's client as doctor asks for; it has no image."""

    def __init__(self, *, registry: bool = False, **info: Any) -> None:
        self._registry = registry
        self._info = {"OSType": "linux", "OperatingSystem": "Testix", "SecurityOptions": []} | info

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def version(self) -> dict[str, str]:
        return {"Version": "20.10", "ApiVersion": "1.41"}

    def info(self) -> dict[str, Any]:
        return self._info

    def images(self, name: str | None = None) -> list[object]:
        return []

    def inspect_distribution(self, name: str) -> dict[str, str]:
        if not self._registry:
            raise OSError("no route to host")
        return {}


class Absent:
    """An image of ours that is not there."""

    role = says = "sidecar"
    reference = "replexplorer/sidecar:x"
    present = False
    built_with = None


Examined = Callable[..., dict[str, Check]]
"""Doctor's checks by name, of a machine with this daemon, link and configuration."""


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Examined:
    monkeypatch.setattr("replexplorer.adapters.docker.images.states", lambda compose: [Absent()])

    def examine(
        daemon: Daemon | MissingPiece, link: LinkState | None = None, **configured: Any
    ) -> dict[str, Check]:
        def connect() -> Daemon:
            if isinstance(daemon, MissingPiece):
                raise daemon
            return daemon

        monkeypatch.setattr(doctor, "_connect", connect)
        report = doctor.examine(Configuration(**configured), tmp_path / "state", link=link)
        assert report.ready is all(each.state != "missing" for each in report.checks)
        return {check.name: check for check in report.checks}

    return examine


def test_without_docker_everything_else_is_still_told(examined: Examined) -> None:
    checks = examined(MissingPiece("Docker is not running", "start it"))
    assert checks["docker"].state == "missing"
    assert checks["docker"].remedy == "start it"
    assert checks["link"].state == "unknown"
    assert {"terminal", "glyphs", "state path"} <= set(checks)


def test_images_need_a_registry_or_the_tool_that_makes_their_base(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, snapshot: object
) -> None:
    told = []
    for registry, maker in ((True, None), (False, "/usr/bin/mmdebstrap"), (False, None)):
        monkeypatch.setattr(shutil, "which", Mock(return_value=maker))
        told.append(examined(Daemon(registry=registry))["registry"])
    assert told == snapshot


def test_images_are_told_with_the_versions_that_the_archive_gave(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, snapshot: object
) -> None:
    monkeypatch.setattr(Absent, "present", True)
    told = []
    for built_with in (None, "python3 3.14.2-1, iptables 1.8.11-2"):
        monkeypatch.setattr(Absent, "built_with", built_with)
        told.append(examined(Daemon())["images"])
    assert told == snapshot


def test_images_of_other_servers_are_named_with_their_state(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, snapshot: object
) -> None:
    made = [
        ImageState("mysqld", "MySQL", "replexplorer/mysql:a", True, "mysql 9.7.4"),
        ImageState("mysqld", "MariaDB", "replexplorer/mariadb:b", False),
        ImageState("mysqld", "Galera", "replexplorer/galera:d", True, "galera 26.4"),
        ImageState("sidecar", "sidecar", "replexplorer/sidecar:c", True, "python3 3.14"),
    ]
    monkeypatch.setattr("replexplorer.adapters.docker.images.states", lambda compose: made)
    told = {}
    for configured in ("", "flavor='mariadb'", "system='galera'", "image='mysql:8.4'"):
        checks = examined(Daemon(registry=True), **fields(configured))
        told[configured] = {name: each.detail for name, each in checks.items() if "image" in name}
    assert told == snapshot


def test_a_full_disk_and_a_scarce_one(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, snapshot: object
) -> None:
    told = []
    for free_gb in (1, 4, 90):
        usage = shutil._ntuple_diskusage(100 << 30, 0, free_gb << 30)
        monkeypatch.setattr(shutil, "disk_usage", Mock(return_value=usage))
        told.append(examined(Daemon(registry=True, DockerRootDir="/"))["disk"])
    assert told == snapshot


def test_the_link_is_what_the_agent_says(examined: Examined, snapshot: object) -> None:
    told = []
    for backend, reason in (
        ("nfqueue", "kernel has no netem: unknown kind"),
        (None, "no NET_ADMIN: not permitted"),
    ):
        found = LinkState("db2", backend, reason, "received", Shape(), 0.1, 0.02, None, 0, 0, 0)
        told.append(examined(Daemon(registry=True, OperatingSystem="Ubuntu 24.04"), found)["link"])
    assert told == snapshot


KERNELS = {
    "6.10.14-linuxkit": "Docker Desktop",
    "5.15-microsoft-standard-WSL2": "Docker Desktop",
    "6.8": "Fedora Linux 40",
    "6.1": "Debian GNU/Linux 12",
}


def test_a_kernel_without_netem_has_a_remedy_for_its_kind(snapshot: object) -> None:
    infos = [{"OperatingSystem": system, "KernelVersion": kernel} for kernel, system in KERNELS.items()]
    assert [doctor._netem_remedy(info) for info in infos] == snapshot


def test_docker_for_other_containers_and_a_rootless_one(examined: Examined, snapshot: object) -> None:
    infos: list[dict[str, Any]] = [{"OSType": "windows"}, {"SecurityOptions": ["name=rootless"]}]
    assert [examined(Daemon(registry=True, **info))["docker"] for info in infos] == snapshot


def test_the_state_path_alone_must_be_writable_and_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, examined: Examined
) -> None:
    """An unwritable cache directory stopped `make run`, and nothing is ever kept there."""
    looked_at: list[Path] = []
    monkeypatch.setattr(os, "access", lambda path, mode: looked_at.append(path))
    state = examined(Daemon(registry=True))["state path"]
    assert state.state == "missing"
    assert looked_at == [tmp_path]
    assert "XDG_STATE_HOME" in str(state.remedy)
