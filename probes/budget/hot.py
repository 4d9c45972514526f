"""Names the functions that programs may call very often. Each has probes of its own in a library, so that
they can be removed without those of other functions."""

from __future__ import annotations

from typing import Final

HOT: Final = frozenset(
    symbol
    for symbols in (
        # of the runtime
        "cudaLaunchKernel cudaLaunchKernelExC cudaGraphLaunch cudaMemcpyAsync cudaMemsetAsync",
        "cudaStreamSynchronize",
        # of the driver
        "cuLaunchKernel cuLaunchKernelEx cuGraphLaunch cuMemcpyHtoDAsync cuMemcpyDtoHAsync",
        "cuStreamSynchronize",
    )
    for symbol in symbols.split()
)
"""Symbols without a variant (``Function.symbol``): functions that give work to a device, which programs call
thousands of times per second, and the usual waits. Programs that wait by asking again and again make no
traced calls, because functions that only ask are not traced."""

TIMEABLE: Final = frozenset(
    symbol
    for symbols in (
        "cudaLaunchKernel cudaLaunchKernelExC cudaGraphLaunch",
        "cuLaunchKernel cuLaunchKernelEx cuGraphLaunch",
    )
    for symbol in symbols.split()
)
"""Hot functions of which not every call has to be timed: they neither have sizes, which a session does not
read, nor wait long. Of these functions, the runtime's call the driver's; none calls other hot functions."""
