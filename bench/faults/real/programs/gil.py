"""Makes steps on the device, while another Python thread computes during a part of every 200 ms. Number 0 of
the control file is this part, as a share from 0 to 1."""

import threading
import time

import control
import gpu


def compute() -> None:
    """Computes in Python, which holds the interpreter's lock."""
    number = 0
    while True:
        until = time.monotonic() + 0.2 * control.number()
        while time.monotonic() < until:
            for _ in range(1_000):
                number = (number * 1103515245 + 12345) & 0x7FFFFFFF
        if control.number() < 1.0:
            time.sleep(0.2 * (1.0 - control.number()))


threading.Thread(target=compute, name="metrics", daemon=True).start()
steps = 0
while True:
    gpu.step()
    steps += 1
    if steps == 20:
        control.ready()
