"""Tests stalltop on NVIDIA's real libraries (CUDA 12 and 13, and a driver's libcuda), which need no GPU
here."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stalltop.probes import layout, operations
from stalltop.probes.binaries.elf import Image, read_image
from stalltop.probes.binaries.placement import places
from stalltop.probes.layout import Direction, Size
from stalltop.probes.libraries import discovery as libraries
from stalltop.probes.libraries.discovery import Libraries
from stalltop.probes.libraries.probed_file import Attach, Probes
from stalltop.probes.operations import CHOOSINGS, FUNCTIONS, Function, match
from stalltop.probes.tracer.attach import Point
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child
from tests.kernel.harness import probe
from tests.kernel.nvidia.fetched import CUDART12, CUDART13, HEADERS, LIBCUDA
from tests.kernel.traced_program import read_calls

pytestmark = pytest.mark.beside

LIBRARIES = [
    pytest.param(
        path,
        layer,
        at_least,
        id=name,
        marks=pytest.mark.skipif(path is None, reason=f"{name} was not fetched"),
    )
    for name, path, layer, at_least in [
        ("libcudart 12", CUDART12, "runtime", 110),
        ("libcudart 13", CUDART13, "runtime", 115),
        ("libcuda", LIBCUDA, "driver", 165),
    ]
]
with_headers = pytest.mark.skipif(not HEADERS, reason="CUDA's headers were not fetched")


def read(path: Path, layer: str) -> tuple[int, Image]:
    fd = os.open(path, os.O_RDONLY)
    return fd, read_image(fd, (layer,), "x86_64")


@pytest.mark.parametrize(("path", "layer", "at_least"), LIBRARIES)
def test_every_variant_of_the_traced_functions_is_known(path: Path, layer: str, at_least: int) -> None:
    fd, image = read(path, layer)
    os.close(fd)
    assert len(image.functions) >= at_least
    exported = {
        line.split()[-1].split("@")[0]
        for line in subprocess.run(
            ["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True
        ).stdout.splitlines()
    }
    # Names of the functions that move data, allocate, launch, wait or load. Functions that only query or set
    # something need not be traced.
    families = re.compile(
        r"cu(da)?(Launch|Memcpy|Memset|MemPrefetch|MemAlloc|MemFree|Malloc|Free|HostAlloc|MemHostAlloc"
        r"|HostRegister|MemHostRegister|MemCreate|MemMap|MemUnmap|MemSetAccess|MemPool(Create|Destroy|Trim)"
        r"|GraphLaunch|GraphInstantiate|GraphExecUpdate|GraphUpload"
        r"|StreamSynchronize|DeviceSynchronize|CtxSynchronize|EventSynchronize"
        r"|StreamWaitEvent|ModuleLoad|LibraryLoad|StreamBeginCapture|StreamEndCapture)"
    )
    left_out = re.compile(r"LaunchHostFunc|CaptureToCig|Memcpy3DOperand|MemAllocation")
    untraced = {
        symbol
        for symbol in exported
        if families.match(symbol) and not left_out.search(symbol) and match(symbol, layer) is None
    }
    if layer == "runtime" or "535." in path.name:  # the versions for which the table of functions was written
        assert untraced == set()
    traced = {symbol for symbol in exported if match(symbol, layer) is not None}
    found = {function.symbol for function in image.functions}
    assert found <= traced
    assert len(traced) - len(found) <= 2  # only one of several names with the same address is found


@pytest.mark.parametrize(("path", "layer", "at_least"), LIBRARIES)
def test_every_function_has_its_probe_on_an_emulated_instruction(
    path: Path, layer: str, at_least: int
) -> None:
    fd, image = read(path, layer)
    try:
        chosen = places(fd, image)
        assert len(chosen) == len(image.functions)
        for place in chosen:
            code = os.pread(fd, 2, place.offset)
            emulated = code[0] in range(0x50, 0x58) or code[0] in (0x90, 0xE8, 0xE9, 0xEB)
            emulated |= code[0] in range(0x70, 0x80) or code[0] == 0x0F
            assert emulated, place.found.symbol
            assert 0 <= place.offset - place.found.offset <= 16
    finally:
        os.close(fd)


SIZES = {
    "size", "bytesize", "count", "ByteCount", "N", "Width", "width", "Height", "height", "WidthInBytes",
}  # fmt: skip


@with_headers
@pytest.mark.parametrize("headers", HEADERS, ids=lambda path: str(path).split("/.vendor/")[-1].split("/")[0])
def test_sizes_and_directions_are_the_parameters_of_the_headers(headers: Path) -> None:
    prototypes = declared(headers / "cuda.h") | declared(headers / "cuda_runtime_api.h")
    checked = 0
    for function in FUNCTIONS:
        names = prototypes.get(newest(function.symbol, prototypes))
        if names is None or function.size in (Size.ARGUMENT32, Size.PRODUCT32, Size.STRUCT, Size.PRODUCT3):
            continue
        if function.size is Size.ARGUMENT:
            assert names[function.a] in SIZES, function
        elif function.size is Size.PRODUCT:
            assert {names[function.a].lower()[:5], names[function.b].lower()} == {"width", "height"}, function
        elif not re.search("Batch|Destroy|Free|Unregister|Release|Array|3D", function.symbol):
            assert not {"size", "bytesize", "ByteCount", "count"} & set(names) or is_old(function), function
        if function.direction is Direction.KIND:
            assert names[function.d] == "kind", function
        checked += 1
    assert checked > 100


def declared(header: Path) -> dict[str, list[str]]:
    """Return the parameter names of every function of a header."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(errors="replace"), flags=re.DOTALL)
    found: dict[str, list[str]] = {}
    for name, parameters in re.findall(r"(?:CUDAAPI|CUDARTAPI)\s+(cu\w+)\s*\(([^;]*)\)\s*;", text):
        plain = re.sub(r"__dv\([^)]*\)", "", parameters)
        found.setdefault(name, [re.split(r"[\s*]+", part.strip())[-1] for part in plain.split(",")])
    return found


