"""A dialect's questions on real servers; its statements are said by the changes of roles."""

from __future__ import annotations

import pytest

from replexplorer.ports import ask
from tests.integration.conftest import LiveStack
from tests.integration.questions import every_question_is_answered
from tests.integration.sessions import attached
from tests.known import known

pytestmark = pytest.mark.docker


async def test_servers_understand_every_question(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        await every_question_is_answered(session)
        source, replica = session.fleet.source, session.fleet.replicas[0]
        dialect = source.dialect
        assert (await ask(replica.control, replica.dialect.status)).replica_registered is True
        assert (await ask(source.control, dialect.timeouts) or 0) >= 0
        assert await ask(source.control, known(dialect.timed.question("sandbox")))
        executed = await ask(source.control, dialect.executed)
        assert (await ask(source.control, dialect.position)).executed == executed
        assert known((await ask(source.control, dialect.sent(known(replica.address.address)))).sent_bytes)
        logs = await ask(source.control, dialect.log_state)
        assert None not in (logs.fsyncs, logs.not_waited)
