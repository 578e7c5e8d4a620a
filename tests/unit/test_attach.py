"""Servers that somebody else made: what is a read, what a journal says is to be undone, how one logs in."""

from __future__ import annotations

import io
import os
import re
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock, call

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.adapters.attached import provider
from replexplorer.adapters.attached.changes import ChangeJournal, file_of, journals
from replexplorer.adapters.attached.provider import Login
from replexplorer.cli import attach
from replexplorer.cli.arguments import parse
from replexplorer.cli.attach import known_login
from replexplorer.cli.entry import Call
from replexplorer.cli.output import Output
from replexplorer.core.change.journalled import Fate, after_set, before_set, fate_of, outstanding
from replexplorer.core.dialect import attaching
from replexplorer.core.dialect.attaching import (
    FOLLOWED,
    REGISTERED,
    WHO,
    is_read,
    same_setting,
    set_back,
    setting_of,
    value_of,
)
from replexplorer.core.dialect.flavours import ALIVE, IDENTITY, Dialect
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.formats.server_url import (
    ServerUrl,
    node_names,
    parse_server_url,
    read_option_files,
    standard_files,
)
from tests.known import refused
from tests.typed import table_of
from tests.unit.test_dialect import IN_CLUSTER, IN_GROUP, MARIA, NEW, OLD

# -- statements


READS = """\
SELECT @@GLOBAL.sync_binlog AS value
  (SELECT 1)
SHOW REPLICA STATUS
SELECT 'INTO OUTFILE' AS a, `FOR` FROM `t`"""
NO_READS = """\
SET GLOBAL sync_binlog = 0
FLUSH STATUS
KILL 5
SELECTED

SELECT 'a
SELECT 1 /* INTO */
SELECT 1 # INTO
SELECT '\\\\' INTO OUTFILE 'x'
SELECT x . SUM(1)
SELECT `SUM`(1)"""


def test_what_is_not_known_to_be_a_read_is_none() -> None:
    assert [text for text in READS.splitlines() if not is_read(text)] == []
    assert [text for text in NO_READS.splitlines() if is_read(text)] == []


BLANKS = st.sampled_from([" ", "\t", "\n", "/**/", "/*x*/ ", "-- \n", "#\n"])
LOOKS = st.sampled_from([WHO.statement, FOLLOWED.statement, IDENTITY.statement, "SELECT 1"])
CLAUSES = """\
INTO OUTFILE '/tmp/x'
INTO DUMPFILE 'x'
INTO @a
FOR UPDATE
FOR SHARE OF t
LOCK IN SHARE MODE
PROCEDURE ANALYSE()
/*!50000 INTO*/ @a
/*M! FOR*/ UPDATE
; DELETE FROM t
AND @a:=1
UNION SELECT NEXT VALUE FOR s"""
CALLS = """\
AND {}('a', 1)
AND {} ('a', 1)
UNION SELECT {}() FROM t"""
FUNCTIONS = """
GET_LOCK RELEASE_ALL_LOCKS SETVAL NEXTVAL SLEEP LOAD_FILE MASTER_POS_WAIT
group_replication_set_as_primary asynchronous_connection_failover_add_source sys_exec
shop.f `f` shop.`f` `shop`.SUM
"""
NAMES_CALLED = st.sampled_from(FUNCTIONS.split()) | st.text("abcxyz_", min_size=12, max_size=20)
WRITES = st.sampled_from(CLAUSES.splitlines()) | st.builds(
    str.format, st.sampled_from(CALLS.splitlines()), NAMES_CALLED
)


@given(LOOKS, WRITES, st.lists(BLANKS, min_size=1, max_size=3), st.booleans())
def test_no_look_that_writes_or_locks_or_calls_what_is_not_known_is_a_read(
    look: str, clause: str, blanks: list[str], is_small: bool
) -> None:
    written = "".join(blanks).join(["", *(clause.lower() if is_small else clause).split(" ")])
    assert is_read(look)
    assert not is_read(look + written)


@given(st.text(alphabet="SELECT INTO FOR()'`\"/*!-#;:=@a1\\\n", max_size=40))
def test_what_is_a_read_has_none_of_what_a_server_takes_for_code(text: str) -> None:
    statement = f"SELECT {text}"
    if is_read(statement):
        code = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "", statement)
        assert not re.search(r"[;#\\'\"`]|/\*|--|:=|\b(INTO|FOR)\b", code)


SETS = """\
SET GLOBAL rpl_semi_sync_source_enabled = ON
SET GLOBAL binlog_row_image = 'FULL'
SET GLOBAL x = -1.5
SET SESSION sync_binlog = 0
SET GLOBAL a = 1, b = 2
SET PERSIST sync_binlog = 0
SET GLOBAL sync_binlog = 0; DROP TABLE t
SET GLOBAL clone_valid_donor_list = 'a:1'
SET GLOBAL x = @@y"""


def test_a_statement_that_sets_one_variable_is_understood_and_no_other(snapshot: object) -> None:
    assert {statement: setting_of(statement) for statement in SETS.splitlines()} == snapshot


