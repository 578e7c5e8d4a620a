"""The loss ledger: client logs read to the class of each row, rows compared with them, runs of numbers."""

from __future__ import annotations

from replexplorer.core.loss.client_log import HEAD, LedgerStanding, Rows, RunLog, read_run
from replexplorer.core.loss.ledger import count_losses
from replexplorer.core.server.gtid import spans_of
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


def test_rows_one_after_the_other_are_a_pair() -> None:
    assert log_of(f"t 1, {MANY}").clients[1].attempted == ((1, 31),)
