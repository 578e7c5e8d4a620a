"""From digests to a workload's file: statements, transactions, weights, and what is left out."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.dialect.schema import DigestCount, DigestKey, SeenStatement
from replexplorer.core.errors import ReplexplorerError, ServerRefused
from replexplorer.core.load.script import read_script
from replexplorer.core.tables import (
    Column,
    Domain,
    FilledShape,
    Index,
    TableName,
    TableShape,
    domains_of,
    fill_statement,
)
from replexplorer.engine.workload_capture.digest import NotImitated, Schema, Writer
from replexplorer.engine.workload_capture.watch import Captured, Histories, PreparedTally, capture
from replexplorer.engine.workload_capture.workload_file import (
    TransactionShape,
    seen_whole,
    weigh,
    write_workload,
)
from tests.fakes.servers import rows
from tests.typed import fields, table_of


def shape_of(name: TableName, columns: str, primary: str, *indexes: str, size: int = 10_000) -> TableShape:
    """A table of so many rows: its columns, those of its primary key, and other columns with an index."""
    made = (Column(column, kind, **fields(more)) for column, kind, more in table_of(columns))
    keys = [Index("PRIMARY", tuple(primary.split()), unique=True)] if primary else []
    return TableShape(
        name, size, size * 220, tuple(made), (*keys, *(Index(each, (each,)) for each in indexes))
    )


SBTEST = shape_of(
    TableName("sandbox", "sbtest1"),
    """\
    id  | int       | is_auto_increment=True
    k   | int       |
    c   | char(120) |
    pad | char(60)  |""",
    "id",
    "k",
)
ORDERS = shape_of(
    TableName("shop", "orders"),
    """\
    order_no | bigint unsigned           |
    line     | int                       |
    email    | varchar(80)               |
    made     | datetime                  |
    state    | enum('new','paid','sent') |
    price    | decimal(8,2)              |
    note     | text                      | nullable=True
    name     | varchar(20)               |""",
    "order_no line",
    "email",
    "made",
)
FILLED = [FilledShape(each, 10_000, 220) for each in (SBTEST, ORDERS)]
SBTEST_DDL = """CREATE TABLE `sbtest1` (
  `id` int NOT NULL AUTO_INCREMENT,
  `k` int NOT NULL DEFAULT '0',
  `c` char(120) NOT NULL DEFAULT '' COMMENT 'it''s a; text',
  `pad` char(60) COLLATE utf8mb4_0900_ai_ci NOT NULL DEFAULT '',
  PRIMARY KEY (`id`),
  KEY `k_1` (`k`),
  CONSTRAINT `fk` FOREIGN KEY (`k`) REFERENCES `other` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=10001 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci COMMENT='x'
/*!50100 PARTITION BY HASH (`id`)
PARTITIONS 4 */"""


def schema() -> Schema:
    return Schema({each.shape.name: each for each in FILLED}, domains_of(FILLED))


def written(digests: str, counted: str = "") -> str:
    """The block of one transaction, of digests on the sandbox that were each counted like this."""
    writer = Writer(schema(), {"shop": "shop_imitation"}, "sandbox")
    lines = []
    for text in digests.split(" ; "):
        made = writer.write(DigestKey("sandbox", text), DigestCount(1, **fields(counted)))
        lines += [*made.sets, f"{made.text};"]
    return "\n".join(lines)


DIGESTS = r"""
SELECT `c` FROM `sbtest1` WHERE `id` = ? |
SELECT SUM ( `k` ) FROM `sbtest1` WHERE `id` BETWEEN ? AND ? | examined=100 sent=1
SELECT `c` FROM `sandbox` . `sbtest1` AS `s` WHERE `s` . `id` IN (...) | examined=3 sent=3
UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ? |
UPDATE `sbtest1` SET `c` = ? WHERE `id` = ? |
INSERT INTO `sbtest1` ( `id` , `k` , `c` , `pad` ) VALUES (...) |
INSERT INTO `sbtest1` ( `k` , `pad` ) VALUES (...) /* , ... */ | affected=2
INSERT INTO `shop` . `orders` ( `order_no` , `line` , `made` , `state` ) VALUES ( ?, ... , NOW ( ) , ? ) |
SELECT * FROM `shop` . `orders` WHERE `order_no` = ? AND `line` = ? FOR UPDATE |
SELECT * FROM `shop` . `orders` WHERE `email` = ? AND `made` BETWEEN ? AND ? LIMIT ? | examined=28 sent=5
SELECT `id` FROM `sbtest1` WHERE `k` >= ? AND `k` < ? | examined=10 sent=10
SELECT `id` FROM `sbtest1` WHERE `id` > ? | examined=10 sent=10
DELETE FROM `sbtest1` WHERE `id` = ? ; INSERT INTO `sbtest1` ( `id` , `k` ) VALUES (...) |
INSERT INTO `shop` . `orders` ( NAME , `line` ) VALUES (...) |
SELECT `line` FROM `shop` . `orders` WHERE NAME = ? |
"""


def test_a_digest_is_a_statement_again(snapshot: object) -> None:
    """A row that was deleted is the one that is inserted; a column may be called as a keyword."""
    blocks = {digests: written(digests, counted) for digests, counted in table_of(DIGESTS.strip())}
    assert blocks == snapshot
    assert all(read_script(block, "t.sql").workload.statements for block in blocks.values())


@given(st.text(alphabet="`abSELECTFROMWHERE.,?()=*/ \n'\"", max_size=80))
def test_no_text_breaks_the_writer(text: str) -> None:
    with suppress(NotImitated):
        written(f"SELECT {text} FROM `sbtest1`")


# -- rows


def test_rows_have_values_that_statements_find(snapshot: object) -> None:
    assert fill_statement(FILLED[1], schema().domains[ORDERS.name], 7, 8, Random(1)) == snapshot


MOST = """\
tinyint           | 127
smallint unsigned | 65535
int               | 2147483647
bigint            | 4611686018427387903
decimal(5,2)      | 999
enum('a','b')     | 2
year              | 2030"""


@pytest.mark.parametrize("primary", ["", "a"])
def test_numbers_stay_within_their_type_and_there_is_room_for_every_row(primary: str) -> None:
    for kind, most in table_of(MOST):
        for size in (1, 100, 1000, 10**9, 10**19):
            table = FilledShape(shape_of(ORDERS.name, f"a | {kind} |", primary), size)
            domain = domains_of([table])[ORDERS.name]["a"]
            assert domain.high == (int(most) if kind in ("enum('a','b')", "year") else min(size, int(most)))
            assert 0 <= domain.low <= int(domain.of_row(size, Random(2))) <= domain.high


def test_a_reference_is_to_a_row_of_its_parent() -> None:
    pets = replace(shape_of(ORDERS.name, "owner | int |", ""), foreign_keys={"owner": SBTEST.name})
    found = domains_of([FilledShape(SBTEST, 50), FilledShape(pets, 900)])
    assert found[pets.name]["owner"] == Domain(1, 50)


# -- counters


def test_prepared_statements_count_also_those_that_went_away() -> None:
    key = DigestKey("d", "SELECT ?")
    tally = PreparedTally()
    for look in ("a=5", "a=8 b=4", "b=10", "b=1"):
        counted = fields(look).items()
        tally.add({name: (key, DigestCount(times, times / 2, times)) for name, times in counted})
    # 3 of the first, 4 of the second and 6 more; then it was prepared again, and 1 is new.
    assert tally.counts == {key: DigestCount(14, 7.0, 14, prepared=14)}


# -- transactions

KEYS = {name: DigestKey("d", f"SELECT `{name}` FROM `t`") for name in "ABCD"}
NAMES = {each.text: each for each in KEYS.values()}


def history(statements: str, first: int = 1) -> list[SeenStatement]:
    """A session's `begin`, `commit`, and the letters of digests, each with the number of its transaction."""
    found = []
    for number, word in enumerate(statements.split(), first):
        if (key := KEYS.get(word[0])) is None:
            found.append(SeenStatement(7, number, word))
        else:
            found.append(SeenStatement(7, number, "", key.text, int(word[1:]) if word[1:] else None))
    return found


def kind(text: str) -> TransactionShape:
    """`begin A B rollback`, or a statement alone."""
    words = text.split()
    return TransactionShape(
        tuple(KEYS[word] for word in words if word in KEYS), "begin" in words, "rollback" in words
    )


def kinds(text: str) -> dict[TransactionShape, int]:
    """`begin A B commit 40, C 2`: kinds with how often each comes."""
    each = (part.rpartition(" ") for part in text.split(",") if part)
    return {kind(words): int(times) for words, _, times in each}


WHOLE = """\
A0 commit begin A0 B0 B0 commit C begin D0 rollback begin A0 | begin A B B commit 1, C 1, begin D rollback 1
begin A1 D B18 commit                                        | D 1
begin A2 B2 commit; D commit B49 commit D                    | begin A B commit 1, D 2"""


def test_only_whole_transactions_are_seen() -> None:
    """Where the second history lacks an end, and the last a begin."""
    for runs, whole in table_of(WHOLE):
        assert seen_whole([history(run) for run in runs.split(";")], NAMES) == kinds(whole)


LOOKS = """\
1 begin A B; 3 B C D; 5 D commit             | 1 2 3 4 5
1 begin A B; 3 B C D; 5 D commit; 90 begin A | 1 2 3 4 5, 90
7 D, 2 commit begin A B commit               | 2 3 4 5 6
1 B commit, 9 B, 4 A B commit                |"""


def test_looks_that_overlap_are_one_stretch_but_for_their_newest() -> None:
    """A ring that went on by one is read from its middle; one that the session had gone round meanwhile is
    left out."""
    for looks, stretches in table_of(LOOKS):
        histories = Histories()
        for look in looks.split(";"):
            pieces = (piece.strip().partition(" ") for piece in look.split(","))
            histories.add([each for first, _, words in pieces for each in history(words, int(first))])
        found = (" ".join(str(each.number) for each in run) for run in histories.runs)
        assert ", ".join(found) == stretches


WEIGHED = """\
A 94, B 100, D 200 | begin A B commit 40, D 60 | 0.06
A 94, B 100, D 200 | begin A B commit 40, D 60 | 0
A 1000, B 100      |                           | 0
A 30, B 10         | A 3, B 1                  | 0
A 1000, B 700, C 600, D 20 | begin A B commit 70, begin A C C commit 30, D 2 | 0
A 1001, B 1, C 2000, D 9   | begin A B commit 1, begin A C C commit 1000, D 9 | 0"""


def test_a_mix_that_was_seen_fairly_keeps_its_weights_and_what_is_left_over_is_a_guess(
    snapshot: object,
) -> None:
    """But for statements at the edge of the time, which are no kind of transaction."""
    found = []
    for counted, seen, share in table_of(WEIGHED):
        found.append(f"{counted}: {seen} {share}")
        counts = {shape.statements[0]: times for shape, times in kinds(counted).items()}
        for each in weigh(counts, kinds(seen), float(share)):
            statements = "".join(key.text[8] for key in each.shape.statements)
            found.append(f"{each.times:.0f} {statements}{' guessed' * each.is_guess}")
    assert found == snapshot


@given(
    st.dictionaries(
        st.lists(st.sampled_from("ABCD"), min_size=1, max_size=4).map(" ".join),
        st.integers(1, 500),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 50),
    st.sampled_from([0.0, 0.1]),
)
def test_weights_make_statements_as_frequent_as_they_were(
    mix: dict[str, int], every: int, reading_share: float
) -> None:
    """Whatever was seen of a mix, each statement comes as often as it was counted, but for what the server
    did while it was asked for its counts."""
    counts, seen = Counter[DigestKey](), Counter[TransactionShape]()
    for statements, times in mix.items():
        shape = kind(f"begin {statements}")
        for key in shape.statements:
            counts[key] += times
        if times >= every:
            seen[shape] += times // every
    made: defaultdict[DigestKey, float] = defaultdict(float)
    for each in weigh(counts, seen, reading_share):
        for key in each.shape.statements:
            made[key] += each.times
    for key, times in counts.items():
        assert made[key] >= (0.98 - reading_share) * times - 1


# -- the whole

COUNTED = """\
60   | sandbox | BEGIN
40   | sandbox | START TRANSACTION READ ONLY
90   | sandbox | COMMIT
10   | sandbox | ROLLBACK
1000 | sandbox | SELECT `c` FROM `sbtest1` WHERE `id` = ?
100  | sandbox | UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?
4    | sandbox | SET NAMES ?
2    | sandbox | ROLLBACK TO SAVEPOINT `a`
1    | sandbox | SELECT @@ `version_comment` LIMIT ?
3    | sandbox | SELECT * FROM `gone`
13   | sandbox | CALL `pay` (...)
17   | sandbox | TRUNCATE TABLE `orders`
19   | sandbox | SELECT `a` FROM `t` WHERE `b` IN ( SELECT ...
23   | sandbox | SELECT * FROM `performance_schema` . `threads`
29   |         | SELECT * FROM `orders`
11   | sandbox |"""


def captured(counted: str, executions: int) -> Captured:
    """What a server counted in 10 s, of which it keeps no history."""
    digests = {
        DigestKey(database, text): DigestCount(int(times), float(times))
        for times, database, text in table_of(counted)
    }
    tables, ddl = {SBTEST.name: SBTEST}, {SBTEST.name: SBTEST_DDL}
    return Captured("MySQL 8.4.6", "db.example:3306", 10.0, digests, tables, ddl, executions=executions)


def test_every_statement_is_in_the_file_or_in_what_is_left_out(snapshot: object) -> None:
    """Tables that are made smaller are named; they are without what made-up rows would break."""
    found = write_workload(captured(COUNTED, executions=5), most_rows=500)
    assert found.workload == snapshot
    assert (found.statements, found.imitated) == (1227, 1100)


def test_what_to_try_where_nothing_can_be_imitated(snapshot: object) -> None:
    """MariaDB keeps no text of prepared statements, and sysbench prepares all of its own."""
    assert [write_workload(captured("", executions)).remedy for executions in (500, 0)] == snapshot


# A capture asks, and changes nothing: what it makes of a server's answers, and of what a server lacks

SELECT = "SELECT `name` FROM `item` WHERE `id` = ?"
WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|SET|ALTER|DROP|TRUNCATE|CALL|FLUSH|GRANT)\b(?! TABLE)")
TABLE = "table_schema='shop' table_name='item'"
ANSWERS = f"""\
variables_metadata                |
@@GLOBAL.performance_schema AS    | is_on=1
setup_consumers                   | name='global_instrumentation' enabled='YES'
setup_consumers                   | name='thread_instrumentation' enabled='YES'
setup_consumers                   | name='events_statements_history' enabled='YES'
setup_consumers                   | name='statements_digest' enabled='YES'
information_schema.schemata       | name='shop'
_by_digest                        | db='shop' digest='abc' ps=5_000_000_000 examined=1 sent=1 affected=0
prepared_statements_instances     |
performance_schema.threads WHERE  | id=7
information_schema.tables         | {TABLE} engine='InnoDB' table_rows=40 bytes=99
information_schema.columns        | {TABLE} column_name='id' column_type='int'
information_schema.columns        | {TABLE} column_name='name' column_type='varchar(20)'
information_schema.statistics     | {TABLE} index_name='PRIMARY' column_name='id' non_unique=0
key_column_usage                  |"""
OF_A_STATEMENT = "session=7 event='statement/sql/select' db='shop' digest='abc' nesting=None parent=None"
OF_A_COLUMN = "column_default=None extra='' collation_name=None is_nullable='NO' column_comment=''"
OF_AN_INDEX = "sub_part=None collation='A' index_type='BTREE'"
"""What rows of these tables have as well."""
Answer = Sequence[Mapping[str, Any]] | ServerRefused


