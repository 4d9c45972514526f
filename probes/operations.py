"""Lists every traced function: its name, its operation, and how to find the number of bytes of a call.

The signatures are those of CUDA's ``cuda.h`` and ``cuda_runtime_api.h`` (11 to 13) and of ``nccl.h`` (2.x).
Argument numbers count the call's integer arguments from 0. How a ``cudaExtent`` is passed by value depends on
the machine. On x86-64 it lies on the stack; each 8 bytes of it have one argument number, after the six
numbers of the registers (System V ABI, 3.2.3). On aarch64 it is one argument, a pointer to a copy (AAPCS64,
6.8.2).

One function may exist under many symbols: ``cuMemcpyHtoD``, ``cuMemcpyHtoD_v2``, ``cuMemcpyHtoD_v2_ptds``.
Which of them a program calls depends on ``cuGetProcAddress`` and compile flags. So all of them are traced, as
one operation.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from stalltop.model.evidence import HOST_GAP, HOST_LAYER, HOST_WORK
from stalltop.model.families import Family, kind_of
from stalltop.probes import layout
from stalltop.probes.layout import Direction, Object, Size

NAMINGS: Final = layout.NAMING_MASK + 1
"""Number of attach cookies that are reserved for each function that names CUDA kernels: one for each
``layout.Naming``, and some that are not used."""
CHOOSINGS: Final = layout.CHOOSING_MASK + 1
"""Number of attach cookies that are reserved for each function that chooses a device: one for each
``layout.Choosing``, and some that are not used."""
FIRST_CHOOSING: Final = 2 * layout.FUNCTIONS
"""The lowest attach cookie of functions that choose a device."""

KINDS: Final = ("HtoH", "HtoD", "DtoH", "DtoD", "default")
"""Names of ``cudaMemcpyKind`` 0 to 4. With ``default``, CUDA finds the direction from the addresses."""

NCCL_IN_PROGRESS: Final = 7
"""``ncclInProgress``: a call on a non-blocking communicator returns this while its work continues. It is not
an error."""

DRIVER: Final = "driver"
RUNTIME: Final = "runtime"
NCCL: Final = "nccl"


@dataclass(frozen=True, slots=True)
class OperationInfo:
    """The name and the layer of an operation, as rows show them."""

    id: int
    """1 to 511."""
    name: str
    """For example ``cudaLaunchKernel``, ``cuMemcpyHtoDAsync`` or ``cudaMemcpyAsync HtoD``."""
    layer: str


@dataclass(frozen=True, slots=True)
class Function:
    """One traced function. Its variants, such as ``_v2``, are counted as the same function."""

    id: int
    """Attach cookie. Below ``layout.FUNCTIONS`` for counted functions; from there on for functions that
    reveal names of CUDA kernels; from ``FIRST_CHOOSING`` on for functions that choose a device."""
    symbol: str
    """Name of the function without its variant."""
    operation: int
    """Operation id; 0 if the function's calls are not counted."""
    layer: str
    size: Size = Size.NONE
    a: int = 0
    b: int = 0
    c: int = 0
    direction: Direction = Direction.NONE
    d: int = 0
    pending: int = 0
    """Return value other than 0 that is no error (``NCCL_IN_PROGRESS``); 0 if there is none."""
    object: Object = Object.NONE
    object_at: int = 0
    uses_device: bool = False
    """Whether a call gives work to the device or waits for the device (used by ``probes.maps.activity``)."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """How to read the size and direction of a call from its arguments; used before ids are assigned."""

    size: Size = Size.NONE
    a: int = 0
    b: int = 0
    c: int = 0
    direction: Direction = Direction.NONE
    d: int = 0


def _bytes(a: int, shift: int = 0) -> _Rule:
    return _Rule(Size.ARGUMENT, a, 0, shift)


def _area(a: int, b: int, shift: int = 0) -> _Rule:
    return _Rule(Size.PRODUCT, a, b, shift)


def _kind(d: int, rule: _Rule) -> _Rule:
    return replace(rule, direction=Direction.KIND, d=d)


_NOTHING = _Rule()

# Byte offsets of the extent (the factors of the size), and of the kind, in the documented structs (64-bit).
# If an array takes part in the copy, the extent counts elements of the array. Their size is not among the
# arguments, so the counted bytes are a lower bound.
_MEMCPY2D = _Rule(Size.STRUCT, 0, 112, 2)  # From CUDA_MEMCPY2D.WidthInBytes on.
_MEMCPY3D = _Rule(Size.STRUCT, 0, 176, 3)  # From WidthInBytes of CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER on.
_PARMS3D = _Rule(Size.STRUCT, 0, 128, 3, Direction.STRUCT_KIND, 152 // 8)  # cudaMemcpy3DParms: extent, kind.
_PEER3D = _Rule(Size.STRUCT, 0, 144, 3)  # cudaMemcpy3DPeerParms: extent.
_EXTENTS = {
    # For cudaMalloc3D(cudaPitchedPtr *, cudaExtent), then for cudaMemset3D(cudaPitchedPtr, int, cudaExtent).
    "x86_64": (
        _Rule(Size.PRODUCT3, 6, 7, 8),  # Only the extent is on the stack.
        _Rule(Size.PRODUCT3, 10, 11, 12),  # The pitched pointer lies before the extent: 6 to 9.
    ),
    "aarch64": (_Rule(Size.STRUCT, 1, 0, 3), _Rule(Size.STRUCT, 2, 0, 3)),
}
_MALLOC3D, _MEMSET3D = _EXTENTS["aarch64" if platform.machine() == "aarch64" else "x86_64"]

_TABLE: Final[tuple[tuple[str, _Rule, str], ...]] = (
    (DRIVER, _NOTHING, "cuLaunchKernel cuLaunchKernelEx cuLaunch cuLaunchGrid cuLaunchGridAsync"),
    (DRIVER, _NOTHING, "cuLaunchCooperativeKernel cuLaunchCooperativeKernelMultiDevice"),
    (DRIVER, _NOTHING, "cuGraphLaunch cuGraphInstantiate"),
    (DRIVER, _NOTHING, "cuGraphInstantiateWithFlags cuGraphInstantiateWithParams"),
    (DRIVER, _NOTHING, "cuGraphExecUpdate cuGraphUpload"),
    (DRIVER, _NOTHING, "cuStreamBeginCapture cuStreamBeginCaptureToGraph cuStreamEndCapture"),
    (DRIVER, _bytes(1), "cuMemAlloc cuMemAllocHost cuMemHostAlloc cuMemHostRegister"),
    (DRIVER, _bytes(1), "cuMemAllocManaged cuMemAllocAsync cuMemAllocFromPoolAsync"),
    (DRIVER, _area(2, 3), "cuMemAllocPitch"),
    (DRIVER, _NOTHING, "cuMemFree cuMemFreeAsync cuMemFreeHost cuMemHostUnregister"),
    (DRIVER, _NOTHING, "cuMemPoolCreate cuMemPoolDestroy cuMemPoolTrimTo"),
    (DRIVER, _bytes(1), "cuMemCreate cuMemMap cuMemUnmap cuMemSetAccess"),
    (DRIVER, _bytes(1), "cuMemAddressReserve cuMemAddressFree"),
    (DRIVER, _NOTHING, "cuMemRelease cuMemMapArrayAsync"),
    (DRIVER, _NOTHING, "cuIpcOpenMemHandle cuIpcCloseMemHandle"),
    (DRIVER, _NOTHING, "cuArrayCreate cuArray3DCreate cuArrayDestroy"),
    (DRIVER, _NOTHING, "cuMipmappedArrayCreate cuMipmappedArrayDestroy"),
    (DRIVER, _bytes(2), "cuMemcpy cuMemcpyAsync cuMemcpyWithAttributesAsync"),
    (DRIVER, _bytes(2), "cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync"),
    (DRIVER, _bytes(2), "cuMemcpyDtoD cuMemcpyDtoDAsync"),
    (DRIVER, _bytes(3), "cuMemcpyHtoA cuMemcpyHtoAAsync cuMemcpyAtoH cuMemcpyAtoHAsync"),
    (DRIVER, _bytes(3), "cuMemcpyDtoA cuMemcpyAtoD"),
    (DRIVER, _bytes(4), "cuMemcpyAtoA cuMemcpyPeer cuMemcpyPeerAsync"),
    (DRIVER, _MEMCPY2D, "cuMemcpy2D cuMemcpy2DUnaligned cuMemcpy2DAsync"),
    (DRIVER, _MEMCPY3D, "cuMemcpy3D cuMemcpy3DAsync cuMemcpy3DPeer cuMemcpy3DPeerAsync"),
    (DRIVER, _NOTHING, "cuMemcpyBatchAsync cuMemcpy3DBatchAsync cuMemcpy3DWithAttributesAsync"),
    (DRIVER, _bytes(2), "cuMemsetD8 cuMemsetD8Async"),
    (DRIVER, _bytes(2, 1), "cuMemsetD16 cuMemsetD16Async"),
    (DRIVER, _bytes(2, 2), "cuMemsetD32 cuMemsetD32Async"),
    (DRIVER, _area(3, 4), "cuMemsetD2D8 cuMemsetD2D8Async"),
    (DRIVER, _area(3, 4, 1), "cuMemsetD2D16 cuMemsetD2D16Async"),
    (DRIVER, _area(3, 4, 2), "cuMemsetD2D32 cuMemsetD2D32Async"),
    (DRIVER, _bytes(1), "cuMemPrefetchAsync"),
    (DRIVER, _NOTHING, "cuMemPrefetchBatchAsync cuMemDiscardAndPrefetchBatchAsync"),
    (DRIVER, _NOTHING, "cuStreamSynchronize cuEventSynchronize cuCtxSynchronize"),
    (DRIVER, _NOTHING, "cuStreamWaitEvent"),
    (DRIVER, _NOTHING, "cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary"),
    (DRIVER, _NOTHING, "cuLibraryLoadData cuLibraryLoadFromFile"),
    # __cudaLaunchKernel is not probed: it ends in a jump to cudaLaunchKernel, so each launch would be counted
    # twice.
    (RUNTIME, _NOTHING, "cudaLaunchKernel cudaLaunchKernelExC"),
    (RUNTIME, _NOTHING, "cudaLaunchCooperativeKernel cudaLaunchCooperativeKernelMultiDevice"),
    (RUNTIME, _NOTHING, "cudaGraphLaunch cudaGraphInstantiate"),
    (RUNTIME, _NOTHING, "cudaGraphInstantiateWithFlags cudaGraphInstantiateWithParams"),
    (RUNTIME, _NOTHING, "cudaGraphExecUpdate cudaGraphUpload"),
    (RUNTIME, _NOTHING, "cudaStreamBeginCapture cudaStreamBeginCaptureToGraph cudaStreamEndCapture"),
    (RUNTIME, _bytes(1), "cudaMalloc cudaMallocHost cudaHostAlloc cudaHostRegister"),
    (RUNTIME, _bytes(1), "cudaMallocManaged cudaMallocAsync cudaMallocFromPoolAsync"),
    (RUNTIME, _area(2, 3), "cudaMallocPitch"),
    (RUNTIME, _MALLOC3D, "cudaMalloc3D"),
    (RUNTIME, _NOTHING, "cudaMallocArray cudaMalloc3DArray cudaMallocMipmappedArray"),
    (RUNTIME, _NOTHING, "cudaFree cudaFreeAsync cudaFreeHost cudaHostUnregister"),
    (RUNTIME, _NOTHING, "cudaFreeArray cudaFreeMipmappedArray"),
    (RUNTIME, _NOTHING, "cudaMemPoolCreate cudaMemPoolDestroy cudaMemPoolTrimTo"),
    (RUNTIME, _NOTHING, "cudaIpcOpenMemHandle cudaIpcCloseMemHandle"),
    (RUNTIME, _kind(3, _bytes(2)), "cudaMemcpy cudaMemcpyAsync"),
    (RUNTIME, _bytes(2), "cudaMemcpyWithAttributesAsync"),
    (RUNTIME, _bytes(4), "cudaMemcpyPeer cudaMemcpyPeerAsync"),
    (RUNTIME, _kind(4, _bytes(2)), "cudaMemcpyToSymbol cudaMemcpyToSymbolAsync"),
    (RUNTIME, _kind(4, _bytes(2)), "cudaMemcpyFromSymbol cudaMemcpyFromSymbolAsync"),
    (RUNTIME, _kind(5, _bytes(4)), "cudaMemcpyToArray cudaMemcpyToArrayAsync"),
    (RUNTIME, _kind(5, _bytes(4)), "cudaMemcpyFromArray cudaMemcpyFromArrayAsync"),
    (RUNTIME, _kind(7, _bytes(6)), "cudaMemcpyArrayToArray"),
    (RUNTIME, _kind(6, _area(4, 5)), "cudaMemcpy2D cudaMemcpy2DAsync"),
    (RUNTIME, _kind(7, _area(5, 6)), "cudaMemcpy2DToArray cudaMemcpy2DToArrayAsync"),
    (RUNTIME, _kind(7, _area(5, 6)), "cudaMemcpy2DFromArray cudaMemcpy2DFromArrayAsync"),
    (RUNTIME, _kind(8, _area(6, 7)), "cudaMemcpy2DArrayToArray"),
    (RUNTIME, _PARMS3D, "cudaMemcpy3D cudaMemcpy3DAsync"),
    (RUNTIME, _PEER3D, "cudaMemcpy3DPeer cudaMemcpy3DPeerAsync"),
    (
        RUNTIME,
        _NOTHING,
        "cudaMemcpyBatchAsync cudaMemcpy3DBatchAsync cudaMemcpy3DWithAttributesAsync",
    ),
    (RUNTIME, _bytes(2), "cudaMemset cudaMemsetAsync"),
    (RUNTIME, _area(3, 4), "cudaMemset2D cudaMemset2DAsync"),
    (RUNTIME, _MEMSET3D, "cudaMemset3D cudaMemset3DAsync"),
    (RUNTIME, _bytes(1), "cudaMemPrefetchAsync"),
    (RUNTIME, _NOTHING, "cudaMemPrefetchBatchAsync cudaMemDiscardAndPrefetchBatchAsync"),
    (RUNTIME, _NOTHING, "cudaStreamSynchronize cudaEventSynchronize cudaDeviceSynchronize"),
    (RUNTIME, _NOTHING, "cudaThreadSynchronize cudaExecutionCtxSynchronize"),
    (RUNTIME, _NOTHING, "cudaStreamWaitEvent"),
    (RUNTIME, _NOTHING, "cudaLibraryLoadData cudaLibraryLoadFromFile"),
    (NCCL, _Rule(Size.NCCL, 2, 3), "ncclAllReduce ncclReduce ncclReduceScatter ncclAllGather"),
    (NCCL, _Rule(Size.NCCL, 2, 3), "ncclBroadcast ncclAlltoAll ncclGather ncclScatter"),
    (NCCL, _Rule(Size.NCCL, 1, 2), "ncclBcast"),
    (NCCL, _Rule(Size.NCCL, 1, 2), "ncclSend ncclRecv ncclPutSignal"),
    (NCCL, _NOTHING, "ncclSignal ncclWaitSignal"),
    (NCCL, _NOTHING, "ncclGroupStart ncclGroupEnd"),
    (NCCL, _NOTHING, "ncclCommInitRank ncclCommInitRankConfig ncclCommInitRankScalable"),
    (NCCL, _NOTHING, "ncclCommInitAll ncclCommSplit ncclCommShrink ncclCommGrow"),
    (NCCL, _NOTHING, "ncclCommFinalize ncclCommDestroy ncclCommAbort ncclCommRevoke"),
)

_OBJECTS: Final[Mapping[str, tuple[Object, int]]] = {
    symbol: (what, at)
    for what, at, symbols in (
        (Object.ALLOCATES, 0, "cuMemAlloc cuMemAllocManaged cuMemAllocAsync cuMemAllocFromPoolAsync"),
        (Object.ALLOCATES, 0, "cuMemAllocPitch cuMemCreate"),
        (Object.ALLOCATES, 0, "cudaMalloc cudaMallocManaged cudaMallocAsync cudaMallocFromPoolAsync"),
        (Object.ALLOCATES, 0, "cudaMallocPitch cudaMalloc3D"),
        (Object.FREES, 0, "cuMemFree cuMemFreeAsync cuMemRelease cudaFree cudaFreeAsync"),
        (Object.JOINS, 0, "ncclCommInitRank ncclCommInitRankConfig"),
        (Object.JOINS_BY_MANY, 0, "ncclCommInitRankScalable"),
        (Object.JOINS_ALL, 0, "ncclCommInitAll"),
        (Object.SPLITS, 3, "ncclCommSplit"),
        (Object.LEAVES, 0, "ncclCommDestroy ncclCommAbort"),
        (Object.ENTERS, 4, "ncclAllGather ncclAlltoAll ncclBcast"),
        (Object.ENTERS, 5, "ncclAllReduce ncclReduceScatter ncclBroadcast ncclGather ncclScatter"),
        (Object.ENTERS, 6, "ncclReduce"),
        (Object.USES, 4, "ncclSend ncclRecv"),
        (
            Object.LAUNCHES,
            0,
            "cuLaunchKernel cuLaunchCooperativeKernel cuLaunch cuLaunchGrid cuLaunchGridAsync",
        ),
        (Object.LAUNCHES, 1, "cuLaunchKernelEx cudaLaunchKernelExC"),
        (Object.LAUNCHES, 0, "cudaLaunchKernel cudaLaunchCooperativeKernel"),
    )
    for symbol in symbols.split()
}
"""Functions that create, free or use an object that outlives the call. Memory of ``cuMemCreate`` counts as
freed once ``cuMemRelease`` is called, although the driver keeps it as long as it is mapped. Bytes do not
include pitches or the granularity of allocations, because only the driver knows these."""

_DEVICE_FAMILIES: Final = frozenset(
    (
        *(Family.LAUNCH, Family.COPY, Family.MEMSET, Family.PREFETCH),
        *(Family.SYNC, Family.COLLECTIVE, Family.POINT),
    )
)
_DEVICE_SYMBOLS: Final = frozenset(
    ("cuGraphLaunch", "cudaGraphLaunch", "cuGraphUpload", "cudaGraphUpload", "ncclGroupEnd")
)
"""Functions that give work to a device or wait for a device, in addition to all functions of
``_DEVICE_FAMILIES``. Functions that capture, instantiate, update or order work are not included. Functions
that allocate memory or load modules are not included either."""

_OLD: Final = frozenset(
    symbol
    for symbols in (
        "cuMemAlloc cuMemAllocPitch cuMemAllocHost",
        "cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyDtoD cuMemcpyDtoDAsync",
        "cuMemcpyHtoA cuMemcpyHtoAAsync cuMemcpyAtoH cuMemcpyAtoHAsync",
        "cuMemcpyDtoA cuMemcpyAtoD cuMemcpyAtoA",
        "cuMemcpy2D cuMemcpy2DUnaligned cuMemcpy2DAsync cuMemcpy3D cuMemcpy3DAsync",
        "cuMemsetD8 cuMemsetD16 cuMemsetD32 cuMemsetD2D8 cuMemsetD2D16 cuMemsetD2D32",
    )
    for symbol in symbols.split()
)
"""Functions of which the symbol without ``_v2`` is the version from before CUDA 3.2, with sizes of 32 bits.
The extent in the structs of that version is not read, because programs that call it are no longer built."""

_OLD_SIZES: Final = {Size.ARGUMENT: Size.ARGUMENT32, Size.PRODUCT: Size.PRODUCT32}

_NAMING: Final[tuple[tuple[str, layout.Naming, str], ...]] = (
    (RUNTIME, layout.Naming.REGISTERS, "__cudaRegisterFunction"),
    (RUNTIME, layout.Naming.UNLOADS, "__cudaUnregisterFatBinary"),
    (RUNTIME, layout.Naming.LOOKS_UP, "cudaLibraryGetKernel"),
    (RUNTIME, layout.Naming.CONVERTS, "cudaGetKernel cudaGetFuncBySymbol"),
    (DRIVER, layout.Naming.LOOKS_UP, "cuModuleGetFunction cuLibraryGetKernel"),
    (DRIVER, layout.Naming.CONVERTS, "cuKernelGetFunction"),
)
"""Functions that reveal the names of CUDA kernels. Their calls are not counted, so they have no operation."""

_CHOOSING: Final[tuple[tuple[str, layout.Choosing, str], ...]] = (
    (DRIVER, layout.Choosing.BEGINS, "cuInit"),
    (RUNTIME, layout.Choosing.SETS_DEVICE, "cudaSetDevice"),
    (DRIVER, layout.Choosing.CREATES_2, "cuCtxCreate cuCtxCreate_v2"),
    (DRIVER, layout.Choosing.CREATES_3, "cuCtxCreate_v4"),
    (DRIVER, layout.Choosing.CREATES_4, "cuCtxCreate_v3"),
    (DRIVER, layout.Choosing.RETAINS, "cuDevicePrimaryCtxRetain"),
    (DRIVER, layout.Choosing.DESTROYS, "cuCtxDestroy cuCtxDestroy_v2"),
    (DRIVER, layout.Choosing.PUSHES, "cuCtxPushCurrent cuCtxPushCurrent_v2"),
    (DRIVER, layout.Choosing.POPS, "cuCtxPopCurrent cuCtxPopCurrent_v2"),
    (DRIVER, layout.Choosing.SETS_CONTEXT, "cuCtxSetCurrent"),
    (DRIVER, layout.Choosing.TELLS, "cuCtxGetDevice"),
    (DRIVER, layout.Choosing.TELLS_GPU, "cuDeviceGetUuid"),
    (DRIVER, layout.Choosing.TELLS_UUID, "cuDeviceGetUuid_v2"),
)
"""Functions that choose the device of a thread's calls, or reveal that device. Their calls are not counted.
The other tables list a function once for all its versions. This table lists each version, because later
versions have other arguments."""

_SYMBOL: Final = re.compile(r"((?:cu|cuda|nccl|__cuda)[A-Z]\w*?)(_v\d+)?(?:_pt[sd][sz])?")


def _build() -> tuple[tuple[OperationInfo, ...], tuple[Function, ...], dict[tuple[str, bool], Function]]:
    operations: list[OperationInfo] = []
    functions: list[Function] = []
    index: dict[tuple[str, bool], Function] = {}

    def add(symbol: str, operation: int, layer: str, rule: _Rule, *, old: bool) -> None:
        function = Function(
            len(functions) + 1,
            symbol,
            operation,
            layer,
            rule.size,
            rule.a,
            rule.b,
            rule.c,
            rule.direction,
            rule.d,
            NCCL_IN_PROGRESS if layer == NCCL else 0,
            # Addresses of CUDA before 3.2 have 32 bits, so memory of these functions is not followed.
            *(_OBJECTS.get(symbol, (Object.NONE, 0)) if not old else (Object.NONE, 0)),
            uses_device=kind_of(layer, symbol).family in _DEVICE_FAMILIES or symbol in _DEVICE_SYMBOLS,
        )
        functions.append(function)
        index[symbol, old] = function

    for layer, rule, symbols in _TABLE:
        for symbol in symbols.split():
            first = len(operations) + 1
            names = [symbol]
            if rule.direction is not Direction.NONE:
                names += [f"{symbol} {kind}" for kind in KINDS]
            operations += [OperationInfo(number, name, layer) for number, name in enumerate(names, first)]
            add(symbol, first, layer, rule, old=False)
            if symbol in _OLD:
                size = _OLD_SIZES.get(rule.size, Size.NONE)
                add(symbol, first, layer, replace(rule, size=size), old=True)
    cookie = layout.FUNCTIONS
    for layer, naming, symbols in _NAMING:
        for symbol in symbols.split():
            index[symbol, False] = Function(cookie + naming, symbol, 0, layer)
            cookie += NAMINGS
    cookie = FIRST_CHOOSING
    for layer, choosing, symbols in _CHOOSING:
        for symbol in symbols.split():
            index[symbol, False] = Function(cookie + choosing, symbol, 0, layer)
            cookie += CHOOSINGS
    return tuple(operations), tuple(functions), index


OPERATIONS: tuple[OperationInfo, ...]
"""The operations of all traced functions, sorted by id; ``operation`` returns one of them."""
FUNCTIONS: tuple[Function, ...]
"""Every function whose calls are counted, in the order of ids: the function with id i is element i - 1."""
OPERATIONS, FUNCTIONS, _INDEX = _build()


BETWEEN_CALLS: Final = (
    OperationInfo(layout.HOST_GAP, HOST_GAP, HOST_LAYER),
    OperationInfo(layout.HOST_WORK, HOST_WORK, HOST_LAYER),
)
"""Operations that count the time of a thread outside of calls."""

_BY_ID: Final = {info.id: info for info in (*OPERATIONS, *BETWEEN_CALLS)}


def operation(number: int) -> OperationInfo:
    """Returns the operation with id ``number``. Raises IndexError if there is none."""
    try:
        return _BY_ID[number]
    except KeyError:
        raise IndexError(f"no operation has the id {number}") from None


def match(symbol: str, layer: str) -> Function | None:
    """Returns the function of ``symbol`` in ``layer`` (runtime, driver or nccl), whatever its variant.
    Returns None if ``symbol`` is not traced."""
    found = _SYMBOL.fullmatch(symbol)
    if found is None:
        return None
    base, version = found.groups()
    function = _INDEX.get((base, version is None and base in _OLD))
    if function is None or function.id >= FIRST_CHOOSING:
        function = _INDEX.get((base + (version or ""), False))
    return function if function is not None and function.layer == layer else None
