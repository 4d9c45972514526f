"""Chooses where in an aarch64 function to place the probe. Works like ``placement``, with the instructions
that the arm64 Linux kernel simulates.

The Linux kernel simulates branches, adr and adrp, and from 6.13 on nop
(arch/arm64/kernel/probes/decode-insn.c). It single-steps a copy of any other instruction. The return address
is in x30 when a function begins, and a return probe replaces it there. So the probe has to come before the
instruction that saves x30 (``stp x29, x30, …``) or signs it (``paciasp``: a return address that was replaced
after that would not pass the check). The functions of libcudart and libnccl begin with such a ``stp``, so
they are probed there and single-stepped. The functions of libcuda begin with adrp.

A load relative to the program counter is never probed. To simulate it, Linux kernels before 6.12, unless
patched, read kernel memory at the user's address; later ones refuse the probe.
"""

from __future__ import annotations

from typing import Final

_WORD: Final = 4
_MAX_INSTRUCTIONS: Final = 8
"""Maximum number of instructions that are searched. If the Linux kernel simulates none of them, the probe is
placed on the first one that is not a load relative to the program counter."""
_LOOP_BYTES: Final = 4096
"""Number of bytes at the beginning of a function in which backward jumps are searched for, as in
``placement``."""

# Instruction words, as pairs of mask and value: Arm Architecture Reference Manual, C4.1, "A64 instruction
# set".
_NEAR_JUMPS: Final = (
    (0xFC000000, 0x14000000),  # b (branch),
    (0xFF000010, 0x54000000),  # b.cond (conditional branch),
    (0x7E000000, 0x34000000),  # cbz and cbnz (compare with zero and branch),
    (0x7E000000, 0x36000000),  # tbz and tbnz (test a bit and branch)
)
_SIMULATED: Final = (
    *_NEAR_JUMPS,
    (0x1F000000, 0x10000000),  # adr and adrp (address of a label),
    (0xFFFFFC1F, 0xD61F0000),  # br (branch to a register),
    (0xFFFFFC1F, 0xD65F0000),  # ret (return)
)
"""Instructions that every supported Linux kernel simulates, except bl and blr, which write x30, and loads
relative to the program counter."""
_LITERAL_LOADS: Final = ((0x3B000000, 0x18000000),)
_NOTHING_DONE: Final = frozenset({0xD503201F, 0xD503241F, 0xD503245F, 0xD503249F, 0xD50324DF})
"""Instructions without any effect: nop and the landing pads of indirect branches (bti, bti c, bti j, bti
jc)."""
_COMPUTING: Final = (
    (0x1C000000, 0x10000000),  # data processing with an immediate,
    (0x0E000000, 0x0A000000),  # data processing with registers,
    (0xBFC00000, 0xB9400000),  # ldr with an offset,
    (0xBF000000, 0x18000000),  # ldr relative to the program counter
)
"""Instructions that write only the register in their lowest bits, and perhaps flags."""
_SETTING_FLAGS: Final = ((0x3F000000, 0x31000000), (0x3F000000, 0x2B000000))
"""adds and subs. Without a destination register they are cmn and cmp. Forms that do not set flags are left
out, because they would write the stack pointer instead."""
_FREE: Final = range(8, 30)
"""Registers that hold neither arguments nor the return address."""
_RETURN: Final = 30
_NO_REGISTER: Final = 31


def skipped_bytes(code: bytes, size_bytes: int = 0) -> int | None:
    """Returns the number of bytes between the start of an aarch64 function and its probe; None if no place is
    suitable.

    ``code`` begins with the function, and may extend beyond it. ``size_bytes`` is the function's length; 0 if
    the symbol does not say.
    """
    code = code[: min(size_bytes or len(code), _LOOP_BYTES)]
    words = [int.from_bytes(code[at : at + _WORD], "little") for at in range(0, len(code) - _WORD + 1, _WORD)]
    place = None if words else 0
    for number, word in enumerate(words[:_MAX_INSTRUCTIONS]):
        if place is None and not _is(word, _LITERAL_LOADS):
            place = number
        if _is(word, _SIMULATED):
            if not number or not _jumps_into(words, number):
                place = number
            break
        if not _leaves_arguments_alone(word):
            break
    return None if place is None else place * _WORD


def _is(word: int, kinds: tuple[tuple[int, int], ...]) -> bool:
    return any(word & mask == value for mask, value in kinds)


def _leaves_arguments_alone(word: int) -> bool:
    """Returns whether the instruction certainly leaves the arguments, the stack and the return address
    unchanged."""
    if word in _NOTHING_DONE:
        return True
    written, read = word & 31, (word >> 5 & 31, word >> 16 & 31)
    harmless = written in _FREE or (written == _NO_REGISTER and _is(word, _SETTING_FLAGS))
    return harmless and _is(word, _COMPUTING) and _RETURN not in read


def _jumps_into(words: list[int], place: int) -> bool:
    """Returns whether a jump has a target after the function's first instruction and at most at instruction
    number ``place``."""
    return any(
        _is(word, _NEAR_JUMPS) and 0 < number + _distance(word) <= place for number, word in enumerate(words)
    )


def _distance(word: int) -> int:
    """Returns the distance of a near jump, in instructions."""
    if _is(word, _NEAR_JUMPS[:1]):
        bits, at = 26, 0
    elif _is(word, _NEAR_JUMPS[3:]):
        bits, at = 14, 5
    else:
        bits, at = 19, 5
    field = word >> at & (1 << bits) - 1
    return field - (1 << bits) if field >> bits - 1 else field
