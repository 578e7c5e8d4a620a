"""Copies of the data of a stack's servers, each in a volume, made and set back by a container of its own.

Laws: the container that sets data back is the record of that: it goes once every node has its copy, `up` lets
it finish, and until then no server starts. Data are replaced only when all copies lie next to them.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any, Final

import replexplorer
from replexplorer.adapters.docker import inventory
from replexplorer.adapters.docker.inventory import NODE, ROLE, STACK, VERSION
from replexplorer.core.errors import StackUnavailable

SAVED: Final = "saved"
"""The role of a volume with copies."""
_RESTORE: Final = "restore"
_SAVE: Final = "save"
_COPY: Final = f"{inventory.LABEL}copy"
"""On a container that saves or restores: its volume."""
_WITHIN_S: Final = 6 * 3600
_OWNERS: Final = ["CHOWN", "DAC_OVERRIDE", "FOWNER"]
_UNDONE: Final = 1
"""How a restore ends that has replaced nothing."""

_COPIES: Final = """
set -u
copies() {
    pids= failed=
    for node in $nodes; do cp -a --reflink=auto "$(from)" "$(to)" & pids="$pids $!"; done
    for pid in $pids; do wait "$pid" || failed=yes; done
    [ -z "$failed" ]
}
"""
_SCRIPTS: Final = {
    _SAVE: f"""{_COPIES}
from() {{ echo "/data/$node/mysql"; }}
to() {{ echo "/saved/$node"; }}
copies || exit 1
[ ! -e /tools/roles ] || cp -p /tools/roles /saved/roles || exit 1
sync
du -s -B1 /saved
""",
    _RESTORE: f"""{_COPIES}
from() {{ echo "/saved/$node"; }}
to() {{ echo "/data/$node/mysql.new"; }}
rm -rf /data/*/mysql.new
if ! copies; then
    rm -rf /data/*/mysql.new
    [ ! -e /saved/replacing ] && exit {_UNDONE}
    exit 2
fi
sync
set -e
: >/saved/replacing
for node in $nodes; do
    rm -rf "/data/$node/mysql"
    mv "/data/$node/mysql.new" "/data/$node/mysql"
done
if [ -e /saved/roles ]; then cp -p /saved/roles /tools/roles; else rm -f /tools/roles; fi
rm /saved/replacing
sync
""",
}


def save(client: Any, stack: str) -> tuple[str, int]:
    """Copy the data of all nodes, whose servers have ended, into a new volume; answers its name and bytes."""
    finish(client, stack)
    name = f"replexplorer-{stack}-{SAVED}-{uuid.uuid4().hex[:8]}"
    client.create_volume(name, labels=_labels(stack, SAVED))
    made = _make(client, stack, _SAVE, name)
    try:
        code, told = _run(client, made)
        if code != 0:
            raise StackUnavailable(f"the rows cannot be copied: {told}", "make room, then try again")
        return name, int(told.split()[0])
    except BaseException:
        client.remove_container(made, force=True)
        client.remove_volume(name, force=True)
        raise
    finally:
        _remove(client, made)


def restore(client: Any, stack: str, volume: str) -> None:
    """Give all nodes, whose servers have ended, their copies of this volume; raises StackUnavailable, having
    replaced nothing."""
    volumes = client.volumes(filters={"label": f"{STACK}={stack}"})["Volumes"] or ()
    if volume not in (each["Name"] for each in volumes):
        raise StackUnavailable(f"the volume {volume} is gone", "save the rows again")
    finish(client, stack)
    _finish(client, _make(client, stack, _RESTORE, volume))


def finish(client: Any, stack: str) -> None:
    """End what was under way when somebody was killed: a copy that was not finished goes, rows that were set
    back are set back to the end. Raises StackUnavailable where that cannot be."""
    for found in _found(client, stack):
        labels, began = found["Labels"], found["State"] != "created"
        if labels[ROLE] == _RESTORE and began:
            _finish(client, found["Id"], is_running=found["State"] == "running")
            continue
        client.remove_container(found["Id"], force=True)
        if labels[ROLE] == _SAVE:
            client.remove_volume(labels[_COPY], force=True)


def is_restoring(client: Any, stack: str) -> bool:
    """Whether rows of some nodes may not be those of the others."""
    return any(
        each["Labels"][ROLE] == _RESTORE and each["State"] != "created" for each in _found(client, stack)
    )


def keep(client: Any, stack: str, volumes: Collection[str]) -> None:
    """Remove all copies of the stack but those in these volumes."""
    filters = {"label": [f"{STACK}={stack}", f"{ROLE}={SAVED}"]}
    for found in client.volumes(filters=filters)["Volumes"] or ():
        if found["Name"] not in volumes:
            client.remove_volume(found["Name"], force=True)


def _labels(stack: str, role: str) -> dict[str, str]:
    return {STACK: stack, VERSION: replexplorer.__version__, ROLE: role}


def _found(client: Any, stack: str) -> list[Mapping[str, Any]]:
    """The containers that save or restore."""
    filters = {"label": [f"{STACK}={stack}", _COPY]}
    return list(client.containers(all=True, filters=filters))


def _make(client: Any, stack: str, role: str, volume: str) -> str:
    """A container of the sidecar's image with all data, the tools and the copies."""
    found = inventory.take(client, stack)
    labels = [(each["Name"], each.get("Labels") or {}) for each in found.volumes]
    data = {each[NODE]: name for name, each in labels if each.get(ROLE) == "data"}
    tools = next((name for name, each in labels if each.get(ROLE) == "tools"), None)
    sidecar = next((each for each in found.containers if each.role == "sidecar"), None)
    if sidecar is None or tools is None:
        raise StackUnavailable(f"stack {stack} is not whole", "run `replexplorer up`")
    binds = [f"{volume}:/saved", f"{tools}:/tools", *(f"{name}:/data/{node}" for node, name in data.items())]
    made = client.create_container(
        sidecar.image_id,
        entrypoint=["/bin/sh", "-c", f"nodes='{' '.join(data)}'\n{_SCRIPTS[role]}"],
        user="0:0",
        host_config=client.create_host_config(
            binds=binds, network_mode="none", cap_drop=["ALL"], cap_add=_OWNERS
        ),
        labels={**_labels(stack, role), _COPY: volume},
    )
    return str(made["Id"])


def _run(client: Any, made: str, *, is_running: bool = False) -> tuple[int, str]:
    """Run a container to its end; answers its exit code and what it said last."""
    if not is_running:
        client.start(made)
    code = client.wait(made, timeout=_WITHIN_S)["StatusCode"]
    said = client.logs(made, stdout=code == 0, stderr=code != 0, tail=1)
    return code, said.decode(errors="replace").strip()


def _finish(client: Any, made: str, *, is_running: bool = False) -> None:
    code, told = _run(client, made, is_running=is_running)
    if code not in (0, _UNDONE):
        raise StackUnavailable(
            f"only some nodes have the rows of the preset: {told}", "make room, then `replexplorer up`"
        )
    _remove(client, made)
    if code == _UNDONE:
        raise StackUnavailable(f"the rows were not set back, and are as before: {told}", "make room")


def _remove(client: Any, made: str) -> None:
    from docker.errors import NotFound

    try:
        client.remove_container(made, force=True)
    except NotFound:
        return
