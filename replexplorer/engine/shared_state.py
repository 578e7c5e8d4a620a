"""What the stack keeps for all apps, asked of whichever node's agent answers (`ports.Agent`).

Law: no node is special. What this app holds it takes again through another agent as soon as the bridge
that it was taken through ends; the agents keep its place until then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

from replexplorer.core import wire
from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.ports import Agent, Clock, SharedPlaces

_AGAIN_S: Final = 0.2
"""Between two rounds of asking all agents, while none answers."""

Answered = TypeVar("Answered")


class SharedState(SharedPlaces):
    """What one app holds of it, over the agents that there are at each call."""

    def __init__(self, agents: Callable[[], Sequence[Agent]], clock: Clock) -> None:
        self._agents = agents
        self._clock = clock
        self._agent: Agent | None = None
        """The one that answered last, asked first; while something is ours, the one that it was taken
        through, for no other can release it before that bridge has ended."""
        self._open: set[wire.Place] = set()
        """What was asked for and not released; a cancelled call may have got it."""
        self._held: dict[wire.Place, wire.Take] = {}
        """What is ours, and how it is taken again."""
        self._moving = asyncio.Lock()
        """Nothing is released while it is taken again."""
        self._following: asyncio.Task[None] | None = None

    async def ask(self, request: wire.Request[Answered]) -> Answered:
        """See `ports.SharedPlaces`; a document that is not written also means that an agent died of the write
        and another finds it done. Raises StackUnavailable when no agent answers."""
        match request:
            case wire.Take():
                return cast(Answered, await self._claim(request))
            case wire.Leave(place):
                return cast(Answered, await self._give(place))
        return await self._ask(request)

    async def close(self) -> None:
        """Give everything back; harmless twice."""
        for place in [*self._open]:
            await self._give(place)

    async def _ask(self, request: wire.Request[Answered]) -> Answered:
        """The answer of the first agent that has one; raises StackUnavailable when none has."""
        failure: StackUnavailable | None = None
        for agent in self._in_order():
            try:
                answer = await agent.ask(request)
            except StackUnavailable as error:
                failure = failure or error
                continue
            if not self._held:
                self._agent = agent
            return answer
        raise failure or StackUnavailable("no stack is attached", "run `replexplorer up`")

    def _in_order(self) -> list[Agent]:
        return sorted(self._agents(), key=lambda agent: agent is not self._agent)

    async def _claim(self, wish: wire.Take) -> wire.Held:
        self._open.add(wish.place)
        try:
            found = await self._ask(wish)
        except ReplexplorerError:
            self._open.discard(wish.place)
            raise
        if found.ours:
            self._held[wish.place] = replace(wish, within_s=0, anyway=True)
            if self._following is None or self._following.done():
                self._following = asyncio.create_task(self._stay(self._agent), name="keeper")
        else:
            self._open.discard(wish.place)
            self._held.pop(wish.place, None)
        return found

    async def _give(self, place: wire.Place) -> wire.Held:
        if place in self._open:
            async with self._moving:
                self._open.discard(place)
                self._held.pop(place, None)
                with contextlib.suppress(ReplexplorerError):  # nobody answers: it is lost with its bridge
                    await self._ask(wire.Leave(place))
            if not self._held and self._following is not None:
                following, self._following = self._following, None
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
        return wire.Held(None, ours=False)

    async def _stay(self, through: Agent | None) -> None:
        """Take what is ours again whenever the bridge ends that it was taken through."""
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
                        for place, wish in [*self._held.items()]:
                            if not (await agent.ask(wish)).ours:
                                self._held.pop(place, None)
                    self._agent = agent
                    return agent
            await self._clock.sleep(_AGAIN_S)
