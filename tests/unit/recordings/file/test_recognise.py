"""Tests that the message for a file that is no saved window says what kind of file it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stalltop.files.normals_file import write_normals
from stalltop.formats.documents import json_lines
from stalltop.formats.documents.explain import explain_document
from stalltop.formats.documents.window import document
from stalltop.formats.html.page import html_page
from stalltop.formats.html.picture import svg
from stalltop.formats.html.report import page
from stalltop.formats.tables import csv_rows
from stalltop.formats.tables.csv_table import csv_table
from stalltop.formats.tables.sheet import sheet
from stalltop.formats.text.report import report
from stalltop.formats.traces import trace
from stalltop.model.errors import UsageError
from stalltop.model.text.glyphs import UNICODE
from stalltop.recordings.file.recognise import recognised
from stalltop.recordings.read.reading import load
from tests.windows.full import full_window

ONE = full_window()
SHEET = sheet(ONE, ("operation", "layer"), "operations")
FILES: dict[str, tuple[bytes, str]] = {
    "csv": (csv_table(SHEET, ONE).encode(), "a table (CSV)"),
    "html": (html_page(ONE, SHEET).encode(), "a page"),
    "text": (report(ONE, SHEET, glyphs=UNICODE).encode(), "a report"),
    "svg": (svg((), 80, "x").encode(), "a picture (SVG)"),
    "png": (b"\x89PNG\r\n\x1a\n....", "a picture (PNG)"),
    "once": (json.dumps(document(ONE)).encode(), "once --json"),
    "explain": (json.dumps(explain_document(ONE, ONE.chains), indent=1).encode(), "explain --json"),
    "rows": (b"".join(csv_rows.pieces([ONE])), "a table (CSV)"),
    "trace": (b"".join(trace.pieces([ONE], (ONE.start, ONE.end))), "a trace"),
    "lines": (b"".join(json_lines.pieces([ONE, ONE])), "once --json"),
    "exported": (page([ONE], ONE.start, ONE.end).encode(), "a page"),
    "parquet": (b"PAR1....", "a table (Parquet)"),
    "hlog": (b"#[Histogram log format version 1.3]\n", "a histogram log"),
    "gzip": (b"\x1f\x8b\x08", "compressed by gzip"),
    "empty": (b"", "an empty file"),
    "list": (b"[1, 2]", "JSON of something else"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_written_by_stalltop_are_recognised(name: str, tmp_path: Path) -> None:
    content, what = FILES[name]
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="no window saved by stalltop") as caught:
        load(path)
    assert f"it is {what}" in caught.value.reason or what in caught.value.reason
    assert ".stalltop" in caught.value.remedy


def test_a_file_of_baselines_is_recognised(tmp_path: Path) -> None:
    write_normals(tmp_path / "normals.json", {"a": 1})
    assert "baselines" in recognised((tmp_path / "normals.json").read_bytes())


@pytest.mark.parametrize("content", [b"hello", b"\xff\xfe", b"S" * 100_000])
def test_unknown_files_have_no_kind(content: bytes) -> None:
    assert recognised(content) == ""
