"""Tests saving a single window to a file."""

from __future__ import annotations

import os
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stalltop.files.places import SUFFIX, free, state_directory, window_name
from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.window import Rows, Window
from stalltop.recordings.read.reading import load, open_file
from stalltop.recordings.write import saving, writing
from stalltop.recordings.write.saving import dump, save
from tests.windows.by_hand import Calls, key, rows, same_window, window
from tests.windows.full import full_window
from tests.windows.hostile import hostile_window


def again(one: Window, path: Path) -> Window:
    """Saves ``one`` and loads it."""
    return load(save(one, path, overwrite=True))


def test_a_window_cleaned_on_saving_is_not_changed_again(tmp_path: Path) -> None:
    once = again(hostile_window(), tmp_path / "w.stalltop")
    same_window(again(once, tmp_path / "again.stalltop"), once)
    assert dump(once) == (tmp_path / "w.stalltop").read_bytes()


NAMES = ("lone \ud800", "\0zero\0", "x" * 65_536, "\x1b[2J", "a\u202eb", "é日本😀", "a'b\"c;--")


def test_any_name_can_be_saved(tmp_path: Path) -> None:
    one = window([Calls(key(name, tenant=name, process=name), [at + 1]) for at, name in enumerate(NAMES)])
    found = again(one, tmp_path / "w.stalltop")
    assert found.rows.max_ns.tolist() == one.rows.max_ns.tolist()
    assert all(name.isprintable() for row in found.rows.keys for name in row[3:6:2])
    assert found.rows.keys[5].operation == NAMES[5]


def test_rows_that_differ_only_in_unprintable_characters_add_up(tmp_path: Path) -> None:
    one = window([Calls(key("a"), [5], 1, 10), Calls(key("b"), [7]), Calls(key("a\x07"), [9, 9], 2, 20)])
    found = again(one, tmp_path / "w.stalltop").rows
    assert [row.operation for row in found.keys] == ["a", "b"]
    assert (found.calls.tolist(), found.errors.tolist()) == ([3, 1], [3, 0])
    assert (found.bytes.tolist(), found.max_ns.tolist()) == ([30, 0], [9, 7])
    assert found.histograms.totals().tolist() == [3, 1]


def test_counts_of_any_size_are_read_back(tmp_path: Path) -> None:
    large = rows([Calls(key(), [10])], split=True)
    most = (1 << 64) - 1
    for name in ("calls", "bytes", "total_ns"):
        getattr(large, name)[:] = most
    assert large.split_ns is not None
    large.split_ns[:] = 1 << 63
    one = replace(window(), rows=large, loss={"no_slot": most})
    same_window(again(one, tmp_path / "w.stalltop"), one)


def test_the_split_of_a_window_without_rows_is_kept(tmp_path: Path) -> None:
    none = Rows.empty()
    found = again(
        replace(window(), rows=replace(none, split_ns=np.zeros((0, 10), np.uint64))), tmp_path / "w"
    )
    assert found.rows.split_ns is not None
    assert found.rows.split_ns.shape == (0, 10)


def test_an_old_sqlite_without_serialize_saves_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older:
        Connection = object
        connect = staticmethod(sqlite3.connect)

    with monkeypatch.context() as patch:
        patch.setattr(saving, "sqlite3", Older)
        save(full_window(), tmp_path / "w.stalltop")
    same_window(load(tmp_path / "w.stalltop"), full_window())


def test_the_file_is_one_plain_database(tmp_path: Path) -> None:
    path = save(full_window(), tmp_path / "w.stalltop")
    with open_file(path) as recorded:
        assert recorded.kind == "window"
        assert recorded.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            recorded.connection.execute("DELETE FROM windows")
    assert os.listdir(tmp_path) == ["w.stalltop"]


def test_the_file_is_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = save(window(), tmp_path / "new" / "folder" / "w.stalltop")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["w.stalltop"]


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = save(window(), tmp_path / "w.stalltop")
    with pytest.raises(UsageError, match="exists"):
        save(full_window(), path)
    same_window(load(path), window())
    save(full_window(), path, overwrite=True)
    same_window(load(path), full_window())
    assert os.listdir(tmp_path) == ["w.stalltop"]


def test_links_are_neither_followed_nor_replaced(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    link = tmp_path / "w.stalltop"
    link.symlink_to(target)
    for overwrite in (False, True):
        with pytest.raises(UsageError):
            save(window(), link, overwrite=overwrite)
    assert target.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["target", "w.stalltop"]


def test_a_file_system_without_hard_links_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    path = save(window(), tmp_path / "w.stalltop")
    same_window(load(path), window())
    with pytest.raises(UsageError, match="exists"):
        save(window(), path)
    assert os.listdir(tmp_path) == ["w.stalltop"]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StalltopError, match="No space left"):
        save(full_window(), tmp_path / "w.stalltop")
    assert os.listdir(tmp_path) == []


def test_an_unwritable_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StalltopError, match="cannot write"):
        save(window(), tmp_path / "file" / "w.stalltop")


def test_a_window_that_is_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_ROWS", 2)
    with pytest.raises(StalltopError, match="too large"):
        save(full_window(), tmp_path / "w.stalltop")
    assert os.listdir(tmp_path) == []


def test_the_state_folder_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_directory() == tmp_path / "stalltop"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert state_directory() == Path("/home/someone/.local/state/stalltop")


def test_file_names_have_host_and_time_and_are_free(tmp_path: Path) -> None:
    one = replace(window(), host="../gpu 7/é")
    first = free(tmp_path / (window_name(one) + SUFFIX))
    assert first.parent == tmp_path
    assert first.name.startswith("gpu_7-1970")
    save(one, first)
    second = free(first)
    assert second.name == first.name.replace(".stalltop", "-2.stalltop")
    assert window_name(replace(one, host="///")).startswith("host-")
