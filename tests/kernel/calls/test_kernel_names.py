"""Tests that launches are counted exactly by CUDA kernel, with names from registrations or symbols."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stalltop.demo.build import NATIVE, Built, compiler
from stalltop.demo.caller import Caller
from stalltop.model.window import UNCOUNTED, Window
from stalltop.probes import layout
from stalltop.probes.monitor import Monitor
from stalltop.probes.symbols import demangler
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child
from tests.kernel.cuda_kernel_names import ATTENTION, GEMM, HISTOGRAM, SCALE
from tests.kernel.harness import Workplace, probe, wait_until
from tests.kernel.nvidia.fetched import CUDART12, CUDART13
from tests.kernel.traced_program import read_calls
from tests.stripped_library import library

pytestmark = pytest.mark.beside

LAUNCH, DRIVER_LAUNCH = "cudaLaunchKernel", "cuLaunchKernel"


@dataclass
class LaunchTotals:
    """Sums of the launches in a monitor's windows."""

    monitor: Monitor
    launches: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    """Number of outermost launches by PID, operation and CUDA kernel."""
    errors: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    rows: Counter[tuple[int, str]] = field(default_factory=Counter)
    tenants: dict[int, set[str]] = field(default_factory=dict)
    loss: Counter[str] = field(default_factory=Counter)
    kept: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    """Number of captured outermost calls by PID, operation and CUDA kernel."""

    def read(self) -> Window:
        window = self.monitor.read()
        calls = {
            (key.tenant, *key[2:]): calls
            for key, calls in zip(window.rows.keys, window.rows.calls.tolist(), strict=True)
        }
        launches: Counter[tuple[str, int, str, str, str, bool, str]] = Counter()
        for kernel in window.kernels:
            assert kernel.calls == sum(count for _, count in kernel.buckets)
            assert not kernel.nested
            launches[kernel.row] += kernel.calls
            self.launches[kernel.pid, kernel.operation, kernel.kernel] += kernel.calls
            self.errors[kernel.pid, kernel.operation, kernel.kernel] += kernel.errors
            self.tenants.setdefault(kernel.pid, set()).add(kernel.tenant)
        for row, counted in launches.items():
            assert counted <= calls[row]
        for key, counted in zip(window.rows.keys, window.rows.calls.tolist(), strict=True):
            if key.outermost:
                self.rows[key.pid, key.operation] += counted
        for call in window.calls.kept:
            if not call.nested:
                self.kept[call.pid, call.operation, call.kernel] += 1
        self.loss.update(window.loss)
        return window

    def of(self, caller: Caller, operation: str = LAUNCH) -> dict[str, int]:
        return {
            kernel: calls
            for (pid, what, kernel), calls in self.launches.items()
            if (pid, what) == (caller.pid, operation)
        }

    def check_kept(self, caller: Caller, operation: str = LAUNCH) -> None:
        """Check that no CUDA kernel has more captured launches than counted ones. It may have no captured
        launch at all, because the limits per second apply to all processes of the host, including those of
        other tests."""
        kept = {what[2]: n for what, n in self.kept.items() if what[:2] == (caller.pid, operation)}
        assert all(n <= self.of(caller, operation).get(kernel, 0) for kernel, n in kept.items())

    def see(self, caller: Caller, operation: str, calls: int) -> None:
        """Read until ``calls`` outermost calls of ``operation`` by ``caller`` are counted."""

        def told() -> bool:
            self.read()
            return self.rows[caller.pid, operation] >= calls

        wait_until(told, what=f"{calls} calls of {operation}")


@pytest.fixture(autouse=True)
def _wait_for_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let windows wait for the demangler; otherwise the first windows may show mangled names."""
    monkeypatch.setattr(demangler, "WAIT_SECONDS", 30.0)


@pytest.fixture
def told() -> Iterator[LaunchTotals]:
    monitor = Monitor()
    try:
        assert monitor.cannot_trace is None, str(monitor.cannot_trace)
        yield LaunchTotals(monitor)
    finally:
        monitor.close()


def traced(workplace: Workplace, told: LaunchTotals, n: int = 1, first: int = 0) -> list[Caller]:
    """Start callers in ``n`` cgroups and wait until they are traced, before their first launch."""
    callers = [
        workplace.caller(cgroup=workplace.cgroup(), load=f"{LAUNCH} {DRIVER_LAUNCH}", name=f"caller{i}")
        for i in range(n)
    ]
    wanted = {caller.pid for caller in callers}
    own = {str(workplace.built.cudart), str(workplace.built.cuda)}

    def complete() -> bool:
        rows = told.read().coverage.libraries
        return {row.path for row in rows if row.processes >= n + first} >= own and bool(wanted)

    wait_until(complete, what="all callers traced")
    return callers


def stripped_caller(workplace: Workplace) -> Built:
    """Copy the demo's caller and strip its symbols."""
    folder = workplace.folder / "stripped"
    shutil.copytree(workplace.built.folder, folder)
    subprocess.run(["strip", "--strip-all", str(folder / "caller")], check=True, timeout=60)
    return Built(folder)


