"""Makes steps on the device while holding a Python lock. Another thread takes the same lock again and again,
and sleeps while holding it. Number 0 of the control file is the length of that sleep, ms."""

import threading
import time

import control
import gpu

guard = threading.Lock()


def refresh() -> None:
    """Takes the lock and sleeps while holding it, again and again."""
    while True:
        with guard:
            time.sleep(control.number() / 1e3)
        time.sleep(0.002)


threading.Thread(target=refresh, name="cache", daemon=True).start()
steps = 0
while True:
    with guard:
        gpu.step()
    # Without a pause, this thread would take the lock again before the other one is awake.
    time.sleep(0.001)
    steps += 1
    if steps == 20:
        control.ready()
