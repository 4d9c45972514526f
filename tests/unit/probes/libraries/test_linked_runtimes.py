"""Tests that a CUDA runtime inside another library, such as ggml's, is probed or reported."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from stalltop.probes.binaries import mapped_file
from stalltop.probes.confined import examiner
from stalltop.probes.libraries import discovery
from stalltop.probes.process_maps import Mapping, mapped_by
from tests.kernel.children import Child, compile_library
from tests.unit.probes.libraries.discovered import discovered

# A stand-in for a library that was linked with libcudart_static.a: it has the string that the runtime
# contains, functions that it does not export, and code of a real runtime's size.
LINKED = """
const char *const memory = "/cudart.shm.%x.%x.%llx";
__attribute__((visibility("hidden"))) int cudaMalloc(void **at, unsigned long bytes) { return 0; }
int work(int times) { void *at; int failed = 0; while (times--) failed += cudaMalloc(&at, 8); return failed; }
__asm__(".text; .zero 131072");
"""
PLAIN = 'int work(int times) { return times; }\n__asm__(".text; .zero 131072");'
DRIVER = "int cuMemAlloc_v2(unsigned long *result, unsigned long bytes) { return 0; }\n"
WITHOUT_SYMBOLS = "its runtime calls, as the CUDA runtime in it has no symbols"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("cc is missing on this machine")
    folder = tmp_path_factory.mktemp("linked")
    compile_library(LINKED, folder / "libggml-cuda.so")
    compile_library(LINKED, folder / "stripped" / "libggml-cuda.so", "-s")
    compile_library(LINKED, folder / "libcublas.so.12", "-s")
    compile_library(PLAIN, folder / "libother.so")
    compile_library(DRIVER, folder / "libcuda.so.1")
    return folder


def test_a_runtime_inside_another_library_is_probed(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Child() as child:
        child.load(built / "libggml-cuda.so")
        child.load(built / "libother.so")
        child.load(built / "libcuda.so.1")
        with discovered(monkeypatch, child.pid) as found:
            assert found.functions() == {
                (str(built / "libcuda.so.1"), "driver"): 1,
                (str(built / "libggml-cuda.so"), "runtime"): 1,
            }
            assert found.missing() == {}


def test_a_runtime_without_symbols_inside_another_library_is_reported(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = built / "stripped" / "libggml-cuda.so"
    with Child() as child:
        child.load(library)
        child.load(built / "libcuda.so.1")
        with discovered(monkeypatch, child.pid) as found:
            (missing,) = found.all_missing()
            assert (missing.what, missing.reason, missing.pid) == (str(library), WITHOUT_SYMBOLS, child.pid)
            assert missing.untraced


def test_the_private_runtime_of_a_library_of_nvidia_is_not_reported(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Child() as child:
        child.load(built / "libcublas.so.12")
        child.load(built / "libcuda.so.1")
        with discovered(monkeypatch, child.pid) as found:
            assert found.missing() == {}


def test_libraries_of_processes_without_the_driver_are_not_opened(built: Path) -> None:
    with Child() as child:
        child.load(built / "libggml-cuda.so")
        assert mapped_by(child.pid).others == []
        child.load(built / "libcuda.so.1")
        names = {Path(mapping.path).name for mapping in mapped_by(child.pid).others}
        assert "libggml-cuda.so" in names
        assert "libcuda.so.1" not in names


def test_a_library_without_a_runtime_is_opened_once(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = mapped_file.found

    def counting(mapping: Mapping) -> AbstractContextManager[int]:
        opened.append(mapping.path)
        return real(mapping)

    with Child() as one, Child() as other:
        for child in (one, other):
            child.load(built / "libother.so")
            child.load(built / "libcuda.so.1")
        monkeypatch.setattr(examiner, "found", counting)
        with discovered(monkeypatch, one.pid, other.pid) as found:
            assert opened.count(str(built / "libother.so")) == 1
            monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
            found.update()
            assert opened.count(str(built / "libother.so")) == 1
