"""One way to the Docker daemon: connect, and say its failures in the product's words.

The SDK is imported at the first use: it costs more than everything else that a verb without a
daemon needs.
"""

from __future__ import annotations

import io
import os
import re
import socket
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from replexplorer.core.errors import MissingPiece, ReplexplorerError, UsageError

if TYPE_CHECKING:
    from docker.api.client import APIClient

CALL_TIMEOUT_S: Final = 120
"""How long a call may take: a busy daemon is slow, and creating a container copies the datadir into its
volume."""
KNOCK_TIMEOUT_S: Final = 3
"""How long a host elsewhere may take to accept a connection."""
PING_TIMEOUT_S: Final = 5
"""How long a daemon may take to answer its ping, the one call that no lock of its own holds up."""
_silent_until_s: dict[str, float] = {}
"""By address, until when a daemon that did not answer is not waited for again."""
_START_DOCKER: Final = "start it (`systemctl start docker` or Docker Desktop), then try again"


class NoDaemon(MissingPiece):
    """Nothing answers where a Docker daemon should."""


def connect(host: str | None = None, *, timeout_s: int = CALL_TIMEOUT_S) -> APIClient:
    """A client of the daemon at this address (`unix://...`, `tcp://...`), without one of the local daemon; it
    may be used from several threads.

    Raises MissingPiece: no daemon (NoDaemon), no permission on its socket, or, without an address, a remote
    host.
    """
    host = (host or _local_host()).removeprefix("http+")
    from docker.api.client import APIClient

    with spoken():
        if time.monotonic() < _silent_until_s.get(host, 0.0):
            raise TimeoutError("timed out")
        try:
            _ping(host)
        except TimeoutError:
            _silent_until_s[host] = time.monotonic() + PING_TIMEOUT_S
            raise
        return APIClient(base_url=host, version="auto", timeout=timeout_s)


@contextmanager
def client(*, timeout_s: int = CALL_TIMEOUT_S) -> Iterator[APIClient]:
    """A client for a few calls, whose failures are reported in the product's words."""
    with spoken(), closing(connect(timeout_s=timeout_s)) as opened:
        yield opened


def archive(files: Iterable[tuple[str, bytes]], *, mode: int = 0o644, user: int = 0) -> bytes:
    """A tar of these files by name, as the daemon takes them; everybody may read them, or this user alone."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = len(content), mode, user, user
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def _ping(host: str) -> None:
    """Ping once, wait for the first byte of any answer and hang up; raises TimeoutError. What accepts and
    never answers is noticed soon, and the SDK leaks its socket where the daemon's does not answer."""
    place = urlsplit(host)
    if place.scheme == "tcp":
        probe = socket.create_connection((place.hostname or "", place.port or 2375), KNOCK_TIMEOUT_S)
    else:
        probe = socket.socket(socket.AF_UNIX)
    with probe:
        probe.settimeout(PING_TIMEOUT_S)
        if place.scheme != "tcp":
            path = host.removeprefix("unix://")
            probe.connect(path if path.startswith("/") else f"/{path}")
        probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        probe.recv(1)


def _local_host() -> str:
    """Where the daemon listens: DOCKER_HOST, else the CLI's context, else the default socket; raises
    MissingPiece where it is on another machine."""
    host = os.environ.get("DOCKER_HOST", "").strip()
    if not host:
        from docker.constants import DEFAULT_UNIX_SOCKET
        from docker.context import ContextAPI
        from docker.errors import DockerException

        try:
            context = ContextAPI.get_current_context()
        except (DockerException, OSError, ValueError) as error:
            raise MissingPiece(
                f"the Docker context is broken: {one_line(error)}", "docker context ls"
            ) from None
        host = str((context and context.Host) or DEFAULT_UNIX_SOCKET)
    if not host.startswith(("unix://", "http+unix://")):
        raise MissingPiece(
            f"the Docker host {host} is remote, and a stack without --on is made on this machine",
            "unset DOCKER_HOST or choose a local context (`docker context use default`), or name it with"
            " `replexplorer up --on`",
        )
    return host


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


_FAILURES: Final = (
    (
        r"no space left on device",
        MissingPiece,
        "the disk of Docker is full",
        "free some space (`docker system df` shows what is used)",
    ),
    (
        r"permission denied.*sock|sock.*permission denied|PermissionError",
        MissingPiece,
        "no permission on Docker's socket",
        "join the docker group (`sudo usermod -aG docker $USER`, then log in again) or run as root",
    ),
    (r"FileNotFoundError|ConnectionRefusedError", NoDaemon, "Docker is not running", _START_DOCKER),
    (
        r"connection aborted|connection refused|error while fetching server api",
        NoDaemon,
        "Docker does not answer",
        _START_DOCKER,
    ),
    (
        r"timed out|timeout",
        NoDaemon,
        "Docker did not answer in time",
        "check its log, then try again: it is very busy or stuck",
    ),
    (
        r"invalid reference format",
        UsageError,
        "invalid image name ({text})",
        "use lower-case NAME:TAG, for example mysql:8.4",
    ),
    (
        r"non-overlapping ipv4|could not find an available.*pool",
        MissingPiece,
        "Docker has no free address pool",
        'set the config key subnet (subnet = "10.77.0.0/24"), or run `docker network prune`',
    ),
    (
        r"pool overlaps",
        MissingPiece,
        "the configured subnet overlaps another network",
        "set the config key subnet to a free network",
    ),
    (
        r"port is already allocated|address already in use",
        MissingPiece,
        "a port is in use: {text}",
        "free it, or let Docker choose (127.0.0.1::3306)",
    ),
    (r"", MissingPiece, "Docker refused: {text}", "look at the daemon's log, then try again"),
)
"""What an error's line or its `repr` have in them; the first that fits says what to raise."""


def explain(error: BaseException) -> ReplexplorerError:
    """The error for people behind one of the SDK's."""
    text = one_line(error)
    words = f"{text} {error!r}"  # which names the causes that requests wraps
    _, kind, message, hint = next(one for one in _FAILURES if re.search(one[0], words, re.IGNORECASE))
    host = " ".join(os.environ.get("DOCKER_HOST", "").split())
    if message == "Docker is not running" and host:
        hint = f"DOCKER_HOST is {host}: correct it, or start Docker there"
    return kind(message.format(text=text), hint)


def one_line(error: BaseException) -> str:
    """An error's text in one line, the daemon's own explanation where it gave one."""
    text = str(getattr(error, "explanation", None) or error)
    return " ".join(text.split())[:300]
