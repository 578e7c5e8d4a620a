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
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from replexplorer.adapters.docker import images
from replexplorer.adapters.docker.inventory import take
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.errors import MissingPiece
from replexplorer.formats.paths import shipped
from replexplorer.ports import UpOptions
from tests.integration.conftest import PREFIX, bring_up, quiet
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


def test_an_unchanged_image_is_found_and_a_changed_one_is_built(
    docker_client: Any, compose: Path, scratch: Callable[[str], str]
) -> None:
    first = images.ensure(OURS, shipped("compose"), quiet)
    told: list[str] = []
    assert images.ensure(OURS, compose, lambda text, done=None: told.append(text)) == first
    assert told == []
    assert all(state.present for state in images.states(compose) if state.says in SAID)

    script = compose / "sidecar" / "start-sidecar"
    script.write_text(script.read_text() + f"# {PREFIX}\n")
    second = images.ensure(OURS, compose, lambda text, done=None: told.append(text))
    scratch(second["sidecar"])
    assert second["mysqld"] == first["mysqld"]
    assert second["sidecar"] != first["sidecar"]
    assert any("sidecar" in text and "MySQL" not in text for text in told)
    labels = docker_client.inspect_image(second["sidecar"])["Config"]["Labels"]
    assert labels["dev.replexplorer.role"] == "sidecar"


def test_what_the_archive_gave_is_said_and_kept(
    docker_client: Any, compose: Path, scratch: Callable[[str], str]
) -> None:
    """The archive moves: two machines may build the same files from other packages."""
    images.ensure(OURS, shipped("compose"), quiet)
    ours = [state for state in images.states(shipped("compose")) if state.says in SAID]
    assert all("." in str(state.built_with) for state in ours)
    note = "mysql-server-core 9.9.9-1 (the archive has no 9.7.4-2 any more)"
    (compose / "sidecar" / "Dockerfile").write_text(
        "ARG BASE\nFROM ${BASE}\nRUN mkdir -p /usr/share/replexplorer && cd /usr/share/replexplorer"
        f" && echo '{note}' > built-with && echo python3 3 {PREFIX} >> built-with\n"
    )
    told: list[str] = []
    made = images.ensure([images.SIDECAR], compose, lambda text, done=None: told.append(text))
    scratch(made["sidecar"])
    assert told[-1] == f"built the sidecar image with {note}, python3 3 {PREFIX}"
    assert images.states(compose)[-1].built_with == f"{note}, python3 3 {PREFIX}"


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
    images.ensure(OURS, shipped("compose"), quiet)
    file = compose / "sidecar" / "Dockerfile"
    file.write_text(f"ARG BASE\nFROM ${{BASE}}\n# {PREFIX}\nRUN {command}\n")
    with pytest.raises(MissingPiece, match=says) as raised:
        images.ensure([images.SIDECAR], compose, quiet)
    assert raised.value.hint
    assert "\n" not in str(raised.value)
    assert not images.states(compose)[-1].present


