"""Replies end where the server ends them, in both forms of the protocol and in any pieces."""

from __future__ import annotations

import struct
from itertools import pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.load.workload import WORKLOADS, Statement
from replexplorer.core.server.gtid import gtid_count
from replexplorer.generator.connection import Refusal, Reply, acknowledged_gtids, execution, text_query

MORE, LAST = 0x08, 0x02


def packets(*payloads: bytes) -> bytes:
    return b"".join(
        len(payload).to_bytes(3, "little") + bytes(((number + 1) % 256,)) + payload
        for number, payload in enumerate(payloads)
    )


def ok(info: bytes = b"") -> bytes:
    return b"\x00\x01\x00" + struct.pack("<HH", LAST, 0) + info


def eof(status: int = LAST) -> bytes:
    return b"\xfe" + struct.pack("<HH", 0, status)


def last_ok(status: int = LAST) -> bytes:
    return b"\xfe\x00\x00" + struct.pack("<HH", status, 0)


def err(number: int, text: str) -> bytes:
    return b"\xff" + struct.pack("<H", number) + b"#40001" + text.encode()


def result(rows: list[bytes], columns: int, *, new_form: bool, status: int = LAST) -> list[bytes]:
    definitions = [b"\x03def" + bytes((number,)) * 20 for number in range(columns)]
    if new_form:
        return [bytes((columns,)), *definitions, *rows, last_ok(status)]
    return [bytes((columns,)), *definitions, eof(), *rows, eof(status)]


def fed_in_pieces(data: bytes, cuts: list[int]) -> bool | Refusal:
    """What the last piece answered; those before it end nothing."""
    reply = Reply()
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    *before, last = [reply.feed(data[low:high]) for low, high in pairwise(edges)]
    assert not any(before)
    return last


# A row begins with the length of its first column, with 0xFB for NULL, or (prepared) with 0x00.
rows = st.lists(
    st.tuples(st.sampled_from([b"\x00", b"\xfb", b"\x05", b"\xfc\x05\x00"]), st.binary(max_size=300)).map(
        b"".join
    ),
    max_size=300,
)
cuts = st.lists(st.integers(0, 10**9), max_size=8)


@given(rows, st.integers(1, 40), st.binary(max_size=60), st.booleans(), cuts)
def test_a_reply_ends_with_its_last_byte(
    found: list[bytes], columns: int, info: bytes, new_form: bool, where: list[int]
) -> None:
    first = result(found, columns, new_form=new_form, status=MORE)
    second = result(found[:3], 1, new_form=new_form, status=MORE)
    for payloads in (result(found, columns, new_form=new_form), [ok(info)], [*first, *second, ok()]):
        assert fed_in_pieces(packets(*payloads), where) is True


@given(st.booleans(), cuts)
def test_a_refusal_may_come_instead_of_rows_or_among_them(new_form: bool, where: list[int]) -> None:
    refused = Refusal(1213, "Deadlock found; try restarting transaction")
    text = "Deadlock found;\n try restarting  transaction"
    assert fed_in_pieces(packets(err(1213, text)), where) == refused
    among = [*result([b"\x01a"] * 5, 1, new_form=new_form)[:-1], err(1213, text)]
    assert fed_in_pieces(packets(*among), where) == refused


INSERT = WORKLOADS["insert"].statements[0]


def test_an_execution_is_what_the_protocol_says_and_a_text_has_its_values_written_in(
    snapshot: object,
) -> None:
    assert [
        execution(7, "i")((258,)),
        execution(7, "")(()),
        execution(1, "si")((b"ab", 5)),
        text_query(INSERT)((42, b"12-34", b"56")),
        text_query(Statement("select", "SELECT 5 % 3, '100%'", prepared=False))(()),
        text_query(Statement("select", "SELECT 5 % ?", parameters="i", prepared=False))((3,)),
    ] == snapshot
    for size, length in ((250, "fa"), (251, "fcfb00"), (65535, "fcffff"), (65536, "fd000001")):
        text = b"1" * size
        built = execution(1, "s")((text,))
        assert built.endswith(bytes.fromhex("01 fd00") + bytes.fromhex(length) + text)
        assert int.from_bytes(built[:3], "little") == len(built) - 4


NODE = b"8b689583-e7ba-11f1-9059-0242ac160002"
ANSWERED = {
    "DDL": b"8\0\0\1\0\0\0\x02@\1\0\0/\x03-\0+" + NODE + b":235118",
    "BEGIN": b"\x14\0\0\1\0\0\0\x03@\0\0\0\x0b\x05\t\x08T_______",
    "UPDATE": b"0\0\0\1\0\1\0\x03\0\0\0(Rows matched: 1  Changed: 1  Warnings: 0",
    "COMMIT": b"C\0\0\1\0\0\0\x02@\0\0\0:\x03-\0+" + NODE + b":235119\x05\t\x08________",
    "UPDATE that commits": (
        b"`\0\0\1\0\1\0\x02@\0\0(Rows matched: 1  Changed: 1  Warnings: 0/\x03-\0+" + NODE + b":235123"
    ),
    "DROP DATABASE": b";\0\0\1\0\1\0\x02A\0\0\x002\1\1\0\x03-\0+" + NODE + b":235120",
    "DO": b"\x07\0\0\1\0\0\0\x02\0\0\0",
}
"""As MySQL 9 sent them to a session with `session_track_gtids=OWN_GTID`."""


def test_gtids_are_taken_from_the_replies_to_what_commits() -> None:
    for cut, step in product((0, 1, 30), (1, -1)):
        heard: list[bytes] = []
        reply = Reply(heard.append)
        for answer in list(ANSWERED.values())[::step]:
            pieces = [answer[:cut], answer[cut:]] if 0 < cut < len(answer) else [answer]
            assert [reply.feed(piece) for piece in pieces][-1] is True
        assert acknowledged_gtids(heard) == f"{NODE.decode()}:235118-235120:235123"
        other = [each.replace(b"8b68", b"7b68") for each in heard]
        assert gtid_count(acknowledged_gtids([*heard, *other])) == 8
    assert acknowledged_gtids([]) == ""


def answered_by_mariadb(gtid: bytes, text: bytes = b"") -> bytes:
    """As MariaDB 11.8 sends it to a session with `session_track_system_variables=last_gtid`."""
    tracked = b"\x09last_gtid" + bytes((len(gtid),)) + gtid
    state = b"\0" + bytes((len(tracked),)) + tracked
    return packets(b"\0\1\0\2@\0\0" + bytes((len(text),)) + text + bytes((len(state),)) + state)


def test_gtids_of_mariadb_are_sets_by_domain_and_server() -> None:
    heard: list[bytes] = []
    reply = Reply(heard.append)
    for gtid in (b"0-1-1", b"0-1-57", b"0-1-58", b"0-2-59", b"1-1-7", b""):
        assert reply.feed(answered_by_mariadb(gtid, b"Rows matched: 1  Changed: 1  Warnings: 0")) is True
    assert reply.feed(answered_by_mariadb(b"0-1-60")) is True
    assert acknowledged_gtids(heard) == "0-1:1:57-58:60, 0-2:59, 1-1:7"
