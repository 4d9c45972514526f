"""Text that comes from outside (command names, paths, container names) made fit to show.

Whoever names a process or a container decides what is in the name: escape sequences that repaint a
terminal, characters that reverse the reading direction, a megabyte. Everything that comes from a process
or a file of this host passes through `clean` once, where it is read.
"""

from __future__ import annotations

LIMIT = 200
"""Characters kept by default."""
ELLIPSIS = "…"

# Selectors of how the character before them is drawn. They count as printable, but terminals disagree
# on the width of what they change.
_VARIATION_SELECTORS = frozenset((*map(chr, range(0xFE00, 0xFE10)), *map(chr, range(0xE0100, 0xE01F0))))


def clean(text: str | bytes, limit: int = LIMIT) -> str:
    """``text`` with only printable characters, on one line, at most ``limit`` characters long.

    Control characters, direction overrides, zero-width and private-use characters are dropped, white
    space of any kind becomes single blanks, bytes that are not UTF-8 become U+FFFD. What is cut off is
    marked by an ellipsis. The result may be empty. Cleaning twice changes nothing.

    Raises ValueError where ``limit`` is below 1.
    """
    if limit < 1:
        raise ValueError(f"a limit of at least 1 is needed, not {limit}")
    looked_at = text[: 8 * limit]  # no work on megabytes that are cut off anyway
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
    """``text`` without lone surrogates: those that stand for bytes (names from `os.listdir`) are decoded."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