def test_launches_of_several_processes_are_counted_by_cuda_kernel(
    told: LaunchTotals, workplace: Workplace
) -> None:
    callers = traced(workplace, told, 3)
    for number, caller in enumerate(callers, 1):
        caller.tell(f"burst {number} 4000 {LAUNCH}:3:0 {LAUNCH}:2:1 {LAUNCH}_ptsz:1:8 {DRIVER_LAUNCH}:1")
    for _ in range(20):
        told.read()
    for caller in callers:
        caller.answer(120.0)
    for number, caller in enumerate(callers, 1):
        told.see(caller, LAUNCH, number * 24_000)
        once = number * 4000
        assert told.of(caller) == {GEMM: 3 * once, ATTENTION: 2 * once, SCALE: once}
        # These launches pass a null handle, which is no CUDA kernel: they count only in the row of their
        # operation.
        assert told.of(caller, DRIVER_LAUNCH) == {}
        assert told.rows[caller.pid, DRIVER_LAUNCH] == once
    assert len(set.union(*(told.tenants[caller.pid] for caller in callers))) == 3
    assert {
        name: count for name, count in told.loss.items() if name in (*UNCOUNTED, "no_kernel") and count
    } == {}


def test_a_stripped_program_that_starts_later_registers_its_names(
    told: LaunchTotals, workplace: Workplace
) -> None:
    stripped = stripped_caller(workplace)
    (older,) = traced(workplace, told)
    older.run(f"{LAUNCH}:5:1")
    told.see(older, LAUNCH, 5)
    assert told.of(older) == {ATTENTION: 5}
    with Caller(stripped, cgroup=workplace.cgroup(), folder=workplace.built.folder) as later:
        later.answer()
        later.run(f"{LAUNCH}:7:8 {LAUNCH}:2:7")
        told.see(later, LAUNCH, 9)
        assert told.of(later) == {SCALE: 7, HISTOGRAM: 2}


def test_names_of_functions_that_the_driver_looked_up_are_known(
    told: LaunchTotals, workplace: Workplace
) -> None:
    (caller,) = traced(workplace, told)
    caller.do("kernels _Z5scalePffi not_mangled")
    caller.run(f"{DRIVER_LAUNCH}:3:0 {DRIVER_LAUNCH}:4:1 {DRIVER_LAUNCH}Ex:2:1")
    told.see(caller, DRIVER_LAUNCH, 7)
    told.see(caller, f"{DRIVER_LAUNCH}Ex", 2)
    assert told.of(caller, DRIVER_LAUNCH) == {SCALE: 3, "not_mangled": 4}
    assert told.of(caller, f"{DRIVER_LAUNCH}Ex") == {"not_mangled": 2}


def test_an_address_that_is_used_for_another_cuda_kernel_gets_its_name(
    told: LaunchTotals, workplace: Workplace
) -> None:
    """A module reuses the handle of an unloaded module, and a library the address of an unloaded library."""
    (caller,) = traced(workplace, told)
    for name, calls in (("first", 30), ("second", 20), ("first", 5)):
        caller.do(f"kernels {name}")
        caller.run(f"{DRIVER_LAUNCH}:{calls}:0")
    told.see(caller, DRIVER_LAUNCH, 55)
    assert told.of(caller, DRIVER_LAUNCH) == {"first": 35, "second": 20}
    caller.do("rename one two")
    caller.run(f"{LAUNCH}:11:0 {LAUNCH}:12:1")
    caller.do("rename three")
    caller.run(f"{LAUNCH}:13:0 {LAUNCH}:14:1")
    told.see(caller, LAUNCH, 50)
    assert told.of(caller) == {"one": 11, "two": 26, "three": 13}


