"""Calls functions of the real CUDA runtime through ctypes: ``caller.py LIBCUDART ROUNDS``.

Prints ``ready`` and waits for a line on stdin before its ``ROUNDS`` of calls. Then prints how many ns it has
waited for the GPU, and waits for another line before it ends.
"""

import ctypes
import json
import sys
import time

SIZE_BYTES = 1 << 20
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2

runtime = ctypes.CDLL(sys.argv[1])
memory, host = ctypes.c_void_p(), ctypes.create_string_buffer(SIZE_BYTES)
assert runtime.cudaFree(None) == 0, "no GPU answers"

# Capture a memset, which makes a CUDA graph of one node.
stream, graph, launched = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
kept, THREAD_LOCAL = ctypes.c_void_p(), 1
assert runtime.cudaMalloc(ctypes.byref(kept), ctypes.c_size_t(SIZE_BYTES)) == 0
assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
assert runtime.cudaStreamBeginCapture(stream, THREAD_LOCAL) == 0
assert runtime.cudaMemsetAsync(kept, 1, ctypes.c_size_t(SIZE_BYTES), stream) == 0
assert runtime.cudaStreamEndCapture(stream, ctypes.byref(graph)) == 0
# cudaGraphInstantiate has five arguments before CUDA 12, and three since then: the third one, flags, is also
# 0 here.
assert runtime.cudaGraphInstantiate(ctypes.byref(launched), graph, None, None, ctypes.c_size_t(0)) == 0
print("ready", flush=True)
sys.stdin.readline()

waited_ns = []
for _ in range(int(sys.argv[2])):
    assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(SIZE_BYTES)) == 0
    assert runtime.cudaMemcpy(memory, host, ctypes.c_size_t(SIZE_BYTES), HOST_TO_DEVICE) == 0
    assert runtime.cudaMemset(memory, 1, ctypes.c_size_t(SIZE_BYTES)) == 0
    assert runtime.cudaGraphLaunch(launched, stream) == 0
    began = time.monotonic_ns()
    assert runtime.cudaDeviceSynchronize() == 0
    waited_ns.append(time.monotonic_ns() - began)
    assert runtime.cudaMemcpy(host, memory, ctypes.c_size_t(SIZE_BYTES), DEVICE_TO_HOST) == 0
    assert runtime.cudaFree(memory) == 0
print(json.dumps(sum(waited_ns)), flush=True)
sys.stdin.readline()
