"""The structs that the kernel's programs and the monitor share are alike for the compiler and for numpy."""

from __future__ import annotations

import platform
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from stalltop.model import cuda_kernels as kernels
from stalltop.model.evidence import LONGEST_GAP_NS
from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS, index_of
from stalltop.model.window import LOSSES, SPLITS
from stalltop.probes import layout
from stalltop.probes.layout import Choosing, MemberState, Naming, Watched, Why
from stalltop.probes.operations import KINDS, NCCL_TYPE_BYTES, Direction, Object, Size
from stalltop.probes.programs.recipes import SOURCE, source_text

STRUCTS = {
    "slot": layout.SLOT,
    "owner": layout.OWNER,
    "slot_key": layout.OWNER,
    "frame": layout.FRAME,
    "thread": layout.THREAD,
    "function": layout.FUNCTION,
    "losses": layout.LOSSES,
    "charge_key": layout.CHARGE_KEY,
    "charge": layout.CHARGE,
    "heap": layout.HEAP,
    "piece": layout.PIECE,
    "activity": layout.ACTIVITY,
    "process_device": layout.PROCESS_DEVICE,
    "handle": layout.HANDLE,
    "member": layout.MEMBER,
    "launched": layout.LAUNCHED,
    "kernel": layout.KERNEL,
    "told_program": layout.TOLD_PROGRAM,
    "function_key": layout.FUNCTION_KEY,
    "registered": layout.REGISTERED,
    "looked_up": layout.LOOKED_UP,
    "kept_call": layout.KEPT_CALL,
    "keeping": layout.KEEPING,
    "cuda_program": layout.CUDA_PROGRAM,
}


def run_c(into: Path, includes: str, body: str, given: str = "") -> list[str]:
    if shutil.which("gcc") is None:
        pytest.skip("no compiler here")
    source, program = into / "ask.c", into / "ask"
    source.write_text(f"{includes}\nextern int printf(const char *, ...);\nint main(void)\n{{\n{body}\n}}\n")
    # The compiler's own stddef.h, but the kernel headers of the programs: theirs are the types that count.
    subprocess.run(
        ["gcc", "-I", SOURCE / "headers/include", "-I", SOURCE, "-o", program, source], check=True, timeout=60
    )
    return subprocess.run([program], input=given, text=True, capture_output=True, check=True).stdout.split()


def test_structs_are_laid_out_alike(tmp_path: Path) -> None:
    expected = []
    lines = []
    for name, dtype in STRUCTS.items():
        lines.append(f'printf("%lu ", sizeof(struct {name}));')
        expected.append(dtype.itemsize)
        assert dtype.names is not None
        for field in dtype.names:
            if name == "slot_key" and field not in ("cgroup_id", "tgid", "operation"):
                continue
            kind, offset = dtype.fields[field][:2]  # type: ignore[index]
            lines.append(f'printf("%lu %lu ", __builtin_offsetof(struct {name}, {field}), ')
            lines.append(f"sizeof(((struct {name} *)0)->{field}));")
            expected += [offset, kind.itemsize]
    found = run_c(tmp_path, '#include "layout.h"', "\n".join(lines))
    assert list(map(int, found)) == expected
    assert layout.SLOT.itemsize == 16384
    assert kernels.BUCKETS <= layout.BUCKETS
    assert len(SPLITS) == layout.SPLITS


def test_constants_are_the_same(tmp_path: Path) -> None:
    known = {
        "COUNTERS": COUNTERS,
        "SPLITS": layout.SPLITS,
        "DEPTH": layout.DEPTH,
        "CACHED": layout.CACHED,
        "ARGUMENTS": layout.ARGUMENTS,
        "TOLD": layout.TOLD,
        "FUNCTIONS": layout.FUNCTIONS,
        "NESTED": layout.NESTED,
        "KINDS": len(KINDS),
        "HOST_GAP": layout.HOST_GAP,
        "HOST_WORK": layout.HOST_WORK,
        "CHARGES": layout.CHARGES,
        "HEAPS": layout.HEAPS,
        "ALLOCATIONS": layout.ALLOCATIONS,
        "MEMBERS": layout.MEMBERS,
        "FILLED_AT_ONCE": layout.FILLED_AT_ONCE,
        "ACTIVITIES": layout.ACTIVITIES,
        "TICK_SHIFT": layout.TICK_SHIFT,
        "TICKS": layout.TICKS,
        "SPAN": layout.SPAN,
        "LAP": layout.LAP,
        "KERNELS": layout.KERNELS,
        "BUCKETS": layout.BUCKETS,
        "NAME_BYTES": layout.NAME_BYTES,
        "ENTRIES": layout.ENTRIES,
        "DEVICE_SHIFT": layout.DEVICE_SHIFT,
        "UNKNOWN_DEVICE": layout.UNKNOWN_DEVICE,
        "PROGRAM_DEVICES": layout.PROGRAM_DEVICES,
        "CONTEXTS": layout.CONTEXTS,
        "LONGEST_GAP_NS": LONGEST_GAP_NS,
    }
    kinds = {
        "SIZE": Size,
        "DIRECTION": Direction,
        "OBJECT": Object,
        "MEMBER": MemberState,
        "WHY": Why,
        "NAMING": Naming,
        "CHOOSING": Choosing,
        "WATCHED": Watched,
    }
    enums = [f"{prefix}_{value.name}" for prefix, kind in kinds.items() for value in kind]
    values = [*known.values(), *(int(value) for kind in kinds.values() for value in kind)]
    body = "\n".join(f'printf("%lld ", (long long){name});' for name in [*known, *enums])
    assert list(map(int, run_c(tmp_path, '#include "layout.h"', body))) == values
    shifts = sum((size.bit_length() - 1) << (2 * number) for number, size in enumerate(NCCL_TYPE_BYTES))
    assert f"#define NCCL_SHIFTS 0x{shifts:08x}ULL" in source_text()
    assert f"#define NCCL_TYPES {len(NCCL_TYPE_BYTES)}\n" in source_text()


