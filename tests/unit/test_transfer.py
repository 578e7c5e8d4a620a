"""What a member is given: a Galera server's own log says which it is and how far."""

from __future__ import annotations

from replexplorer.core.dialect.mariadb import transfer_in
from replexplorer.core.server.node_view import Transfer, TransferKind
from tests.known import known

CLUSTER = "5f0a0b52-c7ee-11f0-9e6c-7a1f36b6a6aa"
NOTHING = "00000000-0000-0000-0000-000000000000:-1"
BEGINS = (
    "2026-11-23  1:20:01 2 [Note] WSREP: State transfer required: ",
    f"\tGroup state: {CLUSTER}:1300",
)
DONOR = (
    "2026-11-23  1:20:01 0 [Note] WSREP: Member 2.0 (db3) requested state transfer from '*any*'."
    " Selected 0.0 (db1)(SYNCED) as donor."
)
RECEIVES = "2026-11-23  1:20:03 2 [Note] WSREP: Receiving IST: 240 writesets, seqnos 1061-1300"
HALF = "2026-11-23  1:20:04 0 [Note] WSREP: Receiving IST... 50.0% ( 120/ 240 events) complete."
ALL = "2026-11-23  1:20:05 0 [Note] WSREP: Receiving IST...100.0% ( 240/ 240 events) complete."
ENDS = "2026-11-23  1:20:06 0 [Note] WSREP: Shifting JOINER -> JOINED (TO: 1311)"


def had(position: str) -> str:
    return f"\tLocal state: {position}"


def copied(number: int) -> str:
    return f"2026-11-23  1:20:02 3 [Note] WSREP: SST succeeded for position {CLUSTER}:{number}"


def read(*lines: str) -> Transfer | None:
    """A line a second from 100 s on, looked at 10 s after the last."""
    return transfer_in([(100.0 + at, line) for at, line in enumerate(lines)], 110.0 + len(lines))


MISSED = (*BEGINS, had(f"{CLUSTER}:1060"), DONOR)


def test_which_it_is_and_how_far() -> None:
    had_nothing = (*BEGINS, had(NOTHING), DONOR)
    for lines, *how_far in (
        (MISSED, None, None, None),
        ((*MISSED, RECEIVES), TransferKind.IST, 0, 240),
        ((*MISSED, copied(1060), RECEIVES, HALF), TransferKind.IST, 120, 240),
        ((*MISSED, copied(1290)), TransferKind.SST, None, None),
        (had_nothing, TransferKind.SST, None, None),
        ((*had_nothing, copied(1299), RECEIVES), TransferKind.SST, None, None),
    ):
        found = known(read(*lines))
        assert [found.kind, found.done, found.total] == how_far
        assert (found.donor, found.runs, found.elapsed_s) == ("db1", True, 10.0 + len(lines))


def test_one_that_is_over_took_as_long_as_it_took_and_the_last_one_counts() -> None:
    found = known(read(*BEGINS, had(NOTHING), DONOR, copied(1), ENDS, *MISSED, RECEIVES, ALL, ENDS))
    assert found.words == "got what it missed (IST) from db1: 240 transactions, 6.0 s"


def test_a_member_that_lacked_nothing_was_given_nothing() -> None:
    assert read("2026-11-23  1:20:01 0 [Note] WSREP: Shifting JOINED -> SYNCED (TO: 1)") is None


def test_in_words(snapshot: object) -> None:
    found = [
        Transfer(TransferKind.INCREMENTAL, 0.0, 2.0, donor="db2", done=120, total=1234),
        Transfer(TransferKind.SST, 0.0, 12.0),
        Transfer(None, 0.0, 0.5),
        Transfer(TransferKind.IST, 0.0, 0.4, runs=False, donor="db1", done=1, total=1),
    ]
    assert [(each.words, each.brief) for each in found] == snapshot
