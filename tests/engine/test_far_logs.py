"""Client logs that are kept on several hosts: one account of them all, by this machine's clock."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.adapters.docker.load import LOGS, FarClientLogs, _noted, program
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.loss.client_log import (
    ACKNOWLEDGED,
    CLIENTS_A_FILE,
    FAILED,
    HEAD,
    INTENT,
    RESET,
    SEEN,
    TIME,
    LedgerStanding,
    at_another_clock,
    read_run,
)
from replexplorer.generator.client_log import ClientLog, LogHealth

pytestmark = pytest.mark.real_time

A, B = "unix:///a/sock", "unix:///b/sock"
AHEAD_S = 5000.0
"""Of B's clock."""


class Daemon:
    """The client of a host whose load's container ended with it."""

    def __init__(self, hosts: Hosts, host: str) -> None:
        self._hosts, self._host = hosts, host
        self._is_there = False

    def containers(self, **_: Any) -> list[dict[str, str]]:
        return [{"Id": "load", "State": "exited"}]

    def start(self, container: str) -> None:
        pass

    def exec_create(self, container: str, command: list[str]) -> dict[str, str]:
        return {"Id": command[-1]}

    def exec_start(self, path: str, *, demux: bool) -> tuple[bytes | None, bytes | None]:
        file = self._hosts.path(self._host, path)
        self._is_there = file.exists()
        return (file.read_bytes(), None) if self._is_there else (None, b"no such file")

    def exec_inspect(self, path: str) -> dict[str, int]:
        return {"ExitCode": 0 if self._is_there else 1}


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
        """As the stack does work with a host's client."""
        if host in self.away:
            raise StackUnavailable(f"the host {host} is away", "start it")
        return work(Daemon(self, host))

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


_NUMBERS = st.integers(0, 10**12)
_LINES = st.lists(
    st.one_of(
        st.builds(lambda us: TIME % us, _NUMBERS),
        st.builds(lambda us: RESET % us, _NUMBERS),
        st.builds(lambda seq, us: ACKNOWLEDGED % (1, seq, us), st.integers(1, 50), _NUMBERS),
        st.builds(lambda seq: INTENT % (1, seq), st.integers(1, 50)),
        st.builds(lambda seq: FAILED % (1, seq, 1062), st.integers(1, 50)),
        st.builds(lambda seq: SEEN % (b"db2", 1, seq, seq), st.integers(1, 50)),
    )
)


@given(_LINES, st.integers(0, 10**12))
def test_a_clock_that_is_ahead_changes_no_row_s_class(lines: list[bytes], ahead_us: int) -> None:
    """What another host wrote by its clock is what ours would have written."""
    head = f"{HEAD}1\n".encode()
    ours = read_run([("ours", head + b"".join(lines))])
    theirs = [at_another_clock(line, -ahead_us) for line in lines]
    back = b"".join(at_another_clock(line, ahead_us) for line in theirs)
    assert read_run([("theirs", head + back)]) == ours


@pytest.mark.parametrize("line", [b"a 1 2", b"a 1 2 x\n", b"i 1 2\n", b"\n", b"", HEAD.encode() + b"7\n"])
def test_a_line_without_a_time_stays_as_it_is(line: bytes) -> None:
    assert at_another_clock(line, 1_000_000) == line


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
