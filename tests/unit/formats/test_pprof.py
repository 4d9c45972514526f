"""Tests the profile for pprof, by the fields of its messages."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import replace
from typing import Any

from stalltop.formats.traces.call_stacks import CallStacks
from stalltop.formats.traces.pprof import pprof
from stalltop.model.calls import CapturedCalls
from stalltop.probes.kubelet.protobuf import fields
from tests.windows.full import full_window


def decoded(message: bytes) -> dict[int, list[Any]]:
    """Return the values of a message by the numbers of their fields: integers, and bytes of others."""
    found: dict[int, list[Any]] = defaultdict(list)
    for number, value in fields(message):
        found[number].append(value)
    return found


def numbers(packed: bytes) -> list[int]:
    """Return the integers of a packed field."""
    found, number, shift = [], 0, 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(number)
            number = shift = 0
    return found


def test_a_profile_has_samples_with_lines_and_labels() -> None:
    window = full_window()
    profile = decoded(gzip.decompress(pprof([window, window])))
    texts = [text.decode() for text in profile[6]]
    assert texts[0] == ""
    kinds = [decoded(kind) for kind in profile[1]]
    assert [texts[kind[1][0]] for kind in kinds] == ["calls", "time"]
    lines = {}
    functions = {decoded(function)[1][0]: decoded(function) for function in profile[5]}
    for location in map(decoded, profile[4]):
        line = decoded(location[4][0])
        function = functions[line[1][0]]
        file = texts[function[4][0]] if function[4] else ""
        lines[location[1][0]] = (texts[function[2][0]], file, line.get(2, [0])[0])
    first = decoded(profile[2][0])
    assert [lines[place] for place in numbers(first[1][0])] == [
        ("at::launch(int)", "/lib/libtorch_cuda.so", 0),
        ("step", "/app/train.py", 88),
        ("loop", "/app/train.py", 41),
    ]
    assert numbers(first[2][0]) == [4, 1_808_000]
    labels = {texts[label[1][0]]: texts[label[2][0]] for label in map(decoded, first[3])}
    assert labels["operation"] == "cudaLaunchKernel"
    assert (labels["process"], labels["reason"]) == ("python3 100", "slow")
    assert profile[9] == [int(window.start * 1e9)]
    assert lines[numbers(decoded(profile[2][1])[1][0])[0]][0] == "[code compiled at run time]"


def test_no_windows_make_an_empty_profile() -> None:
    profile = decoded(gzip.decompress(pprof([])))
    assert not profile[2]
    assert len(profile[1]) == 2


def test_a_captured_call_has_its_stack_only_if_that_is_certain() -> None:
    window = full_window()
    template, alone, *_ = (stack for stack in window.stacks if stack.reason == "slow")
    (call, *_) = window.calls.kept
    call = call._replace(tenant=template.tenant, pid=template.pid, process=template.process)
    call = call._replace(layer=template.layer, operation=template.operation, nested=template.nested)
    call = call._replace(why="slow", device=template.device)
    own, other = call._replace(duration_ns=alone.ns), call._replace(duration_ns=alone.ns + 1)

    def stack_of(one: Any, *kept: Any) -> list[str] | None:
        return CallStacks(replace(window, calls=CapturedCalls(kept))).of(one)

    assert stack_of(own, own) == ["[code compiled at run time]", "loop (train.py:41)"]
    assert stack_of(other, own, other) is None, "a call without a stack is among them"
    assert (stack_of(other, own, other, other) or [""])[0] == "at::launch(int)"
