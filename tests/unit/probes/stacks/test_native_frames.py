"""Tests names of native frames, by addresses of this process itself."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from pathlib import Path

import pytest

from stalltop.probes.stacks.native_frames import NativeFrames

LIBC = ctypes.CDLL(None)
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the code below is of x86-64")


def address_of(name: str) -> int:
    found = ctypes.cast(getattr(LIBC, name), ctypes.c_void_p).value
    assert found is not None
    return found


def code(content: bytes, kind: int = mmap.MAP_PRIVATE) -> tuple[mmap.mmap, int]:
    """Return executable memory with ``content`` that is in no file, and its address."""
    access = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    memory = mmap.mmap(-1, 4096, flags=kind | mmap.MAP_ANONYMOUS, prot=access)
    memory.write(content)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_an_address_inside_a_function_has_its_name() -> None:
    (frame,) = NativeFrames().stack(os.getpid(), (address_of("getpid") + 2,)).frames
    assert frame.symbol in (b"getpid", b"__getpid")
    assert "libc" in frame.file
    assert frame.offset > 0


@pytest.mark.parametrize("kind", [mmap.MAP_PRIVATE, mmap.MAP_SHARED])
def test_code_in_no_file_was_compiled_at_run_time(kind: int) -> None:
    _, at = code(b"\xe8\0\0\0\0\xc3", kind)
    (frame,) = NativeFrames().stack(os.getpid(), (at + 5,)).frames
    assert (frame.symbol, frame.file) == (b"", "")


def test_compiled_code_has_the_name_in_the_map_for_perf() -> None:
    _, at = code(b"\xe8\0\0\0\0\xc3")
    frames = NativeFrames()
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    try:
        path.write_text(f"{at:x} 6 old\nnot a line\n{at:x} 6 triton launcher\n{at + 64:x} 4 next\n")
        assert [frame.symbol for frame in frames.stack(os.getpid(), (at + 5,)).frames] == [b"triton launcher"]
        assert [frame.symbol for frame in frames.stack(os.getpid(), (at + 32,)).frames] == [b""]
        with path.open("a") as file:
            file.write(f"{at + 24:x} 10 added\n")
        assert [frame.symbol for frame in frames.stack(os.getpid(), (at + 32,)).frames] == [b"added"]
        os.chown(path, 65534, -1)  # another user may have written it
        assert [frame.symbol for frame in frames.stack(os.getpid(), (at + 32,)).frames] == [b""]
    finally:
        path.unlink()


@pytest.mark.parametrize(
    ("before", "is_call"),
    [
        (b"\xe8\1\2\3\4", True),  # call rel32
        (b"\x90\x90\x90\xff\xd0", True),  # call *%rax
        (b"\x90\x90\x41\xff\xd4", True),  # call *%r12
        (b"\x90\xff\x55\x10\xff\x50\x08", True),  # call *8(%rax)
        (b"\xff\x15\1\2\3\4", True),  # call *rel32(%rip)
        (b"\x90" * 7, False),
        (b"\x90\x90\x90\xff\xe0", False),  # jmp *%rax
        (b"\xe9\1\2\3\4", False),  # jmp rel32
    ],
)
def test_a_frame_counts_only_behind_a_call(before: bytes, is_call: bool) -> None:
    _, at = code(b"\x90" * 16 + before)
    certain = address_of("getpid") + 2
    frames = NativeFrames().stack(os.getpid(), (certain, at + 16 + len(before), certain)).frames
    assert len(frames) == (2 if is_call else 1)


def test_an_address_without_code_ends_the_stack() -> None:
    data = ctypes.create_string_buffer(8)
    certain = address_of("getpid") + 2
    assert len(NativeFrames().stack(os.getpid(), (certain, ctypes.addressof(data), certain)).frames) == 1
    stack = NativeFrames().stack(os.getpid(), (0x10,))
    assert stack.frames == ()
    start, end = stack.nothing
    assert start < 0x10 < end


def test_functions_of_the_linux_kernel_that_run_in_programs_are_named() -> None:
    (line,) = (line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("[vdso]"))
    start, end = (int(bound, 16) for bound in line.split()[0].split("-"))
    (frame,) = NativeFrames().stack(os.getpid(), (start + 0x400,)).frames
    assert frame == (b"", "[vdso]", 0x400, start, end)
