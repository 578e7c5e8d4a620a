"""From digests to a workload's file: statements, transactions, weights, and what is left out."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.dialect.schema import DigestCount, DigestKey, SeenStatement
from replexplorer.core.errors import MissingPiece, ReplexplorerError, ServerRefused, UsageError
from replexplorer.core.load.captured import NO_TEXT
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
from replexplorer.engine.workload_capture import digest as digests
from replexplorer.engine.workload_capture.digest import NotImitated, Schema, Writer, tables_of
from replexplorer.engine.workload_capture.watch import Captured, Histories, PreparedTally, capture
from replexplorer.engine.workload_capture.workload_file import (
    NO_DIGEST,
    TransactionShape,
    seen_whole,
    table_body,
    weigh,
    write_workload,
)
from tests.fakes.servers import rows

SBTEST = TableName("sandbox", "sbtest1")
SBTEST_SHAPE = TableShape(
    SBTEST,
    10_000,
    10_000 * 220,
    (
        Column("id", "int", is_auto_increment=True),
        Column("k", "int"),
        Column("c", "char(120)"),
        Column("pad", "char(60)"),
    ),
    (
        Index("PRIMARY", ("id",), unique=True),
        Index("k_1", ("k",)),
    ),
)
ORDERS = TableName("shop", "orders")
ORDERS_SHAPE = TableShape(
    ORDERS,
    2_000_000,
    2_000_000 * 300,
    (
        Column("order_no", "bigint unsigned"),
        Column("line", "int"),
        Column("email", "varchar(80)"),
        Column("made", "datetime"),
        Column("state", "enum('new','paid','sent')"),
        Column("price", "decimal(8,2)"),
        Column("note", "text", nullable=True),
    ),
    (
        Index("PRIMARY", ("order_no", "line"), unique=True),
        Index("by_email", ("email",)),
        Index("by_made", ("made",)),
    ),
)
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


def schema_of(*tables: TableShape, rows: int = 10_000) -> Schema:
    filled = [FilledShape(each, rows, 220) for each in tables]
    return Schema({each.shape.name: each for each in filled}, domains_of(filled))


SCHEMA = schema_of(SBTEST_SHAPE, ORDERS_SHAPE)


def written(text: str, database: str = "sandbox", means: DigestCount | None = None) -> tuple[str, list[str]]:
    writer = Writer(SCHEMA, {"sandbox": "sandbox_imitation", "shop": "shop_imitation"}, "sandbox")
    made = writer.write(DigestKey(database, text), means or DigestCount(1))
    return made.text, made.sets


@pytest.mark.parametrize(
    ("text", "means", "statement", "sets"),
    [
        (
            "SELECT `c` FROM `sbtest1` WHERE `id` = ?",
            DigestCount(1),
            "SELECT `c` FROM `sbtest1` WHERE `id` = :rand(1,10000)",
            [],
        ),
        (
            "SELECT SUM ( `k` ) FROM `sbtest1` WHERE `id` BETWEEN ? AND ?",
            DigestCount(1, examined=100, sent=1),
            "SELECT SUM(`k`) FROM `sbtest1` WHERE `id` BETWEEN :v1 AND :v2",
            ["\\set v1 rand(1,9901)", "\\set v2 :v1 + 99"],
        ),
        (
            "SELECT `c` FROM `sandbox` . `sbtest1` AS `s` WHERE `s` . `id` IN (...)",
            DigestCount(1, examined=3, sent=3),
            "SELECT `c` FROM `sbtest1` AS `s`"
            " WHERE `s`.`id` IN(:rand(1,10000), :rand(1,10000), :rand(1,10000))",
            [],
        ),
        (
            "UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?",
            DigestCount(1),
            "UPDATE `sbtest1` SET `k` = `k` + 1 WHERE `id` = :rand(1,10000)",
            [],
        ),
        (
            "UPDATE `sbtest1` SET `c` = ? WHERE `id` = ?",
            DigestCount(1),
            "UPDATE `sbtest1` SET `c` = :text(120) WHERE `id` = :rand(1,10000)",
            [],
        ),
        (
            "INSERT INTO `sbtest1` ( `id` , `k` , `c` , `pad` ) VALUES (...)",
            DigestCount(1),
            "INSERT INTO `sbtest1`(`id`, `k`, `c`, `pad`)"
            " VALUES(NULL, :rand(1,10000), :text(120), :text(60))",
            [],
        ),
        (
            "INSERT INTO `sbtest1` ( `k` , `pad` ) VALUES (...) /* , ... */",
            DigestCount(1, affected=2),
            "INSERT INTO `sbtest1`(`k`, `pad`)"
            " VALUES(:rand(1,10000), :text(60)), (:rand(1,10000), :text(60))",
            [],
        ),
        (
            "INSERT INTO `shop` . `orders` ( `order_no` , `line` , `made` , `state` )"
            " VALUES ( ?, ... , NOW ( ) , ? )",
            DigestCount(1),
            "INSERT INTO `shop_imitation`.`orders`(`order_no`, `line`, `made`, `state`)"
            " VALUES(:next(10001), :next(10001), NOW(), :rand(1,3))",
            [],
        ),
        (
            "SELECT * FROM `shop` . `orders` WHERE `order_no` = ? AND `line` = ? FOR UPDATE",
            DigestCount(1),
            "SELECT * FROM `shop_imitation`.`orders` WHERE `order_no` = :v1 AND `line` = :v1 FOR UPDATE",
            ["\\set v1 rand(1,10000)"],
        ),
        (
            "SELECT COUNT ( * ) FROM `shop` . `orders` WHERE `email` = ? AND `made` BETWEEN ? AND ? LIMIT ?",
            DigestCount(1, examined=28, sent=5),
            "SELECT COUNT(*) FROM `shop_imitation`.`orders` WHERE `email` = LPAD(:rand(1,10000), 12, '0')"
            " AND `made` BETWEEN TIMESTAMP '2025-01-01 00:00:00' + INTERVAL :v1 SECOND"
            " AND TIMESTAMP '2025-01-01 00:00:00' + INTERVAL :v2 SECOND LIMIT 5",
            ["\\set v1 rand(0,31447699)", "\\set v2 :v1 + 88300"],
        ),
        (
            "SELECT `id` FROM `sbtest1` WHERE `k` >= ? AND `k` < ?",
            DigestCount(1, examined=10, sent=10),
            "SELECT `id` FROM `sbtest1` WHERE `k` >= :v1 AND `k` < :v2",
            ["\\set v1 rand(1,9991)", "\\set v2 :v1 + 9"],
        ),
        (
            "SELECT `id` FROM `sbtest1` WHERE `id` > ?",
            DigestCount(1, examined=10, sent=10),
            "SELECT `id` FROM `sbtest1` WHERE `id` > 9991",
            [],
        ),
    ],
)
def test_a_digest_is_a_statement_again(
    text: str, means: DigestCount, statement: str, sets: list[str]
) -> None:
    assert written(text, means=means) == (statement, sets)
    lines = [*sets, f"{statement};"]
    assert len(read_script("\n".join(lines), "t.sql").workload.statements) == 1


def test_a_row_that_was_deleted_is_the_one_that_is_inserted() -> None:
    writer = Writer(SCHEMA, {}, "sandbox")
    gone = writer.write(DigestKey("sandbox", "DELETE FROM `sbtest1` WHERE `id` = ?"), DigestCount(1))
    back = writer.write(
        DigestKey("sandbox", "INSERT INTO `sbtest1` ( `id` , `k` ) VALUES (...)"), DigestCount(1)
    )
    assert gone.text == "DELETE FROM `sbtest1` WHERE `id` = :v1"
    assert gone.sets == ["\\set v1 rand(1,10000)"]
    assert back.text == "INSERT INTO `sbtest1`(`id`, `k`) VALUES(:v1, :rand(1,10000))"


@given(st.text(alphabet="`abSELECTFROMWHERE.,?()=*/ \n'\"", max_size=80))
def test_no_text_breaks_the_writer(text: str) -> None:
    try:
        made, _ = written(f"SELECT {text} FROM `sbtest1`")
    except NotImitated:
        return
    assert isinstance(made, str)


# -- rows


def test_rows_have_values_that_statements_find() -> None:
    table = FilledShape(ORDERS_SHAPE, 500, 220)
    statement = fill_statement(table, domains_of([table])[ORDERS], 7, 8, Random(1))
    assert statement.startswith(
        "INSERT IGNORE INTO `shop`.`orders` (`order_no`, `line`, `email`, `made`, `state`, `price`, `note`)"
        " VALUES (7,7,LPAD("
    )
    assert "),(8,8,LPAD(" in statement


@given(
    st.sampled_from(
        ["tinyint", "smallint unsigned", "int", "bigint", "decimal(5,2)", "enum('a','b')", "year"]
    ),
    st.integers(1, 10**9),
    st.booleans(),
)
def test_numbers_stay_within_their_type(kind: str, rows: int, is_key: bool) -> None:
    indexes = (Index("PRIMARY", ("a",), unique=True),) if is_key else ()
    shape = TableShape(TableName("d", "t"), rows, None, (Column("a", kind),), indexes)
    domain = domains_of([FilledShape(shape, rows)])[shape.name]["a"]
    most = {"tinyint": 127, "smallint unsigned": 65_535, "int": 2**31 - 1, "bigint": 2**63 - 1, "year": 2155,
            "decimal(5,2)": 999, "enum('a','b')": 2}[kind]  # fmt: skip
    assert 0 <= domain.low <= domain.high <= most
    if "int" in kind:
        assert domain.high == min(rows, most), "there is room for every row"
    assert domain.low <= int(domain.of_row(rows, Random(2))) <= domain.high


def test_a_reference_is_to_a_row_of_its_parent() -> None:
    people = TableShape(TableName("d", "people"), 50, None, (Column("id", "int"),),
                        (Index("PRIMARY", ("id",), unique=True),))  # fmt: skip
    pets = TableShape(TableName("d", "pets"), 900, None, (Column("owner", "int"),),
                      foreign_keys={"owner": people.name})  # fmt: skip
    found = domains_of([FilledShape(people, 50), FilledShape(pets, 900)])
    assert found[pets.name]["owner"] == Domain(1, 50)


def test_a_table_is_made_without_what_made_up_rows_would_break() -> None:
    body = table_body(SBTEST_DDL)
    assert body.splitlines() == [
        "(",
        "  `id` int NOT NULL AUTO_INCREMENT,",
        "  `k` int NOT NULL DEFAULT '0',",
        "  `c` char(120) NOT NULL DEFAULT '',",
        "  `pad` char(60) NOT NULL DEFAULT '',",
        "  PRIMARY KEY (`id`),",
        "  KEY `k_1` (`k`)",
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    ]


# -- counters


def test_a_server_that_counts_from_zero_again_counts_what_came_since() -> None:
    assert DigestCount(13, 6.5, 130).since(DigestCount(10, 5.0, 100)) == DigestCount(3, 1.5, 30)
    assert DigestCount(7).since(DigestCount(50)) == DigestCount(7)


def test_prepared_statements_count_also_those_that_went_away() -> None:
    key = DigestKey("d", "SELECT ?")
    tally = PreparedTally()
    for look in ({"1": 5}, {"1": 8, "2": 4}, {"2": 10}, {"2": 1}):
        tally.add({name: (key, DigestCount(times)) for name, times in look.items()})
    # 3 of the first, 4 of the second and 6 more; then it was prepared again, and 1 is new.
    assert tally.counts == {key: DigestCount(14, prepared=14)}


# -- transactions

A, B, C, D = (DigestKey("d", f"SELECT `{name}` FROM `t`") for name in "abcd")
NAMES = {each.text: each for each in (A, B, C, D)}


def history(
    session: int, statements: str, first: int = 1, transaction: int | None = None
) -> list[SeenStatement]:
    """`begin`, `commit`, and the letters of the digests; a capital one is within a transaction."""
    found = []
    for number, word in enumerate(statements.split(), first):
        if word in ("begin", "commit", "rollback"):
            found.append(SeenStatement(session, number, word))
        else:
            name = next(text for text in NAMES if f"`{word.lower()}`" in text)
            found.append(SeenStatement(session, number, "", name, transaction if word.isupper() else None))
    return found


WORDS = "A commit begin A B B commit c begin D rollback begin A"


@pytest.mark.parametrize(
    ("runs", "whole"),
    [
        (
            [history(1, WORDS, transaction=0)],
            {
                TransactionShape((A, B, B), True): 1,
                TransactionShape((C,)): 1,
                TransactionShape((D,), True, is_rolled_back=True): 1,
            },
        ),
        (
            [history(1, "begin A", transaction=1) + history(1, "d B commit", first=20, transaction=18)],
            {TransactionShape((D,)): 1},
        ),
        (
            [
                history(1, "begin A B commit", transaction=2),
                history(2, "d commit B commit d", first=50, transaction=49),
            ],
            {TransactionShape((A, B), True): 1, TransactionShape((D,)): 2},
        ),
    ],
    ids=["from begin to commit", "a history lacks an end", "a begin was not seen"],
)
def test_only_whole_transactions_are_seen(
    runs: list[list[SeenStatement]], whole: dict[TransactionShape, int]
) -> None:
    assert seen_whole(runs, NAMES) == whole


def test_a_history_that_was_overwritten_while_it_was_read_is_left_out() -> None:
    ring = history(1, "B commit begin A B commit")
    histories = Histories()
    histories.add([*history(1, "d", first=7), *ring[1:]])
    assert [len(run) for run in histories.runs] == [5], (
        "a ring that went on by one is whole but for its newest"
    )
    histories = Histories()
    # The third of six places was read after the session had gone round the others once more.
    histories.add([*ring[:2], *history(1, "B", first=9), *ring[3:]])
    assert histories.runs == []


def test_statements_at_the_edge_of_the_time_are_no_kind_of_transaction() -> None:
    seen = Counter({TransactionShape((A, B), True): 40, TransactionShape((D,)): 60})
    counts = {A: 94, B: 100, D: 200}
    found = weigh(counts, seen, reading_share=0.06)
    assert {each.shape.statements for each in found} == {(A, B), (D,)}
    assert not any(each.is_guess for each in found)
    found = weigh(counts, seen)
    assert {each.shape.statements for each in found if each.is_guess} == {(B,)}, "no time for an edge"


def test_a_column_that_is_called_as_a_keyword_is_found() -> None:
    shape = replace(ORDERS_SHAPE, columns=(Column("name", "varchar(20)"), Column("line", "int")), indexes=())
    writer = Writer(schema_of(shape), {}, "shop")
    made = writer.write(
        DigestKey("shop", "INSERT INTO `orders` ( NAME , `line` ) VALUES (...)"), DigestCount(1)
    )
    assert made.text == "INSERT INTO `orders`(NAME, `line`) VALUES(:text(20), :rand(1,10000))"
    found = writer.write(DigestKey("shop", "SELECT `line` FROM `orders` WHERE NAME = ?"), DigestCount(1))
    assert found.text == "SELECT `line` FROM `orders` WHERE NAME = :text(20)"


def test_looks_that_overlap_are_one_stretch() -> None:
    histories = Histories()
    whole = history(1, "begin A B C D commit")
    histories.add(whole[:3])
    histories.add(whole[2:5])
    histories.add(whole[4:])
    assert histories.runs == [whole[:-1]]
    histories.add(history(1, "begin A", first=90))
    assert [len(run) for run in histories.runs] == [5, 1]


@pytest.mark.parametrize(
    ("counts", "seen", "is_guess"),
    [
        ({A: 1000, B: 100}, {}, True),
        ({A: 30, B: 10}, {TransactionShape((A,)): 3, TransactionShape((B,)): 1}, False),
    ],
    ids=["without histories", "without a commit"],
)
def test_where_no_transaction_was_seen_each_statement_is_one(
    counts: dict[DigestKey, int], seen: dict[TransactionShape, int], is_guess: bool
) -> None:
    found = [(each.shape, round(each.times), each.is_guess) for each in weigh(counts, seen)]
    assert found == [(TransactionShape((key,)), times, is_guess) for key, times in counts.items()]


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from([A, B, C, D]), min_size=1, max_size=4), st.integers(1, 500)),
        min_size=1,
        max_size=4,
        unique_by=lambda each: tuple(each[0]),
    ),
    st.integers(1, 50),
    st.sampled_from([0.0, 0.1]),
)
def test_weights_make_statements_as_frequent_as_they_were(
    mix: Sequence[tuple[list[DigestKey], int]], every: int, reading_share: float
) -> None:
    """Whatever was seen of a mix, each statement comes as often as it was counted, but for what the server
    did while it was asked for its counts."""
    counts: Counter[DigestKey] = Counter()
    seen: Counter[TransactionShape] = Counter()
    for statements, times in mix:
        for key in statements:
            counts[key] += times
        if times >= every:
            seen[TransactionShape(tuple(statements), True)] += times // every
    made: defaultdict[DigestKey, float] = defaultdict(float)
    for each in weigh(counts, seen, reading_share):
        for key in each.shape.statements:
            made[key] += each.times
    for key, times in counts.items():
        assert made[key] >= (0.98 - reading_share) * times - 1


@given(st.lists(st.integers(1, 2000), min_size=2, max_size=3))
def test_a_mix_that_was_seen_fairly_keeps_its_weights(times: list[int]) -> None:
    shapes = TransactionShape((A, B), True), TransactionShape((A, C, C), True), TransactionShape((D,))
    seen = Counter(dict(zip(shapes, times, strict=False)))
    counts: Counter[DigestKey] = Counter()
    for shape, number in seen.items():
        for key in shape.statements:
            counts[key] += number
    assert {each.shape: round(each.times) for each in weigh(counts, seen)} == seen


# -- the whole


def captured(
    counts: Mapping[str, int], runs: Sequence[Sequence[SeenStatement]] | None = None, **more: object
) -> Captured:
    return Captured(
        server="MySQL 8.4.6",
        address="db.example:3306",
        seconds=10.0,
        digests={
            DigestKey("sandbox", text): DigestCount(times, float(times)) for text, times in counts.items()
        },
        tables={SBTEST: SBTEST_SHAPE},
        ddl={SBTEST: SBTEST_DDL},
        runs=runs,
        **more,  # type: ignore[arg-type]
    )


def test_what_to_try_where_nothing_can_be_imitated() -> None:
    """MariaDB keeps no text of prepared statements, and sysbench prepares all of its own."""
    prepared = write_workload(captured({}, executions=500))
    assert not prepared.transactions
    assert "500 of 500 were prepared statements without a text" in prepared.remedy
    assert "--db-ps-mode=disable" in prepared.remedy
    assert write_workload(captured({})).remedy == "watch it for longer, or while its clients work"


def test_every_statement_is_in_the_file_or_in_what_is_left_out() -> None:
    found = write_workload(
        captured(
            {
                "BEGIN": 60,
                "START TRANSACTION READ ONLY": 40,
                "COMMIT": 90,
                "ROLLBACK": 10,
                "SELECT `c` FROM `sbtest1` WHERE `id` = ?": 1000,
                "UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?": 100,
                "SET NAMES ?": 4,
                "ROLLBACK TO SAVEPOINT `a`": 2,
                "SELECT @@ `version_comment` LIMIT ?": 1,
                "SELECT * FROM `gone`": 3,
                "CALL `pay` (...)": 13,
                "TRUNCATE TABLE `orders`": 17,
                "SELECT `a` FROM `t` WHERE `b` IN ( SELECT ...": 19,
                "SELECT * FROM `performance_schema` . `threads`": 23,
                "": 11,
            },
            executions=5,
        )
    )
    assert {left.reason: left.times for left in found.left_out} == {
        NO_DIGEST: 11,
        digests.NO_TABLE: 7,
        NO_TEXT: 5,
        digests.NOT_THERE: 3,
        digests.PROCEDURES: 13,
        digests.SCHEMA_CHANGES: 17,
        digests.TOO_LONG: 19,
        digests.SERVERS_OWN: 23,
    }
    assert (found.statements, found.imitated) == (1198, 1100)
    with pytest.raises(NotImitated, match=digests.NO_DATABASE):
        tables_of(DigestKey("", "SELECT * FROM `orders`"))
    script = read_script((found.workload or ""), "captured.sql")
    [table] = script.workload.tables
    assert (table.database, table.name, table.rows) == ("sandbox_imitation", "sbtest1", 10_000)
    assert len(script.workload.statements) == 2
    assert "boundaries of transactions are a guess for 100% of them" in found.notes[0]


def test_a_table_that_is_made_smaller_is_said() -> None:
    found = write_workload(captured({"SELECT `c` FROM `sbtest1` WHERE `id` = ?": 10}), most_rows=500)
    assert "\\rows 500 " in (found.workload or "")
    assert ":rand(1,500)" in (found.workload or "")
    assert "tables with fewer rows than there: sandbox.sbtest1 10,000 to 500" in found.notes


# A capture asks, and changes nothing: what it makes of a server's answers, and of what a server lacks

SELECT = "SELECT `name` FROM `item` WHERE `id` = ?"
WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|SET|ALTER|DROP|TRUNCATE|CALL|FLUSH|GRANT)\b(?! TABLE)")
Answer = Sequence[Mapping[str, Any]] | ServerRefused
SUMMARY = "_by_digest"


def consumers(*more: str) -> list[dict[str, str]]:
    names = ("global_instrumentation", "thread_instrumentation", "events_statements_history", *more)
    return [{"name": name, "enabled": "YES"} for name in names]


class Server:
    """Answers by what a statement is about; a session executes one statement between any two looks."""

    node = "db.example:3306"

    def __init__(self, text: str = SELECT, /, **otherwise: Answer) -> None:
        self.asked: list[str] = []
        self._digest = {"db": "shop", "digest": "abc", "text": text, "ps": 5_000_000_000, "examined": 1,
                        "sent": 1, "affected": 0}  # fmt: skip
        self._times = 100
        seen = {"session": 7, "event": "statement/sql/select", "db": "shop", "digest": "abc", "nesting": None,
                "parent": None}  # fmt: skip
        table = {"table_schema": "shop", "table_name": "item"}
        column = {**table, "column_default": None, "extra": "", "collation_name": None, "is_nullable": "NO",
                  "column_comment": ""}  # fmt: skip
        self._answers: dict[str, Answer] = {
            "SHOW GLOBAL VARIABLES": rows({"version": "8.4.6", "performance_schema": "ON"}),
            "variables_metadata": [],
            "@@GLOBAL.performance_schema AS": [{"is_on": 1}],
            "setup_consumers": consumers("statements_digest"),
            "information_schema.schemata": [{"name": "shop"}],
            SUMMARY: [self._digest],
            "events_statements_summary_global": [{} if text.startswith("EXECUTE") else {"times": 0}],
            "prepared_statements_instances": [],
            "performance_schema.threads WHERE": [{"id": 7}],
            "events_statements_history": [{**seen, "number": number} for number in range(5)],
            "information_schema.tables": [{**table, "engine": "InnoDB", "table_rows": 40, "bytes": 99}],
            "information_schema.columns": [
                {**column, "column_name": "id", "column_type": "int"},
                {**column, "column_name": "name", "column_type": "varchar(20)"},
            ],
            "information_schema.statistics": [
                {**table, "index_name": "PRIMARY", "column_name": "id", "sub_part": None, "collation": "A",
                 "non_unique": 0, "index_type": "BTREE"}
            ],
            "key_column_usage": [],
            "SHOW CREATE TABLE": [{"Table": "item", "Create Table": "CREATE TABLE `item` (\n  `id` int\n)"}],
            **otherwise,
        }  # fmt: skip

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Mapping[str, Any]]:
        self.asked.append(statement)
        self._times += 50 * (SUMMARY in statement)
        answer = next(answer for mark, answer in self._answers.items() if mark in statement)
        if isinstance(answer, ServerRefused):
            raise answer
        return [{"times": self._times, **row} for row in answer]

    async def close(self) -> None:
        """Nothing to close."""


async def test_what_came_between_two_looks_becomes_a_file_and_nothing_is_changed() -> None:
    server = Server()
    captured = await capture(server, address=server.node, seconds=0.05)
    assert {key: count.times for key, count in captured.digests.items()} == {DigestKey("shop", SELECT): 50}
    assert captured.seconds >= 0.05
    assert captured.reading_s >= 0
    found = write_workload(captured)
    assert [(each.statements, each.boundaries) for each in found.transactions] == [((SELECT,), "seen")]
    assert found.workload
    assert "SELECT `name` FROM `item` WHERE `id` = :rand(1,40);" in found.workload
    assert "\\database shop_imitation" in found.workload
    assert [text for text in server.asked if WRITES.search(text) or not re.match(r"SELECT|SHOW", text)] == []


async def test_an_execution_among_the_digests_is_of_a_prepared_statement() -> None:
    server = Server(f"EXECUTE {SELECT}")
    captured = await capture(server, address=server.node, seconds=0.05)
    [(key, count)] = captured.digests.items()
    assert (key, count.times, count.prepared) == (DigestKey("shop", SELECT), 50, 50)
    found = write_workload(captured)
    assert "\\prepared\nSELECT `name` FROM `item` WHERE `id` = :rand(1,40);" in (found.workload or "")
    assert not found.left_out


@pytest.mark.parametrize(
    ("server", "databases", "error", "told"),
    [
        (
            Server(**{"@@GLOBAL.performance_schema AS": [{"is_on": 0}]}),
            (),
            MissingPiece,
            "its performance schema is off: start it with",
        ),
        (
            Server(setup_consumers=consumers()),
            (),
            MissingPiece,
            "keeps no digests of statements: UPDATE performance_schema",
        ),
        (Server(), ("crm",), UsageError, "no database 'crm' on db.example:3306: it has shop"),
        (
            Server(_by_digest=ServerRefused(1142, "SELECT command denied")),
            (),
            ServerRefused,
            "it takes GRANT SELECT ON performance_schema",
        ),
    ],
)
async def test_what_a_server_lacks_is_said(
    server: Server, databases: Sequence[str], error: type[ReplexplorerError], told: str
) -> None:
    with pytest.raises(error) as caught:
        await capture(server, address=server.node, seconds=0.05, databases=databases)
    assert told in str(caught.value)
