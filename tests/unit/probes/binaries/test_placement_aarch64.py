"""Tests the address to probe in aarch64 code: which first instructions are skipped."""

import os

import pytest

from stalltop.probes.binaries.elf import read_image
from stalltop.probes.binaries.placement import places
from stalltop.probes.binaries.placement_aarch64 import skipped_bytes
from tests.unit.probes.binaries.elf_file import CODE_ADDRESS, CODE_AT, Symbol, elf

PUSH = "a9be7bfd"  # stp x29, x30, [sp, #-32]!: the first instruction of functions in libcudart
ADRP = "90000002"  # adrp x2, …: the first instruction of functions in libcuda
LITERAL = "58000209"  # ldr x9, …: relative to the program counter
SET_X8 = "52800028"  # mov w8, #1


def machine_code(words: str) -> bytes:
    """Returns the bytes of instructions that are given as a disassembler prints them."""
    return b"".join(int(word, 16).to_bytes(4, "little") for word in words.split())


@pytest.mark.parametrize(
    ("words", "skipped"),
    [
        pytest.param(f"{PUSH} 910003fd {ADRP}", 0, id="stp x29, x30: the return address is saved"),
        pytest.param(f"d10583ff a9017bfd {ADRP}", 0, id="sub sp: the stack moved"),
        pytest.param(f"{ADRP} 52974001", 0, id="adrp, as libcuda begins"),
        pytest.param("10000002", 0, id="adr"),
        pytest.param("14000010", 0, id="b"),
        pytest.param("540000e0", 0, id="b.eq"),
        pytest.param("b4000080", 0, id="cbz"),
        pytest.param("37180081", 0, id="tbnz"),
        pytest.param("d61f0200", 0, id="br"),
        pytest.param("d65f03c0", 0, id="ret"),
        pytest.param(f"d503245f {ADRP}", 4, id="bti c, adrp"),
        pytest.param(f"d503201f d503241f {ADRP}", 8, id="nop, bti, adrp"),
        pytest.param(f"d503245f {PUSH} {ADRP}", 0, id="bti c, stp"),
        pytest.param(f"d503233f {ADRP}", 0, id="paciasp: the return address is signed"),
        pytest.param(f"d503245f d503233f {ADRP}", 0, id="bti c, paciasp"),
        pytest.param(f"d50323bf {ADRP}", 0, id="autiasp"),
        pytest.param(f"{SET_X8} 90000002", 4, id="mov w8, adrp: w8 is no argument"),
        pytest.param(f"{SET_X8} 72a64389 b9499949 6b08013f 540000e0", 16, id="mov, movk, ldr, cmp, b.eq"),
        pytest.param("f100001f 540000e0", 4, id="cmp of an argument leaves it"),
        pytest.param("8b010009 540000e0", 4, id="add of arguments into x9"),
        pytest.param("9e6700c8 540000e0", 0, id="fmov: not looked into"),
        pytest.param("8b2063ff 540000e0", 0, id="add sp, sp, x0"),
        pytest.param("dac123fe 540000e0", 0, id="paciza x30"),
        pytest.param("d53bd049 540000e0", 0, id="mrs: a system instruction"),
        pytest.param("52974001 540000e0", 0, id="mov w1: argument 1 lost"),
        pytest.param("12001c63 540000e0", 0, id="and w3: argument 3 changed"),
        pytest.param("f8408409 540000e0", 0, id="post-index: argument 0 changed"),
        pytest.param("aa1e03e9 94000010", 0, id="mov x9, x30: the return address is kept elsewhere"),
        pytest.param(f"{SET_X8} 94000010 {ADRP}", 0, id="bl writes the return address"),
        pytest.param(f"{SET_X8} d63f0100 {ADRP}", 0, id="blr writes the return address"),
        pytest.param(f"f90007e9 {ADRP}", 0, id="store on the stack: an argument may be there"),
        pytest.param(f"f9000120 {ADRP}", 0, id="store elsewhere: not looked into"),
        pytest.param(f"c85f7d49 {ADRP}", 0, id="a breakpoint within an atomic sequence"),
        pytest.param(f"d4000001 {ADRP}", 0, id="svc"),
        pytest.param(f"d5033bbf {ADRP}", 0, id="dmb"),
        pytest.param(f"00000000 {ADRP}", 0, id="no instruction"),
        pytest.param(f"{LITERAL} {PUSH}", 4, id="a literal load is not probed: what follows is"),
        pytest.param(f"{LITERAL} {ADRP}", 4, id="a literal load, adrp"),
        pytest.param(f"{SET_X8} {LITERAL} {PUSH}", 0, id="a literal load that is not the first"),
        pytest.param(f"58000200 {ADRP}", None, id="a literal load of an argument: no place"),
        pytest.param(LITERAL, None, id="nothing but a literal load"),
        pytest.param(f"{SET_X8} " * 7 + ADRP, 28, id="seven instructions"),
        pytest.param(f"{SET_X8} " * 8 + ADRP, 0, id="too far away"),
        pytest.param("", 0, id="nothing"),
    ],
)
def test_the_probe_is_placed_on_the_first_instruction_that_linux_simulates(
    words: str, skipped: int | None
) -> None:
    assert skipped_bytes(machine_code(words)) == skipped


@pytest.mark.parametrize(
    ("words", "skipped"),
    [
        # mov w8, #1; cbz x0, …; sub w8, w8, #1; JUMP; ret
        pytest.param(f"{SET_X8} b4000080 51000508 54ffffc1 d65f03c0", 0, id="b.ne to the cbz"),
        pytest.param(f"{SET_X8} b4000080 51000508 54ffffe1 d65f03c0", 4, id="b.ne behind the cbz"),
        pytest.param(f"{SET_X8} b4000080 51000508 54ffffa1 d65f03c0", 4, id="b.ne to the first instruction"),
        pytest.param(f"{SET_X8} b4000080 51000508 3607ffc8 d65f03c0", 0, id="tbz to the cbz"),
        pytest.param(f"{SET_X8} b4000080 51000508 35ffffc8 d65f03c0", 0, id="cbnz to the cbz"),
        pytest.param(f"{SET_X8} b4000080 51000508 17fffffe d65f03c0", 0, id="b to the cbz"),
    ],
)
def test_instructions_of_a_loop_are_not_skipped(words: str, skipped: int) -> None:
    code = machine_code(words)
    assert skipped_bytes(code, len(code)) == skipped


def test_code_after_the_function_is_ignored() -> None:
    code = machine_code(f"{SET_X8} {SET_X8} {ADRP}")
    assert skipped_bytes(code, 8) == 0
    assert skipped_bytes(code, 12) == 8


def test_functions_without_a_usable_address_are_left_out() -> None:
    code = machine_code(f"d503245f {ADRP} d65f03c0 d65f03c0 {PUSH} d65f03c0 58000200 d65f03c0").ljust(
        64, b"\0"
    )
    symbols = [
        Symbol("cudaMalloc", CODE_ADDRESS, 16),
        Symbol("cudaFree", CODE_ADDRESS + 16, 8),
        Symbol("cudaMemset", CODE_ADDRESS + 24, 8),
    ]
    fd = os.memfd_create("elf")
    try:
        os.write(fd, elf(symbols, code, machine=183))
        chosen = places(fd, read_image(fd, ("runtime",), "aarch64"))
    finally:
        os.close(fd)
    assert [(place.offset - CODE_AT, place.found.symbol) for place in chosen] == [
        (4, "cudaMalloc"),
        (16, "cudaFree"),
    ]
