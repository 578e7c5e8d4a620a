"""The client log: on the disk before anybody is called back, one sync for many, whole when it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from replexplorer.adapters.client_logs import FileClientLogs, forget
from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.loss.client_log import CLIENTS_A_FILE, LedgerStanding, RunLog, read_run
from replexplorer.core.topology import new_roster
from replexplorer.engine.requested import claim_run
from replexplorer.generator.client_log import ClientLog, LogHealth
from tests.fakes.sidecar import FakeAgent
from tests.fakes.world import World
from tests.waiting import until

pytestmark = pytest.mark.real_time

RUN = 1_795_000_000


@asynccontextmanager
async def opened(
    directory: Path, broken: list[MissingPiece] | None = None
) -> AsyncIterator[tuple[ClientLog, LogHealth]]:
    run = directory / str(RUN)
    run.mkdir(exist_ok=True)
    health = LogHealth([], [])
    log = ClientLog(str(run), health, (broken if broken is not None else []).append)
    try:
        yield log, health
    finally:
        await log.close()


async def noted(log: ClientLog, client: int, seq: int) -> None:
    """Wait until the intent is on the disk."""
    done = asyncio.Event()
    log.intend(client, seq, done.set)
    await asyncio.wait_for(done.wait(), 20)


def read(log: ClientLog) -> RunLog:
    return read_run([(str(log.file), log.file.read_bytes())])


async def test_an_intent_is_in_the_file_when_the_client_hears_of_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, health):
        client, number = log.writer()
        for _ in range(3):
            seq = number()
            await noted(log, client, seq)
            assert read(log).standing == LedgerStanding(seq, seq - 1, 0, 1)
            log.acknowledge(client, seq, 12.5)
        assert len(health.waits_s) == 3
    assert read(log).standing == LedgerStanding(3, 3, 0, 0)
    assert read(log).clients[1].told_us(2) == 12_500_000


async def test_a_thousand_clients_share_their_syncs(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, health):
        writers = [log.writer() for _ in range(1000)]
        for _ in range(3):
            await asyncio.gather(*(noted(log, client, number()) for client, number in writers))
        assert len(health.syncs_s) < 100
    assert read(log).standing.attempted == 3000


async def test_what_was_told_and_what_comes_next_are_one_sync(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, health):
        client, number = log.writer()
        await noted(log, client, number())
        before = len(health.syncs_s)
        log.acknowledge(client, 1, 1.0)
        await noted(log, client, number())
        assert len(health.syncs_s) == before + 1


async def test_each_file_of_a_run_has_clients_of_its_own(tmp_path: Path) -> None:
    """Another process of the load, or one that was begun elsewhere after a failover."""
    async with opened(tmp_path) as (one, _), opened(tmp_path) as (other, _):
        assert [one.writer()[0] - one.base for _ in range(2)] == [1, 2]
        assert other.writer()[0] - other.base == CLIENTS_A_FILE + 1
        await noted(one, one.base + 1, 1)
        await noted(other, other.base + CLIENTS_A_FILE + 1, 1)
    files = [(str(log.file), log.file.read_bytes()) for log in (one, other)]
    assert sorted(read_run(files).clients) == [1, CLIENTS_A_FILE + 1]


async def test_a_reader_s_rows_are_kept_by_node(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, health):
        log.see("db2", [(log.base + 1, 4, 9)])
    assert read(log).seen == {"db2": {1: ((4, 9),)}}
    assert health.syncs_s == [], "nobody waits for that"


async def test_an_emptied_table_empties_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, _):
        client, number = log.writer()
        for _ in range(50):
            await noted(log, client, number())
        log.acknowledge(client, 50, 3.0)
        log.reset()
        await noted(log, client, number())
        assert read(log).standing == LedgerStanding(1, 0, 0, 1)
    assert log.file.stat().st_size < 150
    assert [each.name for each in log.file.parent.iterdir()] == ["0.log"]


async def test_a_full_disk_ends_the_log_with_what_it_has_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes half a batch and no more: nobody is called back, and the half is taken out again."""
    write, broken, sent = os.write, list[MissingPiece](), list[int]()

    def half(descriptor: int, lines: bytes) -> int:
        if b"i 1 2" not in lines:
            raise OSError(28, "No space left on device")
        return write(descriptor, lines[: len(lines) // 2])

    async with opened(tmp_path, broken) as (log, _):
        client, _ = log.writer()
        await noted(log, client, 1)
        monkeypatch.setattr(os, "write", half)
        log.intend(client, 2, lambda: sent.append(2))
        await until(lambda: _is(broken), "the log is given up")
        log.intend(client, 3, lambda: sent.append(3))
        await asyncio.sleep(0.01)
    assert sent == []
    assert str(broken[0]) == (
        f"the client log {log.file} cannot be written: no space left on device: "
        "make room or name another $XDG_STATE_HOME"
    )
    assert read(log).standing == LedgerStanding(1, 0, 0, 1)
    assert log.file.read_bytes().endswith(b"i 1 1\n")


async def _is(found: list[MissingPiece]) -> bool:
    return bool(found)


async def test_a_place_that_takes_no_file_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone" / str(RUN)
    with pytest.raises(MissingPiece, match=r"gone/.*/0\.log cannot be written: no such file or directory"):
        ClientLog(str(gone), LogHealth([], []), lambda _: None)


async def unclaimed(run: int) -> int:
    """A stack on which nobody else numbers runs."""
    return run


async def test_runs_of_two_homes_begun_in_one_second_are_told_apart_by_the_stack(tmp_path: Path) -> None:
    """Else their clients would write under the same numbers into one table, and each would count the
    other's rows."""
    world, roster = World(), new_roster(1)
    homes = [
        (FileClientLogs(tmp_path / name), partial(claim_run, FakeAgent(world.sidecars["db1"], pid), roster))
        for pid, name in enumerate(("one", "other"), 1)
    ]
    began = [await home.new_run(claim) for _ in range(3) for home, claim in homes]
    runs = [int(Path(run).name) for run in began]
    assert runs == sorted(set(runs))


async def test_runs_are_made_apart_and_the_oldest_go(tmp_path: Path) -> None:
    logs = FileClientLogs(tmp_path / "ledgers")
    runs = [await logs.new_run(unclaimed) for _ in range(8)]
    assert len(set(runs)) == 8
    assert sorted(str(each) for each in (tmp_path / "ledgers").iterdir()) == sorted(runs)[-5:]
    with pytest.raises(UsageError, match="has no client log"):
        await logs.read(runs[-1])
    forget(tmp_path / "ledgers")
    forget(tmp_path / "ledgers")
    assert os.listdir(tmp_path) == []


async def test_a_state_directory_that_takes_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledgers").write_text("a file")
    with pytest.raises(MissingPiece, match=r"ledgers.*: (not a directory|file exists)"):
        await FileClientLogs(tmp_path / "ledgers").new_run(unclaimed)
