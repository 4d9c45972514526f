"""HTML that is safe by the way it is made: text becomes markup by ``tag`` only, which escapes it."""

from __future__ import annotations

from html import escape
from typing import Final

from stalltop.model.text.figures import printable

_EMPTY: Final = ("br", "meta")
"""Elements that have no end."""


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str) -> Html:
    """The element ``name``; children that are not ``Html`` are text. ``class_`` stands for ``class``."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(value))}"'
        for key, value in attributes.items()
        if value
    )
    start = f"<{name}{given}>"
    return Html(start if name in _EMPTY else f"{start}{joined(*children)}</{name}>")


def joined(*children: str) -> Html:
    """One after another; those that are not ``Html`` are text."""
    return Html("".join(child if isinstance(child, Html) else escape(printable(child)) for child in children))
