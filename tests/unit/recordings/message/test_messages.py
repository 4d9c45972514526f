"""Tests windows as messages: what is refused, what other versions may have, and what stays within bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.formats.documents.window import document
from stalltop.model.errors import StalltopError
from stalltop.model.merge.packing import Peak
from stalltop.recordings.message import encoding
from stalltop.recordings.message.decoding import MessageDecoder
from stalltop.recordings.message.encoding import LENGTH, encode
from tests.windows.cheap import second
from tests.windows.full import full_window

GOOD = encode(full_window())
FIRST_VERSION = Path(__file__).with_name("version-1.window")


def rewritten(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Returns the message of the full window with its JSON changed."""
    (length,) = LENGTH.unpack_from(GOOD)
    end = LENGTH.size + length
    told = json.loads(GOOD[LENGTH.size : end])
    change(told)
    text = json.dumps(told).encode()
    return LENGTH.pack(len(text)) + text + GOOD[end:]


def cell(table: str, column: str, value: object) -> Callable[[dict[str, Any]], None]:
    """Returns a change of the first row of ``table``."""

    def change(told: dict[str, Any]) -> None:
        found = told["tables"][table]
        found["rows"][0][found["columns"].index(column)] = value

    return change


BAD: dict[str, bytes] = {
    "empty": b"",
    "text": b"hello\n" * 100,
    "truncated": GOOD[: len(GOOD) // 2],
    "without its last byte": GOOD[:-1],
    "with one byte more": GOOD + b"\0",
    "a length that is too large": b"\xff\xff\xff\xff" + GOOD[4:],
    "no JSON": LENGTH.pack(1) + b"{",
    "no text": LENGTH.pack(3) + b"\xff\xfe\xff",
    "a list": LENGTH.pack(2) + b"[]",
    "nested deeply": LENGTH.pack(200_000) + b"[" * 200_000,
    "no window": rewritten(lambda told: told["tables"].pop("windows")),
    "two windows": rewritten(lambda told: told["tables"]["windows"]["rows"].extend([[1] * 13] * 2)),
    "text for a number": rewritten(cell("windows", "seconds", "2")),
    "a number of 65 bits": rewritten(cell("windows", "swap_in_bytes", 1 << 64)),
    "a row that is missing": rewritten(cell("windows", "coverage_id", 77)),
    "a row that is negative": rewritten(cell("windows", "coverage_id", -1)),
    "a list for a text": rewritten(cell("tenants", "id", [])),
    "a table that is a list": rewritten(lambda told: told["tables"].update(series=[])),
    "a short row": rewritten(lambda told: told["tables"]["series"]["rows"][0].pop()),
    "an unknown type": rewritten(lambda told: told["arrays"][0].__setitem__(1, "f8")),
    "a missing array": rewritten(lambda told: told["arrays"].pop(2)),
    "a negative size": rewritten(lambda told: told["arrays"][0].__setitem__(2, -1)),
    "a huge size": rewritten(lambda told: told["arrays"][0].__setitem__(2, 1 << 60)),
}


@pytest.mark.parametrize("name", BAD)
def test_anything_but_a_window_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        MessageDecoder().decode(BAD[name])


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=8))
def test_damaged_messages_raise_nothing_but_value_errors(at: int, damage: bytes) -> None:
    damaged = GOOD[:at] + damage + GOOD[at + len(damage) :]
    try:
        window = MessageDecoder().decode(damaged).window
    except ValueError:
        return
    document(window)  # what was accepted can be shown


@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_but_value_errors(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        MessageDecoder().decode(content)


def test_columns_and_tables_of_a_later_version_are_left_out() -> None:
    def later(told: dict[str, Any]) -> None:
        for table in told["tables"].values():
            table["columns"].insert(1, "new")
            for row in table["rows"]:
                row.insert(1, "later")
        told["tables"]["later"] = {"columns": ["x"], "rows": [[1]]}
        told["later"] = True

    found = MessageDecoder().decode(rewritten(later)).window
    assert document(found) == document(MessageDecoder().decode(GOOD).window)


def test_a_column_that_an_earlier_version_lacks_gets_its_default() -> None:
    def earlier(told: dict[str, Any]) -> None:
        for name, column in (("tenants", "labels"), ("coverage", "schedulable"), ("system", "load_1")):
            table = told["tables"].get(name, {"columns": [], "rows": []})
            if column in table["columns"]:
                at = table["columns"].index(column)
                table["columns"].pop(at)
                for row in table["rows"]:
                    row.pop(at)

    found = MessageDecoder().decode(rewritten(earlier)).window
    assert found.coverage.schedulable == ()
    assert {tenant.labels for tenant in found.tenants.values()} == {()}
    assert replace(found.coverage, schedulable=full_window().coverage.schedulable) == full_window().coverage


def test_one_decoder_reads_messages_whose_rows_have_other_numbers() -> None:
    decoder = MessageDecoder()
    one, other = second(1, 20, full=True), second(2, 30, full=True)
    turned = replace(
        other,
        rows=other.rows.take(np.arange(30)[::-1]),
        tenants=dict(reversed(list(other.tenants.items()))),
    )
    for window in (one, other, turned, one):
        assert document(decoder.decode(encode(window)).window) == document(window)


def test_the_peak_of_a_merged_window_is_kept() -> None:
    peak = Peak(123.5, 1, 2)
    assert MessageDecoder().decode(encode(full_window(), peak)).peak == peak


def test_a_window_that_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "MOST_BYTES", 1_000)
    with pytest.raises(StalltopError, match="too large to send"):
        encode(full_window())
    monkeypatch.undo()
    monkeypatch.setattr(encoding, "MOST_ROWS", 2)
    with pytest.raises(StalltopError, match="too large to send"):
        encode(full_window())


def test_a_message_of_the_first_version_of_stalltop_is_read() -> None:
    """``version-1.window`` is the full window of the tests, as the first version that had this message
    encoded it."""
    window, _ = MessageDecoder().decode(FIRST_VERSION.read_bytes())
    assert (window.host, window.seconds, sorted(window.tenants)) == ("gpu7", 2.0, ["cri:bb", "docker:aa"])
    assert (len(window.rows), int(window.rows.calls.sum())) == (5, 15)
    assert int(window.rows.total_ns.sum()) == 286_926_500
    assert (len(window.chains), len(window.devices.devices)) == (2, 1)
    assert window.loss["no_slot"] == full_window().loss["no_slot"]
