"""Formats the arguments of a captured call as one short text for a person.

Only informative arguments are shown, and only those passed in registers. The signatures are those of CUDA's
``cuda.h`` and ``cuda_runtime_api.h`` (11 to 13) and of ``nccl.h`` (2.x). All variants of a function have the
arguments that are shown.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from stalltop.probes.layout import TOLD
from stalltop.probes.operations import FUNCTIONS, KINDS

_Arguments = Sequence[int]
_Formatter = Callable[[_Arguments], str]
"""Returns ``name=value`` for one value, which may take several arguments."""

_NCCL_TYPES: Final = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16"),
    *("float8e4m3", "float8e5m2"),
)
"""``ncclDataType_t`` 0 to 11."""
_NCCL_OPS: Final = ("sum", "prod", "max", "min", "avg")
"""``ncclRedOp_t`` 0 to 4; higher values are operations that the program defined."""
_RANK_AT: Final = 2 if platform.machine() == "x86_64" else 3
"""Index of the argument ``rank``. The ncclUniqueId before it is passed by value: on x86-64 it is on the
stack, on aarch64 a register has its address."""


def _handle(name: str, at: int) -> _Formatter:
    """Formats a pointer, stream or other handle."""
    return lambda arguments: f"{name}={arguments[at]:#x}"


def _number(name: str, at: int) -> _Formatter:
    """Formats an ``int``."""

    def told(arguments: _Arguments) -> str:
        value = arguments[at] & 0xFFFFFFFF
        return f"{name}={value - (1 << 32) if value >> 31 else value}"

    return told


def _count(name: str, at: int) -> _Formatter:
    """Formats a ``size_t``."""
    return lambda arguments: f"{name}={arguments[at]}"


def _named(name: str, at: int, names: Sequence[str]) -> _Formatter:
    """Formats a value of an enum by its name."""

    def told(arguments: _Arguments) -> str:
        value = arguments[at] & 0xFFFFFFFF
        return f"{name}={names[value] if value < len(names) else value}"

    return told


def _dim3(name: str, at: int) -> _Formatter:
    """Formats a ``dim3`` passed by value, which takes two registers."""

    def told(arguments: _Arguments) -> str:
        first, second = arguments[at : at + 2]
        return f"{name}={first & 0xFFFFFFFF}x{first >> 32}x{second & 0xFFFFFFFF}"

    return told


def _three(name: str, at: int) -> _Formatter:
    """Formats three ``unsigned int`` arguments. An argument that is not in a captured register is shown as
    ``?``."""

    def told(arguments: _Arguments) -> str:
        known = [str(value & 0xFFFFFFFF) for value in arguments[at : at + 3]]
        return f"{name}={'x'.join(known + ['?'] * (3 - len(known)))}"

    return told


_TO_FROM: Final = (_handle("to", 0), _handle("from", 1))
_RUNTIME_LAUNCH: Final = (_dim3("grid", 1), _dim3("block", 3))
_DRIVER_LAUNCH: Final = (_three("grid", 1), _three("block", 4))
_REDUCED: Final = (_count("count", 2), _named("type", 3, _NCCL_TYPES), _named("op", 4, _NCCL_OPS))
_MOVED: Final = (_count("count", 2), _named("type", 3, _NCCL_TYPES))
_BUFFER: Final = (_count("count", 1), _named("type", 2, _NCCL_TYPES))

_TABLE: Final[tuple[tuple[Sequence[_Formatter], str], ...]] = (
    (_RUNTIME_LAUNCH, "cudaLaunchKernel cudaLaunchCooperativeKernel"),
    (_DRIVER_LAUNCH, "cuLaunchKernel cuLaunchCooperativeKernel"),
    ((_handle("graph", 0), _handle("stream", 1)), "cuGraphLaunch cudaGraphLaunch"),
    ((_handle("graph", 1),), "cuGraphInstantiate cuGraphInstantiateWithFlags cuGraphInstantiateWithParams"),
    ((_handle("graph", 1),), "cudaGraphInstantiate cudaGraphInstantiateWithFlags"),
    ((_handle("graph", 1),), "cudaGraphInstantiateWithParams"),
    ((_handle("stream", 0),), "cuStreamBeginCapture cuStreamBeginCaptureToGraph cuStreamEndCapture"),
    ((_handle("stream", 0),), "cudaStreamBeginCapture cudaStreamBeginCaptureToGraph cudaStreamEndCapture"),
    ((_handle("stream", 2),), "cuMemAllocAsync cudaMallocAsync"),
    ((_handle("pool", 2), _handle("stream", 3)), "cuMemAllocFromPoolAsync cudaMallocFromPoolAsync"),
    ((_handle("address", 0),), "cuMemFree cuMemFreeHost cuMemHostUnregister cudaFree cudaFreeHost"),
    ((_handle("address", 0),), "cudaHostUnregister cuMemPrefetchAsync cudaMemPrefetchAsync"),
    ((_handle("address", 0), _handle("stream", 1)), "cuMemFreeAsync cudaFreeAsync"),
    ((_number("flags", 2),), "cuMemHostAlloc cudaHostAlloc cuMemAllocManaged cudaMallocManaged"),
    ((_handle("address", 0), _number("flags", 2)), "cuMemHostRegister cudaHostRegister"),
    ((_handle("address", 0),), "cuMemMap cuMemUnmap cuMemSetAccess cuMemAddressFree"),
    (_TO_FROM, "cuMemcpy cuMemcpyHtoD cuMemcpyDtoH cuMemcpyDtoD"),
    (
        (*_TO_FROM, _handle("stream", 3)),
        "cuMemcpyAsync cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuMemcpyDtoDAsync",
    ),
    ((_named("copy", 3, KINDS), *_TO_FROM), "cudaMemcpy"),
    ((_named("copy", 3, KINDS), *_TO_FROM, _handle("stream", 4)), "cudaMemcpyAsync"),
    (
        (_named("copy", 4, KINDS), _handle("to", 0), _handle("from", 1), _handle("stream", 5)),
        "cudaMemcpyToSymbolAsync cudaMemcpyFromSymbolAsync",
    ),
    ((_named("copy", 4, KINDS), *_TO_FROM), "cudaMemcpyToSymbol cudaMemcpyFromSymbol"),
    ((_handle("to", 0), _handle("from", 2)), "cuMemcpyPeer"),
    ((_handle("to", 0), _handle("from", 2), _handle("stream", 5)), "cuMemcpyPeerAsync"),
    ((_number("to", 1), _number("from", 3)), "cudaMemcpyPeer"),
    ((_number("to", 1), _number("from", 3), _handle("stream", 5)), "cudaMemcpyPeerAsync"),
    (
        (_handle("to", 0), _handle("from", 2), _count("width", 4), _count("height", 5)),
        "cudaMemcpy2D cudaMemcpy2DAsync",
    ),
    ((_handle("stream", 1),), "cuMemcpy2DAsync cuMemcpy3DAsync cuMemcpy3DPeerAsync"),
    ((_handle("stream", 1),), "cudaMemcpy3DAsync cudaMemcpy3DPeerAsync"),
    ((_handle("to", 0), _number("value", 1)), "cuMemsetD8 cuMemsetD16 cuMemsetD32 cudaMemset"),
    (
        (_handle("to", 0), _number("value", 1), _handle("stream", 3)),
        "cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async cudaMemsetAsync",
    ),
    ((_handle("to", 0), _number("value", 2)), "cuMemsetD2D8 cuMemsetD2D16 cuMemsetD2D32 cudaMemset2D"),
    (
        (_handle("to", 0), _number("value", 2), _handle("stream", 5)),
        "cuMemsetD2D8Async cuMemsetD2D16Async cuMemsetD2D32Async cudaMemset2DAsync",
    ),
    ((_handle("stream", 0),), "cuStreamSynchronize cudaStreamSynchronize"),
    ((_handle("event", 0),), "cuEventSynchronize cudaEventSynchronize"),
    ((_handle("stream", 0), _handle("event", 1)), "cuStreamWaitEvent cudaStreamWaitEvent"),
    ((*_REDUCED, _handle("communicator", 5)), "ncclAllReduce ncclReduceScatter"),
    ((*_REDUCED, _number("root", 5)), "ncclReduce"),
    ((*_MOVED, _handle("communicator", 4), _handle("stream", 5)), "ncclAllGather ncclAlltoAll"),
    ((*_MOVED, _number("root", 4), _handle("communicator", 5)), "ncclBroadcast ncclGather ncclScatter"),
    (
        (*_BUFFER, _number("root", 3), _handle("communicator", 4), _handle("stream", 5)),
        "ncclBcast",
    ),
    (
        (*_BUFFER, _number("peer", 3), _handle("communicator", 4), _handle("stream", 5)),
        "ncclSend ncclRecv",
    ),
    ((_number("ranks", 1), _number("rank", _RANK_AT)), "ncclCommInitRank ncclCommInitRankConfig"),
    ((_number("ranks", 1),), "ncclCommInitAll ncclCommInitRankScalable"),
    ((_handle("communicator", 0), _number("color", 1), _number("key", 2)), "ncclCommSplit"),
    ((_handle("communicator", 0),), "ncclCommFinalize ncclCommDestroy ncclCommAbort ncclCommRevoke"),
)

_IDS: Final[dict[str, list[int]]] = {}
for _function in FUNCTIONS:
    _IDS.setdefault(_function.symbol, []).append(_function.id)
_OF_FUNCTION: Final[Mapping[int, Sequence[_Formatter]]] = {
    number: told for told, symbols in _TABLE for symbol in symbols.split() for number in _IDS[symbol]
}


@lru_cache(maxsize=1024)
def argument_text(function: int, arguments: tuple[int, ...]) -> str:
    """Returns the captured arguments of a call of this function (``Function.id``) as ``name=value`` pairs.
    The latest results are kept: a program repeats its calls with the same streams, buffers and sizes."""
    if len(arguments) < TOLD:
        return ""
    return " ".join([told(arguments) for told in _OF_FUNCTION.get(function, ())])
