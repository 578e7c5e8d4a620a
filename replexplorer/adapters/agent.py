"""The agent in a node's sidecar, over one bridge: requests with ids, answers in any order.

Law: a bridge whose stream is in doubt is dropped, never reused; a call that is cancelled leaves the
bridge as good as it was, because its line is written whole and its late answer belongs to nobody.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from replexplorer.core import wire
from replexplorer.core.errors import MissingPiece, ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.wire import DiskState, Document, Experiment, Health, Lease, LinkState, Shape
from replexplorer.ports import Bridge

OPEN_DEADLINE_S = 10.0
"""For the exec and the greeting."""
CALL_DEADLINE_S = 5.0
LONGEST_DELAY_S = 5.0
COMING_BACK_S = 6.0
"""How long a claim may wait for the return of an app whose bridge ended (the agent's `GRACE_S`), and more."""
PROBE_S = 6.0
"""How long the agent writes for its probe, at the most."""
REPAIR = "`replexplorer up` repairs the stack"

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
        self._writes: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self.lost: str | None = None
        """Why it is of no use any more; None while it is."""
        self.ended = asyncio.Event()
        """Set when it is lost."""
        self._ending: asyncio.Task[None] | None = None
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        reason = "its agent went away"
        try:
            async for line in self._bridge.lines():
                self._take(line)
        except _BridgeLost as lost:
            reason = str(lost)
        except ValueError:
            reason = "its agent sent something else than answers"
        except ReplexplorerError as error:
            reason = error.message
        finally:
            self.lose(reason)

    def _take(self, line: str) -> None:
        answer = wire.answer_line(json.loads(line))
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

    async def _write(self, line: str) -> None:
        async with self._turn:
            try:
                await self._bridge.send(line)
            except ReplexplorerError as error:
                self.lose(error.message)

    async def ask(self, request: wire.Request[Any], deadline_s: float) -> wire.Answer:
        """One request and its answer; raise _BridgeLost, TimeoutError."""
        if self.lost is not None:
            raise _BridgeLost(self.lost)
        self._number += 1
        number = self._number
        future: asyncio.Future[wire.Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        line = json.dumps({"id": number, **wire.written(request)})
        write = asyncio.create_task(self._write(line))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        try:
            async with asyncio.timeout(deadline_s):
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
        tasks = [self._reader, *self._writes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._bridge.close()


class BridgedAgent:
    """`ports.Agent` over a bridge that is opened when first needed, and again when it was lost."""

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
                        welcome = self._answer(hello, await connection.ask(hello, OPEN_DEADLINE_S))
                        if welcome.node != self.node:
                            raise StackUnavailable(
                                f"the sidecar of {self.node} says it is {welcome.node}'s", REPAIR
                            )
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
        try:
            return wire.answer(request, answer.ok)
        except wire.Malformed:
            raise StackUnavailable(
                f"the agent of {self.node} answers in a shape that this version does not know",
                "`replexplorer down`, then `up`, takes the stack to this version",
            ) from None

    def _failure(self, failure: wire.Failure) -> ReplexplorerError:
        if failure.code == "version":
            return StackUnavailable(
                f"the sidecar of {self.node} is of another version, {failure.message}",
                "`replexplorer down`, then `up`, takes the stack to this version",
            )
        if failure.code == "refused":
            return MissingPiece(
                f"the sidecar of {self.node} cannot do that, {failure.message}",
                "`replexplorer doctor` says more",
            )
        if failure.code == "request":
            return UsageError(f"the agent of {self.node} refused, {failure.message}")
        return StackUnavailable(f"the agent of {self.node} failed, {failure.message}", REPAIR)

    async def _ask(
        self,
        request: wire.Request[Answered],
        deadline_s: float = CALL_DEADLINE_S,
        *,
        repeatable: bool = True,
    ) -> Answered:
        """Ask; when the bridge turns out to be lost, ask once more on a new one if that is harmless.

        Raise ReplexplorerError."""
        for attempt in (1, 2):
            connection = await self._connect()
            try:
                return self._answer(request, await connection.ask(request, deadline_s))
            except TimeoutError:
                connection.lose("an answer did not come in time")
                await connection.close()  # what it gets too late, it must not hold
                raise StackUnavailable(
                    f"the agent of {self.node} did not answer within {deadline_s:g} s", REPAIR
                ) from None
            except _BridgeLost as lost:
                if attempt == 2 or not repeatable:
                    raise StackUnavailable(f"the bridge to {self.node} was lost, {lost}", REPAIR) from None
        raise AssertionError("unreachable")

    async def link(self, peer: str, *, anew: bool = False) -> LinkState:
        """The state of the link to a peer; `anew` forgets what was measured until now."""
        return await self._ask(wire.AskLink(peer, anew))

    async def set_link(self, peer: str, address: str, shape: Shape) -> LinkState:
        """Shape this side of the link; returns when it is in force."""
        # Netem lets what it holds go before its rule does.
        deadline_s = CALL_DEADLINE_S + LONGEST_DELAY_S
        return await self._ask(wire.SetLink(peer, address, shape), deadline_s)

    async def set_flap(self, peer: str, address: str, flap: wire.Flap | None) -> LinkState:
        """Let this side of the link go down and up; returns when that is in force."""
        return await self._ask(wire.SetFlap(peer, address, flap), CALL_DEADLINE_S + LONGEST_DELAY_S)

    async def disk(self, *, probe: bool = False) -> DiskState:
        """The node's disk; `probe` writes to it first."""
        deadline_s = CALL_DEADLINE_S + (PROBE_S if probe else 0)
        return await self._ask(wire.AskDisk(probe), deadline_s)

    async def set_disk(self, asked: wire.SetDisk) -> DiskState:
        """Change what the node's shim does to its server."""
        return await self._ask(asked)

    async def watch(self, peer: str, address: str) -> LinkState:
        """Probe the peer from now on."""
        return await self._ask(wire.Watch(peer, address))

    async def document(self) -> Document:
        """The requested document."""
        return await self._ask(wire.AskDocument())

    async def write_document(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """Compare and set. A bridge lost midway is an error: whether it was written, `document` says."""
        request = wire.WriteDocument(dict(content), expect_version)
        return (await self._ask(request, repeatable=False)).document

    async def take_lease(
        self,
        holder: str,
        *,
        beside: bool = False,
        load: Mapping[str, int | float | str] | None = None,
        selected: str | None = None,
    ) -> Lease | None:
        """Take the lease; the holder when another has it. `beside` does not take it away: the caller
        that drives beside gets None, and the lease stays where it is."""
        told = None if load is None else dict(load)
        wish = Lease(holder, os.getpid(), socket.gethostname(), told, selected)
        found = await self._ask(wire.TakeLease(wish), CALL_DEADLINE_S + COMING_BACK_S)
        return None if found.ours or beside else found.lease

    async def lease(self) -> Lease | None:
        """Who drives now."""
        return (await self._ask(wire.AskLease())).lease

    async def release_lease(self) -> None:
        """Give it back; nothing when it is not ours."""
        await self._ask(wire.ReleaseLease())

    async def take_turn(
        self, holder: str, *, within_s: float, anyway: bool = False
    ) -> Lease | Experiment | None:
        """Wait for our turn to change knobs; the holder when it does not come in time, or the experiment
        that forbids it."""
        wish = Lease(holder, os.getpid(), socket.gethostname())
        found = await self._ask(wire.TakeTurn(wish, within_s, anyway), CALL_DEADLINE_S + within_s)
        return found.experiment or (None if found.ours else found.lease)

    async def leave_turn(self) -> None:
        """End our turn, or our waiting for it."""
        await self._ask(wire.LeaveTurn())

    async def begin_experiment(self, kind: str, name: str, holder: str) -> Experiment | None:
        """Refuse turns to all others from now on; whose experiment runs when it is not ours."""
        wish = Experiment(kind, name, holder, os.getpid(), socket.gethostname())
        found = await self._ask(wire.BeginExperiment(wish), CALL_DEADLINE_S + COMING_BACK_S)
        return None if found.ours else found.experiment

    async def end_experiment(self) -> None:
        """Our experiment is over; nothing when there is none."""
        await self._ask(wire.EndExperiment())

    async def until_lost(self) -> None:
        """Return when the bridge in use has ended, at once when there is none."""
        if self._connection is not None:
            await self._connection.ended.wait()

    async def health(self) -> Health:
        """What the agent costs and counts."""
        return await self._ask(wire.AskHealth())

    async def _drop(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def close(self) -> None:
        """End the bridge; the lease goes with it. A later call opens a new one."""
        async with self._opening:
            await self._drop()
