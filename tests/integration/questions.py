"""What a dialect asks a source and its replica, on real servers of either flavor."""

from __future__ import annotations

from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.engine.session import Session
from replexplorer.ports import ask, execute


async def every_question_is_answered(session: Session) -> None:
    """Whatever the flavor, and with the answers that a stack at rest gives."""
    source, replica = session.fleet.source, session.fleet.replicas[0]
    dialect = source.dialect
    await execute(source.kick, (dialect.kick,))
    settings = await ask(source.control, dialect.settings)
    assert settings.values.keys() == dialect.capabilities.variables.keys()
    for key, value in settings.values.items():
        assert await ask(source.control, dialect.setting(key)) == value, key
    of_replica = await ask(replica.control, replica.dialect.settings)
    assert (of_replica.registers, of_replica.refuses_writes) == (True, True)

    status = await ask(source.control, dialect.status)
    assert None not in (status.uptime_s, status.clients, status.yes_tx, status.tx_wait_time_us)
    assert (await ask(source.control, dialect.waits)).number == 0

    executed = await ask(source.control, dialect.executed)
    assert replica.address.address is not None
    sent = await ask(source.control, dialect.sent(replica.address.address))
    assert (sent.executed, sent.dump_thread is not None) == (executed, True)
    assert await ask(replica.control, replica.dialect.reached(executed, 60), deadline_s=90)
    behind = replica.dialect.behind(executed)
    for question in filter(None, (behind, behind.instead)):
        found = await ask(replica.control, question)
        assert found is not None
        assert (found.queued, found.missing) == ("", "")
    assert await ask(replica.control, replica.dialect.received)
    assert subtract_gtids(executed, await ask(replica.control, replica.dialect.received_gtids)) == ""

    logs = await ask(source.control, dialect.log_state)
    assert None not in (logs.current_lsn, logs.flushed_lsn, logs.written_bytes, logs.uptime_s)
    assert logs.is_strict
    assert logs.connections >= logs.connected >= logs.running > 0
    threads = await ask(replica.control, replica.dialect.threads)
    assert threads is not None
    assert (threads.io, threads.sql, threads.fault) == ("on", "on", None)
    assert await ask(source.control, dialect.threads) is None
    assert threads.reads in dict(await ask(source.control, dialect.binlogs))
    assert await ask(source.control, dialect.table_bytes("replexplorer", "kick")) > 0
    assert await ask(source.control, dialect.table_bytes("replexplorer", "none")) == 0