def test_without_registry_and_mmdebstrap_one_command_is_named(
    docker_client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(images, "BASE", "127.0.0.1:9/nothing:sid")
    monkeypatch.setattr(images, "OWN_BASE", f"{PREFIX}/base")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPiece, match="mmdebstrap is not installed") as raised:
        images.find_base(quiet)
    assert raised.value.hint == "run `apt-get install -y mmdebstrap`"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'E: Temporary failure resolving the archive' >&2; exit 1", "archive does not answer"),
        ("cat {tar}; echo 'E: write error: No space left on device' >&2; exit 1", "disk is full"),
    ],
)
def test_a_base_that_fails_half_way_leaves_no_image(
    docker_client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, says: str
) -> None:
    monkeypatch.setattr(images, "BASE", "127.0.0.1:9/nothing:sid")
    monkeypatch.setattr(images, "OWN_BASE", f"{PREFIX}/base")
    tar, program = tmp_path / "base.tar", tmp_path / "mmdebstrap"
    tar.write_bytes(small_tar())
    program.write_text("#!/bin/sh\n" + script.format(tar=tar) + "\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    made_here = {"label": "dev.replexplorer.role=base", "dangling": True}
    before = {image["Id"] for image in docker_client.images(filters=made_here)}
    with pytest.raises(MissingPiece, match=says):
        images.find_base(quiet)
    assert {image["Id"] for image in docker_client.images(filters=made_here)} - before == set()
    assert docker_client.images(f"{PREFIX}/base") == []


@pytest.mark.in_full
@pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed")
def test_the_base_is_made_with_mmdebstrap_where_no_registry_answers(
    docker_client: Any, monkeypatch: pytest.MonkeyPatch, scratch: Callable[[str], str]
) -> None:
    monkeypatch.setattr(images, "BASE", "127.0.0.1:9/nothing:sid")
    monkeypatch.setattr(images, "OWN_BASE", f"{PREFIX}/base")
    told: list[str] = []
    name = scratch(images.find_base(lambda text, done=None: told.append(text)))
    assert name.startswith(f"{PREFIX}/base:")
    assert "no registry answers: making the base image with mmdebstrap" in told
    made = docker_client.inspect_image(name)
    assert made["Config"]["Labels"]["dev.replexplorer.role"] == "base"
    assert images.find_base(quiet) == name


@contextmanager
def registry() -> Iterator[str]:
    """A registry with one image, on loopback; answers the image's name."""
    layer = gzip.compress(small_tar(), mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(small_tar()).hexdigest()}"]},
        }
    ).encode()
    kind = "application/vnd.docker.distribution.manifest.v2+json"

    def described(content: bytes, media: str) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        return {"mediaType": media, "size": len(content), "digest": digest}

    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": described(config, "application/vnd.docker.container.image.v1+json"),
            "layers": [described(layer, "application/vnd.docker.image.rootfs.diff.tar.gzip")],
        }
    ).encode()
    blobs = {described(content, "")["digest"]: content for content in (config, layer, manifest)}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            what = self.path.rsplit("/", 1)[-1]
            content = manifest if what == "sid" else blobs.get(what, b"{}")
            self.send_response(200)
            self.send_header("Content-Type", kind if content == manifest else "application/octet-stream")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.send_header("Docker-Content-Digest", described(content, "")["digest"])
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815 - http.server calls it so

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}/debian:sid"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_base_comes_from_a_registry_that_answers(
    docker_client: Any, monkeypatch: pytest.MonkeyPatch, scratch: Callable[[str], str]
) -> None:
    monkeypatch.setattr(images, "OWN_BASE", f"{PREFIX}/base")
    with registry() as name:
        monkeypatch.setattr(images, "BASE", scratch(name))
        assert images.find_base(quiet) == name
    assert images.find_base(quiet) == name


def test_a_registry_that_says_nothing_is_not_waited_for(
    docker_client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(images, "OWN_BASE", f"{PREFIX}/base")
    monkeypatch.setattr(images, "_REGISTRY_SILENCE_S", 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(images, "BASE", f"127.0.0.1:{silent.getsockname()[1]}/debian:sid")
        with pytest.raises(MissingPiece, match=r"no image registry answers .*timed out"):
            images.find_base(quiet)


@pytest.fixture
def plain_mysql(docker_client: Any, scratch: Callable[[str], str]) -> str:
    """An image with a MySQL server and nothing of ours."""
    base = images.find_base(quiet)
    name = scratch(f"{PREFIX}/plain:1")
    install = "apt-get -q -y --no-install-recommends install mysql-server-core"
    update = "apt-get -q -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false update"
    file = io.BytesIO(f"FROM {base}\nRUN {update} && {install}\n".encode())
    said = list(docker_client.build(fileobj=file, tag=name, rm=True, decode=True))
    assert not any("error" in event for event in said), said[-3:]
    return name


@pytest.mark.in_full
async def test_any_image_with_mysqld_goes_behind_the_same_sidecar(
    plain_mysql: str, own_stack: DockerProvider, docker_client: Any
) -> None:
    own = await bring_up(own_stack, UpOptions(image=plain_mysql))
    servers = [c for c in take(docker_client, own_stack.name).containers if c.role == "mysqld"]
    assert {server.image for server in servers} == {plain_mysql}
    uuids = {await own.value(node, "SELECT @@server_uuid") for node in ("db1", "db2")}
    assert len(uuids) == 2
    assert await own.value("db2", "SELECT @@rpl_semi_sync_replica_enabled") == 1
    assert await own_stack.up(UpOptions(image=plain_mysql), quiet) is False


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
    ],
)
async def test_an_image_without_a_usable_mysqld_is_one_line(
    own_stack: DockerProvider, docker_client: Any, scratch: Callable[[str], str], dockerfile: str, says: str
) -> None:
    name = scratch(f"{PREFIX}/useless:1")
    text = dockerfile.format(base=images.find_base(quiet), prefix=PREFIX)
    for _ in docker_client.build(fileobj=io.BytesIO(text.encode()), tag=name, rm=True, decode=True):
        pass
    with pytest.raises(MissingPiece, match=says) as raised:
        await own_stack.up(UpOptions(image=name), quiet)
    assert "\n" not in str(raised.value)
    assert take(docker_client, own_stack.name).empty


async def test_an_image_that_nobody_has_is_one_line(own_stack: DockerProvider, docker_client: Any) -> None:
    with pytest.raises(MissingPiece, match="no image 127"):
        await own_stack.up(UpOptions(image="127.0.0.1:9/nobody/has:this"), quiet)
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
