"""What the stack keeps for all apps, asked of whichever node's agent answers (`ports.Agent`).

Law: no node is special. What this app holds it takes again through another agent as soon as the bridge
that it was taken through ends; the agents keep its place until then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.wire import Document, Experiment, Lease
from replexplorer.ports import Agent, Clock

_AGAIN_S: Final = 0.2
"""Between two rounds of asking all agents, while none answers."""
_LEASE, _TURN, _EXPERIMENT = "lease", "turn", "experiment"
_GIVE: Final[Mapping[str, Callable[[Agent], Awaitable[None]]]] = {
    _LEASE: lambda agent: agent.release_lease(),
    _TURN: lambda agent: agent.leave_turn(),
    _EXPERIMENT: lambda agent: agent.end_experiment(),
}

T = TypeVar("T")
_Take = Callable[[Agent], Awaitable[object | None]]
"""Takes something through an agent; answers who has it when it is not ours."""


class SharedState:
    """What one app holds of it, over the agents that there are at each call."""

    def __init__(self, agents: Callable[[], Sequence[Agent]], clock: Clock) -> None:
        self._agents = agents
        self._clock = clock
        self._agent: Agent | None = None
        """The one that answered last, asked first."""
        self._open: set[str] = set()
        """What was asked for and not released; a cancelled call may have got it."""
        self._held: dict[str, _Take] = {}
        """What is ours, and how it is taken again."""
        self._moving = asyncio.Lock()
        """Nothing is released while it is taken again."""
        self._following: asyncio.Task[None] | None = None

    async def document(self) -> Document:
        """See `ports.Agent`."""
        return await self._ask(lambda agent: agent.document())

    async def write_document(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """See `ports.Agent`; None also where an agent died of the write and another finds it done."""
        return await self._ask(lambda agent: agent.write_document(expect_version, content))

    async def take_lease(
        self,
        holder: str,
        *,
        beside: bool = False,
        load: Mapping[str, int | float | str] | None = None,
        selected: str | None = None,
    ) -> Lease | None:
        """See `ports.Agent`."""
        other = await self._take(_LEASE, lambda agent: agent.take_lease(holder, load=load, selected=selected))
        return None if beside else other

    async def lease(self) -> Lease | None:
        """See `ports.Agent`."""
        return await self._ask(lambda agent: agent.lease())

    async def release_lease(self) -> None:
        """See `ports.Agent`."""
        await self._give(_LEASE)

    async def take_turn(
        self, holder: str, *, within_s: float, anyway: bool = False
    ) -> Lease | Experiment | None:
        """See `ports.Agent`."""
        return await self._take(
            _TURN,
            lambda agent: agent.take_turn(holder, within_s=within_s, anyway=anyway),
            again=lambda agent: agent.take_turn(holder, within_s=0, anyway=True),
        )

    async def leave_turn(self) -> None:
        """See `ports.Agent`."""
        await self._give(_TURN)

    async def begin_experiment(self, kind: str, name: str, holder: str) -> Experiment | None:
        """See `ports.Agent`."""
        return await self._take(_EXPERIMENT, lambda agent: agent.begin_experiment(kind, name, holder))

    async def end_experiment(self) -> None:
        """See `ports.Agent`."""
        await self._give(_EXPERIMENT)

    async def close(self) -> None:
        """Give everything back; harmless twice."""
        for what in [*self._open]:
            await self._give(what)

    async def _ask(self, act: Callable[[Agent], Awaitable[T]]) -> T:
        """The answer of the first agent that has one; raises StackUnavailable when none has."""
        failure: StackUnavailable | None = None
        for agent in self._in_order():
            try:
                answer = await act(agent)
            except StackUnavailable as error:
                failure = failure or error
                continue
            if agent is not self._agent:
                self._agent = agent
                if self._held:
                    self._follow(None)
            return answer
        raise failure or StackUnavailable("no stack is attached", "replexplorer up")

    def _in_order(self) -> list[Agent]:
        return sorted(self._agents(), key=lambda agent: agent is not self._agent)

    async def _take(
        self, what: str, take: Callable[[Agent], Awaitable[T | None]], again: _Take | None = None
    ) -> T | None:
        self._open.add(what)
        try:
            other = await self._ask(take)
        except ReplexplorerError:
            self._open.discard(what)
            raise
        if other is None:
            self._held[what] = again or take
            if self._following is None or self._following.done():
                self._follow(self._agent)
        else:
            self._open.discard(what)
            self._held.pop(what, None)
        return other

    async def _give(self, what: str) -> None:
        if what not in self._open:
            return
        async with self._moving:
            self._open.discard(what)
            self._held.pop(what, None)
            with contextlib.suppress(ReplexplorerError):  # nobody answers: it is lost with its bridge
                await self._ask(_GIVE[what])
        if not self._held and self._following is not None:
            following, self._following = self._following, None
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _follow(self, through: Agent | None) -> None:
        """From now on what is ours was taken through this agent; None: take it again."""
        if self._following is not None:
            self._following.cancel()
        self._following = asyncio.create_task(self._stay(through), name="keeper")

    async def _stay(self, through: Agent | None) -> None:
        while self._held:
            if through is not None:
                await through.until_lost()
            through = await self._take_again(through)

    async def _take_again(self, lost: Agent | None) -> Agent:
        """Take what is ours through the first agent that answers, the lost one last; what another has by
        now is ours no more."""
        while True:
            for agent in sorted(self._in_order(), key=lambda agent: agent is lost):
                with contextlib.suppress(ReplexplorerError):
                    async with self._moving:
                        for what, take in [*self._held.items()]:
                            if await take(agent) is not None:
                                self._held.pop(what, None)
                    self._agent = agent
                    return agent
            await self._clock.sleep(_AGAIN_S)
