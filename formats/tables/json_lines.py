"""Every window as one line of JSON: what ``once --json`` prints (docs/json.md), a window a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from stalltop.formats.documents.window import document
from stalltop.model.window import Window


def pieces(windows: Iterable[Window]) -> Iterator[bytes]:
    """One line for each window; of a single one the file is one JSON object."""
    for window in windows:
        text = json.dumps(document(window), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate, which a damaged name may hold, has no form in UTF-8.
        yield text.encode("utf-8", "replace") + b"\n"
