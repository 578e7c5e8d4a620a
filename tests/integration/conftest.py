"""Real servers for the tests of this directory: one stack a session, and stacks of a test's own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import asyncmy
import pytest

from replexplorer.adapters.docker import images
from replexplorer.adapters.docker.client import connect
from replexplorer.adapters.docker.inventory import take
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.cli.wiring import outside_of
from replexplorer.core.errors import MissingPiece
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.formats.paths import shipped
from replexplorer.ports import Credentials, NodeAddress, UpOptions
from tests import dealing
from tests.building import building
from tests.waiting import until

PREFIX = f"test-{os.getpid()}"
"""What the names of this session's stacks begin with."""
READY_S = 60.0
"""How long servers may take on a machine that does other work."""
_FIRST = (
    "test_netem_guest", "test_each_experiment", "test_group", "test_golden", "test_stack", "test_galera",
    "test_labs", "test_images", "test_cli", "test_role_changes", "test_load", "test_conformance",
    "test_faults", "test_terminal", "test_journeys", "test_browser", "test_sweep", "test_anatomy",
    "test_attach", "test_ledger", "test_exposure", "test_mariadb", "test_disk", "test_drills",
)  # fmt: skip
"""The files that take longest, about in that order: begun late, one of them would run alone at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs real servers stays together by file: a process of the tests makes one stack for all that
    it runs, and what a file's own fixture has built serves the whole file.

    It comes first, the longest files at the front.
    """
    for item in items:
        if item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    if not item.get_closest_marker("docker"):
        return len(_FIRST) + 1
    name = item.path.stem
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


@dataclass
class LiveStack:
    """A stack that runs, with its servers answering."""

    stack: DockerProvider
    credentials: Credentials

    async def node(self, name: str) -> NodeAddress:
        """The node as it is now."""
        return next(node for node in await self.stack.nodes() if node.name == name)

    @asynccontextmanager
    async def session(self, name: str, *, dsn: bool = False) -> AsyncIterator[Any]:
        """A cursor on a node, of the control account or of the one that `dsn` hands out."""
        node = await self.node(name)
        user, password = self.credentials.control_user, self.credentials.control_password
        if dsn:
            user, password = self.credentials.dsn_user, self.credentials.dsn_password
        connection = await asyncmy.connect(
            host="127.0.0.1", port=node.published_port, user=user, password=password, autocommit=True
        )
        try:
            async with connection.cursor() as cursor:
                yield cursor
        finally:
            connection.close()

    async def value(self, name: str, statement: str, *, dsn: bool = False) -> Any:
        """The first column of the first row; None without a row."""
        async with self.session(name, dsn=dsn) as cursor:
            await cursor.execute(statement)
            row = await cursor.fetchone()
        return row[0] if row else None

    async def replicates(self, replica: str) -> bool:
        """Both threads of the replica run."""
        threads = (
            "SELECT (SELECT service_state FROM performance_schema.replication_connection_status) = 'ON'"
            " AND (SELECT service_state FROM performance_schema.replication_applier_status) = 'ON'"
        )
        return bool(await self.value(replica, threads))

    async def ready(self) -> None:
        """Wait until every node answers and every replica replicates."""
        source, *replicas = await self.stack.nodes()
        await until(partial(self.value, source.name, "SELECT 1"), within_s=READY_S)
        for node in replicas:
            await until(partial(self.replicates, node.name), within_s=READY_S)


@pytest.fixture(scope="session")
def docker_client() -> Iterator[Any]:
    """The SDK's low-level client, with our images built; skips the test where no daemon answers."""
    dealing.catch_up()
    try:
        client = connect()
    except MissingPiece as error:
        pytest.skip(str(error))
    with building():
        images.ensure([images.MYSQL, images.SIDECAR], shipped("compose"), lambda *_: None)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="session")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state directory of the session's own, also for programs that a test starts."""
    home = tmp_path_factory.mktemp("state")
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(home)
    try:
        yield home
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


@pytest.fixture(scope="session")
def live_stack(docker_client: Any, state_home: Path) -> Iterator[LiveStack]:
    """One primary and one replica, shared by the session: leave their settings as you found them."""
    with a_stack("shared") as live:
        yield live


@pytest.fixture
async def own_stack(docker_client: Any, state_home: Path) -> AsyncIterator[DockerProvider]:
    """A stack of the test's own, not up yet; taken down whatever happens."""
    stack = DockerProvider(f"{PREFIX}-own")
    try:
        yield stack
    finally:
        await take_down(stack)


@contextmanager
def a_stack(name: str, **options: Any) -> Iterator[LiveStack]:
    """A stack made as `up` makes it, with these of `UpOptions`; taken down at the end."""
    stack = DockerProvider(f"{PREFIX}-{name}")

    async def up() -> LiveStack:
        session = Session(outside_of(stack), SessionOptions(holder="up", up=UpOptions(**options)))
        await session.up(quiet)
        await session.disconnect()
        return LiveStack(stack, await stack.credentials())

    try:
        yield asyncio.run(up())
    finally:
        asyncio.run(take_down(stack))


def quiet(text: str, done: float | None = None) -> None:
    """A report that nobody reads."""


def ids(client: Any, stack: str) -> dict[tuple[str, str], str]:
    """A stack's containers by node and role."""
    return {(each.node, each.role): each.id for each in take(client, stack).containers}


async def bring_up(stack: DockerProvider, options: UpOptions) -> LiveStack:
    """Bring a stack up and wait for its servers."""
    await stack.up(options, quiet)
    live = LiveStack(stack, await stack.credentials())
    await live.ready()
    return live


async def take_down(stack: DockerProvider) -> None:
    """Remove the stack and let go of the daemon."""
    await stack.down()
    await stack.close()
