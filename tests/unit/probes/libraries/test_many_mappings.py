"""Tests that processes with very many mappings are read within bounds of time and memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from stalltop.probes import process_maps
from stalltop.probes.confined import examiner
from stalltop.probes.libraries import discovery
from stalltop.probes.process_maps import MappedFiles, executables_of, libraries_of, mapped_by, program_of
from stalltop.probes.tracer.attach import Point
from tests.kernel.children import Child
from tests.unit.probes.binaries.elf_file import Symbol, elf
from tests.unit.probes.libraries.discovered import Discovered, NoProbes, discovered

MAP_OFTEN = """
import ctypes, os
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
folder = {folder!r}
for name in {names!r}:
    folder = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, {name!r})
with open(path, "wb") as file:
    file.write(bytes(8192))
fd = os.open(path, os.O_RDONLY)
for number in range({count}):
    # Neighbours of different access are not merged into one mapping.
    mmap(None, 4096, 1 if number % 2 else 5, 2, fd, 0)
"""
MANY = 60_000
"""Somewhat fewer than Linux permits by default (vm.max_map_count: 65,530)."""


def map_often(
    child: Child,
    folder: Path,
    *,
    path_bytes: int = 60,
    name: str = "data",
    count: int = MANY,
) -> None:
    names = ["a" * 200] * ((path_bytes - len(str(folder)) - len(name)) // 201)
    child.do("run", MAP_OFTEN.format(folder=str(folder), names=names, name=name, count=count))


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libcudart.so.12"
    path.write_bytes(elf([Symbol("cudaMalloc")]).ljust(8192, b"\0"))
    return path


@pytest.mark.parametrize("name", ["data", "libcudart.so.12", "other.so"])
def test_long_paths_in_many_mappings_take_little_memory_and_time(tmp_path: Path, name: str) -> None:
    with Child() as child:
        map_often(child, tmp_path, path_bytes=3900, name=name)
        tracemalloc.start()
        try:
            before = time.process_time()
            found = mapped_by(child.pid)
            executables_of(child.pid)
            program_of(child.pid)
            seconds = time.process_time() - before
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert not found.complete
    assert peak < 48 << 20
    assert seconds < 2.5


def test_a_library_among_many_mappings_is_found(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_maps, "READ_SECONDS", 60.0)
    with Child() as child:
        map_often(child, tmp_path, count=MANY // 2)
        child.do("map_file", library)
        map_often(child, tmp_path, count=MANY // 2)
        found = mapped_by(child.pid)
        assert found.complete
        assert [mapping.path for mapping in found.libraries] == [str(library)]


def test_incomplete_mappings_are_shown_and_not_read_all_the_time(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_maps, "_MOST_MAPPINGS", 3)
    with Child() as child:
        for _ in range(2):
            child.do("map_file", library)
        with discovered(monkeypatch, child.pid) as found:
            assert found.missing() == {}
            for number in range(3):
                copy = library.parent / str(number) / library.name
                copy.parent.mkdir()
                copy.write_bytes(library.read_bytes())
                child.do("map_file", copy)
            monkeypatch.setattr("stalltop.probes.libraries.processes.LIST_SECONDS", 0.0)
            found.update()
            (missing,) = found.all_missing()
            assert missing.pid == child.pid
            assert "too long to be read completely" in missing.reason
            read: list[int] = []

            def reading(pid: int) -> MappedFiles:
                read.append(pid)
                return mapped_by(pid)

            monkeypatch.setattr(examiner, "mapped_by", reading)
            for _ in range(3):
                found.update()
            assert read == []
            monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
            found.update()
            assert set(read) == {child.pid}
            assert len(libraries_of(child.pid)) == 3


def test_an_update_ends_in_time_and_the_next_one_goes_on(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Child() as many:
        for number in range(5):
            copy = tmp_path / str(number) / library.name
            copy.parent.mkdir()
            copy.write_bytes(library.read_bytes())
            many.do("map_file", copy)
        found = Discovered(monkeypatch, many.pid)
        monkeypatch.setattr(discovery, "BUDGET_SECONDS", 0.1)
        monkeypatch.setattr(discovery, "LEAST_FILES", 1)
        attach = found._attach

        def slow(path: str, points: Sequence[Point]) -> NoProbes:
            time.sleep(0.11)
            return attach(path, points)

        found.libraries._files._attach = slow
        try:
            for number in range(1, 6):
                found.update()
                assert len(found.functions()) <= number
            for _ in range(5):
                found.update()
            assert len(found.functions()) == 5
        finally:
            found.libraries.close()


def test_processes_that_take_all_time_of_an_update_are_finished(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Child() as slow, Child() as fast:
        fast.do("map_file", library)
        found = Discovered(monkeypatch, slow.pid, fast.pid)
        monkeypatch.setattr(discovery, "BUDGET_SECONDS", 0.1)
        read: list[int] = []

        def reading(pid: int) -> MappedFiles:
            read.append(pid)
            time.sleep(0.11)
            return mapped_by(pid)

        monkeypatch.setattr(examiner, "mapped_by", reading)
        try:
            found.update()
            assert set(read) == {slow.pid, fast.pid}
            for _ in range(3):
                found.update()
            assert read.count(slow.pid) == 1
            assert found.functions() == {(str(library), "runtime"): 1}
        finally:
            found.libraries.close()
