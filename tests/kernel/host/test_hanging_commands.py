"""Tests that a process whose command line lies in a file system that does not answer delays no window."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from stalltop.probes.confined.commands import ProcessCommands
from stalltop.probes.confined.link import Confined
from tests.kernel.hanging_files import hanging_files

# Maps a file over the memory that has the arguments of the process.
PROGRAM = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
arguments = int(fields[45])
place = arguments & ~4095
file = os.open(sys.argv[1], os.O_RDONLY)
MAP_FIXED = 0x10
assert libc.mmap(place, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE | MAP_FIXED, file, 0) == place
os.write(1, b"ready\\n")
os.read(0, 1)
"""


def test_a_window_does_not_wait_for_a_command_line(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"served\0by\0FUSE\0" * 512)
    confined = Confined(patience_seconds=1.0)
    read = ProcessCommands(confined)
    with hanging_files(tmp_path / "hanging", "arguments", source) as files:
        # Many arguments, so that those at the beginning have a page of their own.
        command = [sys.executable, "-c", PROGRAM, str(files.path), *["x" * 100] * 400]
        with (
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hostile,
            subprocess.Popen(["sleep", "60"]) as other,
        ):
            assert hostile.stdout is not None
            assert hostile.stdout.readline() == b"ready\n"
            files.hang()
            before = time.monotonic()
            read.begin()
            assert read.commands([hostile.pid]) == {hostile.pid: b""}
            assert time.monotonic() - before < 0.8
            until = time.monotonic() + 20
            while not read.commands([hostile.pid, other.pid])[other.pid] and time.monotonic() < until:
                time.sleep(0.1)
                read.begin()
            assert read.commands([hostile.pid, other.pid]) == {hostile.pid: b"", other.pid: b"sleep\0\0"}
            files.answer()
            hostile.kill()
            other.kill()
    read.close()
    confined.close()
