"""The syntax of filters, for the help and the documentation. Pure functions."""

from __future__ import annotations

from typing import Final

from stalltop.model.rows.expression import MOST_LETTERS
from stalltop.model.rows.filter import KEYS, SHORT_KEYS

TERMS: Final = (
    (
        "allreduce",
        "any name of the row contains the word; a number also matches a PID; several words must all match",
    ),
    ('"data loader"', "any name of the row contains this text, which may have blanks"),
    (
        "/^cuda.*Sync/",
        f"any name of the row matches a regular expression within its first {MOST_LETTERS} characters",
    ),
    ("op:memcpy", f"the name of the operation contains the word; keys: {', '.join(KEYS)}"),
    ("op:/Async$/", "the name of the operation matches a regular expression"),
    ("-layer:driver", "rows that do not match"),
)
"""Examples of terms, and what they mean."""


def markdown() -> str:
    """Return the terms as a Markdown table, and all keys with their short names, for docs/keys.md."""
    lines = ["| term | rows that are shown |", "|---|---|"]
    lines += [f"| `{term}` | {meaning.partition('; keys:')[0]} |" for term, meaning in TERMS]
    names = []
    for key in KEYS:
        short = ", ".join(f"`{one}:`" for one, name in SHORT_KEYS.items() if name == key)
        names.append(f"`{key}:` ({short})" if short else f"`{key}:`")
    return "\n".join([*lines, "", f"Keys: {', '.join(names)}."])
