"""The sidecar's agent: `serve` is PID 1, owns the links; `bridge` carries an app's lines."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import time

SOCKET_PATH = "/run/replexplorer/agent.sock"
SERVER_WAIT_S = 5.0
SLICE_NS = 100_000
"""The kernel's least."""
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")
"""`struct sched_attr`, first version: size, policy, flags, nice, priority, runtime, deadline, period."""
_SCHED_OTHER = 0
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
"""The system call's number by machine: the C library has no function for it everywhere."""
AGAIN_S = 0.2
"""Between a crash and the next server."""


def serve() -> int:
    """Start the server in a child and stay as PID 1: reap orphans, pass signals on, restart a crash.

    The namespace of the node's server lives as long as this process does, so a crashed server is
    started again, without the rules that it had: an app that sees it asks for them.
    """
    child = 0
    stopping = False

    def stop(number: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    while not stopping:
        child = os.fork()
        if child == 0:
            return _serve_in_child()
        status = _reap_until(child)
        child = 0
        if not stopping:
            sys.stderr.write(f"agent: the server ended with status {status}, starting it again\n")
            time.sleep(AGAIN_S)
    return 0


def _serve_in_child() -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import server

    ask_for_short_slices()  # an echo that waits behind mysqld for a core would count as the link's
    server.run(os.environ["RX_NODE"])
    return 0


def ask_for_short_slices() -> None:
    """For the calling thread and those that it starts from now on.

    A thread that asks for short slices is preferred, when it wakes, over those that compute (EEVDF; Linux
    6.12 and later, sched(7) and `struct sched_attr`); its share of the CPU stays what it was. Older kernels
    ignore it.
    """
    import ctypes  # a bridge needs it not, and starts with each command

    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is None:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    asked = _SCHED_ATTR.pack(_SCHED_ATTR.size, _SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    words = ctypes.create_string_buffer(asked, len(asked))
    ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_int(0), words, ctypes.c_uint(0))


def _reap_until(child: int) -> int:
    """Wait for every process that ends until the child does; answers its exit status."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _connect() -> socket.socket:
    until_s = time.monotonic() + SERVER_WAIT_S
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(SOCKET_PATH)
        except OSError:
            sock.close()
            if time.monotonic() > until_s:
                raise
            time.sleep(0.02)
        else:
            return sock


def bridge() -> int:
    """Carry bytes between standard input and output and the server's socket until either ends."""
    try:
        sock = _connect()
    except OSError as error:
        message = f"the agent does not answer: {error.strerror}"
        os.write(1, b'{"id": null, "error": {"code": "absent", "message": "%s"}}\n' % message.encode())
        return 1
    with sock, contextlib.suppress(OSError):
        while True:
            sources: list[int] = [0, sock.fileno()]
            readable = select.select(sources, [], [])[0]
            if sock.fileno() in readable:
                text = sock.recv(1 << 16)
                if not text:
                    return 0
                while text:
                    text = text[os.write(1, text) :]
            if 0 in readable:
                text = os.read(0, 1 << 16)
                if not text:
                    return 0
                sock.sendall(text)
    return 0


def main(argv: list[str]) -> int:
    """Dispatch."""
    verbs = {"serve": serve, "bridge": bridge}
    if len(argv) != 1 or argv[0] not in verbs:
        sys.stderr.write("usage: agent.py serve|bridge\n")
        return 2
    return verbs[argv[0]]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
