"""Taking a stack away: everything by label, killed and not waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from replexplorer.adapters.docker.inventory import NODE, STACK

_CONFLICTS: Final = (403, 409)
"""A network with endpoints, a volume in use: two `down` at once, from two users, see these for a moment."""
_GOING: Final = "is marked for removal"
"""What the daemon says, as a defect of its own (500), of a container that another `down` removes now."""
_HELD_S: Final = 10.0
_AGAIN_S: Final = 0.1


def remove_stack(client: Any, stack: str, *, networks: bool = True) -> int:
    """Remove containers, networks (if wanted) and volumes with this stack's label; answers how many went."""
    label = {"label": f"{STACK}={stack}"}
    count = _each(
        [item["Id"] for item in client.containers(all=True, filters=label)],
        lambda found: client.remove_container(found, force=True, v=True),
    )
    found = [item["Id"] for item in client.networks(filters=label)] if networks else []
    volumes = [item["Name"] for item in client.volumes(filters=label)["Volumes"] or ()]
    count += _each(found, lambda found: _remove_network(client, found))
    return count + _each(volumes, lambda found: client.remove_volume(found, force=True))


def remove_other_nodes(client: Any, stack: str, kept: Iterable[str]) -> None:
    """Remove the containers and volumes of this stack's nodes but for those that are to be kept."""
    label = {"label": [f"{STACK}={stack}", NODE]}
    among = set(kept)

    def others(items: Iterable[Any], key: str) -> list[str]:
        return [item[key] for item in items if item["Labels"][NODE] not in among]

    containers = others(client.containers(all=True, filters=label), "Id")
    _each(containers, lambda found: client.remove_container(found, force=True, v=True))
    volumes = others(client.volumes(filters=label)["Volumes"] or (), "Name")
    _each(volumes, lambda found: client.remove_volume(found, force=True))


def _remove_network(client: Any, network: str) -> None:
    """Remove a network, also when somebody has put a container of his own on it."""
    for container in client.inspect_network(network)["Containers"] or {}:
        client.disconnect_container_from_network(container, network, force=True)
    client.remove_network(network)


def _each(found: Iterable[str], remove: Callable[[str], object]) -> int:
    """Remove all at once; what is gone already, or is going, counts as gone, and what somebody else still
    holds, who takes it away as well, is tried again for a while."""
    from docker.errors import APIError, NotFound

    def one(name: str) -> None:
        ends_s = time.monotonic() + _HELD_S
        while True:
            try:
                remove(name)
            except NotFound:
                return
            except APIError as error:
                if "already in progress" in str(error):
                    return
                is_held = error.status_code in _CONFLICTS or _GOING in str(error)
                if not is_held or time.monotonic() > ends_s:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return

    names = list(found)
    with ThreadPoolExecutor(max(len(names), 1)) as pool:
        list(pool.map(one, names))
    return len(names)
