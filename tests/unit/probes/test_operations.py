"""Tests the table of traced functions: names, variants and sizes."""

import platform
import subprocess
import sys

import pytest

from stalltop.model.evidence import HOST_GAP, HOST_LAYER, HOST_WORK
from stalltop.model.families import Family, kind_of, launches_kernel
from stalltop.probes import operations
from stalltop.probes.layout import Choosing, Direction, Object, Size
from stalltop.probes.operations import (
    BETWEEN_CALLS,
    CHOOSINGS,
    FIRST_CHOOSING,
    FUNCTIONS,
    KINDS,
    NCCL_IN_PROGRESS,
    OPERATIONS,
    Function,
    match,
)


def found(symbol: str, layer: str) -> Function:
    function = match(symbol, layer)
    assert function is not None, symbol
    return function


def name(function: Function) -> str:
    return operations.operation(function.operation).name


def test_ids_fit_the_fields_of_the_bpf_program() -> None:
    assert [operation.id for operation in OPERATIONS] == list(range(1, len(OPERATIONS) + 1))
    assert [function.id for function in FUNCTIONS] == list(range(1, len(FUNCTIONS) + 1))
    assert len(OPERATIONS) < min(info.id for info in BETWEEN_CALLS)
    assert [info.id for info in BETWEEN_CALLS] == [510, 511]
    assert len(FUNCTIONS) < 1024
    assert len({(operation.layer, operation.name) for operation in OPERATIONS}) == len(OPERATIONS)


def test_host_gap_and_host_work_are_operations_of_the_host() -> None:
    for info, name in zip(BETWEEN_CALLS, (HOST_GAP, HOST_WORK), strict=True):
        assert operations.operation(info.id) is info
        assert (info.name, info.layer) == (name, HOST_LAYER)


def test_every_function_has_an_operation_of_its_layer() -> None:
    for function in FUNCTIONS:
        operation = operations.operation(function.operation)
        assert operation.layer == function.layer
        assert operation.name == function.symbol


def test_a_copy_has_one_operation_per_direction() -> None:
    directed = [function for function in FUNCTIONS if function.direction is not Direction.NONE]
    assert {function.symbol for function in directed} >= {"cudaMemcpy", "cudaMemcpy2DAsync", "cudaMemcpy3D"}
    for function in directed:
        for value, kind in enumerate(KINDS):
            operation = operations.operation(function.operation + 1 + value)
            assert (operation.name, operation.layer) == (f"{function.symbol} {kind}", "runtime")
            assert kind_of(operation.layer, operation.name).family is Family.COPY


@pytest.mark.parametrize("number", [0, -1, len(OPERATIONS) + 1])
def test_ids_outside_the_table_are_refused(number: int) -> None:
    with pytest.raises(IndexError):
        operations.operation(number)


@pytest.mark.parametrize(
    ("layer", "base", "variants"),
    [
        ("driver", "cuMemAlloc", ["cuMemAlloc", "cuMemAlloc_v2"]),
        ("driver", "cuMemcpyHtoDAsync", ["cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"]),
        ("driver", "cuMemcpyHtoD", ["cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"]),
        ("driver", "cuMemcpy", ["cuMemcpy", "cuMemcpy_ptds"]),
        ("driver", "cuLaunchKernel", ["cuLaunchKernel", "cuLaunchKernel_ptsz"]),
        ("driver", "cuLaunchKernelEx", ["cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"]),
        ("driver", "cuStreamBeginCapture", ["cuStreamBeginCapture_v2_ptsz", "cuStreamBeginCapture"]),
        ("driver", "cuGraphExecUpdate", ["cuGraphExecUpdate", "cuGraphExecUpdate_v2"]),
        ("driver", "cuGraphUpload", ["cuGraphUpload", "cuGraphUpload_ptsz"]),
        ("driver", "cuCtxSynchronize", ["cuCtxSynchronize", "cuCtxSynchronize_v2"]),
        ("driver", "cuMemsetD2D8Async", ["cuMemsetD2D8Async", "cuMemsetD2D8Async_ptsz"]),
        ("runtime", "cudaMemcpyAsync", ["cudaMemcpyAsync", "cudaMemcpyAsync_ptsz"]),
        ("runtime", "cudaMemcpy", ["cudaMemcpy", "cudaMemcpy_ptds"]),
        ("runtime", "cudaMemPrefetchAsync", ["cudaMemPrefetchAsync", "cudaMemPrefetchAsync_v2_ptsz"]),
        ("nccl", "ncclAllReduce", ["ncclAllReduce"]),
    ],
)  # fmt: skip
def test_variants_are_one_operation(layer: str, base: str, variants: list[str]) -> None:
    assert {name(found(variant, layer)) for variant in variants} == {base}


