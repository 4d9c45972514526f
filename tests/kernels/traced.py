"""Compares what the BPF programs count in a guest with the known numbers of calls of test programs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from bench.measuring.cpu import cpu_ns
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.model.window import SPLITS
from stalltop.probes import operations
from stalltop.probes.binaries import elf
from stalltop.probes.binaries.elf import read_image
from stalltop.probes.binaries.placement import places
from stalltop.probes.maps.raw import RawCharge
from stalltop.probes.operations import Function
from stalltop.probes.tracer.attach import Attachment, Point
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel import traced_program
from tests.kernel.relays import Relay
from tests.kernel.traced_program import TracedProgram, points

CALLS: Final = 2_000
THREADS: Final = 3
BEGINNINGS: Final = ("plain", "pushing", "comparing", "marked")
"""Functions of native/traced.c with different first instructions."""
STACKED: Final = ("outer", "jumping", "leaving")
"""Functions of native/traced.c: the first calls others, the second tail-calls another, the third is left by
longjmp."""
EXTENTS: Final = {"extending": 11 * 7 * 3, "filling": 13 * 5 * 2}
"""Functions of native/traced.c that take a struct by value, and the number of bytes that native/driver.c
passes to each."""
WAITS: Final = {
    "wait_memory": "memory",
    "wait_lock": "lock",
    "wait_poll": "gpu",
    "wait_socket": "network",
    "wait_epoll": "network",
    "wait_pipe": "process",
    "wait_child": "process",
    "wait_sleep": "sleep",
}
"""Functions of native/waiter.c, and the part of the split that their time must be in."""
WAITED_CALLS: Final = 8
SPIN_MS: Final = 20
SPINS: Final = 25
ROUNDS: Final = 3

_FIRST: Final = 400
"""First id (cookie) and first operation of the test functions, above the numbers of CUDA's functions and
below the number of host gaps."""
_SIZED: Final = {function.symbol: function for function in traced_program.FUNCTIONS if function.size}
OWN: Final = {
    symbol: replace(
        _SIZED.get(symbol, Function(0, symbol, 0, "driver")), id=_FIRST + number, operation=_FIRST + number
    )
    for number, symbol in enumerate((*BEGINNINGS, *STACKED, *EXTENTS, *WAITS, "run", "spin"))
}
FUNCTIONS: Final = (*operations.FUNCTIONS, *OWN.values())
NAME: Final = {function.operation: function.symbol for function in OWN.values()}

CYCLES: Final = 300
ITEMS: Final = (
    "cudaLaunchKernel cudaMemcpyAsync:1:4096:1 cuLaunchKernel_ptsz cuMemcpyHtoDAsync_v2:1:1000 "
    "cuStreamSynchronize"
)
A_CYCLE: Final = {
    # (operation, nested): (calls, bytes) of one cycle of ITEMS. Nested: driver calls made by runtime calls.
    ("cudaLaunchKernel", False): (1, 0),
    ("cudaMemcpyAsync HtoD", False): (1, 4096),
    ("cuLaunchKernel", True): (1, 0),
    ("cuMemcpyHtoDAsync", True): (1, 4096),
    ("cuLaunchKernel", False): (1, 0),
    ("cuMemcpyHtoDAsync", False): (1, 1000),
    ("cuStreamSynchronize", False): (1, 0),
}
_TRACED: Final = {name.split()[0] for name, _ in A_CYCLE}


@dataclass
class CallSums:
    """Sums of the nested, or of the outermost, calls of one operation by one process in one cgroup."""

    calls: int = 0
    bytes: int = 0
    total_ns: int = 0
    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))


@dataclass(frozen=True)
class TracedSide:
    """The BPF programs in this guest, with the monitor's side of them, and the programs that they trace."""

    kernel: KernelSide
    driver: Path
    waiter: Path
    relay: Path
    built: Built

    def attach(self, file: Path, symbols: list[str]) -> contextlib.closing[Attachment]:
        """Probe the functions ``symbols`` of ``OWN`` in ``file`` until the block ends; discard earlier
        counts."""
        attachment = self.kernel.attach(str(file), points(file, [OWN[symbol] for symbol in symbols]))
        assert not attachment.failed, attachment.failed
        assert attachment.count == 2 * len(symbols)
        self.read()
        self.kernel.losses()
        self.kernel.evidence.charges()
        return contextlib.closing(attachment)

    def read(self) -> dict[tuple[int, int, str, bool], CallSums]:
        """Return the sums since the previous read, without host gaps, by (PID, cgroup id, operation, nested).

        Checks that each histogram holds all calls and that the parts of each split add up to the total time.
        """
        counts = self.kernel.read()
        assert counts.calls.tolist() == counts.histograms.totals().tolist()
        rows: dict[tuple[int, int, str, bool], CallSums] = {}
        for at, key in enumerate(counts.keys):
            row = CallSums(int(counts.calls[at]), int(counts.bytes[at]), int(counts.total_ns[at]))
            if counts.split_ns is not None:
                row.parts = dict(zip(SPLITS, counts.split_ns[at].tolist(), strict=True))
                assert sum(row.parts.values()) == row.total_ns, (key, row)
            if not key.between_calls:
                name = NAME.get(key.operation) or operations.operation(key.operation).name
                known = rows.setdefault((key.tgid, key.cgroup_id, name, key.nested), CallSums())
                known.calls += row.calls
                known.bytes += row.bytes
                known.total_ns += row.total_ns
                for part, ns in row.parts.items():
                    known.parts[part] += ns
        return rows

    def lost(self) -> dict[str, int]:
        """Return the losses since the previous call. Leaves out waits that began so long ago that the BPF
        programs no longer remember who had the CPU, processes that could make calls before their libraries
        were probed (the tests count what is called after that), and stacks, which nobody reads here."""
        left_out = ("no_slice", "no_stack", "uncharged_ns", "unprobed")
        return {name: count for name, count in self.kernel.losses().items() if count and name not in left_out}


