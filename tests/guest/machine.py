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
from replexplorer.adapters.docker import base_image, images
from replexplorer.adapters.docker.client import client
from replexplorer.formats.stack_file import LABEL
from tests.sidecar import DIRECTORY
from tests.waiting import patience

GUEST: Final = Path(__file__).parent
REPOSITORY: Final = "replexplorer/guest"
PARTS: Final = ("link", "change")
"""Of the scenario; each is a guest of its own, for one has one processor."""
DEADLINE_S: Final = 600
"""On an idle machine, where it takes about a minute on two cores."""
_UNAVAILABLE: Final = ("does not answer", "Unable to locate package")
"""What a build says where qemu or the kernel cannot be had."""

Fields = dict[str, Any]


class Unavailable(Exception):
    """This machine cannot have the guest, in one line."""


def quiet(text: str, done: float | None) -> None:
    """A report that nobody reads."""


def ensure() -> str:
    """The guest's image, built where it is missing; raises Unavailable.

    Its tag is a hash of what it is made of, as that of all our images.
    """
    with client() as daemon:
        architecture = daemon.version()["Arch"]
    if architecture != "amd64":
        raise Unavailable(f"the guest is an amd64 kernel, this machine is {architecture}")
    sidecar = images.ensure([images.SIDECAR], DIRECTORY.parent, quiet)["sidecar"]
    base = base_image.find_base(quiet)
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
    with client(timeout_s=base_image.BUILD_SILENCE_S) as daemon:
        if base_image.image_id(daemon, name) is None:
            _build(daemon, name, context.getvalue(), {"BASE": base, "SIDECAR": sidecar})
    return name


def _build(daemon: Any, name: str, context: bytes, arguments: dict[str, str]) -> None:
    said: list[str] = []
    for event in daemon.build(
        fileobj=io.BytesIO(context),
        custom_context=True,
        tag=name,
        buildargs=arguments,
        labels={f"{LABEL}role": "guest", f"{LABEL}version": replexplorer.__version__},
        rm=True,
        forcerm=True,
        decode=True,
    ):
        said += [line for line in event.get("stream", "").splitlines() if line.strip()]
        if "error" in event:
            failure = base_image.failure("building the guest failed", [*said, event["error"]], f"see {GUEST}")
            if any(words in f"{failure} {said}" for words in _UNAVAILABLE):
                raise Unavailable(str(failure))
            raise failure


def findings(image: str) -> dict[str, Fields]:
    """Run the scenario, its parts at once; the findings by name.

    Raises AssertionError with what the guest's console says where a part breaks off.
    """
    with ThreadPoolExecutor(len(PARTS)) as pool:
        found = list(pool.map(lambda part: _run(image, part), PARTS))
    return {finding["finding"]: finding for part in found for finding in part}


def _run(image: str, part: str) -> list[Fields]:
    with client() as daemon:
        created = daemon.create_container(
            image,
            command=[part],
            labels={f"{LABEL}role": "guest"},
            host_config=daemon.create_host_config(
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges:true"],
                tmpfs={"/tmp": "size=256m"},
            ),
        )
        try:
            daemon.start(created)
            began_s = time.monotonic()
            while (
                daemon.inspect_container(created)["State"]["Running"]
                and time.monotonic() < began_s + DEADLINE_S * patience()
            ):
                time.sleep(0.25)
            told = daemon.logs(created, stderr=False).decode()
            console = daemon.logs(created, stdout=False).decode(errors="replace")
        finally:
            daemon.remove_container(created, force=True, v=True)
    found: list[Fields] = [json.loads(line) for line in told.splitlines()]
    broken = [finding["text"] for finding in found if finding["finding"].startswith("defect")]
    assert not broken, "\n".join([*broken, console[-2000:]])
    assert found, console[-2000:]
    assert found[-1]["finding"] == "end", f"{part} broke off after {found[-1]}: {console[-2000:]}"
    return found
