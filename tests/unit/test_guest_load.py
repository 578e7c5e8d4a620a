"""A load on servers that somebody else made: its schema is known again or left, and what is said of it."""

from __future__ import annotations

import io
import re
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.attached.journal import ChangeJournal
from replexplorer.adapters.attached.own_schema import make_schema
from replexplorer.adapters.attached.undo import undo
from replexplorer.cli.guest_load import load_arguments, load_line, render_load, settings_of
from replexplorer.cli.output import Output
from replexplorer.cli.revert import narrate_undone
from replexplorer.core.change.journalled import Fate, after_dropping, before_making, before_set, outstanding
from replexplorer.core.dialect.attaching import is_read
from replexplorer.core.dialect.own_schema import DROP, LOOK, NO_LONG_WAIT, SCHEMA, SchemaFound, make
from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import ServerRefused, ServerUnreachable, StackUnavailable, UsageError
from replexplorer.core.load.load_view import LoadView
from replexplorer.core.load.workload import DATABASE, LEDGER, WORKLOADS
from replexplorer.formats.json.attach import AttachLoad
from replexplorer.ports import LoadTarget

MARK = "0123456789abcdef pid 7 somewhere"


class Theirs:
    """A source that knows one schema: which tables it has, and by which mark."""

    node = "db1"

    def __init__(self, *, tables: int | None = None, mark: str | None = None) -> None:
        self.tables, self.mark = tables, mark
        self.follows: str | None = None
        self.read_only = 0
        self.changes: list[str] = []
        self.fails: dict[str, Exception] = {}

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """See `ports.Sql`."""
        for begin, error in self.fails.items():
            if statement.startswith(begin):
                raise error
        if statement == LOOK.statement:
            there = self.tables is not None
            return [{"there": int(there), "held": self.tables or 0, "mark": self.mark}]
        if statement.startswith("SHOW"):
            return [] if self.follows is None else [{"Source_Host": self.follows, "Source_Server_Id": 9}]
        if statement.startswith("SELECT") and "read_only" in statement:
            return [{"value": self.read_only}]
        self.changes.append(statement)
        if statement.startswith("CREATE DATABASE"):
            self.tables = 0
        elif statement.startswith("CREATE TABLE"):
            (self.mark,) = re.findall("'(.*)'", statement)
            self.tables = 1
        elif statement == DROP:
            self.tables = self.mark = None
        return []

    async def close(self) -> None:
        """See `ports.Sql`."""

    def has_schema(self) -> bool:
        """Whether it is there."""
        return self.tables is not None


def test_a_schema_is_outstanding_from_before_it_is_made_until_it_was_dropped() -> None:
    entries = [before_set("db1", "sync_binlog", "1", "0"), before_making("db1", SCHEMA, MARK)]
    schema, variable = outstanding(entries)
    assert (schema.is_schema, schema.mark, schema.variable) == (True, MARK, f"schema {SCHEMA}")
    assert (variable.is_schema, variable.variable) == (False, "sync_binlog")
    assert [each.variable for each in outstanding([*entries, after_dropping("db1", SCHEMA)])] == [
        "sync_binlog"
    ]


async def test_the_journal_has_the_mark_before_the_server_has_the_schema(tmp_path: Path) -> None:
    journal, server = ChangeJournal.open(tmp_path / "j.jsonl"), Theirs()
    server.fails["CREATE DATABASE"] = ServerUnreachable("gone")
    with pytest.raises(ServerUnreachable):
        await make_schema(journal, server)
    (left,) = journal.outstanding
    assert left.is_schema
    assert server.changes == []
    server.fails.clear()
    (undone,) = await undo(journal, lambda _: server)
    assert undone.fate is Fate.AS_BEFORE
    assert not journal.file.exists()
    journal.close()


async def test_what_a_killed_attach_made_is_dropped_from_its_journal(tmp_path: Path) -> None:
    file, server = tmp_path / "j.jsonl", Theirs()
    journal = ChangeJournal.open(file)
    await make_schema(journal, server)
    journal.close()
    assert server.tables == 1
    server.tables = 2
    left = ChangeJournal.open(file)
    (undone,) = await undo(left, lambda _: server)
    assert undone.fate is Fate.RESTORED
    assert not server.has_schema()
    said = io.StringIO()
    narrate_undone(Output(err=said), "db:3306", [undone])
    assert f"schema {SCHEMA} is gone" in said.getvalue()
    left.close()


