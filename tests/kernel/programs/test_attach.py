"""Tests attaching and detaching: failures are reported, closed probes count no calls, no BPF objects are
left."""

from __future__ import annotations

import os
import platform
import signal
import time
from pathlib import Path

import pytest

from stalltop.model.errors import TracingError, UnsafeTracingError
from stalltop.probes.programs import bpf_calls
from stalltop.probes.tracer import calibrating, probing
from stalltop.probes.tracer.calibration import OwnFunction
from stalltop.probes.tracer.kernel_side import KernelSide, Point, Way
from tests.kernel.traced_program import FUNCTIONS, TracedProgram, calls_of, lost, points, wait_until

WAYS = ["multi", pytest.param("perf", marks=pytest.mark.perf)]


def links() -> list[int]:
    """Return the descriptors of BPF links, programs and maps that this process holds."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            text = Path(f"/proc/self/fdinfo/{name}").read_text()
        except OSError:
            continue
        if "link_type:" in text or "prog_type:" in text or "map_type:" in text:
            found.append(int(name))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_probes_of_a_running_process_can_be_attached_and_detached(driver: Path, way: Way) -> None:
    library = driver.with_name("libtraced.so")
    chosen = [function for function in FUNCTIONS if function.symbol in ("plain", "outer")]
    before = links()
    kernel = KernelSide(way=way, slots=64, threads=64, functions=FUNCTIONS)
    try:
        assert kernel.way == way
        assert kernel.probe_time.call_ns > 0
        with TracedProgram(driver) as program:
            program("call plain 5")
            assert calls_of(kernel, program.pid) == {}
            with library.open("rb") as file:  # ``attach`` also accepts a path to an open file
                attachment = kernel.attach(f"/proc/self/fd/{file.fileno()}", points(library, chosen))
            assert (attachment.count, attachment.failed) == (4, ())
            program("outer 5")
            assert calls_of(kernel, program.pid) == {("outer", False): 1, ("plain", True): 5}
            attachment.close()
            attachment.close()

            def silent() -> bool:  # a helper process removes perf events, which takes a while
                kernel.read()
                program("call plain 1")
                return calls_of(kernel, program.pid) == {}

            wait_until(silent, "probes removed")
    finally:
        kernel.close()
        kernel.close()
    assert links() == before
    late = kernel.attach(str(library), points(library, chosen))
    assert late.count == 0
    assert len(late.failed) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_cannot_be_probed_does_not_affect_others(driver: Path, way: Way) -> None:
    library = driver.with_name("libtraced.so")
    good = points(library, FUNCTIONS[:4])
    bad = Point(library.stat().st_size + 4096, FUNCTIONS[5].id)
    kernel = KernelSide(way=way, slots=64, threads=64, functions=FUNCTIONS)
    try:
        attachment = kernel.attach(str(library), [*good[:1], bad, *good[1:]])
        assert attachment.count == 8
        assert [point for point, _ in attachment.failed] == [bad]
        assert attachment.failed[0][1]
        with TracedProgram(driver) as program:
            for function in FUNCTIONS[:4]:
                program(f"call {function.symbol} 2")
            assert calls_of(kernel, program.pid) == {
                (function.symbol, False): 2 for function in FUNCTIONS[:4]
            }
        nothing = kernel.attach("/no/such/file", good)
        assert nothing.count == 0
        assert {point for point, _ in nothing.failed} == set(good)
        assert kernel.attach(str(library), []).count == 0
    finally:
        kernel.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_function_probed_twice_is_counted_once(driver: Path, way: Way) -> None:
    library = driver.with_name("libtraced.so")
    chosen = points(library, FUNCTIONS[:2])
    kernel = KernelSide(way=way, slots=64, threads=64, functions=FUNCTIONS)
    try:
        alias = chosen[0]._replace(cookie=FUNCTIONS[3].id)
        assert kernel.attach(str(library), [*chosen, alias]).count == 4
        with TracedProgram(driver) as program:
            program("call plain 3")
            assert calls_of(kernel, program.pid) == {("plain", False): 3}
            assert lost(kernel) == {}
            kernel.attach(f"/proc/self/root{library}", chosen)
            program("call plain 3")
            program("call pushing 2")
            assert calls_of(kernel, program.pid) == {("plain", False): 3, ("pushing", False): 2}
            assert lost(kernel) == {"abandoned": 5, "no_entry": 5}
    finally:
        kernel.close()


def test_auto_falls_back_from_multi_to_perf(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    begin = KernelSide._begin

    def without_multi(self: KernelSide, slots: int, threads: int, way: str, task: object) -> None:
        tried.append(way)
        if way == "multi":
            raise TracingError("no uprobe_multi in this kernel")
        self.way = way

    monkeypatch.setattr(KernelSide, "_begin", without_multi)
    assert KernelSide(way="auto").way == "perf"
    # stalltop tries ``multi`` with splits, then ``multi`` without splits, then ``perf``.
    assert tried == ["multi", "multi", "perf"]
    with pytest.raises(TracingError, match="no uprobe_multi"):
        KernelSide(way="multi")
    monkeypatch.setattr(KernelSide, "_begin", begin)


def test_a_kernel_that_counts_wrongly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    before = links()
    measure = OwnFunction.measure

    def one_more(self: OwnFunction, *calls: int) -> object:
        measure(self, 1, 1)
        return measure(self, *calls)

    monkeypatch.setattr(OwnFunction, "measure", one_more)
    with pytest.raises(
        TracingError, match=r"counting does not work here: (6017|6018) calls made, (6018|6019) counted"
    ):
        KernelSide(way="multi", slots=16, threads=16)
    monkeypatch.setattr(OwnFunction, "measure", measure)
    assert links() == before


def test_a_kernel_that_does_not_report_ended_threads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    attach = bpf_calls.attach_raw_tracepoint
    monkeypatch.setattr(calibrating, "_THREAD_END_SECONDS", 0.05)
    monkeypatch.setattr(
        probing, "attach_raw_tracepoint", lambda program, name: attach(program, "sched_process_exec")
    )
    with pytest.raises(TracingError, match="does not report when threads end"):
        KernelSide(way="multi", slots=16, threads=16)


@pytest.mark.perf
def test_closing_perf_events_does_not_block(driver: Path) -> None:
    library = driver.with_name("libtraced.so")
    kernel = KernelSide(way="perf", slots=16, threads=16, functions=FUNCTIONS)
    kernel.attach(str(library), points(library, FUNCTIONS[:8]))
    start = time.monotonic()
    kernel.close()
    took = time.monotonic() - start
    helpers = kernel._probing._counting._closer._helpers  # type: ignore[attr-defined]
    assert len(helpers) == 1
    helpers[0].wait(100)  # the helper first waits for the helpers of earlier tests
    removing = time.monotonic() - start
    assert took < removing
    assert helpers[0].returncode == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_sandboxed_program_survives_its_probes(way: Way) -> None:
    """The child has a seccomp filter like that of a container. Calibration runs the same check at each
    start."""
    function = OwnFunction()
    kernel = KernelSide(slots=8, threads=8, way=way)
    try:
        attachment = kernel.attach(function.path, [Point(function.offset, kernel.functions[0].id)])
        assert attachment.count == 2
        pid, signal_number = function.killed_in_sandbox()
        assert (pid > 0) == (platform.machine() == "x86_64")
        assert signal_number == 0
    finally:
        kernel.close()
        function.close()


def test_a_kernel_that_kills_sandboxed_programs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """On such a Linux kernel no way of attaching is safe, so stalltop tries no other way."""
    tried: list[int] = []

    def killed(function: OwnFunction) -> tuple[int, int]:
        tried.append(1)
        return 0, signal.SIGSEGV

    monkeypatch.setattr(OwnFunction, "killed_in_sandbox", killed)
    with pytest.raises(UnsafeTracingError, match="kills sandboxed programs") as told:
        KernelSide(slots=8, threads=8)
    assert "cf6cb56ef244" in told.value.remedy
    assert told.value.exit_code == 3
    assert len(tried) == 1
