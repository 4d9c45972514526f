"""Provides fixtures for the tests of how stalltop discovers libraries and processes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.probes.confined.link import Confined
from stalltop.probes.libraries import discovery as discovery
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import compile_library
from tests.kernel.discovery.tracing import TracedDiscovery

RUNTIME = """
int cudaMalloc(void **result, unsigned long bytes) { return bytes == 13 ? 2 : 0; }
int cudaFree(void *pointer) { return 0; }
int cudaGetLastError(void) { return 0; }
"""
OTHER_RUNTIME = 'const char *version = "other";\nint before(int a) { return a * 3 + 1; }\n' + RUNTIME
DRIVER = "int cuMemAlloc_v2(unsigned long *result, unsigned long bytes) { return 0; }\n"
# A library that was linked with the runtime: the string by which stalltop recognizes the runtime, a function
# that is not exported, and code of a real runtime's size.
LINKED = """
const char *const runtime_memory = "/cudart.shm.%x.%x.%llx";
__attribute__((visibility("hidden"), noinline)) int cudaMalloc(void **result, unsigned long bytes)
{ __asm__(""); return 0; }
int work(void) { void *result; return cudaMalloc(&result, 8); }
__asm__(".text; .zero 131072");
"""
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int __attribute__((noinline)) cudaMalloc(void **result, unsigned long bytes) { __asm__(""); return 0; }
int main(int count, char **arguments)
{
    char line[16];
    void *result;
    if (count > 2) { puts("ready"); fflush(stdout); fgets(line, sizeof(line), stdin); }
    for (int i = 0; i < atoi(arguments[1]); i++) cudaMalloc(&result, 64);
    if (count > 2) { puts("done"); fflush(stdout); fgets(line, sizeof(line), stdin); }
    return 0;
}
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelSide]:
    kernel = KernelSide()
    yield kernel
    kernel.close()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    compile_library(RUNTIME, folder / "libcudart.so.12")
    compile_library(OTHER_RUNTIME, folder / "other" / "libcudart.so.12")
    compile_library(DRIVER, folder / "libcuda.so.1")
    compile_library(LINKED, folder / "libggml-cuda.so")
    compile_library(PROGRAM, folder / "program", "-no-shared")
    compile_library(PROGRAM, folder / "stripped", "-no-shared", "-s")
    return folder


@pytest.fixture(autouse=True)
def _all_in_one_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limit of an update to a minute, so that one update examines all files on a slow
    machine."""
    monkeypatch.setattr(discovery, "START_SECONDS", 60.0)
    monkeypatch.setattr(discovery, "BUDGET_SECONDS", 60.0)


@pytest.fixture(scope="module")
def confined() -> Iterator[Confined]:
    confined = Confined()
    yield confined
    confined.close()


@pytest.fixture
def tracing(kernel: KernelSide, confined: Confined, tmp_path: Path) -> Iterator[TracedDiscovery]:
    tracing = TracedDiscovery(kernel, tmp_path, asks=confined)
    yield tracing
    tracing.libraries.close()


@pytest.fixture
def unconfined(kernel: KernelSide, tmp_path: Path) -> Iterator[TracedDiscovery]:
    """Examines files in the test's own process, where a test can replace functions."""
    tracing = TracedDiscovery(kernel, tmp_path)
    yield tracing
    tracing.libraries.close()


@pytest.fixture
def library(built: Path, tmp_path: Path) -> Path:
    """Give each test its own copy of the runtime library."""
    return Path(shutil.copy(built / "libcudart.so.12", tmp_path / "libcudart.so.12"))
