"""The images: found by what they are made of, and made when they are not there.

Law: a tag is a hash of the files that go into the image, so an unchanged image is never built
again and a changed one always is. The base comes from a registry where one answers quickly,
else from mmdebstrap; everything after FROM is the same.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import replexplorer
from replexplorer.adapters.docker_client import connect, one_line, spoken
from replexplorer.config.stack_file import LABEL
from replexplorer.core.errors import MissingPiece, ReplexplorerError
from replexplorer.ports import Report

BASE: Final = "debian:sid-slim"
"""The base image, by its name in a registry."""
OWN_BASE: Final = "replexplorer/base"
"""The same base when we made it."""

_BOOTSTRAP: Final = (
    "mmdebstrap",
    "--variant=minbase",
    '--aptopt=Acquire::Check-Valid-Until "false"',
    '--aptopt=Acquire::Languages "none"',
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "sid",
    "-",
)
_REGISTRY_SILENCE_S: Final = 6
"""A registry that says nothing for so long does not answer quickly."""
_PULL_LIMIT_S: Final = 60.0
_BUILD_SILENCE_S: Final = 300
"""apt and the initialisation of a datadir may be silent for a while on a slow machine."""
_NO_NETWORK: Final = re.compile(
    r"temporary failure resolving|could not resolve|no such host|network is unreachable|failed to fetch"
    r"|unable to connect|could not connect",
    re.IGNORECASE,
)
_PROBE_LIMIT_S: Final = 20


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image of ours: which files of compose/ go into it."""

    role: str
    """`mysqld` or `sidecar`."""
    repository: str
    dockerfile: str
    patterns: tuple[str, ...]
    says: str
    """What is being built, for the progress line."""


MYSQL: Final = Recipe(
    "mysqld", "replexplorer/mysql", "mysql/Dockerfile", ("mysql/Dockerfile", "mysql/my.cnf"), "MySQL"
)
SIDECAR: Final = Recipe(
    "sidecar",
    "replexplorer/sidecar",
    "sidecar/Dockerfile",
    ("sidecar/Dockerfile", "sidecar/start-sidecar", "sidecar/*.py", "mysql/start-mysqld", "mysql/my.cnf"),
    "sidecar",
)


@dataclass(frozen=True, slots=True)
class ImageState:
    """Whether an image of ours is there, for `doctor`."""

    role: str
    reference: str
    present: bool


def context(recipe: Recipe, compose: Path) -> tuple[bytes, str]:
    """The build context as a tar, and the tag: a hash of what is in it."""
    found = sorted({file for pattern in recipe.patterns for file in compose.glob(pattern)})
    digest = hashlib.sha256()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for file in found:
            content = file.read_bytes()
            name = file.relative_to(compose).as_posix()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue(), digest.hexdigest()[:12]


def reference(recipe: Recipe, compose: Path) -> str:
    """`repository:hash` of the image as the files stand now."""
    return f"{recipe.repository}:{context(recipe, compose)[1]}"


def states(compose: Path) -> list[ImageState]:
    """Which of our images are there; raises MissingPiece when Docker does not answer."""
    client = connect()
    with spoken():
        return [
            ImageState(recipe.role, name, image_id(client, name) is not None)
            for recipe in (MYSQL, SIDECAR)
            for name in (reference(recipe, compose),)
        ]


def ensure(recipes: Iterable[Recipe], compose: Path, report: Report) -> dict[str, str]:
    """Role to reference of each image, built where it is missing, at once where several are.

    Raises MissingPiece in one line: no registry and no mmdebstrap, no network, a full disk, a
    failing build.
    """
    client = connect()
    wanted = {recipe.role: reference(recipe, compose) for recipe in recipes}
    with spoken():
        missing = [recipe for recipe in recipes if image_id(client, wanted[recipe.role]) is None]
    if not missing:
        return wanted
    base = _base(report)
    progress = _Progress(report, [recipe.says for recipe in missing])
    with ThreadPoolExecutor(len(missing)) as pool:
        builds = [pool.submit(_build, recipe, compose, base, progress.of(recipe.says)) for recipe in missing]
    for build in builds:
        build.result()
    return wanted


