"""Tests the hashes by which NCCL names communicators. The expected values were computed in C, by a program
that does what NCCL's ``getHash`` of the version does."""

from __future__ import annotations

import pytest

from stalltop.model.hosts.nccl_hash import nccl_hash, nccl_hash_before_2_26, nccl_hashes

ZEROS, COUNT, MIXED = bytes(128), bytes(range(128)), bytes((n * 197 + 13) & 255 for n in range(128))


@pytest.mark.parametrize(
    ("unique_id", "now", "before", "on_arm"),
    [
        (ZEROS, 0xCC976EC6C24BB53C, 0x90116B2EAA8B6505, 0x90116B2EAA8B6505),
        (COUNT, 0x6AFE1CC17717E1F4, 0xBF47C767CBDF3105, 0xBF47C767CBDF3105),
        (MIXED, 0xD2FD7ABBBB6699AC, 0x44F9662AB26C9485, 0x1C37F700FC4D6985),
    ],
)
def test_hashes_are_those_of_nccl(unique_id: bytes, now: int, before: int, on_arm: int) -> None:
    assert nccl_hash(unique_id) == now
    assert nccl_hash_before_2_26(unique_id, signed=True) == before
    assert nccl_hash_before_2_26(unique_id, signed=False) == on_arm


def test_every_byte_counts() -> None:
    changed = [bytes([*MIXED[:at], MIXED[at] ^ 1, *MIXED[at + 1 :]]) for at in range(128)]
    assert len({nccl_hash(one) for one in changed}) == 128
    assert len({nccl_hash_before_2_26(one, signed=True) for one in changed}) == 128


def test_they_are_written_as_in_logs() -> None:
    assert nccl_hashes(MIXED, signed=True) == "0xd2fd7abbbb6699ac 0x44f9662ab26c9485"
    assert nccl_hashes(ZEROS, signed=True) == ""
