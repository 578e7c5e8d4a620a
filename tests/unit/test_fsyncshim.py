"""The fsync shim in front of a small program that is called mysqld: kinds, counts, delay, who is attached."""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from tests.known import known
from tests.sidecar import DIRECTORY, load
from tests.typed import table_of
from tests.waiting import until_true

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here to compile the shim")

page_of = load("fsyncpage")

SOURCES = [str(DIRECTORY.parent / "mysql" / name) for name in ("fsyncshim.c", "undojournal.c")]
SLEEP_CALL = {"x86_64": "230", "aarch64": "115"}
"""The number of clock_nanosleep, which /proc/PID/syscall shows."""
ATTACHES = 3
"""The page's word that counts them."""
PROGRAM = r"""
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char path[512];
static int each;

static int opened(void) { return open(path, O_RDWR | O_CREAT, 0600); }

static void *repeat(void *unused)
{
    int fd = opened();
    for (int i = 0; i < each; i++)
        if (fsync(fd)) abort();
    close(fd);
    return unused;
}

static const char *run(const char *verb)
{
    static char said[64];
    int fd, second, ends[2];
    said[0] = 0;
    if (!strcmp(verb, "sync")) {
        fd = opened();
        for (int i = 0; i < each; i++)
            if ((i % 2 ? fsync(fd) : fdatasync(fd)) != 0) abort();
        close(fd);
    } else if (!strcmp(verb, "directory")) {
        mkdir(path, 0700);
        fd = open(path, O_RDONLY | O_DIRECTORY);
        if (fsync(fd)) abort();
        close(fd);
    } else if (!strcmp(verb, "dup")) {
        fd = opened();
        second = dup(fd);
        close(fd);
        if (fsync(second)) abort();
        fd = open(path, O_WRONLY);
        if (fsync(fd)) abort();
        close(fd);
        close(second);
    } else if (!strcmp(verb, "remove")) {
        unlink(path);
    } else if (!strcmp(verb, "removed")) {
        fd = opened();
        unlink(path);
        if (fsync(fd)) abort();
        close(fd);
    } else if (!strcmp(verb, "errors")) {
        fd = opened();
        close(fd);
        errno = 0;
        int closed = fsync(fd), closed_errno = errno;
        if (pipe(ends)) abort();
        errno = 0;
        int piped = fdatasync(ends[1]), piped_errno = errno;
        sprintf(said, "%d %s %d %s", closed, closed_errno == EBADF ? "EBADF" : "?",
                piped, piped_errno == EINVAL ? "EINVAL" : "?");
    } else if (!strcmp(verb, "threads")) {
        pthread_t threads[16];
        for (int i = 0; i < 16; i++)
            if (pthread_create(&threads[i], 0, repeat, 0)) abort();
        for (int i = 0; i < 16; i++)
            pthread_join(threads[i], 0);
    }
    return said;
}

int main(void)
{
    char verb[32];
    setvbuf(stdout, 0, _IOLBF, 0);
    puts("ready");
    while (scanf("%31s %511s %d", verb, path, &each) == 3) {
        struct timespec began, ended;
        clock_gettime(CLOCK_MONOTONIC, &began);
        const char *said = run(verb);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        printf("%.6f %s\n",
               (ended.tv_sec - began.tv_sec) * 1e3 + (ended.tv_nsec - began.tv_nsec) / 1e6, said);
    }
    return 0;
}
"""


def build_flags() -> list[str]:
    """How the image compiles the shim, read from its Dockerfile."""
    text = (DIRECTORY / "Dockerfile").read_text().replace("\\\n", " ")
    [command] = re.findall(r"gcc ([^;]*?)-o \S*fsyncshim\.so", text)
    return str(command).split()