async def test_one_that_was_cut_short_between_schema_and_mark_is_dropped_too(tmp_path: Path) -> None:
    journal, server = ChangeJournal.open(tmp_path / "j.jsonl"), Theirs()
    server.fails["CREATE TABLE"] = ServerUnreachable("gone")
    with pytest.raises(ServerUnreachable):
        await make_schema(journal, server)
    server.fails.clear()
    assert server.tables == 0
    await undo(journal, lambda _: server)
    assert not server.has_schema()
    journal.close()


class Blocked(Theirs):
    """A source whose commits wait for an acknowledgement that does not come, while semi-sync is on."""

    semi_sync = "ON"

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """See `ports.Sql`."""
        if statement.startswith("SELECT @@"):
            return [{"value": self.semi_sync}]
        if statement.startswith("SET GLOBAL"):
            self.semi_sync = statement.rpartition(" ")[2].strip("'")
        elif statement == DROP and self.semi_sync == "ON":
            raise ServerUnreachable("db1 did not answer within 12 s")
        return await super().query(statement, args, deadline_s=deadline_s)


async def test_settings_are_back_before_the_schema_is_dropped(tmp_path: Path) -> None:
    """Dropping it may wait for what was set, and clients of the server wait with it."""
    journal, server = ChangeJournal.open(tmp_path / "j.jsonl"), Blocked(tables=1, mark=MARK)
    await journal.note(before_set("db1", "rpl_semi_sync_source_enabled", "OFF", "ON"))
    await journal.note(before_making("db1", SCHEMA, MARK))
    undone = await undo(journal, lambda _: server)
    assert [each.fate for each in undone] == [Fate.RESTORED, Fate.RESTORED]
    assert (server.semi_sync, server.has_schema()) == ("OFF", False)
    journal.close()


async def test_a_machine_of_any_name_may_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "bücher'; x")
    journal, server = ChangeJournal.open(tmp_path / "j.jsonl"), Theirs()
    await make_schema(journal, server)
    assert server.mark is not None
    assert server.mark.endswith("b_cher__ x")
    journal.close()


async def test_a_schema_whose_commits_still_wait_stays_in_the_journal(tmp_path: Path) -> None:
    """A commit that no replica acknowledges holds its table: the schema stays in the journal, in one line."""
    journal, server = ChangeJournal.open(tmp_path / "j.jsonl"), Theirs()
    await journal.note(before_set("db1", "read_only", "1", "0"))
    await make_schema(journal, server)
    server.fails["DROP"] = ServerRefused(1205, "db1: 1205 Lock wait timeout exceeded")
    variable, schema = await undo(journal, lambda _: server)
    assert (variable.fate, schema.fate) == (Fate.RESTORED, Fate.UNREACHED)
    assert server.changes[-2:] == ["SET GLOBAL read_only = 1", NO_LONG_WAIT]
    said = io.StringIO()
    narrate_undone(Output(err=said), "db:3306", [schema])
    assert said.getvalue().count("\n") == 1
    assert "it may wait for a replica's acknowledgement): `replexplorer revert`" in said.getvalue()
    assert [each.is_schema for each in journal.outstanding] == [True]
    server.fails.clear()
    (dropped,) = await undo(journal, lambda _: server)
    assert (dropped.fate, server.has_schema()) == (Fate.RESTORED, False)
    journal.close()


async def test_another_schema_of_its_name_is_left_and_named(tmp_path: Path) -> None:
    journal, server = ChangeJournal.open(tmp_path / "j.jsonl"), Theirs()
    await make_schema(journal, server)
    server.mark = "somebody else's"
    (undone,) = await undo(journal, lambda _: server)
    assert (undone.fate, server.tables) == (Fate.LEFT, 1)
    said = io.StringIO()
    narrate_undone(Output(err=said), "db:3306", [undone])
    assert "it is left" in said.getvalue()
    journal.close()


