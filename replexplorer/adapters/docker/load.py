"""The load of a stack on several hosts: it runs on the host of the source, in a container beside it.

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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from replexplorer.adapters.client_logs import FileClientLogs
from replexplorer.adapters.docker.client import archive
from replexplorer.adapters.docker.execs import STDOUT, Exec, end_input, frames
from replexplorer.adapters.docker.images import BUILT_WITH, digest, image_id
from replexplorer.adapters.docker.inventory import HOST, ROLE, STACK
from replexplorer.adapters.load_group import LoadGroup
from replexplorer.adapters.load_process import LINE_BYTES, LoadChild
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.load.interval import Interval
from replexplorer.core.loss.client_log import RunLog, at_another_clock
from replexplorer.formats.files import read_bytes, whole_binary_file
from replexplorer.formats.stack_file import LABEL
from replexplorer.ports import LoadSettings, LoadTarget, Report

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
"""Packages of this program that a load process imports, with the modules beside them."""
_FETCH_WITHIN_S: Final = 180
_SAID: Final = 160
"""Characters of what a program said that an error line has."""
_NOTE_BYTES: Final = 4096
_US_PER_S: Final = 1_000_000


def _sidecar_on(client: Any, stack: str, host: str) -> Mapping[str, Any]:
    found = client.containers(filters={"label": [f"{STACK}={stack}", f"{ROLE}=sidecar"]})
    if not found:
        raise StackUnavailable(f"no sidecar runs on {host}", "replexplorer up")
    sidecar: Mapping[str, Any] = found[0]
    return sidecar


def _requirements() -> list[str]:
    """The driver as it is here."""
    return [f"{name}=={version(name)}" for name in _DRIVER]


def program() -> Iterator[tuple[str, bytes]]:
    """What of this program a load process needs: files by name."""
    package = Path(str(files("replexplorer")))
    for file in sorted(file for file in package.rglob("*") if file.suffix in (".py", ".toml")):
        inside = file.relative_to(package)
        is_docker = inside.parts[:2] == ("adapters", "docker")
        if (len(inside.parts) == 1 or inside.parts[0] in _WANTED) and not is_docker:
            yield f"replexplorer/{inside.as_posix()}", file.read_bytes()


def _image_for(sidecar: str) -> str:
    """The load's image for this version of the program, on this image of the sidecar: its tag is a hash of
    what it is made of."""
    of = (" ".join((sidecar, *_requirements())), b"")
    return f"{_REPOSITORY}:{digest([of, *program()])}"


def ensure_image(client: Any, stack: str, host: str, report: Report) -> str:
    """Have the load's image on a host that runs a sidecar; answers its name. Raises MissingPiece when the
    driver cannot be had."""
    sidecar = str(_sidecar_on(client, stack, host)["ImageID"])
    name = _image_for(sidecar)
    if image_id(client, name) is not None:
        return name
    python = python_of(client.inspect_image(sidecar))
    report(f"fetching the load's MySQL driver for Python {python}", None)
    with tempfile.TemporaryDirectory() as directory:
        _fetch(python, str(client.info()["Architecture"]), directory)
        found = sorted(file for file in Path(directory).rglob("*") if file.is_file())
        driver = [(file.relative_to(directory).as_posix(), file.read_bytes()) for file in found]
    dockerfile = ("Dockerfile", f"FROM {sidecar}\nCOPY load {_PLACE}\n".encode())
    content = archive([dockerfile, *((f"load/{file}", text) for file, text in (*program(), *driver))])
    report(f"building {name}", None)
    labels = {ROLE: LOAD, f"{LABEL}version": version("replexplorer")}
    options = {"fileobj": io.BytesIO(content), "custom_context": True, "tag": name, "labels": labels}
    for event in client.build(rm=True, forcerm=True, decode=True, **options):
        if "error" in event:
            raise MissingPiece(f"building {name} failed", str(event["error"])[:_SAID])
    return name


def python_of(image: Mapping[str, Any]) -> str:
    """`3.14`, of an image whose label says with which packages it was made."""
    found = re.search(r"python3 (\d+\.\d+)\.", str((image["Config"].get("Labels") or {}).get(BUILT_WITH, "")))
    if found is None:
        raise MissingPiece("the sidecar's image does not say which Python it has", "`down`, then `up`")
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


@dataclass(frozen=True, slots=True)
class LoadHost:
    """The container that a host's load processes run in."""

    host: str
    container: str
    cores: int
    """Of the host."""

    @classmethod
    def ready(cls, client: Any, stack: str, host: str, report: Report) -> LoadHost:
        """Have it; raises StackUnavailable where no sidecar is there, or the image is of another version of
        this program."""
        sidecar = _sidecar_on(client, stack, host)
        name, cores = _image_for(str(sidecar["ImageID"])), int(client.info()["NCPU"])
        made_of = image_id(client, name)
        if made_of is None:
            raise StackUnavailable(
                f"{host} has no {name}, in which this version's load runs",
                f"`replexplorer up --stack {stack}` builds it",
            )
        for found in client.containers(all=True, filters=_load_of(stack)):
            if found["ImageID"] == made_of and found["State"] == "running":
                return cls(host, str(found["Id"]), cores)
            client.remove_container(found["Id"], force=True, v=True)
        report(f"preparing the load's container on {host}", None)
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
        return cls(host, str(made["Id"]), cores)

    def process(self, client: Any) -> Exec:
        """A load process that is not started yet."""
        return Exec.create(client, self.container, _COMMAND, environment={"PYTHONPATH": _PLACE})


