"""Regular expressions that somebody types, refused where looking for them might take for ever.

Python's ``re`` tries one way after the other and lets nothing else run meanwhile: ``(a+)+$`` has 2^n ways
through n letters. An expression has a bounded number of ways here, through a text of a bounded length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _parser  # type: ignore[attr-defined]  # nothing public tells the parts of an expression
from typing import Any, Final

MOST_LETTERS: Final = 256
"""Characters of a name that are looked at. Paths of control groups may be longer, names hardly ever."""
MOST_WAYS: Final = MOST_LETTERS**3
"""Ways through a text that an expression may have: ``.*`` and the like twice, and some choices besides.

At worst that takes some hundredths of a second for a name; a third ``.*`` takes more than a second.
"""


def compiled(regex: str) -> re.Pattern[str]:
    """The expression ``regex``; case does not matter. Raises ValueError, in one line, where it is none or
    has too many ways through a text."""
    try:
        pattern = re.compile(regex, re.IGNORECASE)
        ways = _ways(_parser.parse(regex, re.IGNORECASE))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"/{regex}/ is no regular expression: {error}") from None
    if ways > MOST_WAYS:
        raise ValueError(f"/{regex}/ may take too long: two * or + at most, none inside another")
    return pattern


def found(pattern: re.Pattern[str], text: str) -> bool:
    """Whether ``pattern`` is in the part of ``text`` that is looked at."""
    return pattern.search(text, 0, MOST_LETTERS) is not None


def _ways(parts: Iterable[tuple[Any, Any]]) -> int:
    """In how many ways ``parts``, as the parser gives them, can match one text at most; not told beyond
    what is allowed."""
    product = 1
    for name, held in parts:
        product = min(product * _ways_of(str(name), held), MOST_WAYS + 1)
    return product


def _ways_of(name: str, held: Any) -> int:
    if name.endswith("_REPEAT"):
        least, most, inner = held
        most = min(int(most), MOST_LETTERS)
        # From two ways on, 2^25 are beyond what is allowed.
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
