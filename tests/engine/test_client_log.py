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
    HEAD,
    LedgerStanding,
    RunLog,
    at_another_clock,
    read_run,
)
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
    """What a client was told of goes with its next intent."""
    async with opened(tmp_path) as (log, health):
        writers = [log.writer() for _ in range(1000)]
        for seq in range(1, 4):
            await asyncio.gather(*(noted(log, client, number()) for client, number in writers))
            for client, _ in writers:
                log.acknowledge(client, seq, 1.0)
        assert len(health.syncs_s) < 100
    assert read(log).standing.attempted == 3000


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


# Logs that are kept on several hosts: one account of them all, by this machine's clock

A, B = "unix:///a/sock", "unix:///b/sock"
AHEAD_S = 5000.0
"""Of B's clock."""


class Hosts:
    """Directories as the disks of two hosts, and the logs of a stack on them."""

    def __init__(self, directory: Path) -> None:
        self.disks = {A: directory / "a", B: directory / "b"}
        self.away: set[str] = set()
        self.here = directory / "here"
        self.logs = FarClientLogs(self.here, self)  # type: ignore[arg-type]
        self.name = "far"

    def path(self, host: str, path: str) -> Path:
        return self.disks[host] / Path(path).relative_to(LOGS)

    async def at(self, host: str, work: Callable[[Any], bytes]) -> bytes:
        """As the stack does work with the client of a host whose load's container ended with it."""
        if host in self.away:
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

    async def commit(self, run: str, host: str, rows: int, *, told_s: float, ahead_s: float = 0.0) -> Path:
        """A load process there: it notes this many rows, all told at a moment of our clock but the last."""
        directory, number = _noted(host, ahead_s, run)
        log = ClientLog(str(self.path(host, directory)), LogHealth([], []), _broken, number)
        client, next_row = log.writer()
        for _ in range(rows):
            seq, noted = next_row(), asyncio.Event()
            log.intend(client, seq, noted.set)
            await asyncio.wait_for(noted.wait(), 20)
            if seq < rows:
                log.acknowledge(client, seq, told_s + ahead_s)
        await log.close()
        return log.file


def _broken(error: MissingPiece) -> None:
    raise AssertionError(str(error))


async def _next(least: int) -> int:
    return least


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


async def test_the_account_is_of_all_hosts_and_by_our_clock(hosts: Hosts) -> None:
    run = await hosts.logs.new_run(_next)
    await hosts.commit(run, A, 3, told_s=7.0)
    await hosts.commit(run, B, 2, told_s=8.0, ahead_s=AHEAD_S)
    found = await hosts.logs.read(run)
    assert found.standing == LedgerStanding(5, 3, 0, 2)
    assert found.clients[1].told_us(2) == 7_000_000
    assert found.clients[CLIENTS_A_FILE + 1].told_us(1) == 8_000_000
    assert hosts.logs.newest() == run


async def test_what_a_load_noted_since_is_read_the_next_time(hosts: Hosts) -> None:
    run = await hosts.logs.new_run(_next)
    file = await hosts.commit(run, A, 2, told_s=7.0)
    assert (await hosts.logs.read(run)).standing.unknown == 1
    with file.open("ab") as stream:
        stream.write(ACKNOWLEDGED % (1, 2, 9_000_000) + b"i 1")  # and a line that is being written
    assert (await hosts.logs.read(run)).standing == LedgerStanding(2, 2, 0, 0)


async def test_a_process_that_never_began_noted_nothing(hosts: Hosts) -> None:
    run = await hosts.logs.new_run(_next)
    _noted(B, 0.0, run)
    await hosts.commit(run, A, 1, told_s=7.0)
    assert (await hosts.logs.read(run)).standing.attempted == 1


async def test_an_account_is_not_reckoned_without_the_host_that_has_a_part_of_it(hosts: Hosts) -> None:
    run = await hosts.logs.new_run(_next)
    await hosts.commit(run, A, 3, told_s=7.0)
    await hosts.commit(run, B, 2, told_s=8.0)
    await hosts.logs.read(run)  # a copy of before is not the account of now
    hosts.away.add(B)
    with pytest.raises(StackUnavailable, match=f"{B} is away; the client log is kept there"):
        await hosts.logs.read(run)


async def test_a_note_that_is_none_is_named(hosts: Hosts) -> None:
    run = await hosts.logs.new_run(_next)
    (hosts.here / Path(run).name / "0.far").write_text("[]")
    with pytest.raises(UsageError, match=r"0\.far does not say where"):
        await hosts.logs.read(run)


async def test_a_host_keeps_the_logs_of_the_last_runs(hosts: Hosts) -> None:
    for run in range(7):
        log = ClientLog(str(hosts.disks[A] / str(run)), LogHealth([], []), _broken, 0)
        await log.close()
    assert sorted(each.name for each in hosts.disks[A].iterdir()) == ["2", "3", "4", "5", "6"]


@pytest.mark.parametrize(
    ("line", "by_ours"),
    [
        (b"t 1500000\n", b"t 500000\n"),
        (b"r 1500000\n", b"r 500000\n"),
        (b"a 1 2 1500000\n", b"a 1 2 500000\n"),
        (b"a 1 2 7\n", b"a 1 2 0\n"),  # it began before ours
        *((line, line) for line in (b"a 1 2", b"a 1 2 x\n", b"i 1 2\n", b"f 1 2 1062\n", b"s db2 1 2 2\n")),
        *((line, line) for line in (b"\n", b"", HEAD.encode() + b"7\n")),
    ],
)
def test_times_by_a_clock_that_is_ahead_are_brought_to_ours_and_all_else_stays(
    line: bytes, by_ours: bytes
) -> None:
    assert at_another_clock(line, 1_000_000) == by_ours


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
