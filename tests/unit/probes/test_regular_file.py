"""Tests that whoever controls a path cannot make stalltop open anything but a regular file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from stalltop.probes.regular_file import read_regular


def test_a_device_in_place_of_a_state_file_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    real = os.open

    def watching(path: str, flags: int, *rest: int, **more: int) -> int:
        fd = real(path, flags, *rest, **more)
        if not flags & os.O_PATH:
            opened.append(os.fstat(fd).st_mode)
        return fd

    monkeypatch.setattr(os, "open", watching)
    (tmp_path / "link").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("link", "pipe", "loop", "."):
        assert read_regular(tmp_path / name, 100) is None
    assert opened == []
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "other").symlink_to("file")
    assert read_regular(tmp_path / "other", 100) == b"content"
    assert [stat.S_ISREG(mode) for mode in opened] == [True]