@with_headers
@pytest.mark.parametrize("headers", HEADERS, ids=lambda path: str(path).split("/.vendor/")[-1].split("/")[0])
def test_devices_and_contexts_are_the_parameters_of_the_headers(headers: Path) -> None:
    prototypes = declared(headers / "cuda.h") | declared(headers / "cuda_runtime_api.h")
    ordinal_at = {"cuCtxCreate_v2": 2, "cuCtxCreate_v3": 4, "cuCtxCreate_v4": 3}
    for symbol in ordinal_at.keys() & prototypes.keys():
        function = match(symbol, operations.DRIVER)
        assert function is not None
        chosen = layout.Choosing(function.id % CHOOSINGS)
        assert chosen.name == f"CREATES_{prototypes[symbol].index('dev')}"
        assert prototypes[symbol].index("dev") == ordinal_at[symbol]
    assert {symbol: prototypes[symbol] for symbol in CHOOSING} == CHOOSING
    assert match("cuCtxGetDevice_v2", operations.DRIVER) is None, "its second argument is a context"


CHOOSING = {
    "cudaSetDevice": ["device"],
    "cuDevicePrimaryCtxRetain": ["pctx", "dev"],
    "cuDeviceGetUuid": ["uuid", "dev"],
    "cuCtxSetCurrent": ["ctx"],
    "cuCtxPushCurrent": ["ctx"],
    "cuCtxPopCurrent": ["pctx"],
    "cuCtxDestroy": ["ctx"],
    "cuCtxGetDevice": ["device"],
}
"""Names of the arguments that ``bpf/cuda/selection.h`` reads, at most the first two, by function."""


@pytest.mark.skipif(CUDART12 is None or LIBCUDA is None, reason="CUDA's libraries were not fetched")
def test_the_runtime_initializes_cuda_by_a_traced_function(tmp_path: Path) -> None:
    assert CUDART12 is not None
    assert LIBCUDA is not None
    (tmp_path / "libcuda.so.1").symlink_to(LIBCUDA)
    kernel = KernelSide(slots=64, threads=64)
    try:
        probe(kernel, LIBCUDA, operations.DRIVER)
        probe(kernel, CUDART12, operations.RUNTIME)
        with Child(("env", f"LD_LIBRARY_PATH={tmp_path}")) as child:
            child.load(CUDART12)
            assert not kernel.cuda.program_of(child.pid).watched
            assert b"libcuda.so" not in Path(f"/proc/{child.pid}/maps").read_bytes(), "it is loaded later"
            child.call(CUDART12, "cudaSetDevice", 1, 0)
            assert kernel.cuda.program_of(child.pid).watched
    finally:
        kernel.close()