@pytest.mark.parametrize(
    ("server", "why"),
    [(Theirs(tables=3), "this program did not make it"), (Theirs(tables=3, mark=MARK), "pid 7 somewhere")],
    ids=["somebody's", "another load's"],
)
async def test_a_schema_that_is_there_is_never_taken(tmp_path: Path, server: Theirs, why: str) -> None:
    journal = ChangeJournal.open(tmp_path / "j.jsonl")
    with pytest.raises(StackUnavailable, match=why):
        await make_schema(journal, server)
    assert (server.changes, journal.outstanding) == ([], ())
    journal.close()


async def test_rows_are_written_only_where_all_others_get_them(tmp_path: Path) -> None:
    journal, server = ChangeJournal.open(tmp_path / "j.jsonl"), Theirs()
    server.read_only = 1
    with pytest.raises(UsageError, match="read-only"):
        await make_schema(journal, server)
    server.follows = "db0"
    with pytest.raises(UsageError, match="replica of db0"):
        await make_schema(journal, server)
    assert (server.changes, journal.outstanding) == ([], ())
    journal.close()


async def test_a_refusal_leaves_nothing_to_undo(tmp_path: Path) -> None:
    journal, server = ChangeJournal.open(tmp_path / "j.jsonl"), Theirs()
    server.fails["CREATE DATABASE"] = ServerRefused(1044, "1044 denied")
    with pytest.raises(ServerRefused):
        await make_schema(journal, server)
    assert journal.outstanding == ()
    journal.close()


def test_the_look_is_a_read_and_a_mark_cannot_leave_its_text() -> None:
    assert is_read(LOOK.statement)
    assert not any(map(is_read, (*make(MARK), DROP)))
    for mark in ("short", "x'; DROP DATABASE mysql; --", "a" * 201):
        with pytest.raises(ValueError, match="is no mark"):
            make(mark)
    assert not SchemaFound(True, 4, None).was_made_as(MARK)
    assert not SchemaFound(False, 0, None).was_made_as(MARK)


def test_no_workload_that_is_offered_names_a_schema() -> None:
    for name, workload in WORKLOADS.items():
        if name != LEDGER:
            texts = [statement.text for statement in workload.statements]
            assert workload.table is not None
            assert not [text for text in (*texts, workload.table.ddl) if f"{DATABASE}." in text], name


def test_the_load_is_bounded_by_what_was_typed() -> None:
    parser = ArgumentParser()
    load_arguments(parser)
    settings = settings_of(parser.parse_args(["--load", "50"]))
    assert (settings.mode, settings.rate_tps, settings.clients, settings.catches_up) == (
        "open",
        50.0,
        8,
        False,
    )
    for words in (["--load", "5001"], ["--load", "0"], ["--load", "5", "--clients", "65"]):
        with pytest.raises(SystemExit):
            parser.parse_args(words)


def test_a_target_crosses_to_the_process_whole() -> None:
    target = LoadTarget("h", 1, "u", "p", "direct", {}, SCHEMA, "REQUIRED", "/ca.pem")
    assert LoadTarget(**asdict(target)) == target


def test_its_figures_stand_beside_the_server_s() -> None:
    view = LoadView(8, 8, "update_index", 49.8, rate_asked_tps=50.0, mode="open")
    assert load_line(view).startswith("load 49.8/50 TPS")
    assert load_line(LoadView(8, 0, "insert", None, state="stopped", rate_asked_tps=50.0)) == (
        "load stopped, 50 TPS asked"
    )
    report = AttachLoad(
        database=SCHEMA, replicates_to=["db2"], workload="insert", clients=8, table_size=10_000,
        rate_asked_tps=50.0, seconds=10.0, commits=498, tps=49.8, server_tps=61.2, response_p50_ms=2.1,
        response_p95_ms=3.0, response_p99_ms=8.3, response_max_ms=9.0, errors=0, unknown=0, dropped=2,
    )  # fmt: skip
    text = render_load(report)
    assert "49.8 TPS of 50 asked" in text
    assert "61.2 TPS of all its clients" in text
