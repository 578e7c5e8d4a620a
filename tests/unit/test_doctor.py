"""What doctor says of a machine: each missing piece with one remedy, what was not probed as unknown."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from replexplorer.adapters import doctor
from replexplorer.adapters.docker.images import ImageState
from replexplorer.adapters.doctor import Check
from replexplorer.core.errors import MissingPiece
from replexplorer.core.wire import LinkState, Shape
from replexplorer.formats.configuration import Configuration
from tests.typed import fields, table_of


def daemon(*, registry: bool = True, **info: Any) -> MagicMock:
    """As much of the Docker SDK's client as doctor asks for; it has no image."""
    made = MagicMock()
    made.__enter__.return_value = made
    made.version.return_value = {"Version": "20.10", "ApiVersion": "1.41"}
    made.info.return_value = {"OSType": "linux", "OperatingSystem": "Testix", "SecurityOptions": []} | info
    made.images.return_value = []
    made.inspect_distribution.side_effect = None if registry else OSError("no route to host")
    return made


NO_IMAGE = ImageState("sidecar", "sidecar", "replexplorer/sidecar:x", False)
STATES = "replexplorer.adapters.docker.images.states"


Examined = Callable[..., dict[str, Check]]
"""Doctor's checks by name, of a machine with this daemon, link and configuration."""


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Examined:
    monkeypatch.setattr(STATES, lambda compose: [NO_IMAGE])

    def examine(
        found: MagicMock | MissingPiece, link: LinkState | None = None, **configured: Any
    ) -> dict[str, Check]:
        monkeypatch.setattr(doctor, "_connect", Mock(side_effect=[found]))
        report = doctor.examine(Configuration(**configured), tmp_path / "state", link=link)
        assert report.ready is all(each.state != "missing" for each in report.checks)
        return {check.name: check for check in report.checks}

    return examine


def test_without_docker_everything_else_is_still_told(examined: Examined) -> None:
    checks = examined(MissingPiece("Docker is not running", "start it"))
    assert (checks["docker"].state, checks["docker"].remedy) == ("missing", "start it")
    assert checks["link"].state == "unknown"
    assert {"terminal", "glyphs", "state path"} <= set(checks)


def test_images_need_a_registry_or_the_tool_that_makes_their_base(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, snapshot: object
) -> None:
    told = []
    for registry, maker in ((True, None), (False, "/usr/bin/mmdebstrap"), (False, None)):
        monkeypatch.setattr(shutil, "which", Mock(return_value=maker))
        told.append(examined(daemon(registry=registry))["registry"])
    assert told == snapshot


def test_images_are_named_with_their_state_and_the_versions_that_the_archive_gave(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, snapshot: object
) -> None:
    made = [
        ImageState("mysqld", "MySQL", "replexplorer/mysql:a", True, "mysql 9.7.4"),
        ImageState("mysqld", "MariaDB", "replexplorer/mariadb:b", False),
        ImageState("mysqld", "Galera", "replexplorer/galera:d", True, "galera 26.4"),
        ImageState("sidecar", "sidecar", "replexplorer/sidecar:c", True, "python3 3.14"),
    ]
    monkeypatch.setattr(STATES, lambda compose: made)
    told = {}
    for configured in ("", "flavor='mariadb'", "system='galera'", "image='mysql:8.4'"):
        checks = examined(daemon(), **fields(configured))
        told[configured] = {name: each.detail for name, each in checks.items() if "image" in name}
    assert told == snapshot


def test_a_full_disk_and_a_scarce_one(
    monkeypatch: pytest.MonkeyPatch, examined: Examined, snapshot: object
) -> None:
    told = []
    for free_gb in (1, 4, 90):
        usage = shutil._ntuple_diskusage(100 << 30, 0, free_gb << 30)
        monkeypatch.setattr(shutil, "disk_usage", Mock(return_value=usage))
        told.append(examined(daemon(DockerRootDir="/"))["disk"])
    assert told == snapshot


def test_the_link_is_what_the_agent_says_and_a_kernel_without_netem_has_a_remedy_for_its_kind(
    examined: Examined, snapshot: object
) -> None:
    told = []
    without = LinkState(
        "db2", "nfqueue", "kernel has no netem: unknown kind", "received", Shape(), 0.1, 0.02, None, 0, 0, 0
    )
    for kernel, system in table_of(KERNELS):
        told.append(examined(daemon(OperatingSystem=system, KernelVersion=kernel), without)["link"])
    forbidden = replace(without, backend=None, backend_reason="no NET_ADMIN: not permitted")
    told.append(examined(daemon(), forbidden)["link"])
    assert told == snapshot


KERNELS = """\
6.10.14-linuxkit             | Docker Desktop
5.15-microsoft-standard-WSL2 | Docker Desktop
6.8                          | Fedora Linux 40
6.1                          | Debian GNU/Linux 12
6.8                          | Ubuntu 24.04
"""


def test_docker_for_other_containers_and_a_rootless_one(examined: Examined, snapshot: object) -> None:
    infos: list[dict[str, Any]] = [{"OSType": "windows"}, {"SecurityOptions": ["name=rootless"]}]
    assert [examined(daemon(**info))["docker"] for info in infos] == snapshot


def test_the_state_path_alone_must_be_writable_and_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, examined: Examined
) -> None:
    """An unwritable cache directory stopped `make run`, and nothing is ever kept there."""
    access = Mock(return_value=False)
    monkeypatch.setattr(os, "access", access)
    state = examined(daemon())["state path"]
    assert (state.state, access.call_args.args[0], access.call_count) == ("missing", tmp_path, 1)
    assert "XDG_STATE_HOME" in str(state.remedy)
