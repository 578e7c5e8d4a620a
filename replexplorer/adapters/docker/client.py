"""One way to the Docker daemon: connect, and say its failures in the product's words.

The SDK is imported at the first use: it costs more than everything else that a verb without a
daemon needs.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from replexplorer.core.errors import MissingPiece, ReplexplorerError, UsageError

if TYPE_CHECKING:
    from docker.api.client import APIClient

CALL_TIMEOUT_S: Final = 30
"""How long a call may take that only looks; it is made again when the daemon is busy."""
CHANGE_TIMEOUT_S: Final = 120
"""How long one may take that changes something: creating a container copies the datadir into its volume."""
KNOCK_TIMEOUT_S: Final = 3
"""How long a host elsewhere may take to accept a connection."""
PING_TIMEOUT_S: Final = 5
"""How long a daemon may take to answer its ping, the one call that no lock of its own holds up."""
_silent_until_s: dict[str, float] = {}
"""By address, until when a daemon that did not answer is not waited for again."""
_LOOKS: Final = 3
"""How often a call that only looks is made until it is given up."""

_START_DOCKER: Final = "start it (`systemctl start docker` or Docker Desktop), then try again"


class NoDaemon(MissingPiece):
    """Nothing answers where a Docker daemon should."""


def connect(host: str | None = None, *, timeout_s: int = CALL_TIMEOUT_S) -> APIClient:
    """A client of the daemon at this address (`unix://...`, `tcp://...`), without one of the local daemon; it
    may be used from several threads.

    Raises MissingPiece: no daemon (NoDaemon), no permission on its socket, or, without an address, a remote
    host.
    """
    if host is None:
        host = _host()
        if not host.startswith(("unix://", "npipe://", "http+unix://")):
            raise MissingPiece(
                f"the Docker host {host} is remote, and a stack without --on is made on this machine",
                "unset DOCKER_HOST or choose a local context (`docker context use default`), or name it with"
                " `replexplorer up --on`",
            )
    from docker.api.client import APIClient

    with spoken():
        if time.monotonic() < _silent_until_s.get(host, 0.0):
            raise TimeoutError("timed out")
        try:
            _knock(host)
        except TimeoutError:
            _silent_until_s[host] = time.monotonic() + PING_TIMEOUT_S
            raise
        if timeout_s != CALL_TIMEOUT_S:
            return APIClient(base_url=host, version="auto", timeout=timeout_s)
        return _patient_client()(base_url=host, version="auto", timeout=timeout_s)


@functools.cache
def _patient_client() -> type[APIClient]:
    """A client that has patience with a busy daemon, and knows what it is waiting for."""
    from docker.api.client import APIClient
    from requests.exceptions import ReadTimeout

    class PatientClient(APIClient):
        """Looks again where an answer is late, and gives changes more time."""

        def __init__(self, **options: Any) -> None:
            self._under_way: dict[object, tuple[float, str]] = {}
            super().__init__(**options)

        def send(self, request: Any, **options: Any) -> Any:
            """One call, made again when it only looks."""
            looks = request.method in ("GET", "HEAD")
            if not looks and options.get("timeout") == CALL_TIMEOUT_S:
                options["timeout"] = CHANGE_TIMEOUT_S
            call = object()
            self._under_way[call] = (time.monotonic(), _words(request.method, str(request.path_url)))
            try:
                for _ in range(_LOOKS - 1 if looks else 0):
                    with contextlib.suppress(ReadTimeout):
                        return super().send(request, **options)
                return super().send(request, **options)
            finally:
                del self._under_way[call]

        def longest(self) -> tuple[float, str] | None:
            """How long the oldest call under way is waited for in seconds, and what for; None without one."""
            calls = list(self._under_way.values())
            if not calls:
                return None
            began_s, words = min(calls)
            return time.monotonic() - began_s, words

    return PatientClient


_WORDS: Final = (
    ("GET", "json", "to look at {things}"),
    ("GET", "", "to look at {things}"),
    ("POST", "create", "to make {things}"),
    ("POST", "start", "to start {things}"),
    ("DELETE", "", "to remove {things}"),
)


def _words(method: str, path: str) -> str:
    """What a call is for, in words: `to remove containers`."""
    parts = path.partition("?")[0].strip("/").split("/")
    things = next(
        (part for part in parts if part in ("containers", "networks", "volumes", "images")), "its answer"
    )
    last = parts[-1]
    for verb, ending, words in _WORDS:
        if method == verb and last.endswith(ending):
            return words.format(things=things)
    return f"to work on {things}"


@contextmanager
def client(*, timeout_s: int = CALL_TIMEOUT_S) -> Iterator[APIClient]:
    """A client for a few calls, whose failures are reported in the product's words."""
    with spoken(), closing(connect(timeout_s=timeout_s)) as opened:
        yield opened


