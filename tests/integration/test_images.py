"""Images: named by content, built once, from either base, in front of any image with mysqld."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import shutil
import socket
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from docker.errors import ImageNotFound

from replexplorer.adapters.docker import images
from replexplorer.adapters.docker.inventory import take
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.errors import MissingPiece
from replexplorer.formats.paths import shipped
from replexplorer.ports import UpOptions
from tests.integration.conftest import PREFIX, quiet
from tests.waiting import patience

pytestmark = pytest.mark.docker

OURS = (images.MYSQL, images.SIDECAR)
SAID = {recipe.says for recipe in OURS}


@pytest.fixture
def compose(tmp_path: Path) -> Path:
    """A copy of compose/ that a test may change."""
    return Path(shutil.copytree(shipped("compose"), tmp_path / "compose"))


@pytest.fixture
def scratch(docker_client: Any) -> Iterator[Callable[[str], str]]:
    """Names of images that are removed after the test."""
    names: list[str] = []

    def note(name: str) -> str:
        names.append(name)
        return name

    yield note
    for name in names:
        with suppress(ImageNotFound):
            docker_client.remove_image(name, force=True)


def small_tar() -> bytes:
    """A filesystem with one file."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo("here")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"yes\n"))
    return stream.getvalue()


def test_an_unchanged_image_is_found_and_a_changed_one_is_built_and_says_what_the_archive_gave(
    docker_client: Any, compose: Path, scratch: Callable[[str], str]
) -> None:
    """The archive moves: two machines may build the same files from other packages."""
    first = images.ensure(OURS, shipped("compose"), quiet)
    said: list[str] = []

    def report(text: str, done: float | None = None) -> None:
        said.append(text)

    assert images.ensure(OURS, compose, report) == first
    assert said == []
    ours = [state for state in images.states(compose) if state.says in SAID]
    assert all(state.present and "." in str(state.built_with) for state in ours)

    note = "mysql-server-core 9.9.9-1 (the archive has no 9.7.4-2 any more)"
    (compose / "sidecar" / "Dockerfile").write_text(
        "ARG BASE\nFROM ${BASE}\nRUN mkdir -p /usr/share/replexplorer && cd /usr/share/replexplorer"
        f" && echo '{note}' > built-with && echo python3 3 {PREFIX} >> built-with\n"
    )
    second = images.ensure(OURS, compose, report)
    scratch(second["sidecar"])
    assert second["mysqld"] == first["mysqld"]
    assert second["sidecar"] != first["sidecar"]
    assert said[-1] == f"built the sidecar image with {note}, python3 3 {PREFIX}"
    assert images.states(compose)[-1].built_with == f"{note}, python3 3 {PREFIX}"
    labels = docker_client.inspect_image(second["sidecar"])["Config"]["Labels"]
    assert labels["dev.replexplorer.role"] == "sidecar"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo 'E: the package is broken'; exit 3", "the package is broken"),
        (
            "apt-get -o Acquire::http::Proxy=http://127.0.0.1:9 -o Acquire::Retries=0 update; exit 1",
            "archive does not",
        ),
    ],
)
def test_a_failing_build_is_one_line(docker_client: Any, compose: Path, command: str, says: str) -> None:
    file = compose / "sidecar" / "Dockerfile"
    file.write_text(f"ARG BASE\nFROM ${{BASE}}\n# {PREFIX}\nRUN {command}\n")
    with pytest.raises(MissingPiece, match=says) as raised:
        images.ensure([images.SIDECAR], compose, quiet)
    assert raised.value.hint
    assert "\n" not in str(raised.value)
    assert not images.states(compose)[-1].present


