"""A dialect's questions and statements on real servers."""

from __future__ import annotations

import pytest

from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.dialect.dialect import SourceAddress
from replexplorer.core.errors import ServerRefused
from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.ports import UpOptions, ask, execute
from tests.integration.conftest import LiveStack, bring_up
from tests.integration.sessions import attached, connected
from tests.waiting import until

pytestmark = pytest.mark.docker
FOREIGN = "11111111-1111-1111-1111-111111111111:1"
SKIP_FOREIGN = (f"SET GTID_NEXT = '{FOREIGN}'", "BEGIN", "COMMIT", "SET GTID_NEXT = 'AUTOMATIC'")
"""An empty transaction of that name."""


def both(fleet: Fleet) -> tuple[Member, Member]:
    """The source and its replica."""
    return fleet.source, fleet.replicas[0]


async def kick(member: Member) -> None:
    await execute(member.kick, (member.dialect.kick,))


async def test_servers_understand_every_question(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        source, replica = both(session.fleet)
        dialect = source.dialect
        await kick(source)
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


async def test_a_replica_takes_over_and_the_source_follows_it(own_stack: DockerProvider) -> None:
    async with connected(await bring_up(own_stack, UpOptions()), "test") as session:
        old, new = both(session.fleet)
        await kick(old)
        executed = await ask(old.control, old.dialect.executed)
        assert await ask(new.control, new.dialect.reached(executed, 60), deadline_s=90)
        assert not await ask(new.control, new.dialect.reached(FOREIGN, 0.1))
        with pytest.raises(ServerRefused):
            await kick(new)

        await execute(old.control, old.dialect.refuse_writes)
        with pytest.raises(ServerRefused):
            await kick(old)
        await execute(new.control, (new.dialect.stop_threads, *new.dialect.follow_nobody))
        assert await ask(new.control, new.dialect.threads) is None
        await execute(new.control, (*new.dialect.open_for_writes, *SKIP_FOREIGN))
        await kick(new)

        credentials = session.fleet.credentials
        assert credentials is not None
        assert new.address.address is not None
        source = SourceAddress(new.address.address, credentials.control_user, credentials.control_password)
        await ask(old.control, old.dialect.follow(source))
        await execute(old.control, (old.dialect.start_threads,))
        executed = await ask(new.control, new.dialect.executed)
        assert FOREIGN in executed
        assert await ask(old.control, old.dialect.reached(executed, 15), deadline_s=20)

        async def follows() -> bool:
            threads = await ask(old.control, old.dialect.threads)
            return threads is not None and (threads.io, threads.sql) == ("on", "on")

        await until(follows)
        (*_, (newest, _size)) = await ask(new.control, new.dialect.binlogs)
        await execute(new.control, (new.dialect.purge_binlogs(newest),))
        assert [name for name, _ in await ask(new.control, new.dialect.binlogs)] == [newest]