def _knock(host: str) -> None:
    """Ping once and hang up: what accepts and never answers is noticed soon, and the SDK leaks its socket
    where the daemon's does not answer."""
    if host.startswith("tcp://"):
        place = urlsplit(host)
        address = (place.hostname or "", place.port or 2375)
        with socket.create_connection(address, KNOCK_TIMEOUT_S) as probe:
            _ping(probe)
        return
    path = host.removeprefix("http+").removeprefix("unix://")
    if path == host or not hasattr(socket, "AF_UNIX"):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PING_TIMEOUT_S)
        probe.connect(path if path.startswith("/") else f"/{path}")
        _ping(probe)


def _ping(probe: socket.socket) -> None:
    """Wait for the first byte of any answer; raises TimeoutError."""
    probe.settimeout(PING_TIMEOUT_S)
    probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
    probe.recv(1)


def _host() -> str:
    """Where the daemon listens: DOCKER_HOST, else the CLI's context, else the default socket."""
    if host := os.environ.get("DOCKER_HOST", "").strip():
        return host
    from docker.constants import DEFAULT_UNIX_SOCKET, IS_WINDOWS_PLATFORM
    from docker.context import ContextAPI
    from docker.errors import DockerException

    try:
        context = ContextAPI.get_current_context()
    except (DockerException, OSError, ValueError) as error:
        raise MissingPiece(f"the Docker context is broken: {one_line(error)}", "docker context ls") from None
    found = context.Host if context is not None else None
    default = "npipe:////./pipe/docker_engine" if IS_WINDOWS_PLATFORM else DEFAULT_UNIX_SOCKET
    return str(found or default)


@contextmanager
def spoken() -> Iterator[None]:
    """Turn what the SDK raises into MissingPiece (or leave our own errors as they are)."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except ReplexplorerError:
        raise
    except (DockerException, RequestException, OSError) as error:
        raise explain(error) from error


def explain(error: BaseException) -> ReplexplorerError:
    """The error for people behind one of the SDK's."""
    text = one_line(error)
    low = text.lower()
    causes = list(_causes(error))
    if "no space left on device" in low:
        return MissingPiece(
            "the disk of Docker is full", "free some space (`docker system df` shows what is used)"
        )
    if any(isinstance(cause, PermissionError) for cause in causes) or (
        "permission denied" in low and "sock" in low
    ):
        return MissingPiece(
            "no permission on Docker's socket",
            "join the docker group (`sudo usermod -aG docker $USER`, then log in again) or run as root",
        )
    if any(isinstance(cause, FileNotFoundError | ConnectionRefusedError) for cause in causes):
        host = " ".join(os.environ.get("DOCKER_HOST", "").split())
        hint = f"DOCKER_HOST is {host}: correct it, or start Docker there" if host else _START_DOCKER
        return NoDaemon("Docker is not running", hint)
    if "connection aborted" in low or "connection refused" in low or "error while fetching server api" in low:
        return NoDaemon("Docker does not answer", _START_DOCKER)
    if "timed out" in low or "timeout" in low:
        return NoDaemon(
            "Docker did not answer in time", "it is very busy, or stuck: look at its log, then try again"
        )
    if "invalid reference format" in low:
        return UsageError(f"no name of an image: {text}", "NAME:TAG in small letters, as mysql:8.4")
    if "non-overlapping ipv4" in low or ("could not find an available" in low and "pool" in low):
        return MissingPiece(
            "Docker has no free address pool",
            'set the config key subnet (subnet = "10.77.0.0/24"), or run `docker network prune`',
        )
    if "pool overlaps" in low:
        return MissingPiece(
            "the configured subnet overlaps another network", "set the config key subnet to a free network"
        )
    if "port is already allocated" in low or "address already in use" in low:
        return MissingPiece(f"a port is in use: {text}", "free it, or let Docker choose (127.0.0.1::3306)")
    return MissingPiece(f"Docker refused: {text}", "look at the daemon's log, then try again")


def one_line(error: BaseException) -> str:
    """An error's text in one line, the daemon's own explanation where it gave one."""
    text = str(getattr(error, "explanation", None) or error)
    return " ".join(text.split())[:300]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and what its arguments carry (requests nests them there)."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        found = waiting.pop()
        if isinstance(found, BaseException) and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [found.__cause__, found.__context__, getattr(found, "reason", None), *found.args]
