"""From digests to a workload's file: statements, transactions, weights, and what is left out."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.imitation import digest as digests
from replexplorer.core.imitation.columns import Domain, FilledShape, domains_of, fill_statement
from replexplorer.core.imitation.digest import (
    BEGIN,
    COMMIT,
    Means,
    NotImitated,
    Schema,
    Writer,
    kind_of,
    tables_of,
)
from replexplorer.core.imitation.imitation import Captured, imitate, table_body
from replexplorer.core.imitation.look import DigestCount, DigestKey, PreparedCount, PreparedTally, growth
from replexplorer.core.imitation.transactions import (
    Boundaries,
    Histories,
    SeenStatement,
    Sorted,
    TransactionShape,
    sort_out,
    weigh,
)
from replexplorer.core.load.script import read_script
from replexplorer.core.tables.table import Column, Index, IndexPart, TableName, TableShape

SBTEST = TableName("sandbox", "sbtest1")
SBTEST_SHAPE = TableShape(
    SBTEST,
    "InnoDB",
    10_000,
    10_000 * 220,
    (
        Column("id", "int", is_auto_increment=True),
        Column("k", "int"),
        Column("c", "char(120)", collation="utf8mb4_0900_ai_ci"),
        Column("pad", "char(60)", collation="utf8mb4_0900_ai_ci"),
    ),
    (
        Index("PRIMARY", (IndexPart("id"),), unique=True),
        Index("k_1", (IndexPart("k"),)),
    ),
)
ORDERS = TableName("shop", "orders")
ORDERS_SHAPE = TableShape(
    ORDERS,
    "InnoDB",
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
        Index("PRIMARY", (IndexPart("order_no"), IndexPart("line")), unique=True),
        Index("by_email", (IndexPart("email"),)),
        Index("by_made", (IndexPart("made"),)),
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


def written(text: str, database: str = "sandbox", means: Means | None = None) -> tuple[str, list[str]]:
    writer = Writer(SCHEMA, {"sandbox": "sandbox_imitation", "shop": "shop_imitation"}, "sandbox")
    made = writer.write(text, database, means or Means())
    return made.text, made.sets


@pytest.mark.parametrize(
    ("text", "means", "statement", "sets"),
    [
        (
            "SELECT `c` FROM `sbtest1` WHERE `id` = ?",
            Means(),
            "SELECT `c` FROM `sbtest1` WHERE `id` = :rand(1,10000)",
            [],
        ),
        (
            "SELECT SUM ( `k` ) FROM `sbtest1` WHERE `id` BETWEEN ? AND ?",
            Means(examined=100, sent=1),
            "SELECT SUM(`k`) FROM `sbtest1` WHERE `id` BETWEEN :v1 AND :v2",
            ["\\set v1 rand(1,9901)", "\\set v2 :v1 + 99"],
        ),
        (
            "SELECT `c` FROM `sbtest1` WHERE `id` BETWEEN ? AND ? ORDER BY `c`",
            Means(examined=100, sent=100),
            "SELECT `c` FROM `sbtest1` WHERE `id` BETWEEN :v1 AND :v2 ORDER BY `c`",
            ["\\set v1 rand(1,9901)", "\\set v2 :v1 + 99"],
        ),
        (
            "SELECT `c` FROM `sandbox` . `sbtest1` AS `s` WHERE `s` . `id` IN (...)",
            Means(examined=3, sent=3),
            "SELECT `c` FROM `sbtest1` AS `s`"
            " WHERE `s`.`id` IN (:rand(1,10000), :rand(1,10000), :rand(1,10000))",
            [],
        ),
        (
            "UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?",
            Means(),
            "UPDATE `sbtest1` SET `k` = `k` + 1 WHERE `id` = :rand(1,10000)",
            [],
        ),
        (
            "UPDATE `sbtest1` SET `c` = ? WHERE `id` = ?",
            Means(),
            "UPDATE `sbtest1` SET `c` = :text(120) WHERE `id` = :rand(1,10000)",
            [],
        ),
        (
            "INSERT INTO `sbtest1` ( `id` , `k` , `c` , `pad` ) VALUES (...)",
            Means(),
            "INSERT INTO `sbtest1` (`id`, `k`, `c`, `pad`)"
            " VALUES (NULL, :rand(1,10000), :text(120), :text(60))",
            [],
        ),
        (
            "INSERT INTO `sbtest1` ( `k` , `pad` ) VALUES (...) /* , ... */",
            Means(affected=2),
            "INSERT INTO `sbtest1` (`k`, `pad`)"
            " VALUES (:rand(1,10000), :text(60)), (:rand(1,10000), :text(60))",
            [],
        ),
        (
            "INSERT INTO `shop` . `orders` ( `order_no` , `line` , `made` , `state` )"
            " VALUES ( ?, ... , NOW ( ) , ? )",
            Means(),
            "INSERT INTO `shop_imitation`.`orders` (`order_no`, `line`, `made`, `state`)"
            " VALUES (:next(10001), :next(10001), NOW(), :rand(1,3))",
            [],
        ),
        (
            "SELECT * FROM `shop` . `orders` WHERE `order_no` = ? AND `line` = ? FOR UPDATE",
            Means(),
            "SELECT * FROM `shop_imitation`.`orders` WHERE `order_no` = :v1 AND `line` = :v1 FOR UPDATE",
            ["\\set v1 rand(1,10000)"],
        ),
        (
            "SELECT COUNT ( * ) FROM `shop` . `orders` WHERE `email` = ? AND `made` BETWEEN ? AND ? LIMIT ?",
            Means(examined=28, sent=5),
            "SELECT COUNT(*) FROM `shop_imitation`.`orders` WHERE `email` = :digits(1,10000,12)"
            " AND `made` BETWEEN :v1 AND :v1 + INTERVAL 1 DAY LIMIT 5",
            ["\\set v1 moment(2025-01-01,2025-12-31)"],
        ),
        (
            "SELECT `id` FROM `sbtest1` WHERE `k` >= ? AND `k` < ?",
            Means(examined=10, sent=10),
            "SELECT `id` FROM `sbtest1` WHERE `k` >= :v1 AND `k` < :v2",
            ["\\set v1 rand(1,9991)", "\\set v2 :v1 + 9"],
        ),
        (
            "SELECT `id` FROM `sbtest1` WHERE `id` > ?",
            Means(examined=10, sent=10),
            "SELECT `id` FROM `sbtest1` WHERE `id` > 9991",
            [],
        ),
    ],
)
def test_a_digest_is_a_statement_again(text: str, means: Means, statement: str, sets: list[str]) -> None:
    assert written(text, means=means) == (statement, sets)
    lines = [*sets, f"{statement};"]
    assert len(read_script("\n".join(lines), "t.sql").workload.statements) == 1


def test_a_row_that_was_deleted_is_the_one_that_is_inserted() -> None:
    writer = Writer(SCHEMA, {}, "sandbox")
    gone = writer.write("DELETE FROM `sbtest1` WHERE `id` = ?", "sandbox", Means())
    back = writer.write("INSERT INTO `sbtest1` ( `id` , `k` ) VALUES (...)", "sandbox", Means())
    assert gone.text == "DELETE FROM `sbtest1` WHERE `id` = :v1"
    assert gone.sets == ["\\set v1 rand(1,10000)"]
    assert back.text == "INSERT INTO `sbtest1` (`id`, `k`) VALUES (:v1, :rand(1,10000))"


@pytest.mark.parametrize(
    ("text", "database", "why"),
    [
        ("SET `autocommit` = ?", "shop", digests.NO_TABLE),
        ("SHOW GLOBAL STATUS", None, digests.NO_TABLE),
        ("SELECT @@ `version_comment` LIMIT ?", None, digests.NO_TABLE),
        ("SELECT ?", None, digests.NO_TABLE),
        ("CALL `pay` (...)", "shop", digests.PROCEDURES),
        ("TRUNCATE TABLE `orders`", "shop", digests.SCHEMA_CHANGES),
        ("CREATE TEMPORARY TABLE `t` ( `a` INTEGER )", "shop", digests.SCHEMA_CHANGES),
        ("SELECT `a` FROM `t` WHERE `b` IN ( SELECT ...", "shop", digests.TOO_LONG),
        ("SELECT * FROM `performance_schema` . `threads`", None, digests.SERVERS_OWN),
        ("SELECT * FROM `orders`", None, digests.NO_DATABASE),
    ],
)
def test_what_has_no_place_says_why(text: str, database: str | None, why: str) -> None:
    with pytest.raises(NotImitated, match=re.escape(why)):
        tables_of(text, database)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BEGIN", BEGIN),
        ("START TRANSACTION READ ONLY", BEGIN),
        ("COMMIT", COMMIT),
        ("ROLLBACK", digests.ROLLBACK),
        ("ROLLBACK TO SAVEPOINT `a`", digests.OTHER),
        ("SELECT ?", digests.STATEMENT),
        ("SET NAMES ?", digests.OTHER),
    ],
)
def test_a_digest_knows_what_it_is(text: str, kind: str) -> None:
    assert kind_of(text) == kind


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
        " VALUES (7,7,'000000000"
    )
    assert "),(8,8,'" in statement


@given(
    st.sampled_from(
        ["tinyint", "smallint unsigned", "int", "bigint", "decimal(5,2)", "enum('a','b')", "year"]
    ),
    st.integers(1, 10**9),
    st.booleans(),
)
def test_numbers_stay_within_their_type(kind: str, rows: int, is_key: bool) -> None:
    indexes = (Index("PRIMARY", (IndexPart("a"),), unique=True),) if is_key else ()
    shape = TableShape(TableName("d", "t"), "InnoDB", rows, None, (Column("a", kind),), indexes)
    domain = domains_of([FilledShape(shape, rows)])[shape.name]["a"]
    most = {"tinyint": 127, "smallint unsigned": 65_535, "int": 2**31 - 1, "bigint": 2**63 - 1, "year": 2155,
            "decimal(5,2)": 999, "enum('a','b')": 2}[kind]  # fmt: skip
    assert 0 <= domain.low <= domain.high <= most
    if domain.kind == "integer":
        assert domain.low <= int(domain.of_row(rows, Random(2))) <= domain.high


def test_a_reference_is_to_a_row_of_its_parent() -> None:
    people = TableShape(TableName("d", "people"), "InnoDB", 50, None, (Column("id", "int"),),
                        (Index("PRIMARY", (IndexPart("id"),), unique=True),))  # fmt: skip
    pets = TableShape(TableName("d", "pets"), "InnoDB", 900, None, (Column("people_id", "int"),))
    found = domains_of([FilledShape(people, 50), FilledShape(pets, 900)])
    assert found[pets.name]["people_id"] == Domain("integer", 1, 50)


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


def test_growth_is_what_came_between_two_looks() -> None:
    key, new, reset = (DigestKey("d", text) for text in ("a", "b", "c"))
    before = {key: DigestCount(10, 5.0, 100), reset: DigestCount(50)}
    after = {key: DigestCount(13, 6.5, 130), new: DigestCount(2), reset: DigestCount(7)}
    assert growth(before, after) == {key: DigestCount(3, 1.5, 30), new: DigestCount(2), reset: DigestCount(7)}


def test_prepared_statements_count_also_those_that_went_away() -> None:
    key = DigestKey("d", "SELECT ?")
    tally = PreparedTally()
    for look in ({"1": 5}, {"1": 8, "2": 4}, {"2": 10}, {"2": 1}):
        tally.add({name: PreparedCount(key, DigestCount(times)) for name, times in look.items()})
    # 3 of the first, 4 of the second and 6 more; then it was prepared again, and 1 is new.
    assert tally.counts == {key: DigestCount(14, prepared=14)}


# -- transactions

A, B, C, D = (DigestKey("d", f"SELECT `{name}` FROM `t`") for name in "abcd")
NAMES = {each.text: each for each in (A, B, C, D)}


def history(
    session: int, *statements: str, first: int = 1, transaction: int | None = None
) -> list[SeenStatement]:
    """`begin`, `commit`, and the letters of the digests; a capital one is within a transaction."""
    found = []
    for number, word in enumerate(statements, first):
        if word in ("begin", "commit", "rollback"):
            found.append(SeenStatement(session, number, word))
        else:
            name = next(text for text in NAMES if f"`{word.lower()}`" in text)
            found.append(SeenStatement(session, number, "", name, transaction if word.isupper() else None))
    return found


def test_transactions_are_seen_from_begin_to_commit() -> None:
    words = ["A", "commit", "begin", "A", "B", "B", "commit", "c", "begin", "D", "rollback", "begin", "A"]
    run = history(1, *words, transaction=0)
    found = sort_out([run], NAMES)
    assert found.whole == Counter(
        {
            TransactionShape((A, B, B), True): 1,
            TransactionShape((C,)): 1,
            TransactionShape((D,), True, is_rolled_back=True): 1,
        }
    )
    assert len(found.pieces) == 2  # the first has no beginning, the last no end


def test_a_history_that_lacks_an_end_makes_no_transaction_of_two() -> None:
    torn = [
        *history(1, "begin", "A", first=1, transaction=1),
        *history(1, "d", "B", "commit", first=20, transaction=18),
    ]
    found = sort_out([torn], NAMES)
    assert found.whole == Counter({TransactionShape((D,)): 1})
    assert len(found.pieces) == 2


def test_a_column_that_is_called_as_a_keyword_is_found() -> None:
    shape = replace(ORDERS_SHAPE, columns=(Column("name", "varchar(20)"), Column("line", "int")), indexes=())
    writer = Writer(schema_of(shape), {}, "shop")
    made = writer.write("INSERT INTO `orders` ( NAME , `line` ) VALUES (...)", "shop", Means())
    assert made.text == "INSERT INTO `orders` (NAME, `line`) VALUES (:text(20), :rand(1,10000))"
    found = writer.write("SELECT `line` FROM `orders` WHERE NAME = ?", "shop", Means())
    assert found.text == "SELECT `line` FROM `orders` WHERE NAME = :text(20)"


def test_looks_that_overlap_are_one_stretch() -> None:
    histories = Histories()
    whole = history(1, "begin", "A", "B", "C", "D", "commit")
    histories.add(whole[:3])
    histories.add(whole[2:5])
    histories.add(whole[4:])
    assert histories.runs == [whole]
    histories.add(history(1, "begin", "A", first=90))
    assert [len(run) for run in histories.runs] == [6, 2]


def test_parts_of_long_transactions_are_put_together_by_counts_and_places() -> None:
    pieces = [history(1, *"AAAB", first=2, transaction=1), history(2, *"BCD", first=40, transaction=35)]
    found = weigh({A: 1000, B: 100, C: 100, D: 100}, {}, Boundaries(commits=100), sort_out(pieces, NAMES))
    assert [each.shape.statements for each in found] == [(A,) * 10 + (B, C, D)]
    assert found[0].is_guess
    assert found[0].times == pytest.approx(100, rel=0.02)


def test_without_histories_a_transaction_is_guessed_from_the_counts() -> None:
    found = weigh({A: 1000, B: 100, C: 40}, {A: "1", B: "2", C: "3"}, Boundaries(commits=100), None)
    assert [(each.shape, round(each.times), each.is_guess) for each in found] == [
        (TransactionShape((A,) * 10 + (B,), True), 100, True),
        (TransactionShape((C,)), 40, True),
    ]


# What sysbench's oltp_read_write makes of one transaction, in its order.
POINT, RANGE, SUM, SORTED, DISTINCT, INDEX, OTHER_COLUMN, DELETE, INSERT = READ_WRITE = tuple(
    DigestKey("sandbox", text)
    for text in (
        "SELECT c FROM sbtest1 WHERE id = ?",
        "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
        "SELECT SUM ( k ) FROM sbtest1 WHERE id BETWEEN ? AND ?",
        "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
        "SELECT DISTINCTROW c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
        "UPDATE sbtest1 SET k = k + ? WHERE id = ?",
        "UPDATE sbtest1 SET c = ? WHERE id = ?",
        "DELETE FROM sbtest1 WHERE id = ?",
        "INSERT INTO sbtest1 ( id , k , c , pad ) VALUES (...)",
    )
)
ONE_MOMENT = dict.fromkeys(READ_WRITE, "2026-03-01 10:00:00")
"""A server whose clock of first sight has whole seconds."""


def read_write(begun: int, ended: int, *reach: int) -> tuple[dict[DigestKey, int], tuple[DigestKey, ...]]:
    """The counts of so many transactions, by how many of them came to the four statements that write; and
    one of them as it is."""
    writes = reach or (ended,) * 4
    counts = [10 * begun, *(begun,) * 4, *writes]
    assert min(writes) >= ended
    return dict(zip(READ_WRITE, counts, strict=True)), (POINT,) * 10 + READ_WRITE[1:]


@pytest.mark.parametrize(
    ("begun", "ended", "reach", "has_begins"),
    [
        (10_000, 10_000, (), True),
        (10_000, 10_000, (), False),
        (13_000, 10_000, (13_000, 12_000, 11_000, 10_300), True),
        (13_000, 10_000, (13_000, 12_000, 11_000, 10_300), False),
        (19_000, 10_000, (19_000, 16_000, 13_000, 10_000), True),
        (19_000, 10_000, (19_000, 16_000, 13_000, 10_000), False),
        (100_000, 20_000, (100_000, 70_000, 40_000, 25_000), True),
        (670, 495, (670, 613, 555, 501), True),  # as counted on MariaDB 11.8.9, 8 clients of sysbench, 6 s
        (670, 495, (670, 613, 555, 501), False),
    ],
)
def test_a_transaction_is_as_it_was_however_many_the_server_ended_early(
    begun: int, ended: int, reach: tuple[int, ...], has_begins: bool
) -> None:
    """MariaDB's snapshot isolation ends one that writes a row which has changed: no COMMIT, no ROLLBACK."""
    counts, whole = read_write(begun, ended, *reach)
    bounds = Boundaries(begun if has_begins else 0, ended)
    found = weigh(counts, ONE_MOMENT, bounds, None)
    kept = [each for each in found if not each.shape.is_rolled_back]
    early = [each for each in found if each.shape.is_rolled_back]
    assert [sorted(each.shape.statements) for each in kept] == [sorted(whole)]
    assert kept[0].times == pytest.approx(ended, rel=0.02)  # some are under way as the look ends
    assert sum(each.times for each in early) == pytest.approx(begun - ended, abs=0.01 * begun)
    made: defaultdict[DigestKey, float] = defaultdict(float)
    for each in found:
        assert each.shape.is_explicit
        assert each.shape.statements == kept[0].shape.statements[: len(each.shape.statements)]
        for key in each.shape.statements:
            made[key] += each.times
    assert dict(made) == pytest.approx(counts, rel=0.02)
    reads = [each.text.startswith("SELECT") for each in kept[0].shape.statements]
    assert reads == [True] * 14 + [False] * 4


