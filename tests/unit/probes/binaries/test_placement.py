"""Tests the address to probe in x86-64 code: which first instructions are skipped."""

import os

import pytest

from stalltop.probes.binaries.elf import read_image
from stalltop.probes.binaries.placement import places, skipped_bytes
from tests.unit.probes.binaries.elf_file import CODE_ADDRESS, CODE_AT, Symbol, elf

CMP_RIP = "813d 00000000 00ba1c32"  # cmpl $imm32, off(%rip): the first instruction of functions in libcuda
RET = "c3"


@pytest.mark.parametrize(
    ("code", "skipped"),
    [
        pytest.param("55 4889e5", 0, id="push rbp"),
        pytest.param("4157 4156", 0, id="push r15"),
        pytest.param("90 55", 0, id="nop"),
        pytest.param("e9 00010000", 0, id="jmp"),
        pytest.param("eb 10", 0, id="short jmp"),
        pytest.param("e8 00010000", 0, id="call"),
        pytest.param("74 10", 0, id="je"),
        pytest.param("f30f1efa 55", 4, id="endbr64, push"),
        pytest.param("f30f1efa 4157", 4, id="endbr64, push r15"),
        pytest.param("0f1f4000 55", 4, id="long nop, push: older kernels step the nop"),
        pytest.param("6690 55", 2, id="two-byte nop, push"),
        pytest.param(f"{CMP_RIP} 7416 e900010000", 10, id="cmpl, je"),
        pytest.param(f"{CMP_RIP} 0f8416000000", 10, id="cmpl, near je"),
        pytest.param(f"f30f1efa {CMP_RIP} 7505", 14, id="endbr64, cmpl, jne"),
        pytest.param("31c0 eb10", 2, id="xor eax: no argument"),
        pytest.param("8b05 00000000 85c0 7405", 8, id="load, test, je"),
        pytest.param("4c8b15 00000000 4d85d2 7405", 10, id="r10 is no argument"),
        pytest.param("4885ff 7405", 3, id="test of an argument leaves it"),
        pytest.param("31ff 55", 0, id="xor edi: argument 0 lost"),
        pytest.param("4889fe 55", 0, id="mov rsi: argument 1 lost"),
        pytest.param("66ba0100 55", 0, id="mov dx: part of an argument lost"),
        pytest.param("b101 55", 0, id="mov cl: part of an argument lost"),
        pytest.param("4531c0 55", 0, id="xor r8d: argument 4 lost"),
        pytest.param("49ffc1 55", 0, id="inc r9: argument 5 lost"),
        pytest.param("4883ec08 e800000000", 0, id="sub rsp: return address moved"),
        pytest.param("6a00 55", 0, id="push of a constant is not emulated and moves the stack"),
        pytest.param("4889742408 55", 0, id="store on the stack: an argument may be there"),
        pytest.param("4889542410 7405", 0, id="store on the stack, then je"),
        pytest.param("4889356000000000 55", 0, id="garbage after a store"),
        pytest.param("ff25 00000000", 0, id="jmp through memory is not emulated"),
        pytest.param("ffe0 55", 0, id="jmp through a register: what follows is not reached"),
        pytest.param("ff15 00000000 55", 0, id="call through memory"),
        pytest.param(f"{RET} 55", 0, id="ret: what follows is another function"),
        pytest.param("31c0 c3 55", 0, id="xor, ret"),
        pytest.param("0f05 55", 0, id="syscall"),
        pytest.param("0f0b 55", 0, id="ud2"),
        pytest.param("cc 55", 0, id="int3"),
        pytest.param("31c0 663ebc", 0, id="cut off inside an instruction"),
        pytest.param("e300 55", 0, id="jrcxz is not emulated"),
        pytest.param("660f1f440000 2e7405", 0, id="je with a prefix"),
        pytest.param("31c0 " * 7 + "55", 14, id="seven instructions"),
        pytest.param("31c0 " * 8 + "55", 0, id="too far away"),
        pytest.param("", 0, id="nothing"),
        pytest.param("06", 0, id="no instruction"),
    ],
)
def test_the_probe_is_placed_on_the_first_instruction_that_linux_emulates(code: str, skipped: int) -> None:
    assert skipped_bytes(bytes.fromhex(code.replace(" ", ""))) == skipped


@pytest.mark.parametrize(
    ("code", "skipped"),
    [
        # test edi, edi; je to the end; dec eax; jmp TARGET; ret
        pytest.param("85ff 7404 ffc8 ebf9 c3", 0, id="loop to before the je"),
        pytest.param("85ff 7404 ffc8 ebfa c3", 0, id="loop to the je"),
        pytest.param("85ff 7404 ffc8 ebfc c3", 2, id="loop behind the je"),
        pytest.param("85ff 7404 ffc8 75fa c3", 0, id="conditional loop to the je"),
        pytest.param("85ff 7404 ffc8 e2fa c3", 0, id="loop instruction"),
    ],
)
def test_instructions_of_a_loop_are_not_skipped(code: str, skipped: int) -> None:
    data = bytes.fromhex(code.replace(" ", ""))
    assert skipped_bytes(data, len(data)) == skipped


def test_code_after_the_function_is_ignored() -> None:
    code = bytes.fromhex("31c0" + "ffc8" + "55")
    assert skipped_bytes(code, 4) == 0
    assert skipped_bytes(code, 5) == 4


def test_each_address_in_a_file_is_probed_once() -> None:
    code = bytes.fromhex("f30f1efa5589e5c3" + "55c3c3c3c3c3c3c3" + "31ffc3c3c3c3c3c3").ljust(64, b"\xc3")
    symbols = [
        Symbol("cudaMalloc", CODE_ADDRESS, 8),
        # an alias of cudaMalloc that starts after the endbr64 of cudaMalloc
        Symbol("cudaMallocAsync", CODE_ADDRESS + 4, 4),
        Symbol("cudaFree", CODE_ADDRESS + 8, 8),
        Symbol("cudaMemset", CODE_ADDRESS + 16, 8),
    ]
    fd = os.memfd_create("elf")
    try:
        os.write(fd, elf(symbols, code))
        chosen = places(fd, read_image(fd, ("runtime",), "x86_64"))
    finally:
        os.close(fd)
    assert [(place.offset - CODE_AT, place.found.symbol) for place in chosen] == [
        (4, "cudaMalloc"),
        (8, "cudaFree"),
        (16, "cudaMemset"),
    ]
