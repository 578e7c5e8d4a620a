"""A power cut of a small program that is called mysqld: what was not fsynced is gone, and nothing else."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sidecar import load
from tests.unit.test_fsyncshim import Server, compiled

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here to compile the shim")

page_of = load("fsyncpage")
powercut = load("powercut")

JOURNAL_BYTES = 4 << 20
LOG = "binlog.000001"
LOGS = ("redo", "binlog", "relay", "index")
PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int io_submit(unsigned long context, long count, struct iocb **requests);

static char path[512], verb[32];
static long at, length;
static int value;

static int full; /* the last call found no space */

static void check(long answer, long wanted)
{
    full = answer == -1 && errno == ENOSPC;
    if (answer != wanted && !full) { perror(verb); exit(9); }
}

static void run(void)
{
    char *bytes = aligned_alloc(4096, (size_t)(length > 0 ? (length + 4095) / 4096 * 4096 : 4096));
    memset(bytes, value, (size_t)(length > 0 ? length : 0));
    int flags = O_RDWR | O_CREAT;
    if (strstr(verb, "only")) flags = O_WRONLY | O_CREAT;
    if (strstr(verb, "direct") || strstr(verb, "aio")) flags |= O_DIRECT;
    if (strstr(verb, "append")) flags |= O_APPEND;
    if (strstr(verb, "empty")) flags |= O_TRUNC;
    int fd = open(path, flags, 0600);
    if (fd < 0) { perror(path); exit(9); }
    if (strstr(verb, "pwrite")) check(pwrite(fd, bytes, (size_t)length, at), length);
    else if (!strcmp(verb, "append")) check(write(fd, bytes, (size_t)length), length);
    else if (strstr(verb, "seekwrite")) {
        lseek(fd, at, SEEK_SET);
        check(write(fd, bytes, (size_t)length), length);
    } else if (!strcmp(verb, "vector")) {
        struct iovec two[2] = {{bytes, (size_t)(length / 2)}, {bytes, (size_t)(length - length / 2)}};
        check(pwritev(fd, two, 2, at), length);
    } else if (!strcmp(verb, "vector2")) {
        struct iovec one = {bytes, (size_t)length};
        check(pwritev2(fd, &one, 1, at, 0), length);
    } else if (!strcmp(verb, "aio")) {
        unsigned long context = 0;
        struct iocb request = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = (uint32_t)fd,
                               .aio_buf = (uint64_t)bytes, .aio_nbytes = (uint64_t)length,
                               .aio_offset = at};
        struct iocb *requests = &request;
        struct io_event event;
        check(syscall(SYS_io_setup, 4, &context), 0);
        check(io_submit(context, 1, &requests), 1);
        check(syscall(SYS_io_getevents, context, 1, 1, &event, NULL), 1);
        check((long)event.res, length);
        syscall(SYS_io_destroy, context);
    } else if (!strcmp(verb, "resize")) check(ftruncate(fd, at), 0);
    else if (!strcmp(verb, "room")) check(fallocate(fd, 0, at, length), 0);
    else if (!strcmp(verb, "posixroom")) {
        errno = posix_fallocate(fd, at, length);
        check(errno ? -1 : 0, 0);
    }
    else if (!strcmp(verb, "hole"))
        check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length), 0);
    else if (!strcmp(verb, "sync")) check(value % 2 ? fsync(fd) : fdatasync(fd), 0);
    else if (!strcmp(verb, "dupsync")) {
        int other = dup(fd);
        close(fd);
        fd = other;
        check(fdatasync(fd), 0);
    } else if (!strcmp(verb, "rename")) {
        char to[600];
        sprintf(to, "%s.renamed", path);
        check(rename(path, to), 0);
    } else if (!strcmp(verb, "remove")) check(unlink(path), 0);
    close(fd);
    free(bytes);
}

int main(void)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    puts("ready");
    while (scanf("%31s %511s %ld %ld %d", verb, path, &at, &length, &value) == 5) {
        full = 0;
        run();
        puts(full ? "full" : "done");
    }
    return 0;
}
"""
# libaio is no part of a bare system: its function is a system call, and the shim's is in front of it.
LIBAIO = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
int io_submit(unsigned long context, long count, void **requests)
{
    return (int)syscall(SYS_io_submit, context, count, requests);
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with fsyncshim.so and the program."""
    directory = tmp_path_factory.mktemp("journal")
    source, library = directory / "libaio.c", str(directory / "libaio.so")
    source.write_text(LIBAIO)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, str(source)], check=True)
    return compiled(directory, PROGRAM, library, f"-Wl,-rpath,{directory}")


class Machine:
    """A datadir, its server, and the plug."""

    def __init__(self, built: Path, data: Path) -> None:
        self._built, self.data = built, data
        self._journals = 0
        self.start()

    def start(self) -> None:
        """Start the server, on whatever is in the datadir."""
        program, shim = (self._built / name for name in ("mysqld", "fsyncshim.so"))
        self._server = Server(program, shim, self.data / "disk.page")

    def page(self) -> Any:
        """By which the agent asks the shim."""
        return page_of.opened(self.data / "disk.page")

    def keep(self, bytes_: int = JOURNAL_BYTES) -> None:
        """Begin a journal."""
        self._journals += 1
        with self.page() as page:
            page.ask_for_journal(self._journals, bytes_, LOGS)

    def run(self, steps: str, name: str = LOG, *, says: str = "done") -> Path:
        """`append 0 10 b, resize 9000`: what is done to a file, where, how long, with which byte."""
        path = self.data / name
        for step in steps.split(", "):
            verb, at, length, byte = f"{step} 0 0 a".split()[:4]
            value = byte if byte.isdigit() else ord(byte)
            assert self._server.say(f"{verb} {path} {at} {length} {value}") == says, step
        return path

    def kill(self) -> None:
        """SIGKILL: the page cache stays."""
        self._server.process.kill()
        self._server.process.communicate(timeout=30)

    def cut(self, mode: str = "strict", *, age_s: float = 30.0, seed: int = 0, now_s: float = 0.0) -> Any:
        """Pull the plug."""
        self.kill()
        return powercut.cut(self.data, mode, age_s=age_s, seed=seed, now_s=now_s)


@pytest.fixture
def one(built: Path, tmp_path: Path) -> Iterator[Machine]:
    """A machine whose journal is on."""
    made = Machine(built, tmp_path)
    made.keep()
    yield made
    made.kill()


BEFORE, SYNCED = b"a" * 10_000, "pwrite 0 10000 a, sync"
"""What the file holds when the tests begin."""


def test_a_cut_takes_back_what_a_file_of_a_log_lost_whatever_its_name_or_inode(one: Machine) -> None:
    """A renamed file is found; a reused inode is another file; files of other kinds are left alone."""
    path = one.run(f"{SYNCED}, append 0 10 b, rename")
    data = one.run(f"{SYNCED}, append 0 10 b", "t.ibd")
    for number in range(20):
        one.run(f"{SYNCED}, append 0 10 b, remove", f"binlog.1{number:05}")
    other = one.data / "binlog.000099"
    other.write_bytes(b"written by a program that is not watched")
    with pytest.raises(powercut.Unusable, match="still runs"):
        powercut.cut(one.data, "strict", age_s=0, seed=0, now_s=0)
    one.cut()
    found = [each.read_bytes() for each in (Path(f"{path}.renamed"), data, other)]
    assert found == [BEFORE, BEFORE + b"b" * 10, b"written by a program that is not watched"]
    assert not path.exists()
    other.write_bytes(b"afterwards")
    assert one.cut()["files"] == [], "a second rollback finds nothing"
    assert other.read_bytes() == b"afterwards"


def test_it_can_begin_and_end_while_the_server_runs(one: Machine) -> None:
    path = one.run("append 0 10 b")
    with one.page() as page:
        page.ask_for_journal(0, 0, ())
    one.run("append 0 10 c")
    one.keep()
    one.run("append 0 10 d")
    one.cut()
    assert path.read_bytes() == b"b" * 10 + b"c" * 10


def test_without_a_journal_nothing_is_rolled_back(built: Path, tmp_path: Path) -> None:
    one = Machine(built, tmp_path)
    one.run("append 0 10 a")
    with pytest.raises(powercut.Unusable, match="no journal was kept"):
        one.cut()
    (tmp_path / "disk.page.journal").write_bytes(bytes(JOURNAL_BYTES))
    with pytest.raises(powercut.Unusable, match="another layout"):
        one.cut()


def test_where_there_is_no_room_a_file_s_writes_count_as_on_the_disk(one: Machine) -> None:
    one.keep(4096 + 512 * 64 + 2 * 65536)
    path = one.run(", ".join((SYNCED, *(f"pwrite 0 10000 {byte}" for byte in 2 * "bcdefghi"))))
    assert one.cut()["overflows"] > 0
    survived = set(path.read_bytes())
    assert len(survived) == 1
    assert survived < set(b"abcdefghi")


def test_an_aged_cut_keeps_what_was_written_long_before(one: Machine) -> None:
    path = one.run(f"{SYNCED}, pwrite 0 10 b")
    first_s = powercut.time.time()
    while powercut.time.time() < first_s + 0.05:
        pass
    one.run("pwrite 0 10 c")
    one.cut("aged", age_s=0.0, now_s=first_s + 0.02)
    assert path.read_bytes() == b"b" * 10 + BEFORE[10:]


@pytest.mark.parametrize("seed", range(8))
def test_a_torn_cut_leaves_each_block_as_it_was_at_some_moment(one: Machine, seed: int) -> None:
    path = one.run(f"{SYNCED}, pwrite 0 10000 b, pwrite 0 10000 c, pwrite 0 10000 d, pwrite 0 10000 e")
    one.cut("torn", seed=seed)
    content = path.read_bytes()
    assert [len(set(content[at : at + 4096])) for at in (0, 4096, 8192)] == [1, 1, 1]
    assert set(content) <= set(b"abcde")


@pytest.mark.parametrize("verb", ["append", "pwrite", "onlypwrite", "vector", "resize", "room", "posixroom"])
def test_on_a_full_disk_no_file_grows(one: Machine, verb: str) -> None:
    path = one.run(SYNCED)
    with one.page() as page:
        page.fill_disk(("binlog",))
    one.run("pwrite 0 10 b, resize 9000")
    one.run("append 0 10 b", "relay.000001")
    one.run(f"{verb} {9_500 if verb == 'resize' else 8_000} 4000 c", says="full")
    with one.page() as page:
        page.fill_disk(())
    assert path.stat().st_size == 9_000
    one.run("append 0 10 d")


class Model:
    """What a file holds, and what of it is on the disk."""

    def __init__(self) -> None:
        self.now, self.durable = bytearray(), b""

    def do(self, verb: str, at: int, length: int, value: int) -> None:
        """The same as the program does."""
        content, size = bytes([value]) * length, len(self.now)
        if "sync" in verb:
            self.durable = bytes(self.now)
            return
        if verb == "append":
            at = size
        end = {"resize": at, "empty": 0, "hole": size}.get(verb, max(size, at + length))
        self.now = self.now[:end].ljust(end, b"\0")
        if verb == "hole":
            content = bytes(max(0, min(at + length, size) - at))
        if "write" in verb or verb in ("append", "vector", "vector2", "aio", "hole"):
            self.now[at : at + len(content)] = content


VERBS = (
    "append pwrite onlypwrite seekwrite onlyseekwrite vector vector2 directpwrite aio resize empty room"
    " posixroom hole sync sync dupsync dupsync"
)


@pytest.mark.parametrize("seed", range(20))
def test_ten_cuts_after_random_work_leave_what_the_last_fsyncs_made_durable(one: Machine, seed: int) -> None:
    rng = random.Random(seed)
    names = ("binlog.000001", "relay.000001", "#innodb_redo/#ib_redo1", "binlog.index")
    (one.data / "#innodb_redo").mkdir()
    models = {name: Model() for name in names}
    for _ in range(10):
        for _ in range(rng.randint(1, 40)):
            verb, name = rng.choice(VERBS.split()), rng.choice(names)
            at, length = rng.randint(0, 40_000), rng.randint(1, 50_000)
            if verb in ("directpwrite", "aio"):
                at, length = at // 4096 * 4096, (length // 4096 + 1) * 4096
            value = rng.randint(1, 255)
            one.run(f"{verb} {at} {length} {value}", name)
            models[name].do(verb, at, length, value)
            if rng.random() < 0.02:
                one.kill()
                one.start()
        assert one.cut()["overflows"] == 0
        for name, model in models.items():
            path = one.data / name
            found = path.read_bytes() if path.exists() else b""
            assert found == model.durable, name
            model.now = bytearray(model.durable)
        one.start()
