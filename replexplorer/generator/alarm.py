"""A timer finer than the event loop's, which wakes at whole milliseconds only.

Where Linux has timerfd it is used, so that an arrival is noticed within some 0.1 ms of its time;
elsewhere the loop's own timer has to do, and its lateness is measured like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from typing import Final

_CLOCK_MONOTONIC: Final = 1
_ABSOLUTE: Final = 1
_LEAST_S: Final = 1e-6
"""A time of 0 would switch the timer off; one that is long past rings at once."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """Calls back at a time of the monotonic clock; set again from there."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._settime: Callable[..., int] | None = None
        self._descriptor = -1
        if sys.platform.startswith("linux"):
            with contextlib.suppress(OSError, AttributeError):
                self._open()

    def _open(self) -> None:
        """Make a timerfd; raises OSError or AttributeError where there is none."""
        library = ctypes.CDLL(None, use_errno=True)
        descriptor = library.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "no timerfd")
        self._settime, self._descriptor = library.timerfd_settime, descriptor
        self._loop.add_reader(descriptor, self._rang)

    def set(self, at_s: float | None) -> None:
        """Ring at this time and no other; None: not at all."""
        if self._settime is not None:
            seconds = 0.0 if at_s is None else max(at_s, _LEAST_S)
            whole = int(seconds)
            setting = _Setting(_Timespec(), _Timespec(whole, int((seconds - whole) * 1e9)))
            self._settime(self._descriptor, _ABSOLUTE, ctypes.byref(setting), None)
            return
        if self._timer is not None:
            self._timer.cancel()
        # The loop's clock is the monotonic one.
        self._timer = None if at_s is None else self._loop.call_at(at_s, self._ring)

    def _rang(self) -> None:
        """The timer is due."""
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:  # it was set again meanwhile
            return
        self._ring()

    def close(self) -> None:
        """Ring no more."""
        self.set(None)
        if self._settime is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._settime = None