def _load_of(stack: str) -> dict[str, list[str]]:
    return {"label": [f"{STACK}={stack}", f"{ROLE}={LOAD}"]}


def file_in(client: Any, stack: str, path: str) -> Exec:
    """What writes a file of the load's container to its output, also of one that ended with its host; raises
    StackUnavailable where there is no such container."""
    found = client.containers(all=True, filters=_load_of(stack))
    if not found:
        raise StackUnavailable(f"the load's container of stack {stack} is gone", "start the load again")
    if found[0]["State"] != "running":
        client.start(found[0]["Id"])
    return Exec.create(client, found[0]["Id"], ("cat", "--", path))


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
        end_input(self._writer)


class HostedLoad:
    """A load on whichever host the source is; it can be started again after a stop."""

    def __init__(self, stack: DockerProvider, report: Report | None = None) -> None:
        self._stack = stack
        self._report = report
        self._host = ""
        self._settings: LoadSettings | None = None
        self._interval_s = 1.0
        self._groups: list[LoadGroup] = []
        """All that were started."""
        self._news = asyncio.Event()
        self._is_stopping = False

    async def spawn(self) -> None:
        """Nothing: on which host it will run is not known yet."""

    async def start(self, target: LoadTarget, settings: LoadSettings, *, interval_s: float) -> None:
        """See `ports.LoadProcess`."""
        if self._settings is not None:
            raise UsageError("the load runs already")
        self._is_stopping = False
        self._groups.clear()
        self._settings, self._interval_s = settings, interval_s
        try:
            await self._start_at(target, settings)
        except BaseException:
            await asyncio.shield(self.stop())
            raise

    async def _start_at(self, target: LoadTarget, settings: LoadSettings) -> None:
        stack = self._stack
        host = stack.host_at(target.host, await stack.nodes())
        place, clock = await asyncio.gather(stack.load_host(host, self._report), stack.clock(host))

        async def launch() -> ExecProcess:
            return await ExecProcess.start(await stack.at(host, place.process), host)

        def make(report: Report | None) -> LoadChild:
            told = stack.far_logs.told_at(host, clock.monotonic_s)
            return LoadChild(report, launch=launch, ahead_s=clock.monotonic_s, told=told)

        group = LoadGroup(self._report, make=make, host_cores=place.cores)
        self._host = host
        self._groups.append(group)
        self._news.set()
        await group.start(replace(target, path="direct"), settings, interval_s=self._interval_s)

    def _running(self) -> LoadGroup:
        if self._settings is None or not self._groups:
            raise UsageError("no load runs")
        return self._groups[-1]

    async def change(self, settings: LoadSettings) -> None:
        """See `ports.LoadProcess`."""
        await self._running().change(settings)
        self._settings = settings

    async def move(self, target: LoadTarget) -> None:
        """See `ports.LoadProcess`; to another host by new processes there."""
        group, settings = self._running(), self._settings
        host = self._stack.host_at(target.host, await self._stack.nodes())
        if host == self._host or settings is None:
            await group.move(replace(target, path="direct"))
            return
        await group.stop()
        await self._start_at(target, settings)

    async def drain(self) -> None:
        """See `ports.LoadProcess`."""
        await self._running().drain()

    async def intervals(self) -> AsyncIterator[Interval]:
        """See `ports.LoadProcess`; raises LoadEnded when a process, or its host, goes away."""
        at = 0
        while True:
            while at < len(self._groups):
                async for interval in self._groups[at].intervals():
                    yield interval
                at += 1
            if self._is_stopping:
                return
            self._news.clear()
            await self._news.wait()

    async def stop(self) -> None:
        """See `ports.LoadProcess`; harmless twice."""
        self._settings = None
        try:
            if self._groups:
                await self._groups[-1].stop()
        finally:
            self._is_stopping = True
            self._news.set()


