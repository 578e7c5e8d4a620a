"""A world's stack as an experiment works with it, where a test says what servers and members answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from replexplorer.core.dialect.question import Row
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.server.node_view import Membership
from replexplorer.core.system import ASYNC, System
from replexplorer.core.topology import Role
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.experiment.stack_api import StackApi
from replexplorer.engine.session import Session
from replexplorer.ports import Sql
from tests.fakes.world import World

STATEMENT_S = 0.01

Answer = Callable[[str, str], Sequence[Row]]
"""A node's server's, to a statement."""


@dataclass
class FakeStatements:
    """`ports.Sql` of a test's own making."""

    node: str
    answer: Answer
    closed: bool = False

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """See `ports.Sql`."""
        await asyncio.sleep(STATEMENT_S)
        return self.answer(self.node, statement)

    async def close(self) -> None:
        """See `ports.Sql`."""
        self.closed = True


class FakeStack(StackApi):
    """`StackApi` of a session on a world, which it takes for a stack of another system."""

    def __init__(
        self,
        world: World,
        session: Session,
        system: System = ASYNC,
        *,
        members: Mapping[str, Membership] | None = None,
        answer: Answer | None = None,
    ) -> None:
        faults = Faults(session.controls)
        parts = session.load, session.driving, session.predictor, faults, session.roles
        super().__init__(session.controls, *parts, reapplies=True)
        self.world = world
        self.system = system
        self.members = dict(members or {})
        """What nodes say of their group; all of them take writes."""
        self.answer = answer
        """What servers answer on connections of an experiment's own; None: what the world's do."""
        self.sqls: list[FakeStatements] = []

    @property
    def seen(self) -> Snapshot:
        """See `StackApi`."""
        seen = super().seen
        nodes = [
            replace(node, role=Role.PRIMARY, member=self.members[node.name])
            if node.name in self.members
            else node
            for node in seen.nodes
        ]
        return replace(seen, system=self.system, nodes=nodes)

    def sql(self, node: str) -> Sql:
        """See `StackApi`."""
        if self.answer is None:
            return super().sql(node)
        self.sqls.append(FakeStatements(node, self.answer))
        return self.sqls[-1]


@asynccontextmanager
async def stack_of(
    system: System = ASYNC,
    kind: type[FakeStack] = FakeStack,
    *,
    replicas: int = 1,
    returns: bool = True,
    **answers: Any,
) -> AsyncIterator[Any]:
    """A stack of this system, and of this kind, that is afterwards as it was before if it `returns`."""
    world = World(replicas=replicas)
    async with world.attached("drill") as session:
        before = world.taken
        yield kind(world, session, system, **answers)
        assert not returns or world.taken == before
