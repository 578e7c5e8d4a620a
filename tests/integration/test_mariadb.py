"""MariaDB is a flavour: the same stack, knobs, states, faults and changes of roles under its own names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import Backing
from replexplorer.core.server.counters import Source
from replexplorer.core.server.protection import ProtectionState
from replexplorer.ports import LoadSettings, ask
from tests.conformance.scenarios import becomes, seen
from tests.integration.attaching import change_kill_and_revert, outsider
from tests.integration.conftest import LiveStack, a_stack
from tests.integration.differing_rows import differing_rows_are_found
from tests.integration.lock_waits import two_wait_for_a_row
from tests.integration.poor_tables import checked_and_repaired
from tests.integration.questions import every_question_is_answered
from tests.integration.sessions import connected, inject
from tests.integration.sorted_ranges import each_examines_its_range
from tests.known import known
from tests.turning import turn
from tests.waiting import until

pytestmark = pytest.mark.docker

TIMED = (Source.BINLOG_FSYNC, Source.COMMIT_STAGE, Source.STATEMENT, Source.IDLE)
ROWS, INSERT = "SELECT COUNT(*) FROM sandbox.t", "INSERT INTO sandbox.t () VALUES ()"


@pytest.fixture(scope="module")
def maria(docker_client: Any, state_home: Path) -> Iterator[LiveStack]:
    """One MariaDB source and one replica, shared by this file."""
    with a_stack("maria", flavor="mariadb") as live:
        yield live


async def test_a_row_lock_has_its_holder(maria: LiveStack) -> None:
    async with connected(maria, "test") as session, two_wait_for_a_row(session) as locks:
        assert {each.blocker_statement for each in locks} == {None}, "it keeps none of an idle session"


async def test_servers_understand_every_question(maria: LiveStack) -> None:
    async with connected(maria, "test") as session:
        await every_question_is_answered(session)
        source = session.fleet.source
        assert source.dialect.capabilities.flavor == "mariadb"
        assert session.fleet.replicas[0].dialect.behind("").instead is not None
        assert await ask(source.control, source.dialect.timeouts) is None
        totals = await ask(source.control, known(source.dialect.timed.question("replexplorer")))
        assert min(totals[each].times for each in TIMED) > 0
        assert Source.REDO_FSYNC not in totals, "the redo log is in no instrument"


async def test_semi_sync_has_its_old_names_and_waits_after_the_commit_as_the_server_comes(
    maria: LiveStack,
) -> None:
    async with connected(maria, "test") as session:
        began = {str(name): view for name, view in (await session.status()).knobs.items()}
        assert began["wait_point"].requested == began["wait_point"].effective == "after_commit"
        assert "semi_sync_replicas" not in began, "it waits for one replica, and has no variable for more"
        with pytest.raises(UsageError, match="does not have it"):
            await turn(session, "semi_sync_replicas=2")

        await turn(session, "rpl_semi_sync_master_enabled=on", "wait_point=after_sync")
        await session.console.reset()
        assert (await session.status()).protection.wait_point == "after_commit", "as the server comes"
        others = {
            str(name): (each.default, each.effective)
            for name, each in session.knobs().items()
            if name.knob.backing is Backing.SERVER and each.effective not in (None, each.default)
        }
        assert not others, "a reset leaves every variable at what `get` calls its default"


async def test_the_wait_point_changes_under_a_load_and_every_acknowledgement_is_seen(
    maria: LiveStack,
) -> None:
    """Changed with commits under way, the server forgets to wake some of them: they wait for the timeout."""
    async with connected(maria, "test") as session:
        try:
            await session.drive(LoadSettings(32, "update_index", 1000))
            await turn(session, "semi_sync=on", "wait_point=after_sync", "rtt=40ms", "semi_sync_timeout=2s")
            before = (await becomes(session, ProtectionState.PROTECTED)).fallbacks
            for _ in range(10):
                for point in ("after_commit", "after_sync"):
                    [changed] = (await turn(session, f"wait_point={point}")).changed
                    assert changed.statements[-1] == "BACKUP STAGE END"
            await asyncio.sleep(2.5)  # longer than the timeout of one that was forgotten
            protection = await seen(session)
            assert (protection.state, protection.fallbacks) == (ProtectionState.PROTECTED, before)
        finally:
            await session.load.stop()
            await session.console.reset()


async def test_only_timeouts_count_as_fallbacks(maria: LiveStack) -> None:
    """The server's counter has somebody's SET among them; its log has not."""
    async with connected(maria, "test") as session:
        try:
            await turn(session, "semi_sync=on", "semi_sync_timeout=1s")
            before = known((await seen(session)).fallbacks)
            control, replica = session.fleet.source.control, session.fleet.replicas[0]
            for value in (0, 1):
                await control.query(f"SET GLOBAL rpl_semi_sync_master_enabled = {value}")
            await control.query("CREATE TABLE sandbox.by_hand (a INT)")
            assert (await seen(session)).fallbacks == before
            await replica.control.query("STOP SLAVE IO_THREAD")
            await control.query("DROP TABLE sandbox.by_hand", deadline_s=30)
            await until(lambda: seen(session), "it counts", holds=lambda now: now.fallbacks == before + 1)
        finally:
            await session.fleet.replicas[0].control.query("START SLAVE IO_THREAD")
            await session.console.reset()


async def test_rows_that_are_sorted_or_read_back_count_once(maria: LiveStack) -> None:
    async with connected(maria, "test") as session:
        await each_examines_its_range(maria, session)


async def test_tables_are_checked_and_repaired_as_on_mysql(maria: LiveStack) -> None:
    async with connected(maria, "check-schema") as session:
        await checked_and_repaired(maria, session)


async def test_rows_are_compared_as_on_mysql(maria: LiveStack) -> None:
    async with connected(maria, "check-rows") as session:
        await differing_rows_are_found(session)


async def test_foreign_servers_with_old_names_are_changed_and_reverted(
    maria: LiveStack, tmp_path: Path
) -> None:
    shell = await outsider(maria, tmp_path)
    point = await maria.value("db1", "SELECT @@GLOBAL.rpl_semi_sync_master_wait_point")
    other = "after_commit" if str(point).lower() == "after_sync" else "after_sync"
    changes = ("semi_sync=on", f"wait_point={other}", "semi_sync_timeout=5000", "sync_binlog=7")
    replica = ("innodb_flush_log_at_trx_commit@replica=0", "sync_relay_log@replica=77")
    report = await change_kill_and_revert(maria, shell, *changes, *replica)
    rows = [row for source in report.reverted for row in source.variables]
    assert {row.fate for row in rows} == {"restored"}
    assert {row.variable for row in rows} >= {
        "rpl_semi_sync_master_enabled",
        "rpl_semi_sync_master_wait_point",
    }


async def test_a_killed_source_is_replaced_and_receives_everything_again(maria: LiveStack) -> None:
    async with connected(maria, "failover") as session:
        control = session.fleet.source.control
        await control.query("CREATE TABLE sandbox.t (id SERIAL)")
        await control.query(INSERT)
        await until(partial(maria.value, "db2", ROWS), holds=lambda rows: rows == 1)
        await inject(session, "receiver_stop")
        for _ in range(3):
            await control.query(INSERT)
        await session.fleet.server_process("db1").kill()
        done = await session.console.failover()
        assert done.source == "db2"
        await session.fleet.source.control.query(INSERT)

        back = await session.console.rejoin("db1")
        # As it started it may have taken the newest out of its own binlog: the engine's part was not flushed.
        assert back.rpo.commits in (2, 3)
        await until(partial(maria.value, "db1", ROWS), holds=lambda rows: rows == 2, within_s=60)
        assert [str(node.role) for node in (await session.status()).nodes] == ["replica", "primary"]
        async with maria.session("db1", dsn=True) as cursor:
            with pytest.raises(Exception, match="read-only"):
                await cursor.execute(INSERT)
