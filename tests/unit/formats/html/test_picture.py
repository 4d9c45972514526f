"""Tests that pictures of the screen are self-contained, and that names stay text."""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.segment import Segment
from rich.style import Style

from stalltop.formats.html import picture
from stalltop.formats.html.picture import INSTALL, png, png_problem, svg
from stalltop.model.errors import StalltopError
from tests.windows.hostile import NAMES

LINES = (
    (Segment("CALL/S  ", Style(bold=True)), Segment("<b>&", Style(color="red", bgcolor="blue"))),
    (Segment("  1.23k ━╸ "), Segment("日本", None)),
)


def test_a_picture_has_every_line_and_loads_nothing() -> None:
    text = svg(LINES, 20, 'gpu7 "<script>"')
    root = ElementTree.fromstring(text)
    shown = "".join(root.itertext()).replace("\xa0", " ")
    assert root.tag.endswith("svg")
    for word in ("CALL/S", "<b>&", "1.23k ━╸", "日本", 'gpu7 "<script>"'):
        assert word in shown
    assert "font-face" not in text
    assert "url(http" not in text
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        *("svg", "style", "defs", "clipPath", "rect", "text", "g", "circle"),
    }


def test_hostile_names_stay_text() -> None:
    lines = [(Segment(picture_safe),) for name in NAMES if (picture_safe := name) and name.isprintable()]
    root = ElementTree.fromstring(svg(lines, 200, "x"))
    assert "<script>alert(1)</script>" in "".join(root.itertext())


def test_a_picture_without_lines_is_valid() -> None:
    ElementTree.fromstring(svg((), 80, ""))


def fake_converter(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / picture.CONVERTER
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_words_of_a_png_keep_their_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_converter(tmp_path, "cat", monkeypatch)
    lines = ((Segment("a&b  " + "━" * 20 + "日本 <c> "), Segment("end")),)
    root = ElementTree.fromstring(png(svg(lines, 50, "x")))
    cell = float(svg(((Segment("a"),),), 50, "x").partition('textLength="')[2].partition('"')[0])
    found = [
        (one.text, float(one.attrib["x"]) / cell) for one in root.iter() if "y" in one.attrib and one.text
    ]
    assert [(text, round(at, 3)) for text, at in found if text != "x"] == [
        ("a&b", 0),
        ("━" * 8, 5),
        ("━" * 8, 13),
        ("━━━━日本", 21),
        ("<c>", 30),
        ("end", 34),
    ]


def test_a_png_is_made_by_the_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_converter(tmp_path, 'printf "%s " "$@"; cat', monkeypatch)
    assert png_problem() == ""
    assert png("<svg/>") == b"--format png <svg/>"


def test_a_failing_converter_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_converter(tmp_path, "echo first >&2; echo no memory >&2; exit 1", monkeypatch)
    with pytest.raises(StalltopError, match="failed: no memory"):
        png("<svg/>")

    def late(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("rsvg-convert", 60)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(StalltopError, match="timed out"):
        png("<svg/>")


def test_without_a_converter_the_message_names_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "librsvg2-bin" in png_problem()
    with pytest.raises(StalltopError, match=INSTALL.split(":")[0]):
        png("<svg/>")


def test_the_real_converter_makes_a_png_of_the_same_size() -> None:
    if shutil.which(picture.CONVERTER) is None:
        pytest.skip("rsvg-convert is missing on this machine")
    text = svg(LINES, 20, "gpu7")
    made = png(text)
    assert made.startswith(b"\x89PNG\r\n\x1a\n")
    wide, high = struct.unpack(">II", made[16:24])
    box = [float(value) for value in ElementTree.fromstring(text).attrib["viewBox"].split()]
    assert abs(wide - box[2]) <= 1
    assert abs(high - box[3]) <= 1