@pytest.mark.parametrize(
    ("bounds", "begun"),
    [
        (Boundaries(100, 100), 100),
        (Boundaries(130, 100), 130),
        (Boundaries(100, 100, 100), 100),  # a pool that says ROLLBACK behind each COMMIT
        (Boundaries(0, 60, 40), 100),
        (Boundaries(20, 100), 100),  # sessions without autocommit beside some with
    ],
)
def test_transactions_are_counted_by_what_comes_once_in_each(bounds: Boundaries, begun: int) -> None:
    found = weigh({A: 10 * begun, B: begun}, {A: "1", B: "2"}, bounds, None)
    assert {each.shape.statements for each in found} == {(A,) * 10 + (B,)}
    assert sum(each.times for each in found) == pytest.approx(begun, rel=0.01)


def test_statements_of_other_sessions_make_no_transactions_of_those_that_ended() -> None:
    """Twice 150 in autocommit beside a transaction of two, 100 times: neither number is the likelier."""
    found = weigh({A: 100, B: 100, C: 150, D: 150}, {}, Boundaries(commits=100), None)
    assert not any(each.shape.is_rolled_back for each in found)


def test_without_a_commit_each_statement_is_a_transaction() -> None:
    found = weigh(
        {A: 30, B: 10},
        {},
        Boundaries(),
        Sorted(Counter({TransactionShape((A,)): 3, TransactionShape((B,)): 1})),
    )
    assert [(each.shape, round(each.times), each.is_guess) for each in found] == [
        (TransactionShape((A,)), 30, False),
        (TransactionShape((B,)), 10, False),
    ]


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from([A, B, C, D]), min_size=1, max_size=4), st.integers(1, 500)),
        min_size=1,
        max_size=4,
        unique_by=lambda each: tuple(each[0]),
    ),
    st.integers(1, 50),
)
def test_weights_make_statements_as_frequent_as_they_were(
    mix: Sequence[tuple[list[DigestKey], int]], every: int
) -> None:
    """Whatever was seen of a mix, no statement comes more seldom than it was counted."""
    counts: Counter[DigestKey] = Counter()
    ends = 0
    seen = Sorted()
    for statements, times in mix:
        shape = TransactionShape(tuple(statements), True)
        for key in statements:
            counts[key] += times
        ends += times
        if times >= every:
            seen.whole[shape] += times // every
    made: defaultdict[DigestKey, float] = defaultdict(float)
    for each in weigh(counts, {}, Boundaries(commits=ends), seen):
        for key in each.shape.statements:
            made[key] += each.times
    for key, times in counts.items():
        assert made[key] >= 0.98 * times - 1


