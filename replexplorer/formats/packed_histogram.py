"""A histogram as the bytes of a session file's column, and back.

Law: what is read may be from anybody: it costs bounded time and memory, and is a histogram or UnreadableRow.
"""

from __future__ import annotations

import zlib
from typing import Final

from replexplorer.core.stats.histogram import Histogram, slot_of

MOST_HISTOGRAM_BYTES: Final = 1 << 16
"""Of a histogram once it is inflated; one with every slot of 64 bits has fewer."""
_LONGEST_NUMBER_BITS: Final = 63
_HIGHEST_SLOT: Final = slot_of(2**_LONGEST_NUMBER_BITS - 1)


class UnreadableRow(ValueError):
    """A row that is no such row; the text says of what and why."""


def packed(histogram: Histogram | None) -> bytes | None:
    """A histogram as bytes: LEB128 numbers, each zero or positive, deflated (RFC 1951): slots that lie side
    by side with few counts shrink to two fifths.

    sum_us, least_us, greatest_us, then for each slot that has any, in order: its distance to the slot
    before, its count. Least and greatest are absent in an empty histogram, which is one zero.
    """
    if histogram is None:
        return None
    numbers = [histogram.sum_us]
    if histogram.count:
        numbers += [histogram.min_us or 0, histogram.max_us or 0]
    last = 0
    for slot in sorted(histogram.counts):
        numbers += [slot - last, histogram.counts[slot]]
        last = slot
    return zlib.compress(b"".join(map(_leb128, numbers)), wbits=-zlib.MAX_WBITS)


def unpacked(blob: bytes | None, *, is_deflated: bool = True) -> Histogram | None:
    """What `packed` made, now or before it deflated; raises UnreadableRow."""
    if blob is None:
        return None
    if not isinstance(blob, bytes):
        raise UnreadableRow("a histogram that is no blob")
    numbers = _numbers(_inflated(blob) if is_deflated else blob)
    if not numbers:
        raise UnreadableRow("an empty histogram")
    if len(numbers) == 1:
        return Histogram(sum_us=numbers[0])
    if len(numbers) < 5 or len(numbers) % 2 == 0:
        raise UnreadableRow("a histogram that is cut off")
    if numbers[1] > numbers[2]:
        raise UnreadableRow("a histogram whose least is above its greatest")
    counts: dict[int, int] = {}
    slot = 0
    for distance, count in zip(numbers[3::2], numbers[4::2], strict=True):
        slot += distance
        if slot > _HIGHEST_SLOT or slot in counts or not count:
            raise UnreadableRow("a histogram with a slot that there is not")
        counts[slot] = count
    return Histogram(counts, sum(counts.values()), *numbers[:3])


def _inflated(blob: bytes) -> bytes:
    """The bytes of a blob, of which there are not too many whatever it holds."""
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = inflating.decompress(blob, MOST_HISTOGRAM_BYTES + 1)
    except zlib.error:
        raise UnreadableRow("a histogram that cannot be inflated") from None
    if len(found) > MOST_HISTOGRAM_BYTES:
        raise UnreadableRow(f"a histogram of more than {MOST_HISTOGRAM_BYTES >> 10} KB")
    if not inflating.eof or inflating.unused_data:
        raise UnreadableRow("a histogram that cannot be inflated")
    return found


def _leb128(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _numbers(blob: bytes) -> list[int]:
    if len(blob) > MOST_HISTOGRAM_BYTES:
        raise UnreadableRow(f"a histogram of more than {MOST_HISTOGRAM_BYTES >> 10} KB")
    numbers, number, shift = [], 0, 0
    for byte in blob:
        if shift >= _LONGEST_NUMBER_BITS:
            raise UnreadableRow("a histogram with a number of more than 63 bits")
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            numbers.append(number)
            number = shift = 0
    if shift:
        raise UnreadableRow("a histogram that is cut off")
    return numbers
