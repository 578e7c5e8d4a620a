"""The images: found by what they are made of, and made when they are not there.

Their base is from a registry where one answers quickly, else made with mmdebstrap.

Law: a tag is a hash of the files that go into the image, so an unchanged image is never built
again and a changed one always is. The packages that an image got come from an archive that moves, so
their versions are kept in its label.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import replexplorer
from replexplorer.adapters.docker.client import archive, client, one_line
from replexplorer.adapters.docker.inventory import LABEL
from replexplorer.adapters.secrets import SERVER_UID
from replexplorer.core.errors import MissingPiece, ReplexplorerError
from replexplorer.core.records import frozen
from replexplorer.core.system import DEFAULT
from replexplorer.ports import Reporter

_PROBE_LIMIT_S: Final = 20
BUILT_WITH: Final = f"{LABEL}built-with"
"""The label with an image's packages and their versions."""
_BUILT_WITH_FILE: Final = "/usr/share/replexplorer/built-with"
"""Where an image's Dockerfile notes them, a line each."""


@frozen
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
    modules: tuple[str, ...] = ()
    """Files of this package that go into it too."""


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
    modules=("replexplorer/core/wire.py", "replexplorer/core/records.py"),
)


@frozen
class ImageState:
    """Whether one of the project's images is there, for `doctor`."""

    role: str
    says: str
    """Of which server it is, in words; `sidecar`."""
    reference: str
    present: bool
    built_with: str | None = None
    """The packages that it got, with their versions; None when it is not there or does not say."""


def digest(files: Iterable[tuple[str, bytes]]) -> str:
    """The tag of an image: a hash of the files that it is made of."""
    found = hashlib.sha256()
    for name, content in files:
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:12]


def _files(recipe: Recipe, compose: Path) -> list[tuple[str, bytes]]:
    found = {
        file.relative_to(compose).as_posix(): file for each in recipe.patterns for file in compose.glob(each)
    }
    found |= {name: Path(replexplorer.__file__).parents[1] / name for name in recipe.modules}
    return [(name, file.read_bytes()) for name, file in sorted(found.items())]


def reference(recipe: Recipe, compose: Path) -> str:
    """`repository:hash` of the image as the files stand now."""
    return f"{recipe.repository}:{digest(_files(recipe, compose))}"


def flavor_of(name: str) -> str | None:
    """The flavor of an image that is made here, by its name; None for somebody else's."""
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
    return ImageState(recipe.role, recipe.says, name, present=True, built_with=labels.get(BUILT_WITH))


def ensure(
    recipes: Iterable[Recipe], compose: Path, report: Reporter, is_there: Callable[[str], bool] | None = None
) -> dict[str, str]:
    """Role to reference of each image, built on this machine where it is nowhere, at once where several are.

    `is_there` says of a reference whether any host has it; None: this machine is the only one. Raises
    MissingPiece in one line: no registry and no mmdebstrap, no network, a full disk, a failing build.
    """
    wanted = {recipe.role: reference(recipe, compose) for recipe in recipes}
    with client() as daemon:
        has = is_there or (lambda name: image_id(daemon, name) is not None)
        missing = [recipe for recipe in recipes if not has(wanted[recipe.role])]
    if missing:
        _build_all(missing, compose, report)
    return wanted


def _build_all(missing: list[Recipe], compose: Path, report: Reporter) -> None:
    base = find_base(report)
    done = {recipe.says: (0.0, "-") for recipe in missing}

    def build(recipe: Recipe) -> None:
        def step(share: float, words: str) -> None:
            done[recipe.says] = share, words
            text = ", ".join(f"{name} {said}" for name, (_, said) in done.items())
            report(f"building images: {text}", sum(share for share, _ in done.values()) / len(done))

        built_with = _build(recipe, compose, base, step)
        if built_with:
            report(f"built the {recipe.says} image with {built_with}")

    with ThreadPoolExecutor(len(missing)) as pool:
        builds = [pool.submit(build, recipe) for recipe in missing]
    for each in builds:
        each.result()


