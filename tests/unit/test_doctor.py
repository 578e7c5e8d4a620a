"""What doctor says of a machine: each missing piece with one remedy, what was not probed as unknown."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters import doctor
from replexplorer.config.model import Configuration
from replexplorer.config.shapes import Check, Doctor
from replexplorer.core.errors import MissingPiece


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
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, daemon: Daemon | MissingPiece, link: str | None = None
) -> tuple[Doctor, dict[str, Check]]:
    def connect() -> Daemon:
        if isinstance(daemon, MissingPiece):
            raise daemon
        return daemon

    monkeypatch.setattr(doctor, "_connect", connect)
    monkeypatch.setattr("replexplorer.adapters.images.states", lambda compose: [Absent()])
    paths = {"state": tmp_path / "state", "cache": tmp_path / "cache"}
    report = doctor.examine(Configuration(), paths, link_backend=link)
    return report, {check.name: check for check in report.checks}


class Absent:
    """An image of ours that is not there."""

    role = "sidecar"
    reference = "replexplorer/sidecar:x"
    present = False


def test_without_docker_everything_else_is_still_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report, checks = examined(monkeypatch, tmp_path, MissingPiece("Docker is not running", "start it"))
    assert not report.ready
    assert (checks["docker"].state, checks["docker"].remedy) == ("missing", "start it")
    assert checks["link"].state == "unknown"
    assert {"terminal", "colour", "glyphs", "state path", "cache path"} <= set(checks)


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


def test_a_full_disk_and_a_scarce_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for free, state in ((1 << 30, "missing"), (4 << 30, "warning"), (90 << 30, "ok")):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda path, free=free: shutil._ntuple_diskusage(100 << 30, 0, free)
        )
        _, checks = examined(monkeypatch, tmp_path, Daemon(registry=True, DockerRootDir="/"))
        assert checks["disk"].state == state


def test_the_link_is_what_the_agent_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, checks = examined(monkeypatch, tmp_path, Daemon(registry=True), link="nfqueue: kernel has no netem")
    assert (checks["link"].state, checks["link"].detail) == ("ok", "nfqueue: kernel has no netem")


def test_docker_for_other_containers_and_a_rootless_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, checks = examined(monkeypatch, tmp_path, Daemon(registry=True, OSType="windows"))
    assert checks["docker"].state == "missing"
    _, checks = examined(monkeypatch, tmp_path, Daemon(registry=True, SecurityOptions=["name=rootless"]))
    assert checks["docker"].state == "warning"


@pytest.mark.parametrize(
    ("variables", "state"),
    [
        ({"NO_COLOR": "1"}, "ok"),
        ({"COLORTERM": "truecolor"}, "ok"),
        ({"TERM": "xterm-256color"}, "ok"),
        ({"TERM": "vt100"}, "warning"),
        ({}, "unknown"),
    ],
)
def test_colours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], state: str
) -> None:
    for name in ("NO_COLOR", "COLORTERM", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    _, checks = examined(monkeypatch, tmp_path, Daemon(registry=True))
    assert checks["colour"].state == state


def test_a_directory_that_cannot_be_written_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    report, checks = examined(monkeypatch, tmp_path, Daemon(registry=True))
    assert not report.ready
    assert "XDG_STATE_HOME" in (checks["state path"].remedy or "")
