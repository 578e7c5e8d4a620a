"""The guest from outside: its image, and one run of its scenario in a container without any privilege.

A run of the tests may begin the guest long before it looks at what it found: nothing in it is measured in
the host's time, so it takes what processor time the other tests leave.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
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
from tests.sidecar import DIRECTORY
from tests.waiting import patience

GUEST: Final = Path(__file__).parent
REPOSITORY: Final = "replexplorer/guest"
PARTS: Final = ("link", "change")
"""Of the scenario; each is a guest of its own, for one has one processor."""
DEADLINE_S: Final = 600
"""On an idle machine, where it takes about a minute on two cores."""
_RUN, _PART = f"{LABEL}run", f"{LABEL}part"
"""Labels of a guest."""
_LEAST_SHARES: Final = 2
"""Of a processor, beside other containers' usual ones: a guest that nobody waits for is in nobody's way."""
_USUAL_SHARES: Final = 1024
_UNAVAILABLE: Final = ("does not answer", "Unable to locate package")
"""What a build says where qemu or the kernel cannot be had."""

Fields = dict[str, Any]


class Unavailable(Exception):
    """This machine cannot have the guest, in one line."""


def quiet(text: str, done: float | None = None) -> None:
    """A report that nobody reads."""


def ensure() -> str:
    """The guest's image, built where it is missing; raises Unavailable.

    Its tag is a hash of what it is made of, as that of all our images.
    """
    with client() as daemon:
        architecture = daemon.version()["Arch"]
    if architecture != "amd64":
        raise Unavailable(f"the guest is an amd64 kernel, this machine is {architecture}")
    with building():
        sidecar = images.ensure([images.SIDECAR], DIRECTORY.parent, quiet)["sidecar"]
        base = images.find_base(quiet)
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
        labels={f"{LABEL}role": "guest", f"{LABEL}version": replexplorer.__version__},
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


def run_of_tests() -> str:
    """A name of this run of the tests, the same in all its processes."""
    return str(os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid())


def begin(image: str, run: str) -> None:
    """Start the parts of the scenario in the background of this run of the tests; nothing where they are
    started already."""
    with client() as daemon:
        for part in PARTS:
            _started(daemon, image, part, run, cpu_shares=_LEAST_SHARES)


def findings(image: str, run: str) -> dict[str, Fields]:
    """What the scenario finds, its parts at once, those that `begin` started included; by name.

    Raises AssertionError with what the guest's console says where a part breaks off.
    """
    with ThreadPoolExecutor(len(PARTS)) as pool:
        found = list(pool.map(lambda part: _found(image, part, run), PARTS))
    return {finding["finding"]: finding for part in found for finding in part}


def remove(run: str) -> None:
    """Take away what `begin` started and nobody looked at."""
    with client() as daemon:
        for container in daemon.containers(all=True, filters={"label": f"{_RUN}={run}"}):
            daemon.remove_container(container, force=True, v=True)


def _started(daemon: Any, image: str, part: str, run: str, *, cpu_shares: int) -> str:
    """The part's container, started with so much of a processor where it was not."""
    labels = {f"{LABEL}role": "guest", _RUN: run, _PART: part}
    with building("guest"):
        wanted = [f"{name}={value}" for name, value in labels.items()]
        if found := daemon.containers(all=True, filters={"label": wanted, "ancestor": image}):
            return str(found[0]["Id"])
        created: str = daemon.create_container(
            image,
            command=[part],
            labels=labels,
            host_config=daemon.create_host_config(
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges:true"],
                tmpfs={"/tmp": "size=256m"},
                cpu_shares=cpu_shares,
            ),
        )["Id"]
        daemon.start(created)
        return created


def _found(image: str, part: str, run: str) -> list[Fields]:
    with client() as daemon:
        container = _started(daemon, image, part, run, cpu_shares=_USUAL_SHARES)
        try:
            daemon.update_container(container, cpu_shares=_USUAL_SHARES)  # from now on it is waited for
            began_s = time.monotonic()
            while (
                daemon.inspect_container(container)["State"]["Running"]
                and time.monotonic() < began_s + DEADLINE_S * patience()
            ):
                time.sleep(0.25)
            told = daemon.logs(container, stderr=False).decode()
            console = daemon.logs(container, stdout=False).decode(errors="replace")
        finally:
            daemon.remove_container(container, force=True, v=True)
    found: list[Fields] = [json.loads(line) for line in told.splitlines()]
    broken = [finding["text"] for finding in found if finding["finding"].startswith("defect")]
    assert not broken, "\n".join([*broken, console[-2000:]])
    assert found, console[-2000:]
    assert found[-1]["finding"] == "end", f"{part} broke off after {found[-1]}: {console[-2000:]}"
    return found
