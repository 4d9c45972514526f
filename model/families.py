"""Families of operations (launch, copy, sync, …), derived from the names of the operations. Diagnosis uses
families to tell causes apart.

An operation is a function of ``cuda.h``, ``cuda_runtime_api.h`` or ``nccl.h``, named without its variant
suffix such as ``_v2``. The name of a copy ends in its direction, if known (``cudaMemcpyAsync HtoD``).
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from stalltop.model.evidence import HOST_LAYER


class Family(StrEnum):
    """Family of an operation: the kind of work that its calls do."""

    LAUNCH = "launch"
    GRAPH_LAUNCH = "graph launch"
    GRAPH_CAPTURE = "graph capture"
    """Begins or ends a stream capture."""
    GRAPH_INSTANTIATE = "graph instantiate"
    GRAPH_UPDATE = "graph update"
    """Replaces the parameters of an instantiated graph, or uploads an instantiated graph to the device."""
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
    """Makes the calling thread wait for the device."""
    WAIT = "wait"
    """Makes a stream wait for an event; the calling thread does not wait."""
    LOAD = "load"
    COLLECTIVE = "collective"
    POINT = "point"
    GROUP = "group"
    COMMUNICATOR = "communicator"
    HOST = "host"
    OTHER = "other"


class OperationKind(NamedTuple):
    """Properties of an operation, derived from its name."""

    family: Family
    direction: str = ""
    """Direction of a copy: ``HtoD``, ``DtoH``, ``DtoD``, ``HtoH``; '' if the name does not show it, and for
    operations that are no copies."""
    asynchronous: bool = False
    """True if the name of the operation contains ``Async``. Launches have False, although they return before
    the device is done; asynchronous copies of pageable memory have True, although they may block."""


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
"""(pattern, family): an operation belongs to the family of the first pattern that matches the beginning of
its name."""

_DIRECTIONS: Final = {"HtoA": "HtoD", "AtoH": "DtoH", "DtoA": "DtoD", "AtoD": "DtoD", "AtoA": "DtoD"}
"""By direction of a copy that involves CUDA arrays (A): the direction that it counts as. CUDA arrays are in
device memory (D)."""
_DIRECTION: Final = re.compile(r"(HtoH|HtoD|DtoH|DtoD|HtoA|AtoH|DtoA|AtoD|AtoA)(?![a-z])")


KERNELS_OF_A_GRAPH: Final = 20
"""Assumed number of CUDA kernels in one graph launch. It is a low estimate: capturing fewer CUDA kernels in a
graph saves too little to be worth the effort."""


WAITING_PARTS: Final = ("gpu", "running", "lock", "other")
"""Parts of a synchronising call's split that count as waiting for the device. A call that waits for the
device sleeps in ioctl or poll (gpu), sleeps in a futex while another thread of the CUDA driver handles the
interrupt (lock), spins (running), or sleeps in another way (other). All other parts show problems of the
host."""


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
