"""What Docker hosts have left, and what stacks take there."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from replexplorer.adapters.aio import aio
from replexplorer.adapters.docker.client import connect, spoken
from replexplorer.adapters.docker.inventory import STACK
from replexplorer.adapters.docker.placement import address_of
from replexplorer.core.classroom import Room
from replexplorer.core.errors import StackUnavailable


def room_on(host: str) -> Room:
    """What a Docker host (empty: this machine) has left.

    Of one elsewhere only its whole memory is known, less what containers of this program take; not its disk.
    Raises MissingPiece where its daemon does not answer, StackUnavailable for a host elsewhere that is no
    manager of its swarm: a stack that is on it alone makes its network through it.
    """
    with closing(_connected(host)) as client, spoken():
        info = client.info()
        if not host:
            free = _available_bytes()
            root = Path(info["DockerRootDir"])
            disk = shutil.disk_usage(root).free if root.is_dir() else None
            has = aio()
            memory = int(info["MemTotal"]) if free is None else free
            return Room(memory, disk, None if has is None else has.left)
        if not info.get("Swarm", {}).get("ControlAvailable"):
            raise StackUnavailable(
                f"the host {host} is no manager of a swarm, so that no stack can be on it alone",
                "`docker node promote` it on a manager; `docker swarm init` where it is in no swarm",
            )
        return Room(int(info["MemTotal"]) - sum(_by_stack(client, None).values()), None)


def memory_by_stack(host: str, stacks: Collection[str]) -> dict[str, int]:
    """Bytes of memory of each of these stacks on a host (empty: this machine), page cache not counted."""
    with closing(_connected(host)) as client, spoken():
        return _by_stack(client, stacks)


def _connected(host: str) -> Any:
    return connect(address_of(host) if host else None)


def _by_stack(client: Any, stacks: Collection[str] | None) -> dict[str, int]:
    found = [
        each
        for each in client.containers(filters={"label": STACK})
        if stacks is None or each["Labels"][STACK] in stacks
    ]
    with ThreadPoolExecutor(8) as pool:
        sizes: Iterable[int] = pool.map(lambda each: _used(client, each["Id"]), found)
        total: dict[str, int] = {}
        for each, size in zip(found, sizes, strict=True):
            stack = each["Labels"][STACK]
            total[stack] = total.get(stack, 0) + size
    return total


def _used(client: Any, container: str) -> int:
    """As `docker stats` reckons it: without the inactive part of the page cache; 0 of one that has gone."""
    from docker.errors import APIError

    try:
        memory = client.stats(container, stream=False, one_shot=True).get("memory_stats") or {}
    except APIError:
        return 0
    inner = memory.get("stats") or {}
    return int(memory.get("usage", 0)) - int(inner.get("inactive_file", inner.get("total_inactive_file", 0)))


def _available_bytes() -> int | None:
    """Memory that programs may still take on this machine; None where the kernel does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None