@pytest.mark.parametrize(
    ("symbol", "layer"),
    [
        ("__cudaLaunchKernel", "runtime"),  # jumps to cudaLaunchKernel, which is counted
        ("pncclAllReduce", "nccl"),  # an alias of ncclAllReduce
        ("cudaGetLastError", "runtime"),
        ("cudaMallocAsyncX", "runtime"),
        ("cudaMalloc_ptsz_v2", "runtime"),
        ("cudamalloc", "runtime"),
        ("cudaMalloc", "driver"),
        ("cuMemAlloc_v2", "runtime"),
        ("cuMemAlloc_v2 ", "driver"),
        ("", "driver"),
    ],
)
def test_other_symbols_are_not_traced(symbol: str, layer: str) -> None:
    assert match(symbol, layer) is None


MALLOC3D = {"x86_64": (Size.PRODUCT3, (6, 7, 8)), "aarch64": (Size.STRUCT, (1, 0, 3))}
MEMSET3D = {"x86_64": (Size.PRODUCT3, (10, 11, 12)), "aarch64": (Size.STRUCT, (2, 0, 3))}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_struct_passed_by_value_is_read_by_the_machines_calling_convention(machine: str) -> None:
    script = """
import platform, sys
platform.machine = lambda: sys.argv[1]
from stalltop.probes.operations import match
for symbol in ("cudaMalloc3D", "cudaMemset3D"):
    function = match(symbol, "runtime")
    print(int(function.size), function.a, function.b, function.c)
"""
    command = [sys.executable, "-c", script, machine]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    rules = [tuple(map(int, line.split())) for line in told.splitlines()]
    assert rules == [(size, *arguments) for size, arguments in (MALLOC3D[machine], MEMSET3D[machine])]


@pytest.mark.parametrize(
    ("symbol", "layer", "size", "arguments"),
    [
        ("cuMemAlloc_v2", "driver", Size.ARGUMENT, (1, 0, 0)),
        ("cuMemAlloc", "driver", Size.ARGUMENT32, (1, 0, 0)),
        ("cuMemAllocPitch", "driver", Size.PRODUCT32, (2, 3, 0)),
        ("cuMemcpy2D_v2", "driver", Size.STRUCT, (0, 112, 2)),
        ("cuMemcpy2D", "driver", Size.NONE, None),
        ("cuMemcpy3DPeer_ptds", "driver", Size.STRUCT, (0, 176, 3)),
        ("cuMemsetD32_v2", "driver", Size.ARGUMENT, (2, 0, 2)),
        ("cuMemsetD32Async", "driver", Size.ARGUMENT, (2, 0, 2)),  # 64 bits even without _v2
        ("cuMemsetD32", "driver", Size.ARGUMENT32, (2, 0, 2)),
        ("cuMemsetD2D16_v2_ptds", "driver", Size.PRODUCT, (3, 4, 1)),
        ("cuLaunchKernel", "driver", Size.NONE, None),
        ("cudaMemcpy2DToArray", "runtime", Size.PRODUCT, (5, 6, 0)),
        ("cudaMalloc3D", "runtime", *MALLOC3D[platform.machine()]),
        ("cudaMemset3D", "runtime", *MEMSET3D[platform.machine()]),
        ("ncclBcast", "nccl", Size.NCCL, (1, 2, 0)),
        ("ncclReduceScatter", "nccl", Size.NCCL, (2, 3, 0)),
    ],
)
def test_the_size_of_a_call_is_in_these_arguments(
    symbol: str, layer: str, size: Size, arguments: tuple[int, int, int] | None
) -> None:
    function = found(symbol, layer)
    assert function.size is size
    if arguments is not None:
        assert (function.a, function.b, function.c) == arguments


def test_only_nccl_functions_can_be_in_progress() -> None:
    assert {function.pending for function in FUNCTIONS if function.layer == "nccl"} == {NCCL_IN_PROGRESS}
    assert {function.pending for function in FUNCTIONS if function.layer != "nccl"} == {0}


