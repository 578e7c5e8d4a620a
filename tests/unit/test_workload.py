"""The load's statements against what sysbench 1.0 sends."""

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.knobs import BY_KEY
from replexplorer.core.workload import WORKLOADS, fill_statement, key_source, statement_source

C = r"(?:\d{11}-){9}\d{11}"
PAD = r"(?:\d{11}-){4}\d{11}"


def test_the_knob_offers_exactly_the_workloads_that_are_built() -> None:
    assert set(BY_KEY["workload"].choices) == set(WORKLOADS)


def test_sysbench_tables_have_sysbench_columns_and_index() -> None:
    for name, number in (("update_index", 1), ("insert", 2)):
        ddl = WORKLOADS[name].ddl
        assert ddl.startswith(f"CREATE TABLE sbtest{number} (id INTEGER NOT NULL AUTO_INCREMENT,")
        assert "k INTEGER DEFAULT '0' NOT NULL" in ddl
        assert "c CHAR(120) DEFAULT '' NOT NULL" in ddl
        assert "pad CHAR(60) DEFAULT '' NOT NULL" in ddl
        assert f"PRIMARY KEY (id), KEY k_{number} (k)" in ddl


def test_update_index_is_sysbench_s_prepared_statement() -> None:
    assert WORKLOADS["update_index"].prepared == "UPDATE sbtest1 SET k=k+1 WHERE id=?"


def test_insert_is_sysbench_s_text_statement() -> None:
    draw = statement_source(WORKLOADS["insert"], 10_000, Random(1))
    pattern = rf"INSERT INTO sbtest2 \(id, k, c, pad\) VALUES \(0, (\d+), '{C}', '{PAD}'\)"
    statements = [draw().decode() for _ in range(200)]
    matches = [re.fullmatch(pattern, statement) for statement in statements]
    assert all(matches)
    assert all(match and 1 <= int(match[1]) <= 10_000 for match in matches)
    assert len(set(statements)) == len(statements)


def test_foo_inserts_eight_letters_from_a_to_y() -> None:
    draw = statement_source(WORKLOADS["foo"], 1, Random(1))
    statements = [draw().decode() for _ in range(500)]
    texts = [re.fullmatch(r"INSERT INTO foo \(text\) VALUES \('([A-Y]{8})'\)", each) for each in statements]
    assert all(texts)
    assert {letter for match in texts if match for letter in match[1]} == set("ABCDEFGHIJKLMNOPQRSTUVWXY")


def test_a_prepared_workload_has_no_text_statement() -> None:
    with pytest.raises(ValueError, match="prepared"):
        statement_source(WORKLOADS["update_index"], 10, Random(1))


@given(table_size=st.integers(1, 10_000_000), seed=st.integers(0, 2**32))
def test_keys_stay_in_the_table(table_size: int, seed: int) -> None:
    draw = key_source(table_size, Random(seed))
    assert all(1 <= draw() <= table_size for _ in range(50))


def test_keys_follow_the_special_distribution() -> None:
    # sysbench 1.0: 75 % in the middle 1 % (of which the lowest quarter is never drawn), the rest
    # a bell of twelve uniform draws around the middle: standard deviation range / 12.
    size, draws = 10_000, 40_000
    draw = key_source(size, Random(7))
    keys = [draw() for _ in range(draws)]
    hot = [key for key in keys if 4975 <= key <= 5052]
    cold = [key for key in keys if key < 4950 or key > 5060]
    bell_in_hot = 0.25 * 0.037  # what the bell itself puts into those 78 keys around its middle
    assert abs(len(hot) / draws - (0.75 + bell_in_hot)) < 0.012
    mean = sum(cold) / len(cold)
    deviation = (sum((key - mean) ** 2 for key in cold) / len(cold)) ** 0.5
    assert abs(mean - size / 2) < 60
    assert 790 < deviation < 900
    counts = Counter(hot)
    assert min(counts[key] for key in range(4976, 5051)) > 0.7 * len(hot) / 75


def test_a_filling_statement_holds_the_rows_asked_for() -> None:
    statement = fill_statement("replexplorer.sbtest1", 2001, 2100, 10_000, Random(1))
    head, _, values = statement.partition(" VALUES ")
    assert head == "INSERT INTO replexplorer.sbtest1 (id, k, c, pad)"
    rows = re.findall(rf"\((\d+), (\d+), '{C}', '{PAD}'\)", values)
    assert [int(row[0]) for row in rows] == list(range(2001, 2101))
    assert all(1 <= int(row[1]) <= 10_000 for row in rows)
