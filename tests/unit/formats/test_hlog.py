"""Tests histogram logs: HdrHistogram's own reader returns every call, and file names are safe."""

from __future__ import annotations

import csv
import os
import re
import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from stalltop.files.complete import PathTakenError
from stalltop.files.new_folder import filled
from stalltop.formats import hlog
from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.histograms.hdr import HIGHEST_NS
from stalltop.model.merge.merging import merge
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, rows, window
from tests.windows.exported import hostile, several, span_of
from tests.windows.full import full_window

PERCENTS = (0.0, 1.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0)
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "export.md"


def index(folder: Path) -> list[dict[str, str]]:
    with open(folder / hlog.INDEX, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def intervals(path: Path) -> list[HdrHistogram]:
    reader = HistogramLogReader(str(path), HdrHistogram(1, HIGHEST_NS, 2))
    found = []
    while (one := reader.get_next_interval_histogram()) is not None:
        found.append(one)
    reader.input_file.close()
    return found


def key_of(line: dict[str, str]) -> RowKey:
    return RowKey(
        line["host"],
        line["tenant"],
        int(line["pid"]),
        line["process"],
        line["layer"],
        line["operation"],
        line["inside"] == "1",
        line["device"],
    )


def test_hdrh_reads_every_row_back_with_equal_percentiles(tmp_path: Path) -> None:
    found = several()
    hlog.write(found, span_of(found), tmp_path)
    whole = merge(found)
    lines = index(tmp_path)
    assert {key_of(line) for line in lines} == set(whole.rows.keys)
    for line in lines:
        at = whole.rows.keys.index(key_of(line))
        parts = intervals(tmp_path / line["file"])
        assert len(parts) == len(found) == int(line["intervals"])
        together = HdrHistogram(1, HIGHEST_NS, 2)
        for one, part in zip(found, parts, strict=True):
            assert part.get_start_time_stamp() / 1000 == pytest.approx(one.start, abs=1e-5)
            assert part.get_end_time_stamp() / 1000 == pytest.approx(one.end, abs=1e-5)
            together.add(part)
        ours = whole.rows.histograms.take(np.array([at])).percentiles(PERCENTS)[0].tolist()
        assert [together.get_value_at_percentile(percent) for percent in PERCENTS] == ours
        assert together.total_count == whole.rows.calls[at] == int(line["calls"])
        assert int(line["max_ns"]) == whole.rows.max_ns[at]
        assert int(line["total_ns"]) == whole.rows.total_ns[at]


@pytest.mark.parametrize("step", [-0.7, -1_000.0, -86_400.0 * 400, 1_000.0])
def test_intervals_survive_a_clock_that_was_set(tmp_path: Path, step: float) -> None:
    calls = [Calls(key("a"), [5])]
    late = [Calls(key("b"), [7])]
    starts = [1e9 + at + (step if at >= 5 else 0.0) for at in range(10)]
    found = [window(calls if at < 7 else calls + late, start=start) for at, start in enumerate(starts)]
    hlog.write(found, span_of(found), tmp_path)
    logs = {line["operation"]: intervals(tmp_path / line["file"]) for line in index(tmp_path)}
    for name, of in (("a", starts), ("b", starts[7:])):
        assert [one.get_start_time_stamp() / 1000 for one in logs[name]] == pytest.approx(of, abs=1e-5)
        assert [one.total_count for one in logs[name]] == [1] * len(of)


def test_the_document_shows_the_output(tmp_path: Path) -> None:
    hlog.write([full_window()], span_of([full_window()]), tmp_path)
    text = (tmp_path / "train.python3-100.runtime.cudaLaunchKernel.gpu0.hlog").read_text(encoding="utf-8")
    assert text in DOCUMENT.read_text(encoding="utf-8")


def test_file_names_are_safe_and_distinct(tmp_path: Path) -> None:
    one = hostile()
    hlog.write([one], span_of([one]), tmp_path)
    lines = index(tmp_path)
    assert len(lines) == len(one.rows)
    names = [line["file"] for line in lines]
    assert sorted([*names, hlog.INDEX]) == sorted(os.listdir(tmp_path))
    assert len({name.casefold() for name in names}) == len(names)
    for name in names:
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.~-]*\.hlog", name), name
        assert len(name) <= 255
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert all(line.isprintable() for line in file.read_text(encoding="utf-8").split("\n"))


def test_rows_with_similar_names_get_separate_files(tmp_path: Path) -> None:
    calls = [Calls(key(name, tenant=f"docker:{name}"), [1_000]) for name in ("a/b", "a b", "A_B")]
    one = replace(window(calls), tenants={row.key.tenant: Tenant(row.key.tenant, "Train") for row in calls})
    hlog.write([one], span_of([one]), tmp_path)
    stem = "Train.python3-100.runtime."
    assert [line["file"] for line in index(tmp_path)] == [
        f"{stem}a_b.hlog",
        f"{stem}a_b~2.hlog",
        f"{stem}A_B~3.hlog",
    ]


def test_a_row_without_calls_has_no_interval(tmp_path: Path) -> None:
    busy, idle = Calls(key("a"), [5]), Calls(key("b"), [])
    found = [window([busy, idle]), window([idle, busy], start=1_001.0)]
    hlog.write(found, span_of(found), tmp_path)
    assert [(line["operation"], line["intervals"]) for line in index(tmp_path)] == [("a", "2")]


def test_large_logs_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hlog, "_HELD", 1)
    hlog.write(several(), span_of(several()), tmp_path)
    assert all(len(intervals(tmp_path / line["file"])) == 5 for line in index(tmp_path))


def test_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hlog, "MOST_FILES", 3)
    with pytest.raises(StalltopError, match="one file for each row, at most 3"):
        hlog.write([full_window()], span_of([full_window()]), tmp_path)


def test_a_folder_appears_once_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "new" / "logs"
    with filled(path) as folder:
        (folder / "a").write_text("1")
        assert not path.exists()
    assert [file.name for file in path.iterdir()] == ["a"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["logs"]


def test_a_failed_folder_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with filled(tmp_path / "logs") as folder:
            (folder / "a").write_text("1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill()
    assert os.listdir(tmp_path) == []


def test_only_a_folder_of_logs_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "logs"

    def write(text: str, **how: object) -> None:
        with filled(path, **how) as folder:  # type: ignore[arg-type]
            (folder / hlog.INDEX).write_text(text)

    write("one")
    with pytest.raises(PathTakenError):
        write("two")
    write("three", replaces=hlog.ours)
    assert (path / hlog.INDEX).read_text() == "three"
    (path / "precious.txt").write_text("mine")
    with pytest.raises(UsageError, match="contains only an export"):
        write("four", replaces=hlog.ours)
    assert (path / "precious.txt").read_text() == "mine"
    assert os.listdir(tmp_path) == ["logs"]


def test_a_link_is_not_replaced_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError), filled(tmp_path / "logs", replaces=hlog.ours):
        pass
    assert Counter(os.listdir(tmp_path)) == Counter(["elsewhere", "logs"])


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StalltopError, match="cannot write"), filled(tmp_path / "file" / "logs"):
        pass


def test_windows_of_several_hosts_get_separate_files(tmp_path: Path) -> None:
    def one(host: str) -> Window:
        return replace(window([]), host=host, rows=rows([Calls(key("a", host=host), [7])]))

    found = [one("gpu1"), one("gpu2")]
    hlog.write(found, span_of(found), tmp_path)
    assert [(line["host"], line["intervals"]) for line in index(tmp_path)] == [("gpu1", "1"), ("gpu2", "1")]