@pytest.fixture
def own_base(docker_client: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """No registry answers, and the base that we make has another name."""
    monkeypatch.setattr(images, "BASE", "127.0.0.1:9/nothing:sid")
    monkeypatch.setattr(images, "OWN_BASE", f"{PREFIX}/base")
    return f"{PREFIX}/base"


def test_without_registry_and_mmdebstrap_one_command_is_named(
    own_base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPiece, match="mmdebstrap is not installed") as raised:
        images.find_base(quiet)
    assert raised.value.hint == "run `apt-get install -y mmdebstrap`"


def test_a_base_that_fails_half_way_leaves_no_image(
    own_base: str, docker_client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tar, program = tmp_path / "base.tar", tmp_path / "mmdebstrap"
    tar.write_bytes(small_tar())
    program.write_text(f"#!/bin/sh\ncat {tar}; echo 'E: write error: No space left on device' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    made_here = {"label": "dev.replexplorer.role=base", "dangling": True}
    before = docker_client.images(filters=made_here, quiet=True)
    with pytest.raises(MissingPiece, match="disk is full"):
        images.find_base(quiet)
    assert docker_client.images(filters=made_here, quiet=True) == before
    assert docker_client.images(own_base) == []


@pytest.mark.in_full
@pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed")
def test_the_base_is_made_with_mmdebstrap_where_no_registry_answers(
    own_base: str, docker_client: Any, scratch: Callable[[str], str]
) -> None:
    said: list[str] = []
    name = scratch(images.find_base(lambda text, done=None: said.append(text)))
    assert name.startswith(f"{own_base}:")
    assert "no registry answers: making the base image with mmdebstrap" in said
    labels = docker_client.inspect_image(name)["Config"]["Labels"]
    assert labels["dev.replexplorer.role"] == "base"
    assert images.find_base(quiet) == name


MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class Registry(SimpleHTTPRequestHandler):
    """Serves the files of a registry: manifests, and layers, whose type is not looked at."""

    def guess_type(self, path: object) -> str:
        return MANIFEST

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def put_image(directory: Path, tag: str) -> None:
    """An image of one file, as a registry keeps it."""
    layer = gzip.compress(small_tar(), mtime=0)
    unpacked = f"sha256:{hashlib.sha256(small_tar()).hexdigest()}"
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [unpacked]}}

    def kept(room: str, content: bytes, name: str = "") -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        (directory / room).mkdir(parents=True, exist_ok=True)
        (directory / room / (name or digest)).write_bytes(content)
        return {"size": len(content), "digest": digest}

    container, archive = "container.image.v1+json", "image.rootfs.diff.tar.gzip"
    kind = "application/vnd.docker."
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": kind + container, **kept("blobs", json.dumps(config).encode())},
        "layers": [{"mediaType": kind + archive, **kept("blobs", layer)}],
    }
    for name in (tag, ""):
        kept("manifests", json.dumps(manifest).encode(), name)


def test_the_base_comes_from_a_registry_that_answers(
    own_base: str, monkeypatch: pytest.MonkeyPatch, scratch: Callable[[str], str], tmp_path: Path
) -> None:
    put_image(tmp_path / "v2" / "debian", "sid")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Registry, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        name = scratch(f"127.0.0.1:{server.server_address[1]}/debian:sid")
        monkeypatch.setattr(images, "BASE", name)
        assert images.find_base(quiet) == name
        server.shutdown()
    assert images.find_base(quiet) == name


def test_a_registry_that_says_nothing_is_not_waited_for(
    own_base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(images, "_REGISTRY_SILENCE_S", 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(images, "BASE", f"127.0.0.1:{silent.getsockname()[1]}/debian:sid")
        with pytest.raises(MissingPiece, match=r"no image registry answers .*timed out"):
            images.find_base(quiet)


@pytest.mark.parametrize(
    ("dockerfile", "says"),
    [
        ("FROM {base}\nLABEL for={prefix}", "it has no mysqld"),
        ("FROM scratch\nLABEL for={prefix}", "it has no shell"),
        (
            "FROM {base}\nRUN printf '#!/bin/sh\\necho mysqld Ver 10.11-MariaDB\\n' > /usr/sbin/mysqld"
            " && chmod 755 /usr/sbin/mysqld",
            "MariaDB without mariadb-install-db",
        ),
        ("", "no image 127"),
    ],
)
async def test_an_image_without_a_usable_mysqld_is_one_line(
    own_stack: DockerProvider, docker_client: Any, scratch: Callable[[str], str], dockerfile: str, says: str
) -> None:
    name = "127.0.0.1:9/nobody/has:this"
    if dockerfile:
        name = scratch(f"{PREFIX}/useless:1")
        text = io.BytesIO(dockerfile.format(base=images.find_base(quiet), prefix=PREFIX).encode())
        list(docker_client.build(fileobj=text, tag=name, rm=True))
    with pytest.raises(MissingPiece, match=says) as raised:
        await own_stack.up(UpOptions(image=name), quiet)
    assert "\n" not in str(raised.value)
    assert take(docker_client, own_stack.name).empty


async def test_a_cancel_stops_a_build_at_once(
    own_stack: DockerProvider, docker_client: Any, compose: Path
) -> None:
    base = images.find_base(quiet)
    loop = 'while sleep 0.2; do echo "still $RANDOM"; done'
    (compose / "sidecar" / "Dockerfile").write_text(f"FROM {base}\nARG BASE\n# {PREFIX}\nRUN {loop}\n")
    building = asyncio.Event()
    stack = DockerProvider(own_stack.name, compose=compose)
    task = asyncio.create_task(
        stack.up(UpOptions(), lambda text, done=None: building.set() if "3/" in text else None)
    )
    try:
        await asyncio.wait_for(building.wait(), 60 * patience())
        task.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - started < 5 * patience()
        assert not images.states(compose)[-1].present
    finally:
        task.cancel()
        await stack.close()


def test_an_image_that_cannot_be_a_member_of_a_cluster_is_refused_by_what_it_lacks() -> None:
    mysql = images.ensure(OURS, shipped("compose"), quiet)["mysqld"]
    images.check_foreign(mysql, shipped("compose"), quiet)
    with pytest.raises(MissingPiece, match=r"cannot use the image .*: it has no mariadbd, which a member of"):
        images.check_foreign(mysql, shipped("compose"), quiet, "galera")
