"""Makes steps on the device under a Python lock. Another thread takes it and sleeps. Number 0 of the control
file is how long it sleeps, ms."""

import threading
import time

import control
import gpu

guard = threading.Lock()


def refresh() -> None:
    """Holds the lock again and again."""
    while True:
        with guard:
            time.sleep(control.number() / 1e3)
        time.sleep(0.002)


threading.Thread(target=refresh, name="cache", daemon=True).start()
steps = 0
while True:
    with guard:
        gpu.step()
    steps += 1
    if steps == 20:
        control.ready()
