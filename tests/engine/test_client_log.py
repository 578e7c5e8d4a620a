"""The client log: on the disk before anybody is called back, one sync for many, whole when it ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from replexplorer.adapters.client_logs import FileClientLogs, forget
from replexplorer.adapters.docker.load import LOGS, FarClientLogs, _noted, program
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.loss.client_log import (
    ACKNOWLEDGED,
    CLIENTS_A_FILE,
    LedgerStanding,
    RunLog,
    read_run,
)
from replexplorer.core.topology import new_roster
from replexplorer.engine.requested import claim_run
from replexplorer.generator.client_log import ClientLog, LogHealth
from tests.fakes.clock import until
from tests.fakes.sidecar import FakeAgent
from tests.fakes.world import World

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def opened(
    run: Path, number: int | None = None, broken: list[MissingPiece] | None = None
) -> AsyncIterator[tuple[ClientLog, LogHealth]]:
    """A log in the directory of a run; what breaks it is put there."""
    health = LogHealth([], [])
    log = ClientLog(str(run), health, ([] if broken is None else broken).append, number)
    try:
        yield log, health
    finally:
        await log.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a run."""
    run = tmp_path / "1795000000"
    run.mkdir()
    return run


async def note(log: ClientLog, writer: tuple[int, Callable[[], int]]) -> int:
    """The client's next row, once its intent is on the disk."""
    (client, number), done = writer, asyncio.Event()
    log.intend(client, seq := number(), done.set)
    await asyncio.wait_for(done.wait(), 20)
    return seq


def read(*logs: ClientLog) -> RunLog:
    return read_run([(str(log.file), log.file.read_bytes()) for log in logs])


async def test_an_intent_is_in_the_file_when_the_client_hears_of_it_until_the_table_is_emptied(
    run: Path,
) -> None:
    async with opened(run) as (log, health):
        writer = log.writer()
        for _ in range(3):
            seq = await note(log, writer)
            assert read(log).standing == LedgerStanding(seq, seq - 1, 0, 1)
            log.acknowledge(writer[0], seq, 12.5)
        assert (await note(log, writer), len(health.waits_s)) == (4, 4)
        assert read(log).clients[1].told_us(2) == 12_500_000
        log.reset()
        await note(log, writer)
    assert read(log).standing == LedgerStanding(1, 0, 0, 1)
    assert os.listdir(run) == ["0.log"]


async def test_a_thousand_clients_share_their_syncs(run: Path) -> None:
    """What a client was told of goes with its next intent."""
    async with opened(run) as (log, health):
        writers = [log.writer() for _ in range(1000)]
        for seq in range(1, 4):
            await asyncio.gather(*(note(log, writer) for writer in writers))
            for client, _ in writers:
                log.acknowledge(client, seq, 1.0)
        assert len(health.syncs_s) < 100
    assert read(log).standing.attempted == 3000


async def test_each_file_of_a_run_has_clients_of_its_own(run: Path) -> None:
    """Another process of the load, or one that was begun elsewhere after a failover."""
    async with opened(run) as (one, _), opened(run) as (other, _):
        for log in (one, other):
            await note(log, log.writer())
    assert sorted(read(one, other).clients) == [1, CLIENTS_A_FILE + 1]


async def test_a_reader_s_rows_are_kept_by_node_and_wait_for_no_disk(run: Path) -> None:
    async with opened(run) as (log, health):
        log.see("db2", [(log.base + 1, 4, 9)])
    assert (read(log).seen, health.syncs_s) == ({"db2": {1: ((4, 9),)}}, [])


