"""Tests the queue on disk: its order, its bound, and that it outlives a run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stalltop.serving.otlp.spool import Spool


def drained(spool: Spool) -> list[bytes]:
    found = []
    while (first := spool.first()) is not None:
        found.append(first[1])
        spool.remove(first[0])
    return found


def test_requests_stay_in_order_over_runs(tmp_path: Path) -> None:
    folder = tmp_path / "queue"
    before = Spool(folder)
    assert before.first() is None
    assert [before.put(b"1"), before.put(b"2")] == [0, 0]
    after = Spool(folder)
    after.put(b"3")
    assert len(after) == 3
    assert drained(after) == [b"1", b"2", b"3"]
    assert list(folder.iterdir()) == []


def test_order_does_not_depend_on_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)
    spool.put(b"1")
    monkeypatch.setattr(time, "time_ns", lambda: 5)
    spool.put(b"2")
    assert drained(Spool(tmp_path)) == [b"1", b"2"]


def test_the_oldest_make_room(tmp_path: Path) -> None:
    spool = Spool(tmp_path, most_bytes=10)
    assert [spool.put(bytes([number]) * 4) for number in range(4)] == [0, 0, 1, 1]
    assert drained(spool) == [bytes([2]) * 4, bytes([3]) * 4]


def test_what_is_larger_than_the_room_is_kept_alone(tmp_path: Path) -> None:
    spool = Spool(tmp_path, most_bytes=10)
    spool.put(b"1")
    assert spool.put(b"2" * 10) == 1
    assert drained(spool) == [b"2" * 10]


def test_files_that_somebody_removed_are_passed_over(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.put(b"1")
    spool.put(b"2")
    sorted(tmp_path.iterdir())[0].unlink()
    assert drained(spool) == [b"2"]


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    Spool(tmp_path / "queue").put(b"1")
    (path,) = (tmp_path / "queue").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
