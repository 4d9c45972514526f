from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from stalltop.probes.symbols.demangle import demangled

KNOWN = {
    "_Z5scalePffi": "scale(float*, float, int)",
    "_Z4gemmPKfS0_Pfiii": "gemm(float const*, float const*, float*, int, int, int)",
    "_ZN2nn17attention_forwardILi128ELb1EEEvPfPKfNS_4TileIXT_EXT0_EEE": (
        "void nn::attention_forward<128, true>(float*, float const*, nn::Tile<128, true>)"
    ),
    "_ZN2nn4eachIZ4mainEUllE_EEvT_l": "void nn::each<main::{lambda(long)#1}>(main::{lambda(long)#1}, long)",
    "_ZN12_GLOBAL__N_19histogramEPKhPj": (
        "(anonymous namespace)::histogram(unsigned char const*, unsigned int*)"
    ),
    "_Z1fIJidEEvDpT_": "void f<int, double>(int, double)",
    "_Z1fIJEEvDpT_": "void f<>()",
    "_Z1fPFiPA3_KdE": "f(int (*)(double const (*) [3]))",
    "_Z1fM1AFvvEMS_i": "f(void (A::*)(), int A::*)",
    "_Z1fDF16bDF16_6__half": "f(std::bfloat16_t, _Float16, __half)",
    "_Z3addIfEvT_.constprop.0": "void add<float>(float) [clone .constprop.0]",
    "_ZN1AC1ERKS_": "A::A(A const&)",
    "_ZNK1A3getB5cxx11Ev": "A::get[abi:cxx11]() const",
    "_ZZ3fooIiEvT_ENKUlvE_clEv": "foo<int>(int)::{lambda()#1}::operator()() const",
    "_ZNSt6vectorISt4pairIifESaIS1_EE4sizeEv": (
        "std::vector<std::pair<int, float>, std::allocator<std::pair<int, float>>>::size()"
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_mangled_names_are_shown_as_in_the_source(name: str) -> None:
    assert demangled(name.encode()) == KNOWN[name]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "main",
        "triton_poi_fused_add_0",
        "_Z",
        "_Z1",
        "_ZN",
        "_Z5scale?",
        "_Z1fT_",
        "_ZTV1A",
        "_Z9999999999f",
    ],
)
def test_what_is_not_understood_stays_as_it_is(name: str) -> None:
    assert demangled(name.encode()) == name


HOSTILE = {
    "twice as long with every step": "_Z1f" + "1AIiE" + "".join(f"1BIS{i:X}_S{i:X}_E" for i in range(30)),
    "deep pointers": "_Z1f" + "P" * 4000 + "i",
    "deep names": "_Z1f" + "1AI" * 1300 + "i" + "E" * 1300,
    "deep expressions": "_Z1fIX" + "nt" * 2000 + "Lb1EEEvv",
    "packs in packs": "_Z1fIJ" + "i" * 60 + "EEv" + "Dp" * 40 + "T_",
    "functions": "_Z1f" + "PF" * 1500 + "v" + "vE" * 1500,
    "a name without end": "_Z999999999a",
    "doubled": "_Z1fIJiiEEv" + "DpT_" * 500 + "".join(f"N1A1B1CIS{i:X}_S{i:X}_S{i:X}_EE" for i in range(36)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_names_cost_little(what: str) -> None:
    name = HOSTILE[what][:4096].encode()
    began = time.process_time()
    shown = demangled(name)
    assert time.process_time() - began < 5.0
    assert len(shown) <= 1 << 18


@given(st.lists(st.sampled_from([*KNOWN, *HOSTILE.values()]), min_size=1, max_size=3), st.data())
def test_any_bytes_are_taken(names: list[str], data: st.DataObject) -> None:
    text = "".join(names)[:600]
    cut = data.draw(st.integers(0, len(text)))
    other = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 8))
    noise = data.draw(st.binary(max_size=4))
    name = text[:cut].encode() + noise + text[other : other + length].encode() + text[cut:].encode()
    assert isinstance(demangled(name), str)
    assert isinstance(demangled(b"_Z" + noise), str)


def test_the_wording_is_that_of_libstdc() -> None:
    """All functions of that library itself."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        pytest.skip("no libstdc++ here")
    maps = Path("/proc/self/maps").read_text().splitlines()
    path = next((line.split()[-1] for line in maps if "libstdc++.so" in line), "")
    if not os.path.exists(path):
        pytest.skip("libstdc++ cannot be found")
    demangle = library["__cxa_demangle"]
    demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    with open(path, "rb") as file:
        dynsym: Any = ELFFile(file).get_section_by_name(".dynsym")
        assert dynsym is not None
        names = {symbol.name for symbol in dynsym.iter_symbols()}
    # What it abbreviates as std::string and the like, it writes out again for constructors.
    mangled = [name for name in names if name.startswith(("_ZN", "_ZS")) and not name.startswith("_ZNS")]
    assert len(mangled) > 1000
    other = {}
    for name in mangled:
        result = demangle(name.encode(), None, None, None)
        assert result, name
        expected = ctypes.string_at(result).decode()
        free(ctypes.c_void_p(result))
        while "> >" in expected:
            expected = expected.replace("> >", ">>")
        if demangled(name.encode()) != expected:
            other[name] = expected
    # Other versions of it may know words that this one does not.
    assert len(other) <= len(mangled) // 50, other
