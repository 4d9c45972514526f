"""Tests that a file system that does not answer stops neither the discovery nor the tracing of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.probes.confined import unanswering
from stalltop.probes.confined.link import Confined
from stalltop.probes.libraries import discovery, known_files
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child, until
from tests.kernel.discovery.tracing import TracedDiscovery
from tests.kernel.hanging_files import HangingFiles, hanging_files

NAME = "libcudart.so.12"


@pytest.fixture
def confined() -> Iterator[Confined]:
    confined = Confined(patience_seconds=1.0)
    yield confined
    confined.close()


@pytest.fixture
def tracing(kernel: KernelSide, confined: Confined, tmp_path: Path) -> Iterator[TracedDiscovery]:
    tracing = TracedDiscovery(kernel, tmp_path, asks=confined)
    yield tracing
    tracing.libraries.close()


@pytest.fixture
def hanging(built: Path, tmp_path: Path) -> Iterator[HangingFiles]:
    with hanging_files(tmp_path / "hanging", NAME, built / "other" / NAME) as files:
        yield files


def process_of(confined: Confined) -> int:
    assert confined._process is not None
    return confined._process._process.pid


def test_others_are_traced_while_a_file_system_hangs(
    tracing: TracedDiscovery,
    confined: Confined,
    hanging: HangingFiles,
    library: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Child() as victim, Child() as other:
        victim.load(hanging.path)
        other.load(library)
        hanging.hang()
        tracing.libraries.start()
        assert until(lambda: other.pid in tracing.libraries.traced_pids(), tracing.update)
        other.call(library, "cudaMalloc", 4)
        assert tracing.calls(other.pid) == {"cudaMalloc": 4}
        assert until(lambda: tracing.missing(victim.pid) != [], tracing.update)
        (missing,) = tracing.missing(victim.pid)
        assert missing.what == str(hanging.path)
        assert "has not answered for 1 s" in missing.reason
        assert "check the server" in missing.remedy
        assert victim.pid not in tracing.libraries.traced_pids()
        # The file system is left alone from now on, even by processes that begin to use it.
        present = process_of(confined)
        for _ in range(5):
            tracing.update()
        assert process_of(confined) == present
        # A process that waits for an answer cannot be killed, so no second one is left to the same fate.
        monkeypatch.setattr(unanswering, "ALONE_SECONDS", 0.0)
        monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
        for _ in range(5):
            tracing.update()
        assert process_of(confined) == present
        hanging.answer()
        assert until(lambda: victim.pid in tracing.libraries.traced_pids(), tracing.update)
        victim.call(hanging.path, "cudaMalloc", 3)
        assert tracing.calls(victim.pid) == {"cudaMalloc": 3}
        assert tracing.missing(victim.pid) == []


def test_a_probed_file_keeps_its_probes_while_its_file_system_hangs(
    tracing: TracedDiscovery,
    hanging: HangingFiles,
    library: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(known_files, "LINGER_SECONDS", 0.0)
    tracing.libraries.start()
    with Child() as victim, Child() as other:
        victim.load(hanging.path)
        assert until(lambda: victim.pid in tracing.libraries.traced_pids(), tracing.update)
        hanging.hang()
        for _ in range(3):
            tracing.update()
        assert victim.pid in tracing.libraries.traced_pids()
        other.load(library)  # a new file, which is compared with the one that hangs
        assert until(lambda: other.pid in tracing.libraries.traced_pids(), tracing.update)
        victim.call(hanging.path, "cudaMalloc", 2)
        other.call(library, "cudaMalloc", 5)
        assert tracing.calls(victim.pid) == {"cudaMalloc": 2}
        assert tracing.calls(other.pid) == {"cudaMalloc": 5}
        hanging.answer()
