"""Tests that a statically linked CUDA runtime is detected by a string in the file."""

from __future__ import annotations

import os

import pytest

from stalltop.probes.binaries import static_runtime


def holds_mark(data: bytes) -> bool:
    fd = os.memfd_create("file")
    try:
        os.write(fd, data)
        return static_runtime._holds_mark(fd, [(0, len(data))])
    finally:
        os.close(fd)


@pytest.mark.parametrize("before", [0, 1, 50, 62, 63, 64, 65, 120, 128])
@pytest.mark.parametrize("most", [1 << 20, 5])
def test_the_string_is_found_across_chunks(monkeypatch: pytest.MonkeyPatch, before: int, most: int) -> None:
    # Reads may return fewer bytes than requested, for instance from a network file system.
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real(fd, min(size, most), at))
    monkeypatch.setattr(static_runtime, "_PIECE_BYTES", 64)
    assert holds_mark(b"/" * before + b"/cudart.shm.%x" + b"\0" * 70)
    assert not holds_mark(b"/" * before + b"/cudart_shm.%x" + b"\0" * 70)
    assert not holds_mark(b"/" * before + b"/cudart.shm")