def count_calls(side: TracedSide, found: dict[str, Any]) -> None:
    """Check calls of functions with each kind of first instruction in several threads, then nested calls."""
    library = side.driver.with_name("libtraced.so")
    made = len(BEGINNINGS) * THREADS * CALLS
    # Attach only once, since probes that are attached by perf events stay for some time after they are
    # closed.
    with (
        side.attach(library, [*BEGINNINGS, *STACKED, *EXTENTS]),
        TracedProgram(side.driver) as program,
    ):
        for name in BEGINNINGS:
            program(f"threads {THREADS} {name} {CALLS}")
        counted = {name: row.calls for (tgid, _, name, _), row in side.read().items() if tgid == program.pid}
        found["made"], found["counted"] = made, sum(counted.values())
        assert counted == dict.fromkeys(BEGINNINGS, THREADS * CALLS)
        assert (lost := side.lost()) == {}, lost
        _count_frames(side, program, found)


def _count_frames(side: TracedSide, program: TracedProgram, found: dict[str, Any]) -> None:
    """Check nested calls, tail calls, calls left by longjmp, and functions with structs by value."""
    # A call left by longjmp is detected by the next call with the same stack pointer.
    for command in ("outer 25", "call jumping 50", "longjmp_then_call 5", "call plain 1", "sizes"):
        program(command)
    counted = {
        (name, nested): (row.calls, row.bytes)
        for (tgid, _, name, nested), row in side.read().items()
        if tgid == program.pid
    }
    made = {
        ("outer", False): (1, 0),
        ("plain", True): (75, 0),
        ("jumping", False): (50, 0),
        ("plain", False): (6, 0),
        **{(name, False): (1, size) for name, size in EXTENTS.items()},
    }
    for word, rows in (("made", made), ("counted", counted)):
        found[word] += sum(calls for calls, _ in rows.values())
    assert counted == made, counted
    assert side.lost() == {"abandoned": 5}


