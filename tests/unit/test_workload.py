"""The load's statements against what sysbench 1.0 sends."""

import re
from collections import Counter
from itertools import chain
from random import Random
from statistics import fmean, pstdev

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.knobs.names import BY_KEY
from replexplorer.core.load.workload import (
    OTHER,
    READ,
    WORKLOADS,
    WRITE,
    Sources,
    draw_of,
    fill_source,
    key_source,
)


def test_the_knob_offers_exactly_the_workloads_that_are_built() -> None:
    assert set(BY_KEY["workload"].choices) == set(WORKLOADS)


def drawn(name: str, count: int = 200, **options: int) -> list[list[str]]:
    """The statements of so many transactions, as text."""
    workload = WORKLOADS[name].with_payload() if options.get("payload_bytes") else WORKLOADS[name]
    draw = draw_of(workload, Sources(10_000, Random(1), **options))  # type: ignore[arg-type]
    forms = [statement.format for statement in workload.statements]
    return [[(forms[index] % values).decode() for index, values in draw()] for _ in range(count)]


def test_sysbench_tables_have_sysbench_columns_and_index(snapshot: object) -> None:
    tables = [WORKLOADS[name].tables for name in ("update_index", "insert")]
    assert [(table.name, table.body, table.index) for [table] in tables] == snapshot


def test_transactions_have_sysbench_s_statements_in_its_order_counted_and_sent_as_it_does(
    snapshot: object,
) -> None:
    """The row that is deleted is the row that is inserted; ranges have a hundred rows. oltp_insert sends
    text, BEGIN cannot be prepared; foo, employees and ledger are not sysbench's."""
    words = {READ: "read", WRITE: "write", OTHER: "other"}
    told = {}
    for name, workload in WORKLOADS.items():
        statements = [
            f"{each.format.decode()}: {words[each.kind]}, {'prepared' if each.prepared else 'text'}"
            f"{', commits' * each.commits}"
            for each in workload.statements
        ]
        told[name] = statements, drawn(name, 2)
    assert told == snapshot


def test_a_ledger_s_rows_are_numbered_for_each_client() -> None:
    random = Random(1)
    sources = Sources(1, random)
    clients = [draw_of(WORKLOADS["ledger"], sources) for _ in range(50)]
    rows = [values for draw in clients for _ in range(3) for _, values in draw()]
    assert len({client for client, _ in rows}) == 50
    assert [seq for _, seq in rows] == [1, 2, 3] * 50


def test_a_payload_is_one_more_column_that_every_write_fills() -> None:
    for name, workload in WORKLOADS.items():
        [bare], [table] = workload.tables, workload.with_payload().tables
        assert "payload" not in bare.body
        assert table.body.count(" payload MEDIUMTEXT,") == 1
        assert table.without_payload() == bare
        for size, filled in ((1, "payload"), (100, r"'\d{100}'"), (200_000, r"'\d{200000}'")):
            for statement in chain(*drawn(name, 3, payload_bytes=size)):
                wrote = len(re.findall(filled, statement))
                assert wrote == (statement.split()[0] in ("INSERT", "UPDATE")), name


@given(st.integers(1, 10_000_000), st.integers(0, 5000), st.integers(0, 2**32))
def test_keys_stay_in_the_table_and_within_their_spread(table_size: int, spread: int, seed: int) -> None:
    draw = key_source(table_size, Random(seed), spread)
    assert all(1 <= draw() <= min(spread or table_size, table_size) for _ in range(50))


def test_rows_of_a_key_spread_are_as_likely() -> None:
    draw = key_source(10_000, Random(3), 8)
    counts = Counter(draw() for _ in range(8000))
    assert set(counts) == set(range(1, 9))
    assert min(counts.values()) > 850


def test_keys_follow_the_special_distribution() -> None:
    # sysbench 1.0: 75 % in the middle 1 % (of which the lowest quarter is never drawn), the rest
    # a bell of twelve uniform draws around the middle: standard deviation range / 12.
    size, draws = 10_000, 40_000
    draw = key_source(size, Random(7))
    keys = [draw() for _ in range(draws)]
    hot = Counter(key for key in keys if 4975 <= key <= 5052)
    cold = [key for key in keys if key < 4950 or key > 5060]
    bell_in_hot = 0.25 * 0.037  # what the bell itself puts into those 78 keys around its middle
    assert abs(hot.total() / draws - (0.75 + bell_in_hot)) < 0.012
    assert abs(fmean(cold) - size / 2) < 60
    assert 790 < pstdev(cold) < 900
    assert min(hot[key] for key in range(4976, 5051)) > 0.7 * hot.total() / 75


def test_a_filling_statement_holds_the_rows_asked_for(snapshot: object) -> None:
    """Texts repeat as seldom as drawn ones: `SELECT DISTINCT c` over a hundred rows must find a hundred."""
    table = WORKLOADS["update_index"].tables[0]
    assert fill_source(table, 10_000, Random(1))(2001, 2003) == snapshot
    texts = re.findall(r"'(\d{11}-[-\d]{100,})'", fill_source(table, 10_000, Random(5))(1, 10_000))
    assert len(texts) == 10_000
    assert len(set(texts)) >= 9_990
    assert len({text[:11] for text in texts}) > 3000
