"""Makes steps on the device; another Python thread computes while number 0 of the control file is above 0."""

import threading
import time

import control
import gpu


def compute() -> None:
    """Computes in Python, which holds the interpreter's lock."""
    number = 0
    while True:
        if not control.number():
            time.sleep(0.05)
            continue
        for _ in range(100_000):
            number = (number * 1103515245 + 12345) & 0x7FFFFFFF


threading.Thread(target=compute, name="metrics", daemon=True).start()
steps = 0
while True:
    gpu.step()
    steps += 1
    if steps == 20:
        control.ready()
