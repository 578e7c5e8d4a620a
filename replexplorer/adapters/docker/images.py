"""The images: found by what they are made of, and made when they are not there.

Law: a tag is a hash of the files that go into the image, so an unchanged image is never built
again and a changed one always is. The packages that an image got come from an archive that moves, so
their versions are kept in its label.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import replexplorer
from replexplorer.adapters.docker.base_image import BUILD_SILENCE_S, failure, find_base, image_id, pull
from replexplorer.adapters.docker.client import client, one_line
from replexplorer.adapters.secrets import SERVER_UID
from replexplorer.core.errors import MissingPiece
from replexplorer.core.system import DEFAULT
from replexplorer.formats.stack_file import LABEL
from replexplorer.ports import Report

_PROBE_LIMIT_S: Final = 20
_BUILT_WITH: Final = f"{LABEL}built-with"
"""The label with an image's packages and their versions."""
_BUILT_WITH_FILE: Final = "/usr/share/replexplorer/built-with"
"""Where an image's Dockerfile notes them, a line each."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One of the project's images: which files of compose/ go into it."""

    role: str
    """`mysqld` or `sidecar`."""
    repository: str
    dockerfile: str
    patterns: tuple[str, ...]
    says: str
    """What is being built, for the progress line."""
    target: str | None = None
    """The Dockerfile's stage that is the image; None: its last."""


MYSQL: Final = Recipe(
    "mysqld", "replexplorer/mysql", "mysql/Dockerfile", ("mysql/Dockerfile", "mysql/my.cnf"), "MySQL"
)
MARIADB: Final = Recipe(
    "mysqld", "replexplorer/mariadb", "mariadb/Dockerfile", ("mariadb/Dockerfile",), "MariaDB", "mariadb"
)
GALERA: Final = Recipe(
    "mysqld", "replexplorer/galera", "mariadb/Dockerfile", ("mariadb/Dockerfile",), "Galera", "galera"
)
SERVERS: Final = {"mysql": MYSQL, "mariadb": MARIADB}
"""The image of each flavour that is made here."""
OF_SYSTEMS: Final = {"galera": GALERA}
"""The image of each system that needs more than its flavour's (`core.system.SYSTEMS`)."""
SIDECAR: Final = Recipe(
    "sidecar",
    "replexplorer/sidecar",
    "sidecar/Dockerfile",
    (
        "sidecar/Dockerfile",
        "sidecar/start-sidecar",
        "sidecar/*.py",
        "sidecar/*.c",
        "mysql/*.[ch]",
        "mysql/start-mysqld",
        "mysql/start-galera",
        "mysql/my.cnf",
    ),
    "sidecar",
)


@dataclass(frozen=True, slots=True)
class ImageState:
    """Whether one of the project's images is there, for `doctor`."""

    role: str
    says: str
    """Of which server it is, in words; `sidecar`."""
    reference: str
    present: bool
    built_with: str | None = None
    """The packages that it got, with their versions; None when it is not there or does not say."""


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


def flavor_of(name: str) -> str | None:
    """The flavour of an image that is made here, by its name; None for somebody else's."""
    made = (*SERVERS.items(), *(("mariadb", recipe) for recipe in OF_SYSTEMS.values()))
    return next((flavor for flavor, recipe in made if name.startswith(f"{recipe.repository}:")), None)


def server_for(system: str, flavor: str) -> Recipe:
    """The recipe of the server of a system's nodes, by this flavour."""
    return OF_SYSTEMS.get(system) or SERVERS[flavor]


def states(compose: Path) -> list[ImageState]:
    """Which of our images are there, the servers' first; raises MissingPiece when Docker does not answer."""
    with client() as daemon:
        recipes = (*SERVERS.values(), *OF_SYSTEMS.values(), SIDECAR)
        return [_state(daemon, each, reference(each, compose)) for each in recipes]