def newest(symbol: str, prototypes: dict[str, list[str]]) -> str:
    return next((name for name in (f"{symbol}_v2", symbol) if name in prototypes), symbol)


def is_old(function: Function) -> bool:
    """Return whether this is the old variant (CUDA 3.1) of a function that also has a ``_v2``. The struct of
    an old variant is not read."""
    return (
        match(function.symbol, function.layer) == function != match(f"{function.symbol}_v2", function.layer)
    )


STRUCTS = """
#include <stddef.h>
#include <stdio.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#define SHOW(type, first, second) printf("%s %zu %zu\\n", #type, offsetof(type, first), offsetof(type, second));
typedef struct cudaMemcpy3DParms Parms;
typedef struct cudaMemcpy3DPeerParms Peer;
int main(void)
{
    SHOW(CUDA_MEMCPY2D, WidthInBytes, Height)
    SHOW(CUDA_MEMCPY3D, WidthInBytes, Height)
    SHOW(CUDA_MEMCPY3D_PEER, WidthInBytes, Depth)
    SHOW(Parms, extent.width, kind)
    SHOW(Peer, extent.width, extent.depth)
    printf("extent %zu %zu\\n", sizeof(struct cudaExtent), sizeof(struct cudaPitchedPtr));
    return 0;
}
"""  # noqa: E501


NO_WORDS = [
    f"-D{word}="
    for word in (
        "CUDARTAPI",
        "CUDARTAPI_CDECL",
        "__align__(x)",
        "__builtin_align__(x)",
        "__cudart_builtin__",
        "__CUDA_DEPRECATED",
        "__device_builtin__",
        "__device_builtin_surface_type__",
        "__device_builtin_texture_type__",
        "__host__",
    )
]
"""Compiler options that define the keywords of CUDA's compiler as empty; none of these keywords changes the
structs."""