def compiled(directory: Path, text: str, *more: str) -> Path:
    """Make fsyncshim.so there, and a program of this text that is called mysqld."""
    program = directory / "program.c"
    program.write_text(text)
    subprocess.run(["gcc", *build_flags(), "-o", str(directory / "fsyncshim.so"), *SOURCES], check=True)
    subprocess.run(
        ["gcc", "-O1", "-pthread", "-o", str(directory / "mysqld"), str(program), *more], check=True
    )
    return directory


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with fsyncshim.so and the program."""
    return compiled(tmp_path_factory.mktemp("shim"), PROGRAM)


class Server:
    """The program, that does as it is told."""

    def __init__(self, program: Path, shim: Path, page: Path) -> None:
        self.process = subprocess.Popen(
            [program],
            env={
                "PATH": os.environ["PATH"],
                "NOT_RX_DISK_PAGE": "no",
                "RX_DISK_PAGES": "no",
                "LD_PRELOAD": str(shim),
                "RX_DISK_PAGE": str(page),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            umask=0o77,
        )
        self._stdin, self._stdout = known(self.process.stdin), known(self.process.stdout)
        self.page = page
        assert self._stdout.readline() == "ready\n"

    def say(self, line: str) -> str:
        """What it answers."""
        self._stdin.write(f"{line}\n")
        self._stdin.flush()
        return self._stdout.readline().strip()

    def tell(self, text: str) -> str:
        """`sync binlog.000001 20`: that often, or once, with a file in the page's directory."""
        verb, name, *each = text.split()
        return self.say(f"{verb} {self.page.parent / name} {each[0] if each else 1}")

    def ms(self, text: str) -> float:
        return float(self.tell(text).split()[0])

    def counts(self) -> dict[str, int]:
        with page_of.opened(self.page) as page:
            return {kind: count for kind, count in page.figures().fsyncs.items() if count}

    def figure(self, figure: int, kind: str) -> int:
        with page_of.opened(self.page) as page:
            return int(page.words[page_of.word(kind, figure)])

    def ask(self, delay_ms: float, *kinds: str) -> None:
        with page_of.opened(self.page) as page:
            for kind in kinds or page_of.KINDS:
                page.words[page_of.word(kind, page_of.DELAY_US)] = round(delay_ms * 1000)

    def ms_while_asked(self, first_ms: float, then_ms: float) -> float:
        """What an fsync takes that is waiting when another delay is asked for."""
        self.ask(first_ms)
        call, sleeps = Path(f"/proc/{self.process.pid}/syscall"), SLEEP_CALL.get(platform.machine())
        with ThreadPoolExecutor(1) as pool:
            took = pool.submit(self.ms, "sync binlog.000001")
            until_true(lambda: call.read_text().split()[0] == sleeps)
            self.ask(then_ms)
            return took.result()

    def close(self) -> None:
        self._stdin.close()
        self.process.wait(30)
        self._stdout.close()


Start = Callable[..., Server]


@pytest.fixture
def start(built: Path, tmp_path: Path) -> Iterator[Start]:
    """Start the program with the shim and a page of the test's own."""
    with ExitStack() as stack:

        def started(program: Path = built / "mysqld", page: Path = tmp_path / "disk.page") -> Server:
            return stack.enter_context(closing(Server(program, built / "fsyncshim.so", page)))

        yield started


@pytest.fixture
def server(start: Start) -> Server:
    """One that runs already."""
    return start()


def test_it_needs_one_name_of_the_c_library_in_any_version(built: Path) -> None:
    said = subprocess.check_output(["nm", "-D", built / "fsyncshim.so"], text=True)
    names = [line.split()[-2:] for line in said.splitlines()]
    assert [name for kind, name in names if kind == "U"] == ["__errno_location"]


KINDS = """\
redo   #innodb_redo/#ib_redo12 #innodb_redo/#ib_redo13_tmp ib_logfile0
binlog binlog.000001 binlog.1000001 mysql-bin.000007
relay  relay.000002 relay-channel.000002 host-relay-bin.000002
index  binlog.index binlog.index_crash_safe relay.index
data   s/t1.ibd ibdata1 undo_001 more.ibu ibtmp1 #innodb_temp/temp_1.ibt
other  #ib_16384_0.dblwr auto.cnf binlog.12345 binlog.000001.gz notes.000001
"""


def test_the_kind_is_in_the_name(server: Server, tmp_path: Path) -> None:
    expected = dict[str, int]()
    for kind, *names in table_of(KINDS, None):
        for name in names:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            server.tell(f"sync {name} 3")
            expected[kind] = expected.get(kind, 0) + 3
            assert server.counts() == expected, name
    assert server.figure(page_of.FSYNC_NS, "data") > server.figure(page_of.DELAYED_NS, "data") == 0


def test_directories_duplicates_removed_files_and_a_reused_inode(server: Server) -> None:
    for told in ("directory binlog.000001", "dup binlog.000002", "removed relay.000001"):
        server.tell(told)
    assert server.counts() == {"directory": 1, "binlog": 2, "relay": 1}
    for number in range(100, 140):
        name = f"binlog.{number:06}" if number % 2 else f"t{number}.ibd"
        server.tell(f"sync {name}")
        server.tell(f"remove {name}")
    assert server.counts() == {"directory": 1, "binlog": 22, "relay": 1, "data": 20}


