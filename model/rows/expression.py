"""Regular expressions that a user types, limited so that a search cannot take exponential time.

Python's ``re`` backtracks, and holds the global interpreter lock, so no other thread runs during a search.
``(a+)+$``, for example, can match n letters in 2^n ways, and a search that fails tries them all. This module
therefore limits the number of ways in which an expression can match, and the length of the text that is
searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _parser  # type: ignore[attr-defined]  # no public module parses an expression into its parts
from typing import Any, Final

MOST_LETTERS: Final = 256
"""Maximum number of characters of a text that are searched. Names are almost never longer; some cgroup paths
are, and only their beginning is searched."""
MOST_WAYS: Final = MOST_LETTERS**3
"""Maximum number of ways in which an expression may match a text: enough for two ``.*`` and some
alternatives.

In the worst case, an expression takes some hundredths of a second per name; with a third ``.*`` it would take
more than a second.
"""


def compiled(regex: str) -> re.Pattern[str]:
    """Compiles ``regex`` so that it ignores case. Raises ValueError with a message of one line if ``regex``
    is invalid or may match in more than ``MOST_WAYS`` ways."""
    try:
        pattern = re.compile(regex, re.IGNORECASE)
        ways = _ways(_parser.parse(regex, re.IGNORECASE))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"/{regex}/ is not a valid regular expression: {error}") from None
    if ways > MOST_WAYS:
        raise ValueError(f"/{regex}/ may take too long: use at most two * or +, none inside another")
    return pattern


def found(pattern: re.Pattern[str], text: str) -> bool:
    """Returns True if ``pattern`` occurs in the first ``MOST_LETTERS`` characters of ``text``."""
    return pattern.search(text, 0, MOST_LETTERS) is not None


def _ways(parts: Iterable[tuple[Any, Any]]) -> int:
    """Returns an upper bound of the number of ways in which ``parts`` (from ``re``'s parser) match one
    text, capped just above ``MOST_WAYS``."""
    product = 1
    for name, held in parts:
        product = min(product * _ways_of(str(name), held), MOST_WAYS + 1)
    return product


def _ways_of(name: str, held: Any) -> int:
    if name.endswith("_REPEAT"):
        least, most, inner = held
        most = min(int(most), MOST_LETTERS)
        # If the inner part has at least two ways, 25 repetitions have 2^25 or more, which exceeds MOST_WAYS
        # (2^24). So more repetitions need not be computed.
        return (max(most - int(least), 0) + 1) * int(_ways(inner) ** min(most, 25))
    if name == "BRANCH":
        return sum(_ways(one) for one in held[1])
    if name == "GROUPREF_EXISTS":
        return sum(_ways(one) for one in held[1:] if one is not None)
    if name == "SUBPATTERN":
        return _ways(held[3])
    if name == "ATOMIC_GROUP":
        return _ways(held)
    return _ways(held[1]) if name.startswith("ASSERT") else 1