@with_headers
@pytest.mark.parametrize("headers", HEADERS, ids=lambda path: str(path).split("/.vendor/")[-1].split("/")[0])
def test_offsets_in_structs_are_those_of_the_compiler(headers: Path, tmp_path: Path) -> None:
    # The packages lack headers of CUDA's compiler; empty ones are enough here.
    (tmp_path / "crt").mkdir()
    for name in ("host_defines.h", "host_config.h"):
        if not (headers / "crt" / name).exists():
            (tmp_path / "crt" / name).write_text("")
    program = tmp_path / "structs"
    compiled = subprocess.run(
        ["cc", "-w", f"-I{headers}", f"-I{tmp_path}", *NO_WORDS, "-x", "c", "-", "-o", str(program)],
        input=STRUCTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr[:2000]
    shown = {
        name: (int(first), int(second))
        for name, first, second in (
            line.split()
            for line in subprocess.run(
                [str(program)], capture_output=True, text=True, check=True
            ).stdout.splitlines()
        )
    }
    assert shown == {
        "CUDA_MEMCPY2D": (112, 120),
        "CUDA_MEMCPY3D": (176, 184),
        "CUDA_MEMCPY3D_PEER": (176, 192),
        "Parms": (128, 152),
        "Peer": (144, 160),
        "extent": (24, 32),
    }
    for symbol, layer, offset in [
        ("cuMemcpy2D_v2", "driver", 112),
        ("cuMemcpy3D_v2", "driver", 176),
        ("cuMemcpy3DPeer", "driver", 176),
        ("cudaMemcpy3D", "runtime", 128),
        ("cudaMemcpy3DPeer", "runtime", 144),
    ]:
        function = match(symbol, layer)
        assert function is not None
        assert function.b == offset
    directed = match("cudaMemcpy3D", "runtime")
    assert directed is not None
    assert 8 * directed.d == 152


@pytest.fixture(autouse=True)
def _all_in_one_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limit of an update to a minute, so that one update examines all files on a slow
    machine."""
    monkeypatch.setattr(libraries, "START_SECONDS", 60.0)
    monkeypatch.setattr(libraries, "BUDGET_SECONDS", 60.0)


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelSide]:
    kernel = KernelSide()
    yield kernel
    kernel.close()


def attach_only(kernel: KernelSide, wanted: Path) -> Attach:
    """Return a function that probes only ``wanted``, so that other processes do not use up slots."""

    def attach(path: str, points: Sequence[Point]) -> Probes:
        if os.readlink(path) != str(wanted.resolve()):
            raise OSError(errno.EPERM, "not a file of this test")
        return kernel.attach(path, points)

    return attach


def counted(kernel: KernelSide, pid: int) -> dict[str, tuple[int, int, int]]:
    """Return (calls, errors, bytes) of a process by operation, nested ones separately."""
    counts = read_calls(kernel)
    return {
        operations.operation(key.operation).name + (" nested" if key.nested else ""): (
            int(calls), int(errors), int(size),
        )
        for key, calls, errors, size in zip(
            counts.keys, counts.calls, counts.errors, counts.bytes, strict=True
        )
        if key.tgid == pid
    }  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.skipif(path is None, reason=f"{name} was not fetched"), id=name)
        for name, path in [("libcudart 12", CUDART12), ("libcudart 13", CUDART13)]
    ],
)
def test_the_runtime_without_a_gpu_shows_its_calls_and_errors(kernel: KernelSide, path: Path) -> None:
    tracing = Libraries(attach_only(kernel, path))
    try:
        tracing.start()
        with Child() as child:
            child.load(path)
            tracing.update()
            assert child.pid in tracing.traced_pids()
            succeeded = {
                "cudaMalloc": child.call(path, "cudaMalloc", 7, 0, 4096),
                "cudaMemcpy HtoD": child.call(path, "cudaMemcpy", 5, 0, 0, 64, 1),
                "cudaMemcpyAsync DtoH": child.call(path, "cudaMemcpyAsync_ptsz", 4, 0, 0, 64, 2, 0),
                "cudaMemcpy": child.call(path, "cudaMemcpy_ptds", 2, 0, 0, 64, 77),
                "cudaStreamSynchronize": child.call(path, "cudaStreamSynchronize", 3, 0),
                "cudaDeviceSynchronize": child.call(path, "cudaDeviceSynchronize", 6),
                "cudaLaunchKernel": child.call(path, "cudaLaunchKernel", 9, 0, 0, 0, 0, 0, 0),
                "cudaStreamBeginCapture": child.call(path, "cudaStreamBeginCapture", 1, 0, 0),
            }
            calls = {
                "cudaMalloc": 7, "cudaMemcpy HtoD": 5, "cudaMemcpyAsync DtoH": 4, "cudaMemcpy": 2,
                "cudaStreamSynchronize": 3, "cudaDeviceSynchronize": 6, "cudaLaunchKernel": 9,
                "cudaStreamBeginCapture": 1,
            }  # fmt: skip
            # The counts must equal the errors that the calls returned. Without a GPU nearly all calls fail.
            got = counted(kernel, child.pid)
            assert {name: (got[name][0], got[name][0] - got[name][1]) for name in calls} == {
                name: (calls[name], succeeded[name]) for name in calls
            }
            assert sum(got[name][1] for name in calls) > 20
    finally:
        tracing.close()


@pytest.mark.skipif(LIBCUDA is None, reason="libcuda was not fetched")
def test_the_driver_without_a_gpu_shows_its_calls_and_errors(kernel: KernelSide, tmp_path: Path) -> None:
    assert LIBCUDA is not None
    path = tmp_path / "libcuda.so.1"
    path.symlink_to(LIBCUDA)
    tracing = Libraries(attach_only(kernel, path))
    try:
        tracing.start()
        with Child() as child:
            child.load(path)
            tracing.update()
            assert child.pid in tracing.traced_pids()
            assert child.call(path, "cuMemAlloc_v2", 3, 0, 64) == 0
            assert child.call(path, "cuMemAlloc", 2, 0, 64) == 0
            assert child.call(path, "cuMemcpyHtoDAsync_v2_ptsz", 4, 0, 0, 64, 0) == 0
            assert child.call(path, "cuCtxSynchronize", 5) == 0
            assert {name: count[:2] for name, count in counted(kernel, child.pid).items()} == {
                "cuMemAlloc": (5, 5),
                "cuMemcpyHtoDAsync": (4, 4),
                "cuCtxSynchronize": (5, 5),
            }
    finally:
        tracing.close()
