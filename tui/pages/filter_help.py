"""What a filter can say, for the help and the documents. Pure functions."""

from __future__ import annotations

from typing import Final

from stalltop.model.rows.expression import MOST_LETTERS
from stalltop.model.rows.filter import KEYS, SHORT_KEYS

TERMS: Final = (
    ("allreduce", "the word is in any name of the row; several words: all of them; a number also is a pid"),
    ('"data loader"', "the same with blanks"),
    ("/^cuda.*Sync/", f"a regular expression; of a name the first {MOST_LETTERS} characters are looked at"),
    ("op:memcpy", f"only in this name; keys: {', '.join(KEYS)}"),
    ("op:/Async$/", "both together"),
    ("-layer:driver", "rows that do not match"),
)
"""Examples of terms, and what they mean."""


def markdown() -> str:
    """The same as a Markdown table, and all keys with their short names, for docs/keys.md."""
    lines = ["| term | rows that are shown |", "|---|---|"]
    lines += [f"| `{term}` | {meaning.partition('; keys:')[0]} |" for term, meaning in TERMS]
    names = []
    for key in KEYS:
        short = ", ".join(f"`{one}:`" for one, name in SHORT_KEYS.items() if name == key)
        names.append(f"`{key}:` ({short})" if short else f"`{key}:`")
    return "\n".join([*lines, "", f"Keys: {', '.join(names)}."])