def _state(daemon: Any, recipe: Recipe, name: str) -> ImageState:
    from docker.errors import ImageNotFound

    try:
        labels = daemon.inspect_image(name)["Config"].get("Labels") or {}
    except ImageNotFound:
        return ImageState(recipe.role, recipe.says, name, present=False)
    return ImageState(recipe.role, recipe.says, name, present=True, built_with=labels.get(_BUILT_WITH))


def ensure(recipes: Iterable[Recipe], compose: Path, report: Report) -> dict[str, str]:
    """Role to reference of each image, built where it is missing, at once where several are.

    The `latest` of each repository, which the Compose tool takes, is then the image that is wanted here.
    Raises MissingPiece in one line: no registry and no mmdebstrap, no network, a full disk, a failing build.
    """
    wanted = {recipe.role: reference(recipe, compose) for recipe in recipes}
    with client() as daemon:
        missing = [recipe for recipe in recipes if image_id(daemon, wanted[recipe.role]) is None]
    if missing:
        _build_all(missing, compose, report)
    with client() as daemon:
        for recipe in recipes:
            daemon.tag(wanted[recipe.role], recipe.repository, "latest")
            built_with = _state(daemon, recipe, wanted[recipe.role]).built_with if recipe in missing else None
            if built_with:
                report(f"built the {recipe.says} image with {built_with}", None)
    return wanted


def _build_all(missing: list[Recipe], compose: Path, report: Report) -> None:
    base = find_base(report)
    progress = _Progress(report, [recipe.says for recipe in missing])
    with ThreadPoolExecutor(len(missing)) as pool:
        builds = [pool.submit(_build, recipe, compose, base, progress.of(recipe.says)) for recipe in missing]
    for build in builds:
        build.result()


class _Progress:
    """One line for several builds."""

    def __init__(self, report: Report, names: list[str]) -> None:
        self._report = report
        self._steps = dict.fromkeys(names, (1, 1))

    def of(self, name: str) -> Callable[[int, int], None]:
        """What one of the builds calls with its step and their number."""

        def step(number: int, total: int) -> None:
            self._steps[name] = (number, total)
            text = ", ".join(f"{key} {at}/{of}" for key, (at, of) in self._steps.items())
            share = sum((at - 1) / of for at, of in self._steps.values()) / len(self._steps)
            self._report(f"building images: {text}", share)

        return step


def _build(recipe: Recipe, compose: Path, base: str, step: Callable[[int, int], None]) -> None:
    """Build one image, note what it was built with, and tag it with its hash."""
    content, tag = context(recipe, compose)
    stage = f" --target {recipe.target}" if recipe.target else ""
    again = f"docker build --build-arg BASE={base}{stage} -f {compose / recipe.dockerfile} {compose}"
    with client(timeout_s=BUILD_SILENCE_S) as daemon:
        made = _run_build(
            daemon,
            recipe.says,
            again,
            step,
            fileobj=io.BytesIO(content),
            custom_context=True,
            dockerfile=recipe.dockerfile,
            buildargs={"BASE": base},
            target=recipe.target or "",
            labels={f"{LABEL}role": recipe.role, f"{LABEL}version": replexplorer.__version__},
        )
        # A label of its own build: what an archive gave is known only when the image is whole.
        _run_build(
            daemon,
            recipe.says,
            again,
            lambda *_: None,
            fileobj=io.BytesIO(f"FROM {made}\n".encode()),
            tag=f"{recipe.repository}:{tag}",
            labels={_BUILT_WITH: _built_with(daemon, made), f"{LABEL}base": base},
        )


def _run_build(daemon: Any, says: str, again: str, step: Callable[[int, int], None], **options: Any) -> str:
    """Run one build to its end; the image's id. Raises MissingPiece in one line."""
    said: list[str] = []
    at, of, made = 1, 1, ""
    for event in daemon.build(rm=True, forcerm=True, decode=True, **options):
        if found := re.match(r"Step (\d+)/(\d+)", event.get("stream", "")):
            at, of = int(found.group(1)), int(found.group(2))
        step(at, of)
        made = event.get("aux", {}).get("ID", made)
        said += [line for line in event.get("stream", "").splitlines() if line.strip()]
        del said[:-40]
        if "error" in event:
            raise failure(f"building the {says} image failed", [*said, event["error"]], again)
    return made


