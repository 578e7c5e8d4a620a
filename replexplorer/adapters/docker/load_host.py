"""Where the load runs on another host: a container on the stack's network, of the sidecar's image.

It gets this program and its MySQL driver, as they are here, when it is made: nothing of the load has to be
installed there. A load process is an exec in it, which ends with its stdin, so no load outlives its app.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from replexplorer.adapters.docker.bridge import STDOUT, Exec, frames
from replexplorer.adapters.docker.inventory import HOST, ROLE, STACK
from replexplorer.adapters.load_process import LINE_BYTES
from replexplorer.core.errors import MissingPiece, StackUnavailable
from replexplorer.formats import paths
from replexplorer.formats.stack_file import LABEL
from replexplorer.ports import Report

LOAD: Final = "load"
"""The container's role."""
_CODE: Final = f"{LABEL}load-code"
"""The label with a hash of what was put into it."""
_BUILT_WITH: Final = f"{LABEL}built-with"
_UNTIL_REMOVED: Final = ("python3", "-c", "import signal; signal.pause()")
_COMMAND: Final = ("python3", "-P", "-m", "replexplorer.load_process")
_PLACE: Final = "/opt/load"
LOGS: Final = "/var/lib/replexplorer/ledger"
"""Where the client logs lie, a directory a run, on a volume that outlives the container."""
_DRIVER: Final = ("asyncmy", "cryptography")
_PLATFORMS: Final = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
_NOT_WANTED: Final = ("ui", "cli", "reports", "recordings", "_shipped")
_FETCH_WITHIN_S: Final = 180


@dataclass(frozen=True, slots=True)
class LoadHost:
    """The container that a host's load processes run in."""

    host: str
    container: str
    cores: int
    """Of the host."""

    @classmethod
    def ready(cls, client: Any, stack: str, host: str, report: Report) -> LoadHost:
        """Have it, with the program as it is here; raises StackUnavailable where no sidecar is there, and
        MissingPiece where the driver cannot be had."""
        info = client.info()
        label = f"{STACK}={stack}"
        sidecars = client.containers(filters={"label": [label, f"{ROLE}=sidecar"]})
        if not sidecars:
            raise StackUnavailable(f"no sidecar runs on {host}", "replexplorer up")
        image = client.inspect_image(sidecars[0]["ImageID"])
        content, digest = bundle(_python_of(image), str(info["Architecture"]), report)
        for found in client.containers(all=True, filters={"label": [label, f"{ROLE}={LOAD}"]}):
            if found["Labels"].get(_CODE) == digest and found["State"] == "running":
                return cls(host, str(found["Id"]), int(info["NCPU"]))
            client.remove_container(found["Id"], force=True, v=True)
        report(f"preparing the load's container on {host}", None)
        network = next(iter(sidecars[0]["NetworkSettings"]["Networks"]))
        labels = {STACK: stack, ROLE: LOAD, HOST: host}
        logs = client.create_volume(f"replexplorer-{stack}-load", labels=labels)
        made = client.create_container(
            sidecars[0]["ImageID"],
            name=f"replexplorer-{stack}-load",
            entrypoint=list(_UNTIL_REMOVED),
            command=[],
            labels={**labels, _CODE: digest},
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
        client.put_archive(made["Id"], str(Path(_PLACE).parent), content)
        client.start(made["Id"])
        return cls(host, str(made["Id"]), int(info["NCPU"]))

    def process(self, client: Any) -> Exec:
        """A load process that is not started yet."""
        return Exec.create(client, self.container, _COMMAND, environment={"PYTHONPATH": _PLACE})


def file_in(client: Any, stack: str, path: str) -> Exec:
    """What writes a file of the load's container to its output, also of one that ended with its host; raises
    StackUnavailable where there is no such container."""
    found = client.containers(all=True, filters={"label": [f"{STACK}={stack}", f"{ROLE}={LOAD}"]})
    if not found:
        raise StackUnavailable(f"the load's container of stack {stack} is gone", "start the load again")
    if found[0]["State"] != "running":
        client.start(found[0]["Id"])
    return Exec.create(client, found[0]["Id"], ("cat", "--", path))


def _python_of(image: Any) -> str:
    """`3.14`, of an image whose label says with which packages it was made."""
    told = str((image["Config"].get("Labels") or {}).get(_BUILT_WITH, ""))
    found = re.search(r"python3 (\d+\.\d+)\.", told)
    if found is None:
        raise MissingPiece("the sidecar's image does not say which Python it has", "`down`, then `up`")
    return found[1]


def bundle(python: str, machine: str, report: Report) -> tuple[bytes, str]:
    """This program without its screens, and its driver for that Python, as a tar; and a hash of it.

    Raises MissingPiece when the driver cannot be had.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in _contents(python, machine, report):
            member = tarfile.TarInfo(f"{Path(_PLACE).name}/{name}")
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    tar_bytes = stream.getvalue()
    return tar_bytes, hashlib.sha256(tar_bytes).hexdigest()[:12]


def _contents(python: str, machine: str, report: Report) -> Iterator[tuple[str, bytes]]:
    package = Path(str(files("replexplorer")))
    for file in sorted(package.rglob("*.py")):
        inside = file.relative_to(package)
        if inside.parts[0] not in _NOT_WANTED:
            yield f"replexplorer/{inside.as_posix()}", file.read_bytes()
    for wheel in sorted(_wheels(python, machine, report).glob("*.whl")):
        with zipfile.ZipFile(wheel) as content:
            for name in sorted(content.namelist()):
                if not name.endswith("/"):
                    yield name, content.read(name)


def _wheels(python: str, machine: str, report: Report) -> Path:
    """A directory with the driver's wheels for that Python, fetched by pip where they are not here yet."""
    wanted = [f"{name}=={version(name)}" for name in _DRIVER]
    directory = paths.cache_directory() / "driver" / "-".join([f"cp{python}", machine, *wanted])
    if directory.is_dir():
        return directory
    report(f"fetching the load's MySQL driver for Python {python}", None)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=directory.parent))
        try:
            _fetch(wanted, python, machine, part)
            part.rename(directory)
        except OSError:
            if not directory.is_dir():  # else another app was quicker
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise MissingPiece(f"cannot write {directory}", error.strerror or str(error)) from None
    return directory