def test_young_files_are_looked_up_and_older_ones_remembered_whatever_their_name_becomes(
    server: Server, tmp_path: Path
) -> None:
    """Of more files than it remembers the latest, and whatever threads there are."""
    server.tell("threads relay.000001 1000")
    files = [tmp_path / (f"binlog.{n:06}" if n % 3 else f"t{n}.ibd") for n in range(1500)]
    for file in files:
        file.touch()
    time.sleep(1.1)
    for file in files * 2:
        server.tell(f"sync {file}")
    server.tell("threads binlog.000001 1000")
    assert server.counts() == {"relay": 16_000, "binlog": 18_000, "data": 1000}
    server.tell(f"sync {files[1].rename(tmp_path / 'late.ibd')}")
    assert server.counts()["binlog"] == 18_001


def test_errors_of_the_real_call_are_passed_on_and_not_counted(server: Server) -> None:
    server.ask(2000)
    took_ms, *said = server.tell("errors binlog.000001").split()
    assert said == ["-1", "EBADF", "-1", "EINVAL"]
    assert float(took_ms) < 1000
    assert server.counts() == {}


def test_the_delay_is_added_to_each_and_those_that_wait_in_parallel_share_one(server: Server) -> None:
    server.ask(3, "binlog")
    took_ms = server.ms("sync binlog.000001 20")
    delayed_ms = server.figure(page_of.DELAYED_NS, "binlog") / 1e6
    assert delayed_ms >= 20 * 3
    assert delayed_ms + server.figure(page_of.FSYNC_NS, "binlog") / 1e6 <= took_ms
    server.tell("sync relay.000001 20")
    assert server.figure(page_of.DELAYED_NS, "relay") == 0
    server.ask(100)
    assert 300 <= server.ms("threads binlog.000001 3") < 16 * 300 / 2


def test_a_delay_that_falls_lets_go_those_that_wait_and_one_that_rises_holds_only_later_ones(
    server: Server,
) -> None:
    assert server.ms_while_asked(30_000, 0) < 10_000
    assert server.counts() == {"binlog": 1}
    assert 500 <= server.ms_while_asked(500, 600_000) < 30_000
    server.ask(50)
    assert server.ms("sync binlog.000001") >= 50


def test_the_page_is_the_first_server_s_open_to_the_agent_and_outlives_it(
    start: Start, tmp_path: Path
) -> None:
    page = tmp_path / "disk.page"
    first, second = start(), start()
    first.tell("sync binlog.000001 2")
    first.ask(1000)
    assert second.ms("sync binlog.000001") < 1000
    assert first.counts() == {"binlog": 2}
    assert page.stat().st_mode & 0o777 == 0o666
    assert page.stat().st_size == page_of.PAGE_BYTES
    first.close()
    assert second.ms("sync binlog.000001") < 1000
    assert start().ms("sync binlog.000001") >= 1000
    assert first.counts() == {"binlog": 3}
    with page_of.opened(page) as found:
        assert found.words[ATTACHES] == 2


@pytest.mark.parametrize("name", ["mysqld-debug", "notmysqld"])
def test_other_programs_are_left_alone(start: Start, built: Path, tmp_path: Path, name: str) -> None:
    start(Path(shutil.copy(built / "mysqld", tmp_path / name))).tell("sync binlog.000001")
    assert not (tmp_path / "disk.page").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack("=3Q", page_of.MAGIC, page_of.VERSION + 1, 4096) + b"\7" * 4072,
        struct.pack("=3Q", page_of.MAGIC, page_of.VERSION, 4096) + b"\7" * 8168,
    ],
)
def test_a_page_of_another_layout_is_replaced(start: Start, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "disk.page").write_bytes(content)
    server = start()
    server.tell("sync binlog.000001")
    assert server.counts() == {"binlog": 1}
    assert server.figure(page_of.DELAY_US, "binlog") == 0


@pytest.mark.parametrize("make", [None, os.mkdir, os.mkfifo, partial(os.symlink, "/dev/null")])
def test_without_a_page_the_server_runs(
    start: Start, tmp_path: Path, make: Callable[[Path], None] | None
) -> None:
    page = tmp_path / "deeper" / "disk.page"
    if make is not None:
        page.parent.mkdir()
        make(page)
    assert start(page=page).ms(f"sync {tmp_path}/binlog.000001 5") > 0


def test_it_holds_its_page_against_closed_standard_streams(built: Path, tmp_path: Path) -> None:
    page = tmp_path / "disk.page"
    subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" <&- >&- 2>&-', built / "mysqld"],
        env={"LD_PRELOAD": str(built / "fsyncshim.so"), "RX_DISK_PAGE": str(page)},
        check=True,
        timeout=30,
    )
    with page_of.opened(page) as found:
        assert found.words[ATTACHES] == 1
