"""Tests the wire format of summaries: what was encoded is decoded, other versions and garbage are told
apart."""

from __future__ import annotations

import json
import zlib
from dataclasses import fields
from random import Random

import pytest

from stalltop.fleet.messages.record_format import OtherVersionError
from stalltop.fleet.messages.summary_message import decoded, encoded
from stalltop.model.fleet.host_summary import (
    DeviceSummary,
    HostSummary,
    ProblemSummary,
    RankSummary,
    TenantSummary,
    WindowGap,
)
from tests.unit.model.fleet.summaries import NOW, problem, summary

KINDS = {
    "tenants": TenantSummary,
    "problems": ProblemSummary,
    "devices": DeviceSummary,
    "ranks": RankSummary,
    "gaps": WindowGap,
}


def some_summary(random: Random) -> HostSummary:
    """Returns a summary whose values are chosen at random."""

    def value(kind: str) -> object:
        if kind == "Severity":
            return random.choice(["critical", "low"])
        if kind == "str":
            return "".join(random.choices('abc-µ/"\\ ', k=random.randrange(9)))
        return random.randrange(2**60) if kind == "int" else random.random() * 10 ** random.randrange(15)

    records = {
        name: tuple(
            kind(*(value(hint.__forward_arg__) for hint in kind.__annotations__.values()))
            for _ in range(random.randrange(4))
        )
        for name, kind in KINDS.items()
    }
    return HostSummary(random.random() * 2e9, 1.0, tracing=str(value("str")), **records)  # type: ignore[arg-type]


def sent(value: object, version: int = 1) -> bytes:
    return bytes((version,)) + zlib.compress(json.dumps(value).encode())


def plain(**more: object) -> dict[str, object]:
    whole = summary(problem())
    return {field.name: getattr(whole, field.name) for field in fields(HostSummary)} | more


@pytest.mark.parametrize("seed", range(30))
def test_what_was_encoded_is_decoded(seed: int) -> None:
    one = some_summary(Random(seed))
    assert decoded(encoded(one)) == one


def test_text_with_control_characters_is_cleaned() -> None:
    told = decoded(sent(plain(program="a\x1b[31mb", tenants=[["\u202ens", "n\n", "pod", 1, 2, 3, 4.0]])))
    assert told.program == "a[31mb"
    assert told.tenants == (TenantSummary("ns", "n", "pod", 1, 2, 3, 4.0),)


def test_a_later_release_may_add_fields() -> None:
    one = list(problem())
    told = decoded(sent(plain(added={"x": 1}, problems=[[*one, "more"]])))
    assert told == summary(problem())


def test_an_earlier_release_may_lack_fields() -> None:
    assert decoded(sent({"end": NOW, "seconds": 1})) == HostSummary(NOW, 1.0)


def test_another_version_is_told_as_that() -> None:
    with pytest.raises(OtherVersionError, match="sends version 7 of the summary; this stalltop reads"):
        decoded(b"\x07whatever")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x01",
        b"\x01garbage",
        b"\x01" + zlib.compress(b"{"),
        b"\x01" + zlib.compress(b"\xff"),
        b"\x01" + zlib.compress(b"[" * 60_000),
        b"\x01" + zlib.compress(b"x" * (1 << 20)),
        encoded(summary())[:-5],
        sent([1]),
        sent({"end": NOW}),
        sent(plain(seconds=0)),
        sent(plain(calls="7")),
        sent(plain(calls=True)),
        sent(plain(calls=10**30)),
        sent(plain(tenants=[["a"]])),
        sent(plain(tenants=[["ns", "n", "pod", 10**40, 2, 3, 4.0]])),
        sent(plain(tenants=[None])),
        sent(plain(tenants=[["ns", "n", "pod", 1, 2, 3, 4.0]] * 300)),
        sent(plain(problems=[list(problem(severity="awful"))])),
        b"\x01" + zlib.compress(b'{"end": NaN, "seconds": 1}'),
        b"\x01" + zlib.compress(b'{"end": 1e999, "seconds": 1}'),
        b"\x01" + zlib.compress(b'{"end": 1, "seconds": 1, "tenants": [["a","b","c",1,1,1,1e999]]}'),
    ],
)
def test_garbage_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decoded(content)
