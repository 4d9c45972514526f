"""Tests that the state of a file is the one that fstat reports."""

from __future__ import annotations

import os
from pathlib import Path

from stalltop.probes.file_state import program_identity, size_and_change


def test_size_and_change_are_those_of_fstat(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(12_345))
    os.utime(path, ns=(1, 1_234_567_890_123_456_789))
    for flags in (os.O_RDONLY, os.O_PATH):
        fd = os.open(path, flags)
        status = os.fstat(fd)
        assert size_and_change(fd) == (status.st_size, status.st_mtime_ns)
        path.write_bytes(bytes(9))
        assert size_and_change(fd) == (9, os.fstat(fd).st_mtime_ns)
        path.write_bytes(bytes(12_345))
        os.close(fd)
    assert size_and_change(-1) is None


def test_the_identity_of_a_program_is_that_of_its_file() -> None:
    status = os.stat("/proc/self/exe")
    expected = os.major(status.st_dev), os.minor(status.st_dev), status.st_ino
    assert program_identity(os.getpid()) == expected
    assert program_identity(1 << 22) is None
