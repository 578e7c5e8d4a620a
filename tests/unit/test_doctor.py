"""What doctor says of a machine: each missing piece with one remedy, what was not probed as unknown."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters import doctor
from replexplorer.adapters.docker.images import ImageState
from replexplorer.adapters.doctor import Check
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
    assert (checks["docker"].state, checks["docker"].remedy) == ("missing", "start it")
    assert checks["link"].state == "unknown"
    assert {"terminal", "glyphs", "state path"} <= set(checks)


@pytest.mark.parametrize(
    ("registry", "maker", "state"),
    [(True, None, "ok"), (False, "/usr/bin/mmdebstrap", "ok"), (False, None, "missing")],
)
def test_images_need_a_registry_or_the_tool_that_makes_their_base(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, registry: bool, maker: str | None, state: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: maker)
    images = examined(Daemon(registry=registry))["images"]
    assert (images.state, images.packages) == (state, ["mmdebstrap"] if state == "missing" else [])


@pytest.mark.parametrize(
    ("built_with", "told"),
    [(None, "versions unknown"), ("python3 3.14.2-1, iptables 1.8.11-2",) * 2],
)
def test_images_are_told_with_the_versions_that_the_archive_gave(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, built_with: str | None, told: str
) -> None:
    monkeypatch.setattr(Absent, "present", True)
    monkeypatch.setattr(Absent, "built_with", built_with)
    assert examined(Daemon())["images"].detail == f"built: replexplorer/sidecar:x ({told})"


MYSQL, GALERA = "built: replexplorer/mysql:a (mysql 9.7.4)", "built: replexplorer/galera:d (galera 26.4)"
NOT_BUILT = "not built yet: the first stack of it does that"


@pytest.mark.parametrize(
    ("configured", "own", "others"),
    [
        ({}, f"{MYSQL}; ", {"MariaDB image": NOT_BUILT, "Galera image": GALERA}),
        ({"flavor": "mariadb"}, "not built yet", {"MySQL image": MYSQL, "Galera image": GALERA}),
        ({"system": "galera"}, f"{GALERA}; ", {"MySQL image": MYSQL, "MariaDB image": NOT_BUILT}),
        (
            {"image": "mysql:8.4"},
            "built: replexplorer/sidecar:c (python3 3.14)",
            {"MySQL image": MYSQL, "MariaDB image": NOT_BUILT, "Galera image": GALERA},
        ),
    ],
)
def test_images_of_other_servers_are_named_with_their_state(
    monkeypatch: pytest.MonkeyPatch,
    examined: Examined,
    configured: dict[str, Any],
    own: str,
    others: dict[str, str],
) -> None:
    made = [
        ImageState("mysqld", "MySQL", "replexplorer/mysql:a", True, "mysql 9.7.4"),
        ImageState("mysqld", "MariaDB", "replexplorer/mariadb:b", False),
        ImageState("mysqld", "Galera", "replexplorer/galera:d", True, "galera 26.4"),
        ImageState("sidecar", "sidecar", "replexplorer/sidecar:c", True, "python3 3.14"),
    ]
    monkeypatch.setattr("replexplorer.adapters.docker.images.states", lambda compose: made)
    checks = examined(Daemon(), **configured)
    assert checks["images"].detail.startswith(own)
    assert {name: each.detail for name, each in checks.items() if name.endswith(" image")} == others


@pytest.mark.parametrize(("free_gb", "state"), [(1, "missing"), (4, "warning"), (90, "ok")])
def test_a_full_disk_and_a_scarce_one(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, free_gb: int, state: str
) -> None:
    usage = shutil._ntuple_diskusage(100 << 30, 0, free_gb << 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert examined(Daemon(registry=True, DockerRootDir="/"))["disk"].state == state


@pytest.mark.parametrize(
    ("backend", "reason", "state", "detail", "remedy"),
    [
        (
            "nfqueue", "kernel has no netem: unknown kind", "ok",
            "nfqueue: kernel has no netem: unknown kind", "linux-modules-extra",
        ),
        (
            None, "no NET_ADMIN: not permitted", "warning",
            "packets cannot be shaped here: no NET_ADMIN: not permitted", "None",
        ),
    ],
)  # fmt: skip
def test_the_link_is_what_the_agent_says(
    examined: Examined, backend: str | None, reason: str, state: str, detail: str, remedy: str
) -> None:
    found = LinkState("db2", backend, reason, "received", Shape(), 0.1, 0.02, None, 0, 0, 0)
    link = examined(Daemon(registry=True, OperatingSystem="Ubuntu 24.04"), found)["link"]
    assert (link.state, link.detail) == (state, detail)
    assert remedy in str(link.remedy)


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


@pytest.mark.parametrize(
    ("info", "state"),
    [({"OSType": "windows"}, "missing"), ({"SecurityOptions": ["name=rootless"]}, "warning")],
)
def test_docker_for_other_containers_and_a_rootless_one(
    examined: Examined, info: dict[str, Any], state: str
) -> None:
    assert examined(Daemon(registry=True, **info))["docker"].state == state


def test_the_state_path_alone_must_be_writable_and_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, examined: Examined
) -> None:
    """An unwritable cache directory stopped `make run`, and nothing is ever kept there."""
    looked_at: list[Path] = []
    monkeypatch.setattr(os, "access", lambda path, mode: looked_at.append(path))
    state = examined(Daemon(registry=True))["state path"]
    assert (state.state, looked_at) == ("missing", [tmp_path])
    assert "XDG_STATE_HOME" in str(state.remedy)
