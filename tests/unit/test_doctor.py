"""What doctor says of a machine: each missing piece with one remedy, what was not probed as unknown."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters import doctor
from replexplorer.adapters.docker.images import ImageState
from replexplorer.adapters.doctor import Check, Doctor
from replexplorer.core.errors import MissingPiece
from replexplorer.core.wire import LinkState, Shape
from replexplorer.formats.configuration import Configuration


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


def examined(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    daemon: Daemon | MissingPiece,
    link: LinkState | None = None,
) -> tuple[Doctor, dict[str, Check]]:
    def connect() -> Daemon:
        if isinstance(daemon, MissingPiece):
            raise daemon
        return daemon

    monkeypatch.setattr(doctor, "_connect", connect)
    monkeypatch.setattr("replexplorer.adapters.docker.images.states", lambda compose: [Absent()])
    report = doctor.examine(Configuration(), tmp_path / "state", link=link)
    return report, {check.name: check for check in report.checks}


class Absent:
    """An image of ours that is not there."""

    role = says = "sidecar"
    reference = "replexplorer/sidecar:x"
    present = False
    built_with = None


def test_without_docker_everything_else_is_still_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report, checks = examined(monkeypatch, tmp_path, MissingPiece("Docker is not running", "start it"))
    assert not report.ready
    assert (checks["docker"].state, checks["docker"].remedy) == ("missing", "start it")
    assert checks["link"].state == "unknown"
    assert {"terminal", "glyphs", "state path"} <= set(checks)


@pytest.mark.parametrize(
    ("registry", "maker", "state"),
    [(True, None, "ok"), (False, "/usr/bin/mmdebstrap", "ok"), (False, None, "missing")],
)
def test_images_need_a_registry_or_the_tool_that_makes_their_base(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, registry: bool, maker: str | None, state: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: maker)
    report, checks = examined(monkeypatch, tmp_path, Daemon(registry=registry))
    assert checks["images"].state == state
    assert report.ready is (state == "ok")
    assert checks["images"].packages == (["mmdebstrap"] if state == "missing" else [])


def test_images_are_told_with_the_versions_that_the_archive_gave(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Absent, "present", True)
    _, checks = examined(monkeypatch, tmp_path, Daemon())
    assert checks["images"].detail == "built: replexplorer/sidecar:x (versions unknown)"
    monkeypatch.setattr(Absent, "built_with", "python3 3.14.2-1, iptables 1.8.11-2")
    _, checks = examined(monkeypatch, tmp_path, Daemon())
    assert checks["images"].detail == "built: replexplorer/sidecar:x (python3 3.14.2-1, iptables 1.8.11-2)"


def test_images_of_other_servers_are_named_with_their_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = [
        ImageState("mysqld", "MySQL", "replexplorer/mysql:a", True, "mysql-server-core 9.7.4"),
        ImageState("mysqld", "MariaDB", "replexplorer/mariadb:b", False),
        ImageState("mysqld", "Galera", "replexplorer/galera:d", True, "galera-4 26.4.27"),
        ImageState("sidecar", "sidecar", "replexplorer/sidecar:c", True, "python3 3.14"),
    ]
    monkeypatch.setattr("replexplorer.adapters.docker.images.states", lambda compose: made)
    monkeypatch.setattr(doctor, "_connect", Daemon)
    checks = {each.name: each for each in doctor.examine(Configuration(), tmp_path).checks}
    assert checks["images"].detail.startswith("built: replexplorer/mysql:a (mysql-server-core 9.7.4); ")
    assert checks["MariaDB image"].detail == "not built yet: the first stack of it does that"
    maria = {each.name: each for each in doctor.examine(Configuration(flavor="mariadb"), tmp_path).checks}
    assert maria["images"].detail.startswith("not built yet")
    assert maria["MySQL image"].detail == "built: replexplorer/mysql:a (mysql-server-core 9.7.4)"
    assert maria["Galera image"].detail == "built: replexplorer/galera:d (galera-4 26.4.27)"
    galera = {each.name: each for each in doctor.examine(Configuration(system="galera"), tmp_path).checks}
    assert galera["images"].detail.startswith("built: replexplorer/galera:d (galera-4 26.4.27); ")
    assert "Galera image" not in galera
    foreign = {each.name: each for each in doctor.examine(Configuration(image="mysql:8.4"), tmp_path).checks}
    assert foreign["images"].detail == "built: replexplorer/sidecar:c (python3 3.14)"
    assert {"MySQL image", "MariaDB image", "Galera image"} <= set(foreign)


def test_a_full_disk_and_a_scarce_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for free, state in ((1 << 30, "missing"), (4 << 30, "warning"), (90 << 30, "ok")):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda path, free=free: shutil._ntuple_diskusage(100 << 30, 0, free)
        )
        _, checks = examined(monkeypatch, tmp_path, Daemon(registry=True, DockerRootDir="/"))
        assert checks["disk"].state == state


def link_of(backend: str | None, reason: str) -> LinkState:
    return LinkState("db2", backend, reason, "received", Shape(), 0.1, 0.02, None, 0, 0, 0)


def test_the_link_is_what_the_agent_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    daemon = Daemon(registry=True, OperatingSystem="Ubuntu 24.04")
    _, checks = examined(
        monkeypatch, tmp_path, daemon, link_of("nfqueue", "kernel has no netem: unknown kind")
    )
    assert checks["link"].state == "ok"
    assert checks["link"].detail == "nfqueue: kernel has no netem: unknown kind"
    assert "linux-modules-extra" in str(checks["link"].remedy)
    _, checks = examined(monkeypatch, tmp_path, daemon, link_of(None, "no NET_ADMIN: not permitted"))
    assert (checks["link"].state, checks["link"].remedy) == ("warning", None)
    assert checks["link"].detail == "packets cannot be shaped here: no NET_ADMIN: not permitted"


@pytest.mark.parametrize(
    ("info", "remedy"),
    [
        ({"OperatingSystem": "Docker Desktop", "KernelVersion": "6.10.14-linuxkit"}, "Docker Desktop's"),
        ({"OperatingSystem": "Docker Desktop", "KernelVersion": "5.15-microsoft-standard-WSL2"}, "modprobe"),
        ({"OperatingSystem": "Fedora Linux 40"}, "kernel-modules-extra"),
        ({"OperatingSystem": "Debian GNU/Linux 12"}, "modprobe sch_netem"),
    ],
)
def test_a_kernel_without_netem_has_a_remedy_for_its_kind(info: dict[str, str], remedy: str) -> None:
    assert remedy in doctor._netem_remedy(info)


def test_docker_for_other_containers_and_a_rootless_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, checks = examined(monkeypatch, tmp_path, Daemon(registry=True, OSType="windows"))
    assert checks["docker"].state == "missing"
    _, checks = examined(monkeypatch, tmp_path, Daemon(registry=True, SecurityOptions=["name=rootless"]))
    assert checks["docker"].state == "warning"


def test_a_directory_that_cannot_be_written_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    report, checks = examined(monkeypatch, tmp_path, Daemon(registry=True))
    assert not report.ready
    assert "XDG_STATE_HOME" in (checks["state path"].remedy or "")


def test_a_directory_that_nothing_uses_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An unwritable cache directory stopped `make run`, and nothing is ever kept there."""
    looked_at: list[Path] = []

    def access(path: Path, mode: int) -> bool:
        looked_at.append(path)
        return True

    monkeypatch.setattr(os, "access", access)
    examined(monkeypatch, tmp_path, Daemon(registry=True))
    assert looked_at == [tmp_path]