@given(st.lists(st.integers(1, 2000), min_size=2, max_size=3))
def test_a_mix_that_was_seen_fairly_keeps_its_weights(times: list[int]) -> None:
    shapes = [TransactionShape((A, B), True), TransactionShape((A, C, C), True), TransactionShape((D,))][
        : len(times)
    ]
    counts: Counter[DigestKey] = Counter()
    for shape, number in zip(shapes, times, strict=True):
        for key in shape.statements:
            counts[key] += number
    ends = sum(number for shape, number in zip(shapes, times, strict=True) if shape.is_explicit)
    found = weigh(
        counts, {}, Boundaries(commits=ends), Sorted(Counter(dict(zip(shapes, times, strict=True))))
    )
    assert {each.shape: round(each.times) for each in found} == dict(zip(shapes, times, strict=True))


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
    prepared = imitate(captured({}, executions=500))
    assert not prepared.transactions
    assert "500 of 500 were prepared statements without a text" in prepared.remedy
    assert "--db-ps-mode=disable" in prepared.remedy
    assert imitate(captured({})).remedy == "watch it for longer, or while its clients work"


def test_every_statement_is_in_the_file_or_in_what_is_left_out() -> None:
    found = imitate(
        captured(
            {
                "BEGIN": 100,
                "COMMIT": 100,
                "SELECT `c` FROM `sbtest1` WHERE `id` = ?": 1000,
                "UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?": 100,
                "SET NAMES ?": 7,
                "SELECT * FROM `gone`": 3,
                "": 11,
            },
            executions=5,
        )
    )
    assert {why: left.times for why, left in found.left_out.items()} == {
        digests.NO_DIGEST: 11,
        digests.NO_TABLE: 7,
        digests.NO_TEXT: 5,
        digests.NOT_THERE: 3,
    }
    assert (found.statements, found.imitated) == (1126, 1100)
    script = read_script(found.text, "captured.sql")
    [table] = script.workload.filled
    assert (table.database, table.name, table.rows) == ("sandbox_imitation", "sbtest1", 10_000)
    draw = script.draws(Random(1))
    texts = [script.workload.statements[index].text for index, _ in draw()]
    assert texts[0] == "BEGIN"
    assert texts[-1] == "COMMIT"
    assert len(texts) == 13


