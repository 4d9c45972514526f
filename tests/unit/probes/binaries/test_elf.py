"""Tests reading symbols of intact and broken ELF files."""

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from hypothesis import given
from hypothesis import strategies as st

from stalltop.probes import operations
from stalltop.probes.binaries import elf as reader
from stalltop.probes.binaries.elf import ElfError, read_image
from tests.unit.probes.binaries.elf_file import CODE_ADDRESS, CODE_AT, HEADER, IFUNC, OBJECT, Symbol, elf

LAYERS = ("driver", "runtime", "nccl")


def read(data: bytes, layers: Sequence[str] = LAYERS) -> list[tuple[str, int, int]]:
    fd = os.memfd_create("elf")
    try:
        os.write(fd, data)
        return [
            (found.symbol, found.offset, found.size_bytes)
            for found in read_image(fd, layers, "x86_64").functions
        ]
    finally:
        os.close(fd)


@pytest.mark.parametrize("table", [2, 11])
def test_functions_have_their_offset_in_the_file(table: int) -> None:
    symbols = [
        Symbol("_ZN5other", CODE_ADDRESS),
        Symbol("cuMemAlloc_v2", CODE_ADDRESS + 16),
        Symbol("cudaMalloc", CODE_ADDRESS + 32, 8),
        Symbol("ncclAllReduce", CODE_ADDRESS + 40, 1000),
        Symbol("cudaFree@@libcudart.so.12", CODE_ADDRESS + 8),
    ]
    assert read(elf(symbols, table=table)) == [
        ("cudaFree", CODE_AT + 8, 16),
        ("cuMemAlloc_v2", CODE_AT + 16, 16),
        ("cudaMalloc", CODE_AT + 32, 8),
        ("ncclAllReduce", CODE_AT + 40, 24),  # cut at the end of its segment
    ]


def test_only_functions_of_the_requested_layers_are_returned() -> None:
    symbols = [
        Symbol("cuMemAlloc_v2", CODE_ADDRESS),
        Symbol("cudaMalloc", CODE_ADDRESS + 8),
        Symbol("ncclSend", CODE_ADDRESS + 16),
    ]
    for layer, name in zip(LAYERS, ["cuMemAlloc_v2", "cudaMalloc", "ncclSend"], strict=True):
        assert [found[0] for found in read(elf(symbols), [layer])] == [name]


def test_symbols_without_code_in_the_file_are_left_out() -> None:
    symbols = [
        Symbol("cudaMalloc", CODE_ADDRESS, section=0),  # undefined: the file calls it but does not contain it
        Symbol("cudaFree", CODE_ADDRESS, kind=OBJECT),
        Symbol("cudaMemset", CODE_ADDRESS, kind=IFUNC),  # the address of the resolver, not of the function
        Symbol("cudaMemcpy", 0),
        Symbol("cudaHostAlloc", CODE_ADDRESS + 0x100000),  # outside the executable segment
    ]
    assert read(elf(symbols)) == []


def test_one_address_gives_one_function() -> None:
    symbols = [Symbol("cuLaunchKernel_ptsz"), Symbol("cuLaunchKernel"), Symbol("cuLaunchKernelEx")]
    assert [found[0] for found in read(elf(symbols))] == ["cuLaunchKernel"]


def test_a_name_may_be_the_suffix_of_another() -> None:
    # Linkers may store the name cudaLaunchKernel only as the end of the string "__cudaLaunchKernel".
    data = elf([Symbol("__cudaLaunchKernel", CODE_ADDRESS)])
    at = data.index(b"__cudaLaunchKernel")
    names_at = CODE_AT + 64
    table_at = at + len(b"__cudaLaunchKernel\0")
    patched = bytearray(data)
    struct.pack_into("<I", patched, table_at + 24, at - names_at + 2)
    assert read(bytes(patched)) == [("cudaLaunchKernel", CODE_AT, 16)]


def test_tables_are_read_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    symbols = [Symbol(f"other_{number}", CODE_ADDRESS) for number in range(300)]
    symbols[7:7] = [Symbol("cudaMalloc", CODE_ADDRESS + 8)]
    symbols += [Symbol("cudaFree", CODE_ADDRESS + 16)]
    whole = read(elf(symbols))
    assert [found[0] for found in whole] == ["cudaMalloc", "cudaFree"]
    for symbol_chunk, name_chunk in [(1, 64), (7, 13), (1000, 5)]:
        monkeypatch.setattr(reader, "_SYMBOL_CHUNK", symbol_chunk)
        monkeypatch.setattr(reader, "_NAME_CHUNK_BYTES", name_chunk)
        assert read(elf(symbols)) == whole


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an ELF file"),
        (b"#!/bin/sh\n" + b"\0" * 100, "not an ELF file"),
        (b"\x7fELF", "cut off"),
        (elf([])[:HEADER], "cut off"),
        (elf([])[:-1], "cut off"),
        (elf([Symbol("cudaMalloc")])[:CODE_AT], "no executable part"),
        (elf([Symbol("cudaMalloc")])[: CODE_AT + 1], "cut off"),
        (elf([], machine=183), "built for aarch64"),
        (elf([], machine=3), "built for i386"),
        (elf([], machine=999), "machine type 999"),
        (b"\x7fELF\x01" + elf([])[5:], "not a 64-bit"),
        (elf([], sections=False), "no section headers"),
        (elf([]).replace(struct.pack("<II", 1, 5), struct.pack("<II", 1, 4)), "no executable part"),
    ],
)
def test_an_unusable_file_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ElfError, match=reason):
        read(data)


GOOD = elf([Symbol("cudaMalloc", CODE_ADDRESS + 8), Symbol("cuMemAlloc_v2", CODE_ADDRESS + 24)])


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    data = bytearray(GOOD)
    interesting = [*range(HEADER + 56), *range(CODE_AT + 64, len(data))]
    for _ in range(draw(st.integers(1, 6))):
        data[draw(st.sampled_from(interesting))] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


@given(broken())
def test_arbitrary_damage_raises_only_elf_errors(data: bytes) -> None:
    try:
        functions = read(data)
    except ElfError:
        return
    for _, offset, size in functions:
        assert 0 <= offset < offset + size <= len(data) or size == 0


def shared_libraries() -> Iterator[Path]:
    names = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libz.so.1")
    for folder in (Path("/lib/x86_64-linux-gnu"), Path("/usr/lib/x86_64-linux-gnu"), Path("/lib64")):
        yield from (folder / name for name in names if (folder / name).exists())


def test_another_reader_finds_the_same_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    # System libraries have no traced functions. So the test takes every name that starts with "m" for a
    # traced function.
    path = next(shared_libraries(), None)
    if path is None:
        pytest.skip("no system library was found on this machine")
    some = operations.match("cudaMalloc", "runtime")
    monkeypatch.setattr("stalltop.probes.binaries.elf.match", lambda name, layer: some)
    monkeypatch.setattr("stalltop.probes.binaries.elf._starts", lambda layers: (b"m",))
    with path.open("rb") as file:
        ours = {found.offset for found in read_image(file.fileno(), ("runtime",)).functions}
        image = ELFFile(file)
        section = image.get_section_by_name(".dynsym")
        assert isinstance(section, SymbolTableSection)
        theirs = {
            next(image.address_offsets(symbol["st_value"]))
            for symbol in section.iter_symbols()
            if symbol.name.startswith("m")
            and symbol["st_info"]["type"] == "STT_FUNC"
            and symbol["st_shndx"] != "SHN_UNDEF"
        }
    assert ours == theirs
    assert len(ours) > 5
