"""Whether a program holds the runtime is told by a string in it, wherever that lies."""

from __future__ import annotations

import io

import pytest

from stalltop.probes.libraries import static_runtime


class Short(io.BytesIO):
    """A file that gives less than it is asked for, as one on a server may."""

    def read(self, size: int | None = -1, /) -> bytes:
        """At most five bytes."""
        return super().read(min(size or 5, 5))


@pytest.mark.parametrize("before", [0, 1, 50, 62, 63, 64, 65, 120, 128])
@pytest.mark.parametrize("kind", [io.BytesIO, Short])
def test_the_mark_is_found_across_pieces(
    monkeypatch: pytest.MonkeyPatch, before: int, kind: type[io.BytesIO]
) -> None:
    monkeypatch.setattr(static_runtime, "_PIECE_BYTES", 64)
    assert static_runtime._holds_mark(kind(b"/" * before + b"/cudart.shm.%x" + b"\0" * 70))
    assert not static_runtime._holds_mark(kind(b"/" * before + b"/cudart_shm.%x" + b"\0" * 70))
    assert not static_runtime._holds_mark(kind(b"/" * before + b"/cudart.shm"))