Fetch = Callable[[str, str], AsyncIterator[bytes]]
"""What a file holds now, by its host and its path there, in pieces: nothing where there is none. Raises
StackUnavailable where the host does not answer."""


class FarClientLogs(FileClientLogs):
    """Client logs of a stack on several hosts: each is written on the disk beside its load process, so that
    an intent costs no way over the wire, and copied to this machine's directory when somebody reads it.

    Law: an account is whole or refused. Whose file is on a host that does not answer is known here, by a note
    beside the copies that is made before the process begins; times are put on this machine's clock.
    """

    def __init__(self, directory: Path, fetch: Fetch) -> None:
        super().__init__(directory)
        self._fetch = fetch

    def told_at(self, host: str, ahead_s: float) -> Callable[[LoadSettings], LoadSettings]:
        """Makes the settings that one process on a host is told: its client log is on the disk there."""
        logs = dict[str, tuple[str, int]]()

        def told(settings: LoadSettings) -> LoadSettings:
            run = settings.ledger
            if run is None:
                return settings
            if run not in logs:
                logs[run] = self.place(run, host, ahead_s)
            directory, number = logs[run]
            return replace(settings, ledger=directory, ledger_file=number)

        return told

    def place(self, run: str, host: str, ahead_s: float) -> tuple[str, int]:
        """Where a process on a host is to write the next file of a run: its directory there, its number.
        Raises MissingPiece."""
        content = json.dumps({"host": host, "ahead_s": ahead_s}).encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        for number in itertools.count():
            note = Path(run) / f"{number}.far"
            try:
                with os.fdopen(os.open(note, flags, 0o600), "wb") as stream:
                    stream.write(content)
            except FileExistsError:
                continue
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                raise MissingPiece(f"{note} cannot be written: {why}", "make room there") from None
            return f"{LOGS}/{Path(run).name}", number
        raise AssertionError("unreachable")

    async def read(self, run: str) -> RunLog:
        """See `ports.ClientLogs`; raises StackUnavailable naming a host that is away."""
        await asyncio.gather(*(self._bring(note) for note in _notes(Path(run))))
        return await super().read(run)

    async def _bring(self, note: Path) -> None:
        """Copy the file of a note as it is now."""
        try:
            noted = json.loads(read_bytes(note, _NOTE_BYTES))
            number, host, ahead_us = int(note.stem), str(noted["host"]), round(noted["ahead_s"] * _US_PER_S)
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageError(f"{note} does not say where a client log is", "reckon another run") from None
        rest = b""
        try:
            with whole_binary_file(note.with_suffix(".log"), mode=0o600) as copy:
                async for content in self._fetch(host, f"{LOGS}/{note.parent.name}/{number}.log"):
                    *lines, rest = (rest + content).split(b"\n")
                    copy.writelines(at_another_clock(line + b"\n", ahead_us) for line in lines)
                copy.write(rest)  # not finished yet
        except StackUnavailable as error:
            raise StackUnavailable(
                f"{error.message}; what clients of the load were told is kept there", error.hint
            ) from None


def _notes(run: Path) -> list[Path]:
    """The notes of a run's files that are on other hosts."""
    return sorted(run.glob("*.far"))
