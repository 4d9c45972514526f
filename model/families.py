"""Families of operations (launch, copy, sync, …), derived from their names. Diagnosis tells causes apart by
them.

An operation is a function of ``cuda.h``, ``cuda_runtime_api.h`` or ``nccl.h`` without its variant suffix;
copies carry their direction (``cudaMemcpyAsync HtoD``).
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from stalltop.model.evidence import HOST_LAYER


class Family(StrEnum):
    """Family of an operation: what a call of it does."""

    LAUNCH = "launch"
    GRAPH_LAUNCH = "graph launch"
    GRAPH_CAPTURE = "graph capture"
    """Begins or ends a stream capture."""
    GRAPH_INSTANTIATE = "graph instantiate"
    GRAPH_UPDATE = "graph update"
    """Replaces the parameters of a graph that can be launched, or uploads it to the device."""
    ALLOC = "alloc"
    """Allocates device memory from the driver."""
    FREE = "free"
    POOL_ALLOC = "pool alloc"
    """Allocates from a memory pool in stream order: ``cudaMallocAsync``."""
    POOL_FREE = "pool free"
    HOST_ALLOC = "host alloc"
    """Allocates pinned host memory, or registers host memory."""
    HOST_FREE = "host free"
    POOL = "pool"
    """Creates, destroys or trims a memory pool."""
    MAP = "map"
    """Virtual memory management: creates physical memory, reserves addresses, maps, or sets access."""
    UNMAP = "unmap"
    IPC = "ipc"
    """Opens or closes device memory that another process allocated."""
    COPY = "copy"
    MEMSET = "memset"
    PREFETCH = "prefetch"
    SYNC = "sync"
    """The host waits for the device."""
    WAIT = "wait"
    """A stream waits for an event; the host does not."""
    LOAD = "load"
    COLLECTIVE = "collective"
    POINT = "point"
    GROUP = "group"
    COMMUNICATOR = "communicator"
    HOST = "host"
    OTHER = "other"


class OperationKind(NamedTuple):
    """Properties of an operation that its name tells."""

    family: Family
    direction: str = ""
    """Direction of a copy: ``HtoD``, ``DtoH``, ``DtoD``, ``HtoH``; '' if the name does not tell."""
    asynchronous: bool = False
    """True if the call may return before the device is done; copies of pageable memory may still block."""


_PATTERNS: Final = tuple(
    (re.compile(pattern), family)
    for pattern, family in (
        (r"(cu|cuda)Launch", Family.LAUNCH),
        (r"(cu|cuda)GraphLaunch", Family.GRAPH_LAUNCH),
        (r"(cu|cuda)GraphInstantiate", Family.GRAPH_INSTANTIATE),
        (r"(cu|cuda)Graph(ExecUpdate|Upload)", Family.GRAPH_UPDATE),
        (r"(cu|cuda)Stream(Begin|End)Capture", Family.GRAPH_CAPTURE),
        (r"(cu|cuda)StreamWaitEvent", Family.WAIT),
        (r"(cu|cuda)\w*Synchronize", Family.SYNC),
        (r"cu(MemAllocHost|MemHostAlloc|MemHostRegister)", Family.HOST_ALLOC),
        (r"cuda(MallocHost|HostAlloc|HostRegister)", Family.HOST_ALLOC),
        (r"cu(MemFreeHost|MemHostUnregister)|cuda(FreeHost|HostUnregister)", Family.HOST_FREE),
        (r"(cuMemAlloc|cudaMalloc)(Async|FromPoolAsync)", Family.POOL_ALLOC),
        (r"(cuMemFree|cudaFree)Async", Family.POOL_FREE),
        (r"(cu|cuda)MemPool", Family.POOL),
        (r"cuMemAlloc|cudaMalloc|cu(Mipmapped)?Array(3D)?Create", Family.ALLOC),
        (r"cuMemFree|cudaFree|cu(Mipmapped)?ArrayDestroy", Family.FREE),
        (r"cuMem(Create|Map|SetAccess|AddressReserve)", Family.MAP),
        (r"cuMem(Unmap|Release|AddressFree)", Family.UNMAP),
        (r"(cu|cuda)Ipc(Open|Close)MemHandle", Family.IPC),
        (r"(cu|cuda)Memcpy", Family.COPY),
        (r"(cu|cuda)Memset", Family.MEMSET),
        (r"(cu|cuda)Mem\w*Prefetch", Family.PREFETCH),
        (r"cuModuleLoad|(cu|cuda)LibraryLoad", Family.LOAD),
        (r"nccl(Send|Recv|PutSignal|Signal|WaitSignal)", Family.POINT),
        (r"ncclGroup", Family.GROUP),
        (r"ncclComm", Family.COMMUNICATOR),
        (r"nccl", Family.COLLECTIVE),
    )
)
"""The first pattern that matches the beginning of the name decides."""

_DIRECTIONS: Final = {"HtoA": "HtoD", "AtoH": "DtoH", "DtoA": "DtoD", "AtoD": "DtoD", "AtoA": "DtoD"}
"""CUDA arrays (A) are in device memory."""
_DIRECTION: Final = re.compile(r"(HtoH|HtoD|DtoH|DtoD|HtoA|AtoH|DtoA|AtoD|AtoA)(?![a-z])")


KERNELS_OF_A_GRAPH: Final = 20
"""Assumed minimum of CUDA kernels in one graph launch: capturing fewer is not worth it."""


WAITING_PARTS: Final = ("gpu", "running", "lock", "other")
"""Parts of a synchronising call's split that count as waiting for the device: the call sleeps in ioctl or
poll, sleeps in a futex while another driver thread takes the interrupt, or spins. Problems of the host show
in the other parts."""


@lru_cache(maxsize=2048)
def kind_of(layer: str, operation: str) -> OperationKind:
    """Returns the properties of ``operation`` of ``layer``; family OTHER for an unknown name."""
    if layer == HOST_LAYER:
        return OperationKind(Family.HOST)
    family = next((family for pattern, family in _PATTERNS if pattern.match(operation)), Family.OTHER)
    if family is not Family.COPY:
        return OperationKind(family, asynchronous="Async" in operation)
    return OperationKind(family, _direction(operation), "Async" in operation)


def launches_kernel(layer: str, operation: str) -> bool:
    """Returns True if a call of ``operation`` of ``layer`` launches exactly one CUDA kernel: no graph, and
    not one on each of several devices."""
    return kind_of(layer, operation).family is Family.LAUNCH and not operation.endswith("MultiDevice")


def _direction(operation: str) -> str:
    found = _DIRECTION.search(operation)
    if found is not None:
        return _DIRECTIONS.get(found[1], found[1])
    if "Peer" in operation or "ArrayToArray" in operation:
        return "DtoD"
    if "ToSymbol" in operation or "ToArray" in operation:
        return "HtoD"
    return "DtoH" if "FromSymbol" in operation or "FromArray" in operation else ""
