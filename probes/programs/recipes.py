"""Defines what compiled programs are built from: the source, the options, and the numbers that are filled in
when they are loaded."""

from __future__ import annotations

import hashlib
import json
import mmap
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stalltop import bpf
from stalltop.probes.programs.compiled import (
    KPROBE,
    PERF_EVENT,
    RAW_TRACEPOINT,
    Compiled,
    CompiledMap,
    CompiledProgram,
)

SOURCE: Final = Path(bpf.__file__).parent
HEADERS: Final = SOURCE / "headers"
MARK: Final = 0x5354414C4C000000
"""AT_LOAD_MARK of bpf/base/at_load.h."""
RING_BYTES: Final = "RING_BYTES"
"""Name of the number that is the size of a ring."""

_ORDERED_ATOMICS: Final = (5, 18)
"""The first Linux release whose BPF compiler for aarch64 supports atomic operations that return a result."""

_FORMAT: Final = 1
"""Version of the request to the compiler, apart from the source and the options. It is a part of every key of
the cache."""
_STAND_INS: Final = {"SLOTS": 61, "THREADS": 67, "CPUS": 71, "BLOCKS": 73, "MOST_OCTAVES": 79}
"""Stand-ins, during the compilation, for sizes of maps that are known only at loading. They are small,
because the compiler creates each map. No other map has one of these sizes, so the maps to resize can be found
by them."""
_RING: Final = 27  # BPF_MAP_TYPE_RINGBUF
_INNER: Final = {"octaves": "octave_block"}
"""Names of arrays of maps, each with the map like which its elements are."""
_INCLUDE: Final = re.compile(r'#include "([^"]+)"\s*')


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that determines compiled programs, except the compiler."""

    text: str
    programs: Mapping[str, int]
    """Names of functions, each with its type: KPROBE, RAW_TRACEPOINT or PERF_EVENT."""
    flags: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Names, in the source, of numbers that become known when the programs are loaded."""

    def request(self, niceness: int) -> dict[str, Any]:
        """Returns the request to ``probes.programs.compiler``."""
        return {
            "text": self.text,
            "cflags": self._options(),
            "headers": str(HEADERS),
            "programs": list(self.programs),
            "mark": MARK,
            "niceness": niceness,
        }

    def key(self) -> str:
        """Returns a digest of everything that determines the compiled programs, except the compiler's
        version."""
        headers = {str(path.relative_to(HEADERS)): path.read_text() for path in HEADERS.rglob("*.h")}
        parts = [_FORMAT, platform.machine(), self._options(), dict(self.programs), self.text, headers]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def compiled(self, answer: Mapping[str, Any], seconds: float) -> Compiled:
        """Returns the programs of the compiler's answer. Raises KeyError, TypeError or ValueError if the
        answer is not valid."""
        names = {size: name for name, size in _STAND_INS.items()}

        def entries(said: int, kind: int) -> int | str:
            return RING_BYTES if kind == _RING else names.get(said, said)

        return Compiled(
            tuple(
                CompiledMap(
                    **{**said, "entries": entries(said["entries"], said["type"])},
                    inner=_INNER.get(said["name"], ""),
                )
                for said in answer["maps"]
            ),
            tuple(
                CompiledProgram.from_text(
                    said["name"],
                    self.programs[said["name"]],
                    said["code"],
                    said["maps"],
                    [(number, self.values[of]) for number, of in said["values"]],
                )
                for said in answer["programs"]
            ),
            seconds,
        )

    def _options(self) -> list[str]:
        return [
            *self.flags,
            *(f"-D{name}=AT_LOAD({number})" for number, name in enumerate(self.values)),
            *(f"-D{name}={size}" for name, size in _STAND_INS.items()),
            # BCC creates a ring whose size is a number of whole pages.
            "-DRING_PAGES=1",
            f"-DPAGE_SIZE={mmap.PAGESIZE}",
        ]


def source_text(name: str = "trace.c") -> str:
    """Returns a file of ``bpf/`` with the headers of ``bpf/`` inlined, because BCC finds maps only in a
    single text."""
    included: set[str] = set()

    def lines_of(name: str) -> list[str]:
        lines = [f'#line 1 "{name}"']
        for number, line in enumerate((SOURCE / name).read_text().splitlines(), 1):
            found = _INCLUDE.fullmatch(line)
            if found is None:
                lines.append(line)
            elif found[1] in included:
                lines.append("")
            else:
                included.add(found[1])
                lines += [*lines_of(found[1]), f'#line {number + 1} "{name}"']
        return lines

    return "\n".join(lines_of(name)) + "\n"


FILLING: Final = "records_are_free"
FREEING: Final = "record_is_over"
"""Names of the programs of bpf/filling.h, which are not attached to anything."""


def ordering(machine: str, release: str) -> tuple[str, ...]:
    """Returns the options for a machine on which other CPUs may see writes in another order
    (``bpf/base/ordering.h``)."""
    version = re.match(r"(\d+)\.(\d+)", release)
    known = version is not None and (int(version[1]), int(version[2])) >= _ORDERED_ATOMICS
    return ("-DORDERED_ATOMICS",) if machine == "aarch64" and known else ()


SESSION: Final = "call_in_session"
"""Name of the program of sessions (bpf/timed.h), which is loaded later than the others, if at all."""

STACK_READER: Final = "walk_stack"
"""Name of the program of bpf/stacks/walk.h, which the program at returns calls."""
SAMPLE_READERS: Final = ("walk_leaving", "walk_waker")
"""Names of the programs of bpf/stacks/samples.h that the programs at tracepoints of the scheduler call, in
the order of ``sample_readers``."""
SAMPLES: Final = "samples"
"""Name of their ring, into which `CLOCK` writes, too."""
CLOCK: Final = "clock_ticks"
"""Name of the program at the clocks of CPUs (bpf/stacks/samples.h), which is loaded later than the
others."""

_PROBES: Final = (
    *("call_begins", "call_returns", "naming_begins", "naming_returns"),
    *("choosing_begins", "choosing_returns", SESSION, STACK_READER),
)
_TRACEPOINTS: Final = ("thread_ends", "program_begins", "task_changes_cgroup", FILLING, FREEING)
_SPLITTING: Final = ("thread_switches", "thread_wakes", "thread_moves", *SAMPLE_READERS)
"""Raw tracepoint programs that are present only if calls are split."""


def tracing(task: Sequence[str], namespace: Sequence[str], release: str | None = None) -> Recipe:
    """Returns the recipe of the programs that count calls.

    ``task`` names the numbers that are needed to split the time of calls; without them, no call is split.
    ``namespace`` names the numbers that identify stalltop's PID namespace; it is empty if that is the host's.
    """
    return Recipe(
        source_text(),
        {
            **dict.fromkeys(_PROBES, KPROBE),
            **dict.fromkeys((*_TRACEPOINTS, *(_SPLITTING if task else ())), RAW_TRACEPOINT),
            CLOCK: PERF_EVENT,
        },
        (
            *(("-DWITH_SPLITS",) if task else ()),
            *ordering(platform.machine(), platform.release() if release is None else release),
        ),
        ("MOST_FOLLOWERS", *task, *namespace),
    )
