"""Lengths of time as users type them."""

from __future__ import annotations

import argparse
import re
from typing import Final

_AGES: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
"""Seconds of each unit."""


def age(text: str) -> float:
    """An argparse type: a length of time such as ``36h`` or ``14d``, converted to seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip(), re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age; examples: 36h, 14d")
    value = float(found[1]) * _AGES[found[2]]
    if not 60.0 <= value <= 3_650 * 86_400.0:
        raise argparse.ArgumentTypeError(f"{text} is out of range: use 1m to 3650d")
    return value


def duration(text: str) -> float:
    """An argparse type: a length of time such as ``90`` or ``1h``, converted to seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip(), re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; examples: 90, 5m, 1h")
    value = float(found[1]) * _AGES[found[2] or "s"]
    if not 1.0 <= value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text} is out of range: use 1s to 1e9s")
    return value
