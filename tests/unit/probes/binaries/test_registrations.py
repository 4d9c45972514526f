"""Tests finding the CUDA kernels that a stripped library registers, by analysing its machine code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stalltop.probes.binaries.elf import ElfError, symbol_name
from stalltop.probes.binaries.registrations import registrations
from tests.stripped_library import NAMES, library


def found(path: Path) -> list[bytes]:
    fd = os.open(path, os.O_RDONLY)
    try:
        functions, names_at = registrations(fd)
        assert sorted(set(functions.tolist())) == functions.tolist()
        return [symbol_name(fd, int(at)) for at in names_at]
    finally:
        os.close(fd)


def test_kernels_are_found_with_their_names(tmp_path: Path) -> None:
    assert found(library(tmp_path)) == NAMES


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O3", "-Os"])
def test_no_optimization_level_gives_a_wrong_name(tmp_path: Path, level: str) -> None:
    names = found(library(tmp_path, level))
    assert names == [name for name in NAMES if name in names]


def test_a_file_without_kernels_has_none(tmp_path: Path) -> None:
    path = Path(os.path.realpath("/proc/self/exe"))
    assert found(path) == []


def test_damaged_files_are_refused_or_give_fewer_kernels(tmp_path: Path) -> None:
    whole = library(tmp_path).read_bytes()
    part = tmp_path / "part"
    for size in range(0, len(whole), 997):
        part.write_bytes(whole[:size])
        try:
            names = found(part)
        except ElfError:
            continue
        assert len(names) <= 3
