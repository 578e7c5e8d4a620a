"""Colours as people see them: WCAG's contrast, and how far two colours are apart with and without a colour
blindness.

Machado, Oliveira and Fernandes 2009 (full severity, on linear RGB) make a colour what a dichromat sees;
the distance is that of OKLab (Ottosson 2020) times 100, in which 2 is about the least that is noticed.
"""

from __future__ import annotations

import math

Triple = tuple[float, float, float]

BLINDNESSES: dict[str, tuple[Triple, Triple, Triple]] = {
    "none": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""What each makes of linear red, green and blue."""


def linear(color: tuple[int, int, int]) -> Triple:
    """Red, green and blue as amounts of light, 0 to 1."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (channel / 255 for channel in color)
    )
    return red, green, blue


def luminance(color: tuple[int, int, int]) -> float:
    """Relative luminance as WCAG defines it."""
    red, green, blue = linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: tuple[int, int, int], second: tuple[int, int, int]) -> float:
    """1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def seen(color: tuple[int, int, int], blindness: str) -> Triple:
    """What somebody with it sees, as linear light that a screen can show."""
    light = linear(color)
    red, green, blue = (
        min(1.0, max(0.0, sum(share * part for share, part in zip(row, light, strict=True))))
        for row in BLINDNESSES[blindness]
    )
    return red, green, blue


def distance(first: tuple[int, int, int], second: tuple[int, int, int], blindness: str = "none") -> float:
    """How far two colours are apart for somebody with it; 0 to 100 between black and white."""
    one, other = (_oklab(seen(color, blindness)) for color in (first, second))
    return 100 * math.dist(one, other)


def _oklab(light: Triple) -> Triple:
    red, green, blue = light
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    middle = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def rgb(color: str) -> tuple[int, int, int]:
    """Red, green and blue of `#rrggbb` in 0..255."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