class Server:
    """Answers by what a statement is about; a session executes one statement between any two looks."""

    node = "db.example:3306"

    def __init__(self, text: str = SELECT, /, **otherwise: Answer) -> None:
        self.asked: list[str] = []
        self._times = 100
        answers: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for mark, row in table_of(ANSWERS):
            answers[mark] += [fields(f"{row} {OF_A_COLUMN} {OF_AN_INDEX}")] if row else []
        answers["_by_digest"][0]["text"] = text
        self._answers: dict[str, Answer] = {
            "SHOW GLOBAL VARIABLES": rows({"version": "8.4.6", "performance_schema": "ON"}),
            "SHOW CREATE TABLE": [{"Table": "item", "Create Table": "CREATE TABLE `item` (\n  `id` int\n)"}],
            "events_statements_summary_global": [{} if text.startswith("EXECUTE") else {"times": 0}],
            "events_statements_history": [fields(f"{OF_A_STATEMENT} number={number}") for number in range(5)],
            **answers,
            **otherwise,
        }

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Mapping[str, Any]]:
        self.asked.append(statement)
        self._times += 50 * ("_by_digest" in statement)
        answer = next(answer for mark, answer in self._answers.items() if mark in statement)
        if isinstance(answer, ServerRefused):
            raise answer
        return [{"times": self._times, **row} for row in answer]

    async def close(self) -> None:
        """Nothing to close."""

    async def captured(self, *databases: str) -> Captured:
        return await capture(self, address=self.node, seconds=0.05, databases=databases)


