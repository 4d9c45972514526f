"""The structs that tell what the host does are alike for the compiler and for numpy, and have no padding."""

from __future__ import annotations

from pathlib import Path

from stalltop.probes.host import layout as host_layout
from stalltop.probes.host.parts import PARTS
from stalltop.probes.programs.recipes import source_text
from tests.unit.test_layout import run_c

STRUCTS = {
    "io_key": host_layout.IO_KEY,
    "io": host_layout.IO,
    "user": host_layout.USER,
    "use": host_layout.USE,
    "socket_key": host_layout.SOCKET_KEY,
    "victim_key": host_layout.VICTIM_KEY,
    "victim": host_layout.VICTIM,
}


def test_structs_are_laid_out_alike(tmp_path: Path) -> None:
    lines, expected = [], []
    for name, dtype in STRUCTS.items():
        lines.append(f'printf("%lu ", sizeof(struct {name}));')
        expected.append(dtype.itemsize)
        fields = dict(dtype.fields or {})
        for field, (kind, offset, *_) in fields.items():
            lines.append(f'printf("%lu %lu ", __builtin_offsetof(struct {name}, {field}), ')
            lines.append(f"sizeof(((struct {name} *)0)->{field}));")
            expected += [offset, kind.itemsize]
        assert dtype.itemsize == sum(kind.itemsize for kind, *_ in fields.values()), "no padding in keys"
    found = run_c(tmp_path, '#include "host_layout.h"', "\n".join(lines))
    assert list(map(int, found)) == expected


def test_every_part_is_in_the_source() -> None:
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
