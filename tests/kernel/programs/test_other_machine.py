"""Tests the instructions of the BPF programs compiled for aarch64, without running them."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from stalltop.probes.programs.preparing import prepare
from stalltop.probes.programs.recipes import tracing
from stalltop.probes.programs.task_offsets import task_offsets
from stalltop.probes.tracer.kernel_side import KernelSide

pytestmark = pytest.mark.beside

ATOMIC = (0xC3, 0xDB)
"""Codes of atomic BPF instructions of 32 and of 64 bits: BPF_STX | BPF_ATOMIC (linux/bpf.h)."""
FETCH = 0x01
"""BPF_FETCH, a bit of an atomic instruction's immediate: the instruction returns the old value and is a full
memory barrier (Documentation/atomic_t.txt)."""
COMPARES = 0xF1
"""BPF_CMPXCHG, an immediate that has this bit, too. It is not used for the order of writes."""
PUBLISHING = {"call_begins", "call_returns", "choosing_returns", "thread_ends", "program_begins"}
"""BPF programs whose writes to memory the monitor must see in the order in which they were made."""


def publishing(monkeypatch: pytest.MonkeyPatch, machine: str, release: str) -> set[str]:
    """Compile the BPF programs for ``machine`` and the Linux kernel ``release``.

    Returns the names of the programs that contain a full barrier.
    """
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "release", lambda: release)
    programs = prepare(tracing(list(task_offsets().values()), ()), anew=True).compiled.programs
    assert {program.name for program in programs} > PUBLISHING
    return {program.name for program in programs if barriers(program.code)}


def barriers(code: bytes) -> int:
    """Return how many atomic instructions of ``code`` return the old value and so are full barriers."""
    steps = [code[at : at + 8] for at in range(0, len(code), 8)]
    return sum(step[0] in ATOMIC and bool(step[4] & FETCH) and step[4] != COMPARES for step in steps)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give each test an empty cache of compiled programs."""
    monkeypatch.setenv("STALLTOP_CACHE_DIR", str(tmp_path / "cache"))


def test_programs_for_aarch64_use_full_barriers_where_order_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert publishing(monkeypatch, "aarch64", "6.1.0") >= PUBLISHING
    assert publishing(monkeypatch, "aarch64", "5.15.0") == set()
    assert publishing(monkeypatch, "x86_64", "6.1.0") == set()


def test_the_environment_variable_arch_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCH", "arm64")
    kernel = KernelSide(slots=64, threads=64)  # raises an error if it does not count its own calls
    assert kernel.probe_time.call_ns > 0
    kernel.close()
