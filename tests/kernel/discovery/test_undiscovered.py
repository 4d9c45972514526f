"""Tests that files that cannot be probed are reported once, with a reason, and do not affect other files."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from stalltop.model.errors import TracingError
from stalltop.probes.binaries import elf
from stalltop.probes.confined import examiner
from stalltop.probes.libraries import discovery as discovery
from stalltop.probes.libraries.discovery import Libraries
from stalltop.probes.libraries.probed_file import Probes
from stalltop.probes.tracer.attach import Point
from tests.kernel.children import Child, until
from tests.kernel.discovery.tracing import FakeProbes, TracedDiscovery

# A stripped program that looks as if the runtime were linked into it statically: it loads the driver, and
# contains the string of the runtime by which stalltop recognizes such programs.
STRIPPED = r"""
#include <dlfcn.h>
#include <stdio.h>
const char *const runtime_memory = "/cudart.shm.%x.%x.%llx";
int main(int count, char **words)
{
	int (*allocate)(void **, unsigned long) = dlsym(dlopen(words[1], RTLD_NOW), "cuMemAlloc_v2");
	void *memory;
	for (puts(runtime_memory), fflush(stdout); getchar() == 10; puts("called"), fflush(stdout))
		allocate(&memory, 1);
}
"""


def test_a_stripped_program_with_a_static_runtime_is_reported_once(
    tracing: TracedDiscovery, built: Path, tmp_path: Path
) -> None:
    driver = shutil.copy(built / "libcuda.so.1", tmp_path / "libcuda.so.1")
    program = tmp_path / "stripped"
    command = ["cc", "-O1", "-s", "-o", str(program), "-x", "c", "-", "-ldl"]
    subprocess.run(command, input=STRIPPED, text=True, check=True)
    tracing.libraries.start()
    two = [
        subprocess.Popen([program, driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        for process in two:
            assert process.stdout is not None
            assert "cudart" in process.stdout.readline()
        tracing.update()
        (missing,) = [missing for process in two for missing in tracing.missing(process.pid)]
        assert missing.what == str(program)
        assert "(2 processes)" in missing.reason
        assert "its runtime calls" in missing.reason
        assert missing.remedy
        for process in two:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "called\n"
            assert tracing.calls(process.pid) == {"cuMemAlloc": 1}
    finally:
        for process in two:
            process.kill()
            process.communicate()


def test_a_program_that_uses_only_the_driver_has_no_missing_coverage(
    tracing: TracedDiscovery, built: Path, tmp_path: Path
) -> None:
    driver = shutil.copy(built / "libcuda.so.1", tmp_path / "libcuda.so.1")
    tracing.libraries.start()
    with Child() as child:
        child.load(driver)
        tracing.update()
        assert tracing.missing(child.pid) == []
        child.call(driver, "cuMemAlloc_v2", 2)
        assert tracing.calls(child.pid) == {"cuMemAlloc": 2}


def broken_files(built: Path) -> dict[str, tuple[bytes, str]]:
    good = (built / "libcudart.so.12").read_bytes()
    foreign = bytearray(good)
    foreign[18] = 243
    return {
        "cut": (good[:5000], "cut off"),
        "garbage": (b"no library at all" * 100, "not an ELF file"),
        "foreign": (bytes(foreign), "built for riscv"),
        "empty of functions": ((built / "libcuda.so.1").read_bytes(), "none of the traced functions"),
    }


def test_files_that_cannot_be_probed_are_reported_and_not_read_again(
    unconfined: TracedDiscovery, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Counter[str]()
    real = elf.read_image

    def counting(fd: int, layers: Sequence[str]) -> object:
        read[os.readlink(f"/proc/self/fd/{fd}")] += 1
        return real(fd, layers)

    monkeypatch.setattr(examiner, "read_image", counting)
    monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
    unconfined.libraries.start()
    for name, (data, reason) in broken_files(built).items():
        path = tmp_path / name / "libcudart.so.12"
        path.parent.mkdir()
        path.write_bytes(data)
        with Child() as child:
            child.do("map_file", path)
            for _ in range(4):
                unconfined.update()
            (missing,) = unconfined.missing(child.pid)
            assert missing.what == str(path)
            assert reason in missing.reason
            assert missing.remedy
            assert child.pid not in unconfined.libraries.traced_pids()
        assert read[str(path)] == 1
        assert until(lambda pid=child.pid: unconfined.missing(pid) == [], unconfined.update)  # type: ignore[misc]
    assert unconfined.attached == []


def test_a_mapping_that_the_kernel_cannot_probe_is_reported(tracing: TracedDiscovery, library: Path) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.do("map_writable", library)
        tracing.update()
        (missing,) = tracing.missing(child.pid)
        assert "no probe" in missing.reason
        assert child.pid not in tracing.libraries.traced_pids()


def test_a_file_that_cannot_be_opened_is_reported_and_tried_again_later(
    unconfined: TracedDiscovery, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tried = os.open, []

    def refuse(path: str, *rest: int, **more: int) -> int:
        if "/map_files/" in str(path) and os.readlink(path) == str(library):
            tried.append(path)
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *rest, **more)

    unconfined.libraries.start()
    with Child() as child, monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        child.load(library)
        assert until(lambda: unconfined.missing(child.pid) != [], unconfined.update)
        (missing,) = unconfined.missing(child.pid)
        assert missing.what == str(library)
        assert "Permission denied" in missing.reason
        tries = len(tried)
        for _ in range(10):
            unconfined.update()
        assert len(tried) == tries
        patched.undo()
        monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
        unconfined.update()
        assert unconfined.missing(child.pid) == []
        assert child.pid in unconfined.libraries.traced_pids()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EINVAL, "Invalid argument"), "Invalid argument"),
        (TracingError("locked down", "unlock it"), "locked down"),
    ],
)
def test_a_file_whose_probes_are_refused_is_reported(library: Path, error: Exception, reason: str) -> None:
    asked = []

    def refuse(path: str, points: Sequence[Point]) -> Probes:
        asked.append(path)
        raise error

    tracing = Libraries(refuse)
    try:
        with Child() as child:
            child.load(library)
            tracing.start()
            tracing.update()
            (missing,) = [missing for missing in tracing.missing() if missing.pid == child.pid]
            assert missing.what == str(library)
            assert reason in missing.reason
            assert child.pid not in tracing.traced_pids()
            assert str(library) not in {row.path for row in tracing.library_rows()}
    finally:
        tracing.close()


@pytest.mark.parametrize(("failed", "functions"), [(1, 1), (2, 0)])
def test_a_function_whose_probe_is_refused_is_reported(library: Path, failed: int, functions: int) -> None:
    made: dict[str, FakeProbes] = {}

    def partly(path: str, points: Sequence[Point]) -> Probes:
        return made.setdefault(os.readlink(path), FakeProbes(points, failed))

    tracing = Libraries(partly)
    try:
        with Child() as child:
            child.load(library)
            tracing.start()
            reasons = [missing.reason for missing in tracing.missing() if missing.pid == child.pid]
            assert any(
                f"{failed} of 2 functions" in reason and "no such luck" in reason for reason in reasons
            )
            rows = {row.path: row.functions for row in tracing.library_rows()}
            assert rows.get(str(library), 0) == functions
            assert made[str(library)].closed is (functions == 0)
    finally:
        tracing.close()
    assert made[str(library)].closed
