"""The load of a stack on several hosts: it runs on the host of the source, in a container next to it.

The container's image is the sidecar's with this program and its MySQL driver in it. `up` builds it once, as
it builds the other images, and loads it onto every host: a load fetches nothing. A load process is an exec in
the container, which ends with its stdin, so no load outlives its app. Its intervals come over the daemon's
stream, their times on this machine's clock. When the source is on another host, the load goes on there in new
processes, and what it counted until then is kept.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from replexplorer.adapters.client_logs import FileClientLogs
from replexplorer.adapters.docker.client import archive
from replexplorer.adapters.docker.execs import DockerBridge, Exec
from replexplorer.adapters.docker.images import BUILT_WITH, digest, image_id, run_build
from replexplorer.adapters.docker.inventory import HOST, ROLE, STACK, VERSION
from replexplorer.adapters.load import LoadPlace
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.loss.client_log import RunLog, at_another_clock
from replexplorer.formats.files import read_bytes, whole_binary_file
from replexplorer.formats.paths import PACKAGE
from replexplorer.ports import LoadTarget, Reporter

if TYPE_CHECKING:
    from replexplorer.adapters.docker.provider import DockerProvider

LOAD: Final = "load"
"""The container's role."""
LOGS: Final = "/var/lib/replexplorer/ledger"
"""Where the client logs lie, a directory a run, on a volume that outlives the container."""
_REPOSITORY: Final = "replexplorer/load"
_UNTIL_REMOVED: Final = ("python3", "-c", "import signal; signal.pause()")
_COMMAND: Final = ("python3", "-P", "-m", "replexplorer.load_process")
_PLACE: Final = "/opt/load"
_DRIVER: Final = ("asyncmy", "cryptography")
_PLATFORMS: Final = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
_WANTED: Final = ("core", "formats", "generator", "adapters")
"""Packages of this program that a load process imports, with the modules next to them."""
_FETCH_WITHIN_S: Final = 180
_SAID: Final = 160
"""Characters of what a program said that an error line has."""
_NOTE_BYTES: Final = 4096
_US_PER_S: Final = 1_000_000


def _sidecar_on(client: Any, stack: str, host: str) -> Mapping[str, Any]:
    found = client.containers(filters={"label": [f"{STACK}={stack}", f"{ROLE}=sidecar"]})
    if not found:
        raise StackUnavailable(f"no sidecar runs on {host}", "run `replexplorer up`")
    sidecar: Mapping[str, Any] = found[0]
    return sidecar


def _requirements() -> list[str]:
    """The driver as it is here."""
    return [f"{name}=={version(name)}" for name in _DRIVER]


def program() -> Iterator[tuple[str, bytes]]:
    """What of this program a load process needs: files by name."""
    for file in sorted(file for file in PACKAGE.rglob("*") if file.suffix in (".py", ".toml")):
        inside = file.relative_to(PACKAGE)
        is_docker = inside.parts[:2] == ("adapters", "docker")
        if (len(inside.parts) == 1 or inside.parts[0] in _WANTED) and not is_docker:
            yield f"replexplorer/{inside.as_posix()}", file.read_bytes()


def _image_for(sidecar: str) -> str:
    """The load's image for this version of the program, on this image of the sidecar: its tag is a hash of
    what it is made of."""
    of = (" ".join((sidecar, *_requirements())), b"")
    return f"{_REPOSITORY}:{digest([of, *program()])}"


def ensure_image(client: Any, stack: str, host: str, report: Reporter) -> str:
    """Have the load's image on a host that runs a sidecar; answers its name. Raises MissingPiece when the
    driver cannot be had."""
    sidecar = str(_sidecar_on(client, stack, host)["ImageID"])
    name = _image_for(sidecar)
    if image_id(client, name) is not None:
        return name
    python = python_of(client.inspect_image(sidecar))
    report(f"fetching the load's MySQL driver for Python {python}")
    with tempfile.TemporaryDirectory() as directory:
        _fetch(python, str(client.info()["Architecture"]), directory)
        found = sorted(file for file in Path(directory).rglob("*") if file.is_file())
        driver = [(file.relative_to(directory).as_posix(), file.read_bytes()) for file in found]
    dockerfile = ("Dockerfile", f"FROM {sidecar}\nCOPY load {_PLACE}\n".encode())
    content = archive([dockerfile, *((f"load/{file}", text) for file, text in (*program(), *driver))])
    run_build(
        client,
        "load",
        f"run `replexplorer up --stack {stack}`",
        lambda share, words: report(f"building {name}: {words}", share),
        fileobj=io.BytesIO(content),
        custom_context=True,
        tag=name,
        labels={ROLE: LOAD, VERSION: version("replexplorer")},
    )
    return name


def python_of(image: Mapping[str, Any]) -> str:
    """`3.14`, of an image whose label says with which packages it was made."""
    found = re.search(r"python3 (\d+\.\d+)\.", str((image["Config"].get("Labels") or {}).get(BUILT_WITH, "")))
    if found is None:
        raise MissingPiece("the sidecar's image does not say which Python it has", "run `down`, then `up`")
    return found[1]