def image_id(client: Any, name: str) -> str | None:
    """The image's id; None when it is not here."""
    from docker.errors import ImageNotFound

    try:
        return str(client.inspect_image(name)["Id"])
    except ImageNotFound:
        return None


class _Progress:
    """One line for several builds."""

    def __init__(self, report: Report, names: list[str]) -> None:
        self._report = report
        self._steps = dict.fromkeys(names, (0, 1))

    def of(self, name: str) -> Callable[[int, int], None]:
        def step(number: int, total: int) -> None:
            self._steps[name] = (number - 1, total)
            text = ", ".join(f"{key} {done + 1}/{of}" for key, (done, of) in self._steps.items())
            share = sum(done / of for done, of in self._steps.values()) / len(self._steps)
            self._report(f"building images: {text}", share)

        return step


def _base(report: Report) -> str:
    """A base image that is here now: the registry's, else our own."""
    client = connect(timeout_s=_REGISTRY_SILENCE_S)
    own = f"{OWN_BASE}:{hashlib.sha256(repr(_BOOTSTRAP).encode()).hexdigest()[:12]}"
    with spoken():
        for name in (BASE, own):
            if image_id(client, name) is not None:
                return name
    report(f"asking the registry for {BASE}", None)
    if (reason := _pull(client, BASE, report)) is None:
        return BASE
    if shutil.which("mmdebstrap") is None:
        raise MissingPiece(
            f"no image registry answers ({reason}) and mmdebstrap is not installed",
            "apt-get install -y mmdebstrap",
        )
    report("no registry answers: making the base image with mmdebstrap", None)
    _bootstrap(own, report)
    return own


