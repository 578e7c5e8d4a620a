"""P11: what the fsync shim costs at 0 ms: two servers side by side, one of them without it, loaded in turns.

`python -m bench.fsync_shim` prints the figures as JSON; `measure()` answers them. The volumes are in
memory: an fsync costs nothing there, so the shim's share is the largest that it can be, and a disk's
noise, which is greater than what is looked for, stays out. Turns are short and alternate within a
pair, so that what the machine does meanwhile falls on both; half way the servers swap.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.figure import Figure, ratio_figure
from bench.paired import Compared, compared
from replexplorer.adapters.docker import images
from replexplorer.engine.session import Session
from replexplorer.formats.paths import shipped

DATA, TOOLS = "/var/lib/replexplorer/data", "/var/lib/replexplorer/tools"
USER, PASSWORD, DATABASE = "bench", "of-this-bench-only", "sbtest"
SQL = (
    f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
    f"GRANT ALL ON *.* TO '{USER}'@'%';\nCREATE DATABASE {DATABASE};\n"
)
CLIENTS, PAIRS, QUICK_PAIRS, TURN_S = 8, 60, 8, 1
LEAST_RATIO = 0.97
IN_MEMORY = {"type": "tmpfs", "device": "tmpfs", "o": "size=1g"}
READY_S = 30.0


@dataclass
class Server:
    """A server alone, on volumes of its own; whether with the shim is decided at each start."""

    client: Any
    image: str
    labels: dict[str, str]
    volumes: dict[str, Any]
    """By the path at which they are mounted."""
    keeper: Any
    """A container that does nothing: a volume in memory lives as long as somebody mounts it."""
    container: Any = None
    shim: bool = False

    def start(self, *, shim: bool) -> None:
        """Start mysqld, anew if it runs, and wait until it answers."""
        first = self.container is None
        if not first:
            self.container.stop(timeout=30)
            self.container.remove()
        preload = {"LD_PRELOAD": f"{TOOLS}/fsyncshim.so", "RX_DISK_PAGE": f"{DATA}/disk.page"}
        self.shim = shim
        self.container = self.client.containers.create(
            self.image,
            command=[
                "mysqld",
                f"--datadir={DATA}/mysql",
                "--server-id=1",
                *(["--init-file=/etc/mysql/init.sql"] if first else []),
            ],
            environment=preload if shim else {},
            labels=self.labels,
            volumes=mounts(self.volumes),
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
        )
        if first:
            self.container.put_archive("/etc/mysql", archive("init.sql", SQL))
        self.container.start()
        until_s = time.monotonic() + READY_S
        while (answer := self.sysbench("prepare" if first else "run", "--events=1")).returncode != 0:
            if time.monotonic() > until_s:
                raise RuntimeError(f"{answer.stdout}\n{self.container.logs(tail=3).decode(errors='replace')}")
            time.sleep(0.1)

    def tps(self, seconds: int) -> float:
        """Commits a second of an update load."""
        answer = self.sysbench("run", f"--threads={CLIENTS}", f"--time={seconds}", "--events=0")
        said = re.search(r"transactions: +\d+ +\(([\d.]+) per sec", answer.stdout)
        if said is None:
            raise RuntimeError(answer.stdout + answer.stderr)
        return float(said.group(1))

    def sysbench(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        """`oltp_update_index` against this server."""
        self.container.reload()
        [network] = self.container.attrs["NetworkSettings"]["Networks"].values()
        return subprocess.run(
            ["sysbench", "oltp_update_index", f"--mysql-host={network['IPAddress']}",
             f"--mysql-user={USER}", f"--mysql-password={PASSWORD}", f"--mysql-db={DATABASE}",
             "--table-size=10000", *more, verb],
            check=False, capture_output=True, text=True,
        )  # fmt: skip

    def remove(self) -> None:
        """Take it and its volumes away."""
        if self.container is not None:
            self.container.remove(force=True, v=True)
        self.keeper.remove(force=True)
        for volume in self.volumes.values():
            volume.remove(force=True)


def mounts(volumes: dict[str, Any]) -> list[str]:
    """Volumes as a container takes them."""
    return [f"{volume.name}:{path}" for path, volume in volumes.items()]


def archive(name: str, text: str) -> bytes:
    """A tar of one file that everybody may read."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(text), 0o644
        tar.addfile(member, io.BytesIO(text.encode()))
    return stream.getvalue()


@contextlib.contextmanager
def two_servers() -> Iterator[tuple[Server, Server]]:
    """Two servers that are not started yet; removed afterwards."""
    import docker

    ours = images.ensure([images.MYSQL, images.SIDECAR], shipped("compose"), lambda *_: None)
    client = docker.from_env(version="auto")
    labels = {"dev.replexplorer.stack": f"bench-shim-{os.getpid()}"}
    servers: list[Server] = []
    try:
        for _ in range(2):
            volumes = {
                path: client.volumes.create(labels=labels, driver_opts=IN_MEMORY) for path in (DATA, TOOLS)
            }
            # A volume takes its owner, and the shim, from the image that mounts it first.
            keeper = client.containers.create(
                ours["sidecar"],
                entrypoint=["sleep", "infinity"],
                init=True,
                labels=labels,
                volumes=mounts(volumes),
            )
            servers.append(Server(client, ours["mysqld"], labels, volumes, keeper))
            keeper.start()
        yield servers[0], servers[1]
    finally:
        for server in servers:
            server.remove()
        client.close()


def measure(pairs: int = PAIRS, seconds: int = TURN_S) -> Compared:
    """TPS with and without the shim, turn by turn, each server once with it. Raises RuntimeError where a
    server does not come up."""
    with two_servers() as servers:
        turns: list[tuple[float, float]] = []
        for swapped in (False, True):
            for number, server in enumerate(servers):
                server.start(shim=(number == 0) != swapped)
                server.tps(seconds)
            for pair in range(pairs // 2):
                order = servers if pair % 2 else servers[::-1]
                tps = {server.shim: server.tps(seconds) for server in order}
                turns.append((tps[True], tps[False]))
    return compared([shim for shim, _ in turns], [plain for _, plain in turns])


async def figures(_session: Session, *, quick: bool) -> list[Figure]:
    """P11's line for the shim; none where sysbench is not installed. The session's stack idles meanwhile."""
    if shutil.which("sysbench") is None:
        return []
    found = await asyncio.to_thread(measure, QUICK_PAIRS if quick else PAIRS)
    what = f"TPS, fsync shim at 0 ms against none, {CLIENTS} clients, turns of {TURN_S} s"
    return [ratio_figure("P11", what, found, least=LEAST_RATIO)]


def main() -> None:
    """Print the ratio; the argument is the number of pairs."""
    print(measure(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS))


if __name__ == "__main__":
    main()
