"""Launches, through the driver, a CUDA kernel that writes to address 0. Exits with 0 if the kernel failed,
which is expected."""

import ctypes
import sys

PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry faulty()
{
    .reg .u64 %address;
    mov.u64 %address, 0;
    st.global.u32 [%address], 1;
    ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")
device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()


def check(error: int) -> None:
    if error:
        sys.exit(f"CUDA error {error}")


check(cuda.cuInit(0))
check(cuda.cuDeviceGet(ctypes.byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(PTX)))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"faulty"))
check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))
sys.exit(0 if cuda.cuCtxSynchronize() else "the CUDA kernel did not fail")
