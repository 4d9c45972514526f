"""Tests that a statically linked CUDA runtime is detected by a string in the program."""

from __future__ import annotations

import io

import pytest

from stalltop.probes.libraries import static_runtime


class ShortReads(io.BytesIO):
    """A file whose reads return fewer bytes than requested, as reads from a network file system may."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Returns at most five bytes."""
        return super().read(min(size or 5, 5))


@pytest.mark.parametrize("before", [0, 1, 50, 62, 63, 64, 65, 120, 128])
@pytest.mark.parametrize("kind", [io.BytesIO, ShortReads])
def test_the_string_is_found_across_chunks(
    monkeypatch: pytest.MonkeyPatch, before: int, kind: type[io.BytesIO]
) -> None:
    monkeypatch.setattr(static_runtime, "_PIECE_BYTES", 64)
    assert static_runtime._holds_mark(kind(b"/" * before + b"/cudart.shm.%x" + b"\0" * 70))
    assert not static_runtime._holds_mark(kind(b"/" * before + b"/cudart_shm.%x" + b"\0" * 70))
    assert not static_runtime._holds_mark(kind(b"/" * before + b"/cudart.shm"))