def test_parts_are_the_columns_of_split_ns(tmp_path: Path) -> None:
    names = [part.upper() for part in SPLITS]
    body = "\n".join(f'printf("%d ", {name});' for name in [*names, "POLLING"])
    assert list(map(int, run_c(tmp_path, '#include "waits.h"', body))) == [*range(len(SPLITS)), len(SPLITS)]


def test_system_calls_have_the_numbers_of_the_c_library(tmp_path: Path) -> None:
    column = {"x86_64": "x86", "aarch64": "arm"}.get(platform.machine())
    if column is None:
        pytest.skip("the numbers of system calls are not known for this machine")
    lists = "COMMON_CALLS(ASK) COMMON_WAKING_CALLS(ASK)"
    if column == "x86":
        lists += " X86_CALLS(ASK) X86_WAKING_CALLS(ASK)"
    macro = f'#define ASK(name, x86, arm, ...) printf("%d %d ", SYS_##name, {column});'
    found = list(map(int, run_c(tmp_path, f'#include <sys/syscall.h>\n#include "wakers.h"\n{macro}', lists)))
    assert len(found) > 2 * 90
    assert found[::2] == found[1::2]


def test_waits_are_told_by_the_system_call(tmp_path: Path) -> None:
    asked = {
        # call: where it waits when it can be interrupted, and when it cannot
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
    found = list(map(int, run_c(tmp_path, '#include <sys/syscall.h>\n#include "waits.h"', body)))
    assert [SPLITS[part] for part in found] == [part for parts in asked.values() for part in parts]


def test_who_can_end_a_wait_is_told_by_the_system_call(tmp_path: Path) -> None:
    asked = {
        # call: the parts whose waits it can end
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
    found = list(map(int, run_c(tmp_path, '#include <sys/syscall.h>\n#include "wakers.h"', body)))
    assert [{part for place, part in enumerate(SPLITS) if bits >> place & 1} for bits in found] == list(
        asked.values()
    )


def test_every_loss_has_a_counter() -> None:
    # "missed" is told by the kernel itself; overlaps are worked out when they are read.
    assert {*(layout.LOSSES.names or ()), "missed", "no_overlap"} == set(LOSSES)


def test_the_kernel_finds_the_counter_of_a_duration_as_hdr_histogram_does(tmp_path: Path) -> None:
    chosen = random.Random(37)
    values = {0, 1, 127, 128, 255, 256, 257, 511, 512, HIGHEST_NS - 1, HIGHEST_NS}
    values |= {near for bits in range(38) for near in ((1 << bits) - 1, 1 << bits, (1 << bits) + 1)}
    values |= {chosen.getrandbits(chosen.randint(1, 37)) for _ in range(20_000)}
    ordered = sorted(value for value in values if value <= HIGHEST_NS)
    numbers = ",".join(f"{value}ULL" for value in ordered)
    body = f"static const unsigned long long values[] = {{{numbers}}};\n"
    body += 'for (unsigned long i = 0; i < sizeof(values) / 8; i++) printf("%u ", counter_of(values[i]));'
    found = run_c(tmp_path, '#include "hdr.h"', body)
    assert list(map(int, found)) == [index_of(value) for value in ordered]


def test_the_source_is_one_text_with_every_header_once() -> None:
    text = source_text()
    assert '#include "' not in text
    for guard in ("LAYOUT", "HDR", "ARGUMENTS", "MAPS", "THREADS", "SLOTS", "SCHEDULE", "WAITS"):
        assert text.count(f"#define STALLTOP_{guard}_H\n") == 1
