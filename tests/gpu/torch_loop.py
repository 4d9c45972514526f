"""Runs a loop of PyTorch with known calls on a GPU: ``torch_loop.py ROUNDS``.

A round is one CUDA kernel, one CUDA graph of one kernel, a copy to the host (which waits), and a wait for the
device. The program waits for a line on stdin before the loop, and for another line before it ends.
"""

import importlib
import sys

torch = importlib.import_module("torch")  # mypy does not find torch, which may be missing
ROUNDS = int(sys.argv[1])
values = torch.zeros(1 << 16, device="cuda")
values.add_(1.0)
stream = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
with torch.cuda.stream(stream):
    values.add_(1.0)
    stream.synchronize()
    graph.capture_begin()
    values.add_(1.0)
    graph.capture_end()
host = torch.empty(1 << 16, pin_memory=True)
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.readline()

for _ in range(ROUNDS):
    values.add_(1.0)
    graph.replay()
    host.copy_(values)
    torch.cuda.synchronize()
print("done", flush=True)
sys.stdin.readline()