async def test_what_came_between_two_looks_becomes_a_file_and_nothing_is_changed() -> None:
    server = Server()
    captured = await server.captured()
    assert {key: count.times for key, count in captured.digests.items()} == {DigestKey("shop", SELECT): 50}
    assert captured.seconds >= 0.05
    found = write_workload(captured)
    assert [(each.statements, each.boundaries) for each in found.transactions] == [((SELECT,), "seen")]
    assert "\\weight 50\nSELECT `name` FROM `item` WHERE `id` = :rand(1,40);" in (found.workload or "")
    assert "\\database shop_imitation" in (found.workload or "")
    assert [text for text in server.asked if WRITES.search(text) or not re.match(r"SELECT|SHOW", text)] == []


async def test_an_execution_among_the_digests_is_of_a_prepared_statement() -> None:
    captured = await Server(f"EXECUTE {SELECT}").captured()
    assert [(key.text, count.prepared) for key, count in captured.digests.items()] == [(SELECT, 50)]
    found = write_workload(captured)
    assert "\\prepared\nSELECT `name` FROM `item` WHERE `id` = :rand(1,40);" in (found.workload or "")
    assert not found.left_out


LACKING: dict[str, Answer] = {
    "@@GLOBAL.performance_schema AS": [{"is_on": 0}],
    "setup_consumers": [],
    "_by_digest": ServerRefused(1142, "SELECT command denied"),
}


async def test_what_a_server_lacks_is_said(snapshot: object) -> None:
    told = []
    for server, database in (
        *((Server(**{mark: LACKING[mark]}), "shop") for mark in LACKING),
        (Server(), "crm"),
    ):
        with pytest.raises(ReplexplorerError) as caught:
            await server.captured(database)
        told.append(repr(caught.value))
    assert told == snapshot
