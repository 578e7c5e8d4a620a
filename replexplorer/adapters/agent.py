"""The agent in a node's sidecar, over one bridge: requests with ids, answers in any order.

Law: a bridge whose stream is in doubt is dropped, never reused; a call that is cancelled leaves the
bridge as good as it was, because its line is written whole and its late answer belongs to nobody.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from replexplorer.core import wire
from replexplorer.core.errors import MissingPiece, ReplexplorerError, StackUnavailable, UsageError
from replexplorer.ports import Agent, Bridge

OPEN_DEADLINE_S = 10.0
"""For the exec and the greeting."""
REPAIR = "run `replexplorer up` to repair the stack"

OpenBridge = Callable[[str], Awaitable[Bridge]]
"""`Provider.open_bridge`."""
Answered = TypeVar("Answered")


class _BridgeLost(Exception):
    """The stream ended or cannot be trusted; in words."""


class _Connection:
    """One bridge and the calls under way on it."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._waiting: dict[int, asyncio.Future[wire.Answer]] = {}
        self._number = 0
        self.lost: str | None = None
        """Why it is of no use any more; None while it is."""
        self.ended = asyncio.Event()
        """Set when it is lost."""
        self._ending: asyncio.Task[None] | None = None
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        reason = "its agent disconnected"
        try:
            async for line in self._bridge.lines():
                self._take(line)
        except _BridgeLost as lost:
            reason = str(lost)
        except ValueError:
            reason = "its agent sent something other than answers"
        except ReplexplorerError as error:
            reason = error.message
        finally:
            self.lose(reason)

    def _take(self, line: str) -> None:
        answer = wire.read(wire.Answer, json.loads(line))
        if answer.id is not None:
            future = self._waiting.pop(answer.id, None)
            if future is not None and not future.done():
                future.set_result(answer)
        elif answer.error is not None:
            raise _BridgeLost(answer.error.message)

    def lose(self, reason: str) -> None:
        """Use it no more; what waits for an answer fails."""
        self.lost = self.lost or reason
        self.ended.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_BridgeLost(self.lost))
        self._waiting.clear()

    async def ask(self, request: wire.Request[Any], deadline_s: float) -> wire.Answer:
        """One request and its answer; raise _BridgeLost, TimeoutError."""
        if self.lost is not None:
            raise _BridgeLost(self.lost)
        self._number += 1
        number = self._number
        future: asyncio.Future[wire.Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._bridge.send(json.dumps({"id": number, **wire.written(request)}))
            async with asyncio.timeout(deadline_s):
                return await future
        except ReplexplorerError as error:
            self.lose(error.message)
            return await future
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End the bridge and all that waits for it; begun, it is carried through though the caller go."""
        self.lose("the bridge was closed")
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._bridge.close()


class BridgedAgent(Agent):
    """An agent over a bridge that is opened when first needed, and again when it was lost."""

    def __init__(
        self,
        node: str,
        open_bridge: OpenBridge,
        *,
        token: str | None = None,
    ) -> None:
        """`token` is the same on all bridges of an app; None: nobody else is this app."""
        self.node = node
        self._open_bridge = open_bridge
        self._token = token or uuid.uuid4().hex
        self._connection: _Connection | None = None
        self._opening = asyncio.Lock()

    async def _connect(self) -> _Connection:
        """The bridge in use, or a new one that has been greeted; raise ReplexplorerError."""
        async with self._opening:
            if self._connection is not None and self._connection.lost is None:
                return self._connection
            await self._drop()
            try:
                async with asyncio.timeout(OPEN_DEADLINE_S):
                    connection = _Connection(await self._open_bridge(self.node))
                    try:
                        hello = wire.Hello(self._token)
                        self._answer(hello, await connection.ask(hello, OPEN_DEADLINE_S))
                    except BaseException:
                        await connection.close()
                        raise
            except TimeoutError:
                raise StackUnavailable(f"the agent of {self.node} does not answer", REPAIR) from None
            except _BridgeLost as lost:
                raise StackUnavailable(f"no agent on {self.node}, {lost}", REPAIR) from None
            self._connection = connection
            return connection

    def _answer(self, request: wire.Request[Answered], answer: wire.Answer) -> Answered:
        """What answers a request; raise ReplexplorerError when it is an error."""
        if answer.error is not None:
            raise self._failure(answer.error)
        return wire.answer(request, answer.ok)

    def _failure(self, failure: wire.Failure) -> ReplexplorerError:
        if failure.code == "version":
            return StackUnavailable(
                f"the sidecar of {self.node} is of another version, {failure.message}",
                "run `replexplorer down`, then `up`, to bring the stack to this version",
            )
        if failure.code == "refused":
            return MissingPiece(
                f"the sidecar of {self.node} cannot do that, {failure.message}",
                "run `replexplorer doctor` for details",
            )
        if failure.code == "request":
            return UsageError(f"the agent of {self.node} refused, {failure.message}")
        return StackUnavailable(f"the agent of {self.node} failed, {failure.message}", REPAIR)

    async def ask(self, request: wire.Request[Answered]) -> Answered:
        """See `ports.Agent`; when the bridge turns out to be lost, ask once more on a new one if that is
        harmless. Raise ReplexplorerError."""
        for attempt in (1, 2):
            connection = await self._connect()
            try:
                return self._answer(request, await connection.ask(request, request.deadline_s))
            except TimeoutError:
                connection.lose("an answer did not come in time")
                await connection.close()  # what it gets too late, it must not hold
                raise StackUnavailable(
                    f"the agent of {self.node} did not answer within {request.deadline_s:g} s", REPAIR
                ) from None
            except _BridgeLost as lost:
                if attempt == 2 or not request.repeatable:
                    raise StackUnavailable(f"the bridge to {self.node} was lost, {lost}", REPAIR) from None
        raise AssertionError("unreachable")

    async def until_lost(self) -> None:
        """Return when the bridge in use has ended, at once when there is none."""
        if self._connection is not None:
            await self._connection.ended.wait()

    async def _drop(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def close(self) -> None:
        """End the bridge; the lease goes with it. A later call opens a new one."""
        async with self._opening:
            await self._drop()
