"""Chooses where in a function to place its probe: on the first instruction that the Linux kernel emulates.

A probe replaces an instruction by a breakpoint. The replaced instruction still has to be executed. The Linux
kernel emulates nop, push, near jmp, call and conditional jumps (x86's ``arch/x86/kernel/uprobes.c``). It
single-steps a copy of any other instruction, which takes a second exception and 2 to 20 times as long. So the
probe is moved to the first emulated instruction, if the arguments and the return address can still be found
there. They can be found if no earlier instruction writes the stack pointer, an argument register or the
stack, or jumps away.

If a later jump leads back to a place between the first byte and the probe (a loop around the function's first
instructions), the probe would count one call several times. Such a function is probed on its first byte
instead. That counts too often only if a loop leads back to the first byte itself. The traced libraries are
assumed to have no such loop: their functions usually begin by saving registers on the stack, which has to
happen once in each call.

This module is for x86-64; ``probes.binaries.placement_aarch64`` is for aarch64.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Final, NamedTuple

from stalltop.probes.binaries import placement_aarch64
from stalltop.probes.binaries.elf import Deadline, FoundFunction, Image

_LOOK_BYTES: Final = 64
_MAX_INSTRUCTIONS: Final = 8
"""Maximum number of instructions that are searched. If the Linux kernel emulates none of them, the probe is
placed on the first byte."""
_LOOP_BYTES: Final = 4096
"""Number of bytes at the beginning of a function in which backward jumps are searched for. If a loop begins
near the start of the function, compilers put the loop's jump into this part."""

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
    """The place of the probe of one function."""

    offset: int
    """Offset in the file."""
    found: FoundFunction


def places(fd: int, image: Image) -> tuple[ProbePlace, ...]:
    """Returns where to probe each function of ``image`` that can be probed; each offset once. ``fd`` is the
    open file of ``image``.

    Two symbols may lead to one place, if one begins at the second instruction of the other. Calls of both
    pass this place once, so both are counted under the name of the first symbol. Raises OSError if the file
    cannot be read, and RefusedError if decoding takes too long.
    """
    if image.machine != "aarch64":
        _decoder()  # Its import does not count as time for this file.
    deadline = Deadline()
    chosen: dict[int, ProbePlace] = {}
    for found in image.functions:
        deadline.check()
        code = os.pread(fd, _LOOP_BYTES, found.offset)
        skip = placement_aarch64.skipped_bytes if image.machine == "aarch64" else skipped_bytes
        skipped = skip(code, found.size_bytes)
        if skipped is not None:
            offset = found.offset + skipped
            chosen.setdefault(offset, ProbePlace(offset, found))
    return tuple(chosen[offset] for offset in sorted(chosen))


def skipped_bytes(code: bytes, size_bytes: int = 0) -> int:
    """Returns the number of bytes between the start of an x86-64 function and its probe. 0 means that its
    first byte is probed.

    ``code`` begins with the function, and may extend beyond it. ``size_bytes`` is the function's length; 0 if
    the symbol does not say.
    """
    if _is_emulated_push(code):
        return 0  # Most functions begin with a push, which is emulated: nothing has to be decoded.
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
        # Only the relative forms of these instructions are emulated, and only without an operand-size prefix.
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
    """Returns whether a jump in ``code`` has a target after its first byte and at most at byte
    ``skipped``."""
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
    import capstone  # Imported here, only once a library was found, because it takes 30 ms.

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    return decoder
