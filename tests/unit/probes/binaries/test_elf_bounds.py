"""Tests that files made to cost much time or memory are refused, and that the refusal is shown."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from stalltop.probes.binaries import elf as reader
from stalltop.probes.binaries.elf import RefusedError, function_symbols, read_image
from tests.unit.probes.binaries.elf_file import CODE_ADDRESS, Symbol, elf
from tests.unit.probes.libraries.discovered import discovered

SECTION = struct.Struct("<IIQQQQIIQQ")


def with_tables(data: bytes, tables: int, symbols: int = 1, name: bytes = b"cudaMalloc") -> bytes:
    """Returns the ELF file ``data`` with new section headers: ``tables`` symbol tables that share the same
    ``symbols`` symbols, which lie at the end."""
    names_at = len(data)
    names = (b"\0" + name).ljust(16, b"\0")
    symbols_at = names_at + len(names)
    content = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, CODE_ADDRESS, 16) * symbols
    headers_at = symbols_at + len(content)
    headers = bytes(64) + SECTION.pack(0, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    headers += SECTION.pack(0, 2, 0, 0, symbols_at, len(content), 1, 0, 8, 24) * tables
    patched = bytearray(data + names + content + headers)
    struct.pack_into("<Q", patched, 40, headers_at)
    struct.pack_into("<HHH", patched, 58, 64, 2 + tables, 0)
    return bytes(patched)


@contextmanager
def opened(data: bytes) -> Iterator[int]:
    fd = os.memfd_create("elf")
    try:
        os.write(fd, data)
        yield fd
    finally:
        os.close(fd)


@pytest.mark.parametrize("tables", [2, 40, 65_000])
def test_a_file_with_many_symbol_tables_is_refused_at_once(tables: int) -> None:
    with opened(with_tables(elf([]), tables, 100_000)) as fd:
        before = time.process_time()
        with pytest.raises(RefusedError, match=f"{tables} symbol tables of one kind"):
            read_image(fd, ("runtime",), "x86_64")
        assert time.process_time() - before < 0.2


def test_a_huge_symbol_table_is_refused_at_once() -> None:
    data = bytearray(with_tables(elf([]), 1))
    (headers_at,) = struct.unpack_from("<Q", data, 40)
    size = 16_000_000 * 24
    struct.pack_into("<Q", data, headers_at + 2 * 64 + 32, size)
    with opened(bytes(data)) as fd:
        os.ftruncate(fd, len(data) + size)  # The file has room for the symbols, but takes no memory.
        with pytest.raises(RefusedError, match="symbols"):
            read_image(fd, ("runtime",), "x86_64")
        with pytest.raises(RefusedError, match="symbols"):
            function_symbols(fd)


def test_a_file_with_many_traced_functions_is_refused() -> None:
    symbols = [Symbol("cudaMalloc", CODE_ADDRESS + number) for number in range(3000)]
    with (
        opened(elf(symbols, b"\xc3" * 3000)) as fd,
        pytest.raises(RefusedError, match="traced functions"),
    ):
        read_image(fd, ("runtime",), "x86_64")


def test_a_file_with_many_program_headers_is_refused() -> None:
    data = bytearray(elf([]))
    struct.pack_into("<H", data, 56, 300)
    with opened(bytes(data)) as fd, pytest.raises(RefusedError, match="parts"):
        read_image(fd, ("runtime",), "x86_64")


def test_reading_a_file_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each of these names has to be compared on its own, because it begins like a traced function.
    data = with_tables(elf([]), 1, 300_000, b"cudaUnknown")
    monkeypatch.setattr(reader, "FILE_SECONDS", 0.1)
    with opened(data) as fd:
        before = time.process_time()
        with pytest.raises(RefusedError, match="CPU time"):
            read_image(fd, ("runtime",), "x86_64")
        assert time.process_time() - before < 1


def test_memory_is_bounded_while_a_large_table_is_read() -> None:
    count = 1_000_000
    table = np.zeros(count, reader._SYMBOL)
    table["name"], table["info"], table["section"], table["value"] = 12, 0x12, 1, CODE_ADDRESS
    with opened(with_tables(elf([]), 1, count)) as fd:
        at = len(elf([])) + 16
        os.pwrite(fd, table.tobytes(), at)
        tracemalloc.start()
        try:
            assert read_image(fd, ("runtime",), "x86_64").functions == ()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 40 << 20


def test_a_program_that_is_refused_is_shown_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cat = shutil.which("cat")
    assert cat is not None
    program = tmp_path / "cat"
    program.write_bytes(with_tables(Path(cat).read_bytes(), 40, 100_000))
    program.chmod(0o700)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b".")
        assert process.stdout.read(1) == b"."  # The program runs, so all its parts are mapped.
        before = time.process_time()
        with discovered(monkeypatch, process.pid) as found:
            assert time.process_time() - before < 0.5
            assert found.missing() == {str(program): "its symbols are not read: 40 symbol tables of one kind"}
        process.stdin.close()
