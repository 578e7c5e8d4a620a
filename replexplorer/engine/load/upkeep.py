"""Keeping the stack small while a load runs: old binlogs go, and a full disk stops the load.

Binlogs are purged to what every replica has, with 1 GB kept; below 5 GB or 10 % of free disk the
load stops and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.asking import ask, execute
from replexplorer.engine.fleet import Fleet, Member

KEPT_BINLOG_BYTES: Final = 1 << 30
LEAST_FREE_BYTES: Final = 5 << 30
LEAST_FREE_SHARE: Final = 0.1
_DEADLINE_S: Final = 10.0


def purge_to(binlogs: Sequence[tuple[str, int]], needed: str | None, kept_bytes: int) -> str | None:
    """The first binlog to keep; None when nothing may go.

    `binlogs` are name and size, oldest first; `needed` is the oldest that a replica still reads,
    None when no replica reads from here. The newest files up to `kept_bytes` stay.
    """
    total = sum(size for _, size in binlogs)
    first = 0
    while first < len(binlogs) - 1 and total > kept_bytes and binlogs[first][0] != needed:
        total -= binlogs[first][1]
        first += 1
    return binlogs[first][0] if first else None


def is_low(free_bytes: int, total_bytes: int) -> bool:
    """Whether a disk has too little room for a load to go on."""
    return free_bytes < LEAST_FREE_BYTES or free_bytes < LEAST_FREE_SHARE * total_bytes


async def trim_binlogs(fleet: Fleet) -> None:
    """Purge what nobody needs on every node; a node or replica that does not answer keeps all. Members of a
    group have received all that is committed, and one that is not there yet may need any of it."""
    if fleet.system.is_group:
        if await _all_are_members(fleet):
            await asyncio.gather(*(_trim(member, None) for member in fleet.members.values()))
        return
    try:
        needed = [await _read_by(replica) for replica in fleet.replicas]
    except ReplexplorerError:
        return
    oldest = min((name for name in needed if name), default=None)
    if fleet.replicas and (oldest is None or not all(needed)):
        return
    for member in fleet.members.values():
        await _trim(member, oldest if member.name == fleet.source_name else None)


async def _all_are_members(fleet: Fleet) -> bool:
    """Whether every node takes part in the group."""
    try:
        for member in fleet.members.values():
            question = member.dialect.membership()
            if question is None or not (await ask(member.poll, question)).is_ready:
                return False
    except ReplexplorerError:
        return False
    return True


async def _read_by(replica: Member) -> str | None:
    """The source's binlog that a replica reads now; None when it does not say."""
    threads = await ask(replica.poll, replica.dialect.threads())
    return threads.reads if threads else None


async def _trim(member: Member, needed: str | None) -> None:
    """Purge one node's binlogs; a refusal leaves them."""
    try:
        binlogs = await ask(member.control, member.dialect.binlogs(), deadline_s=_DEADLINE_S)
        first = purge_to(binlogs, needed, KEPT_BINLOG_BYTES)
        if first is not None:
            await execute(member.control, (member.dialect.purge_binlogs(first),), deadline_s=_DEADLINE_S)
    except ReplexplorerError:
        return


async def low_disk(fleet: Fleet) -> str | None:
    """In words, when the stack's disk has too little room; None while it has, or is unknown."""
    try:
        disk = (await fleet.source.agent.health()).volumes.get("data")
    except ReplexplorerError:
        return None
    if disk is None or not is_low(disk.free_bytes, disk.total_bytes):
        return None
    free, total = disk.free_bytes / (1 << 30), disk.total_bytes / (1 << 30)
    return f"only {free:.1f} GB of {total:.0f} GB are free on the disk of the stack's volumes"
