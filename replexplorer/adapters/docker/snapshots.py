"""Copies of the data of a stack's servers, each in a volume, made and set back by a container of its own.

Laws: the container that sets data back is the record of that: `up` lets it finish, no server starts before,
and it stays until somebody has noted what it did. Data are replaced only when all copies lie next to them.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any, Final

from replexplorer.adapters.docker.inventory import LABEL, NODE, ROLE, STACK, take
from replexplorer.core.errors import StackUnavailable

_COPY: Final = f"{LABEL}copy"
"""On a container that works here: the volume of the copies."""
_SAVED, _SAVE, _RESTORE = "saved", "save", "restore"
"""Roles: of the volume, and of the containers."""
_MARK: Final = f"{LABEL}mark"
"""On a container that restores: which restore it is."""
_WITHIN_S: Final = 6 * 3600
_NOTHING_DONE: Final = 9

_SCRIPT: Final = """
set -u
each() {
    pids= failed=
    for data in /data/*; do "$1" "$data" "/saved/${data##*/}" & pids="$pids $!"; done
    for pid in $pids; do wait "$pid" || failed=yes; done
    [ -z "$failed" ]
}
save() { cp -a --reflink=auto "$1/mysql" "$2"; }
lay() { rm -rf "$1/mysql.new" && cp -a --reflink=auto "$2" "$1/mysql.new"; }
replace() { rm -rf "$1/mysql" && mv "$1/mysql.new" "$1/mysql"; }
roles() { rm -f "$2" && if [ -e "$1" ]; then cp -p "$1" "$2"; fi; }
if [ "$work" = save ]; then
    each save && roles /tools/roles /saved/.roles && sync && du -s -B1 /saved | cut -f1
elif each lay && sync && : >/saved/.replacing; then
    each replace && roles /saved/.roles /tools/roles && rm /saved/.replacing && sync
else
    rm -rf /data/*/mysql.new
    [ -e /saved/.replacing ] || exit 9
    exit 1
fi
"""


def save(client: Any, stack: str) -> tuple[str, int]:
    """Copy the data of all nodes, whose servers have ended, into a new volume; answers its name and bytes."""
    finish(client, stack)
    name = f"replexplorer-{stack}-{_SAVED}-{uuid.uuid4().hex[:8]}"
    client.create_volume(name, labels={STACK: stack, ROLE: _SAVED})
    try:
        made = _make(client, stack, _SAVE, name)
        size = int(_run(client, made))
        client.remove_container(made)
        return name, size
    except BaseException:
        finish(client, stack)
        client.remove_volume(name, force=True)
        raise


def restore(client: Any, stack: str, volume: str, mark: str) -> None:
    """Give all nodes, whose servers have ended, their copies of this volume."""
    finish(client, stack)
    client.inspect_volume(volume)  # else the daemon would make it
    _run(client, _make(client, stack, _RESTORE, volume, mark))


def finish(client: Any, stack: str) -> None:
    """End what was under way when somebody was killed: a copy that was being made goes, rows that were being
    set back are set back. Raises StackUnavailable where that cannot be."""
    for found in under_way(client, stack):
        if found["Labels"][ROLE] == _RESTORE and found["State"] != "created":
            _run(client, found["Id"])
            continue
        client.remove_container(found["Id"], force=True)
        if found["Labels"][ROLE] == _SAVE:
            client.remove_volume(found["Labels"][_COPY], force=True)


def was_restored(client: Any, stack: str, mark: str) -> bool:
    """Whether this restore has given all nodes their copies."""
    return any(_is_done(each) and each["Labels"].get(_MARK) == mark for each in _found(client, stack))


def keep(client: Any, stack: str, volumes: Collection[str]) -> None:
    """Remove all copies of the stack but those in these volumes, and what a restore has left."""
    for done in filter(_is_done, _found(client, stack)):
        client.remove_container(done["Id"], force=True)
    filters = {"label": [f"{STACK}={stack}", f"{ROLE}={_SAVED}"]}
    for found in client.volumes(filters=filters)["Volumes"] or ():
        if found["Name"] not in volumes:
            client.remove_volume(found["Name"], force=True)


def _is_done(container: Any) -> bool:
    return str(container["Status"]).startswith("Exited (0)")


def under_way(client: Any, stack: str) -> list[Any]:
    """What copies data now: a server that started meanwhile would change them, or have those of another
    moment than others."""
    return [each for each in _found(client, stack) if not _is_done(each)]


def _found(client: Any, stack: str) -> Any:
    """The containers that save or restore."""
    return client.containers(all=True, filters={"label": [f"{STACK}={stack}", _COPY]})


def _make(client: Any, stack: str, work: str, volume: str, mark: str = "") -> str:
    """A container of the sidecar's image with all data, the tools and the copies."""
    found = take(client, stack)
    binds = [f"{volume}:/saved"]
    for each in found.volumes:
        labels = each["Labels"]
        if labels[ROLE] in ("data", "tools"):
            binds.append(f"{each['Name']}:/{labels[ROLE]}/{labels.get(NODE, '')}")
    host = client.create_host_config(
        binds=binds, network_mode="none", cap_drop=["ALL"], cap_add=["CHOWN", "DAC_OVERRIDE", "FOWNER"]
    )
    made: str = client.create_container(
        next(each.image_id for each in found.containers if each.role == "sidecar"),
        entrypoint=["/bin/sh", "-c", _SCRIPT],
        environment={"work": work},
        user="0:0",
        host_config=host,
        labels={STACK: stack, ROLE: work, _COPY: volume, _MARK: mark},
    )["Id"]
    return made


def _run(client: Any, made: str) -> str:
    """Run a container to its end, and remove it where that is one; answers what it said last."""
    client.start(made)
    code = client.wait(made, timeout=_WITHIN_S)["StatusCode"]
    said: str = client.logs(made, tail=1).decode(errors="replace").strip()
    if code == 0:
        return said
    if code == _NOTHING_DONE:
        client.remove_container(made, force=True)
    what = "the rows are as before" if code == _NOTHING_DONE else "not all nodes have their copy"
    raise StackUnavailable(f"{what}: {said}", "make room, then `replexplorer up`")
