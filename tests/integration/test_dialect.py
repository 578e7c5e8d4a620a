"""A dialect's questions on real servers; its statements are said by the changes of roles."""

from __future__ import annotations

import pytest

from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.ports import ask, execute
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached

pytestmark = pytest.mark.docker


async def test_servers_understand_every_question(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        source, replica = session.fleet.source, session.fleet.replicas[0]
        dialect = source.dialect
        await execute(source.kick, (dialect.kick,))
        settings = await ask(source.control, dialect.settings)
        assert settings.values.keys() == dialect.capabilities.variables.keys()
        for key, value in settings.values.items():
            assert await ask(source.control, dialect.setting(key)) == value, key
        assert (await ask(replica.control, replica.dialect.settings)).registers is True

        status = await ask(source.control, dialect.status)
        assert None not in (status.uptime_s, status.clients, status.yes_tx, status.tx_wait_time_us)
        assert (await ask(replica.control, replica.dialect.status)).replica_registered is True
        assert (await ask(source.control, dialect.waits)).number == 0
        assert (await ask(source.control, dialect.timeouts) or 0) >= 0
        commits = dialect.timed.question("sandbox")
        assert commits is not None
        assert await ask(source.control, commits)

        executed = await ask(source.control, dialect.executed)
        assert (await ask(source.control, dialect.position)).executed == executed
        assert replica.address.address is not None
        sent = await ask(source.control, dialect.sent(replica.address.address))
        assert sent.executed == executed
        assert None not in (sent.dump_thread, sent.sent_bytes)
        assert await ask(replica.control, replica.dialect.reached(executed, 60), deadline_s=90)
        found = await ask(replica.control, replica.dialect.behind(executed))
        assert found is not None
        assert (found.queued, found.missing) == ("", "")
        assert await ask(replica.control, replica.dialect.received)
        assert subtract_gtids(executed, await ask(replica.control, replica.dialect.received_gtids)) == ""
        logs = await ask(source.control, dialect.log_state)
        assert None not in (
            logs.current_lsn,
            logs.flushed_lsn,
            logs.written_bytes,
            logs.fsyncs,
            logs.not_waited,
            logs.uptime_s,
        )
        assert logs.is_strict
        assert logs.connections >= logs.connected >= logs.running > 0
        threads = await ask(replica.control, replica.dialect.threads)
        assert threads is not None
        assert (threads.io, threads.sql, threads.fault) == ("on", "on", None)
        assert await ask(source.control, dialect.threads) is None
        binlogs = await ask(source.control, dialect.binlogs)
        assert threads.reads in dict(binlogs)
        assert await ask(source.control, dialect.table_bytes("replexplorer", "kick")) > 0
        assert await ask(source.control, dialect.table_bytes("replexplorer", "none")) == 0