def test_a_value_is_written_as_it_was_read() -> None:
    assert set_back("sync_binlog", "1") == "SET GLOBAL sync_binlog = 1"
    assert set_back("binlog_row_image", "FULL") == "SET GLOBAL binlog_row_image = 'FULL'"
    for written, *words in ((set_back, "a b", "1"), (set_back, "a", "x'; DROP"), (value_of, "1; DROP")):
        with pytest.raises(ValueError, match=r"cannot be written|is not a variable"):
            written(*words)
    assert all(same_setting(*each.split("=")) for each in ("ON=1", "off=0", "1.0=1"))
    assert not same_setting("ON", "0")


# -- what is to be undone


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 3)), max_size=30))
def test_undoing_what_a_journal_names_restores_every_variable(changes: list[tuple[str, str, int]]) -> None:
    """Whatever was set in whatever order, and whether the program was killed before a statement or after."""
    first = {(node, variable): "7" for node in "ab" for variable in "xy"}
    now, entries = dict(first), []
    for node, variable, value in changes:
        entries.append(before_set(node, variable, now[node, variable], str(value)))
        then = now | {(node, variable): str(value)}
        for killed in (dict(now), dict(then)):
            for change in outstanding(entries):
                assert fate_of(change, killed[change.node, change.variable]) is not Fate.LEFT
                killed[change.node, change.variable] = change.before
            assert killed == first
        now = then
        entries.append(after_set(node, variable, str(value)))


def test_a_journal_is_its_owner_s_and_each_entry_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path / "attached", "[::1]:3306")
    journal = ChangeJournal.open(file)
    with pytest.raises(StackUnavailable, match=r"another `attach --allow-changes` .pid unknown."):
        ChangeJournal.open(file)
    journal.append({"kind": "attach", "pid": 4711})
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
        assert "no space left" in refused(journal.append, before_set("a", "x", "1", "2"))
    journal.append(before_set("a", "y", "1", "2"))
    with pytest.raises(StackUnavailable, match="pid 4711"):
        ChangeJournal.open(file)
    journal.close()
    assert file.stat().st_mode & 0o777 == 0o600
    assert journals(file.parent) == [file]
    again = ChangeJournal.open(file)
    (change,) = again.outstanding
    assert (change.variable, change.before) == ("y", "1")
    assert [fate_of(change, now) for now in "129"] == [Fate.AS_BEFORE, Fate.RESTORED, Fate.LEFT]
    again.remove()
    again.close()
    assert journals(file.parent) == []
    for content in ("{}", "[1]", "x", '[{"kind": "set"}]'):
        file.write_text(content)
        with pytest.raises(UsageError, match=rf"{file.name} is broken: look at it"):
            assert ChangeJournal.open(file).outstanding


# -- addresses, option files, passwords


ADDRESSES = """\
mysql://dba@db.example.com:3307
mariadb://db
db:3310
mysql://a%40b@[::1]:1/shop"""


def test_an_address_is_read(snapshot: object) -> None:
    assert {text: parse_server_url(text) for text in ADDRESSES.splitlines()} == snapshot


NO_ADDRESSES = """\

mysql://
http://db
mysql://db:x
mysql://a b
-h
db?x=1
mysql://dba:secret@db
mysql://dba:secret@db:x"""


def test_what_is_no_address_is_named_without_its_password(snapshot: object) -> None:
    assert [refused(parse_server_url, text) for text in NO_ADDRESSES.splitlines()] == snapshot


def test_servers_are_called_by_their_host_and_by_the_port_where_that_is_not_enough() -> None:
    places = [ServerUrl("127.0.0.1", 1), ServerUrl("db"), ServerUrl("127.0.0.1", 2), ServerUrl("::1")]
    assert node_names(places) == ["127.0.0.1-1", "db", "127.0.0.1-2", "__1"]
    hosts = ("127.8.0.1", "localhost", "localhost.example.com")
    assert [ServerUrl(host).is_loopback for host in hosts] == [True, True, False]


def test_option_files_are_read_as_the_clients_read_them(tmp_path: Path, snapshot: object) -> None:
    (tmp_path / ".my.cnf").write_text(
        '# mine\n[mysqld]\nport=1\n[client]\nuser = dba\npassword = "a#b\\"c" # quoted\nport=3307\n'
        "quick\n!includedir more.d\n[client]\nport = 3308\nssl_ca = /ca.pem # ours\n"
    )
    assert read_option_files(standard_files({"HOME": str(tmp_path)})) == snapshot
    assert "no such option file" in refused(read_option_files, [tmp_path / "none.cnf"])


def flags(**more: object) -> Namespace:
    wanted = {"url": None, "defaults_file": None, "ssl_mode": None, "ssl_ca": None}
    return Namespace(**wanted | more)


