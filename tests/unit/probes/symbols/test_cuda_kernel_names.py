"""Tests names of CUDA kernels: reported at registration, read from the program's memory, or found in
symbols."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stalltop.model.cuda_kernels import bucket_lowest_ns, bucket_of
from stalltop.probes import layout
from stalltop.probes.binaries.code_symbols import CodeSymbols
from stalltop.probes.maps.launches import RawKernel, _hold_back
from stalltop.probes.maps.slots import SlotKey
from stalltop.probes.operations import match
from stalltop.probes.symbols import cuda_kernel_names as kernel_names
from stalltop.probes.symbols import demangler
from stalltop.probes.symbols.cuda_kernel_names import MOST_NAME_BYTES, KernelNames, for_display

PID = os.getpid()


def raw(
    function: int = 1,
    name: bytes = b"",
    *,
    at: int = 0,
    cut: bool = False,
    born_ns: int = 100,
    generation: int = 0,
    symbol: str = "cudaLaunchKernel",
    pid: int = PID,
) -> RawKernel:
    operation = match(symbol, "runtime" if symbol.startswith("cuda") else "driver")
    assert operation is not None
    key = SlotKey(1, pid, operation.operation, False)
    return RawKernel(key, function, born_ns, generation, name, cut, at, 1, 0, 10, 10, ((0, 1),))


@pytest.fixture(autouse=True)
def _wait_for_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangler, "WAIT_SECONDS", 30.0)


def shown(names: KernelNames, one: RawKernel) -> str:
    (name,) = names.names([one])
    return name


def named(one: RawKernel, **more: object) -> str:
    names = KernelNames(**more)  # type: ignore[arg-type]
    names.begin()
    found = shown(names, one)
    names.close()
    return found


def test_a_registered_name_is_demangled() -> None:
    assert named(raw(name=b"_Z5scalePffi")) == "scale(float*, float, int)"
    assert named(raw(name=b"triton_poi_0")) == "triton_poi_0"
    assert named(raw(name=b"_Z20__device_stub__scalePf")) == "scale(float*)"
    assert named(raw(name=b"__device_stub__Z5scalePf")) == "scale(float*)"


def test_names_are_printable_and_bounded() -> None:
    assert named(raw(name=b"a\x1b[31m\xffb")) == "a[31m\ufffdb"
    assert len(named(raw(name=b"k" * 4000))) == kernel_names.MOST_NAME


def test_a_name_is_shown_mangled_until_it_is_demangled(monkeypatch: pytest.MonkeyPatch) -> None:
    names = KernelNames()
    monkeypatch.setattr(demangler, "WAIT_SECONDS", -1.0)
    launches = [raw(1, b"_Z5scalePffi"), raw(2, b"triton_poi_0"), raw(3, b"_Z5scalePffi", generation=1)]
    assert names.names(launches) == ["_Z5scalePffi", "triton_poi_0", "_Z5scalePffi"]
    monkeypatch.setattr(demangler, "WAIT_SECONDS", 30.0)
    names.begin()
    scale = "scale(float*, float, int)"
    assert names.names(launches) == [scale, "triton_poi_0", scale]
    assert names.known(PID, 100, 1) == scale
    names.close()


def test_an_unavailable_demangler_is_reported() -> None:
    names = KernelNames(demangler=demangler.Demangler((sys.executable, "-c", "print(end=chr(0))")))
    names.prepare()
    assert shown(names, raw(1, b"_Z5scalePffi")) == "_Z5scalePffi"
    (missing,) = names.missing()
    assert missing.reason == "shown mangled: neither libstdc++.so.6 nor libc++abi.so.1 is on this host"
    assert missing.remedy == kernel_names.INSTALL_LIBRARY
    assert not missing.untraced
    assert shown(names, raw(1, b"_Z5scalePffi")) == "_Z5scalePffi"
    assert KernelNames().missing() == ()


def test_the_cache_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_names, "MOST_SHOWN", 8)
    names = KernelNames()
    for n in range(40):
        assert shown(names, raw(n, b"_Z1%cv" % (97 + n % 26))) == f"{97 + n % 26:c}()"
    assert len(names._shown) <= 9
    names.close()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"", ""),
        (b"void f<A<B<int> > >(A<B<int> >)", "void f<A<B<int>>>(A<B<int>>)"),
        (b"bool operator> <int>(int)", "bool operator> <int>(int)"),
        (b"__device_stub__scale(float*)", "scale(float*)"),
        (b"k" * 2000, "k" * (kernel_names.MOST_NAME - 1) + "…"),
        ("größe\u202e\n()".encode(), "größe ()"),
    ],
)
def test_names_are_shortened_for_display(name: bytes, expected: str) -> None:
    assert for_display(name) == expected


def test_a_cut_name_is_completed_from_memory_or_marked() -> None:
    whole = ctypes.create_string_buffer(b"n" * 900)
    assert named(raw(name=b"n" * 255, cut=True, at=ctypes.addressof(whole))) == "n" * 900
    # If the memory holds another text by now, the name cannot be completed and is marked as cut.
    other = ctypes.create_string_buffer(b"m" * 900)
    assert named(raw(name=b"n" * 255, cut=True, at=ctypes.addressof(other))) == "n" * 255 + "…"
    assert named(raw(name=b"n" * 255, cut=True)) == "n" * 255 + "…"


def test_a_name_missing_from_the_record_is_read_from_memory() -> None:
    text = ctypes.create_string_buffer(b"_Z5scalePffi")
    assert named(raw(at=ctypes.addressof(text))) == "scale(float*, float, int)"
    assert (
        named(raw(), inherited=lambda tgid, function: ctypes.addressof(text)) == "scale(float*, float, int)"
    )


def test_an_unterminated_name_at_the_end_of_a_page_is_harmless() -> None:
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page.write(b"x" * mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        shown = named(raw(at=start + mmap.PAGESIZE - 8))
        assert shown.startswith("x" * 8)
        assert len(shown) <= MOST_NAME_BYTES
    assert named(raw(at=1)) == ""
    assert named(raw(at=(1 << 64) - 1)) == ""
    assert named(raw(at=1 << 40, pid=1 << 22)) == ""


def test_each_generation_has_its_own_name() -> None:
    names = KernelNames()
    names.begin()
    assert names.known(PID, 100, 7) == ""
    assert shown(names, raw(7, b"one")) == names.known(PID, 100, 7) == "one"
    assert shown(names, raw(7, b"two", generation=1)) == "two"
    assert shown(names, raw(7, b"")) == "one"
    assert names.known(PID, 100, 7) == "", "a call of this window may be of either kernel"
    names.begin()
    assert shown(names, raw(7, b"two", generation=1)) == names.known(PID, 100, 7) == "two"
    names.begin()
    assert names.known(PID, 100, 7) == "two"
    names.forget(PID)
    assert names.known(PID, 100, 7) == ""


def test_each_program_of_a_process_has_its_own_names() -> None:
    names = KernelNames()
    names.begin()
    assert shown(names, raw(7, b"alpha")) == "alpha"
    assert shown(names, raw(7, b"beta", born_ns=200)) == "beta"
    assert (names.known(PID, 100, 7), names.known(PID, 200, 7)) == ("alpha", "beta")
    assert shown(names, raw(7, b"")) == "alpha"
    assert shown(names, raw(7, b"gamma")) == "gamma", "a reported name replaces the known one"


def test_memory_of_the_current_program_names_no_cuda_kernel_of_an_earlier_one() -> None:
    text = ctypes.create_string_buffer(b"n" * 300)
    names = KernelNames(lambda tgid, function: ctypes.addressof(text), lambda tgid, born_ns: born_ns == 200)
    names.begin()
    assert shown(names, raw(7)) == ""
    assert shown(names, raw(8, at=ctypes.addressof(text))) == ""
    assert shown(names, raw(9, b"n" * 255, cut=True, at=ctypes.addressof(text))) == "n" * 255 + "…"
    assert shown(names, raw(7, born_ns=200)) == "n" * 300


def test_without_time_left_a_name_is_read_in_the_next_window(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ctypes.create_string_buffer(b"later")
    monkeypatch.setattr(kernel_names, "BUDGET_SECONDS", -1.0)  # no time is left to read memory
    names = KernelNames()
    names.begin()
    assert shown(names, raw(7, at=ctypes.addressof(text))) == ""
    assert shown(names, raw(8, b"told")) == "told"  # this name was reported, so no memory is read
    monkeypatch.setattr(kernel_names, "BUDGET_SECONDS", 60.0)
    names.begin()
    assert shown(names, raw(7, at=ctypes.addressof(text))) == "later"


def test_a_missing_name_is_searched_for_a_bounded_number_of_times() -> None:
    text = ctypes.create_string_buffer(b"late")
    address = 0
    names = KernelNames(lambda tgid, function: address)
    names.begin()
    assert shown(names, raw(7)) == ""
    address = ctypes.addressof(text)
    names.begin()
    assert shown(names, raw(7)) == "late"
    address = 0
    names.begin()
    assert shown(names, raw(7)) == "late"
    looks: list[int] = []

    def nowhere(tgid: int, function: int) -> int:
        looks.append(function)
        return 0

    names = KernelNames(nowhere)
    for _ in range(10):
        names.begin()
        assert shown(names, raw(7)) == ""
    # In each window, the question is asked once, and its answer is awaited once.
    assert kernel_names.TRIES <= len(looks) <= 2 * kernel_names.TRIES


PROGRAM = """
void first(void) __asm__("_Z5firstv");
void first(void) { __asm__ volatile("nop; nop; nop; nop"); }
static void second(void) { __asm__ volatile("" :: "i"(2)); }
void *second_at(void) { return (void *)second; }
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing on this machine")
    (tmp_path / "some.c").write_text(PROGRAM)
    path = tmp_path / "some.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(path), str(tmp_path / "some.c")]
    subprocess.run(command, check=True, timeout=60)
    return path


