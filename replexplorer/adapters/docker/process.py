"""A node's mysqld as Docker holds it: the first process of a container of its own.

The sidecar's container has the address and the volume, so what happens here happens to the process alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from replexplorer.adapters.docker.inventory import Container, containers
from replexplorer.core.errors import StackUnavailable

SHUTDOWN_S: Final = 60
"""What a server has until it is killed; a clean shutdown writes its dirty pages."""
_ENDED: Final = ("created", "exited", "dead")
_END_WITHIN_S: Final = 30

Run = Callable[[Callable[[Any], None]], Awaitable[None]]
"""Does blocking work with the daemon's client, beside the loop."""


class ServerContainer:
    """`ports.ServerProcess` over one container, found again at each call: `up` may have made another."""

    def __init__(self, run: Run, stack: str, node: str) -> None:
        self._run = run
        self._stack = stack
        self._node = node

    async def kill(self) -> None:
        """SIGKILL; see `ports.ServerProcess`."""

        def work(client: Any) -> None:
            found = self._find(client)
            if found.state not in _ENDED:
                client.kill(found.id, signal="SIGKILL")
                client.wait(found.id, timeout=_END_WITHIN_S)

        await self._run(work)

    async def stop(self) -> None:
        """SIGTERM and a minute; see `ports.ServerProcess`."""

        def work(client: Any) -> None:
            found = self._find(client)
            if found.state == "paused":
                client.unpause(found.id)
            if found.state not in _ENDED:
                client.stop(found.id, timeout=SHUTDOWN_S)

        await self._run(work)

    async def pause(self) -> None:
        """Freeze it; see `ports.ServerProcess`."""

        def work(client: Any) -> None:
            found = self._alive(client)
            if found.state != "paused":
                client.pause(found.id)

        await self._run(work)

    async def resume(self) -> None:
        """Let it go on; see `ports.ServerProcess`."""

        def work(client: Any) -> None:
            found = self._alive(client)
            if found.state == "paused":
                client.unpause(found.id)

        await self._run(work)

    async def start(self) -> None:
        """Start it, or let it go on; see `ports.ServerProcess`."""

        def work(client: Any) -> None:
            found = self._find(client)
            if found.state == "paused":
                client.unpause(found.id)
            elif found.state in _ENDED:
                self._check_namespace(client)
                client.start(found.id)

        await self._run(work)

    def _find(self, client: Any) -> Container:
        for container in containers(client, self._stack):
            if (container.node, container.role) == (self._node, "mysqld"):
                return container
        raise StackUnavailable(f"{self._node} has no server", "`replexplorer up` makes it again")

    def _alive(self, client: Any) -> Container:
        found = self._find(client)
        if found.state in _ENDED:
            raise StackUnavailable(f"the server of {self._node} has ended", "`replexplorer up` starts it")
        return found

    def _check_namespace(self, client: Any) -> None:
        """Raise StackUnavailable while the node's sidecar, which has its network, does not run."""
        for container in containers(client, self._stack):
            if (container.node, container.role, container.running) == (self._node, "sidecar", True):
                return
        raise StackUnavailable(f"the sidecar of {self._node} is down", "`replexplorer up` starts both")