def test_where_a_login_comes_from(tmp_path: Path, snapshot: object) -> None:
    quiet, home, file = Output(err=io.StringIO()), {"HOME": str(tmp_path)}, tmp_path / "f.cnf"
    assert "no server is named" in refused(known_login, flags(), quiet, home)
    told = []
    file.write_text("[client]\nhost=h\nuser=u\npassword=q\nssl-mode=required\n")
    for named in (flags(url="c@db:2"), flags(defaults_file=str(file))):
        source, login, *_ = known_login(named, quiet, home | {"MYSQL_PWD": "p"})
        told.append((source.place, login.user, login.password, *map(login.mode_at, ("127.0.0.1", "db"))))
    assert told == snapshot
    file.write_text("[client]\nhost=h\nssl-mode=perhaps\n")
    assert "ssl-mode=PERHAPS in the option file" in refused(known_login, named, quiet, home)


# -- finding


THERE = """\
db1      | 1 |          |
db2      | 2 | 10.0.0.1 | 1
10.0.0.2 | 2 | 10.0.0.1 | 1
db4      | 4 | db1      | 0
10.0.0.1 | 1 |          |
db3      | 3 | db2      | 2
db9      | 9 |          |
"""
"""Hosts, the server's id at each, and which source it follows, with that one's id."""


async def test_replicas_are_found_once_each_and_only_those_of_this_source(
    monkeypatch: pytest.MonkeyPatch, snapshot: object
) -> None:
    servers = {host: row for host, *row in table_of(THERE)}

    def connected(url: ServerUrl, name: str, login: Login) -> SimpleNamespace:
        async def query(statement: str, *_: object, **__: object) -> list[dict[str, object]]:
            server_id, source, source_id = servers[url.host]
            follows = {"Source_Host": source, "Source_Server_Id": int(source_id or 0)}
            return {
                WHO.statement: [{"server_id": int(server_id), "hostname": f"box{server_id}"}],
                REGISTERED.statement: [{"Host": host, "Port": 3306} for host in servers if host != "db1"],
                FOLLOWED.statement: [follows] if source else [],
            }.get(statement, [])

        return SimpleNamespace(node=name, query=query, close=AsyncMock())

    monkeypatch.setattr(provider, "connection_to", connected)
    told = []
    for replicas in ([], [ServerUrl("db3")]):
        there = provider.AttachedProvider(ServerUrl("db1"), replicas, Login("u", "p"), writes=bool(replicas))
        told.append(({node.name: node.also for node in await there.nodes()}, there.warnings))
    assert told == snapshot


OPENS = """\
                                       | opens
--allow-changes --for 60               | opens
--json                                 |
--waits                                |
--lag 10                               |
--format prometheus                    |
--set sync_binlog=0 --allow-changes    |
"""


def test_the_dashboard_opens_on_a_terminal_unless_something_else_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for terminal in (True, False):
        for stream in ("stdin", "stdout"):
            monkeypatch.setattr(f"sys.{stream}", Mock(**{"isatty.return_value": terminal}))
        for words, opens in table_of(OPENS):
            asked = Call(parse(["attach", *words.split()]), Output())
            assert attach.is_wanted(asked) is (terminal and bool(opens)), words


@pytest.mark.parametrize(
    "dialect", [NEW, OLD, MARIA, IN_GROUP, IN_CLUSTER], ids=lambda each: each.capabilities.title
)
def test_all_that_a_look_asks_is_a_read(dialect: Dialect) -> None:
    there = [*(getattr(dialect, name) for name in dir(dialect)), *vars(attaching).values(), IDENTITY, ALIVE]
    there += [dialect.setting("sync_binlog"), dialect.sent("h"), dialect.behind(""), value_of("sync_binlog")]
    there += [dialect.timed.question(account) for account in ("a", None)]
    asked = [each.statement for each in there if isinstance(each, Question)]
    assert len(asked) > 20
    assert [statement for statement in asked if not is_read(statement)] == []
    changes = [dialect.set("sync_binlog", 5), *dialect.register]
    changes += [dialect.set("wait_point", "after_commit")] if dialect.semi_sync is not None else []
    assert None not in map(setting_of, changes)


NAMES = """\
other | db:3306 |
other | yes     | that is not its name: nothing was changed
other |         | that is not its name: nothing was changed
other | nobody  | has to be typed: attach_allowed =
db    | nobody  |
"""
"""Which server may be changed, what is typed, if anybody can be asked, and what is said."""


async def test_a_server_is_changed_after_its_name_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed, answer, said in table_of(NAMES):
        can_ask, typed, err = answer != "nobody", AsyncMock(return_value=answer), io.StringIO()
        monkeypatch.setattr(Output, "can_ask", can_ask)
        monkeypatch.setattr(Output, "typed", typed)
        monkeypatch.setenv("REPLEXPLORER_ATTACH_ALLOWED", f'["{allowed}:3306"]')
        with pytest.raises(StackUnavailable, match=said) if said else nullcontext():
            await attach.ask_for_the_name(Call(flags(config=None, stack=None), Output(err=err)), "db:3306")
        assert typed.await_args_list == [call("Type db:3306 to go on:")] * can_ask
        assert ("db:3306 is not among `attach_allowed`" in err.getvalue()) is can_ask
