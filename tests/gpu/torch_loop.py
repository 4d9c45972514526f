"""A loop of PyTorch on a GPU whose calls are known: ``torch_loop.py ROUNDS``; waits for two lines on stdin.

A round: one kernel, one graph of one kernel, a copy to the host (which waits), and a wait for the device.
"""

import importlib
import sys

torch = importlib.import_module("torch")  # the type checker has none to look at
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