async def test_a_full_disk_ends_the_log_with_what_it_has_whole(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes half a batch and no more: no client is called back, and the half is taken out again."""
    write, broken, sent = os.write, list[MissingPiece](), list[int]()

    def half(descriptor: int, lines: bytes) -> int:
        if b"i 1 2" not in lines:
            raise OSError(28, "No space left on device")
        return write(descriptor, lines[: len(lines) // 2])

    async with opened(run, broken=broken) as (log, _):
        await note(log, log.writer())
        monkeypatch.setattr(os, "write", half)
        log.intend(log.base + 1, 2, lambda: sent.append(2))
        await until(lambda: broken)
        log.intend(log.base + 1, 3, lambda: sent.append(3))
        await asyncio.sleep(0.01)
    assert sent == []
    assert str(broken[0]) == (
        f"the client log {log.file} cannot be written: no space left on device: "
        "make room or name another $XDG_STATE_HOME"
    )
    assert read(log).standing == LedgerStanding(1, 0, 0, 1)
    assert log.file.read_bytes().endswith(b"i 1 1\n")


async def unclaimed(run: int) -> int:
    """A stack on which no other app numbers runs."""
    return run


async def test_a_place_that_takes_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingPiece, match=r"gone/.*/0\.log cannot be written: no such file or directory"):
        ClientLog(str(tmp_path / "gone" / "7"), LogHealth([], []), lambda _: None)
    (tmp_path / "ledgers").write_text("a file")
    with pytest.raises(MissingPiece, match=r"ledgers.*: (not a directory|file exists)"):
        await FileClientLogs(tmp_path / "ledgers").new_run(unclaimed)


async def test_runs_of_two_homes_begun_in_one_second_are_told_apart_by_the_stack(tmp_path: Path) -> None:
    """Else their clients would write under the same numbers into one table, and each would count the
    other's rows."""
    agent, runs = FakeAgent(World().sidecars["db1"], 1), list[int]()
    for home in (FileClientLogs(tmp_path / "one"), FileClientLogs(tmp_path / "other")) * 3:
        runs.append(int(Path(await home.new_run(partial(claim_run, agent, new_roster(1)))).name))
    assert runs == sorted(set(runs))


async def test_runs_are_made_apart_and_the_oldest_go(tmp_path: Path) -> None:
    logs = FileClientLogs(tmp_path / "ledgers")
    runs = [await logs.new_run(unclaimed) for _ in range(8)]
    assert sorted(str(each) for each in (tmp_path / "ledgers").iterdir()) == sorted(set(runs))[-5:]
    with pytest.raises(UsageError, match="has no client log"):
        await logs.read(runs[-1])
    for _ in range(2):
        forget(tmp_path / "ledgers")
    assert os.listdir(tmp_path) == []


async def test_another_host_keeps_the_logs_of_the_last_runs_as_well(tmp_path: Path) -> None:
    for run in range(7):
        async with opened(tmp_path / str(run), 0):
            pass
    assert sorted(os.listdir(tmp_path)) == ["2", "3", "4", "5", "6"]


# Logs that are kept on several hosts: one account of them all, by this machine's clock


class Hosts:
    """Directories as the disks of two hosts, and the logs of a stack on them."""

    name = "far"
    away = ""
    """A host that does not answer."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.logs = FarClientLogs(directory / "here", self)  # type: ignore[arg-type]

    def path(self, host: str, path: str) -> Path:
        return self.directory / host / Path(path).relative_to(LOGS)

    async def at(self, host: str, work: Callable[[Any], bytes]) -> bytes:
        """As the stack does work with the client of a host whose load's container ended with it."""
        if host == self.away:
            raise StackUnavailable(f"the host {host} is away", "start it")
        client = Mock()
        client.containers.return_value = [{"Id": "load", "State": "exited"}]
        client.exec_create.side_effect = lambda _, command: {"Id": command[-1]}

        def cat(path: str, **_: object) -> tuple[bytes | None, bytes | None]:
            file = self.path(host, path)
            client.exec_inspect.return_value = {"ExitCode": int(not file.exists())}
            return (file.read_bytes(), None) if file.exists() else (None, b"no such file")

        client.exec_start.side_effect = cat
        return work(client)

    async def commit(self, run: str, host: str, rows: int, ahead_s: float) -> Path:
        """A load process there: it notes this many rows, all told in second 7 of our clock but the last."""
        directory, number = _noted(host, ahead_s, run)
        async with opened(self.path(host, directory), number) as (log, _):
            writer = log.writer()
            for seq in range(1, rows + 1):
                await note(log, writer)
                if seq < rows:
                    log.acknowledge(writer[0], seq, 7.0 + ahead_s)
        return log.file


async def test_the_account_is_of_all_hosts_as_they_are_now_and_by_our_clock(tmp_path: Path) -> None:
    """A process that never began noted nothing. A copy of before is not the account of now."""
    hosts = Hosts(tmp_path)
    run = await hosts.logs.new_run(unclaimed)
    file = await hosts.commit(run, "a", 3, 0.0)
    await hosts.commit(run, "b", 2, 5000.0)
    _noted("b", 0.0, run)
    found = await hosts.logs.read(run)
    assert (found.standing, hosts.logs.newest()) == (LedgerStanding(5, 3, 0, 2), run)
    assert found.clients[1].told_us(2) == found.clients[CLIENTS_A_FILE + 1].told_us(1) == 7_000_000
    with file.open("ab") as stream:
        stream.write(ACKNOWLEDGED % (1, 3, 9_000_000) + b"i 1")  # and a line that is being written
    assert (await hosts.logs.read(run)).standing == LedgerStanding(5, 4, 0, 1)
    hosts.away = "b"
    with pytest.raises(StackUnavailable, match="b is away; the client log is kept there"):
        await hosts.logs.read(run)
    (Path(run) / "0.far").write_text("[]")
    with pytest.raises(UsageError, match=r"0\.far does not say where"):
        await hosts.logs.read(run)


_ONLY_THE_DRIVER = """
import sys
from replexplorer.load_process import main
assert not {"platformdirs", "pydantic", "docker", "jinja2"} & sys.modules.keys()
sys.exit(main())
"""


def test_what_a_load_process_on_another_host_is_given_is_all_that_it_reads(tmp_path: Path) -> None:
    for name, content in program():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    ran = subprocess.run(
        [sys.executable, "-P", "-c", _ONLY_THE_DRIVER],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        input="",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "FileNotFoundError" not in ran.stdout + ran.stderr
    assert ran.returncode == 0
