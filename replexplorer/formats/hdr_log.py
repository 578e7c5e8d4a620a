"""A session's latencies in HdrHistogram's interval log format, version 1.3, for its own tools.

Law: counts and the sum of a log are the session's; a value is the middle of its slot, within 1/128, but for
the least and the greatest of each interval, which are exact. Values are nanoseconds, as the tools assume,
who print milliseconds. An interval without a commit is written too: its empty histogram says that nothing
was answered.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from replexplorer.core.event import Event
from replexplorer.core.load.interval import LoadView
from replexplorer.core.stats.histogram import Histogram, slot_middle_us
from replexplorer.core.text import one_line
from replexplorer.core.tick import Tick

_DIGITS: Final = 3
_SUB_BUCKET_BITS: Final = 11
"""2048 values share a bucket: what three significant digits need."""
_HALF: Final = 1 << (_SUB_BUCKET_BITS - 1)
_COOKIE: Final = 0x1C849313
"""Version 2 of the encoding, with counts of varying length."""
_COMPRESSED_COOKIE: Final = 0x1C849314
_HEADER: Final = struct.Struct(">iiiiqqd")
_LOWEST_NS: Final = 1
_HIGHEST_NS: Final = 3_600_000_000_000
"""An hour; more where a commit took longer."""
_NS_PER_US: Final = 1_000
_NS_PER_MS: Final = 1_000_000
_MOST_EVENT_CHARACTERS: Final = 300
SERVICE_TAG: Final = "service"
"""Tag of the intervals that count from sending, where those without a tag count from when each was due."""
_HEADINGS: Final = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


def hdr_log(about: Iterable[tuple[str, str]], ticks: Iterable[Tick]) -> Iterator[str]:
    """The log line by line, without line ends.

    Untagged intervals are the latency that the screens draw: from sending to reply, in the open loop from
    when each was due; there the time from sending stands beside it with the tag `service`. Marked events
    are comments. A tick without a histogram - no load, or another app's - has no interval.
    """
    rest = iter(ticks)
    first = next(rest, None)
    yield "#[Histogram log format version 1.3]"
    if first is None:
        return
    yield f"#[Latency of commits in nanoseconds. {'; '.join(f'{k}: {one_line(v, 200)}' for k, v in about)}]"
    begun = datetime.fromtimestamp(first.wall_s, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    yield f"#[StartTime: {first.wall_s:.3f} (seconds since epoch), {begun}]"
    yield _HEADINGS
    for tick in chain([first], rest):
        for event in tick.events:
            if event.mark is not None:
                yield _comment(event, first.at_s)
        if tick.load is not None:
            yield from _intervals(tick.load, tick.at_s - first.at_s)


def _comment(event: Event, origin_s: float) -> str:
    text = one_line(event.text, _MOST_EVENT_CHARACTERS)
    return f"#[Mark {event.mark} at {event.at_s - origin_s:.3f} s: {text}]"


def _intervals(load: LoadView, until_s: float) -> Iterator[str]:
    if load.latency is not None:
        yield _interval("", load.latency, until_s, load.duration_s)
    if load.response is not None and load.service is not None:
        yield _interval(f"Tag={SERVICE_TAG},", load.service, until_s, load.duration_s)


def _interval(tag: str, histogram: Histogram, until_s: float, length_s: float) -> str:
    most_ms = (histogram.max_us or 0) * _NS_PER_US / _NS_PER_MS
    start_s = max(0.0, until_s - length_s)
    return f"{tag}{start_s:.3f},{length_s:.3f},{most_ms:.3f},{encoded(histogram)}"


def encoded(histogram: Histogram) -> str:
    """A histogram as HdrHistogram's tools read it: version 2, deflated, base64."""
    counts = _counts_ns(histogram)
    payload = _payload(counts)
    highest_ns = max(_HIGHEST_NS, 2 * (histogram.max_us or 0) * _NS_PER_US)
    plain = _HEADER.pack(_COOKIE, len(payload), 0, _DIGITS, _LOWEST_NS, highest_ns, 1.0) + payload
    packed = zlib.compress(plain)
    return base64.b64encode(struct.pack(">ii", _COMPRESSED_COOKIE, len(packed)) + packed).decode("ascii")


def _counts_ns(histogram: Histogram) -> dict[int, int]:
    """Place in the array of counts to count; the least and the greatest value stand where they are."""
    places: dict[int, int] = {}

    def add(value_us: float, count: int) -> None:
        if count:
            place = _place(round(value_us * _NS_PER_US))
            places[place] = places.get(place, 0) + count

    low, high = histogram.min_us, histogram.max_us
    if low is None or high is None or not histogram.counts:
        return places
    left = dict(histogram.counts)
    ends = [(low, min(left)), (high, max(left))]
    for value_us, slot in ends if histogram.count > 1 else ends[:1]:
        left[slot] -= 1
        add(value_us, 1)
    for slot, count in left.items():
        add(min(max(slot_middle_us(slot), low), high), count)
    return places


def _place(value_ns: int) -> int:
    """Where HdrHistogram counts a value, three digits and a unit of 1 given."""
    bucket = max(0, value_ns.bit_length() - _SUB_BUCKET_BITS)
    return (bucket + 1) * _HALF + (value_ns >> bucket) - _HALF


def _payload(counts: dict[int, int]) -> bytes:
    """Counts from the first place to the last that has any; a run of zeros is its length, negative."""
    found = bytearray()
    at = 0
    for place in sorted(counts):
        if place > at:
            found += _zigzag(at - place if place - at > 1 else 0)
        found += _zigzag(counts[place])
        at = place + 1
    return bytes(found)


def _zigzag(value: int) -> bytes:
    """ZigZag LEB128 of 64 bits, whose ninth byte has eight of them."""
    left = (value << 1) ^ (value >> 63)
    found = bytearray()
    while left > 0x7F and len(found) < 8:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)