def at_fixed_addresses(workplace: Workplace) -> Built:
    """Build the demo's caller without symbols and with its functions always at the same addresses."""
    folder = workplace.folder / "fixed"
    shutil.copytree(workplace.built.folder, folder)
    sources = [str(source) for source in sorted((NATIVE / "caller").glob("*.c"))]
    program = str(folder / "caller")
    command = [*compiler(), "-O2", "-s", "-no-pie", "-o", program, *sources, "-lpthread", "-ldl"]
    subprocess.run(command, check=True, timeout=120)
    return Built(folder)


@pytest.mark.parametrize("read_between", [True, False])
def test_after_exec_the_same_addresses_are_other_cuda_kernels(
    told: LaunchTotals, workplace: Workplace, read_between: bool
) -> None:
    traced(workplace, told)
    fixed = at_fixed_addresses(workplace)
    with Caller(fixed, cgroup=workplace.cgroup(), folder=workplace.built.folder) as caller:
        caller.answer()
        caller.do(f"load {LAUNCH}")
        caller.do("rename one two")
        caller.run(f"{LAUNCH}:11:0 {LAUNCH}:12:1")
        if read_between:
            told.see(caller, LAUNCH, 23)
        caller.do("exec")
        caller.run(f"{LAUNCH}:13:0 {LAUNCH}:14:1", threads=2)
        told.see(caller, LAUNCH, 23 + 54)
        assert told.of(caller) == {"one": 11, "two": 12, GEMM: 26, ATTENTION: 28}
        told.check_kept(caller)


def test_a_process_with_a_reused_pid_has_its_own_cuda_kernels(
    told: LaunchTotals, workplace: Workplace
) -> None:
    traced(workplace, told)
    fixed = at_fixed_addresses(workplace)
    cgroup = workplace.cgroup()
    early = Caller(fixed, cgroup=cgroup, folder=workplace.built.folder)
    with early:
        early.answer()
        early.do(f"load {LAUNCH}")
        early.do("rename one two")
        early.run(f"{LAUNCH}:11:0 {LAUNCH}:12:1")
        early.kill()
    for _ in range(1000):  # another program may take the PID first, so try again
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(early.pid - 1))
        with Caller(fixed, cgroup=cgroup, folder=workplace.built.folder) as later:
            if later.pid != early.pid:
                continue
            later.answer()
            later.run(f"{LAUNCH}:13:0 {LAUNCH}:14:1")
            told.see(later, LAUNCH, 23 + 27)
            assert told.of(later) == {"one": 11, "two": 12, GEMM: 13, ATTENTION: 14}
            told.check_kept(later)
            later.run(f"{LAUNCH}:1:0")
            told.see(later, LAUNCH, 23 + 28)
            assert told.of(later) == {"one": 11, "two": 12, GEMM: 14, ATTENTION: 14}
            return
    pytest.fail("in 1000 tries no new process got the PID of the ended one: run the test on a calmer machine")


def test_long_names_are_read_completely(told: LaunchTotals, workplace: Workplace) -> None:
    (caller,) = traced(workplace, told)
    long, short = "k" * 700, "k" * 255
    caller.do(f"rename {long} {short}")
    caller.run(f"{LAUNCH}:2:0 {LAUNCH}:3:1")
    told.see(caller, LAUNCH, 5)
    assert told.of(caller) == {long: 2, short: 3}


def test_launches_of_a_looked_up_function_without_errors_count_none(
    told: LaunchTotals, workplace: Workplace
) -> None:
    (caller,) = traced(workplace, told)
    caller.do("kernels broken")
    caller.run(f"{DRIVER_LAUNCH}:4:0")
    told.see(caller, DRIVER_LAUNCH, 4)
    assert not told.errors[caller.pid, DRIVER_LAUNCH, "broken"]


def test_a_forked_child_has_the_names_that_its_parent_registered(
    told: LaunchTotals, workplace: Workplace
) -> None:
    (_,) = traced(workplace, told)
    stripped = stripped_caller(workplace)
    with Caller(stripped, cgroup=workplace.cgroup(), folder=workplace.built.folder) as parent:
        parent.answer()
        parent.do(f"load {LAUNCH}")
        parent.tell(f"children 1 1 {LAUNCH}:3:8 ~1500000 {LAUNCH}:1:8")
        wait_until(
            lambda: told.read() and any(SCALE in key for key in told.launches), what="the child's name"
        )
        parent.answer()

        def both() -> bool:
            told.read()
            return sum(calls for key, calls in told.launches.items() if key[1:] == (LAUNCH, SCALE)) == 4

        wait_until(both, what="all launches of the child")