def _build(recipe: Recipe, compose: Path, base: str, step: Callable[[float, str], None]) -> str:
    """Build one image and tag it with its hash; answers what it was built with, which its label says."""
    files = _files(recipe, compose)
    stage = f" --target {recipe.target}" if recipe.target else ""
    again = f"docker build --build-arg BASE={base}{stage} -f {compose / recipe.dockerfile} {compose}"
    with client(timeout_s=BUILD_SILENCE_S) as daemon:
        made = run_build(
            daemon,
            recipe.says,
            again,
            step,
            fileobj=io.BytesIO(archive(files)),
            custom_context=True,
            dockerfile=recipe.dockerfile,
            buildargs={"BASE": base},
            target=recipe.target or "",
            labels={f"{LABEL}role": recipe.role, f"{LABEL}version": replexplorer.__version__},
        )
        status, said = _run(daemon, made, ["/bin/cat", _BUILT_WITH_FILE], {})
        built_with = ", ".join(said.strip().splitlines()) if status == 0 else ""
        # A label of its own build: what an archive gave is known only when the image is whole.
        run_build(
            daemon,
            recipe.says,
            again,
            lambda *_: None,
            fileobj=io.BytesIO(f"FROM {made}\n".encode()),
            tag=f"{recipe.repository}:{digest(files)}",
            labels={BUILT_WITH: built_with, f"{LABEL}base": base},
        )
    return built_with


def run_build(daemon: Any, says: str, again: str, step: Callable[[float, str], None], **options: Any) -> str:
    """Run one build to its end; the image's id. Raises MissingPiece in one line."""
    said: list[str] = []
    at, of, made = 1, 1, ""
    for event in daemon.build(rm=True, forcerm=True, decode=True, **options):
        if found := re.match(r"Step (\d+)/(\d+)", event.get("stream", "")):
            at, of = int(found.group(1)), int(found.group(2))
        step((at - 1) / of, f"{at}/{of}")
        made = event.get("aux", {}).get("ID", made)
        said += [line for line in event.get("stream", "").splitlines() if line.strip()]
        del said[:-40]
        if "error" in event:
            raise failure(f"building the {says} image failed", [*said, event["error"]], again)
    return made


def require(name: str, report: Reporter) -> None:
    """Have somebody else's image here, pulled when it is not; raises MissingPiece in one line."""
    with client(timeout_s=BUILD_SILENCE_S) as daemon:
        if image_id(daemon, name) is not None:
            return
        report(f"pulling {name}")
        reason = pull(daemon, name, report)
    if reason is not None:
        raise MissingPiece(f"no image {name} here, and pulling it failed ({reason})", f"docker pull {name}")


def check_foreign(name: str, compose: Path, report: Reporter, system: str = DEFAULT) -> None:
    """Make sure that an image has a mysqld that we can start as a node of this system.

    Raises MissingPiece in one line. What counts is what the start script itself says, run
    in a container without network that is removed at once.
    """
    report(f"looking for mysqld in {name}")
    script = (compose / "mysql" / "start-mysqld").read_text(encoding="utf-8")
    command = ["/bin/sh", "-c", script, "start-mysqld", "check"]
    with client() as daemon:
        status, said = _run(daemon, name, command, {"RX_SYSTEM": system})
    if status != 0:
        lines = said.strip().splitlines() or ["it does not start"]
        reason = lines[-1].removeprefix("start-mysqld: ")
        raise MissingPiece(
            f"cannot use the image {name}: {reason}", "give --image one that has mysqld or mariadbd"
        )


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
"""A base that takes longer to pull is made quicker."""
BUILD_SILENCE_S: Final = 300
"""apt and the initialisation of a datadir may be silent for a while on a slow machine."""
_MAKING: Final = "making the base image with mmdebstrap"
_NO_NETWORK: Final = re.compile(
    r"temporary failure resolving|could not resolve|no such host|network is unreachable|failed to fetch"
    r"|unable to connect|could not connect",
    re.IGNORECASE,
)


