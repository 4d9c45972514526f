"""Finds the offsets of those members of task_struct that the BPF programs read, in the types of the running
Linux kernel (BTF)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

BTF: Final = Path("/sys/kernel/btf/vmlinux")

_MAGIC: Final = 0xEB9F
_HEADER: Final = struct.Struct("=HBBIIIII")
"""struct btf_header: magic, version, flags, hdr_len, type_off, type_len, str_off, str_len."""
_KIND_STRUCT: Final = 4
_KIND_UNION: Final = 5
_EXTRA_WORDS: Final = {
    1: (0, 1),
    3: (0, 3),
    4: (3, 0),
    5: (3, 0),
    6: (2, 0),
    13: (2, 0),
    14: (0, 1),
    15: (3, 0),
    17: (0, 1),
    19: (3, 0),
}
"""For each kind of type (linux/btf.h): the number of words after the first three, as (per member, per
type)."""
_TYPE_WORDS: Final = 3
"""Number of words of struct btf_type (name_off, info, size), and also of each member that follows it
(name_off, type, offset)."""
_WITH_BIT_FIELDS: Final = 1 << 31
"""Flag in ``info``: the upper 8 bits of a member's offset are the size of its bit field."""


class NoBtfError(Exception):
    """The Linux kernel's types are missing, unreadable or incomplete; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class TaskOffsets:
    """Offsets in the Linux kernel's ``struct task_struct`` and in structs that it points to, bytes."""

    pid: int
    """TID in the initial PID namespace, 32 bits."""
    state: int
    """Task state (``__state``), 32 bits."""
    tgid: int
    """PID in the initial PID namespace, 32 bits."""
    flags: int
    """``PF_`` flags of linux/sched.h, 32 bits."""
    cgroups: int
    """Pointer to the task's ``struct css_set``. The next three fields lead from there to the id of the task's
    cgroup."""
    default_cgroup: int
    """In ``struct css_set``: pointer to its ``struct cgroup`` in the hierarchy of cgroup v2."""
    node: int
    """In ``struct cgroup``: pointer to its ``struct kernfs_node``."""
    node_id: int
    """In ``struct kernfs_node``: the id that ``bpf_get_current_cgroup_id`` returns, 64 bits."""
    leader: int
    """Pointer to the first thread of the task's process (``group_leader``)."""
    start: int
    """When the task started (``start_time``), CLOCK_MONOTONIC, 64 bits."""
    jobctl: int
    """Flags that say why the task is held (linux/sched/jobctl.h), 64 bits."""

    def values(self) -> dict[str, int]:
        """Returns the offsets, by their names in the BPF programs."""
        return {
            "TASK_PID": self.pid,
            "TASK_STATE": self.state,
            "TASK_TGID": self.tgid,
            "TASK_FLAGS": self.flags,
            "TASK_CGROUPS": self.cgroups,
            "CGROUPS_DEFAULT": self.default_cgroup,
            "CGROUP_NODE": self.node,
            "NODE_ID": self.node_id,
            "TASK_LEADER": self.leader,
            "TASK_START": self.start,
            "TASK_JOBCTL": self.jobctl,
        }


def task_offsets(path: Path = BTF) -> TaskOffsets:
    """Returns the offsets of the running Linux kernel. Takes some milliseconds. Raises NoBtfError."""
    types = KernelTypes.of_kernel(path)
    try:
        found = [
            *types.offsets(
                "task_struct",
                ("pid", "__state", "tgid", "flags", "cgroups", "group_leader", "start_time", "jobctl"),
            ).items(),
            *types.offsets("css_set", ("dfl_cgrp",)).items(),
            *types.offsets("cgroup", ("kn",)).items(),
            *types.offsets("kernfs_node", ("id",)).items(),
        ]
    except (struct.error, IndexError, ValueError) as error:
        raise NoBtfError(f"{path} cannot be read: {error}") from error
    at = dict(found)
    return TaskOffsets(
        pid=at["pid"],
        state=at["__state"],
        tgid=at["tgid"],
        flags=at["flags"],
        cgroups=at["cgroups"],
        default_cgroup=at["dfl_cgrp"],
        node=at["kn"],
        node_id=at["id"],
        leader=at["group_leader"],
        start=at["start_time"],
        jobctl=at["jobctl"],
    )


