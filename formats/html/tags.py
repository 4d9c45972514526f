"""Makes HTML from text safely: ``tag`` and ``joined`` escape every text that is not ``Html``."""

from __future__ import annotations

from html import escape
from typing import Final

from stalltop.model.text.figures import printable

_EMPTY: Final = ("br", "meta")
"""Elements without an end tag."""


class Html(str):
    """Text that is HTML markup already, so that ``tag`` and ``joined`` do not escape it."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str) -> Html:
    """Return the element ``name``. Escapes children that are not ``Html``, and attributes; leaves out empty
    attributes. ``class_`` is the attribute ``class``, ``aria_label`` is ``aria-label``."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(value))}"'
        for key, value in attributes.items()
        if value
    )
    start = f"<{name}{given}>"
    return Html(start if name in _EMPTY else f"{start}{joined(*children)}</{name}>")


def joined(*children: str) -> Html:
    """Return ``children`` joined as HTML. Escapes those that are not ``Html``."""
    return Html("".join(child if isinstance(child, Html) else escape(printable(child)) for child in children))
