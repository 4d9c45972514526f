"""What an operation does, by its name: the families that causes are told apart by.

Names are those of ``cuda.h``, ``cuda_runtime_api.h`` and ``nccl.h`` without their variants, with the
direction of a copy after them (``cudaMemcpyAsync HtoD``), as rows carry them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from stalltop.model.evidence import HOST_LAYER


class Family(StrEnum):
    """What a call does."""

    LAUNCH = "launch"
    GRAPH_LAUNCH = "graph launch"
    GRAPH_CAPTURE = "graph capture"
    """Begin and end of capturing."""
    GRAPH_INSTANTIATE = "graph instantiate"
    ALLOC = "alloc"
    """Memory of the device, from the driver."""
    FREE = "free"
    POOL_ALLOC = "pool alloc"
    """In stream order, from a pool: ``cudaMallocAsync``."""
    POOL_FREE = "pool free"
    HOST_ALLOC = "host alloc"
    """Pinned memory of the host: allocated or registered."""
    HOST_FREE = "host free"
    POOL = "pool"
    """Pools made, destroyed and trimmed."""
    MAP = "map"
    """Virtual memory management: physical memory created, addresses reserved, mapped, made accessible."""
    UNMAP = "unmap"
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
    """What is known of an operation by its name."""

    family: Family
    direction: str = ""
    """Of a copy: ``HtoD``, ``DtoH``, ``DtoD``, ``HtoH``; empty where the name does not tell."""
    asynchronous: bool = False
    """It returns before the device has done it, as far as its memory allows."""


_PATTERNS: Final = tuple(
    (re.compile(pattern), family)
    for pattern, family in (
        (r"(cu|cuda)Launch", Family.LAUNCH),
        (r"(cu|cuda)GraphLaunch", Family.GRAPH_LAUNCH),
        (r"(cu|cuda)GraphInstantiate", Family.GRAPH_INSTANTIATE),
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
"""The first one that a name begins with counts."""

_DIRECTIONS: Final = {"HtoA": "HtoD", "AtoH": "DtoH", "DtoA": "DtoD", "AtoD": "DtoD", "AtoA": "DtoD"}
"""Arrays lie in the device's memory."""
_DIRECTION: Final = re.compile(r"(HtoH|HtoD|DtoH|DtoD|HtoA|AtoH|DtoA|AtoD|AtoA)(?![a-z])")


KERNELS_OF_A_GRAPH: Final = 20
"""Kernels that the launch of a graph stands for at least: with fewer nobody captures one."""


WAITING_PARTS: Final = ("gpu", "running", "lock", "other")
"""Parts of a synchronisation's time that are waiting for the device: it sleeps in ioctl or poll, or in a
futex where another thread of the driver takes the interrupt, or it spins. What a host fault adds lies in the
others."""


@lru_cache(maxsize=2048)
def kind_of(layer: str, operation: str) -> OperationKind:
    """What ``operation`` of ``layer`` does; family OTHER for a name unknown here."""
    if layer == HOST_LAYER:
        return OperationKind(Family.HOST)
    family = next((family for pattern, family in _PATTERNS if pattern.match(operation)), Family.OTHER)
    if family is not Family.COPY:
        return OperationKind(family, asynchronous="Async" in operation)
    return OperationKind(family, _direction(operation), "Async" in operation)


def _direction(operation: str) -> str:
    found = _DIRECTION.search(operation)
    if found is not None:
        return _DIRECTIONS.get(found[1], found[1])
    if "Peer" in operation or "ArrayToArray" in operation:
        return "DtoD"
    if "ToSymbol" in operation or "ToArray" in operation:
        return "HtoD"
    return "DtoH" if "FromSymbol" in operation or "FromArray" in operation else ""
