"""What a file is that is no saved window: said to somebody who wants to open it as one."""

from __future__ import annotations

import json
from typing import Final

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "a picture (PNG)"),
    (b"<svg", "a picture (SVG)"),
    (b"<!doctype html", "a page: a browser shows it"),
    (b"stalltop ", "a report: an editor shows it"),
    (b'{"displayTimeUnit":', "a trace: ui.perfetto.dev shows it"),
    (b"PAR1", "a table (Parquet)"),
    (b"#[", "a histogram log: HdrHistogram's tools read it"),
    (b"PK\x03\x04", "a zip archive"),
    (b"SQLite format 3\x00", "a database (SQLite)"),
    (b"\x7fELF", "a program (ELF)"),
)
"""First bytes, in small letters where that matters not, and what such a file is."""
_SCHEMAS: Final = {
    "stalltop.window/1": "what stalltop once --json prints",
    "stalltop.explain/1": "what stalltop explain --json prints",
    "stalltop normals": "what stalltop has learned to be normal",
}
_CSV_HEADS: Final = (b",calls_per_s,p50_ns,", b"window_start_s,window_seconds,")
_LINE: Final = 4096
"""Bytes of a first line that are looked at."""


def recognised(content: bytes) -> str:
    """What ``content`` is, for a person; empty where that is not known."""
    if not content:
        return "an empty file"
    for start, what in _STARTS:
        if content[: len(start)] == start or content[: len(start)].lower() == start:
            return what
    first = content[:_LINE].partition(b"\n")[0]
    if any(head in first for head in _CSV_HEADS):
        return "a table (CSV): a spreadsheet shows it"
    if content[:1] in (b"{", b"["):
        return _json(content)
    return ""


def _json(content: bytes) -> str:
    try:
        found = json.loads(content)
    except RecursionError:
        return ""
    except ValueError:
        return _json_lines(content)
    named = found.get("schema", found.get("format")) if isinstance(found, dict) else None
    return (
        _SCHEMAS.get(named, "JSON of something else") if isinstance(named, str) else "JSON of something else"
    )


def _json_lines(content: bytes) -> str:
    first, _, rest = content.partition(b"\n")
    return _json(first) if rest else ""
