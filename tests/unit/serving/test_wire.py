"""Tests which encoded windows a served screen refuses."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from stalltop.model.errors import StalltopError
from stalltop.serving import wire
from stalltop.serving.wire import decode, encode
from tests.windows.full import full_window

GOOD = encode(full_window())


def rewritten(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Returns the encoded window with its content changed."""
    found = json.loads(gzip.decompress(GOOD))
    change(found)
    return gzip.compress(json.dumps(found).encode())


BAD: dict[str, bytes] = {
    "empty": b"",
    "text": b"hello\n" * 100,
    "truncated": GOOD[: len(GOOD) // 2],
    "without its checksum": GOOD[:-4],
    "damaged": GOOD[:200] + bytes([GOOD[200] ^ 255]) + GOOD[201:],
    "no JSON": gzip.compress(b"{"),
    "no text": gzip.compress(b"\xff\xfe\xff"),
    "a list": gzip.compress(b"[]"),
    "other JSON": gzip.compress(b'{"schema": "something else"}'),
    "a field is missing": rewritten(lambda plain: plain.pop("simulated")),
    "text for a number": rewritten(lambda plain: plain.update(seconds="2")),
    "a list for an object": rewritten(lambda plain: plain.update(loss=[])),
    "a negative count": rewritten(lambda plain: plain["rows"].update(errors=[-1, 0, 0, 0, 0])),
    "a short key": rewritten(lambda plain: plain["rows"]["keys"][0].__delitem__(slice(5, None))),
    "parts that do not fit": rewritten(lambda plain: plain["rows"]["split_ns"][0].pop()),
}


@pytest.mark.parametrize("name", BAD)
def test_anything_but_a_window_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(BAD[name])


def test_a_window_that_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 1_000)
    with pytest.raises(StalltopError, match="too large to send"):
        encode(full_window())
