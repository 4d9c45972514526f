"""Recognises files that are not saved windows, so that an error can say what kind of file it is."""

from __future__ import annotations

from typing import Final

FIRST_BYTES: Final = 4096
"""Number of bytes at the beginning of a file in which names of formats are searched."""
_STARTS: Final = (
    (b"\x89png\r\n\x1a\n", "a picture (PNG)"),
    (b"<svg", "a picture (SVG)"),
    (b"<!doctype html", "a page: a browser shows it"),
    (b"stalltop ", "a report: an editor shows it"),
    (b'{"displaytimeunit":', "a trace: ui.perfetto.dev shows it"),
    (b"par1", "a table (Parquet)"),
    (b"#[", "a histogram log: HdrHistogram's tools read it"),
    (b"pk\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "compressed by gzip"),
    (b"\x7felf", "a program (ELF)"),
)
"""First bytes of a file in lower case, and the kind of file that begins with them."""
_NAMES: Final = (
    (b'"stalltop.window/1"', "what stalltop once --json prints"),
    (b'"stalltop.explain/1"', "what stalltop explain --json prints"),
    (b'"stalltop normals"', "the baselines that stalltop has learned"),
)
"""Names of formats that are near the beginning of JSON files, each with the kind of file that has this
name."""
_CSV_HEADS: Final = (b",calls_per_s,p50_ns,", b"window_start_s,window_seconds,")


def recognised(first: bytes) -> str:
    """Return the kind of the file that begins with ``first``, in words for a message; '' if it is not
    known."""
    if not first:
        return "an empty file"
    for start, what in _STARTS:
        if first[: len(start)].lower() == start:
            return what
    if any(head in first.partition(b"\n")[0] for head in _CSV_HEADS):
        return "a table (CSV): a spreadsheet shows it"
    if first[:1] in (b"{", b"["):
        return next((what for name, what in _NAMES if name in first), "JSON of something else")
    return ""
