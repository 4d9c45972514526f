"""Tests reading offsets in structs of the Linux kernel from its BTF, and refusing malformed BTF."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from stalltop.probes.programs.task_offsets import KernelTypes, NoBtfError, knows_uprobe_multi, task_offsets

INTEGER, STRUCT, UNION, FORWARD = 1, 4, 5, 7


Member = tuple[str, int] | tuple[str, int, int]
"""Name of a member, its offset in bits and, if it matters, the number of its type; the first type has
number 1."""


def btf(types: list[tuple[str, int, int, list[Member]]], *, bit_fields: bool = False) -> bytes:
    """Returns BTF that describes ``types``, given as (name, kind, size, members)."""
    strings = b"\0"
    words: list[int] = []

    def place(name: str) -> int:
        nonlocal strings
        if not name:
            return 0
        at = strings.find(b"\0" + name.encode() + b"\0")
        if at < 0:
            at = len(strings) - 1
            strings += name.encode() + b"\0"
        return at + 1

    for name, kind, size, members in types:
        words += [place(name), kind << 24 | len(members) | bit_fields << 31, size]
        for member, bits, *number in members:
            words += [place(member), number[0] if number else 1, bits]
        if kind == INTEGER:
            words.append(0x20)
    packed = struct.pack(f"={len(words)}I", *words)
    header = struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(packed), len(packed), len(strings))
    return header + packed + strings


TASK: list[Member] = [
    *(("thread_info", 0), ("__state", 192), ("flags", 256), ("pid", 10112), ("tgid", 10144)),
    *(("jobctl", 9600), ("group_leader", 10240), ("start_time", 12800)),
    ("cgroups", 16000),
]
CGROUP: list[tuple[str, int, int, list[Member]]] = [
    ("css_set", STRUCT, 512, [("subsys", 0), ("dfl_cgrp", 960)]),
    ("cgroup", STRUCT, 2048, [("self", 0), ("kn", 1728)]),
    ("kernfs_node", STRUCT, 128, [("count", 0), ("id", 640)]),
]
"""The structs that lead from a task to the id of its cgroup."""


def test_the_struct_is_found_among_others(tmp_path: Path) -> None:
    file = tmp_path / "vmlinux"
    file.write_bytes(
        btf(
            [
                ("int", INTEGER, 4, []),
                ("task_struct", FORWARD, 0, []),
                ("other", STRUCT, 64, [("pid", 0), ("__state", 32)]),
                ("wrapped", STRUCT, 2000, [("task_struct", 0), ("pid", 32)]),
                ("task_struct", STRUCT, 9000, TASK),
                *CGROUP,
            ]
        )
    )
    found = task_offsets(file)
    assert (found.pid, found.state, found.tgid, found.flags) == (1264, 24, 1268, 32)
    assert (found.cgroups, found.default_cgroup, found.node, found.node_id) == (2000, 120, 216, 80)
    assert (found.leader, found.start, found.jobctl) == (1280, 1600, 1200)
    assert found.values()["TASK_STATE"] == 24


def test_a_kernel_without_uprobe_multi_is_detected(tmp_path: Path) -> None:
    file = tmp_path / "vmlinux"
    assert knows_uprobe_multi(file)  # without BTF, stalltop assumes a kernel with uprobe_multi
    file.write_bytes(btf([("task_struct", STRUCT, 9000, TASK)]))
    assert not knows_uprobe_multi(file)
    file.write_bytes(btf([("s", STRUCT, 4, [("BPF_TRACE_UPROBE_MULTI", 0)])]))
    assert knows_uprobe_multi(file)


def test_offsets_in_a_struct_with_bit_fields_are_found() -> None:
    data = btf([("task_struct", STRUCT, 9000, [("a", 3 << 24 | 5), *TASK])], bit_fields=True)
    assert KernelTypes(data).offsets("task_struct", ("pid", "tgid")) == {"pid": 1264, "tgid": 1268}


def test_members_of_anonymous_structs_and_unions_are_found() -> None:
    data = btf(
        [
            ("int", INTEGER, 4, []),
            ("", STRUCT, 16, [("a", 0), ("b", 64)]),
            ("", UNION, 16, [("c", 0), ("", 0, 2)]),
            ("outer", STRUCT, 64, [("first", 0), ("", 128, 3), ("last", 320)]),
        ]
    )
    assert KernelTypes(data).offsets("outer", ("b", "c", "last")) == {"b": 24, "c": 16, "last": 40}
    with pytest.raises(NoBtfError, match="no d"):
        KernelTypes(data).offsets("outer", ("first", "d"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no BTF at all, but long enough for a header of it",
        btf([("task_struct", STRUCT, 9000, [("pid", 64)])]),
        btf([("task_struct", STRUCT, 8, TASK), *CGROUP]),
        btf([("task_struct", STRUCT, 9000, TASK), *CGROUP[:2]]),
        btf([("task_struct", FORWARD, 0, []), ("pid", FORWARD, 0, []), ("__state", FORWARD, 0, [])]),
        btf([("task_struct", STRUCT, 9000, TASK)])[:60],
    ],
)
def test_malformed_btf_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "vmlinux"
    file.write_bytes(data)
    with pytest.raises(NoBtfError, match=r"."):
        task_offsets(file)


def test_a_kernel_without_btf_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoBtfError, match="No such file"):
        task_offsets(tmp_path / "vmlinux")
