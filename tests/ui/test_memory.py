"""What a dashboard that stands for hours gives back."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes
from replexplorer.ui.terminal.crash import return_large_buffers

libc = ctypes.CDLL(None)
for size, kind in (("mallinfo2", ctypes.c_size_t), ("mallinfo", ctypes.c_int)):
    if hasattr(libc, size):
        break
else:
    raise SystemExit("no glibc")

class Figures(ctypes.Structure):
    _fields_ = [(name, kind) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks".split()]
    _fields_ += [("fordblks", kind), ("keepcost", kind)]

told = getattr(libc, size)
told.restype = Figures

def lengthens_the_heap():
    before = told().arena
    buffers = [bytearray(200_000) for _ in range(100)]
    return told().arena - before > 10_000_000

bytearray(1_000_000)  # freed: from here on glibc by itself takes what is smaller from the heap
by_itself = lengthens_the_heap()
return_large_buffers()
libc.malloc_trim(0)
print(by_itself, lengthens_the_heap())
"""


def test_large_buffers_do_not_lengthen_the_heap() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    if run.stderr.strip() == "no glibc":
        pytest.skip("another allocator")
    assert run.stdout.split() == ["True", "False"], run.stderr
