"""Tests that flags, programs and maps of the host monitoring exist in the BPF source."""

from __future__ import annotations

from stalltop.probes.host.parts import PARTS
from stalltop.probes.programs.recipes import source_text


def test_every_part_is_in_the_bpf_source() -> None:
    source = source_text("host.c")
    for part in PARTS:
        assert part.flag in source
        for program in part.programs:
            assert f"int {program}(" in source
        for name in part.maps:
            assert f" {name}, " in source
        for struct, members in part.members.items():
            for member in members:
                assert f"{struct}_{member}".upper() in source