def count_sessions(side: TracedSide, found: dict[str, Any]) -> None:
    """Check calls in several threads of which only some are timed. This loads the program of sessions."""
    library = side.driver.with_name("libtraced.so")
    attachment = side.kernel.attach_sessions(
        str(library), points(library, [OWN[name] for name in BEGINNINGS])
    )
    with contextlib.closing(attachment), TracedProgram(side.driver) as program:
        assert not attachment.failed, attachment.failed
        side.read()
        for name in BEGINNINGS:
            program(f"threads {THREADS} {name} {CALLS}")
        counted = {name: row.calls for (tgid, _, name, _), row in side.read().items() if tgid == program.pid}
    found["made"], found["counted"] = len(BEGINNINGS) * THREADS * CALLS, sum(counted.values())
    assert counted == dict.fromkeys(BEGINNINGS, THREADS * CALLS)
    assert (lost := side.lost()) == {}, lost


def count_cuda(side: TracedSide, found: dict[str, object]) -> None:
    """Check the calls that two processes in two cgroups make to the stand-in CUDA libraries, which are probed
    like real ones."""
    with contextlib.ExitStack() as stack:
        cgroups = stack.enter_context(Cgroups())
        for library, layer in ((side.built.cudart, operations.RUNTIME), (side.built.cuda, operations.DRIVER)):
            attachment = side.kernel.attach(str(library), _placed(library, layer))
            assert not attachment.failed, attachment.failed
            stack.callback(attachment.close)
        callers: dict[tuple[int, int], tuple[Caller, int]] = {}
        for threads in (2, 1):
            cgroup = cgroups.make(container_path("docker", container_id()))
            caller = stack.enter_context(Caller(side.built, cgroup=cgroup))
            caller.do("load cudaLaunchKernel cuLaunchKernel")
            callers[caller.pid, cgroup.stat().st_ino] = caller, threads
        side.read()
        side.kernel.losses()
        for caller, threads in callers.values():
            caller.tell(f"burst {threads} {CYCLES} {ITEMS}")
        for caller, _ in callers.values():
            caller.answer()
        counted = {
            key: (row.calls, row.bytes) for key, row in side.read().items() if (key[0], key[1]) in callers
        }
    made = {
        (*who, operation, nested): (threads * CYCLES * calls, threads * CYCLES * size)
        for who, (_, threads) in callers.items()
        for (operation, nested), (calls, size) in A_CYCLE.items()
    }
    found["made"] = sum(calls for calls, _ in made.values())
    found["counted"] = sum(calls for calls, _ in counted.values())
    assert counted == made
    assert (lost := side.lost()) == {}, lost


def _placed(library: Path, layer: str) -> list[Point]:
    """Return the points of the functions that `count_cuda` calls, at the instructions that stalltop
    chooses."""
    # An emulated CPU takes some thirty times as long as a real one.
    with library.open("rb") as file, patch.object(elf, "FILE_SECONDS", 30 * elf.FILE_SECONDS):
        chosen = places(file.fileno(), read_image(file.fileno(), (layer,)))
    return [
        Point(place.offset, place.found.function.id)
        for place in chosen
        if place.found.function.symbol in _TRACED
    ]