def _fetch(wanted: list[str], python: str, machine: str, directory: Path) -> None:
    arch = {"arm64": "aarch64", "amd64": "x86_64"}.get(machine, machine)
    platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_{arch}")]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *platforms]
    again = f"what is needed: {', '.join(wanted)} for Python {python} on {arch}, by `pip download`"
    try:
        done = subprocess.run(
            [*command, "--dest", str(directory), *wanted],
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
        raise MissingPiece(f"cannot fetch the load's MySQL driver: {lines[-1][:160]}", again)


class ExecProcess:
    """An exec as a process with three pipes (`load_process.Running`)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self.pid = 0
        self.stdin = _Stdin(writer)
        self.stdout = asyncio.StreamReader(limit=LINE_BYTES)
        self.stderr = asyncio.StreamReader()
        self.returncode: int | None = None
        self._host = host
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader), name="load exec")

    @classmethod
    async def start(cls, started: Exec, host: str) -> ExecProcess:
        """Start it; raises StackUnavailable."""
        reader, writer = await started.start(f"the load's container on {host}")
        return cls(reader, writer, host)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        complained = False
        try:
            async for stream, content in frames(reader):
                if stream == STDOUT:
                    self.stdout.feed_data(content)
                else:
                    complained = True
                    self.stderr.feed_data(content)
        finally:
            if not complained and not self.stdin.closed:
                self.stderr.feed_data(f"the way to the host {self._host} was lost\n".encode())
            self.returncode = 0
            for pipe in (self.stdout, self.stderr):
                pipe.feed_eof()
            self._writer.close()

    async def wait(self) -> int:
        """0, when it has ended: the daemon does not say how."""
        await asyncio.wait({self._reading})
        return 0

    def kill(self) -> None:
        """Let go of it: it ends with its stdin."""
        self.stdin.closed = True
        self._reading.cancel()
        self._writer.close()


class _Stdin:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.closed = False

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self.closed = True
        with contextlib.suppress(OSError, RuntimeError):
            if self._writer.can_write_eof() and not self._writer.is_closing():
                self._writer.write_eof()
