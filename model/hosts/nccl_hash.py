"""The hash by which NCCL names a communicator in its logs (``commHash``), in its RAS and in its profilers.

It is a hash of the ``ncclUniqueId`` with which the communicator was made: 128 bytes. Up to NCCL 2.25 it is
DJB2a, which multiplies by 33 and exclusive-ors the next byte. Since NCCL 2.26 it mixes two accumulators with
each word of 8 bytes. Communicators that were split off others have hashes of another kind.
"""

from __future__ import annotations

import struct
from typing import Final

_BITS: Final = (1 << 64) - 1
_DJB2_START: Final = 5381
_MIX_SUM: Final = 0x9DE62BBC8CEF3CE3
_MIX_XOR: Final = 0x485CD6311B599E79
_END_FIRST: Final = 0xBAC3BD562846DE6B
_END_SECOND: Final = 0x995A187A14E7B445
"""Multipliers of the hash since NCCL 2.26."""


def nccl_hash(unique_id: bytes) -> int:
    """Returns the hash of NCCL 2.26 and later. The length of ``unique_id`` must be a multiple of 8."""
    total, other = 1 ^ len(unique_id), 1
    for (word,) in struct.iter_unpack("<Q", unique_id):
        total = (total + other) & _BITS
        other ^= total
        total ^= total >> 31
        total = total * _MIX_SUM & _BITS
        other ^= other >> 32
        other = other * _MIX_XOR & _BITS
        total = (total + word) & _BITS
    total ^= total >> 31
    total = (total * _END_FIRST + other) & _BITS
    total ^= total >> 32
    return total * _END_SECOND & _BITS


def nccl_hash_before_2_26(unique_id: bytes, *, signed: bool) -> int:
    """Returns the hash of NCCL up to 2.25. ``signed``: whether ``char`` has a sign, as on x86-64; it has none
    on ARM."""
    found = _DJB2_START
    for byte in unique_id:
        value = byte - 256 if signed and byte > 127 else byte
        found = (found * 33 & _BITS) ^ (value & _BITS)
    return found


def nccl_hashes(unique_id: bytes, *, signed: bool) -> str:
    """Returns both hashes in hexadecimal, as NCCL writes them: of NCCL 2.26 and later, then of earlier
    versions; '' if ``unique_id`` has only zeros, since the communicator was not made with one."""
    if not any(unique_id):
        return ""
    return f"{nccl_hash(unique_id):#x} {nccl_hash_before_2_26(unique_id, signed=signed):#x}"
