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
from pathlib import Path

import pytest

from tests.known import known
from tests.sidecar import DIRECTORY, load
from tests.typed import table_of
from tests.waiting import patience

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here to compile the shim")

page_of = load("fsyncpage")

SOURCES = [str(DIRECTORY.parent / "mysql" / name) for name in ("fsyncshim.c", "undojournal.c")]
SLEEP_CALL = {"x86_64": "230", "aarch64": "115"}
"""The number of clock_nanosleep, which /proc/PID/syscall shows."""
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

    def __init__(self, program: Path, shim: Path | None, page: Path) -> None:
        environment = {"PATH": os.environ["PATH"], "NOT_RX_DISK_PAGE": "no", "RX_DISK_PAGES": "no"}
        if shim is not None:
            environment |= {"LD_PRELOAD": str(shim), "RX_DISK_PAGE": str(page)}
        self.process = subprocess.Popen(
            [str(program)],
            env=environment,
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
        """`sync binlog.000001 20`: so many times, or once, with a file beside the page."""
        verb, name, *each = text.split()
        return self.say(f"{verb} {self.page.parent / name} {each[0] if each else 1}")

    def ms(self, text: str) -> float:
        return float(self.tell(text).split()[0])

    def counts(self) -> dict[str, int]:
        with page_of.opened(self.page) as page:
            return {kind: count for kind, count in page.figures().fsyncs.items() if count}

    def ns(self, figure: int, kind: str) -> int:
        with page_of.opened(self.page) as page:
            return int(page.words[page_of.word(kind, figure)])

    def ask(self, delay_ms: float, *kinds: str) -> None:
        with page_of.opened(self.page) as page:
            for kind in kinds or page_of.KINDS:
                page.words[page_of.word(kind, page_of.DELAY_US)] = round(delay_ms * 1000)

    def wait_until_it_sleeps(self) -> None:
        until = time.monotonic() + 20 * patience()
        while True:
            call = Path(f"/proc/{self.process.pid}/syscall").read_text().split()[0]
            if call == SLEEP_CALL.get(platform.machine()):
                return
            assert time.monotonic() < until, call

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
    if shutil.which("nm") is None:
        pytest.skip("no nm here")
    said = subprocess.run(
        ["nm", "-D", str(built / "fsyncshim.so")], check=True, capture_output=True, text=True
    ).stdout
    names = {(line.split()[-2], line.split()[-1]) for line in said.splitlines()}
    assert {name for kind, name in names if kind == "U"} == {"__errno_location"}


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
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            server.tell(f"sync {file} 3")
            expected[kind] = expected.get(kind, 0) + 3
            assert server.counts() == expected, name
        assert server.ns(page_of.FSYNC_NS, kind) > 0
        assert server.ns(page_of.DELAYED_NS, kind) == 0, kind


def test_directories_duplicates_and_removed_files(server: Server) -> None:
    server.tell("directory binlog.000001")
    assert server.counts() == {"directory": 1}
    server.tell("dup binlog.000002")
    assert server.counts() == {"directory": 1, "binlog": 2}
    server.tell("removed relay.000001")
    assert server.counts() == {"directory": 1, "binlog": 2, "relay": 1}


def test_a_reused_inode_is_another_file(server: Server) -> None:
    for number in range(40):
        name = f"binlog.{number:06}" if number % 2 else f"t{number}.ibd"
        server.tell(f"sync {name}")
        server.tell(f"remove {name}")
    assert server.counts() == {"binlog": 20, "data": 20}


def grown_up(*files: Path) -> None:
    """Make files and wait until the shim remembers them: young ones it looks up each time."""
    for file in files:
        file.touch()
    old_s = time.time() + 1.05
    while time.time() < old_s:
        time.sleep(0.05)


def test_a_file_is_remembered_whatever_its_name_becomes(server: Server, tmp_path: Path) -> None:
    first, second = tmp_path / "binlog.000001", tmp_path / "t.ibd"
    grown_up(first)
    server.tell(f"sync {first}")
    first.rename(second)
    server.tell(f"sync {second}")
    assert server.counts() == {"binlog": 2}


def test_more_files_than_it_remembers(server: Server, tmp_path: Path) -> None:
    files = [tmp_path / (f"binlog.{n:06}" if n % 3 else f"t{n}.ibd") for n in range(1500)]
    grown_up(*files)
    for _ in range(2):
        for file in files:
            server.tell(f"sync {file}")
    assert server.counts() == {"binlog": 2000, "data": 1000}


def test_threads_are_all_counted(server: Server, tmp_path: Path) -> None:
    server.tell("threads relay.000001 1000")
    grown_up(tmp_path / "binlog.000001")
    server.tell("threads binlog.000001 1000")
    assert server.counts() == {"relay": 16_000, "binlog": 16_000}


def test_errors_of_the_real_call_are_passed_on_and_not_counted(
    server: Server, built: Path, tmp_path: Path
) -> None:
    server.ask(2000)
    with closing(Server(built / "mysqld", None, tmp_path / "none")) as plain:
        said = [s.tell("errors binlog.000001").split() for s in (server, plain)]
    assert said[0][1:] == said[1][1:] == ["-1", "EBADF", "-1", "EINVAL"]
    assert float(said[0][0]) < 1000
    assert server.counts() == {}


@pytest.mark.parametrize("delay_ms", [0.1, 3, 20])
def test_the_delay_is_added_to_each(server: Server, delay_ms: float) -> None:
    server.ask(delay_ms, "binlog")
    took_ms = server.ms("sync binlog.000001 20")
    delayed_ms = server.ns(page_of.DELAYED_NS, "binlog") / 1e6
    real_ms = server.ns(page_of.FSYNC_NS, "binlog") / 1e6
    assert 20 * delay_ms <= delayed_ms <= took_ms
    assert delayed_ms + real_ms <= took_ms
    server.tell("sync relay.000001 20")
    assert server.ns(page_of.DELAYED_NS, "relay") == 0


def test_waiting_in_parallel_costs_one_delay(server: Server) -> None:
    server.ask(100)
    took_ms = server.ms("threads binlog.000001 3")
    assert 300 <= took_ms < 16 * 300 / 2


def test_a_delay_that_falls_lets_go_who_waits(server: Server) -> None:
    server.ask(30_000)
    with ThreadPoolExecutor(1) as pool:
        took = pool.submit(server.ms, "sync binlog.000001")
        server.wait_until_it_sleeps()
        changed_s = time.monotonic()
        server.ask(0)
        took.result()
    assert time.monotonic() - changed_s < 5
    assert server.counts() == {"binlog": 1}


def test_a_delay_that_rises_holds_only_later_ones(server: Server) -> None:
    server.ask(500)
    with ThreadPoolExecutor(1) as pool:
        took = pool.submit(server.ms, "sync binlog.000001")
        server.wait_until_it_sleeps()
        server.ask(600_000)
        assert 500 <= took.result() < 30_000
    server.ask(50)
    assert server.ms("sync binlog.000001") >= 50


def test_the_page_outlives_the_server_and_is_open_to_the_agent(
    start: Start, built: Path, tmp_path: Path
) -> None:
    page = tmp_path / "disk.page"
    with closing(Server(built / "mysqld", built / "fsyncshim.so", page)) as first:
        first.tell("sync binlog.000001 2")
        first.ask(7)
    assert page.stat().st_mode & 0o777 == 0o666
    assert page.stat().st_size == page_of.PAGE_BYTES
    second = start()
    second.tell("sync binlog.000001")
    assert second.counts() == {"binlog": 3}
    assert second.ns(page_of.DELAYED_NS, "binlog") >= 7_000_000
    assert attaches(page) == 2


def attaches(page: Path) -> int:
    return int(struct.unpack_from("=Q", page.read_bytes(), 24)[0])


def test_a_second_server_stays_out_until_the_first_is_gone(start: Start, built: Path, tmp_path: Path) -> None:
    page = tmp_path / "disk.page"
    with closing(Server(built / "mysqld", built / "fsyncshim.so", page)) as first:
        second = start()
        first.ask(1000)
        assert second.ms("sync binlog.000001") < 1000
        assert first.counts() == {}
        first.ask(0)
    assert second.ms("sync binlog.000001") >= 0
    assert second.counts() == {}
    third = start()
    third.tell("sync binlog.000001")
    assert third.counts() == {"binlog": 1}


@pytest.mark.parametrize("name", ["mysql", "mysqld-debug", "notmysqld"])
def test_other_programs_are_left_alone(start: Start, built: Path, tmp_path: Path, name: str) -> None:
    program = Path(shutil.copy(built / "mysqld", tmp_path / name))
    server = start(program)
    server.tell("sync binlog.000001")
    assert not (tmp_path / "disk.page").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        bytes(4096),
        b"another " * 512,
        struct.pack("=3Q", page_of.MAGIC, page_of.VERSION + 1, 4096) + b"\7" * 4072,
        struct.pack("=3Q", page_of.MAGIC, page_of.VERSION, 4096) + b"\7" * 8168,
    ],
)
def test_a_page_of_another_layout_is_made_anew(start: Start, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "disk.page").write_bytes(content)
    server = start()
    server.tell("sync binlog.000001")
    assert server.counts() == {"binlog": 1}
    assert server.ns(page_of.DELAY_US, "binlog") == 0


@pytest.mark.parametrize("what", ["directory", "link", "pipe", "nowhere"])
def test_without_a_page_the_server_runs_all_the_same(start: Start, tmp_path: Path, what: str) -> None:
    page = tmp_path / "deeper" / "disk.page"
    if what != "nowhere":
        page.parent.mkdir()
    if what == "directory":
        page.mkdir()
    elif what == "link":
        page.symlink_to("/dev/null")
    elif what == "pipe":
        os.mkfifo(page)
    server = start(page=page)
    assert server.ms(f"sync {tmp_path}/binlog.000001 5") > 0


def test_it_holds_its_page_against_closed_standard_streams(built: Path, tmp_path: Path) -> None:
    page = tmp_path / "disk.page"
    subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" <&- >&- 2>&-', str(built / "mysqld")],
        env={"LD_PRELOAD": str(built / "fsyncshim.so"), "RX_DISK_PAGE": str(page)},
        check=True,
        timeout=30,
    )
    assert attaches(page) == 1
    assert struct.unpack_from("=Q", page.read_bytes())[0] == page_of.MAGIC
