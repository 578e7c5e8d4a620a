"""Stacks as Docker objects: `ports.Provider` over the SDK.

Law: whatever is there is taken as found by label and mended; what a call began and could not
finish is taken down again. The SDK blocks, so every call runs in a thread.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replexplorer.adapters import client_logs, secrets
from replexplorer.adapters.docker import inventory
from replexplorer.adapters.docker.archive import one_file
from replexplorer.adapters.docker.bridge import BRIDGE_COMMAND, DockerBridge, Exec
from replexplorer.adapters.docker.client import client, connect, spoken
from replexplorer.adapters.docker.process import ServerContainer
from replexplorer.adapters.docker.removal import remove_other_nodes, remove_stack
from replexplorer.core.errors import MissingPiece, StackUnavailable, TakenAway, UsageError
from replexplorer.core.role_change import BootRoles
from replexplorer.core.topology import node_names
from replexplorer.formats import paths
from replexplorer.ports import (
    Ability,
    Bridge,
    ClientLogs,
    Credentials,
    HostView,
    LoadProcess,
    NodeAddress,
    Report,
    ServerProcess,
    UpOptions,
)

if TYPE_CHECKING:
    from replexplorer.adapters.agent import Witness
    from replexplorer.adapters.docker.build import Builder

ACCOUNTS_FILE: Final = "accounts"
"""The passwords' file in the stack's state directory."""

_TOOLS_IN_CONTAINER: Final = "/var/lib/replexplorer/tools"
_ACCOUNTS_IN_CONTAINER: Final = f"{_TOOLS_IN_CONTAINER}/secrets/accounts"
_ROLES_FILE: Final = "roles"

_TELL_EVERY_S: Final = 5.0

T = TypeVar("T")


class DockerProvider:
    """One stack of the local daemon; made without touching Docker."""

    def __init__(
        self,
        name: str,
        *,
        subnet: str | None = None,
        compose: Path | None = None,
        slow: Callable[[str], None] | None = None,
    ) -> None:
        """`slow` hears every few seconds what a busy daemon is waited for."""
        self.name = name
        self.abilities = frozenset(Ability)
        self._slow = slow
        self._subnet = subnet
        self._compose = compose or paths.shipped("compose")
        self._client: Any = None
        self._client_lock = threading.Lock()

    @property
    def accounts_file(self) -> Path:
        """Where this host keeps the stack's passwords."""
        return paths.stack_directory(self.name) / ACCOUNTS_FILE

    async def nodes(self) -> Sequence[NodeAddress]:
        """The nodes in order; empty when there is no such stack. Raises StackUnavailable for a stack of an
        earlier version, whose nodes have other names."""
        return await self._call(self._nodes)

    def _nodes(self, client: Any) -> list[NodeAddress]:
        found = inventory.containers(client, self.name)
        inventory.refuse_other_names(self.name, found)
        return inventory.addresses(found)

    async def up(self, options: UpOptions, report: Report) -> bool:
        """Make or mend the stack; answers whether this call created it.

        Raises UsageError for another image or fewer replicas than a live stack has, MissingPiece
        for what the machine lacks, StackUnavailable when the passwords are lost. A cancel takes
        down what this call created, and leaves a stack that was there.
        """
        loop = asyncio.get_running_loop()
        cancelled = threading.Event()

        said = ""

        def report_from_thread(text: str, done: float | None) -> None:
            # Long work reports often, so this is where a cancel reaches it.
            nonlocal said
            if cancelled.is_set():
                raise StackUnavailable("interrupted while the stack came up", "try again")
            if text != said:
                said = text
                loop.call_soon_threadsafe(report, text, done)

        def work(client: Any) -> bool:
            from docker.errors import ImageNotFound, NotFound

            with self._lock(report_from_thread, cancelled):
                try:
                    return self._builder(client, report_from_thread, cancelled).up(options)
                except NotFound as error:
                    if isinstance(error, ImageNotFound):
                        raise
                    raise TakenAway(self.name) from None

        task = asyncio.ensure_future(self._call(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled.set()
            with suppress(Exception):
                await task
            raise

    def _builder(self, client: Any, report: Report, cancelled: threading.Event) -> Builder:
        from replexplorer.adapters.docker.build import Builder

        return Builder(client, self.name, self._compose, self.accounts_file, self._subnet, report, cancelled)

    async def outdated(self) -> str | None:
        """A stack keeps the sidecars it was made with, and with them the script that starts its servers."""

        if not await self._call(self._is_outdated):
            return None
        return (
            f"stack '{self.name}' was made by another version, whose sidecars and start script it keeps:"
            f" faults and changes of roles may fail; `replexplorer down --stack {self.name}`, then `up`,"
            " makes a new one"
        )

    def _is_outdated(self, client: Any) -> bool:
        from replexplorer.adapters.docker import images
        from replexplorer.adapters.docker.base_image import image_id

        now = images.reference(images.SIDECAR, self._compose)
        sidecars = [each for each in inventory.containers(client, self.name) if each.role == "sidecar"]
        return any(each.image != now and each.image_id != image_id(client, now) for each in sidecars)

    async def shrink(self, replicas: int) -> None:
        """Remove the replicas behind the first n, with their data."""

        def work(client: Any) -> None:
            with self._lock(lambda text, done: None, threading.Event()):
                self._keep_nodes(client, node_names(replicas))

        await self._call(work)

    def _keep_nodes(self, client: Any, kept: Sequence[str]) -> None:
        remove_other_nodes(client, self.name, kept)

    async def keep_roles(self, roles: BootRoles) -> None:
        """As a file on the tools volume, which start-mysqld reads at each start; it is put there by the
        daemon, so no container has to run."""
        await self._call(lambda client: self._keep_roles(client, roles.text))

    def _keep_roles(self, client: Any, text: str) -> None:
        sidecars = [each for each in inventory.containers(client, self.name) if each.role == "sidecar"]
        if not sidecars:
            raise StackUnavailable(f"no such stack: {self.name}", "replexplorer up")
        put_roles(client, sidecars[0].id, text)

    async def down(self, report: Report | None = None) -> int:
        """Remove all that carries this stack's label; answers how many things went."""
        loop = asyncio.get_running_loop()

        def say(text: str, done: float | None) -> None:
            if report is not None:
                loop.call_soon_threadsafe(report, text, done)

        def work(client: Any) -> int:
            with self._lock(say, threading.Event()):
                return self._remove(client)

        return await self._call(work)

    def _remove(self, client: Any) -> int:
        count = remove_stack(client, self.name)
        self._forget()
        return count

    def _forget(self) -> None:
        """Remove what this machine keeps of the stack."""
        secrets.forget(self.accounts_file)
        client_logs.forget(paths.ledgers_directory(self.name))

    async def hosts(self) -> Sequence[HostView]:
        """None is named: all of it is on this machine."""
        return ()

    async def credentials(self) -> Credentials:
        """The stack's accounts.

        A stack that the Compose tool made keeps its passwords itself: the daemon hands them out.
        Raises StackUnavailable when there is no stack, or its passwords are lost.
        """
        return await self._call(self._credentials)

    async def server_age_s(self, node: str) -> float | None:
        """How long ago that node's server was started, or made if it never was; None where it has ended."""
        return await self._call_at(node, lambda client: inventory.server_age_s(client, self.name, node))

    def server_process(self, node: str) -> ServerProcess:
        """The container that the node's mysqld is the first process of."""
        return ServerContainer(partial(self._call_at, node), self.name, node)

    def server_log(self, node: str) -> str:
        """Docker's own command for it, by label: a container may have any name."""
        labels = f"--filter label={inventory.STACK}={self.name} --filter label={inventory.NODE}={node}"
        return f"docker logs $(docker ps -aq {labels} --filter label={inventory.ROLE}=mysqld)"

    async def open_bridge(self, node: str) -> Bridge:
        """A long-lived exec into that node's sidecar; raises StackUnavailable when it is down."""
        return await DockerBridge.start(await self._in_sidecar(node, BRIDGE_COMMAND), node)

    async def _in_sidecar(self, node: str, command: Sequence[str]) -> Exec:
        def create(client: Any) -> Exec:
            for container in inventory.containers(client, self.name):
                if (container.node, container.role, container.running) == (node, "sidecar", True):
                    return Exec.create(client, container.id, command)
            raise StackUnavailable(f"the sidecar of {node} is down", "replexplorer up")

        return await self._call_at(node, create)

    async def dial(self, node: str) -> socket.socket:
        """A connection to a node's server that its address does not lead to; raises StackUnavailable: on
        this machine it leads there."""
        raise StackUnavailable(f"{node} is on this machine", "replexplorer up")

    @property
    def load(self) -> Callable[[Report], LoadProcess] | None:
        """What makes a load that runs where this stack needs it; None: on this machine."""
        return None

    @property
    def witness(self) -> Witness | None:
        """What hears what the stack's agents say is requested; None: nobody, on one host."""
        return None

    async def keep_on(self, host: str) -> None:
        """Let a host keep what is requested; raises UsageError: this stack is on one machine."""
        raise UsageError(f"--keep-on {host}: stack {self.name} is not on several hosts", "leave it out")

    @cached_property
    def client_logs(self) -> ClientLogs:
        """Where the clients of its `ledger` loads note what they do: on this machine."""
        return client_logs.FileClientLogs(paths.ledgers_directory(self.name))

    async def close(self) -> None:
        """Close the connections to the daemon; a later call opens them again."""
        with self._client_lock:
            client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(client.close)

    def _credentials(self, client: Any) -> Credentials:
        found = inventory.take(client, self.name)
        if not found.containers:
            raise StackUnavailable(f"no such stack: {self.name}", "replexplorer up")
        origin = found.identity
        accounts = secrets.read(self.accounts_file)
        if accounts is not None and accounts.origin == origin:
            return accounts.credentials()
        sidecar = next((one for one in found.containers if one.role == "sidecar" and one.by_compose), None)
        if sidecar is not None:
            stream, _ = client.get_archive(sidecar.id, _ACCOUNTS_IN_CONTAINER)
            if (accounts := secrets.from_archive(b"".join(stream), origin)) is not None:
                secrets.write(self.accounts_file, accounts)
                return accounts.credentials()
        raise StackUnavailable(
            f"stack {self.name} found, cannot log in: its passwords are lost or another user's",
            f"replexplorer down --stack {self.name}",
        )

    async def _call_at(self, node: str, work: Callable[[Any], T]) -> T:
        """Do work with the client of the daemon that a node is on."""
        return await self._call(work)

    async def _call(self, work: Callable[[Any], T]) -> T:
        def run() -> T:
            with spoken():
                return work(self._connected())

        task = asyncio.create_task(asyncio.to_thread(run))
        try:
            while not (await asyncio.wait({task}, timeout=_TELL_EVERY_S))[0]:
                self._tell_slow()
        finally:
            task.cancel()
        return task.result()

    def _tell_slow(self) -> None:
        """Say what a busy daemon is waited for."""
        waiting = getattr(self._client, "longest", lambda: None)()
        if self._slow is not None and waiting is not None and waiting[0] >= _TELL_EVERY_S - 1:
            self._slow(f"Docker is slow: waiting {waiting[0]:.0f} s for it {waiting[1]}")

    def _connected(self) -> Any:
        with self._client_lock:
            if self._client is None:
                self._client = connect()
            return self._client

    @contextmanager
    def _lock(self, report: Report, cancelled: threading.Event) -> Iterator[None]:
        """One `up` or `down` a stack at a time on this host."""
        file = paths.state_directory() / "stacks" / f".{self.name}.lock"
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            stream = os.fdopen(os.open(file, flags, 0o600), "w")
        except OSError as error:
            raise MissingPiece(f"cannot write {file}", error.strerror or str(error)) from None
        with stream:
            told = False
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not told:
                        report(f"another replexplorer works on stack {self.name}: waiting", None)
                        told = True
                    if cancelled.wait(0.1):
                        raise StackUnavailable("interrupted while waiting", "try again") from None
            yield


def put_roles(client: Any, sidecar: str, text: str) -> None:
    """Let what servers are when they start be this, by the tools volume of a sidecar."""
    client.put_archive(sidecar, _TOOLS_IN_CONTAINER, one_file(_ROLES_FILE, text))


async def stack_names() -> list[str]:
    """Every stack of which anything is there on this daemon."""

    def run() -> list[str]:
        with client() as daemon:
            return inventory.stack_names(daemon)

    return await asyncio.to_thread(run)