def split_waits(side: TracedSide, found: dict[str, object]) -> None:
    """Check that each kind of wait is counted in the right part of the split; `read` checks the sum of the
    parts."""
    told: dict[str, dict[str, float]] = {}
    with (
        side.attach(side.waiter, [*WAITS, "run"]),
        TracedProgram(side.waiter, before=lambda: os.chdir("/tmp")) as program,
    ):
        for name, part in {**WAITS, "run": "running"}.items():
            (by_caller,) = program(f"{name} {WAITED_CALLS} 5")
            ((_, row),) = ((key, row) for key, row in side.read().items() if key[0] == program.pid)
            told[name] = {part: round(ns / 1e6, 2) for part, ns in row.parts.items() if ns}
            found["parts"] = told
            assert row.calls == WAITED_CALLS, name
            assert row.total_ns <= by_caller, name
            # Running and run-queue time depend on the load of this machine; the other parts do not.
            waited = {other: ns for other, ns in row.parts.items() if other not in ("running", "runqueue")}
            if part == "running":
                assert sum(waited.values()) <= 0.1 * row.total_ns, (name, told[name])
            else:
                assert waited[part] >= 0.9 * sum(waited.values()) > 0, (name, told[name])
    assert (lost := side.lost()) == {}, lost


def charge_waits(side: TracedSide, found: dict[str, object]) -> None:
    """Check that run-queue time of a process is charged to the process of another cgroup that had the CPU."""
    rounds: list[dict[str, int]] = []
    found["rounds"] = rounds
    with (
        side.attach(side.relay, ["spin"]),
        _two_on_one_cpu(side.relay) as (victim, mine, hog, others),
    ):
        victim("")
        for _ in range(ROUNDS):
            side.read()
            side.kernel.evidence.charges()
            before = cpu_ns(hog.pid)
            victim("")
            spent = cpu_ns(hog.pid) - before
            lost = side.read()[victim.pid, mine, "spin", False].parts["runqueue"]
            own = [charge for charge in side.kernel.evidence.charges() if charge.tgid == victim.pid]
            assert {charge.cgroup_id for charge in own} == {mine}
            by_hog = [charge for charge in own if charge.culprit_tgid == hog.pid]
            assert {charge.culprit_cgroup_id for charge in by_hog} == {others}
            of_calls = [charge for charge in own if charge.operation == OWN["spin"].operation]
            charged = _waiting(of_calls)
            hogged = _waiting([charge for charge in of_calls if charge in by_hog])
            rounds.append({"lost": lost, "charged": charged, "to the hog": hogged, "it ran": spent})
            # The run-queue time that the victim lost is charged. How much it loses also depends on the host:
            # while the guest's CPU waits for a CPU of the host, no process of the guest is preempted.
            assert lost > SPIN_MS * 1e6, rounds
            assert 0.98 * lost <= charged <= lost, (side.kernel.losses(), rounds)
            # While the victim waited, the hog had the CPU, except when the guest's kernel or this program
            # ran. The hog is charged for its CPU time plus the time for switching between the two processes,
            # which is a quarter of a millisecond per switch on an emulated CPU: hence 5 % more.
            assert 0.5 * charged < hogged <= 1.05 * spent, rounds


def _waiting(charges: list[RawCharge]) -> int:
    return sum(charge.ns for charge in charges if SPLITS[charge.part] == "runqueue")


def _leave_first_cpu() -> None:
    """Move every running process, including this one, off the CPU that the two test processes share."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            for thread in _threads(int(name)):
                with contextlib.suppress(OSError):  # ended, or a thread of the Linux kernel bound to this CPU
                    os.sched_setaffinity(thread, range(1, os.cpu_count() or 1))


def _threads(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return []


@contextlib.contextmanager
def _two_on_one_cpu(relay: Path) -> Iterator[tuple[Relay, int, Relay, int]]:
    """Run two processes on the same CPU: one makes calls, the other only computes.

    Yields each process, followed by the id of its cgroup.
    """
    with Cgroups() as cgroups:
        mine, others = (cgroups.make(container_path("docker", container_id())) for _ in range(2))
        _leave_first_cpu()
        with (
            Relay(relay, "spin", SPIN_MS, SPINS, cgroup=mine, cpu=0) as victim,
            Relay(relay, "hog", cgroup=others, cpu=0) as hog,
        ):
            yield victim, mine.stat().st_ino, hog, others.stat().st_ino
