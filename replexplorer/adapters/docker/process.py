"""A node's mysqld as Docker holds it: the first process of a container of its own.

The sidecar's container has the address and the volume, so what happens here happens to the process alone.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replexplorer.adapters.docker import snapshots
from replexplorer.adapters.docker.inventory import ROLE, STACK, Container, container
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.records import dataclass
from replexplorer.core.server.counters import CpuUsed

if TYPE_CHECKING:
    from replexplorer.adapters.docker.provider import DockerProvider

SHUTDOWN_S: Final = 60
"""What a server has until it is killed; a clean shutdown writes its dirty pages."""
_ENDED: Final = ("created", "exited", "dead")
_END_WITHIN_S: Final = 30
_ROLLS_BACK_WITHIN_S: Final = 120
_FREEZES: Final = 4
"""How often a container is asked to freeze: a busy machine may not get all of its threads to stand still in
the time that the runtime gives them ("unable to freeze"), and then none is frozen."""
_LOG_LINES: Final = 1000
_STORED_VIEW: Final = "/var/lib/replexplorer/data/mysql/gvwstate.dat"
_SERVER_USER: Final = "999:999"
"""Who the files belong to."""

T = TypeVar("T")


def _moment_s(text: str) -> float:
    """Seconds since 1970 of a moment as the daemon writes it."""
    return datetime.fromisoformat(text).timestamp()


def _freeze(client: Any, container: str) -> None:
    """Pause a container, on a busy machine by the second or third try."""
    from docker.errors import APIError

    for left in reversed(range(_FREEZES)):
        try:
            client.pause(container)
            return
        except APIError as error:
            if not left or "unable to freeze" not in str(error):
                raise


@dataclass(eq=False)
class ServerContainer:
    """`ports.ServerProcess` over one container, found again at each call: `up` may have made another."""

    _stack: DockerProvider
    _node: str

    async def _do(self, work: Callable[[Any, Container], T], *, alive: bool = False) -> T:
        """Do work with the daemon's client on the server's container; raises StackUnavailable where there is
        none, or where one that is to be `alive` has ended."""

        def run(client: Any) -> T:
            found = container(client, self._stack.name, self._node, "mysqld")
            if found is None:
                raise StackUnavailable(
                    f"{self._node} has no server", "run `replexplorer up` to make it again"
                )
            if alive and found.state in _ENDED:
                raise StackUnavailable(
                    f"the server of {self._node} has ended", "run `replexplorer up` to start it"
                )
            return work(client, found)

        return await self._stack.on(self._node, run)

    async def kill(self) -> None:
        """SIGKILL; see `ports.ServerProcess`."""

        def work(client: Any, found: Container) -> None:
            if found.state not in _ENDED:
                client.kill(found.id, signal="SIGKILL")
                client.wait(found.id, timeout=_END_WITHIN_S)

        await self._do(work)

    async def lose_unsynced(self, mode: str) -> tuple[str, ...]:
        """In a container of its own, as the server's user; see `ports.ServerProcess`."""

        def work(client: Any, found: Container) -> str:
            if found.state not in _ENDED:
                raise StackUnavailable(f"the server of {self._node} still runs", "kill it first")
            return self._roll_back(client, found, mode)

        done = json.loads(await self._do(work))
        return tuple(
            f"{Path(row['file']).name} {row['bytes']:,} byte{'' if row['bytes'] == 1 else 's'}"
            for row in done["files"]
        )

    def _roll_back(self, client: Any, server: Container, mode: str) -> str:
        """Run powercut.py of the sidecar's image on the server's volumes; answers what it printed."""
        sidecar = container(client, self._stack.name, self._node, "sidecar")
        if sidecar is None:
            raise StackUnavailable(f"{self._node} has no sidecar", "run `replexplorer up` to make it again")
        host = client.create_host_config(network_mode="none", cap_drop=["ALL"], volumes_from=[server.id])
        made = client.create_container(
            sidecar.image_id,
            entrypoint=["python3", "/opt/replexplorer/powercut.py", "--mode", mode],
            user=_SERVER_USER,
            host_config=host,
            labels={STACK: self._stack.name, ROLE: "powercut"},
        )
        try:
            client.start(made["Id"])
            code = client.wait(made["Id"], timeout=_ROLLS_BACK_WITHIN_S)["StatusCode"]
            if code != 0:
                why = client.logs(made["Id"], stdout=False).decode(errors="replace").strip()
                raise StackUnavailable(f"{self._node} cannot lose what was not fsynced: {why}", "")
            return str(client.logs(made["Id"], stderr=False).decode())
        finally:
            client.remove_container(made["Id"], force=True)

    async def stop(self) -> None:
        """SIGTERM and a minute; see `ports.ServerProcess`."""

        def work(client: Any, found: Container) -> None:
            if found.state == "paused":
                client.unpause(found.id)
            if found.state not in _ENDED:
                client.stop(found.id, timeout=SHUTDOWN_S)

        await self._do(work)

    async def pause(self) -> None:
        """Freeze it; see `ports.ServerProcess`."""
        await self._do(
            lambda client, found: None if found.state == "paused" else _freeze(client, found.id), alive=True
        )

    async def start(self) -> None:
        """Start it, or let it go on; see `ports.ServerProcess`."""

        def work(client: Any, found: Container) -> None:
            if found.state == "paused":
                client.unpause(found.id)
            elif found.state in _ENDED:
                if snapshots.under_way(client, self._stack.name):
                    raise StackUnavailable(
                        "the rows of a preset are being copied",
                        "run `replexplorer up` if that was interrupted",
                    )
                sidecar = container(client, self._stack.name, self._node, "sidecar")
                if sidecar is None or not sidecar.running:  # it has the server's network
                    raise StackUnavailable(
                        f"the sidecar of {self._node} is down", "run `replexplorer up` to start both"
                    )
                client.start(found.id)

        await self._do(work)

    async def log(self) -> Sequence[tuple[float, str]]:
        """As the daemon keeps it; see `ports.ServerProcess`."""

        def work(client: Any, found: Container) -> list[tuple[float, str]]:
            started_s = _moment_s(client.inspect_container(found.id)["State"]["StartedAt"])
            text = client.logs(found.id, timestamps=True, tail=_LOG_LINES).decode(errors="replace")
            lines = (line.partition(" ") for line in text.splitlines() if " " in line)
            told = [(_moment_s(at), line) for at, _, line in lines]
            return [(at_s, line) for at_s, line in told if at_s >= started_s]

        return await self._do(work)

    async def stored_view(self) -> int | None:
        """Of `view_id: TYPE UUID NUMBER` in gvwstate.dat, which no server has to run for; see
        `ports.ServerProcess`."""

        def work(client: Any, found: Container) -> int | None:
            from docker.errors import NotFound

            try:
                chunks, _ = client.get_archive(found.id, _STORED_VIEW)
            except NotFound:
                return None
            with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
                file = archive.extractfile(Path(_STORED_VIEW).name)
                written = re.search(rb"^view_id: \d+ \S+ (\d+)$", file.read() if file else b"", re.MULTILINE)
            return int(written[1]) if written else None

        return await self._do(work)

    async def cpu(self) -> CpuUsed | None:
        """As the container's control group counts; see `ports.ServerProcess`."""

        def work(client: Any, found: Container) -> CpuUsed | None:
            started = client.inspect_container(found.id)["State"]["StartedAt"]
            stats = client.stats(found.id, stream=False, one_shot=True)
            total_ns = stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage")
            # 0 where the daemon has no CPU controller
            return CpuUsed(f"{found.id} {started}", total_ns / 1e9) if total_ns else None

        return await self._do(work, alive=True)