def test_transactions_that_the_server_ended_are_in_the_file_and_said() -> None:
    found = imitate(
        captured(
            {
                "BEGIN": 130,
                "COMMIT": 100,
                "SELECT `c` FROM `sbtest1` WHERE `id` = ?": 1300,
                "UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?": 130,
            }
        )
    )
    assert [(len(each.shape.statements), round(each.times)) for each in found.transactions] == [
        (11, 100),
        (11, 30),
    ]
    assert found.text.count("ROLLBACK;") == 1
    assert any(note.startswith("23% of transactions had no end of their own") for note in found.notes)
    assert len(read_script(found.text, "captured.sql").workload.statements) > 11


def test_a_table_that_is_made_smaller_is_said() -> None:
    found = imitate(captured({"SELECT `c` FROM `sbtest1` WHERE `id` = ?": 10}), most_rows=500)
    assert "\\rows 500 " in found.text
    assert ":rand(1,500)" in found.text
    assert "tables with fewer rows than there: sandbox.sbtest1 10,000 to 500" in found.notes


def test_a_prepared_statement_stays_one() -> None:
    key = DigestKey("sandbox", "SELECT `c` FROM `sbtest1` WHERE `id` = ?")
    base = captured({})
    found = imitate(
        Captured(
            base.server,
            base.address,
            10.0,
            {key: DigestCount(10, prepared=10)},
            base.tables,
            base.ddl,
            executions=10,
        )
    )
    [statement] = read_script(found.text, "captured.sql").workload.statements
    assert (statement.prepared, statement.parameters) == (True, "l")
    assert not found.left_out
