"""Tests that messages of the confined process become values of the expected type, or ValueError."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stalltop.probes.confined.coding import Descriptor, decoded, encoded
from stalltop.probes.confined.examiner import Examiner, FilePlace, FileReading, FoundFile, Problem, Version
from stalltop.probes.confined.process import signature
from stalltop.probes.cuda_devices.process_sight import Sight
from stalltop.probes.process_maps import Kind, MappedFiles, Mapping

MAPPING = Mapping(1, 1 << 47, 4096, 8, 9, "/a\udcffb\n", True, ("runtime", "nccl"), 7, Kind.OTHER)
VERSION = Version(1, 2, 3, 1 << 60)
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


class Both(NamedTuple):
    """Two descriptors."""

    one: Descriptor
    number: int
    other: Descriptor


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (MappedFiles, MappedFiles([MAPPING], [MAPPING, MAPPING], False)),
        (Mapping | None, MAPPING),
        (Mapping | None, None),
        (FoundFile, FoundFile(VERSION, Descriptor(5))),
        (Both, Both(Descriptor(5), 3, Descriptor(4))),
        (
            FileReading,
            FileReading((FilePlace(3, "cudaMalloc", "runtime", b"\0\xff\x80a"),), Problem("a", "b")),
        ),
        (tuple[tuple[int, int], ...], ((1, 2), (3, 4))),
        (tuple[bytes, ...], (b"\xff", b"")),
        (bool, True),
        (Sight, Sight(({"A": "\udcff"}, {}), frozenset({1, 2}), True, False)),
    ],
)
def test_values_survive(kind: Any, value: Any) -> None:
    descriptors: list[int] = []
    text = json.dumps(encoded(kind, value, descriptors))
    assert decoded(kind, json.loads(text), descriptors) == value
    assert descriptors == []


@given(some.sampled_from([name for name in vars(Examiner) if not name.startswith("_")]), JSON)
def test_anything_else_is_refused(name: str, value: Any) -> None:
    kind = signature(name).answer
    try:
        found = decoded(kind, value, [])
    except ValueError:
        return
    assert found is None or isinstance(found, kind if isinstance(kind, type) else object)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True),
        (int, 1 << 70),
        (int, 1.0),
        (bool, 1),
        (str, None),
        (bytes, "\u0100"),
        (FoundFile, [[1, 2, 3, 4], None]),  # the descriptor is missing
        (Version, [1, 2, 3]),
        (Version, {"device": 1}),
        (Kind, "something"),
        (tuple[int, int], [1, 2, 3]),
        (Sight, [[{"A": 1}], [], True, False]),
        (Sight, [[["A", "B"]], [], True, False]),
    ],
)
def test_values_of_another_type_are_refused(kind: Any, value: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the text depends on the type)
        decoded(kind, value, [])
