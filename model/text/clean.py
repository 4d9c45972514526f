"""Makes text from outside (command names, paths, container names) safe to show.

Users choose the names of processes and containers, which may contain escape sequences, characters that
reverse the reading direction, or a megabyte of text. All text from processes and files of this host passes
through ``clean`` once, where it is read.
"""

from __future__ import annotations

LIMIT = 200
"""Default maximum length in characters."""
ELLIPSIS = "…"

# Variation selectors change how the character before them is drawn. They count as printable, but terminals
# disagree about the width of the result.
_VARIATION_SELECTORS = frozenset((*map(chr, range(0xFE00, 0xFE10)), *map(chr, range(0xE0100, 0xE01F0))))


def clean(text: str | bytes, limit: int = LIMIT) -> str:
    """Reduces ``text`` to printable characters on one line, at most ``limit`` characters long.

    Control characters, direction overrides, zero-width and private-use characters are dropped, white space
    of any kind becomes single blanks, and bytes that are not UTF-8 become U+FFFD. An ellipsis marks text
    that was cut off. The result may be empty. The function is idempotent.

    Raises ValueError if ``limit`` is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    looked_at = text[: 8 * limit]  # limits the work if the text has megabytes
    cut = len(looked_at) < len(text)
    decoded = looked_at.decode("utf-8", "replace") if isinstance(looked_at, bytes) else _whole(looked_at)
    if not (decoded.isascii() and decoded.isprintable()):
        decoded = "".join(map(_shown, decoded))
    line = " ".join(decoded.split())
    if len(line) > limit or cut:
        return line[: limit - 1].rstrip() + ELLIPSIS
    return line


def _shown(character: str) -> str:
    if character.isspace():
        return " "
    if not character.isprintable() or character in _VARIATION_SELECTORS:
        return ""
    return character


def _whole(text: str) -> str:
    """Replaces lone surrogates, which cannot be printed. Surrogates that stand for bytes (as in names from
    ``os.listdir``) are decoded as UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
