"""The programs for aarch64, compiled on this machine: what the compiler makes of them, not run."""

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
"""BPF_STX | BPF_ATOMIC of 32 and 64 bits (linux/bpf.h)."""
FETCH = 0x01
"""In the immediate: the operation gives the old value, and is a full barrier (Documentation/atomic_t.txt)."""
PUBLISHING = {"call_begins", "call_returns", "choosing_returns", "thread_ends", "program_begins"}
"""Programs that write what the monitor reads in an order of its own."""


def publishing(monkeypatch: pytest.MonkeyPatch, machine: str, release: str) -> set[str]:
    """Programs with a barrier, compiled for this machine and this kernel."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "release", lambda: release)
    programs = prepare(tracing(list(task_offsets().values()), ()), anew=True).compiled.programs
    assert {program.name for program in programs} > PUBLISHING
    return {program.name for program in programs if barriers(program.code)}


def barriers(code: bytes) -> int:
    """Atomic operations with a result."""
    steps = [code[at : at + 8] for at in range(0, len(code), 8)]
    return sum(step[0] in ATOMIC and bool(step[4] & FETCH) for step in steps)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of another test is found, and nothing is left."""
    monkeypatch.setenv("STALLTOP_CACHE_DIR", str(tmp_path / "cache"))


def test_what_the_monitor_reads_is_published_by_real_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert publishing(monkeypatch, "aarch64", "6.1.0") >= PUBLISHING
    assert publishing(monkeypatch, "aarch64", "5.15.0") == set()
    assert publishing(monkeypatch, "x86_64", "6.1.0") == set()


def test_a_setting_for_building_other_kernels_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCH", "arm64")
    kernel = KernelSide(slots=64, threads=64)  # refuses to start where its own calls are not counted
    assert kernel.probe_ns > 0
    kernel.close()
