"""Tests a window as JSON: its fields, their types, and the sample in docs/json.md."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given

from stalltop.formats.documents.window import SCHEMA, document
from stalltop.model.window import LOSSES, SPLITS, Window
from tests.windows.by_hand import Calls, key, window
from tests.windows.drawn import FEW, windows
from tests.windows.full import full_window

DOCS = Path(__file__).resolve().parents[4] / "docs" / "json.md"
SAMPLE = re.compile(r"(?<=```json\n).*?(?=```\n)", re.DOTALL)


def sample() -> str:
    return json.dumps(document(full_window()), indent=1) + "\n"


def test_the_documented_sample_equals_the_output() -> None:
    """Set STALLTOP_UPDATE_DOCS=1 to rewrite the sample."""
    text = DOCS.read_text()
    if os.environ.get("STALLTOP_UPDATE_DOCS"):
        DOCS.write_text(SAMPLE.sub(lambda _: sample(), text))
        text = DOCS.read_text()
    assert SAMPLE.findall(text) == [sample()]


def names(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from names(item)
    elif isinstance(value, list):
        for item in value:
            yield from names(item)


def test_every_field_is_documented() -> None:
    described = set(re.findall(r"`([^`]+)`", SAMPLE.sub("", DOCS.read_text())))
    used = set(names(document(replace(full_window(), rows=window([Calls(key(), [1])], split=True).rows))))
    assert used - described == set()


def test_an_operation_has_these_fields() -> None:
    printed = document(window([Calls(key(), [100, 200, 300], 1, 64)]))
    assert printed["schema"] == SCHEMA == "stalltop.window/1"
    assert printed["window"] == {"start": 1_000.0, "seconds": 1.0}
    assert printed["operations"] == [
        {
            "host": "gpu7",
            "tenant": "docker:aa",
            "pid": 100,
            "process": "python3",
            "layer": "runtime",
            "operation": "cudaLaunchKernel",
            "nested": False,
            "device": None,
            "calls": 3,
            "errors": 1,
            "bytes": 64,
            "p50_ns": 200,
            "p95_ns": 300,
            "p99_ns": 300,
            "max_ns": 300,
            "total_ns": 600,
            "split_ns": None,
        }
    ]


def test_calls_of_ended_threads_are_marked() -> None:
    calls = document(full_window())["open_calls"]
    assert [(call["tid"], call["ended"]) for call in calls] == [(203, False), (104, True), (101, False)]


def test_splits_have_named_parts() -> None:
    (operation,) = document(window([Calls(key(), [100])], split=True))["operations"]
    assert operation["split_ns"] == {name: 100 if name == "running" else 0 for name in SPLITS}


def test_all_losses_are_listed_even_if_zero() -> None:
    assert document(window())["probes"]["lost"] == dict.fromkeys(LOSSES, 0)
    lost = document(window(loss={"no_slot": 3, "later": 1}))["probes"]["lost"]
    assert (lost["no_slot"], lost["later"]) == (3, 1)


def test_nan_and_infinity_become_null() -> None:
    one = full_window()
    assert one.system is not None
    (device,) = one.devices.devices
    strange = replace(
        one,
        seconds=float("nan"),
        devices=replace(one.devices, devices=(replace(device, power_watts=float("inf")),)),
        system=replace(one.system, cpu_percent=float("nan"), load=(float("inf"), 1.0, 1.0)),
        coverage=replace(one.coverage, cost_percent=float("nan")),
    )
    printed = json.loads(json.dumps(document(strange), allow_nan=False))
    assert printed["window"]["seconds"] is None
    assert printed["devices"][0]["power_watts"] is None
    assert printed["system"]["cpu_percent"] is None
    assert printed["system"]["load"] == [None, 1.0, 1.0]
    assert printed["probes"]["cost_percent"] is None
    assert document(replace(one, system=None))["system"] is None


def types(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: types(item) for name, item in value.items()}
    return type(value)


@FEW
@given(windows())
def test_every_window_has_fields_of_the_same_types(one: Window) -> None:
    printed = document(one)
    assert json.loads(json.dumps(printed, allow_nan=False)) == printed
    (expected,) = document(window([Calls(key(), [1])], split=True))["operations"]
    for operation in printed["operations"]:
        assert list(operation) == list(expected)
        split = operation.pop("split_ns")
        assert split is None or types(split) == types(expected["split_ns"])
        assert operation.pop("device") in (None, "0", "1", "0:3")
        assert types(operation) == {
            name: kind for name, kind in types(expected).items() if name not in ("split_ns", "device")
        }
        assert operation["p50_ns"] <= operation["p95_ns"] <= operation["p99_ns"]
    totals = [operation["total_ns"] for operation in printed["operations"]]
    assert totals == sorted(totals, reverse=True)
