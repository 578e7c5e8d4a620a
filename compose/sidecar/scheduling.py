"""How soon the kernel lets a thread of ours run that was woken.

A thread that asks for short slices is preferred, when it wakes, over those that compute (EEVDF; Linux 6.12
and later, sched(7) and `struct sched_attr`); its share of the CPU stays what it was. Older kernels ignore it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

SLICE_NS = 100_000
"""The kernel's least."""
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""`struct sched_attr`, first version: size, policy, flags, nice, priority, runtime, deadline, period."""
_SCHED_OTHER = 0
_NUMBERS = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
"""Of sched_setattr and sched_getattr, by machine: the C library has no function for them everywhere."""


def ask_for_short_slices() -> bool:
    """For the calling thread and those that it starts from now on; answers whether the kernel took it."""
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    asked = _ATTRIBUTES.pack(_ATTRIBUTES.size, _SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    return _call(numbers[0], ctypes.create_string_buffer(asked, len(asked)), 0)


def slice_ns() -> int | None:
    """What the calling thread asked for, or gets without; None where the kernel does not say."""
    numbers = _NUMBERS.get(platform.machine())
    answer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if numbers is None or not _call(numbers[1], answer, _ATTRIBUTES.size, 0):
        return None
    return int(_ATTRIBUTES.unpack(answer.raw)[5]) or None


def _call(number: int, attributes: ctypes.Array[ctypes.c_char], *more: int) -> bool:
    libc = ctypes.CDLL(None)
    arguments = [ctypes.c_long(number), ctypes.c_int(0), attributes, *map(ctypes.c_uint, more)]
    return bool(libc.syscall(*arguments) == 0)