def _built_with(daemon: Any, image: str) -> str:
    """What the image's own note says: its packages and their versions, in one line; empty without one."""
    from docker.errors import NotFound

    created = daemon.create_container(image, command=["-"], labels={f"{LABEL}role": "probe"})
    try:
        stream, _ = daemon.get_archive(created["Id"], _BUILT_WITH_FILE)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
            note = tar.extractfile(tar.next() or "")
            lines = note.read().decode("utf-8", "replace").splitlines() if note else []
    except NotFound:
        return ""
    finally:
        daemon.remove_container(created["Id"], force=True, v=True)
    return ", ".join(line.strip() for line in lines if line.strip())


def require(name: str, report: Report) -> None:
    """Have somebody else's image here, pulled when it is not; raises MissingPiece in one line."""
    with client(timeout_s=BUILD_SILENCE_S) as daemon:
        if image_id(daemon, name) is not None:
            return
        report(f"pulling {name}", None)
        reason = pull(daemon, name, report)
    if reason is not None:
        raise MissingPiece(f"no image {name} here, and pulling it failed ({reason})", f"docker pull {name}")


def check_foreign(name: str, compose: Path, report: Report, system: str = DEFAULT) -> None:
    """Make sure that an image has a mysqld that we can start as a node of this system.

    Raises MissingPiece in one line. What counts is what the start scripts themselves say, run
    in a container without network that is removed at once.
    """
    report(f"looking for mysqld in {name}", None)
    script = (compose / "mysql" / "start-mysqld").read_text(encoding="utf-8")
    commands = [["/bin/sh", "-c", script, "start-mysqld", "check"]]
    needs = "--image needs one with a mysqld or mariadbd"
    if system in OF_SYSTEMS:
        script = _MEMBER_PARTS + (compose / "mysql" / f"start-{system}").read_text(encoding="utf-8")
        commands.append(["/bin/sh", "-c", script])
        needs = f"for {system} it needs MariaDB, Galera's provider and rsync; without --image one is built"
    for command in commands:
        with client() as daemon:
            status, said = _run(daemon, name, command, {"RX_SYSTEM": system})
        if status != 0:
            lines = said.strip().splitlines() or ["it does not start"]
            reason = lines[-1].removeprefix("start-mysqld: ")
            raise MissingPiece(f"cannot use the image {name}: {reason}", needs)


_MEMBER_PARTS: Final = """\
PATH=$PATH:/usr/sbin:/usr/libexec
fail() { echo "$1" >&2; exit 1; }
for part in mariadbd rsync wsrep_sst_rsync; do
    command -v "$part" >/dev/null || fail "it has no $part"
done
datadir=/nonexistent node=
"""
"""Before start-galera, which is read by start-mysqld: what a member needs beside the provider."""


def _run(daemon: Any, image: str, entrypoint: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a container to its end; its exit status and what it said."""
    from docker.errors import APIError

    created = daemon.create_container(
        image,
        entrypoint=entrypoint,
        command=[],
        environment=dict(environment),
        user=f"{SERVER_UID}:{SERVER_UID}",
        labels={f"{LABEL}role": "probe"},
        host_config=daemon.create_host_config(network_mode="none", cap_drop=["ALL"]),
    )
    try:
        try:
            daemon.start(created["Id"])
        except APIError as error:
            return 1, "it has no shell" if entrypoint[0] in str(error) else one_line(error)
        status: Mapping[str, Any] = daemon.wait(created["Id"], timeout=_PROBE_LIMIT_S)
        return int(status["StatusCode"]), daemon.logs(created["Id"]).decode(errors="replace")
    finally:
        daemon.remove_container(created["Id"], force=True, v=True)
