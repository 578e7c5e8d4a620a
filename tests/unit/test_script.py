"""A user's file of SQL: its blocks, its parameters, its mistakes named by line."""

from __future__ import annotations

import contextlib
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.errors import UsageError
from replexplorer.core.load.script import LARGEST_BYTES, read_script
from tests.known import refused

BANK = r"""
-- A transfer, as pgbench has it.
\set from rand(1,100)
\set sum random(-50,50)
UPDATE account SET balance = balance - :sum WHERE id = :from;
UPDATE account SET balance = balance + :sum
 WHERE id = :rand(1,100);
INSERT INTO history (account, delta, note) VALUES (:from, :sum, :text(8));

# and a look
SELECT balance FROM account WHERE id = :rand(1, 100)
"""


def sent(text: str, seed: int = 1, count: int = 1) -> list[list[str]]:
    """What so many transactions send."""
    script = read_script(text, "t.sql")
    draw = script.draws(Random(seed))
    statements = script.workload.statements
    return [[(statements[index].format % values).decode() for index, values in draw()] for _ in range(count)]


def test_one_statement_commits_by_itself_and_a_begin_of_its_own_is_kept() -> None:
    assert sent("INSERT INTO t VALUES (1);") == [["INSERT INTO t VALUES (1)"]]
    own = "START TRANSACTION READ ONLY; SELECT 1; ROLLBACK"
    assert sent(own) == [["START TRANSACTION READ ONLY", "SELECT 1", "ROLLBACK"]]
    assert read_script("UPDATE t SET a=1", "t.sql").workload.statements[0].commits
    assert not read_script("SELECT 1", "t.sql").workload.statements[0].commits


QUOTED = [
    "SELECT 'it''s :rand(1,2); 100%', \"a\\\"b:c\", `x:y` FROM t",
    "SELECT @a := 5, 7 % 3, b ? c",
    "SELECT 1 /* :nothing ; */ + 1",
    "SELECT a - b, 6/2 FROM t -- :nothing; here",
    "INSERT INTO t VALUES ('a\n\nb')",
    "SELECT 'Grüße, 世界'",
]


def test_what_is_quoted_is_left_as_it_is() -> None:
    assert [sent(f"{statement}\n;") for statement in QUOTED] == [[[statement]] for statement in QUOTED]


@given(st.integers(-(2**40), 2**40), st.integers(0, 2**40), st.integers(0, 2**32))
def test_numbers_are_drawn_from_the_whole_range(low: int, span: int, seed: int) -> None:
    [[statement]] = sent(f"SELECT :rand({low},{low + span})", seed)
    assert low <= int(statement.removeprefix("SELECT ")) <= low + span


def test_all_numbers_of_a_range_are_as_likely() -> None:
    drawn = Counter(statement for [statement] in sent("SELECT :rand(1,4)", count=4000))
    assert set(drawn) == {f"SELECT {number}" for number in range(1, 5)}
    assert min(drawn.values()) > 850


MISTAKES = r"""-- nothing

===
SELECT 1;
SELECT :rand(5,1)
===
SELECT 1;

SELECT :id
===
SELECT :rand(1)
===
SELECT :rand(a,b)
===
SELECT :ran(1,2)
===
\sleep 5
SELECT 1
===
\set x 5
SELECT 1
===
\set x rand(1,2)

SELECT 1
===
SELECT 1;
;
===
SELECT 1;
SELECT 'open
===
SELECT 1 /* open
===
BEGIN;
SELECT 1;
===
SELECT 1;
BEGIN;
COMMIT
===
SELECT 1;
COMMIT
===
BEGIN;
COMMIT;
SELECT 1
===
DELIMITER //
===
USE other;
===
\weight 0
SELECT 1
===
\weight x
SELECT 1
===
\rows 5
SELECT 1
===
\rows 5
CREATE TABLE mysql.user (a INT)
===
\rows 5
CREATE TABLE a (a INT);
SELECT 1
===
\rows 5
CREATE TABLE a (a INT)
===
\database mysql
SELECT 1
===
\database a

\database b
SELECT 1
===
\weight 2

SELECT 1
===
\set b :a + 1
SELECT :b
===
\set a text(3)
\set b :a + 1
SELECT :b
===
\set a rand(1,2)
\set a :a + 1
SELECT :a
===
\set a rand(1,2)
\set b :a + 1
\set a text(2)
SELECT :b"""


def test_mistakes_are_named_by_file_and_line(snapshot: object) -> None:
    files = ("", "SELECT 1;\0", *MISTAKES.split("\n===\n"))
    assert {each: refused(read_script, each, "t.sql") for each in files} == snapshot
    assert refused(read_script, "x" * (LARGEST_BYTES + 1), "t.sql").startswith("t.sql is larger")


CAPTURED = r"""
\database shop_imitation

\rows 5000 120
CREATE TABLE `item` (
  `id` int NOT NULL,
  `name` varchar(20) DEFAULT 'a;b',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;

\rows 3
CREATE TABLE other.tag (id INT);

\weight 3
\prepared
\set v1 rand(1,5000)
\set v2 :v1 + 99
\set v3 :v2 - 100
SELECT name FROM item WHERE id IN (:v1, :v2, :v3);
UPDATE item SET name = :text(6) WHERE id = :v1 + 1;

INSERT INTO item VALUES (:next(5001), :text(3));

SELECT :rand(1,9)
"""


@pytest.mark.parametrize("text", [BANK, CAPTURED], ids=["bank", "captured"])
def test_a_block_is_a_transaction_and_what_is_set_holds_within_it(text: str, snapshot: object) -> None:
    """Statements know their kind, form and place; a number may be so far from another."""
    workload = read_script(text, "t.sql").workload
    statements = [
        f"{each.place}: {('read', 'write', 'other')[each.kind]}, parameters {each.parameters!r},"
        f" prepared {each.prepared}, commits {each.commits}"
        for each in workload.statements
    ]
    tables = [
        f"{each.place}: {each.quoted}, {each.rows} rows, {each.row_bytes} bytes" for each in workload.tables
    ]
    bodies = [each.body for each in workload.tables]
    assert [workload.database, *statements, *tables, *bodies, *sent(text, count=6)] == snapshot


def test_a_weight_says_how_often_a_block_comes() -> None:
    drawn = Counter(len(found) for found in sent(CAPTURED, count=4000))
    assert drawn[4] / drawn[1] == pytest.approx(3 / 2, rel=0.1)


@given(st.text(alphabet="ab:;'\"`\\/*-# \n(),1?%\tSELCTBGIN", max_size=80))
def test_no_text_breaks_the_reader(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert all(sent(text, count=3))