def test_cuda_kernels_over_the_quota_are_counted_in_their_row_only(workplace: Workplace) -> None:
    """The records of CUDA kernels become free when the process ends."""
    quota = layout.KERNELS // 2
    kernel = KernelSide(splits=False)
    try:
        probe(kernel, workplace.built.cudart, "runtime")
        program = f"""
import ctypes
launch = ctypes.CDLL({str(workplace.built.cudart)!r}).cudaLaunchKernel
for number in range(1, {quota} + 11):
    launch(ctypes.c_void_p(number), 1, 1, 1, 1, 0)
"""
        for _ in range(2):
            kernel.losses()
            with Child() as child:
                child.load(workplace.built.cudart)
                child.do("run", program)
                counts = read_calls(kernel)
                launches = [raw for raw in kernel.cuda.launches() if raw.key.tgid == child.pid]
                assert counts.calls.sum() == quota + 10
                assert kernel.losses()["no_kernel"] == 10
                assert len({raw.function for raw in launches}) == len(launches) == quota
                assert sum(raw.calls for raw in launches) == quota
                child.kill()
            kernel.release(child.pid)

            def given_back(pid: int = child.pid) -> bool:
                kernel.read()
                return pid not in kernel.evidence.tgids() and not kernel._programs.launched["slot"].any()

            wait_until(given_back, what="free records")
    finally:
        kernel.close()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.skipif(path is None, reason=f"{name} was not fetched"), id=name)
        for name, path in [("libcudart 12", CUDART12), ("libcudart 13", CUDART13)]
    ],
)
def test_launches_of_a_kernel_registered_with_nvidia_s_runtime_are_named(
    told: LaunchTotals, path: Path
) -> None:
    """The program registers a CUDA kernel as the constructors made by nvcc do. Launches fail without a
    GPU."""
    program = f"""
import ctypes, sys
runtime = ctypes.CDLL({str(path)!r})
binary = ctypes.create_string_buffer(64)
wrapper = (ctypes.c_uint64 * 3)(0x1466243b1, ctypes.addressof(binary), 0)
runtime.__cudaRegisterFatBinary.restype = ctypes.c_void_p
handle = ctypes.c_void_p(runtime.__cudaRegisterFatBinary(wrapper))
name = ctypes.create_string_buffer(b"_Z5scalePffi")
function = ctypes.c_void_p(ctypes.addressof(binary))
runtime.__cudaRegisterFunction(handle, function, name, name, -1, None, None, None, None, None)
for _ in range(5):
    runtime.cudaLaunchKernel(function, 1, 1, 1, 1, None, 0, None)
sys.held = binary, wrapper, name
"""
    with Child() as child:
        child.load(path)
        wait_until(
            lambda: any(row.path == str(path.resolve()) for row in told.read().coverage.libraries),
            what="the runtime traced",
        )
        child.do("run", program)
        wait_until(lambda: told.read() and told.launches[child.pid, LAUNCH, SCALE] == 5, what="the launches")
        assert told.errors[child.pid, LAUNCH, SCALE] == 5


def test_names_registered_before_tracing_are_read_from_the_code_of_a_library(workplace: Workplace) -> None:
    path = library(workplace.folder)
    runtime = workplace.built.cudart
    with Child() as child:
        child.do("run", f"import ctypes; ctypes.CDLL({str(runtime)!r}, ctypes.RTLD_GLOBAL)")
        child.load(path)
        monitor = Monitor()
        try:
            told = LaunchTotals(monitor)
            wait_until(
                lambda: any(row.path == str(runtime) for row in told.read().coverage.libraries),
                what="the runtime traced",
            )

            def known() -> bool:
                child.call(path, "launch2", 3)
                told.read()
                return told.launches[child.pid, LAUNCH, "second(float*, int)"] > 0

            wait_until(known, what="the name")
            assert {key[2] for key in told.launches if key[0] == child.pid} <= {"", "second(float*, int)"}
        finally:
            monitor.close()
