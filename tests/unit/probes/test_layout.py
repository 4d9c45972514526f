"""Tests that the BPF programs and the monitor agree on structs and constants."""

from __future__ import annotations

import platform
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import write_layout
from stalltop.model import cuda_kernels as kernels
from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS, index_of
from stalltop.model.window import LOSSES, SPLITS
from stalltop.probes import layout
from stalltop.probes.operations import KINDS
from stalltop.probes.programs.recipes import SOURCE, source_text

ROOT = Path(__file__).resolve().parents[3]
NCCL_TYPE_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""Size in bytes of ``ncclDataType_t`` 0 to 11: int8, uint8, int32, uint32, int64, uint64, float16, float32,
float64, bfloat16, float8e4m3, float8e5m2."""


def run_c(into: Path, includes: str, body: str, given: str = "") -> list[str]:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing on this machine")
    source, program = into / "ask.c", into / "ask"
    source.write_text(f"{includes}\nextern int printf(const char *, ...);\nint main(void)\n{{\n{body}\n}}\n")
    # The test compares types in the Linux headers of the BPF programs, so it uses these headers. stddef.h is
    # the compiler's own.
    subprocess.run(
        ["gcc", "-I", SOURCE / "headers/include", "-I", SOURCE, "-o", program, source], check=True, timeout=60
    )
    return subprocess.run([program], input=given, text=True, capture_output=True, check=True).stdout.split()


def test_generated_python_files_match_the_headers() -> None:
    written = {ROOT / path: write_layout.written(names) for path, names in write_layout.WRITTEN.items()}
    assert [path for path, text in written.items() if path.read_text() != text] == []


def test_a_struct_with_padding_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layout.h").write_text("#include <linux/types.h>\nstruct one {\n\t__u32 a;\n\t__u64 b;\n};\n")
    (tmp_path / "headers").symlink_to(SOURCE / "headers")
    monkeypatch.setattr(write_layout, "BPF", tmp_path)
    with pytest.raises(ValueError, match="struct one: 4 unused bytes before b"):
        write_layout.written(("layout.h",))


def test_constants_equal_those_of_the_model() -> None:
    assert layout.SLOT.itemsize == 448, "a whole number of cache lines"
    assert layout.COUNTERS == layout.OCTAVES * layout.PER_OCTAVE == COUNTERS
    assert len(KINDS) == layout.KINDS
    assert kernels.BUCKETS <= layout.BUCKETS
    assert len(SPLITS) == layout.SPLITS
    shifts = sum((size.bit_length() - 1) << (2 * number) for number, size in enumerate(NCCL_TYPE_BYTES))
    assert f"#define NCCL_SHIFTS 0x{shifts:08x}ULL" in source_text()
    assert f"#define NCCL_TYPES {len(NCCL_TYPE_BYTES)}\n" in source_text()


def test_parts_are_the_columns_of_split_ns(tmp_path: Path) -> None:
    names = [part.upper() for part in SPLITS]
    body = "\n".join(f'printf("%d ", {name});' for name in [*names, "POLLING"])
    assert list(map(int, run_c(tmp_path, '#include "waits/waits.h"', body))) == [
        *range(len(SPLITS)),
        len(SPLITS),
    ]


def test_system_call_numbers_equal_those_of_the_c_library(tmp_path: Path) -> None:
    column = {"x86_64": "x86", "aarch64": "arm"}.get(platform.machine())
    if column is None:
        pytest.skip("the numbers of system calls are not known for this machine")
    lists = "COMMON_CALLS(ASK) COMMON_WAKING_CALLS(ASK)"
    if column == "x86":
        lists += " X86_CALLS(ASK) X86_WAKING_CALLS(ASK)"
    macro = f'#define ASK(name, x86, arm, ...) printf("%d %d ", SYS_##name, {column});'
    found = list(
        map(int, run_c(tmp_path, f'#include <sys/syscall.h>\n#include "waits/wakers.h"\n{macro}', lists))
    )
    assert len(found) > 2 * 90
    assert found[::2] == found[1::2]


def test_the_system_call_decides_the_part_of_a_wait(tmp_path: Path) -> None:
    asked = {
        # system call: part of the split for an interruptible wait, and for an uninterruptible one
        "futex": ("lock", "lock"),
        "read": ("process", "disk"),
        "ioctl": ("gpu", "gpu"),
        "recvfrom": ("network", "network"),
        "clock_nanosleep": ("sleep", "sleep"),
        "munmap": ("memory", "memory"),
        "fsync": ("disk", "disk"),
        "getpid": ("other", "other"),
    }
    body = "\n".join(
        f'printf("%d %d ", waits_for(SYS_{name}, 0), waits_for(SYS_{name}, 2));' for name in asked
    )
    found = list(map(int, run_c(tmp_path, '#include <sys/syscall.h>\n#include "waits/waits.h"', body)))
    assert [SPLITS[part] for part in found] == [part for parts in asked.values() for part in parts]


def test_the_system_call_decides_which_waits_it_can_end(tmp_path: Path) -> None:
    asked = {
        # system call: parts of the split whose waits this call can end
        "futex": {"lock", "other"},
        "write": {"process", "network", "other"},
        "sendto": {"process", "network", "other"},
        "close": {"lock", "process", "network", "other"},
        "exit_group": {"lock", "process", "network", "other"},
        "kill": {"process", "other"},
        "getpid": set(),
        "fsync": set(),
    }
    body = "\n".join(f'printf("%u ", can_wake(SYS_{name}));' for name in asked)
    found = list(map(int, run_c(tmp_path, '#include <sys/syscall.h>\n#include "waits/wakers.h"', body)))
    assert [{part for place, part in enumerate(SPLITS) if bits >> place & 1} for bits in found] == list(
        asked.values()
    )


def test_every_loss_has_a_counter() -> None:
    # Some losses have no BPF counter: the Linux kernel counts "missed", and the monitor counts the others.
    others = {"missed", "no_overlap", "evicted", "unprobed"}
    assert {*(layout.LOSSES.names or ()), *others} == set(LOSSES)


def test_the_bpf_program_and_hdr_histogram_choose_the_same_counter(tmp_path: Path) -> None:
    chosen = random.Random(37)
    values = {0, 1, 127, 128, 255, 256, 257, 511, 512, HIGHEST_NS - 1, HIGHEST_NS}
    values |= {near for bits in range(38) for near in ((1 << bits) - 1, 1 << bits, (1 << bits) + 1)}
    values |= {chosen.getrandbits(chosen.randint(1, 37)) for _ in range(20_000)}
    ordered = sorted(value for value in values if value <= HIGHEST_NS)
    numbers = ",".join(f"{value}ULL" for value in ordered)
    body = f"static const unsigned long long values[] = {{{numbers}}};\n"
    body += 'for (unsigned long i = 0; i < sizeof(values) / 8; i++) printf("%u ", counter_of(values[i]));'
    found = run_c(tmp_path, '#include "calls/hdr.h"', body)
    assert list(map(int, found)) == [index_of(value) for value in ordered]


def test_the_source_includes_every_header_once() -> None:
    text = source_text()
    assert '#include "' not in text
    for guard in ("LAYOUT", "HDR", "ARGUMENTS", "MAPS", "THREADS", "SLOTS", "SCHEDULE", "WAITS"):
        assert text.count(f"#define STALLTOP_{guard}_H\n") == 1