def _pull(client: Any, name: str, report: Report) -> str | None:
    """Pull an image; None when it is here now, else why not."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    until = time.monotonic() + _PULL_LIMIT_S
    repository, _, tag = name.rpartition(":") if ":" in name.rsplit("/", 1)[-1] else (name, "", "latest")
    try:
        for event in client.pull(repository, tag=tag, stream=True, decode=True):
            if "error" in event:
                return " ".join(str(event["error"]).split())[:160]
            if time.monotonic() > until:
                return "too slow"
            if event.get("progressDetail"):
                report(f"pulling {name}", None)
    except (DockerException, RequestException, OSError) as error:
        return one_line(error)[:160]
    return None if image_id(client, name) is not None else "the pull ended without an image"


def _bootstrap(name: str, report: Report) -> None:
    """Make the base with mmdebstrap, streamed into the daemon, and tag it only when it is whole."""
    client = connect(timeout_s=_BUILD_SILENCE_S)
    with tempfile.TemporaryFile() as log:
        with (
            subprocess.Popen(
                _BOOTSTRAP, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL
            ) as process,
            spoken(),
        ):
            assert process.stdout is not None  # noqa: S101 - PIPE was asked for
            try:
                answer = client.import_image_from_stream(
                    _blocks(process.stdout, report), changes=[f"LABEL {LABEL}role=base {LABEL}version=1"]
                )
            finally:
                process.stdout.close()
                if process.poll() is None:
                    process.terminate()
                status = process.wait()
        log.seek(0)
        said = log.read().decode(errors="replace")
    imported = re.search(r"sha256:[0-9a-f]{64}", str(answer))
    if status != 0 or imported is None:
        if imported is not None:
            with spoken():
                client.remove_image(imported.group(), force=True)
        raise _failure("mmdebstrap failed", said.splitlines())
    with spoken():
        repository, tag = name.split(":")
        client.tag(imported.group(), repository, tag)


def _blocks(stream: Any, report: Report) -> Iterable[bytes]:
    size = 0
    told = time.monotonic()
    while block := stream.read(1 << 18):
        size += len(block)
        if time.monotonic() - told > 0.5:
            told = time.monotonic()
            report(f"making the base image with mmdebstrap: {size >> 20} MB", None)
        yield block


def _build(recipe: Recipe, compose: Path, base: str, step: Callable[[int, int], None]) -> None:
    """Build one image and tag it with its hash and `latest`."""
    client = connect(timeout_s=_BUILD_SILENCE_S)
    content, tag = context(recipe, compose)
    said: list[str] = []
    step(1, 1)
    with spoken():
        for event in client.build(
            fileobj=io.BytesIO(content),
            custom_context=True,
            dockerfile=recipe.dockerfile,
            tag=f"{recipe.repository}:{tag}",
            buildargs={"BASE": base},
            labels={f"{LABEL}role": recipe.role, f"{LABEL}version": replexplorer.__version__},
            rm=True,
            forcerm=True,
            decode=True,
        ):
            if found := re.match(r"Step (\d+)/(\d+)", event.get("stream", "")):
                step(int(found.group(1)), int(found.group(2)))
            said += [line for line in event.get("stream", "").splitlines() if line.strip()]
            del said[:-40]
            if "error" in event:
                raise _failure(f"building the {recipe.says} image failed", [*said, event["error"]])
        client.tag(f"{recipe.repository}:{tag}", recipe.repository, "latest")


def _failure(what: str, said: list[str]) -> ReplexplorerError:
    """The one line behind a failed build."""
    text = "\n".join(said)
    if "no space left on device" in text.lower():
        return MissingPiece(
            f"{what}: the disk is full", "free some space (`docker system df` tells what is used)"
        )
    if _NO_NETWORK.search(text):
        return MissingPiece(
            f"{what}: the package archive does not answer",
            "connect to the network, or `docker load` the images from another machine",
        )
    errors = [line.strip() for line in said if re.match(r"\s*(E:|mysqld:|.*\[ERROR\])", line)] or said
    last = " ".join(errors[-1].split())[:200] if errors else "it said nothing"
    return MissingPiece(f"{what}: {last}", "run it again with -v for the whole output")


def require(client: Any, name: str, report: Report) -> None:
    """Have somebody else's image here, pulled when it is not; raises MissingPiece in one line."""
    with spoken():
        if image_id(client, name) is not None:
            return
        report(f"pulling {name}", None)
        reason = _pull(connect(timeout_s=_BUILD_SILENCE_S), name, report)
    if reason is not None:
        raise MissingPiece(f"no image {name} here, and pulling it failed ({reason})", f"docker pull {name}")


def check_foreign(client: Any, name: str, compose: Path, report: Report) -> None:
    """Make sure that an image has a mysqld that we can start.

    Raises MissingPiece in one line. What counts is what the start script itself says, run
    in a container without network that is removed at once.
    """
    report(f"looking for mysqld in {name}", None)
    status, said = _run(client, name, (compose / "mysql" / "start-mysqld").read_text(encoding="utf-8"))
    if status != 0:
        reason = (
            said.strip().splitlines()[-1].removeprefix("start-mysqld: ")
            if said.strip()
            else "it does not start"
        )
        raise MissingPiece(
            f"cannot use the image {name}: {reason}", "give --image one that has MySQL's mysqld"
        )


def _run(client: Any, image: str, script: str) -> tuple[int, str]:
    from docker.errors import APIError

    with spoken():
        created = client.create_container(
            image,
            entrypoint=["/bin/sh", "-c", script, "start-mysqld", "check"],
            command=[],
            user="999:999",
            labels={f"{LABEL}role": "probe"},
            host_config=client.create_host_config(network_mode="none", cap_drop=["ALL"]),
        )
        try:
            try:
                client.start(created["Id"])
            except APIError as error:
                return 1, "it has no shell" if "/bin/sh" in str(error) else one_line(error)
            status: Mapping[str, Any] = client.wait(created["Id"], timeout=_PROBE_LIMIT_S)
            return int(status["StatusCode"]), client.logs(created["Id"]).decode(errors="replace")
        finally:
            client.remove_container(created["Id"], force=True, v=True)
