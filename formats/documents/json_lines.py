"""Writes each window as one line of JSON: the object that ``once --json`` prints (docs/json.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from stalltop.formats.documents.window import document
from stalltop.model.window import Window


def pieces(windows: Iterable[Window]) -> Iterator[bytes]:
    """Yield a line for each window."""
    for window in windows:
        text = json.dumps(document(window), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        # A damaged name may hold a lone surrogate, which UTF-8 cannot encode.
        yield text.encode("utf-8", "replace") + b"\n"
