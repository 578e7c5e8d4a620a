"""The guest from outside: its image, and one run of its scenario in a container without any privilege."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import replexplorer
from replexplorer.adapters.docker import images
from replexplorer.adapters.docker.client import client
from replexplorer.adapters.docker.inventory import LABEL
from tests.building import building
from tests.guest.scenario import PARTS
from tests.sidecar import DIRECTORY
from tests.waiting import patience

GUEST: Final = Path(__file__).parent
REPOSITORY: Final = "replexplorer/guest"
DEADLINE_S: Final = 600
"""On an idle machine, where it takes about a minute on two cores."""
_ROLE = {f"{LABEL}role": "guest"}
_UNAVAILABLE: Final = ("does not answer", "Unable to locate package")
"""What a build says where qemu or the kernel cannot be had."""


class Unavailable(Exception):
    """This machine cannot have the guest, in one line."""


def ensure() -> str:
    """The guest's image, built where it is missing; raises Unavailable.

    Its tag is a hash of what it is made of, as that of all our images.
    """
    with client() as daemon:
        architecture = daemon.version()["Arch"]
    if architecture != "amd64":
        raise Unavailable(f"the guest is an amd64 kernel, this machine is {architecture}")
    with building():
        sidecar = images.ensure([images.SIDECAR], DIRECTORY.parent, lambda *_: None)["sidecar"]
        base = images.find_base(lambda *_: None)
    files = sorted(file for file in GUEST.iterdir() if file.is_file() and file.name != Path(__file__).name)
    context, digest = io.BytesIO(), hashlib.sha256(f"{sidecar}\0{base}\0".encode())
    with tarfile.open(fileobj=context, mode="w") as tar:
        for file in files:
            content = file.read_bytes()
            digest.update(f"{file.name}\0{len(content)}\0".encode() + content)
            member = tarfile.TarInfo(file.name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    name = f"{REPOSITORY}:{digest.hexdigest()[:12]}"
    with building("guest"), client(timeout_s=images.BUILD_SILENCE_S) as daemon:
        if images.image_id(daemon, name) is None:
            _build(daemon, name, context.getvalue(), {"BASE": base, "SIDECAR": sidecar})
    return name


def _build(daemon: Any, name: str, context: bytes, arguments: dict[str, str]) -> None:
    said: list[str] = []
    for event in daemon.build(
        fileobj=io.BytesIO(context),
        custom_context=True,
        tag=name,
        buildargs=arguments,
        labels={**_ROLE, f"{LABEL}version": replexplorer.__version__},
        rm=True,
        forcerm=True,
        decode=True,
    ):
        said += [line for line in event.get("stream", "").splitlines() if line.strip()]
        if "error" in event:
            failure = images.failure("building the guest failed", [*said, event["error"]], f"see {GUEST}")
            if any(words in f"{failure} {said}" for words in _UNAVAILABLE):
                raise Unavailable(str(failure))
            raise failure


def defects(image: str) -> dict[tuple[str, str], str | None]:
    """What each step of each part found wrong; the parts run at once, each as a guest of its own."""
    with ThreadPoolExecutor(len(PARTS)) as pool:
        said = pool.map(lambda part: _said(image, part), PARTS)
    return {
        (part, line["step"]): line["defect"]
        for part, lines in zip(PARTS, said, strict=True)
        for line in map(json.loads, lines)
    }


def _said(image: str, part: str) -> list[str]:
    """What a guest says; raises AssertionError with its console where it breaks off."""
    with client() as daemon:
        container = daemon.create_container(
            image,
            command=[part],
            labels=_ROLE,
            host_config=daemon.create_host_config(
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges:true"],
                tmpfs={"/tmp": "size=256m"},
            ),
        )["Id"]
        try:
            daemon.start(container)
            began_s = time.monotonic()
            while (
                daemon.inspect_container(container)["State"]["Running"]
                and time.monotonic() < began_s + DEADLINE_S * patience()
            ):
                time.sleep(0.25)
            lines: list[str] = daemon.logs(container, stderr=False).decode().splitlines()
            console = daemon.logs(container, stdout=False).decode(errors="replace")
        finally:
            daemon.remove_container(container, force=True, v=True)
    assert len(lines) == len(PARTS[part]), f"{part} broke off after {lines[-1:]}: {console[-2000:]}"
    return lines
