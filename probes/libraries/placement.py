"""Chooses where in a function to put its probe: on the first instruction that the Linux kernel emulates.

A probe replaces an instruction by a breakpoint. The replaced instruction then has to run: the Linux kernel
emulates nop, push, near jmp, call and conditional jumps (x86's ``arch/x86/kernel/uprobes.c``); it
single-steps a copy of anything else, which takes a second exception and 2 to 20 times as long. So the probe
is moved past the instructions before the first emulated one, if the arguments and the return address can
still be found there: that is, if no instruction before it writes the stack pointer, an argument register or
the stack, or jumps away.

A jump back to between the first byte and the probe (a loop around the function's first instructions) would
count one call several times. Such a function is probed on its first byte, which only a loop over the whole
function would reach again. No function of these libraries has such a loop, because it would have to save
nothing on the stack.

This module is for x86-64; ``probes.libraries.placement_aarch64`` is for aarch64.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Final, NamedTuple

from stalltop.probes.libraries import placement_aarch64
from stalltop.probes.libraries.elf import FoundFunction, Image

_LOOK_BYTES: Final = 64
_MAX_INSTRUCTIONS: Final = 8
"""Maximum number of instructions that are searched. If the Linux kernel emulates none of them, the probe is
placed on the first byte."""
_LOOP_BYTES: Final = 4096
"""How far into a function backward jumps are searched for, bytes: compilers put a loop that is entered at the
top into this part."""

_CONDITIONAL: Final = frozenset(
    ("jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg")
)
_LOOPING: Final = frozenset({*_CONDITIONAL, "jmp", "jrcxz", "jecxz", "loop", "loope", "loopne"})
_HARMLESS: Final = frozenset({"nop", "endbr64"})
_LEAVING: Final = frozenset({"syscall", "sysenter", "ud2", "hlt"})
_PUSHED: Final = range(0x50, 0x58)
_RETURN_AND_ARGUMENTS: Final = frozenset(
    register
    for registers in (
        ("rsp", "esp", "sp", "spl"),
        ("rdi", "edi", "di", "dil"),
        ("rsi", "esi", "si", "sil"),
        ("rdx", "edx", "dx", "dl", "dh"),
        ("rcx", "ecx", "cx", "cl", "ch"),
        ("r8", "r8d", "r8w", "r8b"),
        ("r9", "r9d", "r9w", "r9b"),
    )
    for register in registers
)


class ProbePlace(NamedTuple):
    """Where the probe of one function goes."""

    offset: int
    """Offset in the file."""
    found: FoundFunction


def places(fd: int, image: Image) -> tuple[ProbePlace, ...]:
    """Returns where to probe each function of ``image`` that can be probed, each offset once; ``fd`` is its
    open file.

    Two symbols may lead to one place (one begins at the other's second instruction): calls through both pass
    there once, so the first one's name stands for both. Raises OSError if the file cannot be read.
    """
    chosen: dict[int, ProbePlace] = {}
    for found in image.functions:
        code = os.pread(fd, _LOOP_BYTES, found.offset)
        skip = placement_aarch64.skipped_bytes if image.machine == "aarch64" else skipped_bytes
        skipped = skip(code, found.size_bytes)
        if skipped is not None:
            offset = found.offset + skipped
            chosen.setdefault(offset, ProbePlace(offset, found))
    return tuple(chosen[offset] for offset in sorted(chosen))


def skipped_bytes(code: bytes, size_bytes: int = 0) -> int:
    """Returns the number of bytes between the start of an x86-64 function and its probe; 0 to probe its first
    byte.

    ``code`` begins with the function (and may extend beyond it); ``size_bytes`` is its length, 0 if the
    symbol does not say.
    """
    if _is_emulated_push(code):
        return 0  # Most functions begin with an emulated push, and need no decoding.
    length = min(size_bytes or _LOOK_BYTES, len(code))
    decoder = _decoder()
    for instruction in decoder.disasm(code[: min(length, _LOOK_BYTES)], 0, _MAX_INSTRUCTIONS):
        if _is_emulated(instruction):
            skipped = int(instruction.address)
            looped = skipped and _jumps_into(code[: min(length, _LOOP_BYTES)], skipped)
            return 0 if looped else skipped
        if not _leaves_arguments_alone(instruction):
            return 0
    return 0


def _is_emulated_push(code: bytes) -> bool:
    return bool(code) and (code[0] in _PUSHED or (code[0] == 0x41 and len(code) > 1 and code[1] in _PUSHED))


def _is_emulated(instruction: Any) -> bool:
    code = bytes(instruction.bytes)
    if instruction.mnemonic in _CONDITIONAL or instruction.mnemonic in ("jmp", "call"):
        # Only the relative forms are emulated, and none with an operand-size prefix.
        return code[0] in (0xE8, 0xE9, 0xEB) or 0x70 <= code[0] < 0x80 or code[:1] == b"\x0f"
    return code == b"\x90" or (instruction.mnemonic == "push" and _is_emulated_push(code) and len(code) <= 2)


def _leaves_arguments_alone(instruction: Any) -> bool:
    if instruction.mnemonic in _HARMLESS:
        return True
    import capstone

    leaving = {
        capstone.CS_GRP_JUMP,
        capstone.CS_GRP_CALL,
        capstone.CS_GRP_RET,
        capstone.CS_GRP_INT,
        capstone.CS_GRP_IRET,
        capstone.CS_GRP_BRANCH_RELATIVE,
    }
    if leaving.intersection(instruction.groups) or instruction.mnemonic in _LEAVING:
        return False
    written = {instruction.reg_name(register) for register in instruction.regs_access()[1]}
    if written & _RETURN_AND_ARGUMENTS:
        return False
    return not any(_writes_stack(instruction, operand) for operand in instruction.operands)


def _writes_stack(instruction: Any, operand: Any) -> bool:
    import capstone

    return bool(
        operand.type == capstone.CS_OP_MEM
        and operand.access & capstone.CS_AC_WRITE
        and instruction.reg_name(operand.mem.base) in ("rsp", "rbp")
    )


def _jumps_into(code: bytes, skipped: int) -> bool:
    """Returns whether a jump in ``code`` leads beyond its first byte and no further than ``skipped``."""
    decoder = _decoder()
    decoder.detail = False
    try:
        for _, _, mnemonic, target in decoder.disasm_lite(code, 0):
            if mnemonic in _LOOPING and target[:1].isdigit() and 0 < int(target, 0) <= skipped:
                return True
    finally:
        decoder.detail = True
    return False


@functools.cache
def _decoder() -> Any:
    import capstone  # Takes 30 ms to import, so only if a library was found.

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    return decoder
