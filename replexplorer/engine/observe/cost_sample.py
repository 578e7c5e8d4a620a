"""One sample of what the servers' work has cost so far: CPU of their processes, bytes of their logs.

Law: looking never changes anything and never raises; what could not be learned is None or absent.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from replexplorer.core.dialect.dialect import Sent
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.machine import Machine
from replexplorer.core.server.counters import CostSample, CpuUsed, Sample, Stream
from replexplorer.engine.asking import ask
from replexplorer.engine.fleet import Fleet, Member


async def source_machine(fleet: Fleet) -> Machine | None:
    """What it had worked until now; None where no agent says."""
    try:
        health = await fleet.source.agent.health()
    except ReplexplorerError:
        return None
    cores, busy_s = health.machine_cores, health.machine_busy_s
    if not cores or busy_s is None:
        return None
    return Machine(fleet.outside.clock.monotonic(), cores, busy_s)


_DEADLINE_S = 2.0

T = TypeVar("T")


async def sample_cost(fleet: Fleet) -> CostSample | None:
    """All servers now; None where the source does not answer."""
    try:
        source, replicas = fleet.source, fleet.replicas
        dialect, began_s = source.dialect, fleet.outside.clock.monotonic()
        status = await ask(source.poll, dialect.status(), deadline_s=_DEADLINE_S)
    except ReplexplorerError:
        return None
    counters = Sample(
        began_s,
        status,
        None if source.capabilities is None else source.capabilities.server_uuid,
        fleet.outside.clock.monotonic(),
    )
    log = await _asked(source, dialect.log_state())
    binlogs = await _asked(source, dialect.binlogs())
    streams: dict[str, Stream | None] = {}
    for replica in replicas:
        sent = await _asked(source, dialect.sent(replica.address.address or ""))
        streams[replica.name] = _stream(sent)
    names = [member.name for member in (source, *replicas)]
    used = await asyncio.gather(*(_cpu(fleet, name) for name in names))
    return CostSample(
        source=source.name,
        counters=counters,
        redo_bytes=None if log is None else log.written_bytes,
        binlogs=binlogs,
        cpu={name: cpu for name, cpu in zip(names, used, strict=True) if cpu is not None},
        streams=streams,
    )


def _stream(sent: Sent | None) -> Stream | None:
    if sent is None or sent.dump_thread is None or sent.sent_bytes is None:
        return None
    return Stream(sent.dump_thread, sent.sent_bytes)


async def _asked(member: Member, question: Question[T]) -> T | None:
    """The answer; None where the server refuses it, or does not answer."""
    try:
        return await ask(member.poll, question, deadline_s=_DEADLINE_S)
    except ReplexplorerError:
        return None


async def _cpu(fleet: Fleet, node: str) -> CpuUsed | None:
    """Of a node's process; None where nobody here can say."""
    try:
        return await fleet.server_process(node).cpu()
    except ReplexplorerError:
        return None
