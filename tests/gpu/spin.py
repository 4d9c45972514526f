"""Gives a GPU a known amount of work through the driver: ``spin.py MS COUNT``.

Each of the ``COUNT`` CUDA kernels takes ``MS`` ms while no other process uses the GPU. Prints ``ready`` and
waits for a line on stdin. Then gives the GPU ten of them at a time and waits for them; prints how long that
took, in ns, and waits for another line.
"""

import ctypes
import sys
import time

PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 turns, .param .u64 out)
{
    .reg .u64 %turn, %turns, %out, %time;
    .reg .f32 %value;
    .reg .pred %more;
    ld.param.u64 %turns, [turns];
    ld.param.u64 %out, [out];
    mov.u64 %turn, 0;
    mov.f32 %value, 0f3F800000;
    mov.u64 %time, %globaltimer;
    st.global.u64 [%out], %time;
again:
    fma.rn.f32 %value, %value, 0f3F7FFFFF, 0f33800000;
    fma.rn.f32 %value, %value, 0f3F7FFFFF, 0f33800000;
    add.u64 %turn, %turn, 1;
    setp.lt.u64 %more, %turn, %turns;
    @%more bra again;
    mov.u64 %time, %globaltimer;
    st.global.u64 [%out+8], %time;
    st.global.f32 [%out+16], %value;
    ret;
}
"""
TRIAL_TURNS = 2_000_000
TRIALS = 5
AT_ONCE = 10

cuda = ctypes.CDLL("libcuda.so.1")
device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
out = ctypes.c_uint64()


def check(error: int) -> None:
    if error:
        sys.exit(f"CUDA error {error}")


def launch(turns: int) -> None:
    given = ctypes.c_uint64(turns), out
    addresses = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in given))
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, addresses, None))


check(cuda.cuInit(0))
check(cuda.cuDeviceGet(ctypes.byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(PTX)))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"spin"))
check(cuda.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(24)))

times = (ctypes.c_uint64 * 2)()
for _ in range(TRIALS):  # the clock of an idle GPU rises in the first of them
    launch(TRIAL_TURNS)
    check(cuda.cuCtxSynchronize())
check(cuda.cuMemcpyDtoH_v2(times, out, ctypes.c_size_t(16)))
turns = round(TRIAL_TURNS * float(sys.argv[1]) * 1e6 / (times[1] - times[0]))
print("ready", flush=True)
sys.stdin.readline()

began = time.monotonic_ns()
for number in range(1, int(sys.argv[2]) + 1):
    launch(turns)
    if number % AT_ONCE == 0:
        check(cuda.cuCtxSynchronize())
print(time.monotonic_ns() - began, flush=True)
sys.stdin.readline()
