"""Measures how different two colours look, to people with normal and with colour-blind eyes.

* Contrast and relative luminance: WCAG 2.2.
* Colour-blind eyes: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
  Vision Deficiency" (2009), the matrices of severity 1.0, applied to linear RGB.
* Distance: CIEDE2000 (CIE 142-2001), as in Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula"
  (2005), for D65. Two large areas side by side look different from a distance of about 2 on.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from rich.color import Color, ColorSystem

Linear = tuple[float, float, float]

_AS_SEEN: Final = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
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
}
EYES: Final = tuple(_AS_SEEN)
TO_XYZ: Final = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
"""From linear sRGB (IEC 61966-2-1) to CIE XYZ."""
WHITE: Final = (0.95047, 1.0, 1.08883)
"""D65 in CIE XYZ."""


class Lab(NamedTuple):
    """A colour in CIELAB."""

    l: float  # noqa: E741 - the name of the standard
    a: float
    b: float


def in_256_colours(color: Color) -> Color:
    """Return the colour that a terminal with 256 colours shows."""
    return Color.from_triplet(color.downgrade(ColorSystem.EIGHT_BIT).get_truecolor())


def _linear(color: Color) -> Linear:
    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = color.get_truecolor()
    return linear(red), linear(green), linear(blue)


def _times(matrix: tuple[Linear, ...], of: Linear) -> Linear:
    first, second, third = (sum(one * other for one, other in zip(row, of, strict=True)) for row in matrix)
    return first, second, third


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio: from 1 for equal colours to 21 for black and white."""

    def luminance(color: Color) -> float:
        red, green, blue = _linear(color)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(color: Color, eyes: str = "normal") -> Lab:
    """Return the colour as ``eyes`` see it, in CIELAB."""
    seen = _times(_AS_SEEN[eyes], _linear(color))
    red, green, blue = (min(max(part, 0.0), 1.0) for part in seen)
    x, y, z = (
        math.cbrt(share) if share > (6 / 29) ** 3 else share / (3 * (6 / 29) ** 2) + 4 / 29
        for share in (
            part / white for part, white in zip(_times(TO_XYZ, (red, green, blue)), WHITE, strict=True)
        )
    )
    return Lab(116 * y - 16, 500 * (x - y), 200 * (y - z))


def distance(one: Color, other: Color, eyes: str = "normal") -> float:
    """Return how different two colours look to ``eyes``, in CIEDE2000."""
    return ciede2000(lab(one, eyes), lab(other, eyes))


def ciede2000(one: Lab, other: Lab) -> float:
    """Return the distance of two colours. The names of variables are those of the standard."""
    c_mean = (math.hypot(one.a, one.b) + math.hypot(other.a, other.b)) / 2
    stretch = 1.5 - 0.5 * math.sqrt(c_mean**7 / (c_mean**7 + 25.0**7))
    c1, c2 = math.hypot(one.a * stretch, one.b), math.hypot(other.a * stretch, other.b)
    h1 = math.degrees(math.atan2(one.b, one.a * stretch)) % 360
    h2 = math.degrees(math.atan2(other.b, other.a * stretch)) % 360
    grey = c1 * c2 == 0
    dh = 0.0 if grey else (h2 - h1 + 180) % 360 - 180
    if dh == -180 and h2 > h1:
        dh = 180.0
    d_l, d_c = other.l - one.l, c2 - c1
    d_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(dh / 2))
    l, c = (one.l + other.l) / 2, (c1 + c2) / 2  # noqa: E741
    h = h1 + h2
    if not grey:
        h = h / 2 if abs(h1 - h2) <= 180 else (h + 360) / 2 if h < 360 else (h - 360) / 2
    t = 1.0
    for weight, times, shift in ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63)):
        t += weight * math.cos(math.radians(times * h + shift))
    s_l = 1 + 0.015 * (l - 50) ** 2 / math.sqrt(20 + (l - 50) ** 2)
    s_c, s_h = 1 + 0.045 * c, 1 + 0.015 * c * t
    turn = 2 * 30 * math.exp(-(((h - 275) / 25) ** 2))
    r_t = -math.sin(math.radians(turn)) * 2 * math.sqrt(c**7 / (c**7 + 25.0**7))
    l_part, c_part, h_part = d_l / s_l, d_c / s_c, d_h / s_h
    return math.sqrt(l_part**2 + c_part**2 + h_part**2 + r_t * c_part * h_part)
