"""Tests the loaded BPF programs: the verifier processes few instructions, and at first each pool
contains every record once."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from stalltop.probes.layout import BLOCK, Pool
from stalltop.probes.programs import bpf_calls
from stalltop.probes.programs import loading as programs
from stalltop.probes.programs.compiled import KPROBE
from stalltop.probes.programs.pools import WITHOUT_QUEUE, fill
from stalltop.probes.programs.preparing import prepare
from stalltop.probes.programs.recipes import FILLING, SESSION, tracing
from stalltop.probes.programs.task_offsets import knows_sessions, task_offsets

pytestmark = pytest.mark.beside

LIMIT = 300_000
"""Instructions that the verifier may process: under a third of its limit (BPF_COMPLEXITY_LIMIT_INSNS), since
other kernels and compilers need several times as many."""


@pytest.mark.parametrize("splits", [True, False], ids=["with splits", "without splits"])
@pytest.mark.parametrize("multi", [True, False], ids=["multi", "perf"])
def test_the_verifier_processes_few_instructions(multi: bool, splits: bool) -> None:
    loaded = programs.load(64, 64, multi=multi, task=task_offsets() if splits else None)
    try:
        names = ["entry", "returns", "ends", "execs", "regroups", "naming", "named", "choosing", "chosen"]
        names += ["switches", "wakes", "moves"] if splits else []
        found = {name: getattr(loaded, name) for name in names}
        if knows_sessions():
            found["session"] = loaded.session.load()
        found["clock"] = loaded.clock.load()
        for name, fd in found.items():
            text = Path(f"/proc/self/fdinfo/{fd}").read_text()
            looked_at = re.search(r"verified_insns:\s*(\d+)", text)
            if looked_at is None:
                pytest.skip("this kernel does not report verified instructions (before Linux 5.16)")
            assert int(looked_at[1]) < LIMIT, name
    finally:
        loaded.close()


TAIL_CALL = struct.pack("=BBhi", 0x85, 0, 0, 12)
"""The instruction that calls bpf_tail_call (linux/bpf.h)."""


@pytest.mark.parametrize("task", [task_offsets().values(), {}], ids=["with splits", "without splits"])
def test_programs_at_uprobes_contain_a_tail_call(task: Mapping[str, int]) -> None:
    """Linux kernels from 6.13 on give a program without a tail call a private stack per CPU, which the
    threads on that CPU would share."""
    compiled = prepare(tracing(list(task), [])).compiled
    at_uprobes = [program for program in compiled.programs if program.type == KPROBE]
    assert len(at_uprobes) == 8
    for program in at_uprobes:
        code = [program.code[at : at + 8] for at in range(0, len(program.code), 8)]
        assert TAIL_CALL in code, program.name


def test_every_record_is_free_once() -> None:
    sizes = programs.pool_sizes(300, 700, splits=True)
    task = task_offsets().values()
    sizes[Pool.OCTAVES] = BLOCK
    numbers = {"SLOTS": 300, "THREADS": 700, "MOST_FOLLOWERS": 9, "CPUS": 4, "RING_BYTES": 1 << 16}
    numbers |= {"BLOCKS": 1, "MOST_OCTAVES": BLOCK}
    fds = programs.load_prepared(tracing(list(task), []), numbers | task, later=(SESSION,)).fds
    try:
        for pool, size in sizes.items():
            if pool in WITHOUT_QUEUE:
                continue
            fill(fds[FILLING], pool, 0, size)
            free = taken(fds[f"free_{pool.name.lower()}"])
            assert sorted(free) == list(range(size)), pool
            assert free[0] == 0, "few records are used if few are needed"
    finally:
        for fd in fds.values():
            os.close(fd)


def taken(queue_fd: int) -> list[int]:
    """Take all elements from a queue or stack and return them."""
    value, found = ctypes.c_uint32(), []
    attributes = struct.pack("=IxxxxQQQ", queue_fd, 0, ctypes.addressof(value), 0)
    with contextlib.suppress(FileNotFoundError):
        while True:
            bpf_calls._bpf(21, attributes)  # BPF_MAP_LOOKUP_AND_DELETE_ELEM
            found.append(value.value)
    return found
