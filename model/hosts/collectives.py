"""Which collectives of an NCCL communicator are compared between hosts, and the text that lists their entry
times.

All ranks of a communicator enter the same collectives in the same order. Every host chooses the same ones of
them by their number alone, so that no host has to ask another one: those whose hash ends in enough zero bits.
A host that sees more collectives a second asks for more zero bits; what it chooses, hosts that ask for fewer
have chosen as well. A hash is needed because programs repeat their steps: of every eighth collective, all
could be at the same place of a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST_CHOSEN: Final = 8
"""Collectives, on average at most, that are chosen of those of one rank in a window."""
_GOLDEN: Final = 0x9E3779B97F4A7C15
"""Multiplier of Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4): 2^64 divided by the golden
ratio, odd. Numbers are multiplied twice: after the first time, their hashes are still nearly periodic, and
could be in step with a program."""
_BITS: Final = (1 << 64) - 1
_SHIFT: Final = 32


def chosen(first: int, end: int) -> list[int]:
    """Returns the numbers of the chosen collectives from ``first`` to ``end`` - 1. The first collective of a
    communicator has number 0."""
    bits = max(-(-(end - first) // MOST_CHOSEN) - 1, 0).bit_length()
    mask = (1 << bits) - 1
    return [number for number in range(first, end) if not _hash(number) & mask]


def _hash(number: int) -> int:
    once = number * _GOLDEN & _BITS
    return ((once ^ once >> _SHIFT) * _GOLDEN & _BITS) >> _SHIFT


def entries_text(entries: Iterable[tuple[int, int]]) -> str:
    """Returns entries, each the number of a collective and the Unix time in ns at which a rank entered it, as
    text: ``1042:1795781030243455 …``, with times in µs."""
    return " ".join(f"{number}:{time_ns // 1000}" for number, time_ns in entries)


def entries_in(text: str) -> list[tuple[int, float]]:
    """Returns the entries in a text: numbers of collectives, and Unix times in seconds. What is no entry is
    left out."""
    found = []
    for one in text.split():
        number, _, time = one.partition(":")
        if number.isascii() and time.isascii() and number.isdecimal() and time.isdecimal() and len(one) < 48:
            found.append((int(number), int(time) / 1e6))
    return found


def shifted_entries(text: str, ns: int) -> str:
    """Returns the entries in ``text`` with their times shifted by ``ns``, which may be negative."""
    return entries_text((number, round(time * 1e6) * 1000 + ns) for number, time in entries_in(text))
