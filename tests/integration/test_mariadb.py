"""MariaDB is a flavour: the same stack, knobs, states, faults and changes of roles under its own names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import SOURCE, Backing, KnobName
from replexplorer.core.server.counters import Source
from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.fleet import Member
from replexplorer.ports import LoadSettings, ask, execute
from tests.integration.attaching import change_kill_and_revert, outsider
from tests.integration.conftest import LiveStack, a_stack
from tests.integration.differing_rows import differing_rows_are_found
from tests.integration.lock_waits import two_wait_for_a_row
from tests.integration.poor_tables import checked_and_repaired
from tests.integration.questions import every_question_is_answered
from tests.integration.sessions import connected, inject
from tests.integration.sorted_ranges import each_examines_its_range
from tests.turning import turn
from tests.waiting import until

pytestmark = pytest.mark.docker

TIMED = (Source.BINLOG_FSYNC, Source.COMMIT_STAGE, Source.STATEMENT, Source.IDLE)
ROWS = "SELECT COUNT(*) FROM sandbox.t"


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
        counted = source.dialect.timed.question("replexplorer")
        assert counted is not None
        totals = await ask(source.control, counted)
        assert min(totals[each].times for each in TIMED) > 0
        assert Source.REDO_FSYNC not in totals, "the redo log is in no instrument"


async def test_semi_sync_is_built_in_under_the_old_names_and_waits_after_the_commit(maria: LiveStack) -> None:
    async with connected(maria, "test") as session:
        began = {str(name): view for name, view in (await session.status()).knobs.items()}
        assert began["wait_point"].requested == began["wait_point"].effective == "after_commit"
        assert "semi_sync_replicas" not in began, "it waits for one replica, and has no variable for more"
        with pytest.raises(UsageError, match="does not have it"):
            await turn(session, "semi_sync_replicas=2")

        await turn(session, "rpl_semi_sync_master_enabled=on", "rtt=10")
        await session.drive(LoadSettings(4, "update_index", 1000))
        async with session.observed():
            with session.load.listening() as inbox:

                async def commits() -> int:
                    return sum(interval.commits for interval in inbox.take())

                await until(commits, holds=lambda count: count > 0, within_s=30)
            protection = (await session.status()).protection
        assert protection.state is ProtectionState.PROTECTED
        assert protection.wait_point == "after_commit"
        await turn(session, "wait_point=after_sync")
        await session.console.reset()
        assert (await session.status()).protection.wait_point == "after_commit", "as the server comes"
        view = session.knobs()[KnobName("wait_point", SOURCE)]
        assert (view.requested, view.default) == ("after_commit", "after_commit")
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

        async def is_protected() -> bool:
            await session.state.refresh()
            return session.state.protection().state is ProtectionState.PROTECTED

        try:
            await session.drive(LoadSettings(32, "update_index", 1000))
            await turn(session, "semi_sync=on", "wait_point=after_sync", "rtt=40ms", "semi_sync_timeout=2s")
            await until(is_protected, "commits are acknowledged")
            before = session.state.protection().fallbacks
            for _ in range(10):
                for point in ("after_commit", "after_sync"):
                    [changed] = (await turn(session, f"wait_point={point}")).changed
                    assert changed.statements[-1] == "BACKUP STAGE END"
            await asyncio.sleep(2.5)  # longer than the timeout of one that was forgotten
            assert await is_protected()
            assert session.state.protection().fallbacks == before
        finally:
            await session.load.stop()
            await session.console.reset()


async def test_only_timeouts_count_as_fallbacks(maria: LiveStack) -> None:
    """The server's counter has somebody's SET among them; its log has not."""
    async with connected(maria, "test") as session:
        try:
            await turn(session, "semi_sync=on", "semi_sync_timeout=1s")
            await session.state.refresh()
            before = session.state.protection().fallbacks
            assert before is not None
            control, replica = session.fleet.source.control, session.fleet.replicas[0]
            for value in (0, 1):
                await control.query(f"SET GLOBAL rpl_semi_sync_master_enabled = {value}")
            await control.query("CREATE TABLE sandbox.by_hand (a INT)")
            await session.state.refresh()
            assert session.state.protection().fallbacks == before
            await replica.control.query("STOP SLAVE IO_THREAD")
            await control.query("DROP TABLE sandbox.by_hand", deadline_s=30)

            async def has_fallen_back() -> bool:
                await session.state.refresh()
                return session.state.protection().fallbacks == before + 1

            await until(has_fallen_back, "the timeout is counted")
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


async def test_what_no_binlog_has_any_more_is_known(maria: LiveStack) -> None:
    async with connected(maria, "test") as session:
        source = session.fleet.source
        dialect, sql = source.dialect, source.control
        before = await ask(sql, dialect.purged)
        await execute(sql, (dialect.kick, "FLUSH BINARY LOGS"))
        executed = await ask(sql, dialect.executed)
        await until(lambda: purged_to_the_last(source), within_s=30)
        purged = await ask(sql, dialect.purged)
        assert before != purged
        assert subtract_gtids(purged, executed) == subtract_gtids(executed, purged) == ""


async def purged_to_the_last(source: Member) -> bool:
    """A binlog stays while a replica reads it, and while a checkpoint needs it."""
    names = [name for name, _ in await ask(source.control, source.dialect.binlogs)]
    await execute(source.control, (source.dialect.purge_binlogs(names[-1]),))
    return len(await ask(source.control, source.dialect.binlogs)) == 1


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
        async with maria.session("db1") as cursor:
            await cursor.execute("CREATE TABLE sandbox.t (id SERIAL)")
            await cursor.execute("INSERT INTO sandbox.t () VALUES ()")
        await until(partial(maria.value, "db2", ROWS), holds=lambda rows: rows == 1)
        await inject(session, "receiver_stop")
        async with maria.session("db1") as cursor:
            for _ in range(3):
                await cursor.execute("INSERT INTO sandbox.t () VALUES ()")
        await session.fleet.server_process("db1").kill()
        done = await session.console.failover()
        assert done.source == "db2"
        async with maria.session("db2") as cursor:
            await cursor.execute("INSERT INTO sandbox.t () VALUES ()")

        back = await session.console.rejoin("db1")
        # As it started it may have taken the newest out of its own binlog: the engine's part was not flushed.
        assert back.rpo.commits in (2, 3)
        await until(partial(maria.value, "db1", ROWS), holds=lambda rows: rows == 2, within_s=60)
        assert [str(node.role) for node in (await session.status()).nodes] == ["replica", "primary"]
        async with maria.session("db1", dsn=True) as cursor:
            with pytest.raises(Exception, match="read-only"):
                await cursor.execute("INSERT INTO sandbox.t () VALUES ()")
