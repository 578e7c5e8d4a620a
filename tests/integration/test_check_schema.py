"""check on real servers: every finding, and what its statement does; rows that differ between nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from replexplorer.core.errors import UsageError
from tests.documents import document
from tests.integration.conftest import LiveStack
from tests.integration.differing_rows import differing_rows_are_found
from tests.integration.poor_tables import checked_and_repaired
from tests.integration.sessions import attached
from tests.integration.shell import Shell
from tests.waiting import until_true

pytestmark = pytest.mark.docker


async def test_every_finding_is_repaired_by_its_statement(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        await checked_and_repaired(live_stack, session)


async def test_a_database_that_is_not_there_is_a_wrong_name(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        with pytest.raises(UsageError, match="no database 'nowhere' on db1"):
            await session.check_schema("db1", ["nowhere"])


async def test_the_programs_own_tables_are_sound(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        assert await session.check_schema("db1", ["replexplorer"]) == ()


async def test_each_kind_of_difference_is_found(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        await differing_rows_are_found(session)


def test_rows_are_alike_while_a_load_changes_them(
    live_stack: LiveStack, state_home: Path, tmp_path: Path
) -> None:
    """In a table of another size than any before, which is made again: a source that was killed without
    fsyncs numbers its transactions again, and what other tests left may really differ. Of a row that never
    settles before a slow replica nothing is known, and it is compared again."""
    shell = Shell(tmp_path, live_stack.stack.name, state_home)
    made = ("load", "clients=8", "--workload", "write_only", "--table-size", "3001", "--duration", "60")
    answers: list[tuple[int, str, str]] = []

    def is_known() -> bool:
        answers.append(shell.answer("check", "--rows", "replexplorer.sbtest1", "--json"))
        return answers[-1][0] != 4

    with shell.started(*made) as load:
        load.until_first_interval()
        until_true(is_known, "every row settles")
    code, out, _ = answers[-1]
    found = document(out)
    assert (code, found.verdict, found.unknown) == (0, "alike", {})
    assert found.rows >= 1_000
