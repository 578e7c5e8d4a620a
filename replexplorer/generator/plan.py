"""From settings to what clients do: a built-in workload, or a user's file."""

from __future__ import annotations

from random import Random

from replexplorer.core.errors import ServerRefused, UsageError
from replexplorer.core.load.script import read_script
from replexplorer.core.load.workload import WORKLOADS, Sources, Statement, Workload, draw_of
from replexplorer.generator.client_log import ClientLog
from replexplorer.generator.connection import Connection
from replexplorer.generator.dispatcher import ClientJob
from replexplorer.ports import LoadSettings, LoadTarget

_CHECK_TIMEOUT_S = 5.0
_NOT_PREPARABLE = 1295
"""The server prepares no such statement, so it cannot be checked beforehand."""


def workload_of(settings: LoadSettings) -> Workload:
    """The workload that the settings name; raises UsageError."""
    if settings.script is not None:
        return read_script(settings.script, settings.workload).workload
    if settings.workload not in WORKLOADS:
        raise UsageError(f"no workload {settings.workload!r}", f"one of {', '.join(WORKLOADS)}")
    workload = WORKLOADS[settings.workload]
    return workload.with_payload() if settings.payload_bytes else workload


def course_of(settings: LoadSettings, random: Random, log: ClientLog | None = None) -> ClientJob:
    """What these settings make the clients do, noted in the log; raises UsageError."""
    workload = workload_of(settings)
    if settings.script is not None:
        script = read_script(settings.script, settings.workload)
        return ClientJob(
            script.workload, lambda: script.draws(random), settings.fresh_sessions, settings.by_statement
        )
    sources = Sources.of(
        settings.table_size,
        random,
        key_spread=settings.key_spread,
        payload_bytes=settings.payload_bytes,
        writer=None if log is None else log.writer,
    )
    return ClientJob(
        workload, lambda: draw_of(workload, sources), settings.fresh_sessions, settings.by_statement, log
    )


async def check_script(
    workload: Workload, target: LoadTarget, settings: LoadSettings, random: Random
) -> None:
    """Let the server look at each statement of a user's file, with values drawn for it, without running it.

    Raises UsageError naming file and line for what it refuses, ServerUnreachable.
    """
    values: dict[int, tuple[int | bytes, ...]] = {}
    draw = course_of(settings, random).draws()
    for _ in range(100 * len(workload.statements)):
        values.update(draw())
        if len(values) == len(workload.statements):
            break
    connection = await Connection.open(target, workload.database, timeout_s=_CHECK_TIMEOUT_S)
    try:
        for index, statement in enumerate(workload.statements):
            if index in values:
                text = (statement.format % values[index]).decode()
                await _check(connection, statement, text)
    finally:
        connection.close()


async def _check(connection: Connection, statement: Statement, text: str) -> None:
    """Prepare one statement and forget it."""
    try:
        prepared = await connection.prepare(Statement(statement.name, text), timeout_s=_CHECK_TIMEOUT_S)
    except ServerRefused as refused:
        if refused.number != _NOT_PREPARABLE:
            raise UsageError(
                f"{statement.place}: {refused.message}", "the server refuses this statement"
            ) from None
    else:
        connection.forget([prepared])
