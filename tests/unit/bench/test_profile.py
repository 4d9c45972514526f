"""Tests which part of the monitor a sample of the profiler belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.monitor.profile import OTHER, OUTSIDE, PARTS, parts_of, scaled

SRC = Path(__file__).resolve().parents[3] / "src" / "stalltop"


def test_a_sample_belongs_to_its_innermost_function_that_has_a_part() -> None:
    raw = (
        "run (/usr/lib/python3.11/threading.py:9);read (/x/src/stalltop/probes/monitor.py:3);"
        "read (/x/src/stalltop/probes/maps/slots.py:80);sum (/x/numpy/core.py:5) 3\n"
        "run (/x/src/stalltop/diagnosis/engine.py:9);add (/x/src/stalltop/model/evidence.py:3) 2\n"
        "draw (/x/src/stalltop/tui/app.py:9);show (/x/site-packages/textual/widgets/_static.py:3) 5\n"
        "<module> (<frozen runpy>:3);poll (/usr/lib/python3.11/selectors.py:2) 4\n"
    )
    assert dict(parts_of(raw)) == {
        "read: rows, octaves, CUDA kernels": 3,
        "diagnosis: baselines, wording, the rest": 2,
        "screen: Textual": 5,
        OTHER: 4,
    }


@pytest.mark.parametrize("text", [text for _, texts in PARTS for text in texts if not text.startswith("/")])
def test_every_part_has_files(text: str) -> None:
    folder, _, name = text.rpartition("/")
    assert any(path.name.startswith(name) for path in (SRC / folder).iterdir())


def test_parts_are_together_all_cpu_time() -> None:
    # 250 samples a second: 25 of them in 10 s are 10 ms per second.
    assert scaled({"a": 25, "b": 50}, 10.0, 40.0) == {"a": 10.0, "b": 20.0, OUTSIDE: 10.0}
    assert scaled({"a": 25, "b": 50}, 10.0, 15.0) == {"a": 5.0, "b": 10.0, OUTSIDE: 0.0}
