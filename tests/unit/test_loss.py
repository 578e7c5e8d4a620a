"""The loss ledger: client logs read to the class of each row, rows compared with them, runs of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.loss.client_log import HEAD, LedgerStanding, Rows, RunLog, read_run
from replexplorer.core.loss.ledger import count_losses
from replexplorer.core.server.gtid import Spans, spans_of
from replexplorer.formats.documents import plain
from tests.known import refused
from tests.typed import fields, table_of

RUN = 1_795_000_000
A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def log_of(text: str, end: str = "\n") -> RunLog:
    """`t 5, i 1 12`: a line each."""
    return read_run([("0.log", ("\n".join((f"{HEAD}{RUN}", *text.split(", "))) + end).encode())])


def rows(text: str) -> Rows:
    """`c1=[1,2] c2=[7]`: the rows of each client."""
    return {int(name[1:]): spans_of((seq, seq) for seq in seqs) for name, seqs in fields(text).items()}


def test_a_last_line_that_a_kill_cut_off_says_nothing() -> None:
    """The acknowledgement of row 12 was being written: the row is unknown, not `row 1 acknowledged`."""
    cut_off = log_of("t 5, i 1 12, a 1 12 9, i 1 13, a 1 1", end="")
    assert cut_off.standing == LedgerStanding(2, 1, 0, 1)
    assert read_run([("0.log", b"replexplorer cli")]).standing == LedgerStanding()


def test_what_no_client_log_of_this_run_has_is_named() -> None:
    for line in ("x 1 2", "i 1", "a 1 2", "i one 2", "s db1 1 2", "t", "i 1 99999999999999999999"):
        assert "0.log:3: not a line of a client log" in refused(log_of, f"t 5, {line}")
    logs = [("0.log", f"{HEAD}{RUN}\n".encode()), ("1.log", f"{HEAD}{RUN + 1}\n".encode())]
    assert "1.log: not a client log of this run" in refused(read_run, logs)


MANY = ", ".join(f"i 1 {seq}, a 1 {seq} {seq}" for seq in range(1, 32))
LEDGERS = f"""\
t 1000, i 1 1, a 1 1 2000, i 1 2, a 1 2 52000, i 1 3, a 1 3 90000, i 1 4, i 2 1, f 2 1 1290, i 2 2, i 2 3, \
a 2 3 70000, s db1 1 1 3, s db2 1 1 1, s db1 2 2 2 | c1=[1,2,3,4] c2=[2,3] | c1=[1] | db2
t 10, i 1 1, a 1 1 11, i 1 2, r 20, t 21, a 1 2 22, i 1 3, a 1 3 23 | c1=[3] | c1=[1,2] | db1
t 1, {MANY} | c1=[16] | | db1
r 20, t 21, a 1 7 22, f 2 4 1290, i 1 8, a 1 8 23, s db1 1 5 8 | c1=[8] | c1=[6,7,8] c2=[3,4] c9=[1,2] | db1
"""
"""What a client log has, the rows of db1 and of db2, and which of them survived."""


def test_what_was_acknowledged_and_is_not_on_the_survivor_is_lost(snapshot: object) -> None:
    """What the table held when it was emptied is no loss. A file that was begun again says nothing of before:
    its clients of before hear of rows whose intents are gone, which are settled, and so is a client that
    left. Of many that are lost the sample has the newest."""
    executed, told = {"db1": f"{A}:1-9", "db2": f"{A}:1-5"}, {}
    for line in LEDGERS.splitlines():
        log, db1, db2, survivor = table_of(line)[0]
        nodes = {"db1": rows(db1), "db2": rows(db2)}
        ledger = count_losses(log_of(log), nodes, survivor, executed=executed, failed_at_us=100_000)
        told[line] = plain(ledger)
    assert told == snapshot


@dataclass
class History:
    """What clients did and where their rows are, as plain sets."""

    lines: list[str] = field(default_factory=lambda: ["t 1"])
    failed: int = 0
    acknowledged: set[tuple[int, int]] = field(default_factory=set)
    unknown: set[tuple[int, int]] = field(default_factory=set)
    nodes: dict[str, set[tuple[int, int]]] = field(default_factory=lambda: {"db1": set(), "db2": set()})


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Clients that were told OK, no, or nothing; each row anywhere, which servers may do when they fail."""
    history = History()
    for client in range(1, draw(st.integers(0, 4)) + 1):
        for seq in range(1, draw(st.integers(0, 12)) + 1):
            history.lines.append(f"i {client} {seq}")
            told = draw(st.sampled_from(["a", "f", ""]))
            if told == "a":
                history.acknowledged.add((client, seq))
                history.lines.append(f"a {client} {seq} {client * 100 + seq}")
            elif told == "f":
                history.failed += 1
                history.lines.append(f"f {client} {seq} 1180")
            else:
                history.unknown.add((client, seq))
            for found in history.nodes.values():
                if draw(st.booleans()):
                    found.add((client, seq))
            if draw(st.booleans()):
                history.lines.append(f"s db1 {client} {seq} {seq}")
    return history


def as_rows(found: set[tuple[int, int]]) -> Mapping[int, Spans]:
    return {client: spans_of((seq, seq) for owner, seq in found if owner == client) for client, _ in found}


@given(histories(), st.sampled_from(["db1", "db2"]))
def test_the_ledger_says_what_sets_of_rows_say(history: History, survivor: str) -> None:
    log = log_of(", ".join(history.lines))
    nodes = {name: as_rows(found) for name, found in history.nodes.items()}
    ledger = count_losses(log, nodes, survivor, executed={}, failed_at_us=10_000)
    there = history.nodes[survivor]
    lost = history.acknowledged - there
    acknowledged, unknown = len(history.acknowledged), len(history.unknown)
    attempted = acknowledged + history.failed + unknown
    assert log.standing == LedgerStanding(attempted, acknowledged, history.failed, unknown)
    assert ledger.acknowledged == acknowledged
    assert ledger.lost == len(lost)
    assert set(ledger.lost_sample) <= lost
    assert len(ledger.lost_sample) == min(len(lost), 20)
    assert ledger.unknown_present == len(history.unknown & there)
    assert ledger.unknown_absent == len(history.unknown - there)
    assert (ledger.newest_lost_age_ms is None) == (not lost)
    for name, found in history.nodes.items():
        node = ledger.nodes[name]
        assert node.rows == len(found)
        assert node.missing == len(history.acknowledged - found)
        assert node.extra == len(found - there)


def test_rows_one_after_the_other_are_a_pair() -> None:
    assert log_of(f"t 1, {MANY}").clients[1].attempted == ((1, 31),)
