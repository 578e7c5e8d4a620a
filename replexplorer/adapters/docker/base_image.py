"""The base of our images: from a registry where one answers quickly, else made with mmdebstrap.

Everything after FROM is the same for both.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import selectors
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, Final

from replexplorer.adapters.docker.client import client, one_line
from replexplorer.core.errors import MissingPiece, ReplexplorerError
from replexplorer.formats.stack_file import LABEL
from replexplorer.ports import Report

if TYPE_CHECKING:
    from docker.api.client import APIClient

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


def find_base(report: Report) -> str:
    """A base image that is here now: the registry's, else our own; raises MissingPiece."""
    own = f"{OWN_BASE}:{hashlib.sha256(repr(_BOOTSTRAP).encode()).hexdigest()[:12]}"
    with client() as daemon:
        for name in (BASE, own):
            if image_id(daemon, name) is not None:
                return name
        report(f"asking the registry for {BASE}", None)
        reason = pull(daemon, BASE, report, silence_s=_REGISTRY_SILENCE_S, limit_s=_PULL_LIMIT_S)
    if reason is None:
        return BASE
    if shutil.which("mmdebstrap") is None:
        raise MissingPiece(
            f"no image registry answers ({reason}) and mmdebstrap is not installed",
            "apt-get install -y mmdebstrap",
        )
    report(f"no registry answers: {_MAKING}", None)
    _bootstrap(own, report)
    return own


def pull(
    daemon: APIClient,
    name: str,
    report: Report,
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
                    report(f"pulling {name}", None)
    except RequestException as error:
        return _short("timed out" if "timed out" in str(error) else one_line(error))
    return None if image_id(daemon, name) is not None else "the pull ended without an image"


def _short(text: str) -> str:
    return " ".join(text.split())[:160]


def _bootstrap(name: str, report: Report) -> None:
    """Make the base with mmdebstrap, streamed into the daemon, and tag it only when it is whole."""
    with client(timeout_s=BUILD_SILENCE_S) as daemon:
        status, answer, said = _stream_into(daemon, report)
        imported = re.search(r"sha256:[0-9a-f]{64}", answer)
        if status == 0 and imported is not None:
            repository, tag = name.split(":")
            daemon.tag(imported.group(), repository, tag)
            return
        if imported is not None:
            daemon.remove_image(imported.group(), force=True)
    raise failure("making the base image failed", [answer, *said.splitlines()], shlex.join(_BOOTSTRAP))


def _stream_into(daemon: Any, report: Report) -> tuple[int, str, str]:
    """Run mmdebstrap; its exit status, what the daemon answered and what mmdebstrap said."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(
            _BOOTSTRAP, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None  # noqa: S101 - PIPE was asked for
            try:
                answer = daemon.import_image_from_stream(
                    _blocks(process.stdout, report), changes=[f"LABEL {LABEL}role=base"]
                )
            except (DockerException, RequestException) as error:
                answer = one_line(error)
                process.terminate()
            except BaseException:
                process.terminate()
                raise
            finally:
                process.stdout.close()
                status = process.wait()
        log.seek(0)
        return status, str(answer), log.read().decode(errors="replace")


def _blocks(stream: IO[bytes], report: Report) -> Iterator[bytes]:
    """What mmdebstrap writes, with a report each half second, also while it writes nothing."""
    size = 0
    started = time.monotonic()
    with selectors.DefaultSelector() as waiting:
        waiting.register(stream, selectors.EVENT_READ)
        while True:
            while not waiting.select(0.5):
                report(f"{_MAKING}, {time.monotonic() - started:.0f} s", None)
            if not (block := os.read(stream.fileno(), 1 << 18)):
                return
            if size >> 24 != (size := size + len(block)) >> 24:
                report(f"{_MAKING}, {size >> 20} MB", None)
            yield block


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
    last = " ".join(errors[-1].split())[:200] if errors else "it said nothing"
    return MissingPiece(f"{what}: {last}", f"the whole output: {again}")


def image_id(daemon: Any, name: str) -> str | None:
    """The image's id; None when it is not here."""
    from docker.errors import ImageNotFound

    try:
        return str(daemon.inspect_image(name)["Id"])
    except ImageNotFound:
        return None