def _fetch(python: str, machine: str, directory: str) -> None:
    """Put the driver for that Python into a directory; raises MissingPiece."""
    arch, wanted = {"arm64": "aarch64", "amd64": "x86_64"}.get(machine, machine), _requirements()
    platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_{arch}")]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *platforms]
    again = f"what is needed: {', '.join(wanted)} for Python {python} on {arch}, by pip"
    try:
        done = subprocess.run(
            [*command, "--no-compile", "--target", directory, *wanted],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_FETCH_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MissingPiece("the package index does not answer", again) from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise MissingPiece(f"cannot fetch the load's MySQL driver: {lines[-1][:_SAID]}", again)


def _load_of(stack: str) -> dict[str, list[str]]:
    return {"label": [f"{STACK}={stack}", f"{ROLE}={LOAD}"]}


def _container(client: Any, stack: str, host: str) -> tuple[str, int]:
    """The container that a host's load processes run in, made where it is not there, and the host's cores.
    Raises StackUnavailable where no sidecar is there, or the image is of another version of this program."""
    sidecar = _sidecar_on(client, stack, host)
    name, cores = _image_for(str(sidecar["ImageID"])), int(client.info()["NCPU"])
    made_of = image_id(client, name)
    if made_of is None:
        raise StackUnavailable(
            f"{host} has no {name}, in which this version's load runs",
            f"run `replexplorer up --stack {stack}` to build it",
        )
    for found in client.containers(all=True, filters=_load_of(stack)):
        if found["ImageID"] == made_of and found["State"] == "running":
            return str(found["Id"]), cores
        client.remove_container(found["Id"], force=True, v=True)
    labels = {STACK: stack, ROLE: LOAD, HOST: host}
    logs = client.create_volume(f"replexplorer-{stack}-load", labels=labels)
    network = next(iter(sidecar["NetworkSettings"]["Networks"]))
    made = client.create_container(
        name,
        name=f"replexplorer-{stack}-load",
        entrypoint=list(_UNTIL_REMOVED),
        command=[],
        labels=labels,
        host_config=client.create_host_config(
            network_mode=network,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            sysctls={"net.ipv4.tcp_congestion_control": "reno"},
            restart_policy={"Name": "no"},
            binds=[f"{logs['Name']}:{LOGS}:rw"],
        ),
        networking_config=client.create_networking_config({network: client.create_endpoint_config()}),
    )
    client.start(made["Id"])
    return str(made["Id"]), cores


async def beside(stack: DockerProvider, target: LoadTarget) -> LoadPlace:
    """Where the load of this target runs: on the host of the node that it names."""
    host = stack.host_at(target.host, await stack.nodes())
    (container, cores), clock = await asyncio.gather(
        stack.at(host, lambda client: _container(client, stack.name, host)), stack.clock(host)
    )

    def create(client: Any) -> Exec:
        return Exec.create(client, container, _COMMAND, environment={"PYTHONPATH": _PLACE})

    async def launch() -> DockerBridge:
        return await DockerBridge.start(await stack.at(host, create), f"the load's container on {host}")

    return LoadPlace(launch, cores, host, clock.monotonic_s, partial(_noted, host, clock.monotonic_s))


def _noted(host: str, ahead_s: float, run: str) -> tuple[str, int]:
    """Where a process on a host is to write the next file of a run: its directory there, its number; a note
    beside the copies says so before the process begins. Raises MissingPiece."""
    content = json.dumps({"host": host, "ahead_s": ahead_s}).encode()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for number in itertools.count():
        note = Path(run) / f"{number}.far"
        try:
            with os.fdopen(os.open(note, flags, 0o600), "wb") as stream:
                stream.write(content)
            break
        except FileExistsError:
            continue
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise MissingPiece(f"{note} cannot be written: {why}", "make room there") from None
    return f"{LOGS}/{Path(run).name}", number


class FarClientLogs(FileClientLogs):
    """Client logs of a stack on several hosts: each is written on the disk of its load process, so that
    an intent costs no way over the wire, and copied to this machine's directory when somebody reads it.

    Law: an account is whole or refused. Whose file is on a host that does not answer is known here by its
    note; times are put on this machine's clock.
    """

    def __init__(self, directory: Path, stack: DockerProvider) -> None:
        super().__init__(directory)
        self._stack = stack

    async def read(self, run: str) -> RunLog:
        """See `ports.ClientLogs`; raises StackUnavailable naming a host that is away."""
        notes = await asyncio.to_thread(lambda: sorted(Path(run).glob("*.far")))
        await asyncio.gather(*map(self._copy, notes))
        return await super().read(run)

    async def _copy(self, note: Path) -> None:
        """Copy the file of a note as it is now, also one of a container that ended with its host."""
        try:
            noted = json.loads(read_bytes(note, _NOTE_BYTES))
            host, ahead_us = str(noted["host"]), round(noted["ahead_s"] * _US_PER_S)
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageError(f"{note} does not say where a client log is", "choose another run") from None
        path = f"{LOGS}/{note.parent.name}/{note.stem}.log"
        try:
            content = await self._stack.at(host, lambda client: _log_in(client, self._stack.name, path))
        except StackUnavailable as error:
            raise StackUnavailable(f"{error.message}; the client log is kept there", error.hint) from None
        with whole_binary_file(note.with_suffix(".log"), mode=0o600) as copy:
            copy.writelines(at_another_clock(line, ahead_us) for line in content.splitlines(keepends=True))


def _log_in(client: Any, stack: str, path: str) -> bytes:
    """A file of the load's container, which may be written meanwhile; nothing where there is none: its
    process never noted anything. Raises StackUnavailable where it cannot be read."""
    found = client.containers(all=True, filters=_load_of(stack))
    if not found:
        raise StackUnavailable(f"the load's container of stack {stack} is gone", "start the load again")
    if found[0]["State"] != "running":
        client.start(found[0]["Id"])
    begun = client.exec_create(found[0]["Id"], ["cat", "--", path])
    content, _ = client.exec_start(begun["Id"], demux=True)
    if client.exec_inspect(begun["Id"])["ExitCode"] not in (0, 1):  # 1: there is none
        raise StackUnavailable(f"the client log {path} cannot be read", "try again")
    return content or b""
