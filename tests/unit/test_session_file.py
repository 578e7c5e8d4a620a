"""Session files: what is written is read back, while it grows, after a kill, and what is not such a file."""

from __future__ import annotations

import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from replexplorer.adapters import recording
from replexplorer.adapters.recording import RecordingFailed, SessionReader, SessionWriter, new_file
from replexplorer.core.epochs.epochs import Epoch, EpochSide
from replexplorer.core.event import Event, Severity
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import KnobName, KnobView
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.measured import Estimate
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from tests.known import known
from tests.ticks import explained, knob_views, make_tick

ABOUT = {"stack": "default", "holder": "tui"}


def rich_tick(at_s: float, seed: int = 1, commits: int = 1000) -> Tick:
    """A tick in which everything is known, and moves with the seed."""
    chance = random.Random(seed)
    tick = explained(make_tick(at_s))
    service = Histogram.of([int(chance.lognormvariate(6.2, 0.5)) for _ in range(commits)])
    exposure = Exposure(
        Loss(0, 0, 0), Loss(seed, 0, 9, chance.random()), Unknown("no replica has answered yet")
    )
    side = EpochSide(tps=Estimate(chance.random(), 1.0, None), n=seed, length_s=at_s, exposure=exposure)
    return replace(
        tick,
        load=replace(known(tick.load), service=service, response=None, mean_ms=service.mean_ms, n=commits),
        truth=replace(known(tick.truth), group_size=chance.random()),
        exposure=exposure,
        faults=(Fault(seed, "isolate", None, "db1", 1.0, None, "tui (pid 7)", {"rtt@db2": 0.5}),),
        epochs=(Epoch(1, 0.5, "rtt 0 -> 85 ms", 500.0, chance.random(), before=side, after=side),),
    )


async def write(file: Path, ticks: Iterable[Tick], about: dict[str, str] = ABOUT) -> None:
    writer = SessionWriter(file)
    await writer.open(about)
    for tick in ticks:
        await writer.write([tick])
    await writer.close()


def read(file: Path) -> list[Tick]:
    with closing(SessionReader(file)) as reader:
        return list(reader.ticks())


async def test_ticks_are_read_back_as_they_were(tmp_path: Path) -> None:
    """While the file is written, and after that. Servers say a value of 64 bits of a timeout that never
    passes; SQLite's integers are signed."""
    rtt, timeout, most = KnobName("rtt", "db2"), KnobName("semi_sync_timeout", SOURCE), 2**64 - 1
    turned = {**knob_views(), rtt: KnobView(rtt, 85.0, None, "no agent")}
    turned[timeout] = KnobView(timeout, most, most - 1, None)
    event = Event(1.0, 1_760_000_001.0, Severity.MARK, "rtt 0 -> 85 ms", 1)
    told = [
        rich_tick(0.0),
        replace(rich_tick(1.0, 2), knobs=turned, events=(event,)),
        replace(rich_tick(2.0, 3), knobs=turned, load=None, anatomy=None, viewer=True),
    ]
    writer = SessionWriter(tmp_path / "a.rxs")
    await writer.open(ABOUT)
    await writer.write(told)
    assert len(read(tmp_path / "a.rxs")) == 3
    await writer.close()
    found = read(tmp_path / "a.rxs")
    assert found == told
    assert [list(tick.knobs) for tick in found] == [list(tick.knobs) for tick in told], "the live order"
    assert os.listdir(tmp_path) == ["a.rxs"], "a closed file is one file of its owner"
    assert (tmp_path / "a.rxs").stat().st_mode & 0o777 == 0o600
    with closing(SessionReader(tmp_path / "a.rxs")) as reader:
        assert (reader.about, reader.first_s, reader.last_s) == (ABOUT, 0.0, 2.0)


@pytest.mark.costly("three minutes of ticks are written")
async def test_the_load_is_written_with_every_tick_and_the_rest_once_a_second(tmp_path: Path) -> None:
    """An hour at 2,000 commits a second is below 20 MB: what the file holds once is small next to that."""
    told = [rich_tick(half / 2, half) for half in range(360)]
    await write(tmp_path / "a.rxs", told)
    assert (tmp_path / "a.rxs").stat().st_size * 20 < 20e6
    found = read(tmp_path / "a.rxs")
    assert [tick.load for tick in found] == [tick.load for tick in told]
    assert [tick.truth for tick in found[:-1]] == [told[half - half % 2].truth for half in range(359)]
    assert found[-1] == told[-1], "a session's end is as it was: the tour's last frame was half a second old"


_KILLED = """
import asyncio, os, pickle, signal, sys
from pathlib import Path
from replexplorer.adapters.recording import SessionWriter

async def main():
    about, ticks = pickle.load(sys.stdin.buffer)
    writer = SessionWriter(Path(sys.argv[1]))
    await writer.open(about)
    for tick in ticks:
        await writer.write([tick])
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_kill_9_keeps_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "a.rxs"
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(file)],
        input=pickle.dumps((ABOUT, [rich_tick(half / 2) for half in range(5)])),
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert [tick.at_s for tick in read(file)] == [0.0, 0.5, 1.0, 1.5, 2.0]


async def test_a_full_disk_is_one_error_and_what_was_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SessionWriter(tmp_path / "a.rxs")
    await writer.open(ABOUT)
    await writer.write([rich_tick(0.0)])
    with monkeypatch.context() as patch:
        patch.setattr(recording, "_insert", Mock(side_effect=sqlite3.OperationalError("disk is full")))
        with pytest.raises(RecordingFailed, match="disk is full"):
            await writer.write([rich_tick(0.5)])
    await writer.write([rich_tick(1.0)])  # nothing more is written, and nothing is raised
    assert [tick.at_s for tick in read(tmp_path / "a.rxs")] == [0.0]


async def test_a_file_that_cannot_be_made_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_SCHEMA", "no such statement;")
    with pytest.raises(RecordingFailed, match=r"a\.rxs cannot be written: .*syntax error$"):
        await SessionWriter(tmp_path / "a.rxs").open(ABOUT)
    assert os.listdir(tmp_path) == []


async def test_a_new_session_takes_the_place_of_the_oldest_that_has_ended(tmp_path: Path) -> None:
    """A dashboard of days is the oldest of all, and still written."""
    dashboard = SessionWriter(new_file(tmp_path, 0.0, "tui", kept=2))
    await dashboard.open(ABOUT)
    ended = []
    for number in range(3):
        ended.append(new_file(tmp_path, 100.0 + number, "lab tour", kept=2))
        await write(ended[-1], [make_tick(0.0)])
    await dashboard.write([make_tick(1.0)])
    await dashboard.close()
    assert [tick.at_s for tick in read(Path(dashboard.file))] == [1.0]
    assert [file.exists() for file in ended] == [False, True, True]