def knows_uprobe_multi(path: Path = BTF) -> bool:
    """Returns whether the Linux kernel may have ``uprobe_multi`` links. It is False only if the kernel's
    types show that it has none."""
    try:
        return KernelTypes.of_kernel(path).knows("BPF_TRACE_UPROBE_MULTI")
    except NoBtfError:
        return True


def knows_sessions(path: Path = BTF) -> bool:
    """Returns whether the Linux kernel has sessions of probes."""
    try:
        return KernelTypes.of_kernel(path).knows("BPF_TRACE_UPROBE_SESSION")
    except NoBtfError:
        return False


class KernelTypes:
    """The Linux kernel's type information. Raises ValueError or struct.error if ``data`` is not BTF."""

    def __init__(self, data: bytes) -> None:
        magic, _, _, header, type_at, type_size, string_at, string_size = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("it is not BTF in this machine's byte order")
        self._strings = data[header + string_at : header + string_at + string_size]
        self._words = np.frombuffer(data, np.uint32, type_size // 4, header + type_at)
        self._starts: list[int] | None = None

    @classmethod
    def of_kernel(cls, path: Path = BTF) -> KernelTypes:
        """Returns the types of the running Linux kernel. Raises NoBtfError."""
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise NoBtfError(f"{path}: {error.strerror}") from error
        except (struct.error, ValueError) as error:
            raise NoBtfError(f"{path} cannot be read: {error}") from error

    def knows(self, name: str) -> bool:
        """Returns whether anything has this name: a type, a member, or a value of an enum."""
        return self._strings.find(b"\0" + name.encode() + b"\0") >= 0

    def offsets(self, name: str, members: tuple[str, ...]) -> dict[str, int]:
        """Returns the offsets in bytes of ``members`` in the struct ``name``.

        There are some 100,000 types, without an index. To avoid reading all of them, this method searches all
        words for the name's offset in the table of strings. A match counts if the next words can be that
        struct with these members. A member may also be in a nameless struct or union inside the struct. So if
        some members are missing, all types are read, once. Raises NoBtfError.
        """
        words = self._words
        wanted = {self._place(member): member for member in members}
        for within in (False, True):
            for at in np.flatnonzero(words[:-2] == self._place(name)).tolist():
                if not self._is_struct(at):
                    continue
                found = self._members(at, wanted, within=within)
                if len(found) == len(members) and all(place < words[at + 2] for place in found.values()):
                    return found
        raise NoBtfError(f"the kernel's struct {name} has no {' or no '.join(members)}")

    def _is_struct(self, at: int) -> bool:
        info = int(self._words[at + 1])
        end = at + _TYPE_WORDS + _TYPE_WORDS * (info & 0xFFFF)
        return info >> 24 & 0x1F in (_KIND_STRUCT, _KIND_UNION) and end <= len(self._words)

    def _members(self, at: int, wanted: dict[int, str], *, within: bool) -> dict[str, int]:
        info = int(self._words[at + 1])
        first, count = at + _TYPE_WORDS, info & 0xFFFF
        fields = self._words[first : first + _TYPE_WORDS * count].reshape(-1, _TYPE_WORDS)
        found = {}
        for name, kind, bits in fields[
            np.isin(fields[:, 0], [*wanted, 0] if within else list(wanted))
        ].tolist():
            offset = (bits & 0xFFFFFF if info & _WITH_BIT_FIELDS else bits) // 8
            if name:
                found[wanted[name]] = offset
            elif self._is_struct(inner := self._start(kind)):
                inside = self._members(inner, wanted, within=True)
                found |= {member: offset + place for member, place in inside.items()}
        return found

    def _start(self, number: int) -> int:
        """Returns the number of the word at which type ``number`` begins."""
        if self._starts is None:
            starts, at, words = [0], 0, self._words.tolist()  # Number 0 is void, which is not stored.
            while at < len(words) - 1:
                starts.append(at)
                info = words[at + 1]
                each, once = _EXTRA_WORDS.get(info >> 24 & 0x1F, (0, 0))
                at += _TYPE_WORDS + once + each * (info & 0xFFFF)
            self._starts = starts
        return self._starts[number] if number < len(self._starts) else 0

    def _place(self, name: str) -> int:
        at = self._strings.find(b"\0" + name.encode() + b"\0")
        if at < 0:
            raise NoBtfError(f"the kernel's types know no {name}")
        return at + 1