@pytest.mark.parametrize(
    ("symbol", "layer", "kind", "at"),
    [
        ("cudaMalloc", "runtime", Object.ALLOCATES, 0),
        ("cudaMallocAsync_ptsz", "runtime", Object.ALLOCATES, 0),
        ("cuMemCreate", "driver", Object.ALLOCATES, 0),
        ("cuMemAlloc_v2", "driver", Object.ALLOCATES, 0),
        ("cuMemAlloc", "driver", Object.NONE, 0),  # returns 32-bit addresses
        ("cudaMallocHost", "runtime", Object.NONE, 0),
        ("cudaHostAlloc", "runtime", Object.NONE, 0),
        ("cudaFreeAsync", "runtime", Object.FREES, 0),
        ("cuMemRelease", "driver", Object.FREES, 0),
        ("cudaFreeHost", "runtime", Object.NONE, 0),
        ("ncclCommInitRankConfig", "nccl", Object.JOINS, 0),
        ("ncclCommSplit", "nccl", Object.SPLITS, 3),
        ("ncclCommAbort", "nccl", Object.LEAVES, 0),
        ("ncclAllReduce", "nccl", Object.ENTERS, 5),
        ("ncclReduce", "nccl", Object.ENTERS, 6),
        ("ncclAllGather", "nccl", Object.ENTERS, 4),
        ("ncclSend", "nccl", Object.USES, 4),
        ("ncclGroupEnd", "nccl", Object.NONE, 0),
    ],
)
def test_objects_that_outlive_a_call_are_followed(symbol: str, layer: str, kind: Object, at: int) -> None:
    function = found(symbol, layer)
    assert (function.object, function.object_at) == (kind, at)


def test_every_collective_has_a_communicator() -> None:
    for function in FUNCTIONS:
        collective = kind_of(function.layer, function.symbol).family is Family.COLLECTIVE
        assert collective == (function.object is Object.ENTERS), function.symbol


def test_followed_allocations_have_a_size() -> None:
    for function in FUNCTIONS:
        assert function.object is not Object.ALLOCATES or function.size is not Size.NONE, function.symbol


def test_every_function_that_launches_one_cuda_kernel_shows_which() -> None:
    for function in FUNCTIONS:
        shows = function.object is Object.LAUNCHES
        assert shows == launches_kernel(function.layer, function.symbol), function.symbol


@pytest.mark.parametrize(
    ("layer", "uses", "does_not"),
    [
        (
            "driver",
            "cuLaunchKernel_ptsz cuGraphLaunch cuMemcpyHtoD cuMemcpyHtoDAsync_v2 cuCtxSynchronize",
            "cuMemAlloc_v2 cuMemFree_v2 cuGraphInstantiate cuStreamBeginCapture cuStreamWaitEvent",
        ),
        (
            "runtime",
            "cudaLaunchKernel cudaGraphLaunch cudaGraphUpload cudaMemcpyAsync cudaMemset "
            "cudaDeviceSynchronize",
            "cudaMalloc cudaFree cudaGraphInstantiate cudaGraphExecUpdate cudaStreamEndCapture "
            "cudaStreamWaitEvent",
        ),
        ("nccl", "ncclAllReduce ncclSend ncclGroupEnd", "ncclGroupStart ncclCommInitRank ncclCommDestroy"),
    ],
)
def test_functions_that_work_or_wait_use_the_device(layer: str, uses: str, does_not: str) -> None:
    assert all(found(symbol, layer).uses_device for symbol in uses.split())
    assert not any(found(symbol, layer).uses_device for symbol in does_not.split())


@pytest.mark.parametrize(
    ("symbol", "layer", "choosing"),
    [
        ("cuInit", "driver", Choosing.BEGINS),
        ("cudaSetDevice", "runtime", Choosing.SETS_DEVICE),
        ("cuCtxCreate", "driver", Choosing.CREATES_2),
        ("cuCtxCreate_v2", "driver", Choosing.CREATES_2),
        ("cuCtxCreate_v3", "driver", Choosing.CREATES_4),
        ("cuCtxCreate_v4", "driver", Choosing.CREATES_3),
        ("cuCtxCreate_v5", "driver", None),  # the position of its device argument is unknown
        ("cuCtxGetDevice", "driver", Choosing.TELLS),
        ("cuCtxGetDevice_v2", "driver", None),
        ("cuDeviceGetUuid_v2", "driver", Choosing.TELLS_UUID),
        ("cuCtxGetCurrent", "driver", None),
        ("cudaGetDevice", "runtime", None),  # called too often to be worth a probe
        ("cudaSetDevice", "driver", None),
    ],
)
def test_functions_that_choose_a_device(symbol: str, layer: str, choosing: Choosing | None) -> None:
    function = match(symbol, layer)
    if choosing is None:
        assert function is None
        return
    assert function is not None
    assert function.operation == 0, "such a function is not counted"
    assert function.id >= FIRST_CHOOSING
    assert function.id % CHOOSINGS == choosing