def test_addresses_are_resolved_by_symbols(library: Path) -> None:
    loaded = ctypes.CDLL(str(library))
    first = ctypes.cast(loaded["_Z5firstv"], ctypes.c_void_p).value
    second_at = loaded["second_at"]
    second_at.restype = ctypes.c_void_p
    second = second_at()
    assert first is not None
    symbols = CodeSymbols()
    assert symbols.symbol(PID, first) == b"_Z5firstv"
    assert symbols.symbol(PID, second) == b"second"  # this symbol is only in .symtab
    assert symbols.symbol(PID, first + 3) == b""
    assert symbols.symbol(PID, 64) is None
    assert symbols.symbol(1 << 22, first) is None
    assert named(raw(first)) == "first()"
    # cuLaunchKernel gets a handle. It is not looked up as an address, even if a function has this address.
    assert named(raw(first, symbol="cuLaunchKernel")) == ""


def test_a_malformed_elf_file_gives_no_name(tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(b"\x7fELF" + bytes(range(256)) * 64)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, 7) as mapped:
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        symbols = CodeSymbols()
        assert symbols.symbol(PID, address) == b""


def test_launches_by_cuda_kernel_never_exceed_those_of_the_slot() -> None:
    rise = np.zeros((3, layout.BUCKETS), np.int64)
    rise[0, bucket_of(1_000)], rise[1, bucket_of(2_000)], rise[2, bucket_of(500)] = 5, 4, 3
    counted = np.array([0, 7, 3])
    held_ns = _hold_back(rise, np.array([1, 1, 2]), counted)
    assert rise.sum(axis=1).tolist() == [3, 4, 3]
    assert held_ns.tolist() == [2 * bucket_lowest_ns(bucket_of(1_000)), 0, 0]