def find_base(report: Reporter) -> str:
    """A base image that is here now: the registry's, else our own; raises MissingPiece."""
    own = f"{OWN_BASE}:{hashlib.sha256(repr(_BOOTSTRAP).encode()).hexdigest()[:12]}"
    with client() as daemon:
        for name in (BASE, own):
            if image_id(daemon, name) is not None:
                return name
        report(f"asking the registry for {BASE}")
        reason = pull(daemon, BASE, report, silence_s=_REGISTRY_SILENCE_S, limit_s=_PULL_LIMIT_S)
    if reason is None:
        return BASE
    if shutil.which("mmdebstrap") is None:
        raise MissingPiece(
            f"no image registry answers ({reason}) and mmdebstrap is not installed",
            "run `apt-get install -y mmdebstrap`",
        )
    report(f"no registry answers: {_MAKING}")
    _bootstrap(own, report)
    return own


def pull(
    daemon: Any,
    name: str,
    report: Reporter,
    *,
    silence_s: float = BUILD_SILENCE_S,
    limit_s: float = float("inf"),
) -> str | None:
    """Pull an image; None when it is here now, else why not.

    The SDK's own `pull` waits without end, so the request is made on its session with a timeout.
    """
    from requests.exceptions import RequestException

    until = time.monotonic() + limit_s
    repository, _, tag = name.rpartition(":") if ":" in name.rsplit("/", 1)[-1] else (name, "", "latest")
    try:
        with daemon.post(
            f"{daemon.base_url}/v{daemon.api_version}/images/create",
            params={"fromImage": repository, "tag": tag},
            stream=True,
            timeout=silence_s,
        ) as response:
            if response.status_code != 200:
                return _short(response.json().get("message", "refused"))
            for line in response.iter_lines():
                event = json.loads(line) if line else {}
                if "error" in event:
                    return _short(event["error"])
                if time.monotonic() > until:
                    return "too slow"
                if event.get("progressDetail"):
                    report(f"pulling {name}")
    except RequestException as error:
        return _short("timed out" if "timed out" in str(error) else one_line(error))
    return None if image_id(daemon, name) is not None else "the pull ended without an image"


def _short(text: str) -> str:
    return " ".join(text.split())[:160]


def _bootstrap(name: str, report: Reporter) -> None:
    """Make the base with mmdebstrap, and import it when it is whole."""
    began_s, code = time.monotonic(), None
    with tempfile.NamedTemporaryFile(suffix=".tar") as tar, tempfile.TemporaryFile() as log:
        with subprocess.Popen(_BOOTSTRAP, stdout=tar, stderr=log, stdin=subprocess.DEVNULL) as process:
            try:
                while code is None:
                    report(f"{_MAKING}, {time.monotonic() - began_s:.0f} s")
                    with suppress(subprocess.TimeoutExpired):
                        code = process.wait(0.5)
            except BaseException:
                process.terminate()
                raise
        log.seek(0)
        said = log.read().decode(errors="replace")
        if code:
            raise failure("making the base image failed", said.splitlines(), shlex.join(_BOOTSTRAP))
        repository, tag = name.split(":")
        with client(timeout_s=BUILD_SILENCE_S) as daemon:
            answer = daemon.import_image_from_file(
                tar.name, repository=repository, tag=tag, changes=[f"LABEL {LABEL}role=base"]
            )
        if "sha256:" not in answer:
            raise failure("making the base image failed", [answer], shlex.join(_BOOTSTRAP))


def failure(what: str, said: list[str], again: str) -> ReplexplorerError:
    """The one line behind a failed build; `again` is the command that shows the rest."""
    text = "\n".join(said)
    if "no space left on device" in text.lower():
        return MissingPiece(
            f"{what}: the disk is full", "free some space (`docker system df` shows what is used)"
        )
    if _NO_NETWORK.search(text):
        return MissingPiece(
            f"{what}: the package archive does not answer",
            "connect to the network, or `docker load` the images from another machine",
        )
    errors = [line.strip() for line in said if re.match(r"\s*(E:|mysqld:|.*\[ERROR\])", line)] or said
    last = " ".join(errors[-1].split())[:200] if errors else "no output"
    return MissingPiece(f"{what}: {last}", f"see the whole output in {again}")


def image_id(daemon: Any, name: str) -> str | None:
    """The image's id; None when it is not here."""
    from docker.errors import ImageNotFound

    try:
        return str(daemon.inspect_image(name)["Id"])
    except ImageNotFound:
        return None
